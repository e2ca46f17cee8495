/* The life of a worker: takes tasks, runs them, gives what they return. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "task/actor.h"
#include "task/deadlock.h"
#include "task/engine.h"
#include "task/gpus.h"
#include "task/mailbox.h"
#include "task/output.h"
#include "task/process.h"
#include "task/store.h"
#include "task/run.h"
#include "task/worker_engine.h"

/* A call that this worker was given. */
typedef struct given_call {
    bti_task_record *record;
    uint32_t number;
} given_call;

static const bti_task_record *current; /* what this process runs; of an actor its making */

int bti_worker_gpus(int *ids, int capacity) {
    const bti_state *state = bti_process_now.state;
    const bti_task_record *task = state ? current : NULL;
    int count = 0;
    for (int g = 0; task && g < state->gpu_count; g++) {
        if (!(task->gpus >> g & 1)) continue;
        if (ids && count < capacity) ids[count] = state->gpu_number[g];
        count++;
    }
    return count;
}

/* --- running --------------------------------------------------------------------------------------------------------- */

static bt_status resolve(void *call, const bti_packed_value *reference, const char **packed, void **owner) {
    (void)call;
    bti_object *object = bti_object_of(bti_process_now.state, reference->as.id);
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return bti_object_failure(object);
    *packed = bti_object_value(object);
    *owner = object;
    return BT_OK;
}

static bt_status result_room(void *call, int index, uint64_t bytes, uint64_t left, char **room) {
    const given_call *g = call;
    *room = NULL;
    if (bytes <= left && bti_worker_goes_along(bti_process_now.state, bytes)) return BT_OK;
    return bti_worker_result_room(g->number, (uint32_t)index, bytes, room);
}

static void seal(void *call, char *room, uint64_t bytes) {
    (void)call;
    bti_worker_seal(room, bytes);
}

static bool is_cancelled(const void *call) {
    return *(volatile const bool *)&((const given_call *)call)->record->cancelled; /* others set it */
}

static void keep(void *call, const char *packed) { bti_worker_keep(((const given_call *)call)->number, packed); }

static const bti_run_table table = {resolve, result_room, seal, is_cancelled, keep};

static bt_status run_given(given_call *g, bti_run_result *result) {
    const bti_task_record *record = g->record;
    if (record->cancelled) return bti_fail(BT_CANCELLED, "the call was cancelled before it began");
    BTI_TRY(bti_worker_pin_arguments(g->number, record));
    bti_run run = {.table = &table,
                   .call = g,
                   .module = record->function->module,
                   .function = record->function->name,
                   .makes_actor = record->makes_actor,
                   .arguments = bti_arguments_of(record),
                   .bytes = record->pack ? record->pack->bytes : sizeof record->small_arguments,
                   .num_returns = (int)bti_result_count(record),
                   .owner = record->pack};
    return bti_run_call(&run, result);
}

/* --- the next ---------------------------------------------------------------------------------------------------------- */

static void tell_done(bti_state *state, bti_client *me, const given_call *g, const bti_run_result *result,
                      bt_status status, uint64_t begun_ns) {
    bti_message m = {.kind = BTI_SAYS_DONE,
                     .number = g->number,
                     .status = (uint32_t)status,
                     .slot = BTI_NO_REPLY,
                     .begun_ns = begun_ns,
                     .length = result->bytes};
    char text[1200];
    const char *bytes = result->small;
    if (bti_result_count(g->record) == 1) { /* of one its bytes alone */
        bytes += sizeof(uint64_t);
        m.length -= sizeof(uint64_t);
    }
    if (status != BT_OK) {
        snprintf(text, sizeof text, "%s", *bt_error_text() ? bt_error_text() : bt_status_name(status));
        bytes = text;
        m.length = strlen(text) + 1;
    }
    bti_mail_send(state, me, &m, bytes, g->record->result);
}

static void run(bti_state *state, bti_client *me, bti_task_record *record, uint32_t number) {
    given_call g = {record, number};
    bti_run_result result;
    result.bytes = 0;
    uint64_t begun_ns = me->mail->begun_ns[number % BTI_AHEAD] = bti_now_ns();
    if (!me->actor || record->makes_actor) current = record;
    bt_error_clear();
    if (record->queue) bti_surroundings_cpus(record->queue->amounts.of[0]);
    if (state->prefix_output && (!me->actor || record->makes_actor)) bti_output_name(record->function->name);
    bt_status status = run_given(&g, &result);
    if (!bti_process_now.state) _exit(1); /* a child that the function forked */
    bti_output_flush();
    bti_loans_keep();
    tell_done(state, me, &g, &result, status, begun_ns);
    if (!me->actor) current = NULL;
}

static void thread_ended(void *unused) {
    static const char text[] = "the function ended its thread (pthread_exit)\n";
    (void)unused;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
}

static _Noreturn void mailbox_is_damaged(void) {
    static const char text[] = "the memory by which this worker is given calls is damaged\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
}

/* Claims the next call; NULL: the worker is to end. */
static bti_task_record *next_task(bti_mailbox *mail, uint32_t *number) {
    static bti_patience patience;
    for (;;) {
        unsigned seen = atomic_load(&mail->bell), given = *number << 2 | BTI_GIVEN;
        atomic_uint *tag = &mail->tag[*number % BTI_AHEAD];
        if (atomic_compare_exchange_strong(tag, &given, *number << 2 | BTI_TAKEN))
            return mail->task[*number % BTI_AHEAD];
        int32_t later = (int32_t)((given & ~3u) - (*number << 2)) / 4; /* one took the place of a revoked one */
        if (given && (later > 2 * BTI_AHEAD || later < -2 * BTI_AHEAD)) mailbox_is_damaged();
        if ((given && later > 0) || given == (*number << 2 | BTI_REVOKED)) {
            ++*number;
            continue;
        }
        if (bti_spin_on(&mail->bell, seen, &patience)) continue;
        atomic_store(&mail->sleeping, 1);
        if (atomic_load(&mail->bell) == seen) bti_sleep_on(&mail->bell, seen, 0);
        atomic_store(&mail->sleeping, 0);
    }
}

static _Noreturn void end(bti_state *state) {
    bti_run_end();
    bti_output_flush();
    fflush(NULL);
    if (bti_threads_of_user(getpid()) <= 1)
        bti_arena_close(state->arena); /* valgrind would look for pointers in all of it */
    _exit(0);
}

void bti_worker_run(bti_state *state, bti_client *me) {
    bti_process_now = (bti_process){state, me, 1};
    bti_engine_join(&bti_engine_worker);
    prctl(PR_SET_NAME, "berth worker");
    bti_task_record *task;
    bool protected = bti_worker_protect(state, me) == BT_OK;
    if (!protected) {
        dprintf(STDERR_FILENO, "%s\n", bt_error_text());
        _exit(1);
    }
    pthread_cleanup_push(thread_ended, NULL);
    if (!me->actor) bti_surroundings_keep();
    for (uint32_t number = 0; (task = next_task(me->mail, &number)) != NULL; number++) {
        if (!me->actor || task->makes_actor) bti_gpus_show(state, task);
        run(state, me, task, number);
        bti_surroundings_put_back();
    }
    end(state);
    pthread_cleanup_pop(0);
}

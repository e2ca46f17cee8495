/* The life of a worker: takes tasks, runs them, gives what they return. */
#include <signal.h>
#include <stdarg.h>
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
#include "task/worker_engine.h"
#include "task/value.h"

struct bt_task {
    bti_task_record *record;
    uint32_t number;       /* of those that this worker was given */
    const char *arguments; /* packed */
    const char *name;
    uint64_t bytes; /* of what it returned, packed: below, or, when it is large, in the store */
    char *room;     /* there; NULL */
    char small[BTI_PAGED_BYTES / 2];
};

static const bti_task_record *current; /* what this process runs; of an actor its making */
static void *actor_state;
static void (*actor_release)(void *state);

/* --- what a task asks ------------------------------------------------------------------------------------------------ */

int bt_argument_count(const bt_task *task) { return task ? bti_packed_count(task->arguments) : 0; }

static bt_status no_task(void) { return bti_fail(BT_INVALID_ARGUMENT, "the task is NULL"); }

/* The value itself, of a reference that which it stands for, and the object that it lies in. */
static bti_unpacked_value argument(const bt_task *task, int index, bti_object **owner) {
    bti_unpacked_value value = bti_unpack(task->arguments, index);
    *owner = task->record->pack;
    if (value.head.type != BT_REFERENCE) return value;
    *owner = value.head.as.object;
    return bti_unpack(bti_object_value(*owner), 0);
}

bt_value_type bt_argument_type(const bt_task *task, int index) {
    bti_object *owner;
    if (index < 0 || index >= bt_argument_count(task)) return BT_NOTHING;
    return (bt_value_type)argument(task, index, &owner).head.type;
}

bt_status bti_argument(bt_task *task, int index, bt_value_type type, size_t bytes, void *out) {
    if (!task) return no_task();
    if (index < 0 || index >= bt_argument_count(task))
        return bti_fail(BT_OUT_OF_RANGE, "%s wants argument %d; it was called with %d", task->name, index + 1,
                        bt_argument_count(task));
    bti_object *owner;
    bti_unpacked_value value = argument(task, index, &owner);
    return bti_value_to(&value, owner, type, bytes, out, task->name, index);
}

bt_status bti_arguments(bt_task *task, const bti_variable *variables, int count) {
    if (!task) return no_task();
    BTI_TRY(bti_check_list(variables, count, "variables"));
    for (int i = 0; i < count; i++)
        BTI_TRY(bti_argument(task, i, variables[i].type, variables[i].bytes, variables[i].out));
    return BT_OK;
}

bool bt_task_cancelled(const bt_task *task) {
    return task && *(volatile const bool *)&task->record->cancelled; /* others set it */
}

int bt_get_gpu_ids(int *ids, int capacity) {
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

void bt_set_state(bt_task *task, void *state, void (*release)(void *state)) {
    (void)task;
    if (actor_release && actor_state) actor_release(actor_state);
    actor_state = state;
    actor_release = release;
}

void *bt_state(bt_task *task) {
    (void)task;
    return actor_state;
}

/* --- what it gives --------------------------------------------------------------------------------------------------- */

bt_status bti_return(bt_task *task, const bt_item_value *value) {
    if (!task) return no_task();
    if (!value) return bti_fail(BT_INVALID_ARGUMENT, "%s returns a value that is NULL", task->name);
    if (!bti_process_now.state)
        return bti_fail(BT_FAILED_PRECONDITION, "%s forked this process, which is no worker", task->name);
    if (task->record->makes_actor)
        return bti_fail(BT_FAILED_PRECONDITION, "%s makes an actor: it sets a state (bt_set_state) and returns nothing",
                        task->name);
    BTI_TRY(bti_check_value(value, task->name));
    uint64_t bytes = bti_pack_bytes(value, 1);
    char *room = task->small;
    task->room = NULL; /* what it returned before is given up with the next room, or the end */
    if (!bti_worker_goes_along(bti_process_now.state, bytes)) {
        BTI_TRY(bti_worker_result_room(task->number, bytes, &room));
        task->room = room;
    }
    task->bytes = bytes;
    bt_status status = bti_pack(value, 1, room);
    if (task->room) bti_worker_seal(room, bytes);
    return status;
}

bt_status bt_task_fail(bt_task *task, bt_status status, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format ? format : "", list);
    va_end(list);
    (void)task;
    return bti_fail(status, "%s", text);
}

/* --- running --------------------------------------------------------------------------------------------------------- */

/* A failed argument fails the task, with that first cause and its place. */
static bt_status check_arguments(const bt_task *task) {
    bti_nowhere nowhere = bti_nowhere_begin();
    bt_status status = BT_OK;
    for (int i = 0; i < bti_packed_count(task->arguments) && status == BT_OK; i++) {
        bti_unpacked_value value = bti_unpack(task->arguments, i);
        const bti_object *object = value.head.as.object;
        if (value.head.type == BT_REFERENCE && atomic_load(&object->state) == BTI_OBJECT_FAILED)
            status = bti_object_failure(object);
    }
    bti_nowhere_end(nowhere);
    return status;
}

static bt_status call(bt_task *task) {
    const bti_function_record *f = task->record->function;
    const bt_remote_entry *entry = NULL;
    BTI_TRY(bti_module_find(f->module, f->name, &entry));
    bt_status status = BT_OK;
    BT_SCOPE
        status = entry->function(task);
    return status;
}

/* The list is checked: others may have written it. */
static bt_status make_ready(bt_task *task) {
    const bti_task_record *record = task->record;
    if (record->cancelled) return bti_fail(BT_CANCELLED, "the call was cancelled before it began");
    BTI_TRY(bti_worker_pin_arguments(task->number, record));
    const char *packed = bti_arguments_of(record);
    uint64_t bytes = record->pack ? record->pack->bytes : sizeof record->small_arguments;
    if (!packed || !bti_packed_is_whole(packed, bytes)) return bti_fail(BT_INTERNAL, "the arguments are damaged");
    task->arguments = packed;
    return check_arguments(task);
}

/* --- the next ---------------------------------------------------------------------------------------------------------- */

static void tell_done(bti_state *state, bti_client *me, const bt_task *task, bt_status status, uint64_t begun_ns) {
    bti_message m = {.kind = BTI_SAYS_DONE,
                     .number = task->number,
                     .status = (uint32_t)status,
                     .slot = BTI_NO_REPLY,
                     .begun_ns = begun_ns,
                     .length = task->room ? 0 : task->bytes};
    char text[1200];
    const char *bytes = task->small;
    if (status != BT_OK) {
        snprintf(text, sizeof text, "%s", *bt_error_text() ? bt_error_text() : bt_status_name(status));
        bytes = text;
        m.length = strlen(text) + 1;
    }
    bti_mail_send(state, me, &m, bytes, task->record->result);
}

static void run(bti_state *state, bti_client *me, bti_task_record *record, uint32_t number) {
    bt_task task;
    task.record = record;
    task.number = number;
    task.arguments = NULL;
    task.name = record->function->name;
    task.room = NULL;
    task.bytes = 8;
    memset(task.small, 0, 8);
    uint64_t begun_ns = me->mail->begun_ns[number % BTI_AHEAD] = bti_now_ns();
    if (!me->actor || record->makes_actor) current = record;
    bt_error_clear();
    bt_status status = make_ready(&task);
    if (record->queue) bti_surroundings_cpus(record->queue->amounts.of[0]);
    if (state->prefix_output && (!me->actor || record->makes_actor)) bti_output_name(task.name);
    if (status == BT_OK) status = call(&task);
    if ((unsigned)status > BT_UNAUTHENTICATED)
        status = bti_fail(BT_UNKNOWN, "the function returned %d, which is no status", (int)status);
    if (!bti_process_now.state) _exit(1); /* a child that the function forked */
    bti_output_flush();
    bti_loans_keep();
    tell_done(state, me, &task, status, begun_ns);
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
    static uint32_t patience;
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
    if (actor_release && actor_state) actor_release(actor_state);
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

#include "task/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/guest.h"
#include "task/actor.h"
#include "task/gpu_use.h"
#include "task/handles.h"
#include "task/loan.h"
#include "task/mailbox.h"
#include "task/object.h"
#include "task/output.h"
#include "task/placement.h"
#include "task/proc.h"
#include "task/process.h"
#include "task/surroundings.h"
#include "task/run.h"
#include "task/tasks.h"
#include "task/worker_engine.h"

/* A call that this worker was given. */
typedef struct given_call {
    bti_task_record *record;
    uint32_t number;
} given_call;

/* --- running --------------------------------------------------------------------------------------------------------- */

static bt_status resolve_argument(void *call, const bti_packed_value *reference, const char **packed, void **owner) {
    (void)call;
    bti_object *object = bti_object_of(bti_process_now.state, reference->as.id);
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return bti_object_failure(object);
    *packed = bti_object_value(object);
    *owner = object;
    return BT_OK;
}

static bt_status find_result_room(void *call, int index, uint64_t bytes, uint64_t left, char **room) {
    const given_call *g = call;
    *room = NULL;
    if (bytes <= left && bti_worker_goes_along(bti_process_now.state, bytes)) return BT_OK;
    return bti_worker_result_room(g->number, (uint32_t)index, bytes, room);
}

static void seal_room(void *call, char *room, uint64_t bytes) {
    (void)call;
    bti_worker_seal(room, bytes);
}

static bool call_is_cancelled(const void *call) {
    return *(volatile const bool *)&((const given_call *)call)->record->cancelled; /* schedulers set it */
}

static bt_status keep_result(void *call, const char *packed) {
    bti_worker_keep(((const given_call *)call)->number, packed);
    return BT_OK; /* a scheduler that is out of records fails the result */
}

static bt_status yield_item(void *call, const bti_values *value) {
    const bti_task_record *record = ((const given_call *)call)->record;
    if (*(volatile const bool *)&record->stream_refused)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s has yielded more items than can be kept until they are read",
                        record->function->name);
    return bti_worker_yield(((const given_call *)call)->number, value);
}

static const bti_run_table worker_run_table = {resolve_argument,  find_result_room, seal_room,
                                               call_is_cancelled, keep_result,      yield_item};

static bt_status run_given(given_call *g, bti_run_result *result) {
    const bti_task_record *record = g->record;
    if (record->cancelled) return bti_fail(BT_CANCELLED, "the call was cancelled before it began");
    BTI_TRY(bti_worker_pin_arguments(g->number, record));
    bti_call_run run = {.table = &worker_run_table,
                        .call = g,
                        .module = record->function->module,
                        .function = record->function->name,
                        .makes_actor = record->makes_actor,
                        .arguments = bti_arguments_of(record),
                        .bytes = record->pack ? record->pack->bytes : sizeof record->small_arguments,
                        .num_returns = (int)bti_result_count(record),
                        .yielded = record->yielded,
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
    if (bti_result_count(g->record) == 1) { /* a single result is sent without its size */
        bytes += sizeof(uint64_t);
        m.length -= sizeof(uint64_t);
    }
    if (status != BT_OK) {
        snprintf(text, sizeof text, "%s", *bt_error_text() ? bt_error_text() : bt_status_name(status));
        bytes = text;
        m.length = strlen(text) + 1;
    }
    bti_mail_send(state, me, &m, bytes, atomic_load(&result->yielded_here) ? NULL : g->record->result);
}

/* Marks how much standard error has got (bti_output_mark), so that the tail that is reported belongs to the right call. Done after each
 * call behind which no other was given, that is, before any call that depends on its result. It costs a system call, so between calls that
 * were given together it is done at most once in mark_ns. Not done where several methods run at once. */
static const uint64_t mark_ns = 20000;
static uint64_t marked_ns;                               /* when the last call began that it was done for */
static enum { NOT_MARKED, MARKED, TO_BE_MARKED } marked; /* for the next call */

static void mark_errors(const bti_client *me, int tries) {
    marked = bti_output_mark(&me->errors_read, &me->mail->errors_mark, tries) ? MARKED : TO_BE_MARKED;
}

static void mark_before(const bti_client *me, uint64_t begun_ns) {
    if (me->at_once > 1) return;
    if (marked == TO_BE_MARKED || (!marked && begun_ns - marked_ns >= mark_ns)) mark_errors(me, 1000);
    if (marked) marked_ns = begun_ns;
    marked = NOT_MARKED;
}

static bt_status start_methods(const bti_client *me, uint32_t next);

static void run_call(bti_state *state, bti_client *me, given_call *g) {
    const bti_task_record *record = g->record;
    bti_run_result result;
    result.bytes = 0;
    atomic_init(&result.yielded_here, 0);
    uint64_t begun_ns = me->mail->begun_ns[g->number % BTI_GIVEN_SLOTS] = bti_now_ns();
    mark_before(me, begun_ns);
    if (!me->actor || record->makes_actor) bti_worker_set_task(record);
    bti_worker_runs(g->number);
    bt_error_clear();
    if (record->queue) bti_surroundings_cpus(record->queue->amounts.of[0]);
    if (state->prefix_output && (!me->actor || record->makes_actor)) bti_output_name(record->function->name);
    bt_status status = run_given(g, &result);
    if (!bti_process_now.state) _exit(1); /* a child that the function forked */
    if (status == BT_OK && record->makes_actor && me->at_once > 1) status = start_methods(me, g->number + 1);
    bti_output_flush();
    bti_loans_keep(record);
    bti_worker_runs(BTI_NO_CALL);
    bool is_last = me->at_once <= 1 && atomic_load(&me->mail->bell) == g->number + 1;
    tell_done(state, me, g, &result, status, begun_ns);
    if (is_last) mark_errors(me, 10);
    if (!me->actor) bti_worker_set_task(NULL);
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

/* Claims the first call with a number in [*next, end). Its record is NULL if the worker is to end. False: no call is given. */
static bool claim_call(bti_mailbox *mail, uint32_t *next, uint32_t end, given_call *g) {
    if (end - *next > BTI_GIVEN_SLOTS * BTI_GIVEN_SLOTS) mailbox_is_damaged();
    for (; *next != end; ++*next) {
        uint32_t slot = *next % BTI_GIVEN_SLOTS;
        unsigned tag = bti_given_tag(*next, BTI_GIVEN);
        if (atomic_compare_exchange_strong(&mail->tag[slot], &tag, bti_given_tag(*next, BTI_TAKEN))) {
            *g = (given_call){mail->task[slot], (*next)++};
            return true;
        }
        if ((tag >> 2) % BTI_GIVEN_SLOTS != slot || !(tag & 3)) mailbox_is_damaged();
    } /* numbers in between were revoked, or left out */
    return false;
}

static given_call next_call(bti_mailbox *mail, uint32_t *next) {
    static bti_patience patience;
    given_call g;
    for (;;) {
        unsigned seen = atomic_load(&mail->bell);
        if (claim_call(mail, next, seen, &g)) return g;
        if (bti_spin_on(&mail->bell, seen, &patience)) continue;
        atomic_store(&mail->sleeping, 1);
        if (atomic_load(&mail->bell) == seen) bti_sleep_on(&mail->bell, seen, 0);
        atomic_store(&mail->sleeping, 0);
    }
}

/* --- several methods at once ----------------------------------------------------------------------------------------------- */

/* Threads that run the methods of an actor with .max_concurrency above 1. The first thread of the process makes the actor and releases its
 * state. While a thread waits for a method it blocks all signals: a thread that does not counts as running the user's code
 * (bti_threads_of_user). */
static struct {
    bti_lock lock; /* protects `next` and `ends`; nothing is called under it */
    uint32_t next;
    bool ends;
    atomic_uint asleep;
    atomic_bool spins; /* one of the threads spins; only it uses `patience` */
    bti_patience patience;
    uintptr_t count;
    pthread_t threads[BTI_MOST_AT_ONCE];
} methods = {.lock = BTI_LOCK_INIT(task_methods)};

/* A scheduler wakes one thread, however many calls it gives; each thread that has claimed a call wakes another. `next`: the number after
 * the claimed one. */
static void wake_another(bti_mailbox *mail, uint32_t next) {
    if (!atomic_load(&methods.asleep)) return;
    atomic_store(&mail->sleeping, 1);
    if (atomic_load(&mail->bell) != next && atomic_exchange(&mail->sleeping, 0)) bti_wake_one(&mail->bell);
}

static void sleep_for_method(bti_mailbox *mail, unsigned seen) {
    if (!atomic_exchange(&methods.spins, true)) {
        bool changed = bti_spin_on(&mail->bell, seen, &methods.patience);
        atomic_store(&methods.spins, false);
        if (changed) return;
    }
    (void)bti_calm_begin();
    atomic_fetch_add(&methods.asleep, 1);
    atomic_store(&mail->sleeping, 1);
    if (atomic_load(&mail->bell) == seen) bti_sleep_once(&mail->bell, seen, 0);
    atomic_fetch_sub(&methods.asleep, 1);
}

/* False: the worker is to end. */
static bool next_method(bti_mailbox *mail, given_call *g) {
    for (;;) {
        bti_lock_take(&methods.lock);
        unsigned seen = atomic_load(&mail->bell); /* read under the lock: not older than the `next` of another thread */
        bool claimed = !methods.ends && claim_call(mail, &methods.next, seen, g);
        if (claimed && !g->record) methods.ends = true;
        bool ends = methods.ends;
        uint32_t next = methods.next;
        bti_lock_give(&methods.lock);
        if (ends) return bti_wake_now(&mail->bell), false;
        if (claimed) return wake_another(mail, next), true;
        sleep_for_method(mail, seen);
    }
}

static void *run_methods(void *argument) {
    bti_client *me = bti_process_now.me;
    given_call g;
    sigset_t none;
    sigemptyset(&none);
    pthread_cleanup_push(thread_ended, NULL);
    while (next_method(me->mail, &g)) {
        pthread_sigmask(SIG_SETMASK, &none, NULL); /* whatever the last method has blocked */
        me->mail->thread[g.number % BTI_GIVEN_SLOTS] = (uint8_t)(uintptr_t)argument;
        run_call(bti_process_now.state, me, &g);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* As large as the stack of a first thread. */
static size_t stack_bytes(void) {
    enum { LEAST = 1 << 20, USUAL = 8 << 20 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return USUAL;
    return limit.rlim_cur < LEAST ? LEAST : limit.rlim_cur;
}

static bt_status start_methods(const bti_client *me, uint32_t next) {
    size_t stack = stack_bytes();
    methods.next = next;
    for (; methods.count < me->at_once; methods.count++)
        if (!bti_thread_start(&methods.threads[methods.count], stack, run_methods, (void *)(methods.count + 1)))
            return bti_fail(BT_RESOURCE_EXHAUSTED,
                            "max_concurrency is %u, but no more than %u threads with %zu bytes of stack can be started",
                            me->at_once, (unsigned)methods.count, stack);
    return BT_OK;
}

/* --- the life --------------------------------------------------------------------------------------------------------------- */

static _Noreturn void end_worker(bti_state *state) {
    for (uintptr_t i = 0; i < methods.count; i++) pthread_join(methods.threads[i], NULL);
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
    bool protected = bti_worker_protect(state, me) == BT_OK;
    if (!protected) {
        dprintf(STDERR_FILENO, "%s\n", bt_error_text());
        _exit(1);
    }
    pthread_cleanup_push(thread_ended, NULL);
    if (!me->actor) bti_surroundings_keep();
    given_call g;
    for (uint32_t next = 0; !methods.count && (g = next_call(me->mail, &next)).record;) {
        if (!me->actor || g.record->makes_actor) bti_gpus_show(state, g.record);
        run_call(state, me, &g);
        bti_surroundings_put_back();
    }
    end_worker(state);
    pthread_cleanup_pop(0);
}

#include "task/wait.h"

#include "base/flags.h"
#include "base/log.h"
#include "task/mailbox.h"
#include "task/object.h"
#include "task/process.h"
#include "task/ready.h"
#include "task/server.h"
#include "task/settle.h"
#include "task/why.h"

enum {
    LOOK_NS = 1000000000
}; /* between two checks whether the runtime still exists; after the first the log says why a call waits */

static bool is_pending(const bti_object *object) { return atomic_load(&object->state) == BTI_OBJECT_PENDING; }

static bool are_done(bti_object *const *objects, int count, int wanted) {
    for (int i = 0; i < count && wanted > 0; i++) wanted -= !is_pending(objects[i]);
    return wanted <= 0;
}

/* NULL when enough of them are done, or (*room) no record is left. */
static bti_waiter *begin_wait(bti_state *state, bti_object *const *objects, int count, int wanted, bool limited,
                              bool *room) {
    bti_wakes wakes = {0};
    *room = bti_arena_lock(state->arena);
    if (!*room) return NULL;
    bti_serve(state, &wakes);
    bti_arena_commit(state->arena); /* the messages stay handled if the wait is taken back */
    bti_waiter *waiter = bti_waiter_new(state, bti_process_now.me, limited);
    *room = waiter != NULL;
    for (int i = 0; i < count && *room; i++) *room = bti_waiter_add(state, waiter, objects[i]);
    if (!*room) {
        bti_arena_take_back(state->arena);
        waiter = NULL;
    } else if (!bti_waiter_arm(state, waiter, wanted)) {
        bti_waiter_free(state, waiter, &wakes);
        waiter = NULL;
    }
    bti_fence(); /* a worker that saw nobody wait has not rung */
    if (waiter && bti_has_messages(state)) bti_serve(state, &wakes);
    wakes.nest = wakes.nest || (waiter && !state->nest_looks);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return waiter;
}

/* Wakes another waiting thread of the program, which then reads the mailboxes. */
static void end_wait(bti_state *state, bti_waiter *waiter) {
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return;
    bti_waiter_free(state, waiter, &wakes);
    bti_schedule_pending(state, &wakes);
    bti_waiter *other = bti_process_now.me->waiters;
    while (other && other->room_bytes) other = other->next;
    if (other && !atomic_load(state->listening)) bti_wake_word_later(&wakes, &other->word);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

/* False: the memory is damaged. */
static bool serve_mailboxes(bti_state *state, bool all) {
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return false;
    if (all)
        bti_serve_all(state, &wakes);
    else
        bti_serve(state, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return true;
}

static bool wait_is_over(const bti_waiter *waiter) { return atomic_load(&waiter->word) != 0; }

/* One thread of the program reads the mailboxes while it waits. The nest reads them when no thread does. */
static void lead_waiters(bti_state *state, bti_waiter *waiter, uint64_t until_ns) {
    static bti_patience patience; /* of the leading thread */
    atomic_store(&waiter->leads, 1);
    while (!wait_is_over(waiter) && !atomic_load(&state->closing)) {
        unsigned seen = atomic_load(&state->bells->program), halted = BTI_PROGRAM_HALTED;
        atomic_compare_exchange_strong(state->listening, &halted,
                                       BTI_PROGRAM_LISTENS); /* the program was stopped meanwhile */
        if (bti_has_messages(state)) {
            if (!serve_mailboxes(state, false)) break;
        } else if (!wait_is_over(waiter) && !bti_spin_on(&state->bells->program, seen, &patience)) {
            atomic_store(&state->bells->program_sleeps, 1);
            if (!bti_sleep_on(&state->bells->program, seen, until_ns)) break;
        }
    }
    atomic_store(&waiter->leads, 0);
    atomic_store(state->listening, BTI_NOBODY_LISTENS);
    if (bti_has_messages(state)) (void)serve_mailboxes(state, false);
}

static void sleep_until(bti_state *state, bti_waiter *waiter, uint64_t until_ns) {
    unsigned nobody = BTI_NOBODY_LISTENS;
    if (atomic_compare_exchange_strong(state->listening, &nobody, BTI_PROGRAM_LISTENS))
        lead_waiters(state, waiter, until_ns);
    else
        bti_sleep_once(&waiter->word, 0, until_ns);
}

/* The number of the first call among the makers of the objects that cannot begin; -1: there is none. */
static int64_t find_waiting_call(bti_state *state, bti_object *const *objects, int count) {
    int64_t found = -1;
    bti_arena_lock(state->arena);
    for (int i = 0; i < count && found < 0; i++) {
        const bti_task_record *task = objects[i]->maker;
        if (task && (task->state == BTI_TASK_QUEUED || task->state == BTI_TASK_ARGUMENTS))
            found = (int64_t)task->sequence;
    }
    bti_arena_unlock(state->arena);
    return found;
}

static void log_why(bti_state *state, bti_object *const *objects, int count) {
    char text[1024];
    bti_snapshot view;
    int64_t sequence = bti_flag_bool(BTI_FLAG_log_waits) ? find_waiting_call(state, objects, count) : -1;
    if (sequence < 0 || !bti_view_take(state, &view)) return;
    for (size_t i = 0; i < view.waiting.count; i++) {
        const bti_view_task *task = &view.waiting.items[i];
        if ((int64_t)task->sequence == sequence)
            bti_log("%s %s", task->function->name, bti_view_why(&view, task, text, sizeof text));
    }
    bti_view_free(&view);
}

/* Why the wait fails: the runtime has ended, or the waiter is part of a deadlock. */
static bt_status wait_verdict(bti_state *state, const bti_waiter *waiter) {
    if (atomic_load(&state->closing)) return bti_runtime_over(state);
    return waiter->stuck ? bti_fail(BT_FAILED_PRECONDITION, "%s", waiter->text) : BT_OK;
}

bool bti_wait_for(bti_state *state, bti_object *const *objects, int count, int wanted, uint64_t until_ns) {
    bool room = true, said = false;
    if (are_done(objects, count, wanted)) return true;
    bti_waiter *waiter = begin_wait(state, objects, count, wanted, until_ns, &room);
    if (!waiter && !room && bti_state_fault(false) == BT_OK) (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many waits");
    if (!waiter) return room;
    bt_status status = BT_OK;
    uint64_t look_at = bti_now_ns() + LOOK_NS;
    while ((status = wait_verdict(state, waiter)) == BT_OK && !wait_is_over(waiter)) {
        sleep_until(state, waiter, until_ns && until_ns < look_at ? until_ns : look_at);
        if (wait_is_over(waiter)) continue;
        uint64_t now = bti_now_ns();
        if (until_ns && now >= until_ns) break;
        if (now < look_at) continue;
        look_at = now + LOOK_NS;
        if ((status = bti_check_runs(state)) != BT_OK) break;
        if (!serve_mailboxes(state, true)) status = bti_state_fault(false);
        if (!said) log_why(state, objects, count);
        said = true;
    }
    end_wait(state, waiter);
    return status == BT_OK;
}

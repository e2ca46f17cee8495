/* Waiting for words and for objects. */
#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/log.h"
#include "task/nest.h"
#include "task/process.h"
#include "task/view.h"

uint64_t bti_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t bti_until_ns(double seconds) {
    if (!(seconds >= 0) || seconds > 1e9) return 0;
    uint64_t until = bti_now_ns() + (uint64_t)(seconds * 1e9);
    return until ? until : 1;
}

bool bti_sleep_on(atomic_uint *word, unsigned seen, uint64_t until_ns) {
    while (atomic_load(word) == seen) {
        struct timespec left, *limit = NULL;
        if (until_ns) {
            uint64_t now = bti_now_ns();
            if (now >= until_ns) return false;
            left = (struct timespec){.tv_sec = (time_t)((until_ns - now) / 1000000000u),
                                     .tv_nsec = (long)((until_ns - now) % 1000000000u)};
            limit = &left;
        }
        syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
    }
    return true;
}

/* --- for objects ------------------------------------------------------------------------------------------------------- */

enum { LOOK_NS = 1000000000 }; /* how long to wait before asking whether that can end at all */

static bool begin(bti_state *state, bti_object *const *objects, int count, bti_wait **waits, bool limited) {
    bti_client *me = bti_process_now.me;
    bti_wakes wakes = {0};
    bool room = true;
    bti_arena_lock(state->arena);
    for (int i = 0; i < count && room; i++) room = (waits[i] = bti_wait_begin(state, objects[i], me)) != NULL;
    if (!room) {
        bti_arena_take_back(state->arena);
    } else {
        if (!limited) BTI_SET(state->arena, me->blocked, me->blocked + 1);
        if (me->task && !me->task->actor) {
            bti_lend_cpus(state, me->task);
            bti_dispatch(state, &wakes);
        }
    }
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return room;
}

static void end(bti_state *state, int count, bti_wait **waits, bool limited) {
    bti_client *me = bti_process_now.me;
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return;
    for (int i = 0; i < count; i++) bti_wait_end(state, waits[i], &wakes);
    if (!limited) BTI_SET(state->arena, me->blocked, me->blocked - 1);
    if (me->task && !me->task->actor && !me->waits) bti_retake_cpus(state, me->task);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

static bool is_pending(const bti_object *object) { return atomic_load(&object->state) == BTI_OBJECT_PENDING; }

/* Those before `*from` are done, and not looked at again: many may come one by one. */
static bool enough(bti_object *const *objects, int count, int wanted, int *from) {
    int more = count - wanted; /* that need not be done */
    while (*from < count && !is_pending(objects[*from])) ++*from;
    for (int i = *from; i < count && more >= 0; i++) more -= is_pending(objects[i]);
    return more >= 0;
}

/* The number of the first call that they wait for and that cannot begin; -1. */
static int64_t stands_still(bti_state *state, bti_object *const *objects, int count) {
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

static void say_why(bti_state *state, bti_object *const *objects, int count) {
    char text[1024];
    bti_view view;
    int64_t sequence = bti_flag_bool(BTI_FLAG_log_waits) ? stands_still(state, objects, count) : -1;
    if (sequence < 0 || !bti_view_take(state, &view)) return;
    for (size_t i = 0; i < view.waiting.count; i++) {
        const bti_view_task *task = &view.waiting.items[i];
        if ((int64_t)task->sequence == sequence)
            bti_log("%s %s", task->function->name, bti_view_why(&view, task, text, sizeof text));
    }
    bti_view_free(&view);
}

static bt_status over(const bti_state *state) {
    BTI_TRY(bti_state_fault(true));
    return bti_fail(BT_ABORTED, atomic_load(&state->closing) == 2
                                    ? "the process that starts workers has ended: the runtime is over"
                                    : "the runtime has ended");
}

bt_status bti_check_runs(bti_state *state) {
    BTI_TRY(bti_state_fault(true));
    if (!bti_nest_lives(state)) atomic_store(&state->closing, 2);
    return atomic_load(&state->closing) ? over(state) : BT_OK;
}

/* Why waiting makes no sense any more. */
static bt_status look(bti_state *state, bti_object *const *objects, int count, int wanted, bool limited) {
    char text[1024];
    bool stuck = false;
    BTI_TRY(bti_check_runs(state));
    if (limited) return BT_OK;
    bti_arena_lock(state->arena);
    stuck = bti_deadlocked(state, objects, count, wanted, text, sizeof text);
    bti_arena_unlock(state->arena);
    return stuck ? bti_fail(BT_FAILED_PRECONDITION, "deadlock: %s", text) : BT_OK;
}

bool bti_wait_for(bti_state *state, bti_object *const *objects, int count, int wanted, uint64_t until_ns) {
    bti_wait *one, **waits = count > 1 ? bti_calloc((size_t)count, sizeof(bti_wait *)) : &one;
    atomic_uint *word = &bti_process_now.me->word;
    if (!waits || !begin(state, objects, count, waits, until_ns)) {
        if (count > 1) bti_free(waits);
        return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many waits"), false;
    }
    bt_status status = BT_OK;
    bool said = false;
    int from = 0;
    uint64_t look_at = bti_now_ns() + LOOK_NS;
    while (status == BT_OK) {
        unsigned seen = atomic_load(word);
        if (enough(objects, count, wanted, &from)) break;
        if (atomic_load(&state->closing)) {
            status = over(state);
            break;
        }
        bti_sleep_on(word, seen, until_ns && until_ns < look_at ? until_ns : look_at);
        uint64_t now = bti_now_ns();
        if (until_ns && now >= until_ns) break;
        if (now < look_at) continue;
        look_at = now + LOOK_NS;
        status = look(state, objects, count, wanted, until_ns);
        if (status == BT_OK && !said) say_why(state, objects, count);
        said = true;
    }
    end(state, count, waits, until_ns);
    if (count > 1) bti_free(waits);
    return status == BT_OK;
}

/* Arrays that lie in the store: an object stays where it is as long as a process has one. */
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "task/process.h"
#include "task/value.h"

enum { LEAST_BYTES = 1 << 14 }; /* less is copied sooner than lent */

typedef struct loan {
    bti_state *state;
    bti_hold *hold;
    uint64_t runtime; /* as in a reference */
    pid_t program; /* of it: the mapping is to stay; workers end with theirs, and what the program forks has another */
} loan;

void bti_state_release(bti_state *state) {
    if (atomic_fetch_sub(&state->users, 1) == 1) bti_arena_close(state->arena);
}

static void end(void *lender) {
    loan *l = lender;
    bti_state *state = l->state;
    if (bti_process_now.state == state && bti_process_now.runtime == l->runtime) {
        bti_wakes wakes = {0};
        bti_arena_lock(state->arena);
        bti_hold_free(state, l->hold, &wakes);
        bool untidy = bti_store_is_untidy(state);
        bti_arena_unlock(state->arena);
        bti_wake(state, &wakes);
        if (untidy) bti_store_tidy(state);
    }
    if (l->program == getpid()) bti_state_release(state);
    bti_free(l);
}

static bti_hold *hold_pinned(bti_state *state, bti_object *object) {
    bti_arena_lock(state->arena);
    bti_hold *hold = bti_hold_new(state, bti_process_now.me, object);
    if (hold) bti_hold_pin(state, hold);
    bti_arena_unlock(state->arena);
    return hold;
}

bt_array *bti_array_in(bti_object *owner, const void *data, uint64_t bytes, bt_dtype dtype, bt_shape shape) {
    bti_state *state = bti_process_now.state;
    if (!owner || bytes < LEAST_BYTES) return bt_from(data, dtype, shape);
    loan *l = bti_calloc(1, sizeof *l);
    bti_hold *hold = l ? hold_pinned(state, owner) : NULL;
    if (!hold) return bti_free(l), bt_from(data, dtype, shape);
    *l = (loan){state, hold, bti_process_now.runtime, bti_process_now.me->is_program ? getpid() : 0};
    if (l->program) atomic_fetch_add(&state->users, 1);
    return bti_from_lent(data, dtype, shape, end, l);
}

/* Damage of the shared memory: what is looked at when a call begins. */
#include "task/nest.h"
#include "task/object.h"

static bti_arena *arena; /* as it was laid out */
static uint64_t arena_bytes;

static bool has(const void *record) { return bti_arena_has(arena, arena_bytes, record); }

/* Also without the lock: words that others write meanwhile. */
__attribute__((no_sanitize("thread"))) static bool is_whole(const void *of) {
    const bti_state *state = of;
    return state->arena == arena && arena->bytes == arena_bytes && state->program && state->store &&
           has(state->program) && has(state->store) && has(state->clients) && has(state->idle) &&
           has(state->to_start) && has(state->queue_table) && has(state->last_queue) && has(state->waiting) &&
           has(state->machine.waiting) && has(state->actors) && has(state->groups) && has(state->functions) &&
           state->bells && has(state->bells) && state->mailboxes && has(state->mailboxes) && has(state->chores) &&
           has(state->mover) && state->resource_count >= 0 && state->resource_count <= BTI_MOST_RESOURCES &&
           state->gpu_count >= 0 && state->gpu_count <= BTI_MOST_GPUS;
}

void bti_state_watch(bti_state *state, void (*wait)(void)) {
    arena = state ? state->arena : NULL;
    arena_bytes = state ? state->arena->bytes : 0;
    bti_arena_watch((bti_arena_watcher){state ? is_whole : NULL, state, wait});
}

bt_status bti_state_fault(bool thorough) {
    if (!arena || (thorough ? bti_arena_check(arena) : !bti_arena_is_broken(arena))) return BT_OK;
    return bti_arena_error(arena);
}

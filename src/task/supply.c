#include "task/supply.h"

bti_supply *bti_supply_of(bti_state *state, const bti_queue *queue) {
    return queue->group ? &queue->group->bundles[queue->bundle] : &state->machine;
}

/* A GPU with this share free, the fullest first; -1. */
static int gpu_for_share(const bti_state *state, const bti_supply *supply, int32_t share) {
    int best = -1;
    for (int g = 0; g < state->gpu_count; g++)
        if (supply->gpu_free[g] >= share && (best < 0 || supply->gpu_free[g] < supply->gpu_free[best])) best = g;
    return best;
}

static int64_t whole_gpus(const bti_state *state, const bti_supply *supply) {
    int64_t count = 0;
    for (int g = 0; g < state->gpu_count; g++) count += supply->gpu_free[g] == BTI_UNIT;
    return count * BTI_UNIT;
}

bool bti_supply_fits(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts) {
    for (int r = 0; r < state->resource_count; r++)
        if (amounts->of[r] > 0 && amounts->of[r] > supply->free.of[r]) return false;
    int64_t gpus = amounts->of[1];
    if (!gpus) return true;
    return gpus < BTI_UNIT ? gpu_for_share(state, supply, (int32_t)gpus) >= 0 : whole_gpus(state, supply) >= gpus;
}

uint64_t bti_supply_choose(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts) {
    int64_t left = amounts->of[1];
    uint64_t chosen = 0;
    if (left && left < BTI_UNIT) return (uint64_t)1 << gpu_for_share(state, supply, (int32_t)left);
    for (int g = 0; g < state->gpu_count && left > 0; g++) {
        if (supply->gpu_free[g] != BTI_UNIT) continue;
        chosen |= (uint64_t)1 << g;
        left -= BTI_UNIT;
    }
    return chosen;
}

void bti_supply_set_aside(const bti_state *state, bti_supply *copy, const bti_amounts *amounts, uint64_t gpus) {
    int32_t share = amounts->of[1] < BTI_UNIT ? (int32_t)amounts->of[1] : BTI_UNIT;
    for (int r = 0; r < state->resource_count; r++) copy->free.of[r] -= amounts->of[r];
    for (int g = 0; gpus >> g; g++)
        if (gpus >> g & 1) copy->gpu_free[g] -= share;
}

/* Gives (1) or takes (-1) all of it; `keeps`: an actor or a group does. */
static void change(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps,
                   int sign) {
    bti_arena *arena = state->arena;
    if (!keeps) BTI_SET(arena, state->busy_count, state->busy_count - (uint32_t)sign);
    int32_t share = sign * (amounts->of[1] < BTI_UNIT ? (int32_t)amounts->of[1] : BTI_UNIT);
    for (int r = 0; r < state->resource_count; r++) {
        int64_t amount = sign * amounts->of[r];
        if (amount) BTI_SET(arena, supply->free.of[r], supply->free.of[r] + amount);
        if (amount && keeps) BTI_SET(arena, supply->kept.of[r], supply->kept.of[r] - amount);
    }
    for (int g = 0; gpus >> g; g++) {
        if (!(gpus >> g & 1)) continue;
        BTI_SET(arena, supply->gpu_free[g], supply->gpu_free[g] + share);
        if (keeps) BTI_SET(arena, supply->gpu_kept[g], supply->gpu_kept[g] - share);
    }
}

void bti_supply_take(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps) {
    change(state, supply, amounts, gpus, keeps, -1);
}

void bti_supply_give(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps) {
    change(state, supply, amounts, gpus, keeps, 1);
}

/* --- of a task ---------------------------------------------------------------------------------------------------------- */

static void move_cpus(bti_state *state, bti_task_record *task, bool lent) {
    if (!task->queue || task->cpus_lent == lent) return;
    bti_supply *supply = bti_supply_of(state, task->queue);
    int64_t cpus = task->queue->amounts.of[0] * (lent ? 1 : -1);
    BTI_SET(state->arena, supply->free.of[0], supply->free.of[0] + cpus);
    if (task->makes_actor) BTI_SET(state->arena, supply->kept.of[0], supply->kept.of[0] - cpus);
    if (!task->makes_actor) BTI_SET(state->arena, state->busy_count, state->busy_count + (lent ? -1u : 1u));
    BTI_SET(state->arena, task->cpus_lent, lent);
}

void bti_lend_cpus(bti_state *state, bti_task_record *task) { move_cpus(state, task, true); }
void bti_retake_cpus(bti_state *state, bti_task_record *task) { move_cpus(state, task, false); }

void bti_give_back(bti_state *state, bti_task_record *task) {
    if (!task->queue) return;
    bti_retake_cpus(state, task);
    bti_supply_give(state, bti_supply_of(state, task->queue), &task->queue->amounts, task->gpus, task->makes_actor);
    if (task->gpus) BTI_SET(state->arena, task->gpus, 0);
}

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

/* Gives (1) or takes (-1) all of it. */
static void change(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, int sign) {
    int32_t share = amounts->of[1] < BTI_UNIT ? (int32_t)amounts->of[1] : BTI_UNIT;
    for (int r = 0; r < state->resource_count; r++)
        if (amounts->of[r]) BTI_SET(state->arena, supply->free.of[r], supply->free.of[r] + sign * amounts->of[r]);
    for (int g = 0; g < state->gpu_count; g++)
        if (gpus >> g & 1) BTI_SET(state->arena, supply->gpu_free[g], supply->gpu_free[g] + sign * share);
}

uint64_t bti_supply_take(bti_state *state, bti_supply *supply, const bti_amounts *amounts) {
    uint64_t gpus = bti_supply_choose(state, supply, amounts);
    change(state, supply, amounts, gpus, -1);
    return gpus;
}

void bti_supply_give(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus) {
    change(state, supply, amounts, gpus, 1);
}

/* --- of a task ---------------------------------------------------------------------------------------------------------- */

static void move_cpus(bti_state *state, bti_task_record *task, bool lent) {
    if (!task->queue || task->cpus_lent == lent) return;
    bti_supply *supply = bti_supply_of(state, task->queue);
    int64_t cpus = task->queue->amounts.of[0];
    BTI_SET(state->arena, supply->free.of[0], supply->free.of[0] + (lent ? cpus : -cpus));
    BTI_SET(state->arena, task->cpus_lent, lent);
}

void bti_lend_cpus(bti_state *state, bti_task_record *task) { move_cpus(state, task, true); }
void bti_retake_cpus(bti_state *state, bti_task_record *task) { move_cpus(state, task, false); }

void bti_give_back(bti_state *state, bti_task_record *task) {
    if (!task->queue) return;
    bti_retake_cpus(state, task);
    bti_supply_give(state, bti_supply_of(state, task->queue), &task->queue->amounts, task->gpus);
    if (task->gpus) BTI_SET(state->arena, task->gpus, 0);
}

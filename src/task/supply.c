#include "task/supply.h"

#include <stdlib.h>

bti_supply *bti_supply_of(bti_state *state, const bti_queue *queue) {
    return queue->group ? &queue->group->bundles[queue->bundle] : &state->machine;
}

/* --- GPUs ------------------------------------------------------------------------------------------------------------- */

int32_t bti_gpu_share(const bti_state *state, const bti_amounts *amounts, int gpu) {
    if (!amounts->gpu_bytes) return amounts->of[1] < BTI_UNIT ? (int32_t)amounts->of[1] : BTI_UNIT;
    uint64_t bytes = state->gpu_bytes[gpu];
    if (amounts->gpu_bytes > bytes) return BTI_UNIT + 1;
    return (int32_t)(((unsigned __int128)amounts->gpu_bytes * BTI_UNIT + bytes - 1) / bytes);
}

static bool will_do(const bti_amounts *amounts, int gpu) { return !amounts->gpu_only || amounts->gpu_only >> gpu & 1; }

static bool is_share(const bti_amounts *amounts) { return amounts->gpu_bytes || amounts->of[1] < BTI_UNIT; }

/* The fullest GPU that has this share free; -1: none has. */
static int gpu_for_share(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts) {
    int best = -1;
    for (int g = 0; g < state->gpu_count; g++)
        if (will_do(amounts, g) && supply->gpu_free[g] >= bti_gpu_share(state, amounts, g) &&
            (best < 0 || supply->gpu_free[g] < supply->gpu_free[best]))
            best = g;
    return best;
}

static uint64_t free_whole_gpus(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts) {
    uint64_t gpus = 0;
    for (int g = 0; g < state->gpu_count; g++)
        if (supply->gpu_free[g] == BTI_UNIT && will_do(amounts, g)) gpus |= (uint64_t)1 << g;
    return gpus;
}

bool bti_supply_fits(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts) {
    for (int r = 0; r < state->resource_count; r++)
        if (amounts->of[r] > 0 && amounts->of[r] > supply->free.of[r]) return false;
    if (!amounts->of[1]) return true;
    if (is_share(amounts)) return gpu_for_share(state, supply, amounts) >= 0;
    return __builtin_popcountll(free_whole_gpus(state, supply, amounts)) * (int64_t)BTI_UNIT >= amounts->of[1];
}

/* A set of `count` GPUs of `from` that begins with `first`: adds the one with the most links to the set, else the nearest number. */
static uint64_t grow_linked_set(const bti_state *state, uint64_t from, int first, int count, int *links) {
    uint64_t chosen = (uint64_t)1 << first;
    *links = 0;
    while (__builtin_popcountll(chosen) < count) {
        int best = -1, most = -1;
        for (int g = 0; g < state->gpu_count; g++) {
            int to = __builtin_popcountll(state->gpu_linked[g] & chosen);
            bool is_nearer = best >= 0 && to == most && abs(g - first) < abs(best - first);
            if ((from & ~chosen) >> g & 1 && (to > most || is_nearer)) best = g, most = to;
        }
        chosen |= (uint64_t)1 << best;
        *links += most;
    }
    return chosen;
}

static int span_of(uint64_t gpus) { return 64 - __builtin_clzll(gpus) - __builtin_ctzll(gpus); }

/* The set with the most links inside, else with the nearest numbers. */
static uint64_t choose_near(const bti_state *state, uint64_t from, int count) {
    uint64_t best = 0;
    int most = -1;
    for (int g = 0; g < state->gpu_count; g++) {
        int links;
        if (!(from >> g & 1)) continue;
        uint64_t chosen = grow_linked_set(state, from, g, count, &links);
        if (links > most || (links == most && span_of(chosen) < span_of(best))) best = chosen, most = links;
        if (count == 1) break;
    }
    return best;
}

uint64_t bti_supply_choose(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts) {
    if (!amounts->of[1]) return 0;
    if (is_share(amounts)) return (uint64_t)1 << gpu_for_share(state, supply, amounts);
    return choose_near(state, free_whole_gpus(state, supply, amounts), (int)(amounts->of[1] / BTI_UNIT));
}

/* --- giving and taking ------------------------------------------------------------------------------------------------ */

/* The amount of resource r, on these GPUs. */
static int64_t amount_of(const bti_state *state, const bti_amounts *amounts, uint64_t gpus, int r) {
    if (r != 1 || !amounts->gpu_bytes || !gpus) return amounts->of[r];
    return bti_gpu_share(state, amounts, __builtin_ctzll(gpus));
}

void bti_supply_set_aside(const bti_state *state, bti_supply *copy, const bti_amounts *amounts, uint64_t gpus) {
    for (int r = 0; r < state->resource_count; r++) copy->free.of[r] -= amount_of(state, amounts, gpus, r);
    for (; gpus; gpus &= gpus - 1)
        copy->gpu_free[__builtin_ctzll(gpus)] -= bti_gpu_share(state, amounts, __builtin_ctzll(gpus));
}

/* sign 1: gives all amounts back; -1: takes them. `keeps`: an actor or a group does. */
static void change_supply(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps,
                          int sign) {
    bti_arena *arena = state->arena;
    if (!keeps) BTI_SET(arena, state->busy_count, state->busy_count - (uint32_t)sign);
    for (int r = 0; r < state->resource_count; r++) {
        int64_t amount = sign * amount_of(state, amounts, gpus, r);
        if (amount) BTI_SET(arena, supply->free.of[r], supply->free.of[r] + amount);
        if (amount && keeps) BTI_SET(arena, supply->kept.of[r], supply->kept.of[r] - amount);
    }
    for (; gpus; gpus &= gpus - 1) {
        int g = __builtin_ctzll(gpus);
        int32_t share = sign * bti_gpu_share(state, amounts, g);
        BTI_SET(arena, supply->gpu_free[g], supply->gpu_free[g] + share);
        if (keeps) BTI_SET(arena, supply->gpu_kept[g], supply->gpu_kept[g] - share);
    }
}

void bti_supply_take(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps) {
    change_supply(state, supply, amounts, gpus, keeps, -1);
}

void bti_supply_give(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps) {
    change_supply(state, supply, amounts, gpus, keeps, 1);
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

/* Groups: bundles of resources set aside together. */
#include "task/actor.h"
#include "task/bundles.h"
#include "task/fair.h"
#include "task/object.h"

/* --- their resources ------------------------------------------------------------------------------------------------- */

bool bti_group_choose(const bti_state *state, const bti_group_record *group, const bti_supply *open, uint64_t *gpus) {
    return bti_bundles_choose(state, group->bundles, group->count, open, gpus);
}

void bti_group_grant(bti_state *state, const bti_turn *turn, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_group_record *group = turn->group;
    for (int i = 0; i < group->count; i++) {
        bti_supply *bundle = &group->bundles[i];
        bti_supply_take(state, &state->machine, &bundle->total, turn->gpus[i], true);
        BTI_SET(arena, bundle->gpus, turn->gpus[i]);
        for (int g = 0; g < state->gpu_count; g++)
            BTI_SET(arena, bundle->gpu_free[g], bundle->gpus >> g & 1 ? bti_gpu_share(state, &bundle->total, g) : 0);
        if (bundle->total.gpu_bytes)
            BTI_SET(arena, bundle->free.of[1], bti_gpu_share(state, &bundle->total, __builtin_ctzll(bundle->gpus)));
    }
    BTI_SET(arena, group->has, true);
    BTI_SET(arena, state->groups_waiting, state->groups_waiting - 1);
    bti_object_settle(state, group->self, BTI_OBJECT_READY, wakes);
}

static void give_bundles(bti_state *state, bti_group_record *group) {
    for (int i = 0; i < group->count; i++)
        bti_supply_give(state, &state->machine, &group->bundles[i].total, group->bundles[i].gpus, true);
}

/* --- their ends ------------------------------------------------------------------------------------------------------ */

/* It has no handle and no task. */
static void free_group(bti_state *state, bti_group_record **at, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_group_record *group = *at;
    if (group->has) give_bundles(state, group);
    for (bti_queue *next, *queue = group->queues; queue; queue = next) {
        next = queue->next;
        bti_queue_free(state, queue);
    }
    BTI_SET(arena, *at, group->next);
    BTI_SET(arena, group->self->group, NULL);
    bti_object_drop(state, group->self, wakes);
    bti_record_free(arena, BTI_GROUPS, group);
}

static bool is_over(const bti_group_record *group) { return group->released && !group->users; }

bool bti_groups_end(const bti_state *state) {
    const bti_group_record *group = state->groups;
    while (group && !is_over(group)) group = group->next;
    return group != NULL;
}

void bti_groups_clean(bti_state *state, bti_wakes *wakes) {
    for (bti_group_record **at = &state->groups; *at;) {
        bti_group_record *group = *at;
        for (bti_queue *queue = group->released ? group->queues : NULL; queue; queue = queue->next)
            (void)bti_queue_clean(state, queue, wakes);
        if (is_over(group))
            free_group(state, at, wakes);
        else
            at = &group->next;
    }
}

void bti_group_unheld(bti_state *state, bti_group_record *group) {
    if (group->released) return;
    BTI_SET(state->arena, group->released, true);
    if (!group->has) BTI_SET(state->arena, state->groups_waiting, state->groups_waiting - 1);
}

/* Groups: bundles of resources set aside together. */
#include "task/actor.h"
#include "task/bundles.h"
#include "task/fair.h"
#include "task/local.h"
#include "task/object.h"
#include "task/options.h"
#include "task/order.h"

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

/* --- for programs ------------------------------------------------------------------------------------------------------ */

static bt_status read_strategy(int strategy, bti_amounts *first) {
    if (strategy != BTI_UNSET_INT && (strategy < BT_GROUP_PACK || strategy > BT_GROUP_STRICT_SPREAD))
        return bti_fail(BT_INVALID_ARGUMENT, "bt_group_new: strategy is %d; it is a bt_group_strategy", strategy);
    first->strategy = strategy == BTI_UNSET_INT ? BT_GROUP_PACK : strategy;
    return BT_OK;
}

bt_status bti_group_read(const bti_state *state, const bt_task_options *bundles, int count, bti_supply *supplies) {
    bti_amounts sum = {0};
    if (count < 1 || count > BTI_MOST_BUNDLES)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_group_new: %d bundles; 1 to %d", count, BTI_MOST_BUNDLES);
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_amounts_of(state, &bundles[i], 0, &supplies[i].total));
        supplies[i].free = supplies[i].total;
        for (int r = 0; r < state->resource_count; r++) sum.of[r] += supplies[i].total.of[r];
    }
    BTI_TRY(bti_amounts_check(state, &sum, &state->machine, "the group", "the runtime has"));
    BTI_TRY(read_strategy(bundles[0].strategy, &supplies[0].total));
    return bti_bundles_check(state, supplies, count);
}

static bti_hold *new_group(bti_state *state, bti_client *client, const bti_supply *supplies, int count) {
    bti_object *self = bti_object_new(state);
    bti_group_record *group = self ? bti_record_new(state->arena, BTI_GROUPS) : NULL;
    bti_hold *hold = group ? bti_hold_new(state, client, self) : NULL;
    if (!hold) return NULL;
    self->group = group;
    group->self = self;
    group->owner = client;
    group->count = count;
    group->queued_ns = bti_now_ns();
    memcpy(group->bundles, supplies, (size_t)count * sizeof *supplies);
    for (int i = 0; i < count; i++) group->bundles[i].group = group;
    bti_group_record **end = &state->groups;
    while (*end) end = &(*end)->next;
    BTI_SET(state->arena, *end, group);
    BTI_SET(state->arena, state->groups_waiting, state->groups_waiting + 1);
    return hold;
}

bti_hold *bti_group_submit(bti_state *state, bti_client *client, const bti_supply *bundles, int count,
                           bti_wakes *wakes) {
    bti_arena_commit(state->arena); /* what came before stays */
    bti_hold *hold = new_group(state, client, bundles, count);
    if (hold)
        bti_dispatch(state, wakes);
    else
        bti_arena_take_back(state->arena);
    return hold;
}

void *bti_local_group(const bt_task_options *bundles, int count) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_supply supplies[BTI_MOST_BUNDLES] = {0};
    if (bti_group_read(state, bundles, count, supplies) != BT_OK) return NULL;
    bti_arena_lock(state->arena);
    bti_hold *hold = bti_group_submit(state, bti_process_now.me, supplies, count, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    if (!hold) (void)bti_fail(BT_RESOURCE_EXHAUSTED, "bt_group_new: there are too many groups");
    return hold;
}

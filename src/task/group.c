/* Groups: bundles of resources set aside together. */
#include "task/actor.h"
#include "task/fair.h"
#include "task/local.h"
#include "task/object.h"
#include "task/options.h"
#include "task/order.h"

/* --- their resources ------------------------------------------------------------------------------------------------- */

bool bti_group_choose(const bti_state *state, const bti_group_record *group, const bti_supply *open, uint64_t *gpus) {
    bti_supply left = *open;
    for (int i = 0; i < group->count; i++) {
        const bti_amounts *amounts = &group->bundles[i].total;
        if (!bti_supply_fits(state, &left, amounts)) return false;
        gpus[i] = bti_supply_choose(state, &left, amounts);
        bti_supply_set_aside(state, &left, amounts, gpus[i]);
    }
    return true;
}

void bti_group_grant(bti_state *state, const bti_turn *turn, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_group_record *group = turn->group;
    for (int i = 0; i < group->count; i++) {
        bti_supply *bundle = &group->bundles[i];
        int64_t gpus = bundle->total.of[1];
        int32_t share = gpus < BTI_UNIT ? (int32_t)gpus : BTI_UNIT;
        bti_supply_take(state, &state->machine, &bundle->total, turn->gpus[i], true);
        BTI_SET(arena, bundle->gpus, turn->gpus[i]);
        for (int g = 0; g < state->gpu_count; g++)
            BTI_SET(arena, bundle->gpu_free[g], bundle->gpus >> g & 1 ? share : 0);
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

/* Would each share find a GPU if nobody else had any? */
static bt_status check_shares(const bti_state *state, const bti_supply *bundles, int count) {
    bti_supply all = {.free = state->machine.total};
    for (int g = 0; g < state->gpu_count; g++) all.gpu_free[g] = BTI_UNIT;
    for (int i = 0; i < count; i++) {
        const bti_amounts *amounts = &bundles[i].total;
        if (!bti_supply_fits(state, &all, amounts))
            return bti_fail(
                BT_RESOURCE_EXHAUSTED,
                "the group's bundle %d asks for %g GPU; of the %d that the runtime has none has so much left "
                "beside the bundles before it (shares of one GPU cannot be of several: larger ones first)",
                i, bti_amount(amounts->of[1]), state->gpu_count);
        uint64_t gpus = bti_supply_choose(state, &all, amounts);
        bti_supply_set_aside(state, &all, amounts, gpus);
    }
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
    return check_shares(state, supplies, count);
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

/* Groups: bundles of resources that are set aside together, and which GPUs they get. */
#include "task/group.h"

#include "task/object.h"
#include "task/options.h"
#include "task/queue.h"
#include "task/ready.h"
#include "task/settle.h"

/* --- places: sets of GPUs with fast links to each other ------------------------------------------------------------------- */

static bool has_links(const bti_state *state) {
    for (int g = 0; g < state->gpu_count; g++)
        if (state->gpu_linked[g]) return true;
    return false;
}

static uint64_t all_gpus(const bti_state *state) {
    return state->gpu_count < 64 ? ((uint64_t)1 << state->gpu_count) - 1 : ~(uint64_t)0;
}

/* The GPUs that are linked to this one. Where no links are known: all GPUs (to pack into), or this one alone (to spread over). */
static uint64_t linked_gpus(const bti_state *state, int gpu, bool spreads) {
    uint64_t place = (uint64_t)1 << gpu, before = 0;
    if (!has_links(state)) return spreads ? place : all_gpus(state);
    while (place != before) {
        before = place;
        for (int g = 0; g < state->gpu_count; g++)
            if (place >> g & 1) place |= state->gpu_linked[g];
    }
    return place & all_gpus(state);
}

/* All GPUs that are linked to any of these. */
static uint64_t places_of(const bti_state *state, uint64_t gpus) {
    uint64_t places = 0;
    for (; gpus; gpus &= gpus - 1) places |= linked_gpus(state, __builtin_ctzll(gpus), true);
    return places;
}

/* --- choosing --------------------------------------------------------------------------------------------------------------- */

static bool choose_within(const bti_state *state, const bti_supply *left, const bti_amounts *amounts, uint64_t within,
                          uint64_t *gpus) {
    bti_amounts limited = *amounts;
    if (amounts->of[1]) limited.gpu_only = (amounts->gpu_only ? amounts->gpu_only : all_gpus(state)) & within;
    if (amounts->of[1] && !limited.gpu_only) return false;
    if (!bti_supply_fits(state, left, &limited)) return false;
    *gpus = bti_supply_choose(state, left, &limited);
    return true;
}

static bool pack_bundles(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *open,
                         uint64_t within, uint64_t *gpus) {
    bti_supply left = *open;
    for (int i = 0; i < count; i++) {
        if (!choose_within(state, &left, &bundles[i].total, within, &gpus[i])) return false;
        bti_supply_set_aside(state, &left, &bundles[i].total, gpus[i]);
    }
    return true;
}

static bool pack_into_place(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *open,
                            uint64_t *gpus) {
    uint64_t tried = 0;
    for (int g = 0; g < state->gpu_count; g++) {
        uint64_t place = linked_gpus(state, g, false);
        if (tried & place) continue;
        if (pack_bundles(state, bundles, count, open, place, gpus)) return true;
        tried |= place;
    }
    return !state->gpu_count && pack_bundles(state, bundles, count, open, 0, gpus);
}

static int free_gpus(const bti_state *state, const bti_supply *supply, uint64_t place) {
    int count = 0;
    for (int g = 0; g < state->gpu_count; g++) count += place >> g & 1 && supply->gpu_free[g] > 0;
    return count;
}

/* In the place with the fewest free GPUs that has enough, so that larger ones stay for others; else over several. */
static bool choose_apart(const bti_state *state, const bti_supply *left, const bti_amounts *amounts, uint64_t within,
                         uint64_t *gpus) {
    uint64_t chosen = 0;
    int fewest = 0;
    for (int g = 0; g < state->gpu_count; g++) {
        uint64_t place = linked_gpus(state, g, true);
        int count = free_gpus(state, left, place);
        if ((place & within) != place || (chosen && count >= fewest)) continue;
        uint64_t found;
        if (choose_within(state, left, amounts, place, &found)) chosen = found, fewest = count;
    }
    if (chosen) *gpus = chosen;
    return chosen || choose_within(state, left, amounts, within, gpus);
}

/* The largest bundles choose first. */
static void sort_by_gpus(const bti_supply *bundles, int count, int *order) {
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && bundles[order[at - 1]].total.of[1] < bundles[i].total.of[1]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

static bool spread_bundles(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *open,
                           bool strictly, uint64_t *gpus) {
    bti_supply left = *open;
    uint64_t used = 0, used_places = 0;
    int order[BTI_MOST_BUNDLES];
    sort_by_gpus(bundles, count, order);
    for (int i = 0; i < count; i++) {
        const bti_amounts *amounts = &bundles[order[i]].total;
        uint64_t *chosen = &gpus[order[i]];
        bool fits = choose_apart(state, &left, amounts, all_gpus(state) & ~used_places, chosen);
        if (!fits && strictly) return false;
        fits = fits || choose_within(state, &left, amounts, all_gpus(state) & ~used, chosen) ||
               choose_within(state, &left, amounts, all_gpus(state), chosen);
        if (!fits) return false;
        used |= *chosen;
        used_places |= places_of(state, *chosen);
        bti_supply_set_aside(state, &left, amounts, *chosen);
    }
    return true;
}

bool bti_bundles_choose(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *open,
                        uint64_t *gpus) {
    switch (bundles[0].total.strategy) {
    case BT_GROUP_SPREAD:
        return spread_bundles(state, bundles, count, open, false, gpus) ||
               pack_bundles(state, bundles, count, open, all_gpus(state), gpus);
    case BT_GROUP_STRICT_SPREAD: return spread_bundles(state, bundles, count, open, true, gpus);
    case BT_GROUP_STRICT_PACK: return pack_into_place(state, bundles, count, open, gpus);
    default:
        return pack_into_place(state, bundles, count, open, gpus) ||
               pack_bundles(state, bundles, count, open, all_gpus(state), gpus);
    }
}

/* --- what can never be -------------------------------------------------------------------------------------------------------- */

/* Names the first bundle that does not fit beside those before it. */
static bt_status bundles_error(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *all) {
    bti_supply left = *all;
    for (int i = 0; i < count; i++) {
        const bti_amounts *amounts = &bundles[i].total;
        if (!bti_supply_fits(state, &left, amounts))
            return bti_fail(
                BT_RESOURCE_EXHAUSTED,
                "the group's bundle %d asks for %g GPU; of the %d that the runtime has none has so much left "
                "beside the bundles before it (shares of one GPU cannot be of several: larger ones first)",
                i, bti_amount(amounts->of[1]), state->gpu_count);
        bti_supply_set_aside(state, &left, amounts, bti_supply_choose(state, &left, amounts));
    }
    return BT_OK;
}

bt_status bti_bundles_check(const bti_state *state, const bti_supply *bundles, int count) {
    bti_supply all = {.free = state->machine.total};
    uint64_t gpus[BTI_MOST_BUNDLES];
    int64_t strategy = bundles[0].total.strategy;
    for (int g = 0; g < state->gpu_count; g++) all.gpu_free[g] = BTI_UNIT;
    BTI_TRY(bundles_error(state, bundles, count, &all));
    for (int i = 0; i < count && strategy == BT_GROUP_STRICT_SPREAD; i++)
        if (!bundles[i].total.of[1])
            return bti_fail(BT_RESOURCE_EXHAUSTED,
                            "the group's bundle %d has no GPU: on one machine only GPUs can be in different places "
                            "(BT_GROUP_STRICT_SPREAD)",
                            i);
    if (bti_bundles_choose(state, bundles, count, &all, gpus)) return BT_OK;
    if (strategy == BT_GROUP_STRICT_PACK)
        return bti_fail(BT_RESOURCE_EXHAUSTED,
                        "the group's %d bundles do not fit into one set of GPUs with fast links to each other "
                        "(BT_GROUP_STRICT_PACK); BT_GROUP_PACK takes what is near",
                        count);
    return bti_fail(
        BT_RESOURCE_EXHAUSTED,
        "the group's %d bundles do not fit into different %s (BT_GROUP_STRICT_SPREAD); BT_GROUP_SPREAD takes "
        "what there is",
        count, has_links(state) ? "sets of GPUs with fast links to each other" : "GPUs");
}

/* --- their resources ------------------------------------------------------------------------------------------------- */

void bti_group_grant(bti_state *state, bti_group_record *group, const uint64_t *gpus, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    for (int i = 0; i < group->count; i++) {
        bti_supply *bundle = &group->bundles[i];
        bti_supply_take(state, &state->machine, &bundle->total, gpus[i], true);
        BTI_SET(arena, bundle->gpus, gpus[i]);
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

/* Of a group without handles and tasks. */
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

static bool is_group_over(const bti_group_record *group) { return group->released && !group->users; }

bool bti_groups_end(const bti_state *state) {
    const bti_group_record *group = state->groups;
    while (group && !is_group_over(group)) group = group->next;
    return group != NULL;
}

void bti_groups_clean(bti_state *state, bti_wakes *wakes) {
    for (bti_group_record **at = &state->groups; *at;) {
        bti_group_record *group = *at;
        for (bti_queue *queue = group->released ? group->queues : NULL; queue; queue = queue->next)
            (void)bti_queue_clean(state, queue, wakes);
        if (is_group_over(group))
            free_group(state, at, wakes);
        else
            at = &group->next;
    }
}

#include "task/fair.h"

#include "base/clock.h"
#include "task/group.h"
#include "task/queue.h"
#include "task/ready.h"

enum {
    LOOKED_AT =
        32, /* queues that are tried one by one, beside what is kept; the rest is tried by one search of the tree */
    MOST_KEPT = 4 /* tasks and groups of a supply for which something is kept at once */
};
static const uint64_t patience_ns = 1000000000u, first_period_ns = 2000000000u;

bool bti_keeps_at(uint64_t now_ns, uint64_t queued_ns, bool for_tasks, uint64_t *until_ns) {
    uint64_t from = queued_ns + patience_ns, period = first_period_ns;
    if (now_ns < from) return false;
    uint64_t past = now_ns - from;
    if (!for_tasks) past %= 2 * period;
    for (; past >= 2 * period; period *= 2) past -= 2 * period;
    if (past >= period) return false;
    return *until_ns = now_ns + (period - past), true;
}

/* --- what is kept for whom -------------------------------------------------------------------------------------------- */

/* What others may take of a supply, and what it can have at all. */
typedef struct look {
    bti_state *state;
    uint64_t now_ns, until_ns; /* until: when the first of what is kept is open again */
    bti_supply open;           /* to tasks */
    bti_supply open_to_all;    /* to actors and groups too */
    bti_supply to_come;        /* free once all tasks have ended that are not actors */
    bti_supply whole;          /* free once everything has ended */
    int keeps;
    uint32_t depth; /* of the deepest task for which it keeps */
    const bti_function_record *kept_for;
} look;

/* A task, or a group: what it takes, in parts. */
typedef struct wanted {
    const bti_queue *queue;
    const bti_group_record *group;
} wanted;

static int count_parts(const wanted *w) { return w->queue ? 1 : w->group->count; }
static const bti_amounts *part_of(const wanted *w, int i) {
    return w->queue ? &w->queue->amounts : &w->group->bundles[i].total;
}

static bti_amounts gpus_of(const bti_amounts *amounts) {
    return (bti_amounts){.of[1] = amounts->of[1], .gpu_bytes = amounts->gpu_bytes, .gpu_only = amounts->gpu_only};
}

static void begin_look(look *l, bti_state *state, const bti_supply *supply) {
    *l = (look){.state = state, .now_ns = bti_now_ns(), .open = *supply, .open_to_all = *supply};
    l->to_come = l->whole = *supply;
    for (int r = 0; r < state->resource_count; r++) {
        l->whole.free.of[r] = supply->total.of[r];
        l->to_come.free.of[r] = supply->total.of[r] - supply->kept.of[r];
    }
    for (int g = 0; g < state->gpu_count; g++) {
        bool has = !supply->group || supply->gpus >> g & 1;
        l->whole.gpu_free[g] = has ? bti_gpu_share(state, &supply->total, g) : 0;
        l->to_come.gpu_free[g] = l->whole.gpu_free[g] - supply->gpu_kept[g];
    }
}

/* Of the GPUs that it can have in `later` those of which most is free already. They fit. */
static uint64_t choose_for_later(const look *l, const bti_supply *later, const bti_amounts *amounts) {
    uint64_t chosen = 0;
    for (int64_t left = amounts->of[1]; left > 0; left -= BTI_UNIT) {
        int best = -1;
        for (int g = 0; g < l->state->gpu_count; g++)
            if (!(chosen >> g & 1) && later->gpu_free[g] >= bti_gpu_share(l->state, amounts, g) &&
                (!amounts->gpu_only || amounts->gpu_only >> g & 1) &&
                (best < 0 || l->open.gpu_free[g] > l->open.gpu_free[best]))
                best = g;
        if (best < 0) break;
        chosen |= (uint64_t)1 << best;
    }
    return chosen;
}

static bool choose_bundles(const look *l, const bti_group_record *group, const bti_supply *open, uint64_t *gpus) {
    return bti_bundles_choose(l->state, group->bundles, group->count, open, gpus);
}

static bool all_fit(const look *l, const wanted *w, const bti_supply *supply, bool only_gpus) {
    bti_supply left = *supply;
    uint64_t gpus[BTI_MOST_BUNDLES];
    for (int r = 0; r < l->state->resource_count && only_gpus; r++)
        if (r != 1) left.free.of[r] = INT64_MAX / 2;
    if (w->queue) return bti_supply_fits(l->state, &left, &w->queue->amounts);
    return choose_bundles(l, w->group, &left, gpus);
}

/* Counts the free shares of GPUs anew: of a GPU that is kept nothing is free. */
static void sum_gpus(const look *l, bti_supply *supply) {
    supply->free.of[1] = 0;
    for (int g = 0; g < l->state->gpu_count; g++)
        if (supply->gpu_free[g] > 0) supply->free.of[1] += supply->gpu_free[g];
}

static void set_aside_open(look *l, bool from_tasks, const bti_amounts *amounts, uint64_t gpus) {
    bti_supply_set_aside(l->state, &l->open_to_all, amounts, gpus);
    if (from_tasks) bti_supply_set_aside(l->state, &l->open, amounts, gpus);
}

/* Keeps GPUs first, then amounts of the next resource once there is enough of those before, CPUs last: resources that it cannot use yet are not idle. */
static void keep_for(look *l, const wanted *w, bool from_tasks) {
    bti_supply *later = from_tasks ? &l->to_come : &l->whole;
    const bti_supply before = l->open;
    bool lacks = !all_fit(l, w, &before, true);
    uint64_t chosen[BTI_MOST_BUNDLES];
    if (w->queue)
        chosen[0] = choose_for_later(l, later, part_of(w, 0));
    else if (!choose_bundles(l, w->group, later, chosen))
        return;
    for (int i = 0; i < count_parts(w); i++) {
        bti_amounts gpus = gpus_of(part_of(w, i));
        bti_supply_set_aside(l->state, later, part_of(w, i), chosen[i]);
        set_aside_open(l, from_tasks, &gpus, chosen[i]);
    }
    for (int n = 2; n <= l->state->resource_count && !lacks; n++) {
        int r = n % l->state->resource_count;
        bti_amounts sum = {.gpu_bytes = 0};
        for (int i = 0; i < count_parts(w); i++) sum.of[r] += part_of(w, i)->of[r];
        lacks = sum.of[r] > 0 && sum.of[r] > before.free.of[r];
        set_aside_open(l, from_tasks, &sum, 0);
    }
    sum_gpus(l, &l->open);
    sum_gpus(l, &l->open_to_all);
    sum_gpus(l, later);
}

/* For one that does not fit: keeps resources if it has waited long; false: it keeps none now. */
static bool keep_if_long(look *l, const wanted *w, uint64_t queued_ns) {
    uint64_t until;
    if (l->keeps == MOST_KEPT || l->now_ns < queued_ns + patience_ns) return false;
    bool from_tasks = all_fit(l, w, &l->to_come, false);
    if (!from_tasks && !all_fit(l, w, &l->whole, false)) return false;
    if (!bti_keeps_at(l->now_ns, queued_ns, from_tasks, &until)) return false;
    keep_for(l, w, from_tasks);
    if (!l->keeps) l->kept_for = w->queue ? w->queue->first->function : NULL;
    if (!l->keeps || until < l->until_ns) l->until_ns = until;
    if (w->queue && w->queue->first->depth > l->depth) l->depth = w->queue->first->depth;
    l->keeps++;
    return true;
}

/* --- whose turn ---------------------------------------------------------------------------------------------------------- */

/* An actor that takes more than CPUs while it is made: it has that for as long as it lives. */
static bool lives_on(const look *l, const bti_queue *queue) {
    const bti_task_record *task = queue->first;
    for (int r = 0; task->makes_actor && r < l->state->resource_count; r++)
        if (queue->amounts.of[r] && !(r == 0 && task->frees_cpus)) return true;
    return false;
}

static bool may_start(look *l, const bti_supply *supply, bti_queue *queue, bti_turn *turn) {
    const bti_supply *from = lives_on(l, queue) ? &l->open_to_all : &l->open;
    if (!bti_supply_fits(l->state, from, &queue->amounts)) {
        if (queue->first->depth <= l->depth || !bti_supply_fits(l->state, supply, &queue->amounts)) return false;
        from = supply;
    }
    turn->queue = queue;
    turn->gpus[0] = bti_supply_choose(l->state, from, &queue->amounts);
    return true;
}

/* Groups go before tasks, but not before those that waited long before them. */
static bool next_group(look *l, bti_queue *const *queues, bool *kept, int count, bti_turn *turn) {
    for (bti_group_record *group = l->state->groups; group; group = group->next) {
        if (group->has || group->released) continue;
        for (int i = 0; i < count; i++)
            if (!kept[i] && queues[i]->first->queued_ns < group->queued_ns &&
                !bti_supply_fits(l->state, &l->open, &queues[i]->amounts))
                kept[i] = keep_if_long(l, &(wanted){.queue = queues[i]}, queues[i]->first->queued_ns);
        if (choose_bundles(l, group, &l->open_to_all, turn->gpus)) return turn->group = group, true;
        (void)keep_if_long(l, &(wanted){.group = group}, group->queued_ns);
    }
    return false;
}

/* Some tasks are passed over: goes through all in order, and keeps resources for those that do not fit. */
static bool look_for_turn(look *l, bti_supply *supply, bti_queue *const *queues, int count, bti_turn *turn) {
    bool kept[LOOKED_AT] = {false};
    bool groups = !supply->group && l->state->groups_waiting;
    if (groups && next_group(l, queues, kept, count, turn)) return true;
    for (int i = 0; i < count; i++) {
        if (may_start(l, supply, queues[i], turn)) return true;
        if (!kept[i]) (void)keep_if_long(l, &(wanted){.queue = queues[i]}, queues[i]->first->queued_ns);
    }
    if (count < LOOKED_AT) return false;
    bti_queue *queue = bti_waiting_fit(l->state, supply, &l->open);
    return queue && may_start(l, supply, queue, turn);
}

typedef enum finding { NOTHING, TURN, CHANGED } finding; /* changed: a task that was not to run was ended */

/* Whether tasks that could start do not, because resources are kept; until when; for which function. */
typedef struct kept {
    bool from_some;
    uint64_t until_ns;
    const bti_function_record *for_function;
} kept;

/* The next task of a supply; of the machine also the next group. */
static finding turn_of(bti_state *state, bti_supply *supply, bti_turn *turn, kept *k, bti_wakes *wakes) {
    bti_queue *queue = bti_waiting_fit(state, supply, supply), *queues[LOOKED_AT];
    bool groups = !supply->group && state->groups_waiting;
    if (!queue && !groups) return NOTHING;
    turn->queue = NULL;
    turn->group = NULL;
    if (!groups && queue == bti_waiting_first(supply)) {
        if (bti_queue_clean(state, queue, wakes)) return CHANGED;
        turn->queue = queue;
        turn->gpus[0] = bti_supply_choose(state, supply, &queue->amounts);
        return TURN;
    }
    int count = bti_waiting_list(supply, queues, LOOKED_AT);
    for (int i = 0; i < count; i++)
        if (bti_queue_clean(state, queues[i], wakes)) return CHANGED;
    look l;
    begin_look(&l, state, supply);
    if (look_for_turn(&l, supply, queues, count, turn))
        return turn->queue && bti_queue_clean(state, turn->queue, wakes) ? CHANGED : TURN;
    if (queue && l.keeps && (!k->from_some || l.until_ns < k->until_ns)) *k = (kept){true, l.until_ns, l.kept_for};
    return NOTHING;
}

void bti_dispatch_at(bti_state *state, uint64_t at_ns, bti_wakes *wakes) {
    if (state->dispatch_at_ns && state->dispatch_at_ns <= at_ns) return;
    BTI_SET(state->arena, state->dispatch_at_ns, at_ns);
    wakes->nest = true;
}

static void note_kept(bti_state *state, const kept *k, bti_wakes *wakes) {
    if (state->keeps != k->from_some) BTI_SET(state->arena, state->keeps, k->from_some);
    if (!k->from_some) return;
    if (state->kept_for != k->for_function) BTI_SET(state->arena, state->kept_for, k->for_function);
    bti_dispatch_at(state, k->until_ns, wakes);
}

static finding first_turn(bti_state *state, bti_turn *turn, kept *k, bti_wakes *wakes) {
    bti_turn other;
    finding found = turn_of(state, &state->machine, turn, k, wakes);
    if (found == CHANGED) return CHANGED;
    for (bti_supply *bundle = state->waiting; bundle; bundle = bundle->next_waiting) {
        if (!bundle->group->has) continue;
        finding more = turn_of(state, bundle, &other, k, wakes);
        if (more == CHANGED) return CHANGED;
        bool is_first =
            more && (!found || (turn->queue && bti_task_goes_before(other.queue->first, turn->queue->first)));
        if (is_first) *turn = (bti_turn){.queue = other.queue, .gpus = {other.gpus[0]}};
        if (more) found = TURN;
    }
    return found;
}

bool bti_next_turn(bti_state *state, bti_turn *turn, bti_wakes *wakes) {
    kept k;
    finding found;
    do {
        k = (kept){.from_some = false};
        found = first_turn(state, turn, &k, wakes);
    } while (found == CHANGED);
    if (found == NOTHING) note_kept(state, &k, wakes);
    return found == TURN;
}

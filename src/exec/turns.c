#include "exec/turns.h"

#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "device/device.h"

enum { TURNS = 16 }; /* that are known */

struct bti_turns {
    size_t count;         /* addresses of a run */
    uint64_t runs;        /* so far */
    uint64_t used[TURNS]; /* the last run that had these addresses; 0: none are known */
    uint64_t addresses[]; /* [turn][address] */
};

struct bti_turns *bti_turns_new(const bti_plan *plan) {
    size_t count = plan->storages.count + plan->arenas.count;
    struct bti_turns *turns = bti_calloc(1, sizeof *turns + TURNS * count * sizeof *turns->addresses);
    if (turns) turns->count = count;
    return turns;
}

void bti_turns_free(struct bti_turns *turns) { bti_free(turns); }

/* A result that gets memory for the run: others are given, have the memory of what was given up, or are temporaries. */
static bool is_result(const bti_run *run, size_t s) {
    const bti_plan *plan = &run->prepared->plan;
    const bti_storage *storage = &plan->storages.items[s];
    return bti_plan_keeps(plan, storage) && !storage->given && !run->buffers[s];
}

static bool is_free(const bti_run *run, size_t s) {
    const bti_storage *storage = &run->prepared->plan.storages.items[s];
    return bti_block_is_free_at(storage->device, (size_t)storage->bytes, run->addresses[s]);
}

/* Not under the lock: the pool has one of its own. */
static bool all_free(const bti_run *run) {
    for (size_t s = 0; s < run->prepared->plan.storages.count; s++)
        if (is_result(run, s) && !is_free(run, s)) return false;
    return true;
}

/* --- under the lock of the prepared plan ----------------------------------------------------------------------------- */

static uint64_t *addresses_of(struct bti_turns *turns, int turn) {
    return turns->addresses + (size_t)turn * turns->count;
}

/* The turn that was used longest ago of those that were used after run `after`; TURNS: none. */
static int oldest(const struct bti_turns *turns, uint64_t after) {
    int found = TURNS;
    for (int i = 0; i < TURNS; i++)
        if (turns->used[i] > after && (found == TURNS || turns->used[i] < turns->used[found])) found = i;
    return found;
}

/* TURNS: there was no run yet. */
static int newest(const struct bti_turns *turns) {
    int found = TURNS;
    for (int i = 0; i < TURNS; i++)
        if (turns->used[i] && (found == TURNS || turns->used[i] > turns->used[found])) found = i;
    return found;
}

/* One whose addresses are not known, or else the one that was used longest ago. */
static int turn_to_replace(const struct bti_turns *turns) {
    int found = 0;
    for (int i = 1; i < TURNS; i++)
        if (turns->used[i] < turns->used[found]) found = i;
    return found;
}

/* The turn's addresses, of results or of temporaries; TURNS: none are known. */
static void offer(bti_run *run, int turn, bool results) {
    const bti_plan *plan = &run->prepared->plan;
    struct bti_turns *turns = run->prepared->turns;
    const uint64_t *known = turn < TURNS ? addresses_of(turns, turn) : NULL;
    for (size_t i = 0; i < turns->count; i++) {
        bool is_storage = i < plan->storages.count;
        if (is_storage && (plan->storages.items[i].given || run->buffers[i])) continue;
        if ((is_storage && is_result(run, i)) == results) run->addresses[i] = known ? known[i] : 0;
    }
}

/* --- turns ------------------------------------------------------------------------------------------------------------ */

/* The next turn after `*used` in the order of use, whose results' addresses the run has then; TURNS: none. */
static int offer_next(bti_run *run, uint64_t *used) {
    bti_prepared *of = run->prepared;
    bti_lock_take(&of->lock);
    int turn = oldest(of->turns, *used);
    if (turn < TURNS) {
        *used = of->turns->used[turn];
        offer(run, turn, true);
    }
    bti_lock_give(&of->lock);
    return turn;
}

/* A new turn has the newest's addresses where these are free, as those of results that nobody kept. */
static int offer_new(bti_run *run) {
    bti_prepared *of = run->prepared;
    bti_lock_take(&of->lock);
    offer(run, newest(of->turns), true);
    int turn = turn_to_replace(of->turns);
    bti_lock_give(&of->lock);
    for (size_t s = 0; s < of->plan.storages.count; s++)
        if (is_result(run, s) && !is_free(run, s)) run->addresses[s] = 0;
    return turn;
}

int bti_turns_find(bti_run *run) {
    bti_prepared *of = run->prepared;
    uint64_t used = 0;
    int turn = offer_next(run, &used);
    while (turn < TURNS && !all_free(run)) turn = offer_next(run, &used);
    if (turn == TURNS) turn = offer_new(run);
    bti_lock_take(&of->lock);
    offer(run, newest(of->turns), false);
    if (of->turns->used[turn]) of->turns->used[turn] = ++of->turns->runs; /* another thread takes another one */
    bti_lock_give(&of->lock);
    return turn;
}

void bti_turns_note(const bti_run *run, int turn) {
    struct bti_turns *turns = run->prepared->turns;
    bti_lock_take(&run->prepared->lock);
    turns->used[turn] = ++turns->runs;
    memcpy(addresses_of(turns, turn), run->addresses, turns->count * sizeof *turns->addresses);
    bti_lock_give(&run->prepared->lock);
}

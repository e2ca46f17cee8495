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

static bool is_free(const bti_run *run, size_t s, const uint64_t *addresses) {
    const bti_storage *storage = &run->prepared->plan.storages.items[s];
    return bti_block_is_free_at(storage->device, (size_t)storage->bytes, addresses[s]);
}

static bool all_free(const bti_run *run, const uint64_t *addresses) {
    for (size_t s = 0; s < run->prepared->plan.storages.count; s++)
        if (is_result(run, s) && !is_free(run, s, addresses)) return false;
    return true;
}

static uint64_t *addresses_of(struct bti_turns *turns, int turn) {
    return turns->addresses + (size_t)turn * turns->count;
}

/* TURNS: there was no run yet. */
static int newest(const struct bti_turns *turns) {
    int found = TURNS;
    for (int i = 0; i < TURNS; i++)
        if (turns->used[i] && (found == TURNS || turns->used[i] > turns->used[found])) found = i;
    return found;
}

/* The turn that was used longest ago of those that were used after run `after`; TURNS: none. */
static int oldest(const struct bti_turns *turns, uint64_t after) {
    int found = TURNS;
    for (int i = 0; i < TURNS; i++)
        if (turns->used[i] > after && (found == TURNS || turns->used[i] < turns->used[found])) found = i;
    return found;
}

static int oldest_that_is_free(const bti_run *run, struct bti_turns *turns) {
    int turn = oldest(turns, 0);
    while (turn < TURNS && !all_free(run, addresses_of(turns, turn))) turn = oldest(turns, turns->used[turn]);
    return turn;
}

/* One whose addresses are not known, or else the one that was used longest ago. */
static int turn_to_replace(const struct bti_turns *turns) {
    for (int i = 0; i < TURNS; i++)
        if (!turns->used[i]) return i;
    return oldest(turns, 0);
}

/* A turn that is new has the newest's addresses where these are free, as those of results that nobody kept. */
static void wish(bti_run *run, const uint64_t *results, const uint64_t *newest_ones, size_t count) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t i = 0; i < count; i++) {
        bool is_storage = i < plan->storages.count;
        if (is_storage && (plan->storages.items[i].given || run->buffers[i])) continue;
        if (!is_storage || !is_result(run, i))
            run->addresses[i] = newest_ones ? newest_ones[i] : 0;
        else if (results)
            run->addresses[i] = results[i];
        else
            run->addresses[i] = newest_ones && is_free(run, i, newest_ones) ? newest_ones[i] : 0;
    }
}

int bti_turns_find(bti_run *run) {
    bti_prepared *of = run->prepared;
    struct bti_turns *turns = of->turns;
    bti_lock_take(&of->lock);
    int last = newest(turns), turn = oldest_that_is_free(run, turns);
    bool known = turn < TURNS;
    if (!known) turn = turn_to_replace(turns);
    wish(run, known ? addresses_of(turns, turn) : NULL, last < TURNS ? addresses_of(turns, last) : NULL, turns->count);
    if (known) turns->used[turn] = ++turns->runs; /* another thread takes another one */
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

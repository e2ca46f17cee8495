#include "exec/turns.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/lock.h"

enum { TURNS = 32 }; /* that are known */

struct bti_turns {
    size_t count;           /* addresses of a run */
    uint64_t number[TURNS]; /* hashes of the addresses of what was given; 0: none */
    size_t next, newest;    /* the one that is replaced; whose temporaries lay where the next run's had best lie */
    uint64_t addresses[];   /* [turn][address] */
};

static size_t address_count(const bti_plan *plan) { return plan->storages.count + plan->arenas.count; }

struct bti_turns *bti_turns_new(const bti_plan *plan) {
    size_t count = address_count(plan);
    struct bti_turns *turns = bti_calloc(1, sizeof *turns + TURNS * count * sizeof *turns->addresses);
    if (turns) turns->count = count;
    return turns;
}

void bti_turns_free(struct bti_turns *turns) { bti_free(turns); }

/* Given, or an output that has the memory of what was given up. */
static bool has_memory(const bti_run *run, size_t storage) {
    const bti_plan *plan = &run->prepared->plan;
    return plan->storages.items[storage].given || run->buffers[storage];
}

static uint64_t number_of(const bti_run *run) {
    const bti_plan *plan = &run->prepared->plan;
    uint64_t number = 1;
    for (size_t s = 0; s < plan->storages.count; s++)
        if (plan->storages.items[s].given && plan->storages.items[s].last_step >= 0)
            number = XXH3_64bits_withSeed(&run->addresses[s], sizeof *run->addresses, number);
    return number ? number : 1;
}

/* Under the lock of the prepared plan. */
static uint64_t *addresses_of(struct bti_turns *turns, uint64_t number) {
    for (size_t i = 0; i < TURNS; i++)
        if (turns->number[i] == number) return turns->addresses + i * turns->count;
    return NULL;
}

uint64_t bti_turns_find(bti_run *run) {
    bti_prepared *of = run->prepared;
    uint64_t number = number_of(run);
    bti_lock_take(&of->lock);
    const uint64_t *known = addresses_of(of->turns, number);
    size_t storages = of->plan.storages.count;
    for (size_t s = 0; s < storages; s++)
        if (!has_memory(run, s)) run->addresses[s] = known ? known[s] : 0;
    for (size_t i = storages; i < of->turns->count; i++)
        run->addresses[i] = of->turns->addresses[of->turns->newest * of->turns->count + i];
    bti_lock_give(&of->lock);
    return number;
}

void bti_turns_note(const bti_run *run, uint64_t turn) {
    bti_prepared *of = run->prepared;
    bti_lock_take(&of->lock);
    uint64_t *known = addresses_of(of->turns, turn);
    if (!known) {
        known = of->turns->addresses + of->turns->next * of->turns->count;
        of->turns->number[of->turns->next] = turn;
        of->turns->next = (of->turns->next + 1) % TURNS;
    }
    of->turns->newest = (size_t)(known - of->turns->addresses) / of->turns->count;
    memcpy(known, run->addresses, of->turns->count * sizeof *known);
    bti_lock_give(&of->lock);
}

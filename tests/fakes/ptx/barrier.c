/* The sixteen barriers of a block: bar.sync, bar.arrive, bar.red. A barrier without a count waits for every thread that the block began
 * with: hardware since Volta goes on when the others have ended, but berth must not rely on it. */
#include <string.h>

#include "fakes/ptx/engine.h"

#define LANE_BIT(lane) (UINT32_C(1) << (lane))

/* The value of an operand that must be the same for all lanes of the group. */
static bool uniform_source(engine *e, const warp *w, const group *g, const step *s, int k, uint32_t *value) {
    uint64_t scratch[PTX_WARP];
    const uint64_t *lanes = ptx_source(e, w, g, s, k, scratch);
    *value = (uint32_t)lanes[__builtin_ctz(g->mask)];
    EACH_LANE(lane, g->mask) {
        if ((uint32_t)lanes[lane] != *value)
            return ptx_fail(e, w, s->in, (int)lane, "barrier operands differ within a warp: %u and %u", *value,
                            (uint32_t)lanes[lane]);
    }
    return true;
}

static uint64_t reduced_predicate(const ptx_instruction *in, const barrier *b) {
    return in->mode == PTX_DO_AND ? b->all : in->mode == PTX_DO_OR ? b->any : b->count;
}

/* All are there: those that wait go on. */
static void open_barrier(engine *e, uint32_t number) {
    barrier *b = &e->barriers[number];
    uint32_t waiting[ENGINE_WARPS] = {0};
    for (uint32_t i = 0; i < e->warp_count; i++) {
        warp *w = &e->warps[i];
        if (!b->present[i]) continue;
        for (group *g = w->groups; g < w->groups + w->slot_count; g++) {
            if (!g->mask || g->state != GROUP_WAITS || g->barrier != number) continue;
            const ptx_instruction *in = e->codes[g->function].steps[g->pc].in;
            if (in->opcode == PTX_BAR_RED) {
                uint64_t *to = register_lanes(w, g, in->to[0].number);
                EACH_LANE(lane, g->mask) to[lane] = reduced_predicate(in, b);
            }
            waiting[i] |= g->mask;
            g->pc++;
            g->state = GROUP_READY;
            e->ready |= UINT32_C(1) << i;
        }
    }
    watch_barrier(e->watched, e->block, number, waiting, e->warp_count);
    *b = (barrier){.expected = 0};
}

static bool arrive(engine *e, warp *w, group *g, const step *s, uint32_t number, uint32_t expected, uint32_t threads) {
    barrier *b = &e->barriers[number];
    const ptx_instruction *in = s->in;
    if (!b->expected) *b = (barrier){.expected = expected, .all = 1};
    if (b->expected != expected)
        return ptx_fail(e, w, in, __builtin_ctz(g->mask), "barrier %u waits for %u threads here and for %u elsewhere",
                        number, expected, b->expected);
    if (b->present[w->number] & g->mask)
        return ptx_fail(e, w, in, __builtin_ctz(b->present[w->number] & g->mask),
                        "the thread arrives at barrier %u twice before it opens", number);
    if (b->arrived + threads > expected)
        return ptx_fail(e, w, in, __builtin_ctz(g->mask), "%u threads arrive at barrier %u, which waits for %u",
                        b->arrived + threads, number, expected);
    b->present[w->number] |= g->mask;
    b->arrived += threads;
    e->counts.barriers++;
    if (in->opcode != PTX_BAR_RED) return true;
    uint64_t scratch[PTX_WARP];
    uint32_t yes = ptx_predicate(ptx_source(e, w, g, s, in->from_count - 1, scratch)) & g->mask;
    b->all &= yes == g->mask;
    b->any |= yes != 0;
    b->count += (uint32_t)__builtin_popcount(yes);
    return true;
}

outcome ptx_barrier(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    const ptx_instruction *in = s->in;
    uint32_t number, expected = e->threads, threads;
    if (!mask) return OUTCOME_NEXT;
    if (ptx_leave_unguarded(w, g, mask)) return OUTCOME_GROUPS;
    if (in->aligned && g->mask != w->live) {
        g->state = GROUP_GATHERS;
        return OUTCOME_GROUPS;
    }
    bool counted = in->from_count > (in->opcode == PTX_BAR_RED ? 2 : 1);
    if (!uniform_source(e, w, g, s, 0, &number)) return OUTCOME_FAILED;
    if (counted && !uniform_source(e, w, g, s, 1, &expected)) return OUTCOME_FAILED;
    threads = counted && in->aligned ? PTX_WARP : (uint32_t)__builtin_popcount(g->mask);
    if (number >= ENGINE_BARRIERS || !expected || (counted && expected % PTX_WARP)) {
        ptx_fail(e, w, in, __builtin_ctz(g->mask),
                 "barrier %u with %u threads: there are 16 barriers, the count is a multiple of 32", number, expected);
        return OUTCOME_FAILED;
    }
    if (!arrive(e, w, g, s, number, expected, threads)) return OUTCOME_FAILED;
    if (in->opcode == PTX_BAR_ARRIVE) {
        watch_arrive(e->watched, e->block, number, w->first_thread, g->mask);
        g->pc++;
    } else {
        g->state = GROUP_WAITS;
        g->barrier = number;
    }
    if (e->barriers[number].arrived == expected) open_barrier(e, number);
    return OUTCOME_GROUPS;
}

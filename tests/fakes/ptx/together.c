/* Instructions that the lanes of a member mask execute together: bar.warp.sync, shfl, vote, match, redux, elect. A lane waits until all
 * members that have not ended are at the same instruction with the same mask (PTX ISA, "Parallel Synchronization and Communication
 * Instructions"). What the manual leaves undefined is an error. */
#include "fakes/ptx/engine.h"

#define LANE_BIT(lane) (UINT32_C(1) << (lane))

/* The members that execute now. 0: none yet, or a failure. */
static uint32_t members_ready(engine *e, const warp *w, const group *g, const ptx_instruction *in,
                              const uint64_t *members) {
    bool ends_allowed = in->opcode != PTX_BAR_WARP;
    EACH_LANE(lane, g->mask) {
        uint32_t named = (uint32_t)members[lane];
        if (!(named & LANE_BIT(lane))) {
            ptx_fail(e, w, in, (int)lane, "the thread is not in its member mask 0x%x", named);
            return 0;
        }
        if (!ends_allowed && (named & w->started & ~w->live)) {
            ptx_fail(e, w, in, (int)lane, "the member mask 0x%x names threads that have ended (0x%x)", named,
                     named & w->started & ~w->live);
            return 0;
        }
    }
    EACH_LANE(lane, g->mask) {
        uint32_t named = (uint32_t)members[lane], needed = named & w->live;
        EACH_LANE(other, needed & g->mask) {
            if ((uint32_t)members[other] == named) continue;
            ptx_fail(e, w, in, (int)lane, "the member masks 0x%x and 0x%x (thread %u) differ", named,
                     (uint32_t)members[other], w->first_thread + other);
            return 0;
        }
        if (!(needed & ~g->mask)) return needed;
    }
    return 0;
}

/* --- shfl ----------------------------------------------------------------------------------------------------------- */

/* The lane that `lane` reads; *inside: it is within the segment. */
static int source_lane(int mode, int lane, uint32_t b, uint32_t c, bool *inside) {
    int mask = (int)(c >> 8 & 31), clamp = (int)(c & 31), by = (int)(b & 31), from;
    int most = (lane & mask) | (clamp & ~mask), least = lane & mask;
    switch (mode) {
    case PTX_SHFL_UP: from = lane - by; break;
    case PTX_SHFL_DOWN: from = lane + by; break;
    case PTX_SHFL_BFLY: from = lane ^ by; break;
    default: from = least | (by & ~mask); break;
    }
    *inside = mode == PTX_SHFL_UP ? from >= most : from <= most;
    return *inside ? from : lane;
}

/* What is read of a lane that does not take part is unpredictable: a drawn value. */
static void shuffle(engine *e, warp *w, group *g, const step *s, uint32_t ready) {
    uint64_t scratch[3][PTX_WARP], result[PTX_WARP];
    const uint64_t *value = ptx_source(e, w, g, s, 0, scratch[0]), *b = ptx_source(e, w, g, s, 1, scratch[1]),
                   *c = ptx_source(e, w, g, s, 2, scratch[2]);
    uint32_t inside_mask = 0;
    EACH_LANE(lane, ready) {
        bool inside;
        int from = source_lane(s->in->mode, (int)lane, (uint32_t)b[lane], (uint32_t)c[lane], &inside);
        result[lane] = (uint32_t)(ready & LANE_BIT(from) ? value[from] : ptx_draw(e));
        if (inside) inside_mask |= LANE_BIT(lane);
    }
    if (s->in->to[0].kind == PTX_REGISTER) {
        uint64_t *to = register_lanes(w, g, s->in->to[0].number);
        EACH_LANE(lane, ready) to[lane] = result[lane];
    }
    if (s->in->to_count < 2 || s->in->to[1].kind != PTX_REGISTER) return;
    uint64_t *to = register_lanes(w, g, s->in->to[1].number);
    EACH_LANE(lane, ready) to[lane] = inside_mask >> lane & 1;
}

/* --- vote, match, redux --------------------------------------------------------------------------------------------- */

static uint64_t vote(int mode, const uint64_t *value, uint32_t ready) {
    uint32_t yes = ptx_predicate(value) & ready;
    switch (mode) {
    case PTX_ALL: return yes == ready;
    case PTX_ANY: return yes != 0;
    case PTX_UNI: return yes == ready || !yes;
    default: return yes; /* PTX_BALLOT */
    }
}

static uint32_t lanes_with(const uint64_t *value, uint64_t same, uint32_t ready) {
    uint32_t found = 0;
    EACH_LANE(lane, ready) {
        if (value[lane] == same) found |= LANE_BIT(lane);
    }
    return found;
}

static uint32_t reduce_two(int mode, bool is_signed, uint32_t a, uint32_t b) {
    bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    switch (mode) {
    case PTX_DO_ADD: return a + b;
    case PTX_DO_MIN: return less ? a : b;
    case PTX_DO_MAX: return less ? b : a;
    case PTX_DO_AND: return a & b;
    case PTX_DO_OR: return a | b;
    default: return a ^ b; /* PTX_DO_XOR */
    }
}

static uint64_t reduce_lanes(const ptx_instruction *in, const uint64_t *value, uint32_t ready) {
    uint32_t sum = (uint32_t)value[__builtin_ctz(ready)];
    EACH_LANE(lane, ready & (ready - 1)) sum = reduce_two(in->mode, in->type == PTX_S32, sum, (uint32_t)value[lane]);
    return sum;
}

static void combine_lanes(engine *e, warp *w, group *g, const step *s, uint32_t ready) {
    uint64_t scratch[PTX_WARP], result[PTX_WARP], flag[PTX_WARP];
    const ptx_instruction *in = s->in;
    const uint64_t *value = ptx_source(e, w, g, s, 0, scratch);
    uint32_t leader = (uint32_t)__builtin_ctz(ready);
    uint64_t of_all = in->opcode == PTX_VOTE    ? vote(in->mode, value, ready)
                      : in->opcode == PTX_REDUX ? reduce_lanes(in, value, ready)
                      : in->opcode == PTX_ELECT ? leader
                                                : lanes_with(value, value[leader], ready);
    EACH_LANE(lane, ready) {
        flag[lane] = in->opcode == PTX_ELECT ? lane == leader : of_all == ready;
        result[lane] = of_all;
        if (in->opcode != PTX_MATCH) continue;
        result[lane] = in->mode == PTX_ALL ? (of_all == ready ? ready : 0) : lanes_with(value, value[lane], ready);
    }
    for (int k = 0; k < in->to_count && k < 2; k++) {
        if (in->to[k].kind != PTX_REGISTER) continue;
        uint64_t *to = register_lanes(w, g, in->to[k].number);
        EACH_LANE(lane, ready) to[lane] = k ? flag[lane] : result[lane];
    }
}

outcome ptx_together(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t scratch[PTX_WARP];
    const ptx_instruction *in = s->in;
    if (!mask) return OUTCOME_NEXT;
    if (ptx_leave_unguarded(w, g, mask)) return OUTCOME_GROUPS;
    uint32_t ready = members_ready(e, w, g, in, ptx_source(e, w, g, s, in->from_count - 1, scratch));
    if (e->problem) return OUTCOME_FAILED;
    if (!ready) {
        g->state = GROUP_GATHERS;
        return OUTCOME_GROUPS;
    }
    if (in->opcode == PTX_SHFL) {
        shuffle(e, w, g, s, ready);
    } else if (in->opcode == PTX_BAR_WARP) {
        watch_warp_sync(e->watched, e->block, w->first_thread, ready);
    } else {
        combine_lanes(e, w, g, s, ready);
    }
    if (ready == g->mask) return OUTCOME_NEXT;
    ptx_split(w, g, ready, g->pc + 1);
    return OUTCOME_GROUPS;
}

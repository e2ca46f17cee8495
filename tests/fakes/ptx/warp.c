/* Runs one warp: which group of lanes goes next, and the instructions of that group. */
#include <string.h>

#include "fakes/ptx/engine.h"

/* --- groups --------------------------------------------------------------------------------------------------------- */

group *ptx_split(warp *w, group *g, uint32_t leaving, uint32_t pc) {
    group *other = w->groups;
    while (other->mask) other++; /* there are as many slots as lanes */
    if (other == w->groups + w->slot_count) w->slot_count++;
    *other = *g;
    other->mask = leaving;
    other->pc = pc;
    other->state = GROUP_READY;
    g->mask &= ~leaving;
    w->group_count++;
    return other;
}

void ptx_end_lanes(warp *w, group *g, uint32_t lanes) {
    w->live &= ~lanes;
    g->mask &= ~lanes;
    if (!g->mask) w->group_count--;
    for (group *other = w->groups; other < w->groups + w->slot_count;
         other++) /* they may have waited for these lanes */
        if (other->mask && other->state == GROUP_GATHERS) other->state = GROUP_READY;
}

bool ptx_leave_unguarded(warp *w, group *g, uint32_t mask) {
    if (mask == g->mask) return false;
    if (mask) ptx_split(w, g, g->mask & ~mask, g->pc + 1);
    return true;
}

static bool at_same_place(const group *a, const group *b) {
    return a->pc == b->pc && a->function == b->function && a->registers == b->registers && a->frame == b->frame &&
           a->depth == b->depth;
}

static void merge_groups(warp *w) {
    for (group *a = w->groups; a < w->groups + w->slot_count; a++) {
        if (!a->mask || a->state == GROUP_WAITS) continue;
        for (group *b = a + 1; b < w->groups + w->slot_count; b++) {
            if (!b->mask || b->state == GROUP_WAITS || !at_same_place(a, b)) continue;
            a->mask |= b->mask;
            a->state = GROUP_READY;
            b->mask = 0;
            w->group_count--;
        }
    }
    while (w->slot_count && !w->groups[w->slot_count - 1].mask) w->slot_count--;
}

/* As a rule the deepest call, then the smallest place, so that lanes meet again; at times another one, so that code shows that relies
 * on lanes which run in step. Rarely in a sample, which is run for its counts: hardware lets lanes meet again, as a rule. */
static group *choose_group(engine *e, warp *w, uint32_t *budget) {
    group *ready[PTX_WARP], *best = NULL;
    int count = 0;
    for (group *g = w->groups; g < w->groups + w->slot_count; g++) {
        if (!g->mask || g->state != GROUP_READY) continue;
        ready[count++] = g;
        if (!best || g->depth > best->depth || (g->depth == best->depth && g->pc < best->pc)) best = g;
    }
    if (count < 2) return best;
    uint64_t drawn = ptx_draw(e);
    if (drawn % (e->launch->sample ? 1024 : 8)) return best;
    uint32_t few = 1 + (uint32_t)(drawn >> 8) % 32;
    if (*budget > few) *budget = few;
    return ready[(drawn >> 32) % (uint64_t)count];
}

/* The place at which the group meets another one. */
static uint32_t next_meeting(const warp *w, const group *g) {
    uint32_t meeting = UINT32_MAX;
    if (w->group_count == 1) return meeting;
    for (const group *other = w->groups; other < w->groups + w->slot_count; other++) {
        if (!other->mask || other == g || other->state == GROUP_WAITS || other->function != g->function) continue;
        if (other->pc > g->pc && other->pc < meeting) meeting = other->pc;
    }
    return meeting;
}

/* --- control flow --------------------------------------------------------------------------------------------------- */

static outcome branch(warp *w, group *g, const ptx_instruction *in, uint32_t mask) {
    if (!mask) return OUTCOME_NEXT;
    if (mask == g->mask) {
        g->pc = in->target;
        return w->group_count > 1 ? OUTCOME_GROUPS : OUTCOME_MOVED;
    }
    ptx_split(w, g, mask, in->target);
    g->pc++;
    return OUTCOME_GROUPS;
}

static void copy_frames(engine *e, const warp *w, uint32_t mask, uint32_t to, uint32_t from, uint32_t bytes) {
    EACH_LANE(lane, mask) {
        unsigned char *local = e->local + (w->first_thread + lane) * e->local_stride;
        memcpy(local + to, local + from, bytes);
    }
}

static outcome call(engine *e, warp *w, group *g, const ptx_instruction *in, uint32_t mask) {
    if (!mask) return OUTCOME_NEXT;
    if (ptx_leave_unguarded(w, g, mask)) return OUTCOME_GROUPS;
    const ptx_function *caller = e->codes[g->function].function;
    int lane = __builtin_ctz(mask);
    if (in->target >= (uint32_t)e->launch->module->function_count) {
        ptx_fail(e, w, in, lane, "a call of a function that is not in the module");
        return OUTCOME_FAILED;
    }
    const ptx_function *callee = &e->launch->module->functions[in->target];
    if (!callee->count) {
        ptx_fail(e, w, in, lane, "a call of %s, which has no body", callee->name);
        return OUTCOME_FAILED;
    }
    ptx_code(e, in->target);
    uint32_t frame = (g->frame + caller->frame_bytes + 15) & ~UINT32_C(15),
             registers = g->registers + caller->registers;
    if (g->depth + 1 >= ENGINE_DEPTH || frame + callee->frame_bytes > e->local_stride) {
        ptx_fail(e, w, in, lane, "calls are nested more than %u deep", g->depth);
        return OUTCOME_FAILED;
    }
    if (registers + callee->registers > w->register_capacity) {
        w->register_capacity = (registers + callee->registers) * (size_t)2;
        w->registers = ptx_need(w->registers, w->register_capacity * PTX_WARP, sizeof *w->registers);
    }
    if (!w->returns) w->returns = ptx_need(NULL, ENGINE_DEPTH * PTX_WARP, sizeof *w->returns);
    EACH_LANE(l, mask) {
        w->returns[g->depth * PTX_WARP + l] = (return_place){g->pc, g->function, g->registers, g->frame};
        memset(e->local + (w->first_thread + l) * e->local_stride + frame, ENGINE_POISON, callee->frame_bytes);
    }
    for (int i = 0; i < callee->parameter_count && i < in->call_argument_count; i++)
        copy_frames(e, w, mask, frame + callee->parameters[i].offset, g->frame + in->call_arguments[i],
                    callee->parameters[i].bytes);
    *g = (group){mask, 0, in->target, g->depth + 1, registers, frame, GROUP_READY, 0};
    return w->group_count > 1 ? OUTCOME_GROUPS : OUTCOME_MOVED;
}

/* Lanes that came from different calls part. */
static outcome return_lanes(engine *e, warp *w, group *g, uint32_t mask) {
    if (!mask) return OUTCOME_NEXT;
    if (ptx_leave_unguarded(w, g, mask)) return OUTCOME_GROUPS;
    if (!g->depth) {
        ptx_end_lanes(w, g, mask);
        return OUTCOME_GROUPS;
    }
    const return_place *places = w->returns + (size_t)(g->depth - 1) * PTX_WARP;
    return_place to = places[__builtin_ctz(mask)];
    uint32_t others = 0;
    EACH_LANE(lane, mask) {
        if (memcmp(&places[lane], &to, sizeof to) != 0) others |= UINT32_C(1) << lane;
    }
    if (others) ptx_split(w, g, others, g->pc);
    const ptx_function *callee = e->codes[g->function].function;
    const ptx_instruction *in = e->codes[to.function].steps[to.pc].in;
    for (int i = 0; i < callee->result_count && i < in->call_result_count; i++)
        copy_frames(e, w, g->mask, to.frame + in->call_results[i], g->frame + callee->results[i].offset,
                    callee->results[i].bytes);
    *g = (group){g->mask, to.pc + 1, to.function, g->depth - 1, to.registers, to.frame, GROUP_READY, 0};
    return w->group_count > 1 ? OUTCOME_GROUPS : OUTCOME_MOVED;
}

/* --- instructions --------------------------------------------------------------------------------------------------- */

/* mov that packs or unpacks the elements of a vector, or takes an address. */
static bool move(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t scratch[PTX_WARP], packed[PTX_WARP] = {0};
    const ptx_instruction *in = s->in;
    int parts = in->to_count > in->from_count ? in->to_count : in->from_count;
    uint32_t bits = ptx_type_bytes(in->type) * 8 / (uint32_t)parts;
    if (in->opcode != PTX_MOV || !bits) return ptx_fail(e, w, in, -1, "nothing computes this instruction");
    uint64_t part = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    for (int k = 0; k < in->from_count; k++) {
        const uint64_t *from = ptx_source(e, w, g, s, k, scratch);
        if (in->from_count == 1) part = ~UINT64_C(0);
        for (int lane = 0; lane < PTX_WARP; lane++) packed[lane] |= (from[lane] & part) << (k * (int)bits & 63);
    }
    part = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    for (int k = 0; k < in->to_count; k++) {
        if (in->to[k].kind != PTX_REGISTER) continue;
        uint64_t *to = register_lanes(w, g, in->to[k].number);
        uint64_t kept = in->to_count == 1 && in->from_count > 1 ? ~UINT64_C(0) : part;
        EACH_LANE(lane, mask) to[lane] = packed[lane] >> (k * (int)bits & 63) & kept;
    }
    return true;
}

static void compute(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t scratch[4][PTX_WARP], unused[PTX_WARP];
    const uint64_t *from[4] = {NULL, NULL, NULL, NULL};
    const ptx_instruction *in = s->in;
    for (int k = 0; k < in->from_count && k < 4; k++) from[k] = ptx_source(e, w, g, s, k, scratch[k]);
    uint64_t *to = in->to[0].kind == PTX_REGISTER ? register_lanes(w, g, in->to[0].number) : unused;
    uint64_t *to2 = in->to_count > 1 && in->to[1].kind == PTX_REGISTER ? register_lanes(w, g, in->to[1].number) : NULL;
    in->compute(in, to, to2, from[0], from[1], from[2], from[3], mask, &w->carry, e->launch->error_seed);
}

static void fence(engine *e, const warp *w, const ptx_instruction *in, uint32_t mask) {
    EACH_LANE(lane, mask) {
        watch_place place = {e->block, w->first_thread + lane, in};
        watch_fence(e->watched, &place, (ptx_scope)in->scope);
    }
}

static outcome other_instruction(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    const ptx_instruction *in = s->in;
    switch (in->opcode) {
    case PTX_CALL: return call(e, w, g, in, mask);
    case PTX_RET: return return_lanes(e, w, g, mask);
    case PTX_BAR_SYNC:
    case PTX_BAR_ARRIVE:
    case PTX_BAR_RED: return ptx_barrier(e, w, g, s, mask);
    case PTX_BAR_WARP:
    case PTX_SHFL:
    case PTX_VOTE:
    case PTX_MATCH:
    case PTX_REDUX:
    case PTX_ELECT: return ptx_together(e, w, g, s, mask);
    default: break;
    }
    if (!mask) return OUTCOME_NEXT;
    bool done = true;
    switch (in->opcode) {
    case PTX_LD:
    case PTX_LDU: done = ptx_load(e, w, g, s, mask); break;
    case PTX_ST: done = ptx_store(e, w, g, s, mask); break;
    case PTX_CVTA: done = ptx_cvta(e, w, g, s, mask); break;
    case PTX_ISSPACEP: done = ptx_isspacep(e, w, g, s, mask); break;
    case PTX_ATOM:
    case PTX_RED: done = ptx_atomic(e, w, g, s, mask); break;
    case PTX_CP_ASYNC: done = ptx_copy_start(e, w, g, s, mask); break;
    case PTX_CP_ASYNC_COMMIT: ptx_copy_commit(e, w, s, mask); break;
    case PTX_CP_ASYNC_WAIT: ptx_copy_wait(e, w, s, mask); break;
    case PTX_FENCE: fence(e, w, in, mask); break;
    case PTX_PREFETCH:
    case PTX_NANOSLEEP: break;
    case PTX_ACTIVEMASK: {
        uint64_t *to = register_lanes(w, g, in->to[0].number);
        EACH_LANE(lane, mask) to[lane] = mask;
        break;
    }
    case PTX_EXIT:
        if (ptx_leave_unguarded(w, g, mask)) return OUTCOME_GROUPS;
        ptx_end_lanes(w, g, mask);
        return OUTCOME_GROUPS;
    case PTX_TRAP: done = ptx_fail(e, w, in, __builtin_ctz(mask), "the kernel stops itself"); break;
    default: done = move(e, w, g, s, mask); break;
    }
    return done ? OUTCOME_NEXT : OUTCOME_FAILED;
}

/* Runs the group until it meets another one, waits or ends. False after a failure. */
static bool run_group(engine *e, warp *w, group *g, uint32_t budget) {
    uint32_t meeting = next_meeting(w, g);
    const step *steps = e->codes[g->function].steps;
    uint32_t function = g->function;
    while (budget--) {
        const step *s = &steps[g->pc];
        const ptx_instruction *in = s->in;
        uint32_t mask = g->mask;
        outcome out = OUTCOME_NEXT;
        if (in->guard >= 0) {
            uint32_t guard = ptx_predicate(register_lanes(w, g, (uint32_t)in->guard));
            mask &= in->guard_not ? ~guard : guard;
        }
        e->steps++;
        e->counts.instructions++;
        if (e->counting) ptx_count_waits(e, w, g, in);
        e->counts.divergent += g->mask != w->live;
        if (in->compute) {
            if (mask) compute(e, w, g, s, mask);
        } else {
            out = in->opcode == PTX_BRA ? branch(w, g, in, mask) : other_instruction(e, w, g, s, mask);
        }
        if (out == OUTCOME_NEXT) {
            if (++g->pc >= meeting) return true;
            continue;
        }
        if (out != OUTCOME_MOVED) return out == OUTCOME_GROUPS;
        if (g->function != function) {
            function = g->function;
            steps = e->codes[function].steps;
        }
    }
    return true;
}

/* Endless loops end here: most_steps. */
static bool out_of_steps(engine *e, const warp *w, const group *g) {
    uint64_t most = e->launch->most_steps;
    if (!most || e->steps < most) return false;
    const ptx_instruction *in = e->codes[g->function].steps[g->pc].in;
    ptx_fail(e, w, in, __builtin_ctz(g->mask),
             "the launch has not ended after %llu instructions of warps: an endless loop", (unsigned long long)most);
    return true;
}

/* Runs a warp for a while, until it waits at a barrier or ends. */
bool ptx_run_warp(engine *e, warp *w) {
    uint64_t drawn = ptx_draw(e);
    uint32_t quantum = drawn % 4 ? 2000 : 1 + (uint32_t)(drawn >> 8) % 64;
    uint64_t end = e->steps + quantum;
    while (e->steps < end) {
        uint32_t budget = (uint32_t)(end - e->steps);
        if (w->group_count > 1) merge_groups(w);
        group *g = choose_group(e, w, &budget);
        if (!g) {
            e->ready &= ~(UINT32_C(1) << w->number);
            return true;
        }
        if (out_of_steps(e, w, g) || !run_group(e, w, g, budget)) return false;
    }
    return true;
}

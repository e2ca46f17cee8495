/* Operands: decided once for each instruction of a launch, read for all lanes of a group. */
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "fakes/ptx/engine.h"

/* --- constants ------------------------------------------------------------------------------------------------------ */

static void grow_constants(engine *e) {
    e->constant_capacity = e->constant_capacity ? e->constant_capacity * 2 : 64;
    e->constants = ptx_need(e->constants, e->constant_capacity, sizeof *e->constants);
    e->constant_slot_count = e->constant_capacity * 2;
    e->constant_slots = ptx_need(e->constant_slots, e->constant_slot_count, sizeof *e->constant_slots);
    memset(e->constant_slots, 0, e->constant_slot_count * sizeof *e->constant_slots);
}

static size_t constant_slot(const engine *e, uint64_t value) {
    size_t slot = (size_t)(value * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (e->constant_slot_count - 1);
    while (e->constant_slots[slot] && e->constants[e->constant_slots[slot] - 1][0] != value)
        slot = (slot + 1) & (e->constant_slot_count - 1);
    return slot;
}

static uint32_t constant_number(engine *e, uint64_t value) {
    if (e->constant_count == e->constant_capacity) {
        grow_constants(e);
        for (uint32_t i = 0; i < e->constant_count; i++)
            e->constant_slots[constant_slot(e, e->constants[i][0])] = i + 1;
    }
    size_t slot = constant_slot(e, value);
    if (!e->constant_slots[slot]) {
        for (int lane = 0; lane < PTX_WARP; lane++) e->constants[e->constant_count][lane] = value;
        e->constant_slots[slot] = (uint32_t)++e->constant_count;
    }
    return (e->constant_slots[slot] - 1) | STEP_CONSTANT;
}

/* --- steps ---------------------------------------------------------------------------------------------------------- */

static uint32_t decide_source(engine *e, const ptx_operand *operand) {
    switch (operand->kind) {
    case PTX_REGISTER: return operand->negate || operand->value ? STEP_COMPUTED : operand->number;
    case PTX_IMMEDIATE: return constant_number(e, operand->negate ? !operand->value : operand->value);
    case PTX_SHARED_AT:
    case PTX_PARAM_AT: return constant_number(e, operand->value);
    default: return STEP_COMPUTED;
    }
}

void ptx_code(engine *e, uint32_t function) {
    code *c = &e->codes[function];
    if (c->steps) return;
    c->steps = ptx_need(NULL, c->function->count, sizeof *c->steps);
    for (uint32_t i = 0; i < c->function->count; i++) {
        const ptx_instruction *in = &c->function->instructions[i];
        c->steps[i].in = in;
        for (int k = 0; k < 6; k++)
            c->steps[i].from[k] = k < in->from_count ? decide_source(e, &in->from[k]) : STEP_COMPUTED;
    }
}

/* --- values --------------------------------------------------------------------------------------------------------- */

static uint64_t special_of_lane(const engine *e, const warp *w, uint32_t special, uint32_t lane) {
    const uint32_t *n = e->launch->block, thread = w->first_thread + lane, bit = UINT32_C(1) << lane;
    switch (special) {
    case PTX_TID_X: return thread % n[0];
    case PTX_TID_Y: return thread / n[0] % n[1];
    case PTX_TID_Z: return thread / n[0] / n[1];
    case PTX_NTID_X:
    case PTX_NTID_Y:
    case PTX_NTID_Z: return n[special - PTX_NTID_X];
    case PTX_CTAID_X:
    case PTX_CTAID_Y:
    case PTX_CTAID_Z: return e->block_at[special - PTX_CTAID_X];
    case PTX_NCTAID_X:
    case PTX_NCTAID_Y:
    case PTX_NCTAID_Z: return e->launch->grid[special - PTX_NCTAID_X];
    case PTX_LANEID: return lane;
    case PTX_WARPID: return w->number;
    case PTX_NWARPID: return e->warp_count;
    case PTX_NSMID: return 1;
    case PTX_CLOCK: return (uint32_t)e->steps;
    case PTX_CLOCK64: return e->steps;
    case PTX_LANEMASK_EQ: return bit;
    case PTX_LANEMASK_LT: return bit - 1;
    case PTX_LANEMASK_LE: return (bit - 1) | bit;
    case PTX_LANEMASK_GT: return ~((bit - 1) | bit);
    case PTX_LANEMASK_GE: return ~(bit - 1);
    case PTX_DYNAMIC_SMEM_SIZE: return e->launch->dynamic_bytes;
    default: return 0; /* PTX_SMID */
    }
}

const uint64_t *ptx_computed_source(engine *e, const warp *w, const group *g, const ptx_operand *operand,
                                    uint64_t scratch[PTX_WARP]) {
    const uint64_t *from = operand->kind == PTX_REGISTER ? register_lanes(w, g, operand->number) : NULL;
    for (uint32_t lane = 0; lane < PTX_WARP; lane++) {
        switch (operand->kind) {
        case PTX_REGISTER: scratch[lane] = operand->negate ? !from[lane] : from[lane] + operand->value; break;
        case PTX_SPECIAL: scratch[lane] = special_of_lane(e, w, operand->number, lane); break;
        case PTX_LOCAL_AT: scratch[lane] = g->frame + operand->value; break;
        default: scratch[lane] = operand->value; break;
        }
    }
    return scratch;
}

/* 32-bit addresses are computed modulo 2^32. */
void ptx_address(const warp *w, const group *g, const step *s, int k, uint64_t address[PTX_WARP]) {
    const ptx_operand *operand = &s->in->from[k];
    const uint64_t *from = operand->kind == PTX_REGISTER ? register_lanes(w, g, operand->number) : NULL;
    if (!from) {
        uint64_t same = operand->value + (operand->kind == PTX_LOCAL_AT ? g->frame : 0);
        for (int lane = 0; lane < PTX_WARP; lane++) address[lane] = same;
    } else if (s->in->space == PTX_SHARED || s->in->space == PTX_LOCAL || (s->in->opcode == PTX_CP_ASYNC && !k)) {
        for (int lane = 0; lane < PTX_WARP; lane++) {
            uint64_t sum = from[lane] + operand->value;
            address[lane] = from[lane] >> 32 ? sum : (uint32_t)sum;
        }
    } else {
        for (int lane = 0; lane < PTX_WARP; lane++) address[lane] = from[lane] + operand->value;
    }
}

uint32_t ptx_predicate(const uint64_t *lanes) {
    uint32_t mask = 0;
#ifdef __SSE2__
    for (int lane = 0; lane < PTX_WARP; lane += 2) {
        __m128i two = _mm_loadu_si128((const __m128i *)(const void *)(lanes + lane));
        mask |= (uint32_t)_mm_movemask_pd(_mm_castsi128_pd(_mm_slli_epi64(two, 63))) << lane;
    }
#else
    for (int lane = 0; lane < PTX_WARP; lane++) mask |= (uint32_t)(lanes[lane] & 1) << lane;
#endif
    return mask;
}

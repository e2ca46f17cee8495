/* atom and red: one lane after another, in an order that is drawn. */
#include <string.h>

#include "fakes/ptx/engine.h"

/* --- one operation -------------------------------------------------------------------------------------------------- */

static bool is_signed(ptx_type type) { return type == PTX_S32 || type == PTX_S64; }

static uint64_t atomic_integer(const ptx_instruction *in, uint64_t old, uint64_t b, uint64_t c) {
    bool wide = ptx_type_bytes(in->type) == 8, less = b < old;
    if (is_signed((ptx_type)in->type)) less = wide ? (int64_t)b < (int64_t)old : (int32_t)b < (int32_t)old;
    switch (in->mode) {
    case PTX_DO_ADD: return old + b;
    case PTX_DO_MIN: return less ? b : old;
    case PTX_DO_MAX: return less ? old : b;
    case PTX_DO_AND: return old & b;
    case PTX_DO_OR: return old | b;
    case PTX_DO_XOR: return old ^ b;
    case PTX_DO_EXCH: return b;
    case PTX_DO_CAS: return old == b ? c : old;
    case PTX_DO_INC: return old >= b ? 0 : old + 1;
    default: return !old || old > b ? b : old - 1; /* PTX_DO_DEC */
    }
}

/* add.f32 flushes subnormal numbers in global memory and keeps them in shared memory (PTX ISA, "atom"). */
static uint32_t flush_float(uint32_t bits) { return bits & 0x7F800000 ? bits : bits & 0x80000000; }

static uint64_t add_float(uint64_t old, uint64_t b, bool flush) {
    uint32_t x = (uint32_t)old, y = (uint32_t)b, sum;
    float p, q;
    if (flush) x = flush_float(x), y = flush_float(y);
    memcpy(&p, &x, sizeof p);
    memcpy(&q, &y, sizeof q);
    p += q;
    memcpy(&sum, &p, sizeof sum);
    return flush ? flush_float(sum) : sum;
}

static uint64_t add_double(uint64_t old, uint64_t b) {
    double p, q;
    memcpy(&p, &old, sizeof p);
    memcpy(&q, &b, sizeof q);
    p += q;
    memcpy(&old, &p, sizeof old);
    return old;
}

/* 16-bit floats are added, and compared, as the instruction of the same name does it. */
static ptx_compute *half_operation(const ptx_instruction *in) {
    ptx_instruction same = {.opcode = in->mode == PTX_DO_ADD   ? PTX_ADD
                                      : in->mode == PTX_DO_MIN ? PTX_MIN
                                                               : PTX_MAX,
                            .type = in->type,
                            .round = in->mode == PTX_DO_ADD ? PTX_RN : PTX_NO_ROUND,
                            .from_count = 2,
                            .to_count = 1,
                            .vector = 1,
                            .guard = -1};
    return ptx_compute_of(&same);
}

typedef struct atomic_operation {
    const ptx_instruction *in;
    ptx_compute *half;
    uint32_t bytes;
} atomic_operation;

static uint64_t apply(const atomic_operation *o, uint64_t old, uint64_t b, uint64_t c, bool global) {
    const ptx_instruction *in = o->in;
    if (o->half) {
        ptx_instruction same = *in;
        uint64_t to[PTX_WARP] = {0}, x[PTX_WARP] = {old}, y[PTX_WARP] = {b};
        uint32_t carry = 0;
        same.opcode = in->mode == PTX_DO_ADD ? PTX_ADD : in->mode == PTX_DO_MIN ? PTX_MIN : PTX_MAX;
        same.mode = PTX_NO_MODE;
        o->half(&same, to, NULL, x, y, NULL, NULL, 1, &carry, 0);
        return to[0];
    }
    if (in->mode == PTX_DO_ADD && in->type == PTX_F32) return add_float(old, b, global);
    if (in->mode == PTX_DO_ADD && in->type == PTX_F64) return add_double(old, b);
    return atomic_integer(in, old, b, c);
}

/* --- a request of a warp -------------------------------------------------------------------------------------------- */

static bool find_operation(engine *e, const warp *w, const ptx_instruction *in, atomic_operation *o) {
    uint32_t type = in->type;
    bool half = type == PTX_F16 || type == PTX_BF16 || type == PTX_F16X2 || type == PTX_BF16X2;
    bool known = in->mode >= PTX_DO_ADD && in->mode <= PTX_DO_DEC;
    if ((type == PTX_F32 || type == PTX_F64) && in->mode != PTX_DO_ADD && in->mode != PTX_DO_EXCH) known = false;
    *o = (atomic_operation){in, half && known ? half_operation(in) : NULL, ptx_type_bytes(type)};
    if (half && (in->mode == PTX_DO_EXCH || in->mode == PTX_DO_CAS)) known = false;
    if (!known || !o->bytes || in->vector > 1 || (half && !o->half))
        return ptx_fail(e, w, in, -1, "this atomic operation is not emulated");
    return true;
}

bool ptx_atomic(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t scratch[2][PTX_WARP], address[PTX_WARP], old[PTX_WARP];
    unsigned char *host[PTX_WARP];
    const ptx_instruction *in = s->in;
    atomic_operation o;
    if (!find_operation(e, w, in, &o)) return false;
    const uint64_t *b = ptx_source(e, w, g, s, 1, scratch[0]);
    const uint64_t *c = in->from_count > 2 ? ptx_source(e, w, g, s, 2, scratch[1]) : b;
    ptx_address(w, g, s, 0, address);
    if (!ptx_reach(e, w, g, in, (ptx_space)in->space, PTX_ATOMIC, address, mask, o.bytes, o.bytes, host)) return false;
    uint64_t drawn = ptx_draw(e), low = o.bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << o.bytes * 8) - 1;
    for (uint32_t i = 0; i < PTX_WARP; i++) {
        uint32_t lane = (uint32_t)(drawn + i * (drawn >> 32 | 1)) % PTX_WARP;
        if (!(mask >> lane & 1)) continue;
        uint64_t offset = address[lane];
        bool shared = in->space == PTX_SHARED;
        if (in->space == PTX_GENERIC && offset - PTX_SHARED_WINDOW < PTX_WINDOW_BYTES) {
            shared = true;
            offset -= PTX_SHARED_WINDOW;
        }
        watch_place place = {e->block, w->first_thread + lane, in};
        watch_atomic(e->watched, &place, shared, offset, (ptx_order)in->order, (ptx_scope)in->scope);
        old[lane] = 0;
        memcpy(&old[lane], host[lane], o.bytes); /* little-endian, as the device */
        uint64_t written = apply(&o, old[lane], b[lane] & low, c[lane] & low, !shared) & low;
        memcpy(host[lane], &written, o.bytes);
    }
    e->counts.atomics += (uint64_t)__builtin_popcount(mask);
    if (in->opcode != PTX_ATOM || in->to_count < 1 || in->to[0].kind != PTX_REGISTER) return true;
    uint64_t *to = register_lanes(w, g, in->to[0].number);
    EACH_LANE(lane, mask) to[lane] = old[lane];
    return true;
}

/* Arithmetic of f16, bf16 and of two of them in a register (PTX ISA, "Half Precision Floating-Point Instructions"): exactly in doubles,
 * rounded once. */
#include "fakes/ptx/lanes.h"

typedef struct number {
    bool brain, ftz; /* bf16; f16 alone has .ftz */
} number;

static inline uint16_t flush(number n, uint16_t bits) { return n.ftz && !(bits & 0x7c00) ? bits & 0x8000 : bits; }
static inline double load(number n, uint64_t bits) {
    return n.brain ? (double)ptx_bf16(bits) : (double)ptx_f16(flush(n, (uint16_t)bits));
}
static inline bool is_nan(number n, uint16_t bits) { return (bits & 0x7fff) > (n.brain ? 0x7f80 : 0x7c00); }

/* The exact result, or an odd double. */
static inline double result_of(int opcode, double x, double y, double z) {
    switch (opcode) {
    case PTX_ADD: return ptx_odd_sum(x, y);
    case PTX_SUB: return ptx_odd_sum(x, -y);
    case PTX_MUL: return x * y;
    default: return ptx_odd_sum(x * y, z);
    }
}
static inline uint16_t arithmetic(const ptx_instruction *instruction, uint64_t p, uint64_t q, uint64_t r) {
    number n = {instruction->type == PTX_BF16 || instruction->type == PTX_BF16X2, instruction->ftz};
    double exact = result_of(instruction->opcode, load(n, p), load(n, q), load(n, r));
    uint16_t bits = n.brain ? ptx_round_bf16(exact, instruction->round) : ptx_round_f16(exact, instruction->round);
    bits = flush(n, bits);
    if (instruction->sat) {
        uint16_t one = n.brain ? 0x3f80 : 0x3c00;
        bits = is_nan(n, bits) || (bits & 0x8000) ? 0 : bits > one ? one : bits;
    }
    if (instruction->relu && (bits & 0x8000)) bits = 0; /* the NaN has no sign */
    return bits;
}

/* As ordered whole numbers: -0 is below +0. */
static inline int order_of(uint16_t bits) { return bits & 0x8000 ? 0x7fff - bits : bits; }
static inline uint16_t extreme(const ptx_instruction *instruction, uint16_t p, uint16_t q) {
    number n = {instruction->type == PTX_BF16 || instruction->type == PTX_BF16X2, instruction->ftz};
    p = flush(n, p), q = flush(n, q);
    uint16_t sign = (p ^ q) & 0x8000;
    if (instruction->xorsign) p &= 0x7fff, q &= 0x7fff;
    if ((is_nan(n, p) && is_nan(n, q)) || (instruction->nan && (is_nan(n, p) || is_nan(n, q)))) return PTX_NAN_HALF;
    bool less = order_of(p) < order_of(q);
    uint16_t result = is_nan(n, p) ? q : is_nan(n, q) || less == (instruction->opcode == PTX_MIN) ? p : q;
    return instruction->xorsign ? (uint16_t)((result & 0x7fff) | sign) : result;
}
static inline uint16_t sign_of(const ptx_instruction *instruction, uint16_t p) {
    number n = {false, instruction->ftz};
    p = flush(n, p);
    return instruction->opcode == PTX_NEG ? p ^ 0x8000 : p & 0x7fff;
}

#define LOW(source) (uint16_t)(source)[i]
#define HIGH(source) (uint16_t)((source)[i] >> 16)
PTX_COMPUTE(two) { PTX_EACH_LANE(to[i] = arithmetic(instruction, a[i], b[i], 0)); }
PTX_COMPUTE(three) { PTX_EACH_LANE(to[i] = arithmetic(instruction, a[i], b[i], c[i])); }
PTX_COMPUTE(extremes) { PTX_EACH_LANE(to[i] = extreme(instruction, LOW(a), LOW(b))); }
PTX_COMPUTE(signs) { PTX_EACH_LANE(to[i] = sign_of(instruction, LOW(a))); }
#define PAIR(low, high) ((uint32_t)(high) << 16 | (low))
PTX_COMPUTE(two_twice) {
    PTX_EACH_LANE(to[i] =
                      PAIR(arithmetic(instruction, LOW(a), LOW(b), 0), arithmetic(instruction, HIGH(a), HIGH(b), 0)));
}
PTX_COMPUTE(three_twice) {
    PTX_EACH_LANE(to[i] = PAIR(arithmetic(instruction, LOW(a), LOW(b), LOW(c)),
                               arithmetic(instruction, HIGH(a), HIGH(b), HIGH(c))));
}
PTX_COMPUTE(extremes_twice) {
    PTX_EACH_LANE(to[i] = PAIR(extreme(instruction, LOW(a), LOW(b)), extreme(instruction, HIGH(a), HIGH(b))));
}
PTX_COMPUTE(signs_twice) { PTX_EACH_LANE(to[i] = PAIR(sign_of(instruction, LOW(a)), sign_of(instruction, HIGH(a)))); }

ptx_compute *ptx_half_of(const ptx_instruction *instruction) {
    bool pair = instruction->type == PTX_F16X2 || instruction->type == PTX_BF16X2;
    bool brain = instruction->type == PTX_BF16 || instruction->type == PTX_BF16X2;
    if (instruction->round > PTX_RN || (brain && (instruction->ftz || instruction->sat))) return NULL;
    switch (instruction->opcode) {
    case PTX_ADD:
    case PTX_SUB:
    case PTX_MUL: return pair ? two_twice : two;
    case PTX_FMA: return pair ? three_twice : three;
    case PTX_MIN:
    case PTX_MAX: return pair ? extremes_twice : extremes;
    case PTX_NEG:
    case PTX_ABS: return pair ? signs_twice : signs;
    default: return NULL;
    }
}

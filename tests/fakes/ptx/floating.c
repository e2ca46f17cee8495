/* Arithmetic of f32 and f64 (PTX ISA, "Floating-Point Instructions"). Rounding to the nearest is the host's; f32 in the other directions
 * goes over doubles (ptx_odd), f64 over the host's rounding modes. */
#include <fenv.h>

#include "fakes/ptx/lanes.h"

/* --- f32 ------------------------------------------------------------------------------------------------------------- */

/* name and name_ftz: rounded to the nearest; x, y, z: the operands. */
#define F32_ONE(name, load, store, ...) \
    PTX_COMPUTE(name) { PTX_EACH_LANE(const float x = load(a[i]); to[i] = store(__VA_ARGS__)); }
#define F32_TWO(name, load, store, ...)                                                                    \
    PTX_COMPUTE(name) {                                                                                    \
        PTX_EACH_LANE(const float x = load(a[i]); const float y = load(b[i]); to[i] = store(__VA_ARGS__)); \
    }
#define F32_THREE(name, load, store, ...)                                                                 \
    PTX_COMPUTE(name) {                                                                                   \
        PTX_EACH_LANE(const float x = load(a[i]); const float y = load(b[i]); const float z = load(c[i]); \
                      to[i] = store(__VA_ARGS__));                                                        \
    }
#define BOTH(form, name, ...) \
    form(name, ptx_f32, ptx_from_f32, __VA_ARGS__) form(name##_ftz, load_flushed, from_flushed, __VA_ARGS__)
#define PICK(name) (instruction->ftz ? name##_ftz : name)

static inline float load_flushed(uint64_t bits) { return ptx_f32(ptx_flush_f32(bits)); }
static inline uint64_t from_flushed(float value) { return ptx_flush_f32(ptx_from_f32(value)); }

BOTH(F32_TWO, add, x + y)
BOTH(F32_TWO, subtract, x - y)
BOTH(F32_TWO, multiply, x *y)
BOTH(F32_TWO, divide, x / y)
BOTH(F32_THREE, fused, fmaf(x, y, z))
PTX_WITH_FMA F32_THREE(fused_inline, ptx_f32, ptx_from_f32, fmaf(x, y, z)) PTX_WITH_FMA
    F32_THREE(fused_inline_ftz, load_flushed, from_flushed, fmaf(x, y, z)) BOTH(F32_ONE, root, sqrtf(x))
        BOTH(F32_ONE, reciprocal, 1 / x)

    /* neg and abs change the sign of a NaN too. */
    PTX_COMPUTE(negate) {
    PTX_EACH_LANE(to[i] = (uint32_t)a[i] ^ 0x80000000);
}
PTX_COMPUTE(negate_ftz) { PTX_EACH_LANE(to[i] = ptx_flush_f32(a[i]) ^ 0x80000000); }
PTX_COMPUTE(absolute) { PTX_EACH_LANE(to[i] = a[i] & 0x7fffffff); }
PTX_COMPUTE(absolute_ftz) { PTX_EACH_LANE(to[i] = ptx_flush_f32(a[i]) & 0x7fffffff); }

/* What every directed or saturated form does: an exact or odd double, rounded once. */
static inline uint64_t finish(const ptx_instruction *instruction, double exact) {
    float value = ptx_round_f32(exact, instruction->round);
    if (instruction->sat) value = value > 0 ? (value < 1 ? value : 1) : 0; /* NaN gives +0 */
    uint64_t bits = ptx_from_f32(value);
    return instruction->ftz ? ptx_flush_f32(bits) : bits;
}
static inline double operand(const ptx_instruction *instruction, uint64_t bits) {
    return instruction->ftz ? load_flushed(bits) : ptx_f32(bits);
}
/* x + y; an exact zero of two signs is -0 when rounding down. */
static inline double sum_exactly(const ptx_instruction *instruction, double x, double y) {
    double sum = ptx_odd_sum(x, y);
    return sum == 0 && instruction->round == PTX_RM && signbit(x) != signbit(y) ? -0.0 : sum;
}
#define ANY(name, ...)                                                                                        \
    PTX_COMPUTE(name) {                                                                                       \
        PTX_EACH_LANE(const double x = operand(instruction, a[i]); to[i] = finish(instruction, __VA_ARGS__)); \
    }
#define OPERAND(source) operand(instruction, source[i])
ANY(add_any, sum_exactly(instruction, x, OPERAND(b)))
ANY(subtract_any, sum_exactly(instruction, x, -OPERAND(b)))
ANY(multiply_any, x *OPERAND(b))
ANY(fused_any, sum_exactly(instruction, x *OPERAND(b), OPERAND(c)))
/* Of floats these are never so close to a float, or to the middle of two, that the step over a double changes the result. */
ANY(divide_any, x / OPERAND(b))
ANY(root_any, sqrt(x))
ANY(reciprocal_any, 1 / x)

/* min and max: a number rather than a NaN, -0 below +0. .NaN: a NaN if there is one. .xorsign.abs: of the magnitudes, with the product
 * of the signs. */
static inline uint64_t smaller_or_larger(const ptx_instruction *instruction, uint64_t p, uint64_t q) {
    if (instruction->ftz) p = ptx_flush_f32(p), q = ptx_flush_f32(q);
    uint64_t sign = (p ^ q) & 0x80000000;
    if (instruction->xorsign) p &= 0x7fffffff, q &= 0x7fffffff;
    float x = ptx_f32(p), y = ptx_f32(q);
    bool largest = instruction->opcode == PTX_MAX;
    if ((x != x && y != y) || (instruction->nan && (x != x || y != y))) return PTX_NAN_F32;
    bool less = x == y ? signbit(x) && !signbit(y) : x < y;
    bool first = x != x ? false : y != y ? true : less != largest;
    uint64_t result = (uint32_t)(first ? p : q);
    return instruction->xorsign ? (result & 0x7fffffff) | sign : result;
}
PTX_COMPUTE(extreme) { PTX_EACH_LANE(to[i] = smaller_or_larger(instruction, a[i], b[i])); }

/* --- f64 ------------------------------------------------------------------------------------------------------------- */

#define F64(name, count, ...)                                                                                        \
    PTX_COMPUTE(name##_f64) {                                                                                        \
        PTX_EACH_LANE(const double x = ptx_f64(a[i]); const double y PTX_UNUSED = count > 1 ? ptx_f64(b[i]) : 0;     \
                      const double z PTX_UNUSED = count > 2 ? ptx_f64(c[i]) : 0; to[i] = ptx_from_f64(__VA_ARGS__)); \
    }                                                                                                                \
    PTX_COMPUTE(name##_f64_directed) {                                                                               \
        turn(instruction->round);                                                                                    \
        name##_f64(instruction, to, to2, a, b, c, d, mask, carry, seed);                                             \
        fesetround(FE_TONEAREST);                                                                                    \
    }
/* Operations cannot move over it: the lanes are in memory that it might read. */
static void turn(int round) {
    fesetround(round == PTX_RZ   ? FE_TOWARDZERO
               : round == PTX_RM ? FE_DOWNWARD
               : round == PTX_RP ? FE_UPWARD
                                 : FE_TONEAREST);
}
F64(add, 2, x + y)
F64(subtract, 2, x - y)
F64(multiply, 2, x *y)
F64(divide, 2, x / y)
F64(fused, 3, fma(x, y, z))
PTX_WITH_FMA PTX_COMPUTE(fused_f64_inline) {
    PTX_EACH_LANE(to[i] = ptx_from_f64(fma(ptx_f64(a[i]), ptx_f64(b[i]), ptx_f64(c[i]))));
}
F64(root, 1, sqrt(x))
F64(reciprocal, 1, 1 / x)
#define PICK_F64(name) (instruction->round <= PTX_RN ? name##_f64 : name##_f64_directed)
#define SIGN_F64 (UINT64_C(1) << 63)
PTX_COMPUTE(negate_f64) { PTX_EACH_LANE(to[i] = a[i] ^ SIGN_F64); }
PTX_COMPUTE(absolute_f64) { PTX_EACH_LANE(to[i] = a[i] & ~SIGN_F64); }
static inline uint64_t extreme_of_f64(uint64_t p, uint64_t q, bool largest) {
    double x = ptx_f64(p), y = ptx_f64(q);
    if (x != x && y != y) return PTX_NAN_F64;
    if (x != x || y != y) return x != x ? q : p;
    return (x == y ? signbit(x) && !signbit(y) : x < y) != largest ? p : q;
}
PTX_COMPUTE(min_f64) { PTX_EACH_LANE(to[i] = extreme_of_f64(a[i], b[i], false)); }
PTX_COMPUTE(max_f64) { PTX_EACH_LANE(to[i] = extreme_of_f64(a[i], b[i], true)); }

/* --- copysign -------------------------------------------------------------------------------------------------------- */

/* The sign of a, the magnitude of b. */
PTX_COMPUTE(copysign_f32) { PTX_EACH_LANE(to[i] = (a[i] & 0x80000000) | (b[i] & 0x7fffffff)); }
PTX_COMPUTE(copysign_f64) { PTX_EACH_LANE(to[i] = (a[i] & SIGN_F64) | (b[i] & ~SIGN_F64)); }

/* --- which ---------------------------------------------------------------------------------------------------------- */

static ptx_compute *f32_of(const ptx_instruction *instruction) {
    bool any = instruction->round > PTX_RN || instruction->sat;
    switch (instruction->opcode) {
    case PTX_ADD: return any ? add_any : PICK(add);
    case PTX_SUB: return any ? subtract_any : PICK(subtract);
    case PTX_MUL: return any ? multiply_any : PICK(multiply);
    case PTX_MAD:
    case PTX_FMA: return any ? fused_any : PTX_HAS_FMA ? PICK(fused_inline) : PICK(fused);
    case PTX_DIV: return any ? divide_any : PICK(divide);
    case PTX_SQRT: return any ? root_any : PICK(root);
    case PTX_RCP: return any ? reciprocal_any : PICK(reciprocal);
    case PTX_NEG: return PICK(negate);
    case PTX_ABS: return PICK(absolute);
    case PTX_MIN:
    case PTX_MAX: return extreme;
    case PTX_COPYSIGN: return copysign_f32;
    default: return NULL;
    }
}

ptx_compute *ptx_float_of(const ptx_instruction *instruction) {
    if (instruction->round > PTX_RP || instruction->relu) return NULL;
    if (instruction->type == PTX_F32) return f32_of(instruction);
    if (instruction->type != PTX_F64 || instruction->ftz || instruction->sat) return NULL;
    switch (instruction->opcode) {
    case PTX_ADD: return PICK_F64(add);
    case PTX_SUB: return PICK_F64(subtract);
    case PTX_MUL: return PICK_F64(multiply);
    case PTX_MAD:
    case PTX_FMA: return PTX_HAS_FMA && instruction->round <= PTX_RN ? fused_f64_inline : PICK_F64(fused);
    case PTX_DIV: return PICK_F64(divide);
    case PTX_SQRT: return PICK_F64(root);
    case PTX_RCP: return PICK_F64(reciprocal);
    case PTX_NEG: return negate_f64;
    case PTX_ABS: return absolute_f64;
    case PTX_MIN: return min_f64;
    case PTX_MAX: return max_f64;
    case PTX_COPYSIGN: return copysign_f64;
    default: return NULL;
    }
}

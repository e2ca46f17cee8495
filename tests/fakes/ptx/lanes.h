/* What the files of arithmetic share: loops over the lanes of a warp, and floating-point numbers as bits. */
#ifndef BERTH_TESTS_FAKES_PTX_LANES_H
#define BERTH_TESTS_FAKES_PTX_LANES_H

#include <math.h>
#include <string.h>

#include "fakes/ptx/ptx.h"

#define PTX_UNUSED __attribute__((unused))
#if defined __clang__
#define PTX_VECTOR
#else
#define PTX_VECTOR _Pragma("GCC ivdep") /* `to` may be a source, lane by lane */
#endif

/* For functions that call fma or fmaf, which are calls unless the CPU is known to have the instruction. */
#if defined __x86_64__
#define PTX_WITH_FMA __attribute__((target("avx2,fma")))
#define PTX_HAS_FMA (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define PTX_WITH_FMA
#define PTX_HAS_FMA false
#endif

/* The head of a ptx_compute. */
#define PTX_COMPUTE(name)                                                                                      \
    static void name(PTX_UNUSED const ptx_instruction *instruction, uint64_t *to, PTX_UNUSED uint64_t *to2,    \
                     PTX_UNUSED const uint64_t *a, PTX_UNUSED const uint64_t *b, PTX_UNUSED const uint64_t *c, \
                     PTX_UNUSED const uint64_t *d, uint32_t mask, PTX_UNUSED uint32_t *carry,                  \
                     PTX_UNUSED uint64_t seed)

/* Runs the statements for each lane `i` of `mask`. */
#define PTX_EACH_LANE(...)                                           \
    do {                                                             \
        if (mask == UINT32_MAX) {                                    \
            PTX_VECTOR                                               \
            for (int i = 0; i < PTX_WARP; i++) {                     \
                __VA_ARGS__;                                         \
            }                                                        \
        } else {                                                     \
            for (uint32_t left_ = mask; left_; left_ &= left_ - 1) { \
                const int i = __builtin_ctz(left_);                  \
                __VA_ARGS__;                                         \
            }                                                        \
        }                                                            \
    } while (0)

/* The functions of each file; NULL: none. */
ptx_compute *ptx_integer_of(const ptx_instruction *instruction);
ptx_compute *ptx_bits_of(const ptx_instruction *instruction);
ptx_compute *ptx_compare_of(const ptx_instruction *instruction);
ptx_compute *ptx_float_of(const ptx_instruction *instruction);
ptx_compute *ptx_half_of(const ptx_instruction *instruction);
ptx_compute *ptx_convert_of(const ptx_instruction *instruction);
ptx_compute *ptx_approximate_of(const ptx_instruction *instruction);

static inline bool ptx_is_signed(int type) { return type >= PTX_S8 && type <= PTX_S64; }
static inline bool ptx_is_float(int type) { return type >= PTX_F16; }
static inline int ptx_bits(uint32_t type) { return type == PTX_PRED ? 1 : 8 * (int)ptx_type_bytes(type); }

/* --- floating-point numbers ------------------------------------------------------------------------------------------ */

/* The NaN that instructions make (PTX ISA, "Floating-Point Instructions": single precision has the one NaN 0x7fffffff); that of f64 is
 * not said there. */
#define PTX_NAN_F32 UINT32_C(0x7fffffff)
#define PTX_NAN_F64 UINT64_C(0x7ff8000000000000)
#define PTX_NAN_HALF UINT16_C(0x7fff) /* of f16 and bf16 */

static inline float ptx_f32(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, 4);
    return value;
}
static inline uint32_t ptx_f32_bits(float value) {
    uint32_t word;
    memcpy(&word, &value, 4);
    return word;
}
static inline double ptx_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
static inline uint64_t ptx_f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}
/* A subnormal number becomes a zero of its sign. */
static inline uint32_t ptx_flush_f32(uint64_t bits) {
    return (uint32_t)bits & ((bits & 0x7f800000) ? UINT32_MAX : 0x80000000);
}
static inline uint64_t ptx_from_f32(float value) { return value == value ? ptx_f32_bits(value) : PTX_NAN_F32; }
static inline uint64_t ptx_from_f64(double value) { return value == value ? ptx_f64_bits(value) : PTX_NAN_F64; }

static inline float ptx_f16(uint64_t bits) {
    uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t scaled = ptx_f32_bits(ptx_f32(magnitude) * 0x1p112f); /* exact, subnormal numbers too */
    if (magnitude >= 0x0f800000) scaled = magnitude + 0x70000000;  /* infinity and NaN */
    return ptx_f32(scaled | sign);
}
static inline float ptx_bf16(uint64_t bits) { return ptx_f32((uint32_t)bits << 16); }

/* The double next to `value`, which is rounded, that has an odd last bit where the exact number (`error` has the sign of exact -
 * value) is not a double: rounding it again to a narrower format in any direction rounds the exact number. */
static inline double ptx_odd(double value, double error) {
    uint64_t bits = ptx_f64_bits(value);
    if (error == 0 || error != error || (bits & 1) || value - value != 0) return value;
    if (value == 0) return error > 0 ? 0x1p-1074 : -0x1p-1074;
    return ptx_f64((error > 0) == (value > 0) ? bits + 1 : bits - 1);
}
/* x + y; y and x finite doubles of the size of products of floats, so that nothing overflows. */
static inline double ptx_odd_sum(double x, double y) {
    double sum = x + y, part = sum - x;
    return ptx_odd(sum, (x - (sum - part)) + (y - part));
}

/* Rounds once more, to f32. `x` is exact or odd. */
static inline float ptx_round_f32(double x, int round) {
    float nearest = (float)x;
    double back = (double)nearest;
    if (round <= PTX_RN || back == x || x != x) return nearest;
    bool above = back > x; /* the result is the one of the two neighbours that `round` asks for */
    bool down = round == PTX_RM || (round == PTX_RZ && x > 0), up = round == PTX_RP || (round == PTX_RZ && x < 0);
    uint32_t bits = ptx_f32_bits(nearest);
    if (above && down) return nearest == 0 ? -0x1p-149f : ptx_f32(nearest > 0 ? bits - 1 : bits + 1);
    if (!above && up) return nearest == 0 ? 0x1p-149f : ptx_f32(nearest > 0 ? bits + 1 : bits - 1);
    return nearest;
}

/* Rounds to a format of 16 bits: `digits` of the fraction, the least exponent, the bits of infinity. */
static inline uint16_t ptx_round_half(double x, int round, int digits, int least, uint32_t infinity) {
    uint64_t bits = ptx_f64_bits(x), fraction = bits & UINT64_C(0xfffffffffffff);
    uint32_t sign = (uint32_t)(bits >> 63), result;
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023, drop = 52 - digits;
    if (x != x) return PTX_NAN_HALF;
    if (exponent == 1024) return (uint16_t)(sign << 15 | infinity);
    if (exponent == -1023)
        exponent = -1022; /* zero or tiny */
    else
        fraction |= UINT64_C(1) << 52;
    if (exponent < least) drop += least - exponent;
    if (drop > 60) drop = 60;
    uint64_t rest = fraction & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
    result = (uint32_t)(fraction >> drop);
    if (round <= PTX_RN)
        result += rest > half || (rest == half && (result & 1));
    else
        result += rest && round != PTX_RZ && (round == PTX_RM) == (sign == 1);
    if (exponent > least) result += (uint32_t)(exponent - least) << digits;
    if (result >= infinity)
        result = round <= PTX_RN || (round != PTX_RZ && (round == PTX_RM) == (sign == 1)) ? infinity : infinity - 1;
    return (uint16_t)(sign << 15 | result);
}
static inline uint16_t ptx_round_f16(double x, int round) { return ptx_round_half(x, round, 10, -14, 0x7c00); }
static inline uint16_t ptx_round_bf16(double x, int round) { return ptx_round_half(x, round, 7, -126, 0x7f80); }

#endif

/* cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt"): every conversion rounds once. */
#include "fakes/ptx/lanes.h"

/* --- numbers as doubles ------------------------------------------------------------------------------------------------ */

static inline double load(int type, bool ftz, uint64_t bits) {
    switch (type) {
    case PTX_F16: return ptx_f16(bits);
    case PTX_BF16: return ptx_bf16(bits);
    case PTX_F32: return ptx_f32(ftz ? ptx_flush_f32(bits) : bits);
    default: return ptx_f64(bits);
    }
}
/* `exact` is exact or odd. .sat and .relu apply to the result. */
static inline uint64_t store(const ptx_instruction *instruction, int type, double exact) {
    int round = instruction->round > PTX_RP ? PTX_RN : instruction->round;
    if (instruction->sat) exact = exact > 0 ? (exact < 1 ? exact : 1) : 0; /* NaN gives +0 */
    if (instruction->relu && signbit(exact) && exact == exact) exact = 0;
    switch (type) {
    case PTX_F16:
    case PTX_F16X2: return ptx_round_f16(exact, round);
    case PTX_BF16:
    case PTX_BF16X2: return ptx_round_bf16(exact, round);
    case PTX_F32: {
        uint64_t bits = ptx_from_f32(ptx_round_f32(exact, round));
        return instruction->ftz ? ptx_flush_f32(bits) : bits;
    }
    default: return ptx_from_f64(exact);
    }
}
/* The integer that the modifier asks for, as a double; its zero keeps the sign. */
static inline double whole(double x, int round) {
    if (!(fabs(x) < 0x1p52)) return x;
    double t = (double)(int64_t)x;
    if (round == PTX_RNI) {
        t = fabs(x) + 0x1p52 - 0x1p52;
        return copysign(t, x);
    }
    if (round == PTX_RMI && t > x) t -= 1;
    if (round == PTX_RPI && t < x) t += 1;
    return copysign(t, x);
}

/* --- float to float -------------------------------------------------------------------------------------------------- */

PTX_COMPUTE(float_to_float) {
    const int from = instruction->type2, type = instruction->type, round = instruction->round;
    const bool ftz = instruction->ftz;
    PTX_EACH_LANE(double x = load(from, ftz, a[i]); if (round >= PTX_RNI) x = whole(x, round);
                  to[i] = store(instruction, type, x));
}
PTX_COMPUTE(f16_to_f32) { PTX_EACH_LANE(to[i] = ptx_from_f32(ptx_f16(a[i]))); }
PTX_COMPUTE(bf16_to_f32) { PTX_EACH_LANE(to[i] = ptx_from_f32(ptx_bf16(a[i]))); }
PTX_COMPUTE(f32_to_f16) { PTX_EACH_LANE(to[i] = ptx_round_f16(ptx_f32(a[i]), PTX_RN)); }
PTX_COMPUTE(f32_to_bf16) {
    PTX_EACH_LANE(const uint32_t x = (uint32_t)a[i]; to[i] = (x & 0x7fffffff) > 0x7f800000
                                                                 ? PTX_NAN_HALF
                                                                 : (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16));
}
PTX_COMPUTE(f32_to_f64) { PTX_EACH_LANE(to[i] = ptx_from_f64(ptx_f32(a[i]))); }
PTX_COMPUTE(f64_to_f32) { PTX_EACH_LANE(to[i] = ptx_from_f32((float)ptx_f64(a[i]))); }
/* Two floats into one register: the first above the second. */
PTX_COMPUTE(pack) {
    const int type = instruction->type;
    const bool ftz = instruction->ftz;
    PTX_EACH_LANE(to[i] = store(instruction, type, load(PTX_F32, ftz, a[i])) << 16 |
                          store(instruction, type, load(PTX_F32, ftz, b[i])));
}

/* --- float to integer ------------------------------------------------------------------------------------------------ */

/* Clamps to the type. A NaN gives zero, but the highest bit alone where the source is f64 or the destination has 64 bits. */
static inline uint64_t integer_of(double x, int bits, bool is_signed, bool from_f64) {
    const uint64_t top = UINT64_C(1) << (bits - 1);
    if (x != x) return from_f64 || bits == 64 ? top : 0;
    if (!is_signed) {
        if (x <= 0) return 0;
        return x >= 2 * (double)top ? top - 1 + top : (uint64_t)x;
    }
    if (x >= (double)top) return top - 1;
    return x <= -(double)top ? 0 - top : (uint64_t)(int64_t)x;
}
static inline uint64_t register_of(uint64_t value, int bits, bool is_signed, int to_bits);
PTX_COMPUTE(float_to_integer) {
    const int from = instruction->type2, bits = ptx_bits(instruction->type), round = instruction->round;
    const int to_bits = instruction->to_bits;
    const bool ftz = instruction->ftz, is_signed = ptx_is_signed(instruction->type);
    PTX_EACH_LANE(const double x = whole(load(from, ftz, a[i]), round);
                  to[i] = register_of(integer_of(x, bits, is_signed, from == PTX_F64), bits, is_signed, to_bits));
}

/* --- integer to float ------------------------------------------------------------------------------------------------ */

static inline uint64_t extended(uint64_t value, int bits, bool is_signed) {
    const int above = 64 - bits;
    return is_signed ? (uint64_t)((int64_t)(value << above) >> above) : value << above >> above;
}
static inline double directed_f64(uint64_t magnitude, bool negative, int round) {
    double x = (double)magnitude;
    unsigned __int128 back = (unsigned __int128)x;
    bool away = round != PTX_RZ && (round == PTX_RM) == negative;
    if (round > PTX_RN && back > magnitude && !away) x = ptx_f64(ptx_f64_bits(x) - 1);
    if (round > PTX_RN && back < magnitude && away) x = ptx_f64(ptx_f64_bits(x) + 1);
    return negative ? -x : x;
}
static inline double odd_of(uint64_t magnitude, bool negative) {
    double x = (double)magnitude;
    __int128 error = (__int128)magnitude - (__int128)x;
    x = ptx_odd(x, error > 0 ? 1 : error < 0 ? -1 : 0);
    return negative ? -x : x;
}
PTX_COMPUTE(integer_to_float) {
    const int bits = ptx_bits(instruction->type2), type = instruction->type, round = instruction->round;
    const bool is_signed = ptx_is_signed(instruction->type2);
    PTX_EACH_LANE(const uint64_t x = extended(a[i], bits, is_signed); const bool negative = is_signed && x >> 63;
                  const uint64_t magnitude = negative ? 0 - x : x;
                  to[i] = type == PTX_F64 ? ptx_f64_bits(directed_f64(magnitude, negative, round))
                                          : store(instruction, type, odd_of(magnitude, negative)));
}
/* 32 bits and less are exact doubles. */
PTX_COMPUTE(small_to_f32) {
    const int bits = ptx_bits(instruction->type2);
    const bool is_signed = ptx_is_signed(instruction->type2);
    PTX_EACH_LANE(to[i] = ptx_f32_bits((float)(int64_t)extended(a[i], bits, is_signed)));
}
PTX_COMPUTE(small_to_f64) {
    const int bits = ptx_bits(instruction->type2);
    const bool is_signed = ptx_is_signed(instruction->type2);
    PTX_EACH_LANE(to[i] = ptx_f64_bits((double)(int64_t)extended(a[i], bits, is_signed)));
}

/* --- integer to integer ---------------------------------------------------------------------------------------------- */

/* A narrow result is extended to its register. */
static inline uint64_t register_of(uint64_t value, int bits, bool is_signed, int to_bits) {
    if (to_bits < bits) to_bits = bits < 16 ? 16 : bits;
    return extended(extended(value, bits, is_signed), to_bits, false);
}
PTX_COMPUTE(integer_to_integer) {
    const int from = ptx_bits(instruction->type2), bits = ptx_bits(instruction->type), to_bits = instruction->to_bits;
    const bool from_signed = ptx_is_signed(instruction->type2), is_signed = ptx_is_signed(instruction->type);
    PTX_EACH_LANE(to[i] = register_of(extended(a[i], from, from_signed), bits, is_signed, to_bits));
}
/* Nothing to extend by a sign. */
PTX_COMPUTE(integer_cut) {
    const int from = ptx_bits(instruction->type2), bits = ptx_bits(instruction->type),
              least = from < bits ? from : bits;
    const uint64_t cut = UINT64_MAX >> (64 - least);
    PTX_EACH_LANE(to[i] = a[i] & cut);
}
static inline uint64_t saturated(uint64_t value, bool from_signed, int bits, bool is_signed) {
    const uint64_t most = UINT64_MAX >> (64 - bits + is_signed);
    bool negative = from_signed && value >> 63;
    if (!negative) return value > most ? most : value;
    if (!is_signed) return 0;
    return (int64_t)value < -(int64_t)most - 1 ? ~most : value;
}
PTX_COMPUTE(integer_saturated) {
    const int from = ptx_bits(instruction->type2), bits = ptx_bits(instruction->type), to_bits = instruction->to_bits;
    const bool from_signed = ptx_is_signed(instruction->type2), is_signed = ptx_is_signed(instruction->type);
    PTX_EACH_LANE(const uint64_t x = extended(a[i], from, from_signed);
                  to[i] = register_of(saturated(x, from_signed, bits, is_signed), bits, is_signed, to_bits));
}

/* --- which ---------------------------------------------------------------------------------------------------------- */

static ptx_compute *float_conversion_of(const ptx_instruction *instruction) {
    int from = instruction->type2, to = instruction->type, round = instruction->round;
    bool plain = round <= PTX_RN && !instruction->ftz && !instruction->sat && !instruction->relu;
    if (plain && to == PTX_F32)
        return from == PTX_F16    ? f16_to_f32
               : from == PTX_BF16 ? bf16_to_f32
               : from == PTX_F64  ? f64_to_f32
                                  : float_to_float;
    if (plain && from == PTX_F32)
        return to == PTX_F16 ? f32_to_f16 : to == PTX_BF16 ? f32_to_bf16 : to == PTX_F64 ? f32_to_f64 : float_to_float;
    return float_to_float;
}

ptx_compute *ptx_convert_of(const ptx_instruction *instruction) {
    int from = instruction->type2, to = instruction->type, round = instruction->round;
    bool from_float = ptx_is_float(from), to_float = ptx_is_float(to);
    if (!from || !to || from == PTX_PRED || to == PTX_PRED || round > PTX_RPI) return NULL;
    if (from == PTX_F16X2 || from == PTX_BF16X2) return NULL;
    if (to == PTX_F16X2 || to == PTX_BF16X2) return from == PTX_F32 && round <= PTX_RP ? pack : NULL;
    if (from_float && to_float) return float_conversion_of(instruction);
    if (from_float) return round >= PTX_RNI ? float_to_integer : NULL;
    if (to_float) {
        if (round > PTX_RP) return NULL;
        bool small = ptx_bits(from) < 64 && round <= PTX_RN && !instruction->sat;
        return small && to == PTX_F32 ? small_to_f32 : small && to == PTX_F64 ? small_to_f64 : integer_to_float;
    }
    if (instruction->sat) return integer_saturated;
    bool narrows = ptx_bits(from) >= ptx_bits(to), wide = ptx_bits(to) >= instruction->to_bits;
    bool keeps = narrows ? wide || !ptx_is_signed(to) : !ptx_is_signed(from);
    return keeps && ptx_bits(to) >= 16 ? integer_cut : integer_to_integer;
}

/* Approximate instructions: the exact result, changed by an error that depends on the seed, the opcode and the operands and stays within
 * what the PTX ISA documents ("Floating-Point Instructions": rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh, div; "Half Precision
 * Floating-Point Instructions": tanh, ex2). Special operands give the documented results. */
#include "fakes/ptx/lanes.h"

/* --- errors ---------------------------------------------------------------------------------------------------------- */

static inline uint64_t draw(uint64_t seed, int opcode, uint64_t a, uint64_t b) {
    uint64_t x = seed ^ (uint64_t)opcode * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t parts[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        x = (x ^ parts[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 32;
    }
    return x;
}
/* A number of (-1, 1). */
static inline double share(uint64_t drawn) { return (double)(int64_t)drawn * 0x1p-63 * (1 - 0x1p-10); }

/* One of the floats that differ from `exact` by at most `units` units in the last place; of the same sign, infinite only where the
 * nearest float is. */
static float within_units(double exact, int units, uint64_t drawn) {
    float low = ptx_round_f32(fabs(exact), PTX_RZ);
    bool inexact = (double)low != fabs(exact);
    int64_t first = inexact ? 1 - units : -units;
    int64_t place = (int64_t)ptx_f32_bits(low) + first + (int64_t)(drawn % (uint64_t)(2 * units + (inexact ? 0 : 1)));
    if (fabs(exact) >= 0x1.ffffffp127)
        place = 0x7f800000; /* infinite when rounded to the nearest */
    else if (place < 0 || place >= 0x7f800000)
        place = place < 0 ? 0 : 0x7f7fffff;
    float result = ptx_f32((uint64_t)place), next = ptx_f32((uint64_t)ptx_f32_bits(low) + 1);
    /* beyond a power of two the units are larger */
    if (fabs((double)result - fabs(exact)) > units * ((double)next - (double)low)) result = low;
    return signbit(exact) ? -result : result;
}
/* Relative or absolute errors, of which rounding to f32 (half a unit: 2^-24 of the result) takes a part. */
static float within_relative(double exact, double error, uint64_t drawn) {
    return (float)(exact * (1 + share(drawn) * (error - 0x1p-24)));
}
static float within_absolute(double exact, double error, uint64_t drawn) {
    return (float)(exact + share(drawn) * (error - fabs(exact) * 0x1p-24));
}

/* --- f32 ------------------------------------------------------------------------------------------------------------- */

static float reciprocal(float x, uint64_t drawn) {
    double exact = 1 / (double)x;
    return x == 0 || x - x != 0 ? (float)exact : within_units(exact, 1, drawn);
}
static float root(float x, uint64_t drawn) {
    double exact = sqrt(x);
    return x == 0 || exact - exact != 0 ? (float)exact : within_relative(exact, 0x1p-23, drawn);
}
static float reciprocal_root(float x, uint64_t drawn) {
    double exact = 1 / sqrt(x); /* -0 gives -infinity */
    return x == 0 || x - x != 0 ? (float)exact : within_relative(exact, exp2(-22.9), drawn);
}
/* Beyond 100 pi nothing is promised; the error of the widest range is taken. */
static float circular(int opcode, float x, uint64_t drawn) {
    double exact = opcode == PTX_SIN ? sin(x) : cos(x);
    if (x == 0 || x - x != 0) return (float)exact;
    return within_absolute(exact, fabsf(x) <= 6.2831853f ? exp2(-20.5) : exp2(-14.7), drawn);
}
static float logarithm(float x, uint64_t drawn) {
    double exact = log2(x);
    if (exact - exact != 0) return (float)exact;
    return x > 0.5f && x < 2 ? within_absolute(exact, 0x1p-22, drawn) : within_relative(exact, 0x1p-22, drawn);
}
/* 2 units from the correctly rounded result. Powers of whole numbers are exact: NVIDIA's tanh and erf of f64 rely on it. */
static float power(float x, uint64_t drawn) {
    float exact = (float)exp2(x);
    return x == rintf(x) || x != x || isinf(exact) || exact == 0 ? exact : within_units(exact, 2, drawn);
}
static float tangent(float x, uint64_t drawn) { /* subnormal operands pass unchanged */
    if (x == 0 || x != x || fabsf(x) < 0x1p-126f) return x;
    return isinf(x) ? copysignf(1, x) : within_relative(tanh(x), 0x1p-11, drawn);
}

static float function_of(int opcode, float x, uint64_t drawn) {
    switch (opcode) {
    case PTX_RCP: return reciprocal(x, drawn);
    case PTX_SQRT: return root(x, drawn);
    case PTX_RSQRT: return reciprocal_root(x, drawn);
    case PTX_LG2: return logarithm(x, drawn);
    case PTX_EX2: return power(x, drawn);
    case PTX_TANH: return tangent(x, drawn);
    default: return circular(opcode, x, drawn);
    }
}
PTX_COMPUTE(one) {
    const int opcode = instruction->opcode;
    PTX_EACH_LANE(const uint32_t x = instruction->ftz ? ptx_flush_f32(a[i]) : (uint32_t)a[i];
                  const uint64_t bits = ptx_from_f32(function_of(opcode, ptx_f32(x), draw(seed, opcode, x, 0)));
                  to[i] = instruction->ftz ? ptx_flush_f32(bits) : bits);
}

/* a * (1 / b): above 2^126 the reciprocal is 0, which is documented. Of a subnormal b nothing is, but NVIDIA's own fmodf relies on the
 * same 2 units there. */
static float quotient(const ptx_instruction *instruction, float x, float y, uint64_t drawn) {
    double exact = (double)x / (double)y;
    bool vanishes = instruction->round == PTX_APPROX && fabsf(y) > 0x1p126f && !isinf(y);
    if (vanishes && isinf(x)) return NAN;
    if (x == 0 || y == 0 || exact != exact || isinf(x) || isinf(y)) return (float)exact;
    return vanishes ? copysignf(0, (float)copysign(1, exact)) : within_units(exact, 2, drawn);
}
PTX_COMPUTE(division) {
    const bool ftz = instruction->ftz;
    PTX_EACH_LANE(const uint32_t x = ftz ? ptx_flush_f32(a[i]) : (uint32_t)a[i];
                  const uint32_t y = ftz ? ptx_flush_f32(b[i]) : (uint32_t)b[i];
                  const uint64_t bits = ptx_from_f32(
                      quotient(instruction, ptx_f32(x), ptx_f32(y), draw(seed, instruction->opcode, x, y)));
                  to[i] = ftz ? ptx_flush_f32(bits) : bits);
}

/* --- f64 ------------------------------------------------------------------------------------------------------------- */

/* The upper 32 bits of 1 / a or 1 / sqrt(a), of the upper 32 bits of a; the lower ones are 0. How good it is is not documented: within a
 * unit of these 20 digits. */
static uint64_t gross(int opcode, uint64_t bits, uint64_t drawn) {
    uint64_t upper = bits >> 32 << 32, exponent = bits >> 52 & 0x7ff;
    double x = ptx_f64(exponent ? upper : upper & UINT64_C(1) << 63);
    double exact = opcode == PTX_RCP ? 1 / x : 1 / sqrt(x);
    if (exact != exact) return UINT64_C(0x7fffffff00000000);
    if (exact == 0 || isinf(exact)) return ptx_f64_bits(exact);
    uint64_t result = (ptx_f64_bits(exact) >> 32) + (drawn & 1);
    return result & 0x7ff00000 ? result << 32 : (result & 0x80000000) << 32;
}
PTX_COMPUTE(gross_f64) {
    const int opcode = instruction->opcode;
    PTX_EACH_LANE(to[i] = gross(opcode, a[i], draw(seed, opcode, a[i] >> 32, 0)));
}
/* rsqrt.approx.f64 is a software routine without a documented error: a unit in the last place. */
PTX_COMPUTE(reciprocal_root_f64) {
    PTX_EACH_LANE(const double exact = 1 / sqrt(ptx_f64(a[i])); const bool special = exact - exact != 0 || exact == 0;
                  to[i] = ptx_from_f64(exact) + (special ? 0 : draw(seed, PTX_RSQRT, a[i], 0) % 3 - 1));
}

/* --- f16, bf16 ------------------------------------------------------------------------------------------------------- */

/* ex2: relative 2^-9.9 of f16, 2^-7 of bf16; tanh: absolute 2^-10.987 of f16, 2^-8 of bf16. Rounding takes a part. */
static uint16_t half_function(int opcode, bool brain, uint16_t bits, uint64_t drawn) {
    double x = brain ? ptx_bf16(opcode == PTX_EX2 && !(bits & 0x7f80) ? bits & 0x8000 : bits) : ptx_f16(bits), exact;
    double half_unit = brain ? 0x1p-8 : 0x1p-11;
    if (opcode == PTX_EX2) {
        exact = exp2(x);
        if (x != 0 && x - x == 0) exact *= 1 + share(drawn) * ((brain ? 0x1p-7 : exp2(-9.9)) - half_unit);
    } else {
        exact = tanh(x);
        double error = (brain ? 0x1p-8 : exp2(-10.987)) - fabs(exact) * half_unit;
        if (x != 0 && x - x == 0 && error > 0) exact += share(drawn) * error;
        if (fabs(x) < (brain ? 0x1p-126 : 0x1p-14)) exact = x;
    }
    uint16_t result = brain ? ptx_round_bf16(exact, PTX_RN) : ptx_round_f16(exact, PTX_RN);
    return brain && opcode == PTX_EX2 && !(result & 0x7f80) ? result & 0x8000 : result;
}
PTX_COMPUTE(half) {
    const int opcode = instruction->opcode;
    const bool brain = instruction->type == PTX_BF16;
    PTX_EACH_LANE(const uint16_t x = (uint16_t)a[i]; to[i] = half_function(opcode, brain, x, draw(seed, opcode, x, 0)));
}
PTX_COMPUTE(half_pair) {
    const int opcode = instruction->opcode;
    const bool brain = instruction->type == PTX_BF16X2;
    PTX_EACH_LANE(const uint16_t x = (uint16_t)a[i]; const uint16_t y = (uint16_t)(a[i] >> 16);
                  to[i] = (uint32_t)half_function(opcode, brain, y, draw(seed, opcode, y, 0)) << 16 |
                          half_function(opcode, brain, x, draw(seed, opcode, x, 0)));
}

/* --- which ---------------------------------------------------------------------------------------------------------- */

static ptx_compute *f32_of(const ptx_instruction *instruction) {
    switch (instruction->opcode) {
    case PTX_DIV: return division;
    case PTX_RCP:
    case PTX_SQRT:
    case PTX_RSQRT:
    case PTX_SIN:
    case PTX_COS:
    case PTX_LG2:
    case PTX_EX2:
    case PTX_TANH: return one;
    default: return NULL;
    }
}

ptx_compute *ptx_approximate_of(const ptx_instruction *instruction) {
    int opcode = instruction->opcode;
    bool pair = instruction->type == PTX_F16X2 || instruction->type == PTX_BF16X2;
    if (instruction->sat || instruction->relu) return NULL;
    switch (instruction->type) {
    case PTX_F32: return f32_of(instruction);
    case PTX_F64:
        if (instruction->ftz) return opcode == PTX_RCP || opcode == PTX_RSQRT ? gross_f64 : NULL;
        return opcode == PTX_RSQRT ? reciprocal_root_f64 : NULL;
    case PTX_F16:
    case PTX_F16X2:
    case PTX_BF16:
    case PTX_BF16X2: return opcode != PTX_EX2 && opcode != PTX_TANH ? NULL : pair ? half_pair : half;
    default: return NULL;
    }
}

/* Exact numbers for tests of rounding: numbers of any binary format as whole numbers times powers of two, and the sign of sums of their
 * products. */
#ifndef BERTH_TESTS_FAKES_PTX_EXACT_H
#define BERTH_TESTS_FAKES_PTX_EXACT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fakes/ptx/ptx.h"

typedef struct format {
    int type, bits, digits, least; /* digits of the fraction; least: exponent of the least normal number */
} format;
static const format format_f16 = {PTX_F16, 16, 10, -14}, format_bf16 = {PTX_BF16, 16, 7, -126},
                    format_f32 = {PTX_F32, 32, 23, -126}, format_f64 = {PTX_F64, 64, 52, -1022};

/* sign * whole * 2^exponent */
typedef struct exact {
    int sign, exponent;
    uint64_t whole;
} exact;

static inline uint64_t infinity_of(const format *f) {
    return ((UINT64_C(1) << (f->bits - 1 - f->digits)) - 1) << f->digits;
}
static inline uint64_t magnitude_of(const format *f, uint64_t bits) {
    return bits & ((UINT64_C(1) << (f->bits - 1)) - 1);
}
static inline bool negative_bits(const format *f, uint64_t bits) { return bits >> (f->bits - 1) & 1; }
static inline bool nan_bits(const format *f, uint64_t bits) { return magnitude_of(f, bits) > infinity_of(f); }
static inline bool finite_bits(const format *f, uint64_t bits) { return magnitude_of(f, bits) < infinity_of(f); }

/* Infinity counts as the number after the largest one. */
static inline exact exact_of(const format *f, uint64_t bits) {
    uint64_t magnitude = magnitude_of(f, bits), fraction = magnitude & ((UINT64_C(1) << f->digits) - 1);
    int exponent = (int)(magnitude >> f->digits);
    exact x = {negative_bits(f, bits) ? -1 : 1, f->least - f->digits, fraction};
    if (exponent) x.whole |= UINT64_C(1) << f->digits, x.exponent += exponent - 1;
    return x;
}
/* The number halfway between two magnitudes that follow each other. */
static inline exact halfway(const format *f, uint64_t lower_magnitude) {
    exact x = exact_of(f, lower_magnitude);
    x.whole = 2 * x.whole + 1, x.exponent--;
    return x;
}

/* The sign of the sum of x[i] * y[i]. */
static inline int sign_of_sum(int count, const exact *x, const exact *y) {
    enum { LIMBS = 200, LOWEST = -2400 };
    int64_t limb[LIMBS] = {0};
    for (int i = 0; i < count; i++) {
        unsigned __int128 product = (unsigned __int128)x[i].whole * y[i].whole;
        int place = x[i].exponent + y[i].exponent - LOWEST, at = place / 32, shift = place % 32;
        for (int part = 0; part < 4; part++) {
            uint64_t piece = (uint64_t)(uint32_t)(product >> (32 * part)) << shift;
            limb[at + part] += x[i].sign * y[i].sign * (int64_t)(uint32_t)piece;
            limb[at + part + 1] += x[i].sign * y[i].sign * (int64_t)(piece >> 32);
        }
    }
    bool any = false;
    for (int i = 0; i < LIMBS - 1; i++) {
        int64_t carry = limb[i] >> 32;
        limb[i] -= carry * (INT64_C(1) << 32);
        any = any || limb[i];
        limb[i + 1] += carry;
    }
    return limb[LIMBS - 1] < 0 ? -1 : limb[LIMBS - 1] > 0 || any;
}

#endif

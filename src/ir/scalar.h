/* What scalar.def and casts need besides <tgmath.h>. */
#ifndef BTI_IR_SCALAR_H
#define BTI_IR_SCALAR_H

#include <stdint.h>

/* A float (x, a double or float) as an integer type: toward zero, saturating, NaN to 0. The comparisons are exact: a bound
 * that is no double is the power of two just past it. */
#define BTI_SATURATED(type, low, high, x) \
    ((x) != (x) ? (type)0 : (x) <= (double)(low) ? (type)(low) : (x) >= (double)(high) ? (type)(high) : (type)(x))

/* x multiplied y times, wrapping. */
static inline uint64_t bti_ipow(uint64_t x, uint64_t y) {
    uint64_t product = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) product *= x;
    return product;
}

float bti_erfinv_f32(float x); /* interp_math.c */
double bti_erfinv_f64(double x);
#define bti_erfinv(x) _Generic((x), float : bti_erfinv_f32, double : bti_erfinv_f64)(x)

#endif

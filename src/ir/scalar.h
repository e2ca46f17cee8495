/* What scalar.def and casts need besides <tgmath.h>. */
#ifndef BTI_IR_SCALAR_H
#define BTI_IR_SCALAR_H

#include <math.h>
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

/* e**-|x| does not overflow, and its quotient keeps all digits far below 0. */
static inline float bti_sigmoid_f32(float x) {
    float e = expf(-fabsf(x));
    return (x < 0 ? e : 1) / (1 + e);
}
static inline double bti_sigmoid_f64(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
#define ipow bti_ipow
#define sigmoid(x) _Generic((x), float : bti_sigmoid_f32, double : bti_sigmoid_f64)(x)

/* Python's x // y. The quotient of two float32 in float64: below 2**28 it is whole only where the exact one is, and above,
 * float32 rounds more than that. It is -0 for what an infinite y makes of a number of the other sign, whose floor is -1. */
static inline float bti_floor_div_f32(float x, float y) {
    double quotient = (double)x / (double)y, whole = floor(quotient);
    whole = quotient == 0 && x != 0 && (x < 0) != (y < 0) ? -1 : whole;
    return fabsf(x) == INFINITY && y != 0 ? x - x : (float)whole;
}
/* CPython's float_divmod and NumPy's floor_divide: the remainder is exact, so x - rest is a whole multiple of y but for its
 * rounding, which the last comparison takes away. */
static inline double bti_floor_div_f64(double x, double y) {
    double rest = fmod(x, y), quotient = (x - rest) / y;
    quotient = rest != 0 && (rest < 0) != (y < 0) ? quotient - 1 : quotient;
    double whole = floor(quotient);
    whole = quotient - whole > 0.5 ? whole + 1 : whole;
    whole = quotient == 0 ? copysign(0, x / y) : whole;
    return y == 0 ? x / y : whole;
}
#define bti_floor_div(x, y) _Generic((x), float : bti_floor_div_f32, double : bti_floor_div_f64)(x, y)

float bti_erfinv_f32(float x); /* reference/elementwise.c */
double bti_erfinv_f64(double x);
#define erfinv(x) _Generic((x), float : bti_erfinv_f32, double : bti_erfinv_f64)(x)

#endif

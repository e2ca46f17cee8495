/* The functions of launch/functions.def for one target: SLEEF's deterministic ones (finz), which have the same bits at all vector widths,
 * corrected where they differ from C's. The including file defines LANES_F32, LANES_F64, SLEEF_F32(name), SLEEF_F64(name) and
 * SLEEF_ERFC_F64. */
#include <math.h>
#include <sleef.h>
#include <stdint.h>
#include <string.h>

#include "drivers/cpu/vector/vector.h"
#include "ir/giles.h"
#include "ir/half.h"
#include "ir/scalar.h"

/* A vector, or one element where that is all; masks are integers of the same size, all bits or none. BITS_F32 and its inverse take the bits as integers,
 * OF_WHOLE_F32 their value. */
#if LANES_F32 > 1
typedef float vector_f32 __attribute__((vector_size(LANES_F32 * sizeof(float))));
typedef double vector_f64 __attribute__((vector_size(LANES_F64 * sizeof(double))));
typedef int32_t mask_f32 __attribute__((vector_size(LANES_F32 * sizeof(float))));
typedef int64_t mask_f64 __attribute__((vector_size(LANES_F64 * sizeof(double))));
#define CHOSEN(type, mask, yes, no) ((vector_##type)(((mask) & (mask_##type)(yes)) | (~(mask) & (mask_##type)(no))))
#define BITS_F32(x) ((mask_f32)(x))
#define OF_BITS_F32(x) ((vector_f32)(x))
#define OF_WHOLE_F32(x) __builtin_convertvector(x, vector_f32)
#define ROOTS(type, root)                                                      \
    static inline vector_##type root_##type(vector_##type x) {                 \
        for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) x[i] = root(x[i]); \
        return x;                                                              \
    }
ROOTS(f32, sqrtf)
ROOTS(f64, sqrt)
static inline bool any_f32(mask_f32 mask) {
    int32_t any = 0;
    for (int i = 0; i < LANES_F32; i++) any |= mask[i];
    return any != 0;
}
static inline bool any_f64(mask_f64 mask) {
    int64_t any = 0;
    for (int i = 0; i < LANES_F64; i++) any |= mask[i];
    return any != 0;
}
#else
typedef float vector_f32;
typedef double vector_f64;
typedef int32_t mask_f32;
typedef int64_t mask_f64;
#define CHOSEN(type, mask, yes, no) ((mask) ? (yes) : (no))
#define BITS_F32(x) ((int32_t)bti_f32_bits(x))
#define OF_BITS_F32(x) bti_f32_of_bits((uint32_t)(x))
#define OF_WHOLE_F32(x) ((float)(x))
#define root_f32 sqrtf
#define root_f64 sqrt
#define any_f32(mask) (mask)
#define any_f64(mask) (mask)
#endif

#define SLEEF_f32 SLEEF_F32
#define SLEEF_f64 SLEEF_F64
#define UNARY(name, type) \
    static inline vector_##type name##_##type(vector_##type x) { return SLEEF_##type(name)(x); }
#define BINARY(name, type) \
    static inline vector_##type name##_##type(vector_##type x, vector_##type y) { return SLEEF_##type(name)(x, y); }

/* SLEEF's log1p is infinite for large x, where adding 1 changes nothing. */
#define LOG1P(type, large)                                                         \
    static inline vector_##type log1p_##type(vector_##type x) {                    \
        vector_##type y = SLEEF_##type(log1p)(x);                                  \
        mask_##type mend = x > (large);                                            \
        return any_##type(mend) ? CHOSEN(type, mend, SLEEF_##type(log)(x), y) : y; \
    }
/* SLEEF's sinh and cosh overflow where e**|x| does, although half of it would not. x - 1 is exact there. */
#define HYPERBOLIC(name, type, large, half_e, sign)                           \
    static inline vector_##type name##_##type(vector_##type x) {              \
        vector_##type y = SLEEF_##type(name)(x);                              \
        mask_##type below = x < 0;                                            \
        vector_##type magnitude = CHOSEN(type, below, -x, x);                 \
        mask_##type mend = magnitude > (large);                               \
        if (!any_##type(mend)) return y;                                      \
        vector_##type half = SLEEF_##type(exp)(magnitude - 1) * (half_e);     \
        return CHOSEN(type, mend, CHOSEN(type, below, (sign)*half, half), y); \
    }
/* As in scalar.h. */
#define SIGMOID(name, type)                                              \
    static inline vector_##type name##_##type(vector_##type x) {         \
        mask_##type below = x < 0;                                       \
        vector_##type e = SLEEF_##type(exp)(CHOSEN(type, below, x, -x)); \
        vector_##type one = (vector_##type){0} + 1;                      \
        return CHOSEN(type, below, e, one) / (one + e);                  \
    }
#define BOTH(kind, name) kind(name, f32) kind(name, f64)

BOTH(UNARY, exp)
BOTH(SIGMOID, sigmoid)
BOTH(UNARY, exp2)
BOTH(UNARY, expm1)
BOTH(UNARY, log)
BOTH(UNARY, log2)
BOTH(UNARY, log10)
LOG1P(f32, 0x1p40f)
LOG1P(f64, 0x1p80)
BOTH(UNARY, sin)
BOTH(UNARY, cos)
BOTH(UNARY, tan)
BOTH(UNARY, asin)
BOTH(UNARY, acos)
BOTH(UNARY, atan)
HYPERBOLIC(sinh, f32, 80.0f, 1.35914091f, -1.0f)
HYPERBOLIC(sinh, f64, 700.0, 1.3591409142295226, -1.0)
HYPERBOLIC(cosh, f32, 80.0f, 1.35914091f, 1.0f)
HYPERBOLIC(cosh, f64, 700.0, 1.3591409142295226, 1.0)
BOTH(UNARY, tanh)
BOTH(UNARY, erf)
/* SLEEF's takes ten times as long. Near 0, 1 - erf by a polynomial in x * x; else e**-(a * a) times one in (a - 2) / (a + 2),
 * which stays between -1 and 1: both by least squares at Chebyshev's nodes. `lost` is what a * a has lost by rounding. Within 4
 * units in the last place. */
static inline vector_f32 erfc_f32(vector_f32 x) {
    vector_f32 zero = {0};
    mask_f32 below = x < 0;
    vector_f32 a = CHOSEN(f32, below, -x, x);
    mask_f32 beyond = a > 11;
    a = CHOSEN(f32, beyond, zero + 11, a);
    vector_f32 s = a * a, q = (a - 2) / (a + 2), high = OF_BITS_F32(BITS_F32(a) & -4096), low = a - high;
    vector_f32 near = q * -0.000408293417f - 0.00123908301f, far, lost = high * high - s + 2 * high * low + low * low;
    far = ((((near * q + 0.00132084929f) * q + 0.00864115637f) * q - 0.00806228351f) * q - 0.0542073958f) * q;
    far = ((((far + 0.16405569f) * q - 0.166031107f) * q - 0.0927639976f) * q + 1.27697837f) / (1 + 2 * a);
    far = SLEEF_F32(exp)(-s) * far;
    far = far - far * lost;
    far = CHOSEN(f32, below, 2 - far, far);
    near = ((s * -0.000675878779f + 0.00511565711f) * s - 0.0268352758f) * s + 0.112833895f;
    near = 1 - x * ((near * s - 0.3761262f) * s + 1.12837911f);
    mask_f32 is_near = a < 0.75f;
    return CHOSEN(f32, is_near, near, far);
}
static inline vector_f64 erfc_f64(vector_f64 x) { return SLEEF_ERFC_F64(x); }
BOTH(BINARY, pow)
BOTH(BINARY, atan2)

/* --- erfinv: ir/giles.h ---------------------------------------------------------------------------------------------- */

/* The polynomial of an odd number of coefficients, in two halves that do not wait for each other: even powers, and odd ones. */
#define POLYNOMIAL(type, p, coefficients, x)                                                                    \
    vector_##type p##_of = (x), p##_square = p##_of * p##_of;                                                   \
    vector_##type p = (vector_##type){0} + (coefficients)[0], p##_odd = (vector_##type){0} + (coefficients)[1]; \
    _Pragma("GCC unroll 16") for (size_t i = 2; i < sizeof(coefficients) / sizeof *(coefficients); i += 2) {    \
        p = p * p##_square + (coefficients)[i];                                                                 \
        if (i + 1 < sizeof(coefficients) / sizeof *(coefficients))                                              \
            p##_odd = p##_odd * p##_square + (coefficients)[i + 1];                                             \
    }                                                                                                           \
    p = p + p##_odd * p##_of

/* The logarithm of 2**-24 to 1, within 1e-7 of 1 or of itself, which is what the polynomials need. As 2**e * (1 + t) with t from -0.293 to 0.415, whose
 * polynomial is that of Cephes' logf. */
static inline vector_f32 log_of_fraction(vector_f32 x) {
    static const float cephes[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                   -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                   2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
    mask_f32 bits = BITS_F32(x) & 0x7fffffff, e = (bits - 0x3f3504f3) >> 23;
    vector_f32 t = OF_BITS_F32(bits - e * 0x800000) - 1;
    POLYNOMIAL(f32, p, cephes, t);
    vector_f32 square = t * t;
    return OF_WHOLE_F32(e) * 0.693147181f + (p * t * square - 0.5f * square + t);
}

/* `inside` is 1 - x * x: 0 at 1 and -1, where y is to be infinite; beyond, and of NaN, it is to be NaN. */
#define WITH_ENDS(type)                                                                                    \
    static inline vector_##type with_ends_##type(vector_##type y, vector_##type x, vector_##type inside) { \
        mask_##type beyond = (inside < 0) | (inside != inside), end = inside == 0;                         \
        vector_##type zero = {0};                                                                          \
        if (!any_##type(beyond | end)) return y;                                                           \
        return CHOSEN(type, beyond, zero + NAN, CHOSEN(type, end, x / zero, y));                           \
    }
WITH_ENDS(f32)
WITH_ENDS(f64)

static inline vector_f32 erfinv_f32(vector_f32 x) {
    vector_f32 inside = 1 - x * x, w = -log_of_fraction(inside);
    mask_f32 far = w >= 5;
    POLYNOMIAL(f32, p, bti_giles_f32_middle, w - 2.5f);
    if (any_f32(far)) {
        POLYNOMIAL(f32, tail, bti_giles_f32_tail, root_f32(w) - 3);
        p = CHOSEN(f32, far, tail, p);
    }
    return with_ends_f32(p * x, x, inside);
}

static inline vector_f64 erfinv_f64(vector_f64 x) {
    vector_f64 inside = (1 - x) * (1 + x), w = -SLEEF_F64(log)(inside);
    mask_f64 far = w >= 6.25, tail = w >= 16;
    POLYNOMIAL(f64, p, bti_giles_f64_middle, w - 3.125);
    if (any_f64(far)) {
        vector_f64 root = root_f64(w);
        POLYNOMIAL(f64, of_far, bti_giles_f64_far, root - 3.25);
        POLYNOMIAL(f64, of_tail, bti_giles_f64_tail, root - 5);
        p = CHOSEN(f64, tail, of_tail, CHOSEN(f64, far, of_far, p));
    }
    return with_ends_f64(p * x, x, inside);
}

static float fmod_f32(float x, float y) { return fmodf(x, y); }
static double fmod_f64(double x, double y) { return fmod(x, y); }
static uint16_t f16_from_f64(double x) { return bti_f16_from_f64(x); }
static uint16_t f16_from_f32(float x) { return bti_f16_from_f32(x); }
static float f32_from_f16(uint16_t half) { return bti_f32_from_f16(half); }

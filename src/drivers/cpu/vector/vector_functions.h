/* The functions of launch/functions.def for one target: SLEEF's deterministic ones (finz), which have the same bits at all vector widths,
 * corrected where they differ from C's. The including file defines LANES_F32, LANES_F64, SLEEF_F32(name), SLEEF_F64(name) and
 * SLEEF_ERFC_F64. */
#include <math.h>
#include <sleef.h>
#include <stdint.h>
#include <string.h>

#include "drivers/cpu/vector/vector.h"
#include "ir/half.h"
#include "ir/scalar.h"

/* A vector, or one element where that is all; masks are integers of the same size, all bits or none. */
#if LANES_F32 > 1
typedef float vector_f32 __attribute__((vector_size(LANES_F32 * sizeof(float))));
typedef double vector_f64 __attribute__((vector_size(LANES_F64 * sizeof(double))));
typedef int32_t mask_f32 __attribute__((vector_size(LANES_F32 * sizeof(float))));
typedef int64_t mask_f64 __attribute__((vector_size(LANES_F64 * sizeof(double))));
#define CHOSEN(type, mask, yes, no) ((vector_##type)(((mask) & (mask_##type)(yes)) | (~(mask) & (mask_##type)(no))))
#define HIGH_F32(x) ((vector_f32)((mask_f32)(x) & -4096)) /* 12 of its 24 bits */
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
#define HIGH_F32(x) bti_f32_of_bits(bti_f32_bits(x) & 0xFFFFF000)
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
    vector_f32 s = a * a, q = (a - 2) / (a + 2), high = HIGH_F32(a), low = a - high;
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

static float fmod_f32(float x, float y) { return fmodf(x, y); }
static double fmod_f64(double x, double y) { return fmod(x, y); }
static uint16_t f16_from_f64(double x) { return bti_f16_from_f64(x); }
static uint16_t f16_from_f32(float x) { return bti_f16_from_f32(x); }
static float f32_from_f16(uint16_t half) { return bti_f32_from_f16(half); }
#define erfinv_f32 bti_erfinv_f32
#define erfinv_f64 bti_erfinv_f64

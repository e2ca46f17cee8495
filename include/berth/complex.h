/* berth/complex.h: complex numbers.
 *
 * BT_C64 and BT_C128 are made by `BT_ARRAY(float _Complex, (2), 1, 2 + 3 * I)` (<complex.h>; in C++ std::complex<float>), by bt_from of such memory (the real
 * part first), by bt_complex of two real arrays, by bt_cast, and by arithmetic with a complex number: `bt_mul(x, 2 + 3 * I)`. Such a number is weak as others
 * are: with floats of up to 32 bits it gives complex64, with float64, integers and bool complex128.
 *
 * They have: bt_add, bt_sub, bt_mul, bt_div, bt_neg, bt_reciprocal, bt_square, bt_pow, bt_abs, bt_sign (z / |z|), bt_exp, bt_exp2, bt_expm1, bt_log, bt_log2,
 * bt_log10, bt_log1p, bt_sqrt, bt_rsqrt, bt_sin, bt_cos, bt_tan, bt_sinh, bt_cosh, bt_tanh, bt_sigmoid, bt_eq, bt_ne, bt_isnan, bt_isinf, bt_isfinite, bt_where,
 * bt_round, bt_sum, bt_prod, bt_mean, bt_var, bt_std, bt_norm, bt_cumsum, bt_cumprod, matrix products and what is made of them, linear algebra (berth/linalg.h), and all that moves elements:
 * reshaping, slicing, padding, joining, indexing, scattering. bt_sort, bt_argsort, bt_searchsorted and bt_unique go by the real parts, where these are equal by the imaginary ones. bt_cast of them to a real dtype gives the
 * real parts, to bool whether they are not 0. What else needs an order (bt_lt, bt_max) or has no complex form refuses them: INVALID_ARGUMENT, with its name. A product with a real array scales both parts, as C has it, so that
 * an infinite part makes no NaN of the other. Branch cuts are NumPy's; a part -0 counts as 0 on them.
 *
 * Gradients. The gradient of a real loss L by z = x + iy is dL/dx + i dL/dy: the direction in which L rises fastest, so that z - rate * gradient goes down, as
 * PyTorch has it; JAX's is its conjugate. The cotangent of a complex y (bt_vjp) is meant alike. bt_abs and bt_sign have the gradient 0 at 0.
 *
 * A kernel reads and writes a complex number once, whatever is computed of its parts. Details: docs/decisions/0062-complex-numbers.md. */
#ifndef BERTH_COMPLEX_H
#define BERTH_COMPLEX_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* real + i * imag, of arrays that broadcast: complex128 if one of them is float64 or has 64-bit integers, else complex64. Complex arguments are
 * INVALID_ARGUMENT. */
BT_API bt_array *bt_complex(bt_array *real, bt_array *imag);
#define bt_complex(real, imag) BTI_AT(bt_array *, bt_complex(BTI_OPERAND(real), BTI_OPERAND(imag)))
/* r * (cos(angle) + i sin(angle)); dtypes as of bt_complex. */
BT_API bt_array *bt_polar(bt_array *r, bt_array *angle);
#define bt_polar(r, angle) BTI_AT(bt_array *, bt_polar(BTI_OPERAND(r), BTI_OPERAND(angle)))
/* The real part, float32 or float64; a real x itself. */
BT_API bt_array *bt_real(bt_array *x);
#define bt_real(...) BTI_AT(bt_array *, bt_real(__VA_ARGS__))
/* The imaginary part, float32 or float64; of a real x zeros of its dtype. */
BT_API bt_array *bt_imag(bt_array *x);
#define bt_imag(...) BTI_AT(bt_array *, bt_imag(__VA_ARGS__))
/* The conjugate, real - i * imag; a real x itself. */
BT_API bt_array *bt_conj(bt_array *x);
#define bt_conj(...) BTI_AT(bt_array *, bt_conj(__VA_ARGS__))
/* The angle in radians, from -pi to pi: bt_atan2(imag, real). Of a real x 0 or pi, as a float. */
BT_API bt_array *bt_angle(bt_array *x);
#define bt_angle(...) BTI_AT(bt_array *, bt_angle(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

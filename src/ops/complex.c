/* Complex numbers by their parts: the parts, and functions of z = x + iy as functions of them. The only primitives are complex, real and imag, so that kernels compute
 * with real numbers alone. */
#include <math.h>

#include "ops/complex.h"

/* --- parts ---------------------------------------------------------------------------------------------------------- */

bti_parts bti_parts_of(bt_array *x, bt_dtype part) {
    if (!bti_is_complex(x)) return (bti_parts){bti_cast(x, part), NULL};
    return (bti_parts){bti_cast(bti_complex_part(BTI_OP_real, x), part),
                       bti_cast(bti_complex_part(BTI_OP_imag, x), part)};
}

bti_parts bti_own_parts(bt_array *x) {
    return (bti_parts){bti_complex_part(BTI_OP_real, x), bti_complex_part(BTI_OP_imag, x)};
}

bt_array *bti_complex(bti_parts parts, bool weak) {
    if (bti_array_error(parts.re)) return parts.re;
    if (!parts.im) parts.im = bti_scalar(0, bti_dtype(parts.re));
    bt_array *inputs[2] = {parts.re, parts.im}, *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    bt_dtype part = bti_dtype(parts.re);
    return bti_record_aligned(BTI_OP_complex, part, bti_dtype_of_parts(part), weak, inputs, 2, NULL);
}

bt_array *bti_by_parts(bt_array *const *arrays, int count, bti_part_fn *of_part, const void *context) {
    enum { MOST = 4 };
    bt_array *re[MOST], *im[MOST];
    bt_dtype part = BT_F32;
    for (int i = 0; i < count; i++)
        if (bti_is_complex(arrays[i])) part = bti_dtype_of_part(bti_dtype(arrays[i]));
    for (int i = 0; i < count; i++) {
        if (!bti_is_complex(arrays[i])) {
            re[i] = im[i] = arrays[i];
            continue;
        }
        bti_parts parts = bti_parts_of(arrays[i], part);
        re[i] = parts.re, im[i] = parts.im;
    }
    bti_parts made = {of_part(re, context), NULL};
    if (bti_array_error(made.re)) return made.re;
    made.im = of_part(im, context);
    return bti_complex(made, false);
}

bt_array *bti_square_size(bt_array *x) {
    bti_parts z = bti_own_parts(x);
    return bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, z.re, z.re), bti_binary(BTI_OP_mul, z.im, z.im));
}

#define ADD(a, b) bti_binary(BTI_OP_add, a, b)
#define SUB(a, b) bti_binary(BTI_OP_sub, a, b)
#define MUL(a, b) bti_binary(BTI_OP_mul, a, b)
#define DIV(a, b) bti_binary(BTI_OP_div, a, b)
#define NEG(a) bti_unary(BTI_OP_neg, a)
#define OF(op, a) bti_unary(BTI_OP_##op, a)

static bt_array *number(double value, bt_array *like) {
    return bti_array_error(like) ? like : bti_scalar(value, bti_dtype(like));
}
static bt_array *equals(bt_array *x, double value) { return bti_binary(BTI_OP_eq, x, number(value, x)); }
static bt_array *square(bt_array *x) { return MUL(x, x); }
static bt_array *is_infinite(bt_array *x) { return equals(OF(abs, x), INFINITY); }
/* size * part; an infinite size makes no NaN of a part that is 0. */
static bt_array *part_times(bt_array *size, bt_array *part) {
    bt_array *odd = bti_binary(BTI_OP_and, is_infinite(size), equals(part, 0));
    return MUL(bti_where(odd, number(1, size), size), part);
}
static bti_parts scaled(bti_parts z, double by) {
    return (bti_parts){MUL(z.re, number(by, z.re)), MUL(z.im, number(by, z.re))};
}
static bti_parts with_imag(bti_parts z) {
    if (!z.im) z.im = number(0, z.re);
    return z;
}

/* --- products and quotients ----------------------------------------------------------------------------------------- */

bti_parts bti_parts_product(bti_parts a, bti_parts b) {
    if (!a.im || !b.im) {
        bt_array *im = a.im ? MUL(a.im, b.re) : b.im ? MUL(a.re, b.im) : NULL;
        return (bti_parts){MUL(a.re, b.re), im};
    }
    return (bti_parts){SUB(MUL(a.re, b.re), MUL(a.im, b.im)), ADD(MUL(a.re, b.im), MUL(a.im, b.re))};
}

/* Smith, "Algorithm 116: Complex division" (1962): the smaller part of b over the greater one, so that no square overflows. */
bti_parts bti_parts_quotient(bti_parts a, bti_parts b) {
    if (!b.im) return (bti_parts){DIV(a.re, b.re), a.im ? DIV(a.im, b.re) : NULL};
    a = with_imag(a);
    bt_array *swapped = bti_binary(BTI_OP_lt, OF(abs, b.re), OF(abs, b.im));
    bt_array *great = bti_where(swapped, b.im, b.re), *small = bti_where(swapped, b.re, b.im);
    bt_array *ratio = DIV(small, bti_where(equals(great, 0), number(1, great), great));
    bt_array *below = ADD(great, MUL(small, ratio));
    bt_array *first = bti_where(swapped, a.im, a.re), *second = bti_where(swapped, a.re, a.im);
    bt_array *cross = SUB(second, MUL(first, ratio));
    return (bti_parts){DIV(ADD(first, MUL(second, ratio)), below), DIV(bti_where(swapped, NEG(cross), cross), below)};
}

/* --- size and roots ------------------------------------------------------------------------------------------------- */

/* Over the greater part, which is no part of the gradient: (x, y) / |z|, and 0 at 0. */
bt_array *bti_parts_size(bti_parts z) {
    if (!z.im) return OF(abs, z.re);
    bt_array *great = bti_binary(BTI_OP_maximum, OF(abs, z.re), OF(abs, z.im)), *none = equals(great, 0);
    bt_array *odd = bti_binary(BTI_OP_or, none, equals(great, INFINITY));
    bt_array *scale = bti_stop(bti_where(odd, number(1, great), great));
    bt_array *squares = ADD(square(DIV(z.re, scale)), square(DIV(z.im, scale)));
    bt_array *root = OF(sqrt, bti_where(none, number(1, great), squares));
    return bti_where(none, number(0, great), MUL(scale, root));
}

/* t = sqrt((|x| + |z|) / 2): t + iy/2t where x >= 0, else |y|/2t and t with y's sign. */
static bti_parts root_of(bti_parts z) {
    bt_array *half = number(0.5, z.re), *size = bti_parts_size(z);
    bt_array *sum = ADD(MUL(OF(abs, z.re), half), MUL(size, half)), *none = equals(sum, 0);
    bt_array *t = OF(sqrt, bti_where(none, number(1, sum), sum));
    bt_array *other = bti_where(is_infinite(z.im), z.im, DIV(MUL(z.im, half), t)),
             *left = bti_binary(BTI_OP_lt, z.re, number(0, z.re));
    bt_array *down = bti_binary(BTI_OP_lt, z.im, number(0, z.im));
    bt_array *re = bti_where(left, OF(abs, other), t), *im = bti_where(left, bti_where(down, NEG(t), t), other);
    return (bti_parts){bti_where(none, number(0, re), re), bti_where(none, z.im, im)};
}

/* --- exponentials and logarithms ------------------------------------------------------------------------------------ */

static bti_parts exponential(bti_parts z) {
    bt_array *size = OF(exp, z.re);
    return (bti_parts){part_times(size, OF(cos, z.im)), part_times(size, OF(sin, z.im))};
}

static bti_parts logarithm(bti_parts z) {
    return (bti_parts){OF(log, bti_parts_size(z)), bti_binary(BTI_OP_atan2, z.im, z.re)};
}

/* e**z - 1: (e**x - 1) cos y - 2 sin(y/2)**2, e**x sin y. */
static bti_parts exponential_less_1(bti_parts z) {
    bt_array *sine = OF(sin, MUL(z.im, number(0.5, z.im)));
    bt_array *re = SUB(MUL(OF(expm1, z.re), OF(cos, z.im)), MUL(number(2, z.re), square(sine)));
    return (bti_parts){re, part_times(OF(exp, z.re), OF(sin, z.im))};
}

/* |1 + z|**2 is 1 + x (2 + x) + y**2, which overflows far from 0; there |1 + z| loses nothing. */
static bti_parts logarithm_of_1_more(bti_parts z) {
    bt_array *one = number(1, z.re), *zero = number(0, z.re);
    bt_array *far = bti_binary(BTI_OP_lt, number(1024, z.re), bti_binary(BTI_OP_maximum, OF(abs, z.re), OF(abs, z.im)));
    bti_parts near = {bti_where(far, zero, z.re), bti_where(far, zero, z.im)};
    bti_parts away = {bti_where(far, ADD(one, z.re), one), bti_where(far, z.im, zero)};
    bt_array *more = ADD(MUL(near.re, ADD(number(2, z.re), near.re)), square(near.im));
    bt_array *re = bti_where(far, OF(log, bti_parts_size(away)), MUL(number(0.5, z.re), OF(log1p, more)));
    return (bti_parts){re, bti_binary(BTI_OP_atan2, z.im, ADD(one, z.re))};
}

/* e**(w log z); 0**0 is 1, and 0 to any other power 0. */
bti_parts bti_parts_power(bti_parts base, bti_parts exponent) {
    base = with_imag(base);
    bt_array *none = bti_binary(BTI_OP_and, equals(base.re, 0), equals(base.im, 0));
    bti_parts safe = {bti_where(none, number(1, base.re), base.re), base.im};
    bti_parts power = exponential(with_imag(bti_parts_product(exponent, logarithm(safe))));
    bt_array *flat = equals(exponent.re, 0);
    if (exponent.im) flat = bti_binary(BTI_OP_and, flat, equals(exponent.im, 0));
    bt_array *of_none = bti_where(flat, number(1, power.re), number(0, power.re));
    return (bti_parts){bti_where(none, of_none, power.re), bti_where(none, number(0, power.im), power.im)};
}

/* --- circular and hyperbolic functions ------------------------------------------------------------------------------ */

static bti_parts sine(bti_parts z) {
    return (bti_parts){part_times(OF(cosh, z.im), OF(sin, z.re)), part_times(OF(sinh, z.im), OF(cos, z.re))};
}
static bti_parts cosine(bti_parts z) {
    return (bti_parts){part_times(OF(cosh, z.im), OF(cos, z.re)), NEG(part_times(OF(sinh, z.im), OF(sin, z.re)))};
}
/* With t = tanh x, s = tan y: (t (1 + s**2) + i s / cosh(x)**2) / (1 + t**2 s**2). */
static bti_parts hyperbolic_tangent(bti_parts z) {
    bt_array *t = OF(tanh, z.re), *s = OF(tan, z.im), *one = number(1, t);
    bt_array *below = ADD(one, square(MUL(t, s)));
    return (bti_parts){DIV(MUL(t, ADD(one, square(s))), below), DIV(DIV(s, square(OF(cosh, z.re))), below)};
}
/* Of iz = -y + ix, where that is the hyperbolic one: f(z) = -i g(iz). */
static bti_parts turned(bti_parts z) { return (bti_parts){NEG(z.im), z.re}; }
static bti_parts turned_back(bti_parts z) { return (bti_parts){z.im, NEG(z.re)}; }
static bti_parts unit_over(bti_parts z) { return bti_parts_quotient((bti_parts){number(1, z.re), NULL}, z); }

/* 1 / (1 + e**-z), left of 0 e**z / (1 + e**z): no exponential is greater than 1. */
static bti_parts logistic(bti_parts z) {
    bt_array *left = bti_binary(BTI_OP_lt, z.re, number(0, z.re));
    bti_parts e = exponential((bti_parts){bti_where(left, z.re, NEG(z.re)), bti_where(left, z.im, NEG(z.im))});
    bti_parts right = unit_over((bti_parts){ADD(number(1, e.re), e.re), e.im}), product = bti_parts_product(e, right);
    return (bti_parts){bti_where(left, product.re, right.re), bti_where(left, product.im, right.im)};
}

/* z / |z|, and 0 at 0. */
static bti_parts direction(bti_parts z) {
    bt_array *size = bti_parts_size(z), *by = bti_where(equals(size, 0), number(1, size), size);
    return (bti_parts){DIV(z.re, by), DIV(z.im, by)};
}

bool bti_parts_function(bti_op op, bti_parts z, bti_parts *result) {
    switch (op) {
    case BTI_OP_neg: *result = (bti_parts){NEG(z.re), NEG(z.im)}; return true;
    case BTI_OP_sign: *result = direction(z); return true;
    case BTI_OP_round: *result = (bti_parts){bti_unary(BTI_OP_round, z.re), bti_unary(BTI_OP_round, z.im)}; return true;
    case BTI_OP_exp: *result = exponential(z); return true;
    case BTI_OP_exp2: *result = exponential(scaled(z, M_LN2)); return true;
    case BTI_OP_expm1: *result = exponential_less_1(z); return true;
    case BTI_OP_log: *result = logarithm(z); return true;
    case BTI_OP_log2: *result = scaled(logarithm(z), M_LOG2E); return true;
    case BTI_OP_log10: *result = scaled(logarithm(z), M_LOG10E); return true;
    case BTI_OP_log1p: *result = logarithm_of_1_more(z); return true;
    case BTI_OP_sqrt: *result = root_of(z); return true;
    case BTI_OP_rsqrt: *result = unit_over(root_of(z)); return true;
    case BTI_OP_sin: *result = sine(z); return true;
    case BTI_OP_cos: *result = cosine(z); return true;
    case BTI_OP_tan: *result = turned_back(hyperbolic_tangent(turned(z))); return true;
    case BTI_OP_sinh: *result = turned_back(sine(turned(z))); return true;
    case BTI_OP_cosh: *result = cosine(turned(z)); return true;
    case BTI_OP_tanh: *result = hyperbolic_tangent(z); return true;
    case BTI_OP_sigmoid: *result = logistic(z); return true;
    default: return false;
    }
}

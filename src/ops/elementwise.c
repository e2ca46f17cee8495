/* Elementwise operations: most are one primitive, and its gradient stands below it. g is the gradient of the result y, x (x0, x1) the
 * inputs, which have y's shape; gradients are written with public operations, so they have gradients too. Corners are JAX's, but for abs
 * at 0, which is 1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/gradient.h"
#include "ops/primitive.h"

#define LN2 0.69314718055994531
#define LN10 2.3025850929940457
#define HALF_SQRT_PI 0.88622692545275801

/* --- recording ---------------------------------------------------------------------------------------------------- */

static bt_array *apply_dtype_rule(bti_op op, bt_dtype met, bt_dtype *in, bt_dtype *out) {
    bti_str why = {0};
    return bti_poison_unless(bti_op_dtypes(op, met, in, out, &why), &why);
}

bt_dtype bti_meet(bt_array *const *arrays, int count, bool *weak) {
    bt_dtype met = BT_DTYPE_COUNT;
    bool real = false, integer = false, complex = false, first = true;
    for (int i = 0; i < count; i++) {
        const bti_node *node = bti_node_of(arrays[i]);
        if (!node->weak)
            met = first ? (bt_dtype)node->dtype : bt_promote(met, (bt_dtype)node->dtype), first = false;
        else if (bti_dtype_is_complex((bt_dtype)node->dtype))
            complex = true;
        else if (bti_dtype_is_float((bt_dtype)node->dtype))
            real = true;
        else
            integer = true;
    }
    *weak = first;
    if (*weak) return complex ? BT_C128 : real ? BT_F64 : BT_I64;
    if (met == BT_DTYPE_COUNT || ((real || integer || complex) && bti_dtype_is_storage(met)))
        return BT_DTYPE_COUNT; /* 8-bit floats */
    if (bti_dtype_is_complex(met)) return met;
    if (complex) return bti_dtype_is_float(met) ? bti_dtype_of_parts(met) : BT_C128;
    if (real && !bti_dtype_is_float(met)) return BT_F64;
    return integer && met == BT_BOOL ? BT_I64 : met;
}

static bt_array *do_not_broadcast(bt_array *const *arrays, int count) {
    bti_str text = {0};
    for (int i = 0; i < count; i++) {
        if (i) bti_str_add(&text, i + 1 == count ? " and " : ", ");
        bti_shape_text(&text, bti_node_of(arrays[i])->rank, bti_node_of(arrays[i])->shape);
    }
    bt_array *poison =
        bti_poisonf(BT_INVALID_ARGUMENT, "shapes %s do not broadcast: aligned at the right, sizes must be equal or 1",
                    bti_str_text(&text));
    bti_str_free(&text);
    return poison;
}

static bool have_one_shape(bt_array *const *arrays, int count) {
    const bti_node *first = bti_node_of(arrays[0]);
    for (int i = 1; i < count; i++) {
        const bti_node *other = bti_node_of(arrays[i]);
        if (other->rank != first->rank) return false;
        for (int axis = 0; axis < first->rank; axis++)
            if (other->shape[axis] != first->shape[axis]) return false;
    }
    return true;
}

static bt_array *broadcast_shape(bt_array *const *arrays, int count, int *rank, int64_t *shape) {
    *rank = 0;
    for (int i = 0; i < count; i++)
        if (bti_node_of(arrays[i])->rank > *rank) *rank = bti_node_of(arrays[i])->rank;
    for (int axis = 0; axis < *rank; axis++) {
        shape[axis] = 1;
        for (int i = 0; i < count; i++) {
            const bti_node *node = bti_node_of(arrays[i]);
            int own = axis - (*rank - node->rank);
            int64_t size = own < 0 ? 1 : node->shape[own];
            bool known = !bti_size_is_symbolic(size) && !bti_size_is_symbolic(shape[axis]);
            if (known && size != 1 && shape[axis] != 1 && size != shape[axis]) return do_not_broadcast(arrays, count);
            shape[axis] = bti_size_broadcast(shape[axis], size); /* unknown sizes are checked at the call */
        }
    }
    return NULL;
}

/* bti_cast of what is not poisoned: most inputs have the dtype already. What is weak stays so if the result is weak. */
static bt_array *cast_if_other(bt_array *x, bt_dtype dtype, bool weak) {
    return bti_dtype(x) == dtype && (weak || !bti_node_of(x)->weak) ? x : bti_cast(x, dtype);
}

/* Whether numbers alone give a number again; the results of comparisons, say, are arrays like any other. */
static bool stays_weak(bool weak, bt_dtype out) { return weak && (bti_dtype_is_float(out) || out == BT_I64); }

bt_array *bti_unary(bti_op op, bt_array *x) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bt_dtype in, out;
    if (bti_is_complex(x)) return bti_complex_record()->unary(op, x);
    if ((poison = apply_dtype_rule(op, (bt_dtype)node->dtype, &in, &out))) return poison;
    bool weak = stays_weak(node->weak, out);
    x = cast_if_other(x, in, weak);
    if (bti_array_error(x)) return x;
    return bti_record(op, out, weak, &x, 1, NULL);
}

/* The inputs cast and broadcast to one dtype and shape, then one node. */
bt_array *bti_record_aligned(bti_op op, bt_dtype in, bt_dtype out, bool weak, bt_array **inputs, int count,
                             const bti_attr *attr) {
    int rank;
    int64_t shape[BTI_MAX_RANK];
    bool broadcasts = !have_one_shape(inputs, count);
    bt_array *poison = broadcasts ? broadcast_shape(inputs, count, &rank, shape) : NULL;
    if (poison) return poison;
    for (int i = 0; i < count; i++) {
        bool as_it_is = op == BTI_OP_where && i == 0;
        if (!as_it_is) inputs[i] = cast_if_other(inputs[i], in, weak);
        if (bti_array_error(inputs[i])) return inputs[i];
        if (broadcasts && !bti_shape_equal(bti_rank(inputs[i]), bti_shape(inputs[i]), rank, shape))
            inputs[i] = bti_expand(inputs[i], rank, shape);
    }
    return bti_record(op, out, weak, inputs, count, attr);
}

/* Integers are compared with a number that does not fit their dtype where both fit. */
static bt_dtype compared_at(bti_op op, bt_dtype met, bt_array *const *inputs) {
    bool compares = op == BTI_OP_eq || op == BTI_OP_ne || op == BTI_OP_lt || op == BTI_OP_le;
    bool fits = bti_number_fits(inputs[0], met) && bti_number_fits(inputs[1], met);
    return compares && !fits && met != BT_U64 ? BT_I64 : met;
}

bt_array *bti_binary(bti_op op, bt_array *x, bt_array *y) {
    bt_array *inputs[2] = {x, y};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    bool weak;
    bt_dtype in, out, met = compared_at(op, bti_meet(inputs, 2, &weak), inputs);
    if (bti_dtype_is_complex(met)) return bti_complex_record()->binary(op, x, y, met, weak);
    if ((poison = apply_dtype_rule(op, met, &in, &out))) return poison;
    return bti_record_aligned(op, in, out, stays_weak(weak, out), inputs, 2, NULL);
}

/* x as such an operation of x and y would take it: promoted. Neither is poisoned. */
static bt_array *promoted_for(bti_op op, bt_array *x, bt_array *y) {
    bt_array *inputs[2] = {x, y};
    bool weak;
    bt_dtype in, out, met = bti_meet(inputs, 2, &weak);
    bt_array *poison = apply_dtype_rule(op, met, &in, &out);
    return poison ? poison : cast_if_other(x, in, stays_weak(weak, out));
}

bt_array *bti_where(bt_array *condition, bt_array *x, bt_array *y) {
    bt_array *inputs[3] = {condition, x, y};
    bt_array *poison = bti_poisoned_by(inputs, 3);
    if (poison) return poison;
    bool weak;
    bt_dtype met = bti_meet(inputs + 1, 2, &weak);
    inputs[0] = bti_cast(condition, BT_BOOL);
    if (bti_dtype_is_complex(met)) return bti_complex_record()->where(inputs[0], x, y, met, weak);
    return bti_record_aligned(BTI_OP_where, met, met, weak, inputs, 3, NULL);
}

/* --- one input ------------------------------------------------------------------------------------------------------ */

#define UNARY(name, op)                \
    bt_array *bt_##name(bt_array *x) { \
        BTI_PUBLIC("bt_" #name);       \
        BTI_AUTOCAST(x);               \
        BTI_RETURN(bti_unary(op, x));  \
    }

static bt_array *one_minus_square(bt_array *x) { return bt_mul(bt_add(bt_num(1), x), bt_sub(bt_num(1), x)); }

UNARY(neg, BTI_OP_neg)
BTI_GRADIENT_1(neg, bt_neg(g))
UNARY(abs, BTI_OP_abs)
BTI_GRADIENT_1(abs, bt_where(bt_lt(x, bt_num(0)), bt_neg(g), g))
UNARY(sign, BTI_OP_sign)
UNARY(floor, BTI_OP_floor)
UNARY(ceil, BTI_OP_ceil)
UNARY(round, BTI_OP_round)
UNARY(trunc, BTI_OP_trunc)
UNARY(exp, BTI_OP_exp)
BTI_GRADIENT_1(exp, bt_mul(g, y))
UNARY(exp2, BTI_OP_exp2)
BTI_GRADIENT_1(exp2, bt_mul(g, bt_mul(y, bt_num(LN2))))
UNARY(expm1, BTI_OP_expm1)
BTI_GRADIENT_1(expm1, bt_mul(g, bt_exp(x))) /* y + 1 has no digits left far below 0 */
UNARY(log, BTI_OP_log)
BTI_GRADIENT_1(log, bt_div(g, x))
UNARY(log2, BTI_OP_log2)
BTI_GRADIENT_1(log2, bt_div(g, bt_mul(x, bt_num(LN2))))
UNARY(log10, BTI_OP_log10)
BTI_GRADIENT_1(log10, bt_div(g, bt_mul(x, bt_num(LN10))))
UNARY(log1p, BTI_OP_log1p)
BTI_GRADIENT_1(log1p, bt_div(g, bt_add(x, bt_num(1))))
UNARY(sqrt, BTI_OP_sqrt)
BTI_GRADIENT_1(sqrt, bt_mul(g, bt_div(bt_num(0.5), y)))
UNARY(rsqrt, BTI_OP_rsqrt)
BTI_GRADIENT_1(rsqrt, bt_mul(g, bt_mul(bt_num(-0.5), bt_div(y, x))))
UNARY(sin, BTI_OP_sin)
BTI_GRADIENT_1(sin, bt_mul(g, bt_cos(x)))
UNARY(cos, BTI_OP_cos)
BTI_GRADIENT_1(cos, bt_neg(bt_mul(g, bt_sin(x))))
UNARY(tan, BTI_OP_tan)
BTI_GRADIENT_1(tan, bt_mul(g, bt_add(bt_num(1), bt_mul(y, y))))
UNARY(asin, BTI_OP_asin)
BTI_GRADIENT_1(asin, bt_mul(g, bt_rsqrt(one_minus_square(x))))
UNARY(acos, BTI_OP_acos)
BTI_GRADIENT_1(acos, bt_neg(bt_mul(g, bt_rsqrt(one_minus_square(x)))))
UNARY(atan, BTI_OP_atan)
BTI_GRADIENT_1(atan, bt_div(g, bt_add(bt_num(1), bt_mul(x, x))))
UNARY(sinh, BTI_OP_sinh)
BTI_GRADIENT_1(sinh, bt_mul(g, bt_cosh(x)))
UNARY(cosh, BTI_OP_cosh)
BTI_GRADIENT_1(cosh, bt_mul(g, bt_sinh(x)))
UNARY(tanh, BTI_OP_tanh)
BTI_GRADIENT_1(tanh, bt_mul(g, one_minus_square(y)))
UNARY(sigmoid, BTI_OP_sigmoid)
BTI_GRADIENT_1(sigmoid, bt_mul(g, bt_mul(y, bt_sub(bt_num(1), y))))
UNARY(erf, BTI_OP_erf)
BTI_GRADIENT_1(erf, bt_mul(g, bt_mul(bt_num(1 / HALF_SQRT_PI), bt_exp(bt_neg(bt_mul(x, x))))))
UNARY(erfc, BTI_OP_erfc)
BTI_GRADIENT_1(erfc, bt_neg(bt_mul(g, bt_mul(bt_num(1 / HALF_SQRT_PI), bt_exp(bt_neg(bt_mul(x, x)))))))
UNARY(erfinv, BTI_OP_erfinv)
BTI_GRADIENT_1(
    erfinv,
    bt_mul(
        g,
        bt_mul(
            bt_num(HALF_SQRT_PI),
            bt_exp(bt_mul(
                y,
                y))))) /* --- elementwise, two inputs ---------------------------------------------------------------------------------------- */
UNARY(bit_not, BTI_OP_not)

/* The rest name x and give an expression of it; x is no poison. */
#define COMPOSED(name, expression)     \
    bt_array *bt_##name(bt_array *x) { \
        BTI_PUBLIC("bt_" #name);       \
        BTI_NEED(x);                   \
        BTI_RETURN(expression);        \
    }

static bt_array *reciprocal(bt_array *x) {
    if (bti_is_complex(x)) return bti_binary(BTI_OP_div, bti_scalar(1, bti_dtype_of_part(bti_dtype(x))), x);
    x = bti_float(x);
    return bti_binary(BTI_OP_div, bti_scalar_like(1, x), x);
}

static bt_array *of_either_part(bt_array *x, bt_array *(*is)(bt_array *part), bti_op op) {
    return bti_binary(op, is(bti_complex_part(BTI_OP_real, x)), is(bti_complex_part(BTI_OP_imag, x)));
}

/* Integers are neither NaN nor infinite: x != x, x == x. */
static bt_array *is_inf(bt_array *x) {
    if (bti_is_complex(x)) return of_either_part(x, is_inf, BTI_OP_or);
    if (!bti_dtype_is_float(bti_dtype(x))) return bti_binary(BTI_OP_ne, x, x);
    return bti_binary(BTI_OP_eq, bti_unary(BTI_OP_abs, x), bti_scalar_like(INFINITY, x));
}
static bt_array *is_finite(bt_array *x) {
    if (bti_is_complex(x)) return of_either_part(x, is_finite, BTI_OP_and);
    if (!bti_dtype_is_float(bti_dtype(x))) return bti_binary(BTI_OP_eq, x, x);
    return bti_binary(BTI_OP_lt, bti_unary(BTI_OP_abs, x), bti_scalar_like(INFINITY, x));
}

COMPOSED(identity, x)
COMPOSED(square, bti_binary(BTI_OP_mul, x, x))
COMPOSED(reciprocal, reciprocal(x))
COMPOSED(logical_not, bti_unary(BTI_OP_not, bti_cast(x, BT_BOOL)))
COMPOSED(isnan, bti_binary(BTI_OP_ne, x, x))
COMPOSED(isinf, is_inf(x))
COMPOSED(isfinite, is_finite(x))
COMPOSED(stop_gradient, bti_stop(x))

/* --- two inputs ----------------------------------------------------------------------------------------------------- */

/* The value of a scalar that was given as a number. */
static bool is_number(bt_array *x, double *value) {
    const bti_node *node = bti_node_of(x);
    if (node->op != BTI_OP_const || node->rank) return false;
    if (bti_dtype_is_float((bt_dtype)node->dtype))
        memcpy(value, &node->attr->constant.bits, sizeof *value);
    else
        *value = (double)node->attr->size.size;
    return true;
}

/* The square root but for -0, which gives 0, and -inf, which gives inf: exactly x**0.5. */
static bt_array *half_power(bt_array *x) {
    bt_array *root = bti_binary(BTI_OP_add, bti_unary(BTI_OP_sqrt, x), bti_scalar_like(0, x));
    return bti_where(bti_binary(BTI_OP_eq, x, bti_scalar_like(-INFINITY, x)), bti_scalar_like(INFINITY, x), root);
}

/* x ** exponent of complex numbers; false: it is no power that products and roots make. */
static bool complex_number_power(bt_array *x, double exponent, bt_array **power) {
    enum { MOST = 64 };
    if (exponent == 0.5) return *power = bti_unary(BTI_OP_sqrt, x), true;
    if (exponent != rint(exponent) || fabs(exponent) > MOST || exponent == 0) return false;
    bt_array *square = x, *made = NULL;
    for (int left = abs((int)exponent); left; left >>= 1) {
        if (left & 1) made = made ? bti_binary(BTI_OP_mul, made, square) : square;
        if (left > 1) square = bti_binary(BTI_OP_mul, square, square);
    }
    *power = exponent < 0 ? bti_binary(BTI_OP_div, bti_scalar(1, bti_dtype_of_part(bti_dtype(x))), made) : made;
    return true;
}

/* Powers that are written as numbers are products and roots: what is recorded decides, so that every way to run it gives the
 * same bits. */
static bt_array *power(bt_array *x, bt_array *y) {
    double exponent;
    bt_array *inputs[2] = {x, y}, *made;
    if (bti_poisoned_by(inputs, 2) || !is_number(y, &exponent)) return bti_binary(BTI_OP_pow, x, y);
    if (bti_is_complex(x)) return complex_number_power(x, exponent, &made) ? made : bti_binary(BTI_OP_pow, x, y);
    x = promoted_for(BTI_OP_pow, x, y);
    if (bti_array_error(x)) return x;
    bool is_float = bti_dtype_is_float(bti_dtype(x)), wide = bti_dtype(x) == BT_F32 || bti_dtype(x) == BT_F64;
    if (exponent == 2) return bti_binary(BTI_OP_mul, x, x);
    if (exponent == 3 && (wide || !is_float)) return bti_binary(BTI_OP_mul, bti_binary(BTI_OP_mul, x, x), x);
    if (exponent == -1 && is_float) return bti_binary(BTI_OP_div, bti_scalar_like(1, x), x);
    if (exponent == 0.5 && is_float) return half_power(x);
    return bti_binary(BTI_OP_pow, x, y);
}

bt_array *bt_pow(bt_array *x, bt_array *y) {
    BTI_PUBLIC("bt_pow");
    BTI_AUTOCAST(x, y);
    BTI_RETURN(power(x, y));
}

/* x ** (p - 1) * p, where p is 0: 0, whatever x. */
static bt_array *pow_by_base(bt_array *x, bt_array *p) {
    bt_array *flat = bt_eq(p, bt_num(0));
    bt_array *less = bt_where(flat, bt_num(1), bt_sub(p, bt_num(1)));
    return bt_where(flat, bt_num(0), bt_mul(p, bt_pow(x, less)));
}

/* x ** p * log(x), where x is 0: 0. */
static bt_array *pow_by_exponent(bt_array *x, bt_array *y) {
    return bt_mul(y, bt_log(bt_where(bt_eq(x, bt_num(0)), bt_num(1), x)));
}

BTI_GRADIENT_2(pow, bt_mul(g, pow_by_base(x0, x1)), bt_mul(g, pow_by_exponent(x0, y)))

#define BINARY(name, op, first, second)             \
    bt_array *bt_##name(bt_array *x, bt_array *y) { \
        BTI_PUBLIC("bt_" #name);                    \
        BTI_RETURN(bti_binary(op, first, second));  \
    }

/* g where x was chosen as y, half of it where `other` is the same. */
static bt_array *chosen(bt_array *g, bt_array *x, bt_array *other, bt_array *y) {
    bt_array *share = bt_where(bt_eq(other, y), bt_mul(g, bt_num(0.5)), g);
    return bt_where(bt_eq(x, y), share, bt_num(0));
}

static bt_array *square_sum(bt_array *x, bt_array *y) { return bt_add(bt_mul(x, x), bt_mul(y, y)); }

BINARY(add, BTI_OP_add, x, y)
BTI_GRADIENT_2(add, g, g)
BINARY(sub, BTI_OP_sub, x, y)
BTI_GRADIENT_2(sub, g, bt_neg(g))
BINARY(mul, BTI_OP_mul, x, y)
BTI_GRADIENT_2(mul, bt_mul(g, x1), bt_mul(g, x0))
BINARY(div, BTI_OP_div, x, y)
BTI_GRADIENT_2(div, bt_div(g, x1), bt_neg(bt_mul(bt_div(g, x1), y)))
BINARY(floor_div, BTI_OP_floor_div, x, y)
BINARY(mod, BTI_OP_mod, x, y)
BTI_GRADIENT_2(mod, g, bt_neg(bt_mul(g, bt_stop_gradient(bt_floor_div(x0, x1)))))
BINARY(atan2, BTI_OP_atan2, x, y)
BTI_GRADIENT_2(atan2, bt_mul(g, bt_div(x1, square_sum(x0, x1))), bt_neg(bt_mul(g, bt_div(x0, square_sum(x0, x1)))))
BINARY(maximum, BTI_OP_maximum, x, y)
BTI_GRADIENT_2(maximum, chosen(g, x0, x1, y), chosen(g, x1, x0, y))
BINARY(minimum, BTI_OP_minimum, x, y)
BTI_GRADIENT_2(minimum, chosen(g, x0, x1, y), chosen(g, x1, x0, y))
BINARY(bit_and, BTI_OP_and, x, y)
BINARY(bit_or, BTI_OP_or, x, y)
BINARY(bit_xor, BTI_OP_xor, x, y)
BINARY(shift_left, BTI_OP_shl, x, y)
BINARY(shift_right, BTI_OP_shr, x, y)
BINARY(eq, BTI_OP_eq, x, y)
BINARY(ne, BTI_OP_ne, x, y)
BINARY(lt, BTI_OP_lt, x, y)
BINARY(le, BTI_OP_le, x, y)
BINARY(gt, BTI_OP_lt, y, x)
BINARY(ge, BTI_OP_le, y, x)

#define LOGICAL(name, op)                                                       \
    bt_array *bt_##name(bt_array *x, bt_array *y) {                             \
        BTI_PUBLIC("bt_" #name);                                                \
        BTI_NEED(x, y);                                                         \
        BTI_RETURN(bti_binary(op, bti_cast(x, BT_BOOL), bti_cast(y, BT_BOOL))); \
    }

LOGICAL(logical_and, BTI_OP_and)
LOGICAL(logical_or, BTI_OP_or)
LOGICAL(logical_xor, BTI_OP_xor)

/* --- the rest ------------------------------------------------------------------------------------------------------- */

bt_array *bt_where(bt_array *condition, bt_array *x, bt_array *y) {
    BTI_PUBLIC("bt_where");
    BTI_RETURN(bti_where(condition, x, y));
}

void bti_gradient_where(bti_backward *b) {
    if (b->wanted[1]) b->gx[1] = bt_where(b->x[0], b->g, bt_num(0));
    if (b->wanted[2]) b->gx[2] = bt_where(b->x[0], bt_num(0), b->g);
}

/* Whether every integer of the dtype is on the bound's right side. */
static bool holds_for_all(bt_dtype dtype, double bound, bool is_low) {
    if (bti_dtype_is_float(dtype)) return false;
    int sign = bti_dtype_is_signed(dtype);
    double above = ldexp(1, bti_dtype_bits(dtype) - sign), least = sign ? -above : 0;
    return is_low ? bound <= least : bound >= above - 1;
}

bt_array *bt_clamp(bt_array *x, double low, double high) {
    BTI_PUBLIC("bt_clamp");
    BTI_NEED(x);
    bt_dtype dtype = bti_dtype(x);
    if (bti_is_complex(x)) BTI_RETURN(bti_refuse_complex(dtype));
    if (!bti_dtype_is_float(dtype)) {
        if (isnan(low) || isnan(high))
            BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "a bound is NaN, which no %s is", bt_dtype_name(dtype)));
        low = ceil(low);
        high = floor(high);
    }
    bool is_float = bti_dtype_is_float(dtype);
    bt_array *result = x;
    if (!holds_for_all(dtype, low, true))
        result = bti_binary(BTI_OP_maximum, result, is_float ? bti_scalar_like(low, x) : bti_scalar_cast(low, dtype));
    if (!holds_for_all(dtype, high, false))
        result = bti_binary(BTI_OP_minimum, result, is_float ? bti_scalar_like(high, x) : bti_scalar_cast(high, dtype));
    BTI_RETURN(result);
}

bt_array *bt_add_n(bt_array *const *arrays, int count) {
    BTI_PUBLIC("bt_add_n");
    if (!arrays || count < 1)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "no arrays (count %d); there must be at least one", count));
    BTI_NEED_ALL(arrays, count);
    bt_array *sum = arrays[0], *first = arrays[0];
    for (int i = 1; i < count; i++) {
        bt_array *x = arrays[i];
        if (!bti_shapes_may_equal(bti_rank(first), bti_shape(first), bti_rank(x), bti_shape(x)) ||
            bti_dtype(first) != bti_dtype(x))
            BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "array 0 is %s %s and array %d is %s %s; all must be alike",
                                   bt_dtype_name(bti_dtype(first)), bti_shape_string(first).text, i,
                                   bt_dtype_name(bti_dtype(x)), bti_shape_string(x).text));
        sum = bti_binary(BTI_OP_add, sum, x);
    }
    BTI_RETURN(sum);
}

/* The greater one, and what the other adds; equal ones add log 2, infinities too. */
bt_array *bt_logaddexp(bt_array *x, bt_array *y) {
    BTI_PUBLIC("bt_logaddexp");
    BTI_NEED(x, y);
    bt_array *high = bti_binary(BTI_OP_maximum, bti_float(x), bti_float(y)),
             *low = bti_binary(BTI_OP_minimum, bti_float(x), bti_float(y));
    if (bti_array_error(high)) BTI_RETURN(high);
    bt_array *equal = bti_binary(BTI_OP_eq, low, high), *apart = bti_binary(BTI_OP_sub, low, high);
    apart = bti_where(equal, bti_scalar_like(0, apart), apart);
    BTI_RETURN(bti_binary(BTI_OP_add, high, bti_unary(BTI_OP_log1p, bti_unary(BTI_OP_exp, apart))));
}

bt_array *bt_nan_to_num(bt_array *x, double nan, double posinf, double neginf) {
    BTI_PUBLIC("bt_nan_to_num");
    BTI_NEED(x);
    if (bti_dtype_is_storage(bti_dtype(x)) || bti_is_complex(x)) BTI_RETURN(bti_float(x)); /* which refuses it */
    if (!bti_dtype_is_float(bti_dtype(x))) BTI_RETURN(x);
    bt_array *made = bti_where(bti_binary(BTI_OP_eq, x, bti_scalar_like(INFINITY, x)), bti_scalar_like(posinf, x), x);
    made = bti_where(bti_binary(BTI_OP_eq, x, bti_scalar_like(-INFINITY, x)), bti_scalar_like(neginf, x), made);
    BTI_RETURN(bti_where(bti_binary(BTI_OP_ne, x, x), bti_scalar_like(nan, x), made));
}

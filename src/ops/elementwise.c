/* Elementwise operations: most are one primitive. */
#include <math.h>
#include <string.h>

#include "ops/compose.h"

/* --- one input ------------------------------------------------------------------------------------------------------ */

#define UNARY(name, op)                \
    bt_array *bt_##name(bt_array *x) { \
        BTI_PUBLIC("bt_" #name);       \
        BTI_RETURN(bti_unary(op, x));  \
    }

UNARY(neg, BTI_OP_neg)
UNARY(abs, BTI_OP_abs)
UNARY(sign, BTI_OP_sign)
UNARY(floor, BTI_OP_floor)
UNARY(ceil, BTI_OP_ceil)
UNARY(round, BTI_OP_round)
UNARY(trunc, BTI_OP_trunc)
UNARY(exp, BTI_OP_exp)
UNARY(exp2, BTI_OP_exp2)
UNARY(expm1, BTI_OP_expm1)
UNARY(log, BTI_OP_log)
UNARY(log2, BTI_OP_log2)
UNARY(log10, BTI_OP_log10)
UNARY(log1p, BTI_OP_log1p)
UNARY(sqrt, BTI_OP_sqrt)
UNARY(rsqrt, BTI_OP_rsqrt)
UNARY(sin, BTI_OP_sin)
UNARY(cos, BTI_OP_cos)
UNARY(tan, BTI_OP_tan)
UNARY(asin, BTI_OP_asin)
UNARY(acos, BTI_OP_acos)
UNARY(atan, BTI_OP_atan)
UNARY(sinh, BTI_OP_sinh)
UNARY(cosh, BTI_OP_cosh)
UNARY(tanh, BTI_OP_tanh)
UNARY(sigmoid, BTI_OP_sigmoid)
UNARY(erf, BTI_OP_erf)
UNARY(erfc, BTI_OP_erfc)
UNARY(erfinv, BTI_OP_erfinv)
UNARY(bit_not, BTI_OP_not)

/* The rest name x and give an expression of it; x is no poison. */
#define COMPOSED(name, expression)     \
    bt_array *bt_##name(bt_array *x) { \
        BTI_PUBLIC("bt_" #name);       \
        BTI_NEED(x);                   \
        BTI_RETURN(expression);        \
    }

static bt_array *reciprocal(bt_array *x) {
    x = bti_float(x);
    return bti_binary(BTI_OP_div, bti_scalar_like(1, x), x);
}

/* Integers are neither NaN nor infinite: x != x, x == x. */
static bt_array *is_inf(bt_array *x) {
    if (!bti_dtype_is_float(bti_dtype(x))) return bti_binary(BTI_OP_ne, x, x);
    return bti_binary(BTI_OP_eq, bti_unary(BTI_OP_abs, x), bti_scalar_like(INFINITY, x));
}
static bt_array *is_finite(bt_array *x) {
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
        memcpy(value, node->attr, sizeof *value);
    else
        *value = (double)node->attr[0];
    return true;
}

/* The square root but for -0, which gives 0, and -inf, which gives inf: exactly x**0.5. */
static bt_array *half_power(bt_array *x) {
    bt_array *root = bti_binary(BTI_OP_add, bti_unary(BTI_OP_sqrt, x), bti_scalar_like(0, x));
    return bti_where(bti_binary(BTI_OP_eq, x, bti_scalar_like(-INFINITY, x)), bti_scalar_like(INFINITY, x), root);
}

/* Powers that are written as numbers are products and roots: what is recorded decides, so that every way to run it gives the
 * same bits. */
static bt_array *power(bt_array *x, bt_array *y) {
    double exponent;
    bt_array *inputs[2] = {x, y};
    if (bti_poisoned_by(inputs, 2) || !is_number(y, &exponent)) return bti_binary(BTI_OP_pow, x, y);
    x = bti_as_taken(BTI_OP_pow, x, y);
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
    BTI_RETURN(power(x, y));
}

#define BINARY(name, op, first, second)             \
    bt_array *bt_##name(bt_array *x, bt_array *y) { \
        BTI_PUBLIC("bt_" #name);                    \
        BTI_RETURN(bti_binary(op, first, second));  \
    }

BINARY(add, BTI_OP_add, x, y)
BINARY(sub, BTI_OP_sub, x, y)
BINARY(mul, BTI_OP_mul, x, y)
BINARY(div, BTI_OP_div, x, y)
BINARY(floor_div, BTI_OP_floor_div, x, y)
BINARY(mod, BTI_OP_mod, x, y)
BINARY(atan2, BTI_OP_atan2, x, y)
BINARY(maximum, BTI_OP_maximum, x, y)
BINARY(minimum, BTI_OP_minimum, x, y)
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

bt_array *bt_cast(bt_array *x, bt_dtype dtype) {
    BTI_PUBLIC("bt_cast");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_cast(x, dtype));
}

bt_array *bt_bitcast(bt_array *x, bt_dtype dtype) {
    BTI_PUBLIC("bt_bitcast");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    if (bt_dtype_size(dtype) != bt_dtype_size(bti_dtype(x)))
        BTI_RETURN(bti_poisonf(
            BT_INVALID_ARGUMENT, "%s has %zu bytes and %s has %zu; only equal sizes share their bits",
            bt_dtype_name(bti_dtype(x)), bt_dtype_size(bti_dtype(x)), bt_dtype_name(dtype), bt_dtype_size(dtype)));
    BTI_RETURN(bti_bitcast(x, dtype));
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
                                   bt_dtype_name(bti_dtype(first)), bti_words_of(first).text, i,
                                   bt_dtype_name(bti_dtype(x)), bti_words_of(x).text));
        sum = bti_binary(BTI_OP_add, sum, x);
    }
    BTI_RETURN(sum);
}

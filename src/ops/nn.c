/* Activations and softmax. Where a branch is not taken, its gradient must be finite, so that 0 times it is 0. */
#include <math.h>

#include "ops/primitive.h"

/* --- activations ---------------------------------------------------------------------------------------------------- */

bt_array *bti_positive_part(bt_array *x, bool at_zero) {
    bt_array *zero = bti_scalar_like(0, x);
    return bti_where(bti_binary(at_zero ? BTI_OP_lt : BTI_OP_le, x, zero), zero, x);
}

bt_array *bt_relu(bt_array *x) {
    BTI_PUBLIC("bt_relu");
    BTI_NEED(x);
    BTI_RETURN(bti_positive_part(bti_float(x), false));
}

bt_array *bti_softplus_tail(bt_array *x) {
    return bti_unary(BTI_OP_log1p, bti_unary(BTI_OP_exp, bti_unary(BTI_OP_neg, bti_unary(BTI_OP_abs, x))));
}

/* max(x, 0) + log1p(e**-|x|). At 0 the gradients are 1 and -1/2: one half. */
static bt_array *softplus(bt_array *x) {
    return bti_binary(BTI_OP_add, bti_positive_part(x, true), bti_softplus_tail(x));
}

bt_array *bt_softplus(bt_array *x) {
    BTI_PUBLIC("bt_softplus");
    BTI_NEED(x);
    x = bti_float(x);
    BTI_RETURN(bti_narrow(softplus(bti_widen(x)), bti_dtype(x)));
}

bt_array *bt_silu(bt_array *x) {
    BTI_PUBLIC("bt_silu");
    BTI_NEED(x);
    x = bti_float(x);
    bt_array *wide = bti_widen(x);
    BTI_RETURN(bti_narrow(bti_binary(BTI_OP_mul, wide, bti_unary(BTI_OP_sigmoid, wide)), bti_dtype(x)));
}

/* x/2 * erfc(-x / sqrt(2)): far below 0, where 1 + erf has no digits left, erfc has all. */
bt_array *bt_gelu(bt_array *x) {
    BTI_PUBLIC("bt_gelu");
    BTI_NEED(x);
    x = bti_float(x);
    bt_array *wide = bti_widen(x);
    bt_array *twice = bti_unary(BTI_OP_erfc, bti_binary(BTI_OP_mul, wide, bti_scalar_like(-0.70710678118654752, wide)));
    bt_array *half = bti_binary(BTI_OP_mul, wide, bti_scalar_like(0.5, wide));
    BTI_RETURN(bti_narrow(bti_binary(BTI_OP_mul, half, twice), bti_dtype(x)));
}

/* By a sigmoid, (1 + tanh(a)) / 2: far below 0, where 1 + tanh has no digits left, it has all. */
bt_array *bt_gelu_tanh(bt_array *x) {
    BTI_PUBLIC("bt_gelu_tanh");
    BTI_NEED(x);
    x = bti_float(x);
    bt_array *wide = bti_widen(x), *square = bti_binary(BTI_OP_mul, wide, wide);
    bt_array *twice = bti_scalar_like(1.5957691216057308, wide); /* 2 sqrt(2/pi) */
    bt_array *slope =
        bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, square, bti_scalar_like(0.071354816272600389, wide)), twice);
    bt_array *part = bti_unary(BTI_OP_sigmoid, bti_binary(BTI_OP_mul, wide, slope));
    BTI_RETURN(bti_narrow(bti_binary(BTI_OP_mul, wide, part), bti_dtype(x)));
}

bt_array *bt_elu(bt_array *x, double alpha) {
    BTI_PUBLIC("bt_elu");
    BTI_NEED(x);
    x = bti_float(x);
    bt_array *zero = bti_scalar_like(0, x), *positive = bti_binary(BTI_OP_lt, zero, x);
    bt_array *below = bti_unary(BTI_OP_expm1, bti_where(positive, zero, x)); /* never of a large x */
    BTI_RETURN(bti_where(positive, x, bti_binary(BTI_OP_mul, bti_scalar_like(alpha, x), below)));
}

bt_array *bt_leaky_relu(bt_array *x, double slope) {
    BTI_PUBLIC("bt_leaky_relu");
    BTI_NEED(x);
    x = bti_float(x);
    bt_array *below = bti_binary(BTI_OP_mul, bti_scalar_like(slope, x), x);
    BTI_RETURN(bti_where(bti_binary(BTI_OP_le, bti_scalar_like(0, x), x), x, below));
}

/* --- softmax -------------------------------------------------------------------------------------------------------- */

bt_array *bti_below_top(bt_array *x, int axis) {
    if (bti_shape(x)[axis] == 0) return x;
    return bti_binary(BTI_OP_sub, x, bti_stop(bti_reduce_or_start(BTI_OP_max, x, UINT32_C(1) << axis)));
}

bt_array *bti_sum_of_exp(bt_array *x, int axis) {
    return bti_reduce(BTI_OP_sum, bti_unary(BTI_OP_exp, x), UINT32_C(1) << axis);
}

bt_array *bt_softmax(bt_array *x, int axis) {
    BTI_PUBLIC("bt_softmax");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    x = bti_float(x);
    bt_array *e = bti_unary(BTI_OP_exp, bti_below_top(bti_widen(x), axis));
    bt_array *sum = bti_reduce(BTI_OP_sum, e, UINT32_C(1) << axis);
    BTI_RETURN(bti_narrow(bti_binary(BTI_OP_div, e, sum), bti_dtype(x)));
}

bt_array *bti_log_softmax(bt_array *x, int axis) {
    x = bti_below_top(x, axis);
    return bti_binary(BTI_OP_sub, x, bti_unary(BTI_OP_log, bti_sum_of_exp(x, axis)));
}

bt_array *bt_log_softmax(bt_array *x, int axis) {
    BTI_PUBLIC("bt_log_softmax");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    x = bti_float(x);
    BTI_RETURN(bti_narrow(bti_log_softmax(bti_widen(x), axis), bti_dtype(x)));
}

/* --- layer norm ----------------------------------------------------------------------------------------------------- */

static bool per_feature(const bt_array *x, const bt_array *parameter, const char *name, bt_array **poison) {
    int64_t features = bti_shape(x)[bti_rank(x) - 1];
    if (!parameter || (bti_rank(parameter) == 1 && bti_may_equal(bti_shape(parameter)[0], features))) return true;
    *poison =
        bti_poisonf(BT_INVALID_ARGUMENT, "%s has shape %s; for x %s it must be %s", name,
                    bti_shape_string(parameter).text, bti_shape_string(x).text, bti_sizes_string(1, &features).text);
    return false;
}

bt_array *bt_layer_norm(bt_array *x, bt_array *scale, bt_array *bias, double eps) {
    BTI_PUBLIC("bt_layer_norm");
    BTI_NEED(x);
    if (scale) BTI_NEED(scale);
    if (bias) BTI_NEED(bias);
    bt_array *given[3] = {x}, *poison;
    int count = 1;
    if (scale) given[count++] = scale;
    if (bias) given[count++] = bias;
    if (bti_rank(x) == 0)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "x is a scalar; it needs a last axis to normalise"));
    if (!per_feature(x, scale, "scale", &poison) || !per_feature(x, bias, "bias", &poison)) BTI_RETURN(poison);
    bool weak;
    bt_dtype dtype = bti_float_of(bti_meet(given, count, &weak));
    uint32_t last = UINT32_C(1) << (bti_rank(x) - 1);
    x = bti_widen(bti_cast(x, dtype));
    bt_array *d = bti_binary(BTI_OP_sub, x, bti_mean(x, last));
    bt_array *variance = bti_mean(bti_binary(BTI_OP_mul, d, d), last);
    bt_array *root = bti_unary(BTI_OP_rsqrt, bti_binary(BTI_OP_add, variance, bti_scalar_like(eps, x)));
    bt_array *result = bti_binary(BTI_OP_mul, d, root);
    if (scale) result = bti_binary(BTI_OP_mul, result, scale);
    if (bias) result = bti_binary(BTI_OP_add, result, bias);
    BTI_RETURN(bti_cast(result, dtype));
}

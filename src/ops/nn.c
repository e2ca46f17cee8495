/* Activations, softmax and losses. Where a branch is not taken, its gradient must be finite, so that 0 times it is 0. */
#include <math.h>

#include "ops/primitive.h"

/* --- activations ---------------------------------------------------------------------------------------------------- */

/* x where x >= 0 or NaN, else 0; the gradient at 0 is `at_zero`, 0 or 1. */
static bt_array *positive_part(bt_array *x, bool at_zero) {
    bt_array *zero = bti_scalar_like(0, x);
    return bti_where(bti_binary(at_zero ? BTI_OP_lt : BTI_OP_le, x, zero), zero, x);
}

bt_array *bt_relu(bt_array *x) {
    BTI_PUBLIC("bt_relu");
    BTI_NEED(x);
    BTI_RETURN(positive_part(bti_float(x), false));
}

/* log1p(e**-|x|) */
static bt_array *softplus_tail(bt_array *x) {
    return bti_unary(BTI_OP_log1p, bti_unary(BTI_OP_exp, bti_unary(BTI_OP_neg, bti_unary(BTI_OP_abs, x))));
}

/* max(x, 0) + log1p(e**-|x|). At 0 the gradients are 1 and -1/2: one half. */
static bt_array *softplus(bt_array *x) { return bti_binary(BTI_OP_add, positive_part(x, true), softplus_tail(x)); }

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

/* x - max(x) along the axis; no gradient passes through the maximum. Nothing stays nothing. */
static bt_array *below_top(bt_array *x, int axis) {
    if (bti_shape(x)[axis] == 0) return x;
    return bti_binary(BTI_OP_sub, x, bti_stop(bti_reduce_or_start(BTI_OP_max, x, UINT32_C(1) << axis)));
}

static bt_array *sum_of_exp(bt_array *x, int axis) {
    return bti_reduce(BTI_OP_sum, bti_unary(BTI_OP_exp, x), UINT32_C(1) << axis);
}

bt_array *bt_softmax(bt_array *x, int axis) {
    BTI_PUBLIC("bt_softmax");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    x = bti_float(x);
    bt_array *e = bti_unary(BTI_OP_exp, below_top(bti_widen(x), axis));
    bt_array *sum = bti_reduce(BTI_OP_sum, e, UINT32_C(1) << axis);
    BTI_RETURN(bti_narrow(bti_binary(BTI_OP_div, e, sum), bti_dtype(x)));
}

static bt_array *log_softmax(bt_array *x, int axis) {
    x = below_top(x, axis);
    return bti_binary(BTI_OP_sub, x, bti_unary(BTI_OP_log, sum_of_exp(x, axis)));
}

bt_array *bt_log_softmax(bt_array *x, int axis) {
    BTI_PUBLIC("bt_log_softmax");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    x = bti_float(x);
    BTI_RETURN(bti_narrow(log_softmax(bti_widen(x), axis), bti_dtype(x)));
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
    bt_array *given[3] = {x}, *poison;
    int count = 1;
    if (scale) given[count++] = scale;
    if (bias) given[count++] = bias;
    BTI_NEED_ALL(given, count);
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

/* --- losses --------------------------------------------------------------------------------------------------------- */

/* The two as floats of one dtype, small ones in float32. */
static bt_dtype as_floats(bt_array **x, bt_array **y) {
    bool weak;
    bt_dtype dtype = bti_float_of(bti_meet((bt_array *[]){*x, *y}, 2, &weak));
    *x = bti_widen(bti_cast(*x, dtype));
    *y = bti_widen(bti_cast(*y, dtype));
    return dtype;
}

/* The mean of all elements: a scalar. */
static bt_array *mean_of_all(bt_array *x, bt_dtype dtype) {
    uint32_t all = (UINT32_C(1) << bti_rank(x)) - 1;
    return bti_narrow(bti_drop_axes(bti_mean(x, all), all), dtype);
}

bt_array *bt_mse(bt_array *x, bt_array *y) {
    BTI_PUBLIC("bt_mse");
    BTI_NEED(x, y);
    bt_dtype dtype = as_floats(&x, &y);
    bt_array *d = bti_binary(BTI_OP_sub, x, y);
    BTI_RETURN(mean_of_all(bti_binary(BTI_OP_mul, d, d), dtype));
}

bt_array *bt_mae(bt_array *x, bt_array *y) {
    BTI_PUBLIC("bt_mae");
    BTI_NEED(x, y);
    bt_dtype dtype = as_floats(&x, &y);
    BTI_RETURN(mean_of_all(bti_unary(BTI_OP_abs, bti_binary(BTI_OP_sub, x, y)), dtype));
}

/* d = |x - y|, q = min(d, delta): q * (d - q/2) is both forms. */
bt_array *bt_huber(bt_array *x, bt_array *y, double delta) {
    BTI_PUBLIC("bt_huber");
    BTI_NEED(x, y);
    if (!(delta > 0)) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "delta is %g; it must be greater than 0", delta));
    bt_dtype dtype = as_floats(&x, &y);
    bt_array *d = bti_unary(BTI_OP_abs, bti_binary(BTI_OP_sub, x, y));
    bt_array *q = bti_binary(BTI_OP_minimum, d, bti_scalar_like(delta, d));
    bt_array *rest = bti_binary(BTI_OP_sub, d, bti_binary(BTI_OP_mul, q, bti_scalar_like(0.5, d)));
    BTI_RETURN(mean_of_all(bti_binary(BTI_OP_mul, q, rest), dtype));
}

bt_array *bt_binary_cross_entropy(bt_array *logits, bt_array *targets) {
    BTI_PUBLIC("bt_binary_cross_entropy");
    BTI_NEED(logits, targets);
    bt_dtype dtype = as_floats(&logits, &targets);
    /* In this order, as the difference is exact for targets of 0 and 1: what is right by far keeps its small loss. */
    bt_array *wrong = bti_binary(BTI_OP_sub, positive_part(logits, true), bti_binary(BTI_OP_mul, targets, logits));
    BTI_RETURN(mean_of_all(bti_binary(BTI_OP_add, wrong, softplus_tail(logits)), dtype));
}

/* Targets are shares of each class. */
static bt_array *loss_of_shares(bt_array *logits, bt_array *targets) {
    bt_dtype dtype = as_floats(&logits, &targets);
    int last = bti_rank(logits) - 1;
    bt_array *weighed = bti_binary(BTI_OP_mul, targets, log_softmax(logits, last));
    bt_array *rows = bti_drop_axes(bti_reduce(BTI_OP_sum, weighed, UINT32_C(1) << last), UINT32_C(1) << last);
    return mean_of_all(bti_unary(BTI_OP_neg, rows), dtype);
}

/* Targets are numbers of classes; one that is out of range makes the loss NaN. The class's logit is picked by a sum that
 * has one term. */
static bt_array *loss_of_classes(bt_array *logits, bt_array *targets) {
    logits = bti_float(logits);
    bt_dtype dtype = bti_dtype(logits);
    int last = bti_rank(logits) - 1;
    bt_array *classes = bti_cast(bti_new_axis(bti_indices(targets), last), BT_I64);
    bt_array *x = below_top(bti_widen(logits), last);
    bt_array *hit = bti_binary(BTI_OP_eq, classes, bti_iota(bti_shape(x)[last], BT_I64));
    bt_array *picked = bti_reduce(BTI_OP_sum, bti_where(hit, x, bti_scalar_like(0, x)), UINT32_C(1) << last);
    bt_array *rows = bti_binary(BTI_OP_sub, bti_unary(BTI_OP_log, sum_of_exp(x, last)), picked);
    bt_array *size = bti_size_scalar(bti_shape(x)[last], BT_I64);
    bt_array *within = bti_binary(BTI_OP_and, bti_binary(BTI_OP_le, bti_scalar(0, BT_I64), classes),
                                  bti_binary(BTI_OP_lt, classes, size));
    rows = bti_where(within, rows, bti_scalar_like(NAN, x));
    return mean_of_all(bti_drop_axes(rows, UINT32_C(1) << last), dtype);
}

bt_array *bt_cross_entropy(bt_array *logits, bt_array *targets) {
    BTI_PUBLIC("bt_cross_entropy");
    BTI_NEED(logits, targets);
    int rank = bti_rank(logits);
    if (rank > 0 && bti_shapes_may_equal(rank, bti_shape(logits), bti_rank(targets), bti_shape(targets)))
        BTI_RETURN(loss_of_shares(logits, targets));
    if (rank > 0 && bti_dtype_is_int(bti_dtype(targets)) &&
        bti_shapes_may_equal(rank - 1, bti_shape(logits), bti_rank(targets), bti_shape(targets)))
        BTI_RETURN(loss_of_classes(logits, targets));
    BTI_RETURN(
        bti_poisonf(BT_INVALID_ARGUMENT,
                    "logits %s and targets %s %s do not fit: targets must have the shape of logits, or be integers "
                    "without the last axis",
                    bti_shape_string(logits).text, bt_dtype_name(bti_dtype(targets)), bti_shape_string(targets).text));
}

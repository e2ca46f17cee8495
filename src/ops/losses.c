/* Losses. Where a branch is not taken, its gradient must be finite, so that 0 times it is 0. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/sized.h"
#include "ops/primitive.h"

/* --- options -------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_loss_options, name)
static const bti_member loss_members[] = {MEMBER(size),    MEMBER(by_name),          MEMBER(reduction),
                                          MEMBER(weights), MEMBER(positive_weights), MEMBER(label_smoothing),
                                          MEMBER(ignore),  MEMBER(ignored)};
#undef MEMBER
static const bti_sized_type loss_layout =
    BTI_SIZED_TYPE(bt_loss_options, "options", "BT_LOSS(.reduction = BT_REDUCE_SUM)", loss_members, NULL);

/* The options, of which those of classes and of positive targets are taken by losses that have them. */
static bool take_options(const char *name, const bt_loss_options *given, bool classes, bool positive,
                         bt_loss_options *known, bt_array **poison) {
    *known = (bt_loss_options){.size = sizeof *known};
    if (given && bti_options_take(&loss_layout, name, given, known) != BT_OK) {
        *poison = bti_poison(bti_error_last());
        return false;
    }
    if (known->ignored && !known->ignore) {
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "ignored is %lld, but nothing is ignored; set .ignore = true too",
                              (long long)known->ignored);
        return false;
    }
    const char *other = !classes && known->label_smoothing != 0 ? "label_smoothing"
                        : !classes && known->ignore             ? "ignore"
                        : !positive && known->positive_weights  ? "positive_weights"
                                                                : NULL;
    *poison = NULL;
    if (other)
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "the options have %s, which this loss does not know", other);
    else if (known->reduction < BT_REDUCE_MEAN || known->reduction > BT_REDUCE_NONE)
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "reduction %d is none", (int)known->reduction);
    else if (!(known->label_smoothing >= 0 && known->label_smoothing <= 1))
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "label_smoothing is %g; it must be 0 to 1", known->label_smoothing);
    else if (known->weights)
        *poison = bti_poisoned_by(&known->weights, 1);
    if (!*poison && known->positive_weights) *poison = bti_poisoned_by(&known->positive_weights, 1);
    return !*poison;
}

/* --- of elements ---------------------------------------------------------------------------------------------------- */

/* The two as floats of one dtype, small ones in float32. */
static bt_dtype as_floats(bt_array **x, bt_array **y) {
    bool weak;
    bt_dtype dtype = bti_float_of(bti_meet((bt_array *[]){*x, *y}, 2, &weak));
    *x = bti_widen(bti_cast(*x, dtype));
    *y = bti_widen(bti_cast(*y, dtype));
    return dtype;
}

/* [N, 1] beside [N] makes [N, N]: no loss of elements, but of all pairs, which nobody asks a mean or a sum of. */
static bool loss_shapes_fit(const bt_array *x, const bt_array *y, const bt_loss_options *o, bt_array **poison) {
    const bt_array *longer = bti_rank(x) >= bti_rank(y) ? x : y, *other = longer == x ? y : x;
    int more = bti_rank(longer) - bti_rank(other);
    bool repeats_longer = false, repeats_other = more > 0;
    for (int d = more; d < bti_rank(longer); d++) {
        int64_t size = bti_shape(longer)[d], beside = bti_shape(other)[d - more];
        repeats_longer = repeats_longer || (size == 1 && beside != 1);
        repeats_other = repeats_other || (beside == 1 && size != 1);
    }
    *poison = NULL;
    if (repeats_longer && repeats_other && o->reduction != BT_REDUCE_NONE)
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT,
                        "the shapes %s and %s make a loss of all pairs; bt_reshape gives one of them the shape of "
                        "the other, or, where pairs are meant, reduce it by hand (.reduction = BT_REDUCE_NONE)",
                        bti_shape_string(x).text, bti_shape_string(y).text);
    return !*poison;
}

/* An activation that the loss has inside, applied before it. Told once. */
static void warn_of_twice(const bt_array *logits, const char *activation) {
    static atomic_bool told;
    const char *name = bti_node_of(logits)->place.name;
    if (!name || strcmp(name, activation) != 0 || atomic_exchange(&told, true)) return;
    bti_place of = bti_node_of(logits)->place, here = bti_call_place();
    bti_log("%s:%d: %s takes logits and applies %s itself; %s:%d has applied it already, so that gradients are small",
            bti_site_file(here.site), here.site.line, here.name, activation, bti_site_file(of.site), of.site.line);
}

/* The mean or the sum of all elements: a scalar. */
static bt_array *mean_of_all(bt_array *x) {
    uint32_t all = (UINT32_C(1) << bti_rank(x)) - 1;
    return bti_drop_axes(bti_mean(x, all), all);
}
static bt_array *sum_of_all(bt_array *x) {
    uint32_t all = (UINT32_C(1) << bti_rank(x)) - 1;
    return bti_drop_axes(bti_reduce(BTI_OP_sum, x, all), all);
}

/* Weights as x's dtype, and where they are repeated, as its shape. */
static bt_array *weights_for(bt_array *weights, bt_array *x) {
    return bti_expand(bti_cast(weights, bti_dtype(x)), bti_rank(x), bti_shape(x));
}

/* Losses of elements by the options, as a result of a dtype. */
static bt_array *reduced(bt_array *losses, const bt_loss_options *o, bt_dtype dtype) {
    if (bti_array_error(losses)) return losses;
    if (o->weights) losses = bti_binary(BTI_OP_mul, losses, weights_for(o->weights, losses));
    if (bti_array_error(losses)) return losses;
    if (o->reduction == BT_REDUCE_NONE) return bti_narrow(losses, dtype);
    return bti_narrow(o->reduction == BT_REDUCE_SUM ? sum_of_all(losses) : mean_of_all(losses), dtype);
}

static bt_array *squares(bt_array *x, bt_array *y, const bt_loss_options *o) {
    bt_array *poison;
    if (!loss_shapes_fit(x, y, o, &poison)) return poison;
    bt_dtype dtype = as_floats(&x, &y);
    bt_array *d = bti_binary(BTI_OP_sub, x, y);
    return reduced(bti_binary(BTI_OP_mul, d, d), o, dtype);
}

static bt_array *distances(bt_array *x, bt_array *y, const bt_loss_options *o) {
    bt_array *poison;
    if (!loss_shapes_fit(x, y, o, &poison)) return poison;
    bt_dtype dtype = as_floats(&x, &y);
    return reduced(bti_unary(BTI_OP_abs, bti_binary(BTI_OP_sub, x, y)), o, dtype);
}

/* d = |x - y|, q = min(d, delta): q * (d - q/2) is both forms. */
static bt_array *huber(bt_array *x, bt_array *y, double delta, const bt_loss_options *o) {
    if (!(delta > 0)) return bti_poisonf(BT_INVALID_ARGUMENT, "delta is %g; it must be greater than 0", delta);
    bt_array *poison;
    if (!loss_shapes_fit(x, y, o, &poison)) return poison;
    bt_dtype dtype = as_floats(&x, &y);
    bt_array *d = bti_unary(BTI_OP_abs, bti_binary(BTI_OP_sub, x, y));
    bt_array *q = bti_binary(BTI_OP_minimum, d, bti_scalar_like(delta, d));
    bt_array *rest = bti_binary(BTI_OP_sub, d, bti_binary(BTI_OP_mul, q, bti_scalar_like(0.5, d)));
    return reduced(bti_binary(BTI_OP_mul, q, rest), o, dtype);
}

/* Positive targets count p times: (1 - y) * x + (1 + (p - 1) * y) * softplus(-x). */
static bt_array *binary_with_positive(bt_array *logits, bt_array *targets, bt_array *positive) {
    bt_array *one = bti_scalar_like(1, logits);
    bt_array *more = bti_binary(BTI_OP_sub, weights_for(positive, logits), one);
    bt_array *factor = bti_binary(BTI_OP_add, one, bti_binary(BTI_OP_mul, more, targets));
    bt_array *against =
        bti_binary(BTI_OP_add, bti_positive_part(bti_unary(BTI_OP_neg, logits), true), bti_softplus_tail(logits));
    return bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, bti_binary(BTI_OP_sub, one, targets), logits),
                      bti_binary(BTI_OP_mul, factor, against));
}

static bt_array *binary_cross_entropy(bt_array *logits, bt_array *targets, const bt_loss_options *o) {
    bt_array *poison;
    if (!loss_shapes_fit(logits, targets, o, &poison)) return poison;
    warn_of_twice(logits, "bt_sigmoid");
    bt_dtype dtype = as_floats(&logits, &targets);
    if (o->positive_weights) return reduced(binary_with_positive(logits, targets, o->positive_weights), o, dtype);
    /* In this order, as the difference is exact for targets of 0 and 1: what is right by far keeps its small loss. */
    bt_array *wrong = bti_binary(BTI_OP_sub, bti_positive_part(logits, true), bti_binary(BTI_OP_mul, targets, logits));
    return reduced(bti_binary(BTI_OP_add, wrong, bti_softplus_tail(logits)), o, dtype);
}

bt_array *bt_mse(bt_array *x, bt_array *y, const bt_loss_options *options) {
    BTI_PUBLIC("bt_mse");
    BTI_NEED(x, y);
    bt_loss_options o;
    bt_array *poison;
    BTI_RETURN(take_options("bt_mse", options, false, false, &o, &poison) ? squares(x, y, &o) : poison);
}

bt_array *bt_mae(bt_array *x, bt_array *y, const bt_loss_options *options) {
    BTI_PUBLIC("bt_mae");
    BTI_NEED(x, y);
    bt_loss_options o;
    bt_array *poison;
    BTI_RETURN(take_options("bt_mae", options, false, false, &o, &poison) ? distances(x, y, &o) : poison);
}

bt_array *bt_huber(bt_array *x, bt_array *y, double delta, const bt_loss_options *options) {
    BTI_PUBLIC("bt_huber");
    BTI_NEED(x, y);
    bt_loss_options o;
    bt_array *poison;
    BTI_RETURN(take_options("bt_huber", options, false, false, &o, &poison) ? huber(x, y, delta, &o) : poison);
}

bt_array *bt_binary_cross_entropy(bt_array *logits, bt_array *targets, const bt_loss_options *options) {
    BTI_PUBLIC("bt_binary_cross_entropy");
    BTI_NEED(logits, targets);
    bt_loss_options o;
    bt_array *poison;
    if (!take_options("bt_binary_cross_entropy", options, false, true, &o, &poison)) BTI_RETURN(poison);
    BTI_RETURN(binary_cross_entropy(logits, targets, &o));
}

/* --- of classes ----------------------------------------------------------------------------------------------------- */

static bt_array *sum_of_last(bt_array *x) {
    if (bti_array_error(x)) return x;
    uint32_t last = UINT32_C(1) << (bti_rank(x) - 1);
    return bti_drop_axes(bti_reduce(BTI_OP_sum, x, last), last);
}

/* Weights of classes [C] beside logits. */
static bool class_weights_fit(const bt_array *logits, const bt_loss_options *o, bt_array **poison) {
    int64_t classes = bti_shape(logits)[bti_rank(logits) - 1];
    if (!o->weights || (bti_rank(o->weights) == 1 && bti_may_equal(bti_shape(o->weights)[0], classes))) return true;
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "weights have shape %s; for logits %s it must be %s",
                          bti_shape_string(o->weights).text, bti_shape_string(logits).text,
                          bti_sizes_string(1, &classes).text);
    return false;
}

/* Rows by the options; counts: what each weighs in a mean, NULL: they are alike. */
static bt_array *reduced_rows(bt_array *rows, bt_array *counts, const bt_loss_options *o, bt_dtype dtype) {
    if (bti_array_error(rows)) return rows;
    if (o->reduction == BT_REDUCE_NONE) return bti_narrow(rows, dtype);
    if (o->reduction == BT_REDUCE_MEAN && !counts) return bti_narrow(mean_of_all(rows), dtype);
    bt_array *sum = sum_of_all(rows);
    if (o->reduction == BT_REDUCE_MEAN) sum = bti_binary(BTI_OP_div, sum, sum_of_all(counts));
    return bti_narrow(sum, dtype);
}

/* Targets are shares of each class. */
static bt_array *loss_of_shares(bt_array *logits, bt_array *targets, const bt_loss_options *o) {
    if (bti_array_error(targets)) return targets;
    if (o->ignore)
        return bti_poisonf(BT_INVALID_ARGUMENT, "ignore is for targets that are classes; these are %s %s",
                           bt_dtype_name(bti_dtype(targets)), bti_shape_string(targets).text);
    bt_dtype dtype = as_floats(&logits, &targets);
    bt_array *poison = bti_poisoned_by((bt_array *[]){logits, targets}, 2);
    if (poison) return poison;
    int last = bti_rank(logits) - 1;
    double smooth = o->label_smoothing;
    if (smooth > 0) {
        bt_array *each = bti_binary(BTI_OP_div, bti_scalar_like(smooth, targets),
                                    bti_size_scalar(bti_shape(logits)[last], bti_dtype(targets)));
        targets = bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, targets, bti_scalar_like(1 - smooth, targets)), each);
    }
    bt_array *weighed = bti_binary(BTI_OP_mul, targets, bti_log_softmax(logits, last));
    if (o->weights) weighed = bti_binary(BTI_OP_mul, weighed, weights_for(o->weights, weighed));
    return reduced_rows(bti_unary(BTI_OP_neg, sum_of_last(weighed)), NULL, o, dtype);
}

/* Rows with a share of the mean over classes, of logits x below their greatest and the logarithm of their sum. */
static bt_array *smoothed(bt_array *rows, bt_array *x, bt_array *log_sum, int64_t classes, const bt_loss_options *o) {
    bt_array *of_classes = bti_binary(BTI_OP_sub, log_sum, x);
    if (bti_array_error(of_classes)) return of_classes;
    if (o->weights) of_classes = bti_binary(BTI_OP_mul, of_classes, weights_for(o->weights, of_classes));
    bt_array *size = bti_size_scalar(classes, bti_dtype(x));
    bt_array *share = bti_binary(BTI_OP_div, bti_scalar_like(o->label_smoothing, x), size);
    return bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, rows, bti_scalar_like(1 - o->label_smoothing, x)),
                      bti_binary(BTI_OP_mul, sum_of_last(of_classes), share));
}

/* Targets are numbers of classes; one that is out of range makes the loss NaN. The class's logit is picked by a sum that
 * has one term. */
static bt_array *loss_of_classes(bt_array *logits, bt_array *targets, const bt_loss_options *o) {
    if (bti_array_error(targets)) return targets;
    logits = bti_float(logits);
    if (bti_array_error(logits)) return logits;
    bt_dtype dtype = bti_dtype(logits);
    int last = bti_rank(logits) - 1;
    int64_t count = bti_shape(logits)[last];
    uint32_t mask = UINT32_C(1) << last;
    bt_array *classes = bti_cast(bti_new_axis(bti_indices(targets), last), BT_I64);
    bt_array *wide = bti_widen(logits), *x = bti_array_error(wide) ? wide : bti_below_top(wide, last);
    bt_array *zero = bti_scalar_like(0, x), *counts = NULL;
    bt_array *hit = bti_binary(BTI_OP_eq, classes, bti_iota(count, BT_I64));
    bt_array *picked = bti_reduce(BTI_OP_sum, bti_where(hit, x, zero), mask);
    bt_array *log_sum = bti_unary(BTI_OP_log, bti_sum_of_exp(x, last));
    bt_array *size = bti_size_scalar(count, BT_I64);
    bt_array *within = bti_binary(BTI_OP_and, bti_binary(BTI_OP_le, bti_scalar(0, BT_I64), classes),
                                  bti_binary(BTI_OP_lt, classes, size)); /* check_indices.c knows this form */
    bt_array *rows = bti_binary(BTI_OP_sub, log_sum, picked), *left_out = NULL;
    if (o->ignore) {
        left_out = bti_binary(BTI_OP_eq, classes, bti_scalar_bits((uint64_t)o->ignored, BT_I64));
        within = bti_binary(BTI_OP_or, within, left_out);
    }
    if (o->weights) {
        bt_array *shares = bti_where(hit, weights_for(o->weights, x), zero);
        counts = bti_reduce(BTI_OP_sum, shares, mask);
        rows = bti_binary(BTI_OP_mul, rows, counts);
        counts = bti_drop_axes(counts, mask);
    }
    rows = bti_drop_axes(bti_where(within, rows, bti_scalar_like(NAN, x)), mask);
    if (o->label_smoothing > 0) rows = smoothed(rows, x, log_sum, count, o);
    if (o->ignore) {
        left_out = bti_drop_axes(left_out, mask);
        rows = bti_where(left_out, zero, rows);
        counts = bti_where(left_out, zero, counts ? counts : bti_scalar_like(1, x));
    }
    return reduced_rows(rows, counts, o, dtype);
}

/* What is usual and nearly right. */
static const char *mend_of_targets(const bt_array *logits, const bt_array *targets) {
    int rank = bti_rank(logits);
    bool rows = rank > 0 && bti_shapes_may_equal(rank - 1, bti_shape(logits), bti_rank(targets), bti_shape(targets));
    if (rows) return "; bt_cast(targets, BT_I32) makes numbers of classes integers";
    bool column = rank > 0 && bti_rank(targets) == rank && bti_shape(targets)[rank - 1] == 1 &&
                  bti_shapes_may_equal(rank - 1, bti_shape(logits), rank - 1, bti_shape(targets));
    return column ? "; bt_squeeze(targets, -1) takes off the axis of size 1" : "";
}

static bt_array *cross_entropy(bt_array *logits, bt_array *targets, const bt_loss_options *o) {
    int rank = bti_rank(logits);
    bt_array *poison;
    warn_of_twice(logits, "bt_softmax");
    if (rank > 0 && !class_weights_fit(logits, o, &poison)) return poison;
    /* where it is not known that sizes are equal, calls check the reshape */
    if (rank > 0 && bti_shapes_may_equal(rank, bti_shape(logits), bti_rank(targets), bti_shape(targets)))
        return loss_of_shares(logits, bti_reshape(targets, rank, bti_shape(logits)), o);
    if (rank > 0 && bti_dtype_is_int(bti_dtype(targets)) &&
        bti_shapes_may_equal(rank - 1, bti_shape(logits), bti_rank(targets), bti_shape(targets)))
        return loss_of_classes(logits, bti_reshape(targets, rank - 1, bti_shape(logits)), o);
    return bti_poisonf(BT_INVALID_ARGUMENT,
                       "logits %s and targets %s %s do not fit: targets must have the shape of logits, or be integers "
                       "without the last axis%s",
                       bti_shape_string(logits).text, bt_dtype_name(bti_dtype(targets)), bti_shape_string(targets).text,
                       mend_of_targets(logits, targets));
}

bt_array *bt_cross_entropy(bt_array *logits, bt_array *targets, const bt_loss_options *options) {
    BTI_PUBLIC("bt_cross_entropy");
    BTI_NEED(logits, targets);
    bt_loss_options o;
    bt_array *poison;
    if (!take_options("bt_cross_entropy", options, true, false, &o, &poison)) BTI_RETURN(poison);
    BTI_RETURN(cross_entropy(logits, targets, &o));
}

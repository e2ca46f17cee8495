/* Quantiles: places between the elements of sorted lines. */
#include <math.h>

#include "ops/primitive.h"

/* The axes of the mask as one, the last. */
static bt_array *join_axes(bt_array *x, uint32_t mask, int64_t *length) {
    int order[BTI_MAX_RANK], kept = 0, rank = bti_rank(x);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++)
        if (!(mask >> i & 1)) order[kept++] = i;
    for (int i = 0, at = kept; i < rank; i++)
        if (mask >> i & 1) order[at++] = i;
    for (int i = 0; i < kept; i++) shape[i] = bti_shape(x)[order[i]];
    shape[kept] = *length = bti_size_of_axes(x, mask);
    return bti_reshape(bti_permute(x, order), kept + 1, shape);
}

/* Of lines along the last axis, which have elements. A line with a NaN, which is sorted to its end, has NaN. */
static bt_array *of_lines(bt_array *lines, int64_t length, double q) {
    int axis = bti_rank(lines) - 1;
    double place = q * (double)(length - 1), before = floor(place), part = place - before;
    bt_array *sorted = bt_sort(lines, axis);
    if (bti_array_error(sorted)) return sorted;
    bt_array *low = bti_slice_part(sorted, axis, (int64_t)before, 1, 1), *result = low,
             *last = bti_slice_part(sorted, axis, length - 1, 1, 1);
    if (part > 0) {
        bt_array *high = bti_slice_part(sorted, axis, (int64_t)before + 1, 1, 1);
        result = bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, low, bti_scalar_like(1 - part, low)),
                            bti_binary(BTI_OP_mul, high, bti_scalar_like(part, high)));
    }
    return bti_where(bti_binary(BTI_OP_ne, last, last), last, result);
}

static bt_array *quantile(bt_array *x, double q, bt_axes axes, bool keepdims) {
    uint32_t mask;
    bt_array *poison;
    int64_t length, shape[BTI_MAX_RANK];
    int rank = 0;
    if (!(q >= 0 && q <= 1)) return bti_poisonf(BT_INVALID_ARGUMENT, "q is %g; it must be 0 to 1", q);
    if (!bti_axes_mask(x, axes, &mask, &poison)) return poison;
    x = bti_float(x);
    if (bti_array_error(x) || !mask) return x; /* of one element it is that element */
    bt_dtype dtype = bti_dtype(x);
    for (int i = 0; i < bti_rank(x); i++) {
        if (mask >> i & 1 && !keepdims) continue;
        shape[rank++] = mask >> i & 1 ? 1 : bti_shape(x)[i];
    }
    bt_array *lines = join_axes(bti_widen(x), mask, &length);
    if (bti_array_error(lines)) return lines;
    if (bti_size_is_symbolic(length))
        return bti_poisonf(BT_UNIMPLEMENTED, "the axes of shape %s have no known sizes here", bti_shape_string(x).text);
    if (!length)
        return bti_poisonf(BT_INVALID_ARGUMENT, "x of shape %s has no elements along the axes",
                           bti_shape_string(x).text);
    bt_array *result = of_lines(lines, length, q);
    return bti_array_error(result) ? result : bti_narrow(bti_reshape(result, rank, shape), dtype);
}

bt_array *bt_quantile(bt_array *x, double q, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_quantile");
    BTI_NEED(x);
    BTI_RETURN(quantile(x, q, axes, keepdims));
}

bt_array *bt_median(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_median");
    BTI_NEED(x);
    BTI_RETURN(quantile(x, 0.5, axes, keepdims));
}

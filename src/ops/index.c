/* By index: rows, elements along an axis, order. */
#include <math.h>

#include "ops/compose.h"

/* --- rows ----------------------------------------------------------------------------------------------------------- */

bt_array *bt_take(bt_array *x, bt_array *indices, int axis) {
    BTI_PUBLIC("bt_take");
    BTI_NEED(x, indices);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int rank = bti_rank(x), inner = bti_rank(indices), result_rank = rank - 1 + inner;
    if (result_rank > BTI_MAX_RANK)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "indices %s in place of axis %d of %s make %d axes; arrays have at most %d",
                               bti_words_of(indices).text, axis, bti_words_of(x).text, result_rank, BTI_MAX_RANK));
    int64_t shape[BTI_MAX_RANK], count = bti_size_of(indices);
    for (int i = 0; i < result_rank; i++)
        shape[i] = i < axis           ? bti_shape(x)[i]
                   : i < axis + inner ? bti_shape(indices)[i - axis]
                                      : bti_shape(x)[i - inner + 1];
    indices = bti_reshape(bti_indices(indices), 1, &count);
    BTI_RETURN(bti_reshape(bti_take(x, indices, axis), result_rank, shape));
}

/* Updates as x's dtype; integers do not take floats. */
static bt_array *updates_for(bt_array *x, bt_array *updates) {
    bt_dtype to = bti_dtype(x), from = bti_dtype(updates);
    if (bti_dtype_is_float(from) && !bti_dtype_is_float(to))
        return bti_poisonf(BT_INVALID_ARGUMENT, "updates are %s and x is %s; bt_cast one of them first",
                           bt_dtype_name(from), bt_dtype_name(to));
    if (to == BT_BOOL) return bti_poisonf(BT_INVALID_ARGUMENT, "nothing can be added to bool; bt_cast x first");
    return bti_cast(updates, to);
}

bt_array *bt_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_add");
    BTI_NEED(x, indices, updates);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (bti_rank(indices) != 1)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "indices have shape %s; they must have one axis: bt_flatten(indices, 0)",
                               bti_words_of(indices).text));
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(indices)[0] : bti_shape(x)[i];
    updates = bti_expand(updates_for(x, updates), bti_rank(x), shape);
    BTI_RETURN(bti_scatter_add(x, bti_indices(indices), updates, axis));
}

/* --- along an axis -------------------------------------------------------------------------------------------------- */

/* Indices with those from the end counted from the beginning; `*within` tells which are in range, the others are 0. */
static bt_array *normal_indices(bt_array *x, bt_array *indices, int axis, bt_array **within) {
    indices = bti_indices(indices);
    if (bti_array_error(indices)) return indices;
    int64_t size = bti_shape(x)[axis];
    bt_dtype dtype = bti_size_is_symbolic(size) || size > INT32_MAX ? BT_I64 : bti_dtype(indices);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(indices)[i] : bti_shape(x)[i];
    indices = bti_expand(bti_cast(indices, dtype), bti_rank(x), shape); /* sizes that were unknown */
    bt_array *length = bti_size_scalar(size, dtype), *zero = bti_scalar(0, dtype);
    indices = bti_where(bti_binary(BTI_OP_lt, indices, zero), bti_binary(BTI_OP_add, indices, length), indices);
    *within = bti_binary(BTI_OP_and, bti_binary(BTI_OP_le, zero, indices), bti_binary(BTI_OP_lt, indices, length));
    return bti_where(*within, indices, zero);
}

/* Indices along an axis of x fit it, and there is something for them to point at. */
static bool fits_along(const bt_array *x, const bt_array *indices, int axis, bt_array **poison) {
    bool fits = bti_rank(x) == bti_rank(indices);
    for (int i = 0; fits && i < bti_rank(x); i++)
        fits = i == axis || bti_may_equal(bti_shape(x)[i], bti_shape(indices)[i]);
    if (!fits) {
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT, "indices have shape %s and x has %s; they may differ on axis %d only",
                        bti_words_of(indices).text, bti_words_of(x).text, axis);
        return false;
    }
    if (bti_shape(x)[axis] != 0 || bti_size_of(indices) == 0) return true;
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %d of shape %s is empty, so no index is in range", axis,
                          bti_words_of(x).text);
    return false;
}

bt_array *bt_take_along_axis(bt_array *x, bt_array *indices, int axis) {
    BTI_PUBLIC("bt_take_along_axis");
    BTI_NEED(x, indices);
    bt_array *poison, *within = NULL;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (!fits_along(x, indices, axis, &poison)) BTI_RETURN(poison);
    indices = normal_indices(x, indices, axis, &within);
    if (bti_array_error(indices)) BTI_RETURN(indices);
    bt_array *nothing = bti_scalar(bti_dtype_is_float(bti_dtype(x)) ? (double)NAN : 0, bti_dtype(x));
    BTI_RETURN(bti_where(within, bti_gather_axis(x, indices, axis), nothing));
}

bt_array *bt_scatter_add_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_add_along_axis");
    BTI_NEED(x, indices, updates);
    bt_array *poison, *within = NULL;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (!fits_along(x, indices, axis, &poison)) BTI_RETURN(poison);
    indices = normal_indices(x, indices, axis, &within);
    if (bti_array_error(indices)) BTI_RETURN(indices);
    updates = bti_expand(updates_for(x, updates), bti_rank(indices), bti_shape(indices));
    updates = bti_where(within, updates, bti_scalar(0, bti_dtype(x)));
    BTI_RETURN(bti_scatter_axis(x, indices, updates, axis));
}

/* --- order ---------------------------------------------------------------------------------------------------------- */

bt_array *bt_argsort(bt_array *x, int axis) {
    BTI_PUBLIC("bt_argsort");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_argsort(x, axis));
}

bt_array *bt_sort(bt_array *x, int axis) {
    BTI_PUBLIC("bt_sort");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_gather_axis(x, bti_argsort(x, axis), axis));
}

/* The first k of the descending order: the ascending one of the flipped array, flipped, so that of equals the first
 * comes first. */
static bt_array *top_indices(bt_array *x, int64_t k) {
    if (bti_rank(x) == 0) return bti_poisonf(BT_INVALID_ARGUMENT, "x is a scalar; it needs an axis to choose from");
    int axis = bti_rank(x) - 1;
    int64_t size = bti_shape(x)[axis];
    if (k < 0 || (!bti_size_is_symbolic(size) && k > size))
        return bti_poisonf(BT_INVALID_ARGUMENT, "k is %lld; the last axis of shape %s allows 0 to %lld", (long long)k,
                           bti_words_of(x).text, (long long)size);
    bt_array *order = bti_flip_axis(bti_argsort(bti_flip_axis(x, axis), axis), axis);
    bt_array *last = bti_size_scalar(bti_size_add(size, -1), BT_I32);
    return bti_binary(BTI_OP_sub, last, bti_slice_part(order, axis, 0, 1, k));
}

bt_array *bt_top_k(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_top_k");
    BTI_NEED(x);
    bt_array *indices = top_indices(x, k);
    if (bti_array_error(indices)) BTI_RETURN(indices);
    BTI_RETURN(bti_gather_axis(x, indices, bti_rank(x) - 1));
}

bt_array *bt_top_k_indices(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_top_k_indices");
    BTI_NEED(x);
    BTI_RETURN(top_indices(x, k));
}

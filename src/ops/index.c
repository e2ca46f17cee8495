/* By index: rows, elements along an axis. */
#include <math.h>
#include <string.h>

#include "ops/gradient.h"
#include "ops/primitive.h"

/* --- rows ----------------------------------------------------------------------------------------------------------- */

bt_array *bti_indices(bt_array *indices) {
    if (bti_array_error(indices)) return bti_poisoned_by(&indices, 1);
    bt_dtype dtype = bti_dtype(indices);
    if (dtype == BT_BOOL)
        return bti_poisonf(
            BT_INVALID_ARGUMENT,
            "indices are bool, and must be the integers of places; by a mask choose with bt_where(mask, x, y)");
    if (!bti_dtype_is_int(dtype))
        return bti_poisonf(BT_INVALID_ARGUMENT, "indices are %s; they must be integers: bt_cast(indices, BT_I32)",
                           bt_dtype_name(dtype));
    if (dtype == BT_U64) /* what int64 cannot hold is out of range anyway, but must not turn negative */
        indices = bti_binary(BTI_OP_minimum, indices, bti_scalar_bits(INT64_MAX, BT_U64));
    bool wide = dtype == BT_I64 || dtype == BT_U64 || dtype == BT_U32;
    return bti_cast(indices, wide ? BT_I64 : BT_I32);
}

static bt_array *check_indices(bt_array *indices) {
    bt_dtype dtype = (bt_dtype)bti_node_of(indices)->dtype;
    if (dtype == BT_I32 || dtype == BT_I64) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT, "indices must be int32 or int64, not %s", bt_dtype_name(dtype));
}

bt_array *bti_take(bt_array *x, bt_array *indices, int axis) {
    bt_array *inputs[2] = {x, indices};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (!poison) poison = check_indices(indices);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t shape[BTI_MAX_RANK], attr = axis;
    memcpy(shape, node->shape, sizeof shape);
    shape[axis] = bti_node_of(indices)->shape[0];
    return bti_record_checked(BTI_OP_take, node->rank, shape, inputs, 2, &attr, 1);
}

static bt_array *record_scatter(bti_op op, bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    bt_array *inputs[3] = {x, indices, updates};
    bt_array *poison = bti_poisoned_by(inputs, 3);
    if (!poison) poison = check_indices(indices);
    if (poison) return poison;
    int64_t attr = axis;
    inputs[2] = bti_cast(updates, bti_dtype(x));
    return bti_record_checked(op, bti_rank(x), bti_shape(x), inputs, 3, &attr, 1);
}

bt_array *bti_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    return record_scatter(BTI_OP_scatter_add, x, indices, updates, axis);
}

bt_array *bt_take(bt_array *x, bt_array *indices, int axis) {
    BTI_PUBLIC("bt_take");
    BTI_NEED(x, indices);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int rank = bti_rank(x), inner = bti_rank(indices), result_rank = rank - 1 + inner;
    if (result_rank > BTI_MAX_RANK)
        BTI_RETURN(bti_poisonf(
            BT_INVALID_ARGUMENT, "indices %s in place of axis %d of %s make %d axes; arrays have at most %d",
            bti_shape_string(indices).text, axis, bti_shape_string(x).text, result_rank, BTI_MAX_RANK));
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
    return bti_cast(updates, to);
}
static bt_array *additions_for(bt_array *x, bt_array *updates) {
    if (bti_dtype(x) == BT_BOOL)
        return bti_poisonf(BT_INVALID_ARGUMENT, "nothing can be added to bool; bt_cast x first");
    return updates_for(x, updates);
}

bt_array *bt_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_add");
    BTI_NEED(x, indices, updates);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (bti_rank(indices) != 1)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "indices have shape %s; they must have one axis: bt_flatten(indices, 0)",
                               bti_shape_string(indices).text));
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(indices)[0] : bti_shape(x)[i];
    updates = bti_expand(additions_for(x, updates), bti_rank(x), shape);
    BTI_RETURN(bti_scatter_add(x, bti_indices(indices), updates, axis));
}

/* What was dropped gets none. */
void bti_gradient_scatter_add(bti_backward *b) {
    int axis = (int)b->attr[0];
    if (b->wanted[0]) b->gx[0] = b->g;
    if (!b->wanted[2]) return;
    bt_array *at = b->x[1], *size = bti_size_scalar(bt_shape_of(b->x[0]).size[axis], BT_I64);
    bt_array *within = bt_logical_and(bt_le(bt_neg(size), at), bt_lt(at, size));
    bt_shape line = {.rank = bt_rank(b->g)};
    for (int i = 0; i < line.rank; i++) line.size[i] = i == axis ? bt_shape_of(at).size[0] : 1;
    b->gx[2] = bt_where(bt_reshape_to(within, line), bt_take(b->g, at, axis), bt_num(0));
}

/* --- slices that begin where an array says ----------------------------------------------------------------------------- */

bt_array *bti_update_slice(bt_array *x, bt_array *start, bt_array *update, int axis) {
    return record_scatter(BTI_OP_update_slice, x, start, update, axis);
}

/* A start [1] counted from the beginning, and moved so that `count` elements along the axis fit: int64. */
static bt_array *start_within(bt_array *x, int axis, bt_array *start, int64_t count) {
    int64_t size = bti_shape(x)[axis];
    bt_array *zero = bti_scalar(0, BT_I64), *length = bti_size_scalar(size, BT_I64);
    bt_array *last = bti_size_scalar(bti_size_add(size, bti_size_mul(count, -1)), BT_I64);
    start = bti_cast(bti_indices(start), BT_I64);
    if (bti_array_error(start)) return start;
    start = bti_where(bti_binary(BTI_OP_lt, start, zero), bti_binary(BTI_OP_add, start, length), start);
    return bti_binary(BTI_OP_maximum, bti_binary(BTI_OP_minimum, start, last), zero);
}

static bt_array *slice_from(bt_array *x, int axis, bt_array *start, int64_t count) {
    start = start_within(x, axis, start, count);
    return bti_take(x, bti_binary(BTI_OP_add, bti_iota(count, BT_I64), start), axis);
}

/* What one axis of a slice is asked to be: its size fits in x's. */
static bt_array *check_count(bt_array *x, int axis, int64_t count) {
    int64_t size = bti_shape(x)[axis];
    if (count >= 0 && (bti_size_is_symbolic(size) || count <= size)) return NULL;
    if (bti_size_is_symbolic(count)) return NULL; /* the call checks it */
    return bti_poisonf(BT_INVALID_ARGUMENT, "%lld elements along axis %d of shape %s are wanted", (long long)count,
                       axis, bti_shape_string(x).text);
}

static bt_array *check_start(bt_array *start, int count) {
    int64_t size = bti_size_of(start);
    if (bti_rank(start) <= 1 && (size == count || bti_size_is_symbolic(size))) return bti_indices(start);
    return bti_poisonf(BT_INVALID_ARGUMENT, "the start has shape %s; it must have %d integer%s",
                       bti_shape_string(start).text, count, count == 1 ? "" : "s, one for each axis");
}

static bt_array *start_of_axis(bt_array *start, int axis) {
    return bti_reshape(bti_rank(start) ? bti_slice_part(start, 0, axis, 1, 1) : start, 1, (int64_t[]){1});
}

bt_array *bt_dynamic_slice(bt_array *x, bt_array *start, bt_shape size) {
    BTI_PUBLIC("bt_dynamic_slice");
    BTI_NEED(x, start);
    int rank = bti_rank(x);
    if (size.rank != rank)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the size has %d axes; x has shape %s", size.rank,
                               bti_shape_string(x).text));
    start = check_start(start, rank);
    bt_array *poison = bti_poisoned_by(&start, 1);
    for (int i = 0; i < rank && !poison; i++) poison = check_count(x, i, size.size[i]);
    for (int i = 0; i < rank && !poison; i++)
        if (size.size[i] != bti_shape(x)[i]) x = slice_from(x, i, start_of_axis(start, i), size.size[i]);
    BTI_RETURN(poison ? poison : x);
}

bt_array *bt_dynamic_slice_axis(bt_array *x, bt_array *start, int64_t size, int axis) {
    BTI_PUBLIC("bt_dynamic_slice_axis");
    BTI_NEED(x, start);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    start = check_start(start, 1);
    if ((poison = bti_poisoned_by(&start, 1)) || (poison = check_count(x, axis, size))) BTI_RETURN(poison);
    BTI_RETURN(size == bti_shape(x)[axis] ? x : slice_from(x, axis, start_of_axis(start, 0), size));
}

/* x with the axes from `axis` on updated: only the part that the update overlaps is made along the first of them. */
static bt_array *update_axes(bt_array *x, bt_array *update, bt_array *start, int axis) {
    while (axis < bti_rank(x) && bti_shape(x)[axis] == bti_shape(update)[axis]) axis++;
    if (axis == bti_rank(x)) return update;
    int64_t count = bti_shape(update)[axis];
    bt_array *at = start_within(x, axis, start_of_axis(start, axis), count), *poison = bti_poisoned_by(&at, 1);
    if (poison) return poison;
    bool last = true;
    for (int i = axis + 1; i < bti_rank(x); i++) last = last && bti_shape(x)[i] == bti_shape(update)[i];
    if (!last) update = update_axes(slice_from(x, axis, at, count), update, start, axis + 1);
    return bti_update_slice(x, at, update, axis);
}

static bt_array *check_rank(bt_array *x, bt_array *update) {
    if (bti_rank(update) == bti_rank(x)) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT, "the update has shape %s and x has shape %s; they must have as many axes",
                       bti_shape_string(update).text, bti_shape_string(x).text);
}

bt_array *bt_update_slice(bt_array *x, bt_array *update, bt_array *start) {
    BTI_PUBLIC("bt_update_slice");
    BTI_NEED(x, update, start);
    int rank = bti_rank(x);
    bt_array *poison;
    if ((poison = check_rank(x, update))) BTI_RETURN(poison);
    start = check_start(start, rank);
    update = updates_for(x, update);
    poison = bti_poisoned_by((bt_array *[]){start, update}, 2);
    for (int i = 0; i < rank && !poison; i++) poison = check_count(x, i, bti_shape(update)[i]);
    BTI_RETURN(poison ? poison : update_axes(x, update, start, 0));
}

bt_array *bt_update_slice_axis(bt_array *x, bt_array *update, bt_array *start, int axis) {
    BTI_PUBLIC("bt_update_slice_axis");
    BTI_NEED(x, update, start);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison) || (poison = check_rank(x, update))) BTI_RETURN(poison);
    start = check_start(start, 1);
    update = updates_for(x, update);
    if ((poison = bti_poisoned_by((bt_array *[]){start, update}, 2))) BTI_RETURN(poison);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(update)[i] : bti_shape(x)[i];
    update = bti_expand(update, bti_rank(x), shape);
    if ((poison = bti_poisoned_by(&update, 1)) || (poison = check_count(x, axis, shape[axis]))) BTI_RETURN(poison);
    if (shape[axis] == bti_shape(x)[axis]) BTI_RETURN(update);
    BTI_RETURN(bti_update_slice(x, start_within(x, axis, start_of_axis(start, 0), shape[axis]), update, axis));
}

void bti_gradient_update_slice(bti_backward *b) {
    int axis = (int)b->attr[0];
    bt_array *start = b->x[1], *update = b->x[2];
    if (b->wanted[0]) b->gx[0] = bt_update_slice_axis(b->g, bt_zeros_like(update), start, axis);
    if (b->wanted[2]) b->gx[2] = bt_dynamic_slice_axis(b->g, start, bt_shape_of(update).size[axis], axis);
}

/* --- along an axis -------------------------------------------------------------------------------------------------- */

bt_array *bti_gather_axis(bt_array *x, bt_array *indices, int axis) {
    bt_array *inputs[2] = {x, indices};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (!poison) poison = check_indices(indices);
    if (poison) return poison;
    int64_t attr = axis;
    return bti_record_checked(BTI_OP_gather_axis, bti_rank(x), bti_shape(indices), inputs, 2, &attr, 1);
}

bt_array *bti_scatter_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    return record_scatter(BTI_OP_scatter_axis, x, indices, updates, axis);
}

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
                        bti_shape_string(indices).text, bti_shape_string(x).text, axis);
        return false;
    }
    if (bti_shape(x)[axis] != 0 || bti_size_of(indices) == 0) return true;
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %d of shape %s is empty, so no index is in range", axis,
                          bti_shape_string(x).text);
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
    updates = bti_expand(additions_for(x, updates), bti_rank(indices), bti_shape(indices));
    updates = bti_where(within, updates, bti_scalar(0, bti_dtype(x)));
    BTI_RETURN(bti_scatter_axis(x, indices, updates, axis));
}

void bti_gradient_gather_axis(bti_backward *b) {
    b->gx[0] = bt_scatter_add_along_axis(bt_zeros_like(b->x[0]), b->x[1], b->g, (int)b->attr[0]);
}

void bti_gradient_scatter_axis(bti_backward *b) {
    if (b->wanted[0]) b->gx[0] = b->g;
    if (b->wanted[2]) b->gx[2] = bt_take_along_axis(b->g, b->x[1], (int)b->attr[0]);
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

bt_array *bt_one_hot(bt_array *x, int64_t depth, bt_dtype dtype) {
    BTI_PUBLIC("bt_one_hot");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    if (depth < 0 && !bti_size_is_symbolic(depth))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "depth %lld is negative", (long long)depth));
    x = bti_indices(x);
    if (bti_array_error(x)) BTI_RETURN(x);
    bool wide = bti_dtype(x) == BT_I64 || bti_size_is_symbolic(depth) || depth > INT32_MAX;
    bt_dtype index = wide ? BT_I64 : BT_I32;
    bt_array *classes = bti_iota(depth, index);
    BTI_RETURN(bti_cast(bti_binary(BTI_OP_eq, bti_new_axis(bti_cast(x, index), bti_rank(x)), classes), dtype));
}

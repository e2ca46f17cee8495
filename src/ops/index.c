/* By index: rows, elements along an axis. */
#include <math.h>
#include <string.h>

#include "ops/application.h"
#include "ops/complex.h"

/* --- rows ----------------------------------------------------------------------------------------------------------- */

bt_array *bti_indices(bt_array *indices) {
    if (bti_array_error(indices)) return bti_poisoned_by(&indices, 1);
    bt_dtype dtype = bti_dtype(indices);
    if (dtype == BT_BOOL)
        return bti_poisonf(BT_INVALID_ARGUMENT, "indices are bool, and must be the integers of places; by a mask "
                                                "choose with bt_where(mask, x, y) or bt_boolean_mask");
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

/* An operation by index, of complex numbers part by part, where it computes with elements or they have 16 bytes: no kernel by index moves those. */
typedef struct by_index {
    bti_op op;
    int axis, count;
} by_index;

static bt_array *record_by_index(bt_array *const *inputs, const void *context) {
    const by_index *of = context;
    return bti_record_by_rules(of->op, inputs, of->count, &(bti_attr){.axis = {of->axis}});
}

static bt_array *record_maybe_by_parts(bti_op op, bt_array *const *inputs, int count, int axis) {
    const by_index of = {op, axis, count};
    bool whole = bti_dtype(inputs[0]) != BT_C128 && bti_op_takes_complex(op);
    return whole || !bti_is_complex(inputs[0]) || op == BTI_OP_scatter_max || op == BTI_OP_scatter_min
               ? record_by_index(inputs, &of)
               : bti_by_parts(inputs, count, record_by_index, &of);
}

bt_array *bti_take(bt_array *x, bt_array *indices, int axis) {
    bt_array *inputs[2] = {x, indices};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (!poison) poison = check_indices(indices);
    return poison ? poison : record_maybe_by_parts(BTI_OP_take, inputs, 2, axis);
}

bt_array *bti_record_scatter(bti_op op, bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    bt_array *inputs[3] = {x, indices, updates};
    bt_array *poison = bti_poisoned_by(inputs, 3);
    if (!poison) poison = check_indices(indices);
    if (poison) return poison;
    inputs[2] = bti_cast(updates, bti_dtype(x));
    if (bti_array_error(inputs[2])) return inputs[2];
    return record_maybe_by_parts(op, inputs, 3, axis);
}

bt_array *bti_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    return bti_record_scatter(BTI_OP_scatter_add, x, indices, updates, axis);
}

bt_array *bti_update_slice(bt_array *x, bt_array *start, bt_array *update, int axis) {
    return bti_record_scatter(BTI_OP_update_slice, x, start, update, axis);
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

/* --- along an axis -------------------------------------------------------------------------------------------------- */

bt_array *bti_gather_axis(bt_array *x, bt_array *indices, int axis) {
    bt_array *inputs[2] = {x, indices};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (!poison) poison = check_indices(indices);
    return poison ? poison : record_maybe_by_parts(BTI_OP_gather_axis, inputs, 2, axis);
}

bt_array *bti_scatter_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    return bti_record_scatter(BTI_OP_scatter_axis, x, indices, updates, axis);
}

bt_array *bti_indices_along(bt_array *x, bt_array *indices, int axis) {
    indices = bti_indices(indices);
    if (bti_array_error(indices)) return indices;
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(indices)[i] : bti_shape(x)[i];
    return bti_expand(indices, bti_rank(x), shape);
}

bt_array *bti_normal_indices(bt_array *x, bt_array *indices, int axis, bt_array **within) {
    indices = bti_indices_along(x, indices, axis);
    if (bti_array_error(indices)) return indices;
    int64_t size = bti_shape(x)[axis];
    bt_dtype dtype = bti_size_is_symbolic(size) || size > INT32_MAX ? BT_I64 : bti_dtype(indices);
    indices = bti_cast(indices, dtype);
    bt_array *length = bti_size_scalar(size, dtype), *zero = bti_scalar(0, dtype);
    indices = bti_where(bti_binary(BTI_OP_lt, indices, zero), bti_binary(BTI_OP_add, indices, length), indices);
    *within = bti_binary(BTI_OP_and, bti_binary(BTI_OP_le, zero, indices), bti_binary(BTI_OP_lt, indices, length));
    return bti_where(*within, indices, zero);
}

bool bti_fits_along(const bt_array *x, const bt_array *indices, int axis, bt_array **poison) {
    bool fits = bti_rank(x) == bti_rank(indices);
    for (int i = 0; fits && i < bti_rank(x); i++)
        fits = i == axis || bti_may_equal(bti_shape(x)[i], bti_shape(indices)[i]);
    if (!fits) {
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT, "indices have shape %s and x has %s; they may differ on axis %d only",
                        bti_shape_string(indices).text, bti_shape_string(x).text, axis);
        return false;
    }
    return true;
}

bt_array *bt_take_along_axis(bt_array *x, bt_array *indices, int axis) {
    BTI_PUBLIC("bt_take_along_axis");
    BTI_NEED(x, indices);
    bt_array *poison, *within = NULL;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (!bti_fits_along(x, indices, axis, &poison)) BTI_RETURN(poison);
    if (bti_shape(x)[axis] == 0 && bti_size_of(indices) != 0)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "axis %d of shape %s is empty, so no index is in range", axis,
                               bti_shape_string(x).text));
    indices = bti_normal_indices(x, indices, axis, &within);
    if (bti_array_error(indices)) BTI_RETURN(indices);
    bt_array *nothing = bti_scalar(bti_dtype_has_gradient(bti_dtype(x)) ? (double)NAN : 0, bti_dtype(x));
    BTI_RETURN(bti_where(within, bti_gather_axis(x, indices, axis), nothing));
}

void bti_gradient_gather_axis(bti_backward *b) {
    int axis = b->attr->axis.axis;
    bt_array *at = bti_indices_along(b->x[0], b->x[1], axis);
    if (!bti_array_error(at))
        at = bti_scatter_axis(bt_zeros_like(b->x[0]), at, bti_expand(b->g, bti_rank(at), bti_shape(at)), axis);
    b->gx[0] = at;
}

/* --- batches -------------------------------------------------------------------------------------------------------- */

/* [B, S, ...] -> [B * S, ...] */
static bt_array *join_first_axes(bt_array *x) {
    if (bti_array_error(x)) return x;
    int64_t shape[BTI_MAX_RANK];
    int rank = bti_rank(x) - 1;
    memcpy(shape, bti_shape(x) + 1, (size_t)rank * sizeof *shape);
    shape[0] = bti_size_mul(bti_shape(x)[0], shape[0]);
    return bti_reshape(x, rank, shape);
}

/* Indices [B, I] into B arrays of `size` rows each, as indices [B * I] into all B * size rows; those out of range stay so. */
static bt_array *indices_into_all(bt_array *indices, int64_t size) {
    int64_t count = bti_shape(indices)[0];
    bt_array *length = bti_size_scalar(size, BT_I64), *zero = bti_scalar(0, BT_I64);
    indices = bti_cast(indices, BT_I64);
    indices = bti_where(bti_binary(BTI_OP_lt, indices, zero), bti_binary(BTI_OP_add, indices, length), indices);
    bt_array *within =
        bti_binary(BTI_OP_and, bti_binary(BTI_OP_le, zero, indices), bti_binary(BTI_OP_lt, indices, length));
    bt_array *first = bti_new_axis(bti_binary(BTI_OP_mul, bti_iota(count, BT_I64), length), 1);
    bt_array *beyond = bti_size_scalar(bti_size_mul(count, size), BT_I64);
    return join_first_axes(bti_where(within, bti_binary(BTI_OP_add, first, indices), beyond));
}

/* Indices [B, I] as indices along the axis of an array of the shape [B, ..., I, ...]. */
static bt_array *indices_along(bt_array *indices, int rank, const int64_t *shape, int axis) {
    int64_t aligned[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) aligned[i] = 1;
    aligned[0] = bti_shape(indices)[0];
    aligned[axis] = bti_shape(indices)[1];
    return bti_expand(bti_reshape(indices, rank, aligned), rank, shape);
}

/* The rows that each one takes from the one x: [..., B * I, ...] as [B, ..., I, ...]. */
static bt_array *take_for_each(const bti_application *a, int axis) {
    int rank = a->node->rank;
    int64_t shape[BTI_MAX_RANK];
    if (rank == BTI_MAX_RANK) return bti_batched(a, 0); /* says that there is no room */
    for (int i = 0; i <= rank; i++)
        shape[i] = i < axis ? a->node->shape[i] : i == axis ? a->size : a->node->shape[i - 1];
    bt_array *rows = bti_take(a->x[0], join_first_axes(a->image[1]), axis);
    return bti_move_axis(bti_reshape(rows, rank + 1, shape), axis, 0);
}

void bti_batch_take(bti_application *a) {
    int axis = a->node->attr->axis.axis, rank = a->node->rank + 1;
    bt_array *x = a->image[0], *indices = a->image[1];
    if (!indices) {
        a->made[0] = bti_take(x, a->x[1], axis + 1);
    } else if (!x) {
        a->made[0] = take_for_each(a, axis);
    } else {
        int64_t shape[BTI_MAX_RANK], size = bti_shape(x)[axis + 1];
        for (int i = 0; i < rank; i++) shape[i] = i ? a->node->shape[i - 1] : a->size;
        a->made[0] = axis == 0
                         ? bti_reshape(bti_take(join_first_axes(x), indices_into_all(indices, size), 0), rank, shape)
                         : bt_take_along_axis(x, indices_along(indices, rank, shape, axis + 1), axis + 1);
    }
}

void bti_batch_scatter_add(bti_application *a) {
    int axis = a->node->attr->axis.axis, rank = a->node->rank + 1;
    bt_array *x = bti_batched(a, 0), *indices = a->image[1], *updates = bti_batched(a, 2);
    if (bti_poisoned_by((bt_array *[]){x, updates}, 2) || !indices) {
        a->made[0] = bti_scatter_add(x, a->x[1], updates, axis + 1);
    } else if (axis == 0) {
        bt_array *rows = indices_into_all(indices, bti_shape(x)[1]);
        a->made[0] = bti_scatter_add(join_first_axes(x), rows, join_first_axes(updates), 0);
        a->made[0] = bti_reshape(a->made[0], rank, bti_shape(x));
    } else {
        indices = indices_along(indices, rank, bti_shape(updates), axis + 1);
        a->made[0] = bti_scatter_axis(x, indices, updates, axis + 1);
    }
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

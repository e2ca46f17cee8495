/* Elements by a mask: results whose sizes depend on values, which are read for that. */
#include "array/eval.h"
#include "ops/primitive.h"

/* How many elements of a mask are true. False, and *poison set: its values are not known here, or the computation failed. */
static bool count_true(bt_array *mask, int64_t *count, bt_array **poison) {
    bt_array *total = bti_reduce(BTI_OP_sum, bti_cast(mask, BT_I64), (UINT32_C(1) << bti_rank(mask)) - 1);
    *poison = bti_poisoned_by(&total, 1);
    if (*poison) return false;
    if (bti_node_of(total)->symbolic) {
        *poison = bti_poisonf(BT_FAILED_PRECONDITION,
                              "the size of the result depends on values, which the inputs of a function, a loop or a "
                              "branch do not have; keep the size with bt_where(mask, x, y)");
        return false;
    }
    if (bti_read_node(bti_node_of(total), count) == BT_OK) return true;
    *poison = bti_poison(bti_error_last());
    return false;
}

/* The places of `count` true elements of a mask [size]: each goes to as many places as there are true ones before it. */
static bt_array *places_of(bt_array *mask, int64_t size, int64_t count) {
    bt_dtype dtype = size > INT32_MAX ? BT_I64 : BT_I32;
    bt_array *before = bti_binary(BTI_OP_sub, bti_cumsum(bti_cast(mask, dtype), 0, false), bti_scalar(1, dtype));
    bt_array *to = bti_where(mask, before, bti_size_scalar(count, dtype)); /* out of range: dropped */
    bt_array *none = bti_expand(bti_scalar(0, dtype), 1, &count);
    return bti_record_scatter(BTI_OP_scatter_set, none, to, bti_iota(size, dtype), 0);
}

bt_array *bt_boolean_mask(bt_array *x, bt_array *mask, int axis) {
    BTI_PUBLIC_WAITING("bt_boolean_mask");
    BTI_NEED(x, mask);
    bt_array *poison;
    int64_t shape[BTI_MAX_RANK], count, size = bti_size_of(mask);
    int covered = bti_rank(mask), rank = bti_rank(x) - covered + 1;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (bti_dtype(mask) != BT_BOOL)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "mask is %s and must be bool: bt_ne(mask, bt_num(0))",
                               bt_dtype_name(bti_dtype(mask))));
    bool fits = covered > 0 && axis + covered <= bti_rank(x);
    for (int i = 0; fits && i < covered; i++) fits = bti_may_equal(bti_shape(x)[axis + i], bti_shape(mask)[i]);
    if (!fits)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "mask has shape %s, which must be that of axes of x from axis %d on; "
                               "x has shape %s",
                               bti_shape_string(mask).text, axis, bti_shape_string(x).text));
    if (!count_true(mask, &count, &poison)) BTI_RETURN(poison);
    for (int i = 0; i < rank; i++)
        shape[i] = i < axis ? bti_shape(x)[i] : i == axis ? size : bti_shape(x)[i + covered - 1];
    x = bti_reshape(x, rank, shape);
    BTI_RETURN(bti_take(x, places_of(bti_reshape(mask, 1, &size), size, count), axis));
}

bt_array *bt_nonzero(bt_array *x) {
    BTI_PUBLIC_WAITING("bt_nonzero");
    BTI_NEED(x);
    bt_array *poison, *of_axes[BTI_MAX_RANK];
    int64_t count, size = bti_size_of(x);
    int rank = bti_rank(x);
    if (rank == 0) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "x is a scalar, which has no places"));
    bt_array *mask = bti_dtype(x) == BT_BOOL ? x : bti_binary(BTI_OP_ne, x, bti_scalar_like(0, x));
    if (!count_true(mask, &count, &poison)) BTI_RETURN(poison);
    bt_array *place = bti_cast(places_of(bti_reshape(mask, 1, &size), size, count), BT_I64);
    for (int axis = rank - 1; axis >= 0; axis--) {
        bt_array *length = bti_size_scalar(bti_shape(x)[axis], BT_I64);
        of_axes[axis] = bti_new_axis(axis ? bti_binary(BTI_OP_mod, place, length) : place, 1);
        if (axis) place = bti_binary(BTI_OP_floor_div, place, length);
    }
    BTI_RETURN(bti_concat(of_axes, rank, 1));
}

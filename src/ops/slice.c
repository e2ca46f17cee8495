/* Shapes: the same elements elsewhere. */
#include "ops/compose.h"
#include "base/alloc.h"

/* --- other axes ----------------------------------------------------------------------------------------------------- */

/* The size that stands for -1: what the others leave of x's elements. */
static bool infer_size(const bt_array *x, bt_shape *shape, int unknown, bt_array **poison) {
    int64_t total = bti_size_of(x), others = 1;
    for (int i = 0; i < shape->rank; i++)
        if (i != unknown) others = bti_size_mul(others, shape->size[i]);
    bool known = !bti_size_is_symbolic(total) && !bti_size_is_symbolic(others);
    if (others != 0 && (!known || total % others == 0)) {
        shape->size[unknown] = bti_size_exact_div(total, others);
        return true;
    }
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "shape %s cannot become %s: no size for -1 fits", bti_words_of(x).text,
                          bti_words_shape(shape->rank, shape->size).text);
    return false;
}

bt_array *bt_reshape_to(bt_array *x, bt_shape shape) {
    BTI_PUBLIC("bt_reshape");
    BTI_NEED(x);
    bt_array *poison = bti_check_shape(bti_dtype(x), shape, true);
    if (poison) BTI_RETURN(poison);
    int unknown = -1;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.size[i] != -1) continue;
        if (unknown >= 0)
            BTI_RETURN(
                bti_poisonf(BT_INVALID_ARGUMENT, "axes %d and %d are both -1; only one can be worked out", unknown, i));
        unknown = i;
    }
    if (unknown >= 0 && !infer_size(x, &shape, unknown, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_reshape(x, shape.rank, shape.size));
}

bt_array *bt_flatten(bt_array *x, int axis) {
    BTI_PUBLIC("bt_flatten");
    BTI_NEED(x);
    bt_array *poison;
    if (bti_rank(x) == 0 && (axis == 0 || axis == -1)) BTI_RETURN(bti_new_axis(x, 0));
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < axis; i++) shape[i] = bti_shape(x)[i];
    shape[axis] = bti_size_of_axes(x, UINT32_MAX << axis);
    BTI_RETURN(bti_reshape(x, axis + 1, shape));
}

bt_array *bt_permute_axes(bt_array *x, bt_axes axes) {
    BTI_PUBLIC("bt_permute");
    BTI_NEED(x);
    if (axes.count != bti_rank(x))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "name each of the %d axes of shape %s once, in the new order",
                               bti_rank(x), bti_words_of(x).text));
    uint32_t mask; /* refuses doubled ones */
    bt_array *poison;
    if (!bti_axes_mask(x, axes, &mask, &poison)) BTI_RETURN(poison);
    int order[BTI_MAX_RANK];
    for (int i = 0; i < axes.count; i++) (void)bti_axis(x, axes.axis[i], &order[i], &poison);
    BTI_RETURN(bti_permute(x, order));
}

bt_array *bti_transpose(bt_array *x) {
    int rank = bti_rank(x), order[BTI_MAX_RANK];
    if (rank < 2) return x;
    for (int i = 0; i < rank; i++) order[i] = i;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    return bti_permute(x, order);
}

bt_array *bt_transpose(bt_array *x) {
    BTI_PUBLIC("bt_transpose");
    BTI_NEED(x);
    BTI_RETURN(bti_transpose(x));
}

/* The place of a new axis: 0 to rank; negative counts from the end of the result. */
static bool new_axis_place(const bt_array *x, int axis, int *place, bt_array **poison) {
    int rank = bti_rank(x);
    if (axis >= -rank - 1 && axis <= rank) {
        *place = axis < 0 ? axis + rank + 1 : axis;
        return true;
    }
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %d; shape %s has room for a new axis at %d to %d", axis,
                          bti_words_of(x).text, -rank - 1, rank);
    return false;
}

bt_array *bt_expand_dims(bt_array *x, int axis) {
    BTI_PUBLIC("bt_expand_dims");
    BTI_NEED(x);
    bt_array *poison;
    if (!new_axis_place(x, axis, &axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_new_axis(x, axis));
}

bt_array *bt_squeeze(bt_array *x, int axis) {
    BTI_PUBLIC("bt_squeeze");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (bti_shape(x)[axis] != 1)
        BTI_RETURN(
            bti_poisonf(BT_INVALID_ARGUMENT, "axis %d of shape %s is not of size 1", axis, bti_words_of(x).text));
    BTI_RETURN(bti_drop_axes(x, UINT32_C(1) << axis));
}

bt_array *bt_broadcast_shape(bt_array *x, bt_shape shape) {
    BTI_PUBLIC("bt_broadcast_to");
    BTI_NEED(x);
    bt_array *poison = bti_check_shape(bti_dtype(x), shape, false);
    if (poison) BTI_RETURN(poison);
    BTI_RETURN(bti_expand(x, shape.rank, shape.size));
}

/* --- slices --------------------------------------------------------------------------------------------------------- */

typedef struct range {
    int64_t start, step, count;
} range;

/* Python's slice of an axis of a known size; step is not 0. */
static range cut(int64_t size, int64_t start, int64_t stop, int64_t step) {
    if (step == INT64_MIN) step++; /* so that it can be negated */
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    if (start < 0) start += size;
    if (stop < 0) stop += size;
    start = start < low ? low : start > high ? high : start;
    stop = stop < low ? low : stop > high ? high : stop;
    int64_t length = step < 0 ? start - stop : stop - start, stride = step < 0 ? -step : step;
    if (length <= 0) return (range){0, 1, 0};
    int64_t count = (length - 1) / stride + 1;
    return (range){start, step, count};
}

/* The same where the size is not known: all of it, or a part that counts from the beginning. */
static bool cut_symbolic(const bt_array *x, int axis, int64_t start, int64_t stop, int64_t step, range *out,
                         bt_array **poison) {
    int64_t size = bti_shape(x)[axis];
    if (start == 0 && step == 1 && (stop == INT64_MAX || stop == size)) {
        *out = (range){0, 1, size};
        return true;
    }
    if (start >= 0 && stop >= start && stop < INT64_MAX && step > 0) {
        *out = (range){start, step, stop == start ? 0 : (stop - start - 1) / step + 1};
        return true;
    }
    *poison = bti_poisonf(BT_UNIMPLEMENTED,
                          "axis %d of shape %s has no known size here, so only all of it or a part between two indices "
                          "from its beginning can be taken",
                          axis, bti_words_of(x).text);
    return false;
}

static bool cut_axis(const bt_array *x, int axis, int64_t start, int64_t stop, int64_t step, range *out,
                     bt_array **poison) {
    int64_t size = bti_shape(x)[axis];
    if (step == 0) {
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "the step along axis %d is 0", axis);
        return false;
    }
    if (bti_size_is_symbolic(size)) return cut_symbolic(x, axis, start, stop, step, out, poison);
    *out = cut(size, start, stop, step);
    return true;
}

bt_array *bt_slice(bt_array *x, const int64_t *start, const int64_t *stop, const int64_t *step) {
    BTI_PUBLIC("bt_slice");
    BTI_NEED(x);
    int rank = bti_rank(x);
    if (rank == 0) BTI_RETURN(x);
    if (!start || !stop)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%s is NULL; shape %s needs %d numbers there",
                               start ? "stop" : "start", bti_words_of(x).text, rank));
    int64_t starts[BTI_MAX_RANK], steps[BTI_MAX_RANK], counts[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        range part;
        bt_array *poison;
        if (!cut_axis(x, i, start[i], stop[i], step ? step[i] : 1, &part, &poison)) BTI_RETURN(poison);
        starts[i] = part.start;
        steps[i] = part.step;
        counts[i] = part.count;
    }
    BTI_RETURN(bti_slice(x, starts, steps, counts));
}

bt_array *bt_slice_axis(bt_array *x, int axis, int64_t start, int64_t stop, int64_t step) {
    BTI_PUBLIC("bt_slice_axis");
    BTI_NEED(x);
    range part;
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (!cut_axis(x, axis, start, stop, step, &part, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_slice_part(x, axis, part.start, part.step, part.count));
}

bt_array *bti_flip_axis(bt_array *x, int axis) {
    int64_t size = bti_shape(x)[axis];
    if (size == 0 || size == 1) return x;
    if (!bti_size_is_symbolic(size)) return bti_slice_part(x, axis, size - 1, -1, size);
    bt_array *last = bti_size_scalar(bti_size_add(size, -1), BT_I64);
    return bti_take(x, bti_binary(BTI_OP_sub, last, bti_iota(size, BT_I64)), axis);
}

bt_array *bt_flip(bt_array *x, bt_axes axes) {
    BTI_PUBLIC("bt_flip");
    BTI_NEED(x);
    uint32_t mask;
    bt_array *poison;
    if (!bti_axes_mask(x, axes, &mask, &poison)) BTI_RETURN(poison);
    for (int i = 0; i < BTI_MAX_RANK; i++)
        if (mask >> i & 1) x = bti_flip_axis(x, i);
    BTI_RETURN(x);
}

/* --- more elements -------------------------------------------------------------------------------------------------- */

bt_array *bt_pad(bt_array *x, const int64_t *low, const int64_t *high, double value) {
    BTI_PUBLIC("bt_pad");
    BTI_NEED(x);
    int rank = bti_rank(x);
    if (rank == 0) BTI_RETURN(x);
    if (!low || !high)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%s is NULL; shape %s needs %d numbers there", low ? "high" : "low",
                               bti_words_of(x).text, rank));
    for (int i = 0; i < rank; i++)
        if (low[i] < 0 || high[i] < 0)
            BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "axis %d is padded by %lld and %lld; cut with bt_slice instead",
                                   i, (long long)low[i], (long long)high[i]));
    BTI_RETURN(bti_pad(x, low, high, bti_scalar_cast(value, bti_dtype(x))));
}

/* Arrays brought to one dtype, for bti_concat; freed by the caller. NULL when memory is short. */
static bt_array **alike(bt_array *const *arrays, int count) {
    bool weak;
    bt_dtype dtype = bti_meet(arrays, count, &weak);
    bt_array **cast = bti_calloc((size_t)count, sizeof(bt_array *));
    for (int i = 0; cast && i < count; i++) cast[i] = bti_cast(arrays[i], dtype);
    return cast;
}

static bt_array *joined(bt_array *const *arrays, int count, int axis) {
    bt_array **parts = alike(arrays, count);
    if (!parts) return bti_poisonf(BT_RESOURCE_EXHAUSTED, "out of host memory");
    bt_array *result = bti_concat(parts, count, axis);
    bti_free(parts);
    return result;
}

static bt_array *no_arrays(int count) {
    return bti_poisonf(BT_INVALID_ARGUMENT, "no arrays (count %d); there must be at least one", count);
}

/* Every array has the first one's shape, but perhaps on `axis` (-1: everywhere the same). */
static bool shapes_agree(bt_array *const *arrays, int count, int axis, bt_array **poison) {
    for (int i = 1; i < count; i++) {
        bool agree = bti_rank(arrays[i]) == bti_rank(arrays[0]);
        for (int k = 0; agree && k < bti_rank(arrays[0]); k++)
            agree = k == axis || bti_may_equal(bti_shape(arrays[i])[k], bti_shape(arrays[0])[k]);
        if (agree) continue;
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT, "array 0 has shape %s and array %d has shape %s; they must be equal%s",
                        bti_words_of(arrays[0]).text, i, bti_words_of(arrays[i]).text,
                        axis < 0 ? "" : " but on the axis they are joined along");
        return false;
    }
    return true;
}

bt_array *bt_concat(bt_array *const *arrays, int count, int axis) {
    BTI_PUBLIC("bt_concat");
    if (!arrays || count < 1) BTI_RETURN(no_arrays(count));
    BTI_NEED_ALL(arrays, count);
    bt_array *poison;
    if (!bti_axis(arrays[0], axis, &axis, &poison)) BTI_RETURN(poison);
    if (!shapes_agree(arrays, count, axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(joined(arrays, count, axis));
}

bt_array *bt_stack(bt_array *const *arrays, int count, int axis) {
    BTI_PUBLIC("bt_stack");
    if (!arrays || count < 1) BTI_RETURN(no_arrays(count));
    BTI_NEED_ALL(arrays, count);
    bt_array *poison;
    if (!new_axis_place(arrays[0], axis, &axis, &poison)) BTI_RETURN(poison);
    if (!shapes_agree(arrays, count, -1, &poison)) BTI_RETURN(poison);
    bt_array **parts = bti_calloc((size_t)count, sizeof(bt_array *));
    if (!parts) BTI_RETURN(bti_poisonf(BT_RESOURCE_EXHAUSTED, "out of host memory"));
    for (int i = 0; i < count; i++) parts[i] = bti_new_axis(arrays[i], axis);
    poison = bti_poisoned_by(parts, count);
    bt_array *result = poison ? poison : joined(parts, count, axis);
    bti_free(parts);
    BTI_RETURN(result);
}

/* [A, n, B] as [A, 1, n*B], repeated to [A, r, n*B]: A and B are the sizes before and after the axis, as one each. */
static bt_array *repeat_axis(bt_array *x, int axis, int64_t times) {
    int rank = bti_rank(x);
    int64_t before = bti_size_of_axes(x, (UINT32_C(1) << axis) - 1), rest = bti_size_of_axes(x, UINT32_MAX << axis);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = bti_shape(x)[i];
    shape[axis] = bti_size_mul(shape[axis], times);
    x = bti_reshape(x, 3, (int64_t[]){before, 1, rest});
    x = bti_expand(x, 3, (int64_t[]){before, times, rest});
    return bti_reshape(x, rank, shape);
}

bt_array *bt_tile(bt_array *x, bt_shape reps) {
    BTI_PUBLIC("bt_tile");
    BTI_NEED(x);
    bt_array *poison = bti_check_shape(BT_BOOL, reps, false);
    if (poison) BTI_RETURN(poison);
    while (bti_rank(x) < reps.rank) x = bti_new_axis(x, 0);
    int front = bti_rank(x) - reps.rank;
    for (int i = 0; i < reps.rank; i++) {
        int64_t sizes[2] = {bti_size_of(x), reps.size[i]}, count;
        if (!bti_size_is_symbolic(sizes[0]) && !bti_size_is_symbolic(sizes[1]) && !bti_shape_count(2, sizes, &count))
            BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                                   "shape %s repeated %s times has more elements than 63 bits count",
                                   bti_words_of(x).text, bti_words_shape(reps.rank, reps.size).text));
        if (reps.size[i] != 1) x = repeat_axis(x, front + i, reps.size[i]);
    }
    BTI_RETURN(x);
}

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

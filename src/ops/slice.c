/* Parts of arrays, and arrays of parts: slices, padding, joining, repeating. */
#include <string.h>

#include "base/alloc.h"
#include "ops/application.h"

/* --- slices --------------------------------------------------------------------------------------------------------- */

bt_array *bti_slice(bt_array *x, const int64_t *start, const int64_t *step, const int64_t *count) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bti_attr attr = {.slice = {{0}, {0}}};
    bool whole = true;
    for (int i = 0; i < node->rank; i++) {
        attr.slice.start[i] = start[i];
        attr.slice.step[i] = count[i] == 0 || count[i] == 1 ? 1 : step[i]; /* a longer step would leave the array */
        whole = whole && start[i] == 0 && step[i] == 1 && count[i] == node->shape[i];
    }
    if (whole) return x;
    return bti_record_shaped(BTI_OP_slice, bti_dtype(x), node->weak, node->rank, count, &x, 1, &attr);
}

bt_array *bti_slice_part(bt_array *x, int axis, int64_t start, int64_t step, int64_t count) {
    int64_t starts[BTI_MAX_RANK] = {0}, steps[BTI_MAX_RANK], counts[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) {
        steps[i] = 1;
        counts[i] = bti_shape(x)[i];
    }
    starts[axis] = start;
    steps[axis] = step;
    counts[axis] = count;
    return bti_slice(x, starts, steps, counts);
}

void bti_batch_slice(bti_application *a) {
    int rank = a->node->rank;
    bti_attr attr = {.slice = {{0}, {1}}};
    memcpy(attr.slice.start + 1, a->node->attr->slice.start, (size_t)rank * sizeof *attr.slice.start);
    memcpy(attr.slice.step + 1, a->node->attr->slice.step, (size_t)rank * sizeof *attr.slice.step);
    a->made[0] = bti_record_batched(a, a->image, &attr);
}

bti_range bti_range_of(int64_t size, int64_t start, int64_t stop, int64_t step) {
    if (step == INT64_MIN) step++; /* so that it can be negated */
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    if (start < 0) start += size;
    if (stop < 0) stop += size;
    start = start < low ? low : start > high ? high : start;
    stop = stop < low ? low : stop > high ? high : stop;
    int64_t length = step < 0 ? start - stop : stop - start, stride = step < 0 ? -step : step;
    if (length <= 0) return (bti_range){0, 1, 0};
    int64_t count = (length - 1) / stride + 1;
    return (bti_range){start, step, count};
}

/* The same where the size is not known: all of it, or a part that counts from the beginning. */
static bool symbolic_range(const bt_array *x, int axis, int64_t start, int64_t stop, int64_t step, bti_range *out,
                           bt_array **poison) {
    int64_t size = bti_shape(x)[axis];
    if (start == 0 && step == 1 && (stop == INT64_MAX || stop == size)) {
        *out = (bti_range){0, 1, size};
        return true;
    }
    if (start >= 0 && stop >= start && stop < INT64_MAX && step > 0) {
        *out = (bti_range){start, step, stop == start ? 0 : (stop - start - 1) / step + 1};
        return true;
    }
    *poison = bti_poisonf(BT_UNIMPLEMENTED,
                          "axis %d of shape %s has no known size here, so only all of it or a part between two indices "
                          "from its beginning can be taken",
                          axis, bti_shape_string(x).text);
    return false;
}

static bool range_of_axis(const bt_array *x, int axis, int64_t start, int64_t stop, int64_t step, bti_range *out,
                          bt_array **poison) {
    int64_t size = bti_shape(x)[axis];
    if (step == 0) {
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "the step along axis %d is 0", axis);
        return false;
    }
    if (bti_size_is_symbolic(size)) return symbolic_range(x, axis, start, stop, step, out, poison);
    *out = bti_range_of(size, start, stop, step);
    return true;
}

bt_array *bt_slice(bt_array *x, const int64_t *start, const int64_t *stop, const int64_t *step) {
    BTI_PUBLIC("bt_slice");
    BTI_NEED(x);
    int rank = bti_rank(x);
    if (rank == 0) BTI_RETURN(x);
    if (!start || !stop)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%s is NULL; shape %s needs %d numbers there",
                               start ? "stop" : "start", bti_shape_string(x).text, rank));
    int64_t starts[BTI_MAX_RANK], steps[BTI_MAX_RANK], counts[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        bti_range part;
        bt_array *poison;
        if (!range_of_axis(x, i, start[i], stop[i], step ? step[i] : 1, &part, &poison)) BTI_RETURN(poison);
        starts[i] = part.start;
        steps[i] = part.step;
        counts[i] = part.count;
    }
    BTI_RETURN(bti_slice(x, starts, steps, counts));
}

bt_array *bt_slice_axis(bt_array *x, int axis, int64_t start, int64_t stop, int64_t step) {
    BTI_PUBLIC("bt_slice_axis");
    BTI_NEED(x);
    bti_range part;
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (!range_of_axis(x, axis, start, stop, step, &part, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_slice_part(x, axis, part.start, part.step, part.count));
}

bt_array *bti_part_of_axis(bt_array *x, int axis, int64_t start, int64_t count) {
    if (start == 0 && count == bt_shape_of(x).size[axis]) return x;
    if (!bti_size_is_symbolic(start) && !bti_size_is_symbolic(count))
        return bt_slice_axis(x, axis, start, start + count, 1);
    return bt_take(x, bt_add(bti_iota(count, BT_I64), bti_size_scalar(start, BT_I64)), axis);
}

static bt_array *flip_axis(bt_array *x, int axis) {
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
        if (mask >> i & 1) x = flip_axis(x, i);
    BTI_RETURN(x);
}

/* --- several parts -------------------------------------------------------------------------------------------------- */

/* The parts are poisoned with what went wrong. */
static bt_status no_parts(bti_public *call, const bt_array *poison, int count, bt_array **parts) {
    bt_status status = bti_fail_with(bti_array_error(poison));
    for (int i = 0; i < count && parts; i++) parts[i] = bti_public_keep(call, bti_poison(bti_error_last()));
    return status;
}

/* The first one's that could not be recorded. */
static bt_status status_of_parts(int count, bt_array *const *parts) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(parts[i])));
    return BT_OK;
}

static bt_array *check_parts(bt_array *x, int axis, int count, bt_array **parts, int *normal) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    if (count < 0) return bti_poisonf(BT_INVALID_ARGUMENT, "count is %d", count);
    if (count > 0 && !parts) return bti_poisonf(BT_INVALID_ARGUMENT, "parts is NULL");
    if (!bti_axis(x, axis, normal, &poison)) return poison;
    if (bti_size_is_symbolic(bti_shape(x)[*normal]))
        return bti_poisonf(BT_UNIMPLEMENTED,
                           "axis %d of shape %s has no known size here, so it cannot be cut into parts", *normal,
                           bti_shape_string(x).text);
    return NULL;
}

static bt_array *check_sizes(const bt_array *x, int axis, const int64_t *sizes, int count) {
    int64_t size = bti_shape(x)[axis], left = size;
    if (!sizes && count > 0 && size % count)
        return bti_poisonf(BT_INVALID_ARGUMENT,
                           "axis %d of shape %s cannot be cut into %d equal parts; give the sizes of unlike ones", axis,
                           bti_shape_string(x).text, count);
    for (int i = 0; i < count && sizes; i++) {
        if (sizes[i] < 0 || sizes[i] > left)
            return bti_poisonf(BT_INVALID_ARGUMENT,
                               "part %d has %lld elements; %lld of the %lld along axis %d are left", i,
                               (long long)sizes[i], (long long)left, (long long)size, axis);
        left -= sizes[i];
    }
    if ((sizes && left) || (count == 0 && size))
        return bti_poisonf(BT_INVALID_ARGUMENT, "the parts leave %lld of the %lld elements along axis %d",
                           (long long)left, (long long)size, axis);
    return NULL;
}

bt_status bt_split_axis(bt_array *x, int axis, const int64_t *sizes, int count, bt_array **parts) {
    BTI_PUBLIC("bt_split_axis");
    bt_array *poison = check_parts(x, axis, count, parts, &axis);
    if (!poison) poison = check_sizes(x, axis, sizes, count);
    if (poison) return no_parts(&bti_public_, poison, count, parts);
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        int64_t size = sizes ? sizes[i] : bti_shape(x)[axis] / count;
        parts[i] = bti_slice_part(x, axis, start, 1, size);
        if (parts[i] == x) parts[i] = bti_array_on(bti_node_of(x)); /* the only part: an array of its own */
        bti_public_keep(&bti_public_, parts[i]);
        start += size;
    }
    return status_of_parts(count, parts);
}

bt_status bt_unstack(bt_array *x, int axis, int count, bt_array **parts) {
    BTI_PUBLIC("bt_unstack");
    bt_array *poison = check_parts(x, axis, count, parts, &axis);
    if (!poison && bti_shape(x)[axis] != count)
        poison = bti_poisonf(BT_INVALID_ARGUMENT, "count is %d; axis %d of shape %s has %lld elements", count, axis,
                             bti_shape_string(x).text, (long long)bti_shape(x)[axis]);
    if (poison) return no_parts(&bti_public_, poison, count, parts);
    for (int i = 0; i < count; i++)
        parts[i] = bti_public_keep(&bti_public_, bti_drop_axes(bti_slice_part(x, axis, i, 1, 1), UINT32_C(1) << axis));
    return status_of_parts(count, parts);
}

/* --- grids ---------------------------------------------------------------------------------------------------------- */

static bt_array *check_lines(bt_array *const *arrays, int count, bt_array **grids) {
    if (count < 1 || count > BTI_MAX_RANK || !arrays || !grids)
        return bti_poisonf(BT_INVALID_ARGUMENT, "count is %d; there must be 1 to %d arrays, and as many grids", count,
                           BTI_MAX_RANK);
    bt_array *poison = bti_poisoned_by(arrays, count);
    for (int i = 0; i < count && !poison; i++)
        if (bti_rank(arrays[i]) > 1)
            poison = bti_poisonf(BT_INVALID_ARGUMENT, "array %d has shape %s; it must have one axis", i,
                                 bti_shape_string(arrays[i]).text);
    return poison;
}

bt_status bt_meshgrid(bt_array *const *arrays, int count, bool xy, bt_array **grids) {
    BTI_PUBLIC("bt_meshgrid");
    bt_array *poison = check_lines(arrays, count, grids);
    if (poison) return no_parts(&bti_public_, poison, count < BTI_MAX_RANK ? count : BTI_MAX_RANK, grids);
    int64_t shape[BTI_MAX_RANK], line[BTI_MAX_RANK];
    int axes[BTI_MAX_RANK];
    for (int i = 0; i < count; i++) {
        axes[i] = xy && count > 1 && i < 2 ? 1 - i : i;
        shape[axes[i]] = bti_size_of(arrays[i]);
    }
    for (int i = 0; i < count; i++) {
        for (int axis = 0; axis < count; axis++) line[axis] = axis == axes[i] ? shape[axis] : 1;
        bt_array *grid = bti_expand(bti_reshape(arrays[i], count, line), count, shape);
        if (grid == arrays[i]) grid = bti_array_on(bti_node_of(grid)); /* the only one: an array of its own */
        grids[i] = bti_public_keep(&bti_public_, grid);
    }
    return status_of_parts(count, grids);
}

/* --- more elements -------------------------------------------------------------------------------------------------- */

bt_array *bti_pad(bt_array *x, const int64_t *low, const int64_t *high, bt_array *value) {
    bt_array *inputs[2] = {x, value};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t shape[BTI_MAX_RANK];
    bti_attr attr = {.pad = {{0}}};
    bool none = true;
    for (int i = 0; i < node->rank; i++) {
        attr.pad.before[i] = low[i];
        shape[i] = bti_size_add(node->shape[i], bti_size_add(low[i], high[i]));
        none = none && low[i] == 0 && high[i] == 0;
    }
    if (none) return x;
    inputs[1] = bti_cast(value, (bt_dtype)node->dtype);
    return bti_record_shaped(BTI_OP_pad, bti_dtype(x), node->weak, node->rank, shape, inputs, 2, &attr);
}

void bti_gradient_pad(bti_backward *b) {
    bt_shape from = bt_shape_of(b->x[0]), to = bt_shape_of(b->y);
    if (b->wanted[0]) b->gx[0] = b->g;
    for (int i = 0; i < from.rank && b->wanted[0]; i++)
        b->gx[0] = bti_part_of_axis(b->gx[0], i, b->attr->pad.before[i], from.size[i]);
    if (!b->wanted[1]) return;
    int64_t high[BT_MAX_RANK];
    for (int i = 0; i < from.rank; i++)
        high[i] = bti_size_add(to.size[i], bti_size_mul(bti_size_add(from.size[i], b->attr->pad.before[i]), -1));
    bt_array *padding = bt_pad(bt_full_shape(0, BT_BOOL, from), b->attr->pad.before, high, 1);
    uint32_t all = (UINT32_C(1) << from.rank) - 1;
    b->gx[1] = bti_drop_axes(bti_reduce(BTI_OP_sum, bt_where(padding, b->g, bt_num(0)), all), all);
}

/* Where y is padding. */
static bt_array *padding_of(const bti_application *a) {
    const bti_node *node = a->node;
    bt_array *inputs[2] = {bt_full_shape(0, BT_BOOL, bt_shape_of(a->x[0])), bti_scalar(1, BT_BOOL)};
    return bti_record_shaped(BTI_OP_pad, BT_BOOL, false, node->rank, node->shape, inputs, 2, node->attr);
}

void bti_batch_pad(bti_application *a) {
    int rank = a->node->rank;
    int64_t scalars[BTI_MAX_RANK] = {a->size};
    bti_attr attr = {.pad = {{0}}};
    memcpy(attr.pad.before + 1, a->node->attr->pad.before, (size_t)rank * sizeof *attr.pad.before);
    bt_array *values = a->image[1], *value = values ? bti_scalar(0, bti_dtype(values)) : a->x[1];
    a->made[0] = bti_record_batched(a, (bt_array *[]){bti_batched(a, 0), value}, &attr);
    if (!values || bti_array_error(a->made[0])) return;
    for (int i = 0; i < rank; i++) scalars[i + 1] = 1;
    a->made[0] = bti_where(padding_of(a), bti_reshape(values, rank + 1, scalars), a->made[0]);
}

bt_array *bt_pad(bt_array *x, const int64_t *low, const int64_t *high, double value) {
    BTI_PUBLIC("bt_pad");
    BTI_NEED(x);
    int rank = bti_rank(x);
    if (rank == 0) BTI_RETURN(x);
    if (!low || !high)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%s is NULL; shape %s needs %d numbers there", low ? "high" : "low",
                               bti_shape_string(x).text, rank));
    for (int i = 0; i < rank; i++)
        if (low[i] < 0 || high[i] < 0)
            BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "axis %d is padded by %lld and %lld; cut with bt_slice instead",
                                   i, (long long)low[i], (long long)high[i]));
    BTI_RETURN(bti_pad(x, low, high, bti_scalar_cast(value, bti_dtype(x))));
}

bt_array *bti_concat(bt_array *const *arrays, int count, int axis) {
    bt_array *poison = bti_poisoned_by(arrays, count);
    if (poison || count == 1) return poison ? poison : arrays[0];
    return bti_record_by_rules(BTI_OP_concat, arrays, count, &(bti_attr){.axis = {axis}});
}

void bti_gradient_concat(bti_backward *b) {
    int axis = b->attr->axis.axis;
    int64_t start = 0;
    for (int i = 0; i < b->count; i++) {
        int64_t size = bt_shape_of(b->x[i]).size[axis];
        if (b->wanted[i]) b->gx[i] = bti_part_of_axis(b->g, axis, start, size);
        start = bti_size_add(start, size);
    }
}

/* Arrays brought to one dtype, for bti_concat; freed by the caller. NULL when memory is short. */
static bt_array **cast_alike(bt_array *const *arrays, int count) {
    bool weak;
    bt_dtype dtype = bti_meet(arrays, count, &weak);
    bt_array **cast = bti_calloc((size_t)count, sizeof(bt_array *));
    for (int i = 0; cast && i < count; i++) cast[i] = bti_cast(arrays[i], dtype);
    return cast;
}

static bt_array *concat_promoted(bt_array *const *arrays, int count, int axis) {
    bt_array **parts = cast_alike(arrays, count);
    if (!parts) return bti_poison(bti_no_memory_new());
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
                        bti_shape_string(arrays[0]).text, i, bti_shape_string(arrays[i]).text,
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
    BTI_RETURN(concat_promoted(arrays, count, axis));
}

bt_array *bt_stack(bt_array *const *arrays, int count, int axis) {
    BTI_PUBLIC("bt_stack");
    if (!arrays || count < 1) BTI_RETURN(no_arrays(count));
    BTI_NEED_ALL(arrays, count);
    bt_array *poison;
    if (!bti_new_axis_place(arrays[0], axis, &axis, &poison)) BTI_RETURN(poison);
    if (!shapes_agree(arrays, count, -1, &poison)) BTI_RETURN(poison);
    bt_array **parts = bti_calloc((size_t)count, sizeof(bt_array *));
    if (!parts) BTI_RETURN(bti_poison(bti_no_memory_new()));
    for (int i = 0; i < count; i++) parts[i] = bti_new_axis(arrays[i], axis);
    poison = bti_poisoned_by(parts, count);
    bt_array *result = poison ? poison : concat_promoted(parts, count, axis);
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
                                   bti_shape_string(x).text, bti_sizes_string(reps.rank, reps.size).text));
        if (reps.size[i] != 1) x = repeat_axis(x, front + i, reps.size[i]);
    }
    BTI_RETURN(x);
}

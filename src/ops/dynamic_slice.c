/* Slices that begin where an array says: composed of rows by index, and of updates along one axis. */
#include "ops/application.h"

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

/* What one axis of a part is asked to be: its size fits in x's. `later`: sizes that are not known are compared at the call. */
static bt_array *check_count(bt_array *x, int axis, int64_t count, bool later) {
    int64_t size = bti_shape(x)[axis];
    bool negative = count < 0 && !bti_size_exists(count), unknown = bti_size_is_symbolic(size) || count < 0;
    if (count == size || (!unknown && count <= size)) return NULL;
    if (unknown && !negative)
        return later ? NULL
                     : bti_poisonf(
                           BT_UNIMPLEMENTED,
                           "axis %d of shape %s, or the part's size, is not known here, so only all of it can be taken",
                           axis, bti_shape_string(x).text);
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
    for (int i = 0; i < rank && !poison; i++) poison = check_count(x, i, size.size[i], false);
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
    if ((poison = bti_poisoned_by(&start, 1)) || (poison = check_count(x, axis, size, false))) BTI_RETURN(poison);
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
    update = bti_updates_for(x, update);
    poison = bti_poisoned_by((bt_array *[]){start, update}, 2);
    for (int i = 0; i < rank && !poison; i++) poison = check_count(x, i, bti_shape(update)[i], true);
    BTI_RETURN(poison ? poison : update_axes(x, update, start, 0));
}

bt_array *bt_update_slice_axis(bt_array *x, bt_array *update, bt_array *start, int axis) {
    BTI_PUBLIC("bt_update_slice_axis");
    BTI_NEED(x, update, start);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison) || (poison = check_rank(x, update))) BTI_RETURN(poison);
    start = check_start(start, 1);
    update = bti_updates_for(x, update);
    if ((poison = bti_poisoned_by((bt_array *[]){start, update}, 2))) BTI_RETURN(poison);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(update)[i] : bti_shape(x)[i];
    update = bti_expand(update, bti_rank(x), shape);
    if ((poison = bti_poisoned_by(&update, 1)) || (poison = check_count(x, axis, shape[axis], true)))
        BTI_RETURN(poison);
    if (shape[axis] == bti_shape(x)[axis]) BTI_RETURN(update);
    BTI_RETURN(bti_update_slice(x, start_within(x, axis, start_of_axis(start, 0), shape[axis]), update, axis));
}

void bti_gradient_update_slice(bti_backward *b) {
    int axis = b->attr->axis.axis;
    bt_array *start = b->x[1], *update = b->x[2];
    if (b->wanted[0]) b->gx[0] = bt_update_slice_axis(b->g, bt_zeros_like(update), start, axis);
    if (b->wanted[2]) b->gx[2] = slice_from(b->g, axis, start, bt_shape_of(update).size[axis]);
}

/* With a start for each one: element s of the axis is element s - start of the update where there is one. */
static bt_array *update_from_each(bt_array *x, bt_array *starts, bt_array *update, int axis) {
    int rank = bti_rank(x);
    int64_t line[BTI_MAX_RANK], shape[BTI_MAX_RANK], size = bti_shape(x)[axis], count = bti_shape(update)[axis];
    for (int i = 0; i < rank; i++) line[i] = 1, shape[i] = bti_shape(x)[i];
    bt_array *zero = bti_scalar(0, BT_I64), *last = bti_size_scalar(bti_size_add(count, -1), BT_I64);
    bt_array *highest = bti_size_scalar(bti_size_add(size, bti_size_mul(count, -1)), BT_I64);
    starts = bti_binary(BTI_OP_minimum, bti_cast(starts, BT_I64), highest);
    line[0] = shape[0];
    starts = bti_reshape(bti_binary(BTI_OP_maximum, starts, zero), rank, line);
    line[0] = 1;
    line[axis] = size;
    bt_array *place = bti_binary(BTI_OP_sub, bti_reshape(bti_iota(size, BT_I64), rank, line), starts);
    bt_array *within = bti_binary(BTI_OP_and, bti_binary(BTI_OP_le, zero, place), bti_binary(BTI_OP_le, place, last));
    if (count != 1) {
        place = bti_binary(BTI_OP_maximum, bti_binary(BTI_OP_minimum, place, last), zero);
        update = bti_gather_axis(update, bti_expand(place, rank, shape), axis);
    }
    return bti_where(within, update, x);
}

void bti_batch_update_slice(bti_application *a) {
    int axis = a->node->attr->axis.axis + 1;
    bt_array *x = bti_batched(a, 0), *starts = a->image[1], *update = bti_batched(a, 2);
    if (bti_poisoned_by((bt_array *[]){x, update}, 2) || !starts)
        a->made[0] = bti_update_slice(x, a->x[1], update, axis);
    else
        a->made[0] = bti_shape(update)[axis] == 0 ? x : update_from_each(x, starts, update, axis);
}

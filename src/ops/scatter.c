/* Elements brought to places by index: added, set, or compared with those that are there. */
#include "ops/application.h"

bt_array *bti_updates_for(bt_array *x, bt_array *updates) {
    bt_dtype to = bti_dtype(x), from = bti_dtype(updates);
    if ((bti_dtype_is_float(from) && !bti_dtype_has_gradient(to)) ||
        (bti_dtype_is_complex(from) && !bti_dtype_is_complex(to)))
        return bti_poisonf(BT_INVALID_ARGUMENT, "updates are %s and x is %s; bt_cast one of them first",
                           bt_dtype_name(from), bt_dtype_name(to));
    return bti_cast(updates, to);
}

/* What `op` does with the updates: they are added, or take the places of elements. */
static bt_array *updates_of(bti_op op, bt_array *x, bt_array *updates) {
    bool adds = op == BTI_OP_scatter_add || op == BTI_OP_scatter_axis;
    if (adds && bti_dtype(x) == BT_BOOL)
        return bti_poisonf(BT_INVALID_ARGUMENT, "nothing can be added to bool; bt_cast x first");
    return bti_updates_for(x, updates);
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */

/* Indices of rows as one for each element of the updates. */
static bt_array *repeat_along(bt_array *indices, int rank, const int64_t *shape, int axis) {
    int64_t line[BTI_MAX_RANK];
    if (bti_array_error(indices)) return indices;
    for (int i = 0; i < rank; i++) line[i] = i == axis ? shape[i] : 1;
    return bti_expand(bti_reshape(indices, rank, line), rank, shape);
}

static bt_array *scatter_rows(bti_op op, bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) return poison;
    if (bti_rank(indices) != 1)
        return bti_poisonf(BT_INVALID_ARGUMENT,
                           "indices have shape %s; they must have one axis: bt_flatten(indices, 0)",
                           bti_shape_string(indices).text);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? bti_shape(indices)[0] : bti_shape(x)[i];
    updates = bti_expand(updates_of(op, x, updates), bti_rank(x), shape);
    indices = bti_indices(indices);
    if (op != BTI_OP_scatter_add) indices = repeat_along(indices, bti_rank(x), shape, axis);
    return bti_record_scatter(op, x, indices, updates, axis);
}

bt_array *bt_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_add");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_rows(BTI_OP_scatter_add, x, indices, updates, axis));
}

bt_array *bt_scatter_set(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_set");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_rows(BTI_OP_scatter_set, x, indices, updates, axis));
}

bt_array *bt_scatter_max(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_max");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_rows(BTI_OP_scatter_max, x, indices, updates, axis));
}

bt_array *bt_scatter_min(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_min");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_rows(BTI_OP_scatter_min, x, indices, updates, axis));
}

/* What was dropped gets none. */
void bti_gradient_scatter_add(bti_backward *b) {
    int axis = b->attr->axis.axis;
    if (b->wanted[0]) b->gx[0] = b->g;
    if (!b->wanted[2]) return;
    bt_array *at = b->x[1], *size = bti_size_scalar(bt_shape_of(b->x[0]).size[axis], BT_I64);
    bt_array *within = bt_logical_and(bt_le(bt_neg(size), at), bt_lt(at, size));
    bt_shape line = {.rank = bt_rank(b->g)};
    for (int i = 0; i < line.rank; i++) line.size[i] = i == axis ? bt_shape_of(at).size[0] : 1;
    b->gx[2] = bt_where(bt_reshape_to(within, line), bt_take(b->g, at, axis), bt_num(0));
}

/* --- along an axis -------------------------------------------------------------------------------------------------- */

static bt_array *scatter_along(bti_op op, bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) return poison;
    if (!bti_fits_along(x, indices, axis, &poison)) return poison;
    indices = bti_indices_along(x, indices, axis);
    if (bti_array_error(indices)) return indices;
    updates = bti_expand(updates_of(op, x, updates), bti_rank(indices), bti_shape(indices));
    return bti_record_scatter(op, x, indices, updates, axis);
}

bt_array *bt_scatter_add_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_add_along_axis");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_along(BTI_OP_scatter_axis, x, indices, updates, axis));
}

bt_array *bt_scatter_set_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_set_along_axis");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_along(BTI_OP_scatter_set, x, indices, updates, axis));
}

bt_array *bt_scatter_max_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_max_along_axis");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_along(BTI_OP_scatter_max, x, indices, updates, axis));
}

bt_array *bt_scatter_min_along_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    BTI_PUBLIC("bt_scatter_min_along_axis");
    BTI_NEED(x, indices, updates);
    BTI_RETURN(scatter_along(BTI_OP_scatter_min, x, indices, updates, axis));
}

/* What was dropped gets none. */
void bti_gradient_scatter_axis(bti_backward *b) {
    int axis = b->attr->axis.axis;
    if (b->wanted[0]) b->gx[0] = b->g;
    if (!b->wanted[2]) return;
    bt_array *within = NULL, *at = bti_normal_indices(b->x[0], b->x[1], axis, &within);
    b->gx[2] = bti_array_error(at) ? at : bt_where(within, bti_gather_axis(b->g, at, axis), bt_num(0));
}

/* Which updates are in the result: those in range behind which there is none of the same place. */
static bt_array *last_of_places(bti_backward *b, bt_array *at, bt_array *within) {
    int axis = b->attr->axis.axis, rank = bti_rank(at);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = bti_shape(at)[i];
    bt_array *number = repeat_along(bti_iota(shape[axis], BT_I64), rank, shape, axis);
    bt_array *none = bt_full_shape(-1, BT_I64, bt_shape_of(b->x[0]));
    bt_array *last = bti_record_scatter(BTI_OP_scatter_set, none, b->x[1], number, axis);
    return bt_logical_and(within, bt_eq(bti_gather_axis(last, at, axis), number));
}

void bti_gradient_scatter_set(bti_backward *b) {
    int axis = b->attr->axis.axis;
    if (b->wanted[0]) b->gx[0] = bti_record_scatter(BTI_OP_scatter_set, b->g, b->x[1], bt_zeros_like(b->x[2]), axis);
    if (!b->wanted[2]) return;
    bt_array *within = NULL, *at = bti_normal_indices(b->x[0], b->x[1], axis, &within);
    b->gx[2] =
        bti_array_error(at) ? at : bt_where(last_of_places(b, at, within), bti_gather_axis(b->g, at, axis), bt_num(0));
}

/* Of an extreme: the elements of x and of the updates that are the result, and how many there are at each place. */
typedef struct ties {
    bt_array *at, *of_x, *of_updates, *count;
} ties;

static bool find_ties(bt_array *const *x, bt_array *y, int axis, ties *t) {
    bt_array *within = NULL;
    t->at = bti_normal_indices(x[0], x[1], axis, &within);
    if (bti_array_error(t->at)) return false;
    t->of_x = bt_eq(x[0], y);
    t->of_updates = bt_logical_and(within, bt_eq(bti_gather_axis(y, t->at, axis), x[2]));
    bt_dtype dtype = bti_is_small(bti_dtype(y)) ? BT_F32 : bti_dtype(y);
    bt_array *ones[2] = {bt_cast(t->of_x, dtype), bt_cast(t->of_updates, dtype)};
    bt_array *count = bti_record_scatter(BTI_OP_scatter_axis, ones[0], t->at, ones[1], axis);
    t->count = bt_cast(bt_maximum(count, bt_num(1)), bti_dtype(y));
    return true;
}

void bti_gradient_scatter_extreme(bti_backward *b) {
    int axis = b->attr->axis.axis;
    ties t;
    bool found = find_ties(b->x, b->y, axis, &t);
    bt_array *share = found ? bt_div(b->g, t.count) : t.at;
    if (b->wanted[0]) b->gx[0] = found ? bt_where(t.of_x, share, bt_num(0)) : share;
    if (b->wanted[2]) b->gx[2] = found ? bt_where(t.of_updates, bti_gather_axis(share, t.at, axis), bt_num(0)) : share;
}

void bti_tangent_scatter_extreme(bti_application *a) {
    int axis = a->node->attr->axis.axis;
    ties t;
    if (!find_ties(a->x, a->y, axis, &t)) {
        a->made[0] = t.at;
        return;
    }
    bt_array *of_x = a->image[0] ? bt_where(t.of_x, a->image[0], bt_num(0)) : bt_zeros_like(a->x[0]);
    if (a->image[2])
        of_x =
            bti_record_scatter(BTI_OP_scatter_axis, of_x, t.at, bt_where(t.of_updates, a->image[2], bt_num(0)), axis);
    a->made[0] = bt_div(of_x, t.count);
}

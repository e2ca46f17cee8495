/* The same elements in another shape or order of axes. */
#include "ops/application.h"

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
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "shape %s cannot become %s: no size for -1 fits",
                          bti_shape_string(x).text, bti_sizes_string(shape->rank, shape->size).text);
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

void bti_gradient_reshape(bti_backward *b) { b->gx[0] = bt_reshape_to(b->g, bt_shape_of(b->x[0])); }

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

bt_array *bti_permute(bt_array *x, const int *axes) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bti_attr attr = {.permute = {{0}}};
    bool moved = false;
    for (int i = 0; i < node->rank; i++) {
        attr.permute.axis[i] = axes[i];
        moved = moved || axes[i] != i;
    }
    return moved ? bti_record_by_rules(BTI_OP_permute, &x, 1, &attr) : x;
}

bt_array *bt_permute_axes(bt_array *x, bt_axes axes) {
    BTI_PUBLIC("bt_permute");
    BTI_NEED(x);
    int count = axes.count == BTI_NO_AXES ? 0 : axes.count;
    if (count != bti_rank(x))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "name each of the %d axes of shape %s once, in the new order",
                               bti_rank(x), bti_shape_string(x).text));
    uint32_t mask; /* refuses doubled ones */
    bt_array *poison;
    if (!bti_axes_mask(x, axes, &mask, &poison)) BTI_RETURN(poison);
    int order[BTI_MAX_RANK];
    for (int i = 0; i < count; i++) (void)bti_axis(x, axes.axis[i], &order[i], &poison);
    BTI_RETURN(bti_permute(x, order));
}

void bti_gradient_permute(bti_backward *b) {
    bt_axes back = {.count = bt_rank(b->g)};
    for (int i = 0; i < back.count; i++) back.axis[b->attr->permute.axis[i]] = i;
    b->gx[0] = bt_permute_axes(b->g, back);
}

void bti_batch_permute(bti_application *a) {
    bti_attr attr = {.permute = {{0}}};
    for (int i = 0; i < a->node->rank; i++) attr.permute.axis[i + 1] = a->node->attr->permute.axis[i] + 1;
    a->made[0] = bti_record_batched(a, a->image, &attr);
}

bt_array *bti_transpose(bt_array *x) {
    int rank = bti_rank(x), order[BTI_MAX_RANK];
    if (rank < 2) return x;
    for (int i = 0; i < rank; i++) order[i] = i;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    return bti_permute(x, order);
}

bt_array *bti_move_axis(bt_array *x, int from, int to) {
    int order[BTI_MAX_RANK];
    for (int i = 0, next = 0; i < bti_rank(x); i++) {
        if (next == from) next++;
        order[i] = i == to ? from : next++;
    }
    return bti_permute(x, order);
}

bt_array *bt_transpose(bt_array *x) {
    BTI_PUBLIC("bt_transpose");
    BTI_NEED(x);
    BTI_RETURN(bti_transpose(x));
}

bool bti_new_axis_place(const bt_array *x, int axis, int *place, bt_array **poison) {
    int rank = bti_rank(x);
    if (axis >= -rank - 1 && axis <= rank) {
        *place = axis < 0 ? axis + rank + 1 : axis;
        return true;
    }
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %d; shape %s has room for a new axis at %d to %d", axis,
                          bti_shape_string(x).text, -rank - 1, rank);
    return false;
}

bt_array *bt_expand_dims(bt_array *x, int axis) {
    BTI_PUBLIC("bt_expand_dims");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_new_axis_place(x, axis, &axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_new_axis(x, axis));
}

bt_array *bt_squeeze(bt_array *x, int axis) {
    BTI_PUBLIC("bt_squeeze");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    if (bti_shape(x)[axis] != 1)
        BTI_RETURN(
            bti_poisonf(BT_INVALID_ARGUMENT, "axis %d of shape %s is not of size 1", axis, bti_shape_string(x).text));
    BTI_RETURN(bti_drop_axes(x, UINT32_C(1) << axis));
}

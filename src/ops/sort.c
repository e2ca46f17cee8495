/* Order along an axis. */
#include "ops/primitive.h"

bt_array *bti_argsort(bt_array *x, int axis) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    bti_node *const node = bti_node_of(x);
    bti_attr attr = {.axis = {axis}};
    bti_str why = {0};
    poison = bti_poison_unless(bti_op_shape_fits(BTI_OP_argsort, 1, &node, node->rank, node->shape, &attr, &why), &why);
    if (poison) return poison;
    return bti_record(BTI_OP_argsort, BT_I32, false, node->rank, node->shape, &x, 1, &attr);
}

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
                           bti_shape_string(x).text, (long long)size);
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

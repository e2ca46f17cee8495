/* Orders along an axis. A sort, or a selection of the greatest, gives values and their indices; equal ones are one step of a plan, which
 * computes what is read of the two. */
#include "array/record.h"
#include "ops/application.h"
#include "ops/complex.h"
#include "ops/gradient.h"
#include "ops/primitive.h"

enum { VALUES, INDICES };

static bt_array *record_order(bti_op op, bt_array *x, const bti_attr *attr, int wanted) {
    bt_array *poison = bti_poisoned_by(&x, 1), *results[2];
    if (poison) return poison;
    if (bti_node_of(x)->weak) x = bti_cast(x, bti_dtype(x));
    if ((poison = bti_poisoned_by(&x, 1))) return poison;
    bti_node *const node = bti_node_of(x);
    bti_type types[2] = {{.dtype = bti_dtype(x)}};
    bti_str why = {0};
    bt_dtype in, out;
    if (!bti_op_dtypes(op, types[VALUES].dtype, &in, &out, &why)) return bti_poison_why(&why);
    if (!bti_op_shape(op, 1, &node, attr, &types[VALUES], &why)) return bti_poison_why(&why);
    types[INDICES] = types[VALUES];
    types[INDICES].dtype = BT_I32;
    (void)bti_record_tuple(op, &x, 1, attr, types, 2, NULL, 0, results); /* else they are poisoned */
    return results[wanted];
}

bt_array *bti_argsort(bt_array *x, int axis) {
    return record_order(BTI_OP_sort, x, &(bti_attr){.axis = {axis}}, INDICES);
}

/* Complex numbers by their real parts, equal ones by their imaginary parts: sorts leave equal ones in their order. */
static bt_array *order_complex(bt_array *x, int axis, int wanted) {
    bti_parts z = bti_own_parts(x);
    bt_array *by_im = bti_argsort(z.im, axis), *by_re = bti_argsort(bti_gather_axis(z.re, by_im, axis), axis);
    bt_array *order = bti_gather_axis(by_im, by_re, axis);
    return wanted == INDICES ? order : bti_gather_axis(x, order, axis);
}

static bt_array *sort_along(bt_array *x, int axis, int wanted) {
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) return poison;
    if (bti_is_complex(x)) return order_complex(x, axis, wanted);
    return record_order(BTI_OP_sort, x, &(bti_attr){.axis = {axis}}, wanted);
}

bt_array *bt_argsort(bt_array *x, int axis) {
    BTI_PUBLIC("bt_argsort");
    BTI_NEED(x);
    BTI_RETURN(sort_along(x, axis, INDICES));
}

bt_array *bt_sort(bt_array *x, int axis) {
    BTI_PUBLIC("bt_sort");
    BTI_NEED(x);
    BTI_RETURN(sort_along(x, axis, VALUES));
}

static bt_array *select_last(bt_array *x, int64_t k, int wanted) {
    if (bti_rank(x) == 0) return bti_poisonf(BT_INVALID_ARGUMENT, "x is a scalar; it needs an axis to choose from");
    if (k < 0 || k > INT32_MAX)
        return bti_poisonf(BT_INVALID_ARGUMENT, "k is %lld; it can be 0 to %d, for indices are int32", (long long)k,
                           INT32_MAX);
    return record_order(BTI_OP_top_k, x, &(bti_attr){.top = {bti_rank(x) - 1, (int)k}}, wanted);
}

bt_array *bt_top_k(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_top_k");
    BTI_NEED(x);
    BTI_RETURN(select_last(x, k, VALUES));
}

bt_array *bt_top_k_indices(bt_array *x, int64_t k) {
    BTI_PUBLIC("bt_top_k_indices");
    BTI_NEED(x);
    BTI_RETURN(select_last(x, k, INDICES));
}

/* --- rules ---------------------------------------------------------------------------------------------------------- */

/* Where the values are taken from is found by the same order of x, which a plan that computes the values has already. */
void bti_gradient_order(bti_backward *b) {
    bt_array *indices = record_order((bti_op)b->node->op, b->x[0], b->attr, INDICES);
    if (b->results[VALUES])
        b->gx[0] = bti_scatter_axis(bt_zeros_like(b->x[0]), indices, b->results[VALUES],
                                    bti_attr_axis((bti_op)b->node->op, b->attr));
}

void bti_tangent_order(bti_application *a) {
    bt_array *indices = record_order((bti_op)a->node->op, a->x[0], a->node->attr, INDICES);
    if (a->known[VALUES])
        a->made[VALUES] = bti_gather_axis(a->image[0], indices, bti_attr_axis((bti_op)a->node->op, a->node->attr));
}

void bti_batch_order(bti_application *a) {
    bti_attr attr = bti_attr_next_axis((bti_op)a->node->op, a->node->attr);
    for (int i = 0; i < 2; i++)
        if (a->known[i]) a->made[i] = record_order((bti_op)a->node->op, a->image[0], &attr, i);
}

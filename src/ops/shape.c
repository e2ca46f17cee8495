/* Primitives: movement, gathering, products. */
#include <string.h>

#include "ops/primitive.h"
#include "array/record.h"

static bt_array *same_kind(bti_op op, bt_array *x, int rank, const int64_t *shape, const int64_t *attr,
                           int attr_count) {
    const bti_node *node = bti_node_of(x);
    return bti_record(op, (bt_dtype)node->dtype, node->weak, rank, shape, &x, 1, attr, attr_count);
}

static bt_array *misfit(const char *what, const bti_node *x, int rank, const int64_t *shape) {
    bti_str text = {0};
    bti_shape_text(&text, x->rank, x->shape);
    bti_str_add(&text, " ");
    bti_str_add(&text, what);
    bti_str_add(&text, " ");
    bti_shape_text(&text, rank, shape);
    bt_array *poison = bti_poisonf(BT_INVALID_ARGUMENT, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return poison;
}

/* Unknown sizes may turn out equal: that is checked at the call. */
static bool may_equal(int64_t a, int64_t b) { return a == b || bti_size_is_symbolic(a) || bti_size_is_symbolic(b); }

static int64_t size_product(int rank, const int64_t *shape) {
    int64_t product = 1;
    for (int i = 0; i < rank; i++) product = bti_size_mul(product, shape[i]);
    return product;
}

/* --- movement ------------------------------------------------------------------------------------------------------- */

bt_array *bti_reshape(bt_array *x, int rank, const int64_t *shape) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if (bti_shape_equal(node->rank, node->shape, rank, shape)) return x;
    if (!may_equal(size_product(node->rank, node->shape), size_product(rank, shape)))
        return misfit("has another number of elements than", node, rank, shape);
    return same_kind(BTI_OP_reshape, x, rank, shape, NULL, 0);
}

bt_array *bti_permute(bt_array *x, const int *axes) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t shape[BTI_MAX_RANK], attr[BTI_MAX_RANK];
    bool moved = false;
    for (int i = 0; i < node->rank; i++) {
        shape[i] = node->shape[axes[i]];
        attr[i] = axes[i];
        moved = moved || axes[i] != i;
    }
    return moved ? same_kind(BTI_OP_permute, x, node->rank, shape, attr, node->rank) : x;
}

bt_array *bti_expand(bt_array *x, int rank, const int64_t *shape) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if (bti_shape_equal(node->rank, node->shape, rank, shape)) return x;
    if (rank < node->rank) return misfit("cannot be broadcast to the smaller rank of", node, rank, shape);
    int64_t aligned[BTI_MAX_RANK];
    int front = rank - node->rank;
    for (int i = 0; i < rank; i++) {
        aligned[i] = i < front ? 1 : node->shape[i - front];
        if (aligned[i] != 1 && !may_equal(aligned[i], shape[i]))
            return misfit("cannot be broadcast to", node, rank, shape);
    }
    x = bti_reshape(x, rank, aligned);
    return bti_shape_equal(rank, aligned, rank, shape) ? x : same_kind(BTI_OP_expand, x, rank, shape, NULL, 0);
}

bt_array *bti_slice(bt_array *x, const int64_t *start, const int64_t *step, const int64_t *count) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t attr[2 * BTI_MAX_RANK];
    bool whole = true;
    for (int i = 0; i < node->rank; i++) {
        attr[i] = start[i];
        attr[node->rank + i] = count[i] == 0 || count[i] == 1 ? 1 : step[i]; /* a longer step would leave the array */
        whole = whole && start[i] == 0 && step[i] == 1 && count[i] == node->shape[i];
    }
    return whole ? x : same_kind(BTI_OP_slice, x, node->rank, count, attr, 2 * node->rank);
}

/* --- gathering ------------------------------------------------------------------------------------------------------ */

bt_array *bti_pad(bt_array *x, const int64_t *low, const int64_t *high, bt_array *value) {
    bt_array *inputs[2] = {x, value};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t shape[BTI_MAX_RANK];
    bool none = true;
    for (int i = 0; i < node->rank; i++) {
        shape[i] = bti_size_add(node->shape[i], bti_size_add(low[i], high[i]));
        none = none && low[i] == 0 && high[i] == 0;
    }
    if (none) return x;
    inputs[1] = bti_cast(value, (bt_dtype)node->dtype);
    return bti_record(BTI_OP_pad, (bt_dtype)node->dtype, node->weak, node->rank, shape, inputs, 2, low, node->rank);
}

bt_array *bti_concat(bt_array *const *arrays, int count, int axis) {
    bt_array *poison = bti_poisoned_by(arrays, count);
    if (poison) return poison;
    const bti_node *first = bti_node_of(arrays[0]);
    int64_t shape[BTI_MAX_RANK];
    memcpy(shape, first->shape, sizeof shape);
    for (int i = 1; i < count; i++) {
        const bti_node *node = bti_node_of(arrays[i]);
        bool fits = node->rank == first->rank;
        for (int d = 0; d < first->rank && fits; d++) fits = d == axis || may_equal(node->shape[d], first->shape[d]);
        if (!fits) return misfit("does not fit beside the first array,", node, first->rank, first->shape);
        shape[axis] = bti_size_add(shape[axis], node->shape[axis]);
    }
    if (count == 1) return arrays[0];
    int64_t attr = axis;
    return bti_record(BTI_OP_concat, (bt_dtype)first->dtype, first->weak, first->rank, shape, arrays, count, &attr, 1);
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
    return bti_record(BTI_OP_take, (bt_dtype)node->dtype, node->weak, node->rank, shape, inputs, 2, &attr, 1);
}

bt_array *bti_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    bt_array *inputs[3] = {x, indices, updates};
    bt_array *poison = bti_poisoned_by(inputs, 3);
    if (!poison) poison = check_indices(indices);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t wanted[BTI_MAX_RANK], attr = axis;
    memcpy(wanted, node->shape, sizeof wanted);
    wanted[axis] = bti_node_of(indices)->shape[0];
    const bti_node *update = bti_node_of(updates);
    if (!bti_shape_equal(update->rank, update->shape, node->rank, wanted))
        return misfit("are the updates; their shape must be", update, node->rank, wanted);
    inputs[2] = bti_cast(updates, (bt_dtype)node->dtype);
    return bti_record(BTI_OP_scatter_add, (bt_dtype)node->dtype, node->weak, node->rank, node->shape, inputs, 3, &attr,
                      1);
}

bt_array *bti_argsort(bt_array *x, int axis) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (!poison) poison = bti_check_index(x, axis);
    if (poison) return poison;
    int64_t attr = axis;
    return bti_record(BTI_OP_argsort, BT_I32, false, bti_node_of(x)->rank, bti_node_of(x)->shape, &x, 1, &attr, 1);
}

/* Shapes of x and indices agree but on the axis. */
static bt_array *check_along(bt_array *x, bt_array *indices, int axis) {
    bt_array *poison = check_indices(indices);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x), *index = bti_node_of(indices);
    bool fits = node->rank == index->rank;
    for (int d = 0; d < node->rank && fits; d++) fits = d == axis || node->shape[d] == index->shape[d];
    return fits ? NULL
                : misfit("are the indices; but for the axis they must have the shape of x,", index, node->rank,
                         node->shape);
}

bt_array *bti_gather_axis(bt_array *x, bt_array *indices, int axis) {
    bt_array *inputs[2] = {x, indices};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (!poison) poison = check_along(x, indices, axis);
    if (poison) return poison;
    int64_t attr = axis;
    const bti_node *node = bti_node_of(x), *index = bti_node_of(indices);
    return bti_record(BTI_OP_gather_axis, (bt_dtype)node->dtype, node->weak, node->rank, index->shape, inputs, 2, &attr,
                      1);
}

bt_array *bti_scatter_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis) {
    bt_array *inputs[3] = {x, indices, updates};
    bt_array *poison = bti_poisoned_by(inputs, 3);
    if (!poison) poison = check_along(x, indices, axis);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x), *index = bti_node_of(indices), *update = bti_node_of(updates);
    if (!bti_shape_equal(update->rank, update->shape, index->rank, index->shape))
        return misfit("are the updates; their shape must be the indices',", update, index->rank, index->shape);
    inputs[2] = bti_cast(updates, (bt_dtype)node->dtype);
    int64_t attr = axis;
    return bti_record(BTI_OP_scatter_axis, (bt_dtype)node->dtype, node->weak, node->rank, node->shape, inputs, 3, &attr,
                      1);
}

/* --- products ------------------------------------------------------------------------------------------------------- */

bt_array *bti_matmul(bt_array *a, bt_array *b) {
    bt_array *inputs[2] = {a, b};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    const bti_node *x = bti_node_of(a), *y = bti_node_of(b);
    if (x->dtype == BT_BOOL) return bti_poisonf(BT_INVALID_ARGUMENT, "takes numbers, not bool; bt_cast it first");
    int rank = x->rank;
    bool fits = rank >= 2 && y->rank == rank && may_equal(x->shape[rank - 1], y->shape[rank - 2]);
    for (int i = 0; i < rank - 2 && fits; i++) fits = may_equal(x->shape[i], y->shape[i]);
    if (!fits) return misfit("cannot be multiplied with", x, y->rank, y->shape);
    int64_t shape[BTI_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[rank - 1] = y->shape[rank - 1];
    return bti_record(BTI_OP_matmul, (bt_dtype)x->dtype, x->weak && y->weak, rank, shape, inputs, 2, NULL, 0);
}

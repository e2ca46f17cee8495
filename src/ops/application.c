/* Batching rules of no family, and what the rules are made of. */
#include <string.h>

#include "array/move.h"
#include "base/alloc.h"
#include "ops/application.h"

bt_array *bti_record_again(const bti_application *a, bt_array *(*input)(const bti_application *a, int i), int rank,
                           const int64_t *shape, const bti_attr *attr) {
    const bti_node *node = a->node;
    bt_array **inputs = bti_calloc((size_t)a->count, sizeof *inputs);
    if (!inputs) return bti_array_new(NULL);
    for (int i = 0; i < a->count; i++) inputs[i] = input(a, i);
    bt_array *made =
        bti_record_shaped((bti_op)node->op, (bt_dtype)node->dtype, node->weak, rank, shape, inputs, a->count, attr);
    bti_free(inputs);
    return made;
}

/* [...] -> [size, ...] */
static bool stacked_shape(const bti_node *node, int64_t size, int64_t *shape, bt_array **poison) {
    if (node->rank == BTI_MAX_RANK) {
        *poison = bti_poisonf(
            BT_INVALID_ARGUMENT, "%s of shape %s has no room for the axis of a batch; arrays have at most %d axes",
            bti_op_info((bti_op)node->op)->name, bti_sizes_string(node->rank, node->shape).text, BTI_MAX_RANK);
        return false;
    }
    shape[0] = size;
    memcpy(shape + 1, node->shape, node->rank * sizeof *shape);
    return true;
}

bt_array *bti_repeated(bt_array *x, int64_t size) {
    int64_t shape[BTI_MAX_RANK];
    bt_array *poison;
    if (bti_array_error(x)) return x;
    if (!stacked_shape(bti_node_of(x), size, shape, &poison)) return poison;
    return bti_expand(x, bti_rank(x) + 1, shape);
}

bt_array *bti_batched(const bti_application *a, int i) {
    return a->image[i] ? a->image[i] : bti_repeated(a->x[i], a->size);
}

bt_array *bti_record_batched(const bti_application *a, bt_array *const *inputs, const bti_attr *attr) {
    const bti_node *node = a->node;
    int64_t shape[BTI_MAX_RANK];
    bt_array *poison;
    if (!stacked_shape(node, a->size, shape, &poison)) return poison;
    return bti_record_shaped((bti_op)node->op, (bt_dtype)node->dtype, node->weak, node->rank + 1, shape, inputs,
                             a->count, attr);
}

static bt_array *record_stacks(const bti_application *a, const bti_attr *attr) {
    int64_t shape[BTI_MAX_RANK];
    bt_array *poison;
    if (!stacked_shape(a->node, a->size, shape, &poison)) return poison;
    return bti_record_again(a, bti_batched, a->node->rank + 1, shape, attr);
}

/* Operations to which a leading axis is like any other: the same of stacks. */
void bti_batch_same(bti_application *a) { a->made[0] = record_stacks(a, a->node->attr); }

/* Those that work along an axis. */
void bti_batch_along_axis(bti_application *a) {
    bti_attr attr = bti_attr_next_axis((bti_op)a->node->op, a->node->attr);
    a->made[0] = record_stacks(a, &attr);
}

void bti_batch_reduce(bti_application *a) {
    a->made[0] = record_stacks(a, &(bti_attr){.fold = {a->node->attr->fold.axes << 1, a->node->attr->fold.or_start}});
}

void bti_batch_copy(bti_application *a) {
    a->made[0] = bti_move(a->image[0], a->node->device, a->node->rule == BTI_RULE_SOFT);
}

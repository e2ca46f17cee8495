/* Kernels, movements and copies of a plan. */
#include "compile/planner.h"

int32_t bti_add_kernel(bti_planner *planner, const bti_node *node, bti_op op, int device, bt_dtype dtype, int rank,
                       const int64_t *shape, const int32_t *inputs, int input_count) {
    int32_t simple;
    if (planner->failed || bti_simplify(planner, node, op, device, dtype, rank, shape, inputs, input_count, &simple))
        return planner->failed ? 0 : simple;
    bti_value like = {.dtype = dtype, .rank = rank};
    int64_t count = 1;
    for (int i = 0; i < rank; i++) like.shape[i] = shape[i], count *= shape[i];
    bti_step step = {.op = (uint8_t)op, .device = device, .node = node, .input_count = input_count};
    uint64_t hash;
    int32_t known = bti_find_kernel(planner, &step, inputs, &like, &hash);
    if (known >= 0) return known;

    int32_t output = bti_add_value(planner, node, device, -1, dtype, rank, shape, NULL);
    if (count == 0 || planner->failed) return output; /* nothing to compute */
    bti_remember_value(planner,
                       (bti_known){.hash = hash, .step = (int32_t)planner->plan->steps.count, .value = output});
    bti_add_step(planner, step, inputs, output);
    return output;
}

int32_t bti_add_dense(bti_planner *planner, const bti_node *node, int32_t value) {
    if (planner->failed) return 0;
    const bti_value base = *bti_plan_value(planner, value);
    if (bti_layout_is_dense(base.rank, base.shape, &base.layout)) return value;
    return bti_add_kernel(planner, node, BTI_OP_copy, bti_value_device(planner, value), base.dtype, base.rank,
                          base.shape, &value, 1);
}

static int32_t copy_dense(bti_planner *planner, const bti_node *node, int32_t value, int device) {
    int32_t dense = bti_add_dense(planner, node, value);
    if (planner->failed) return 0;
    const bti_value base = *bti_plan_value(planner, dense);
    int32_t arrived = bti_add_value(planner, node, device, -1, base.dtype, base.rank, base.shape, NULL);
    if (planner->failed) return 0;
    bti_storage *storage = &planner->plan->storages.items[bti_plan_value(planner, arrived)->storage];
    storage->reader = planner->now;
    if (storage->bytes == 0) return arrived;
    bti_step step = {.kind = BTI_STEP_COPY,
                     .op = BTI_OP_copy,
                     .node = node,
                     .reader = planner->now,
                     .input_count = 1,
                     .device = bti_value_device(planner, dense)};
    bti_add_step(planner, step, &dense, arrived);
    return arrived;
}

/* Of an axis with stride 0 one element is copied. */
static int32_t copy_unexpanded(bti_planner *planner, const bti_node *node, int32_t value, int device) {
    if (bti_loads_graphs(planner, device)) return copy_dense(planner, node, value, device);
    const bti_value base = *bti_plan_value(planner, value);
    bti_value small = base;
    for (int i = 0; i < base.rank; i++)
        if (base.shape[i] > 1 && base.layout.stride[i] == 0) small.shape[i] = 1;
    if (bti_shape_equal(base.rank, base.shape, small.rank, small.shape))
        return copy_dense(planner, node, value, device);
    int32_t once = bti_add_view(planner, value, small.rank, small.shape, &small.layout);
    int32_t arrived = planner->failed ? 0 : copy_dense(planner, node, once, device);
    if (planner->failed) return 0;
    bti_layout layout = bti_plan_value(planner, arrived)->layout;
    for (int i = 0; i < base.rank; i++)
        if (small.shape[i] != base.shape[i]) layout.stride[i] = 0;
    return bti_add_view(planner, arrived, base.rank, base.shape, &layout);
}

#define REMATERIALIZE_DEPTH 8

static bool only_moves(const bti_node *node) { return bti_op_info((bti_op)node->op)->class == BTI_MOVEMENT; }

static bool is_rematerializable_at(const bti_node *node, int depth) {
    if (atomic_load(&node->state) != BTI_PENDING || node->op == BTI_OP_leaf || depth > REMATERIALIZE_DEPTH)
        return false;
    if (node->input_count == 0) return true;
    bool small_cast = node->op == BTI_OP_cast && node->rank == 0;
    return (only_moves(node) || small_cast) && is_rematerializable_at(node->inputs[0], depth + 1);
}
bool bti_is_rematerializable(const bti_node *node) { return is_rematerializable_at(node, 0); }

int32_t bti_rematerialize(bti_planner *planner, const bti_node *node, int device) {
    if (planner->failed) return 0;
    bt_dtype dtype = (bt_dtype)node->dtype;
    if (node->input_count == 0)
        return bti_add_kernel(planner, node, (bti_op)node->op, device, dtype, node->rank, node->shape, NULL, 0);
    int32_t input = bti_rematerialize(planner, node->inputs[0], device);
    if (planner->failed) return 0;
    return only_moves(node) ? bti_add_movement(planner, node, input)
                            : bti_add_kernel(planner, node, (bti_op)node->op, device, dtype, 0, NULL, &input, 1);
}

int32_t bti_add_copy(bti_planner *planner, const bti_node *node, int32_t value, int device) {
    if (planner->failed || bti_value_device(planner, value) == device) return value;
    int32_t origin = planner->copied_from.items[value];
    if (origin >= 0 && bti_value_device(planner, origin) == device) return origin; /* no round trips */
    if (bti_is_rematerializable(node)) return bti_rematerialize(planner, node, device);
    uint64_t hash;
    int32_t known = bti_find_copy(planner, value, device, &hash);
    if (known >= 0) return known;
    int32_t arrived = copy_unexpanded(planner, node, value, device);
    if (planner->failed) return 0;
    planner->copied_from.items[arrived] = value;
    bti_remember_value(planner, (bti_known){.hash = hash, .step = -1, .from = value, .value = arrived});
    return arrived;
}

int32_t bti_add_movement(bti_planner *planner, const bti_node *node, int32_t input) {
    if (planner->failed) return 0;
    int device = bti_value_device(planner, input);
    if (bti_loads_graphs(planner, device))
        return bti_add_kernel(planner, node, (bti_op)node->op, device, (bt_dtype)node->dtype, node->rank, node->shape,
                              &input, 1);
    bti_value base = *bti_plan_value(planner, input);
    bti_layout layout = {.offset = base.layout.offset};
    const int64_t *stride = base.layout.stride;
    if (node->op == BTI_OP_reshape &&
        !bti_layout_reshape(base.rank, base.shape, &base.layout, node->rank, node->shape, &layout)) {
        input = bti_add_dense(planner, node, input);
        bti_layout_dense(node->rank, node->shape, &layout);
        if (planner->failed) return 0;
        layout.offset = bti_plan_value(planner, input)->layout.offset;
    }
    for (int i = 0; i < node->rank; i++) switch (node->op) {
        case BTI_OP_permute: layout.stride[i] = stride[node->attr->permute.axis[i]]; break;
        case BTI_OP_expand: layout.stride[i] = base.shape[i] == node->shape[i] ? stride[i] : 0; break;
        case BTI_OP_slice:
            if (node->shape[i]) layout.offset += node->attr->slice.start[i] * stride[i];
            layout.stride[i] = node->attr->slice.step[i] * stride[i];
            break;
        default: break;
        }
    return bti_add_view(planner, input, node->rank, node->shape, &layout);
}

void bti_add_callback(bti_planner *planner, const bti_node *node, int32_t value) {
    int32_t read = bti_add_dense(planner, node, value);
    if (planner->last_callback >= 0) read = bti_add_barrier(planner, read, planner->last_callback);
    int32_t called =
        planner->failed ? 0 : bti_add_value(planner, node, bti_device_of(planner, node), -1, BT_U8, 0, NULL, NULL);
    if (planner->failed) return;
    bti_step step = {.op = BTI_OP_callback, .device = bti_device_of(planner, node), .node = node, .input_count = 1};
    bti_add_step(planner, step, &read, called);
    planner->last_callback = called;
}

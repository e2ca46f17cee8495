/* The value of one node: a step of one operation, or a view of what a step leaves; numbered, simplified, copied between devices as needed. */
#include "compile/fuser.h"

/* It was left out since it is made of a constant that was not computed; another thread, which has claimed the constant, has computed it meanwhile. */
static int32_t plan_late(bti_planner *planner, bti_node *node) {
    const bti_node *now = planner->now;
    int32_t value = bti_plan_node(planner, node);
    bti_note_planned(planner, node, value);
    planner->now = now;
    return value;
}

int32_t bti_value_of(bti_planner *planner, bti_node *node) {
    int32_t value = bti_planned(planner, node);
    if (value >= 0) return value;
    if (bti_is_in_order(planner, node)) return plan_late(planner, node);
    value = bti_add_value(planner, node, bti_device_of(planner, node), -1, (bt_dtype)node->dtype, node->rank,
                          node->shape, &node->layout);
    if (!planner->failed) {
        bti_storage *storage = &planner->plan->storages.items[bti_plan_value(planner, value)->storage];
        storage->external = node->buffer;
        storage->given = true;
    }
    bti_note_planned(planner, node, value);
    return value;
}

int32_t bti_value_on(bti_planner *planner, bti_node *input, int device) {
    if (bti_planned(planner, input) < 0 && bti_is_rematerializable(input))
        return bti_rematerialize(planner, input, device);
    return bti_add_copy(planner, input, bti_value_of(planner, input), device);
}

/* What is folded along several axes must lie so that neighbours among them are one axis. */
static int32_t in_folding_order(bti_planner *planner, const bti_node *node, int32_t input) {
    if (planner->failed) return 0;
    const bti_value *value = bti_plan_value(planner, input);
    bti_domain domain = {.rank = (uint8_t)value->rank, .reduced = (uint8_t)node->attr->fold.axes};
    for (int i = 0; i < value->rank; i++) domain.shape[i] = value->shape[i];
    return bti_domain_folds(&domain, value->layout.stride) ? input : bti_add_dense(planner, node, input);
}

static int32_t plan_kernel(bti_planner *planner, bti_node *node) {
    int32_t few[8], *inputs = few;
    if (node->input_count > 8) {
        inputs = bti_alloc((size_t)node->input_count * sizeof *inputs);
        if (!inputs) {
            planner->failed = true;
            return 0;
        }
    }
    for (int i = 0; i < node->input_count; i++)
        inputs[i] = bti_value_on(planner, node->inputs[i], bti_device_of(planner, node));
    if (bti_op_info((bti_op)node->op)->class == BTI_REDUCE) inputs[0] = in_folding_order(planner, node, inputs[0]);
    int32_t value = bti_add_kernel(planner, node, (bti_op)node->op, bti_device_of(planner, node), (bt_dtype)node->dtype,
                                   node->rank, node->shape, inputs, node->input_count);
    if (inputs != few) bti_free(inputs);
    return value;
}

static int32_t plan_result(bti_planner *planner, bti_node *result) {
    const bti_node *tuple = result->inputs[0];
    if (bti_planned(planner, tuple) >= 0) return bti_value_of_result(planner, tuple, result->attr->result.index);
    int32_t value = bti_add_value(planner, result, bti_device_of(planner, result), -1, (bt_dtype)result->dtype,
                                  result->rank, result->shape, NULL); /* the tuple is done */
    if (planner->failed) return 0;
    bti_storage *storage = &planner->plan->storages.items[bti_plan_value(planner, value)->storage];
    storage->external = tuple->tuple->buffers[result->attr->result.index];
    storage->given = true;
    return value;
}

int32_t bti_plan_node(bti_planner *planner, bti_node *node) {
    planner->now = node;
    bti_class class = bti_op_info((bti_op)node->op)->class;
    if (node->op == BTI_OP_result) return plan_result(planner, node);
    if (class != BTI_MOVEMENT && class != BTI_EFFECT && node->op != BTI_OP_callback) return plan_kernel(planner, node);
    bti_node *input = node->inputs[0];
    int32_t value = bti_value_on(planner, input, bti_device_of(planner, node));
    if (node->op == BTI_OP_callback) bti_add_callback(planner, node, value);
    if (node->op == BTI_OP_barrier && bti_loads_graphs(planner, bti_device_of(planner, node)))
        return plan_kernel(planner, node);
    if (node->op == BTI_OP_barrier) {
        const bti_node *after = node->inputs[1];
        return bti_add_barrier(planner, value, bti_planned(planner, after));
    }
    if (node->op == BTI_OP_copy && bti_device_of(planner, input) == bti_device_of(planner, node))
        return bti_add_dense(planner, node, value);
    return class == BTI_MOVEMENT ? bti_add_movement(planner, node, value) : value;
}

/* Tuples: one step for an operation with several results. */
#include "compile/planner.h"

/* Equal ones are one step. Its outputs are nothing until they are read. */
static void plan_order(bti_planner *planner, bti_node *node) {
    planner->now = node;
    int32_t input = bti_value_on(planner, node->inputs[0], node->device), outputs[2];
    bti_step step = {.op = node->op,
                     .device = node->device,
                     .node = node,
                     .input_count = 1,
                     .output_count = node->tuple->result_count};
    uint64_t hash;
    if (planner->failed) return;
    int32_t number = bti_find_kernel(planner, &step, &input, NULL, &hash);
    if (number < 0) {
        number = (int32_t)planner->plan->steps.count;
        for (int i = 0; i < node->tuple->result_count; i++) outputs[i] = bti_add_nothing(planner, node);
        if (planner->failed) return;
        bti_remember_value(planner, (bti_known){.hash = hash, .step = number, .value = number});
        bti_add_step_of_many(planner, step, &input, outputs);
    }
    node->mark = planner->mark;
    node->mark_index = number;
}

void bti_plan_tuple(bti_planner *planner, bti_node *node) {
    if (node->tuple->region_count)
        bti_plan_control(planner, node);
    else if (node->host)
        bti_plan_custom(planner, node);
    else
        plan_order(planner, node);
}

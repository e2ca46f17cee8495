/* Tuples: one step for an operation with several results. */
#include "base/alloc.h"
#include "compile/planner.h"

enum { MOST_INPUTS = 8, MOST_RESULTS = 3 }; /* of attention (ir/attention.h) */

/* Equal ones are one step. Its outputs are nothing until they are read. */
static void plan_work(bti_planner *planner, bti_node *node) {
    int32_t inputs[MOST_INPUTS], outputs[MOST_RESULTS];
    planner->now = node;
    for (int i = 0; i < node->input_count; i++)
        inputs[i] = bti_value_on(planner, node->inputs[i], bti_device_of(planner, node));
    bti_step step = {.op = node->op,
                     .device = bti_device_of(planner, node),
                     .node = node,
                     .input_count = node->input_count,
                     .output_count = node->tuple->result_count};
    uint64_t hash;
    if (planner->failed) return;
    int32_t number = bti_find_kernel(planner, &step, inputs, NULL, &hash);
    if (number < 0) {
        number = (int32_t)planner->plan->steps.count;
        for (int i = 0; i < node->tuple->result_count; i++) outputs[i] = bti_add_nothing(planner, node);
        if (planner->failed) return;
        bti_remember_value(planner, (bti_known){.hash = hash, .step = number, .value = number});
        bti_add_step_of_many(planner, step, inputs, outputs);
    }
    bti_note_planned(planner, node, number);
}

/* A loop or a branch of a device that loads graphs: its regions are texts within the segment's. */
static void plan_whole_control(bti_planner *planner, bti_node *node) {
    int results = node->tuple->result_count;
    int32_t *inputs = bti_alloc(((size_t)node->input_count + (size_t)results + 1) * sizeof *inputs);
    planner->now = node;
    if (!inputs) planner->failed = true;
    for (int i = 0; i < node->input_count && !planner->failed; i++)
        inputs[i] = bti_value_on(planner, node->inputs[i], bti_device_of(planner, node));
    for (int i = 0; i < results && !planner->failed; i++) {
        const bti_type *type = bti_tuple_type(node->tuple, i);
        inputs[node->input_count + i] =
            bti_add_value(planner, node, bti_device_of(planner, node), -1, type->dtype, type->rank, type->shape, NULL);
    }
    bti_step step = {.op = node->op,
                     .device = bti_device_of(planner, node),
                     .node = node,
                     .input_count = node->input_count,
                     .output_count = results};
    if (!planner->failed) {
        bti_note_planned(planner, node, (int32_t)planner->plan->steps.count);
        bti_add_step_of_many(planner, step, inputs, inputs + node->input_count);
    }
    bti_free(inputs);
}

/* Inputs where the devices read them, and outputs there. */
static bool place_parts(bti_planner *planner, const bti_node *node, int32_t *inputs) {
    for (int i = 0; i < node->input_count && !planner->failed; i++) {
        bti_node *part = node->inputs[i];
        inputs[i] = bti_add_dense(planner, part, bti_value_on(planner, part, part->device));
    }
    return !planner->failed;
}

static void add_collective(bti_planner *planner, const bti_node *node, const int32_t *inputs, int32_t *outputs) {
    for (int i = 0; i < node->input_count && !planner->failed; i++) {
        const bti_type *type = bti_tuple_type(node->tuple, i);
        outputs[i] =
            bti_add_value(planner, node, node->inputs[i]->device, -1, type->dtype, type->rank, type->shape, NULL);
    }
    bti_step step = {.kind = BTI_STEP_COLLECTIVE,
                     .op = node->op,
                     .device = bti_device_of(planner, node),
                     .group = node->input_count,
                     .node = node,
                     .input_count = node->input_count,
                     .output_count = node->input_count};
    if (!planner->failed) bti_add_step_of_many(planner, step, inputs, outputs);
}

static void plan_collective(bti_planner *planner, bti_node *node) {
    bti_step like = {
        .op = node->op, .device = bti_device_of(planner, node), .node = node, .input_count = node->input_count};
    int32_t *inputs = bti_alloc(2 * (size_t)node->input_count * sizeof *inputs);
    planner->now = node;
    if (!inputs) planner->failed = true;
    if (!inputs || !place_parts(planner, node, inputs)) {
        bti_free(inputs);
        return;
    }
    uint64_t hash;
    int32_t number = bti_find_kernel(planner, &like, inputs, NULL, &hash);
    if (number < 0) {
        number = (int32_t)planner->plan->steps.count;
        add_collective(planner, node, inputs, inputs + node->input_count);
        bti_remember_value(planner, (bti_known){.hash = hash, .step = number, .value = number});
    }
    if (!planner->failed) bti_note_planned(planner, node, number);
    bti_free(inputs);
}

void bti_plan_tuple(bti_planner *planner, bti_node *node) {
    if (bti_op_info((bti_op)node->op)->class == BTI_COLLECTIVE) {
        plan_collective(planner, node);
        return;
    }
    if (node->tuple->region_count && bti_loads_graphs(planner, bti_device_of(planner, node)))
        plan_whole_control(planner, node);
    else if (node->tuple->region_count)
        bti_plan_control(planner, node);
    else if (node->host)
        bti_plan_custom(planner, node);
    else
        plan_work(planner, node);
}

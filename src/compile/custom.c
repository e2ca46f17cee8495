/* Operations of the program's: one step for all results. Equal calls are one step, as other operations are. */
#include "base/alloc.h"
#include "compile/planner.h"

static bool makes(const bti_planner *planner, const bti_step *step, const bti_tuple *tuple) {
    for (int i = 0; i < tuple->result_count; i++) {
        const bti_value *output = bti_plan_output(planner->plan, step, i);
        const bti_type *type = bti_tuple_type(tuple, i);
        if (output->dtype != type->dtype || !bti_shape_equal(output->rank, output->shape, type->rank, type->shape))
            return false;
    }
    return step->output_count == tuple->result_count;
}

/* inputs, outputs: room for them. The step's number. */
static int32_t add_custom(bti_planner *planner, bti_node *node, int32_t *inputs, int32_t *outputs) {
    const bti_tuple *tuple = node->tuple;
    bti_step step = {.op = node->op,
                     .device = bti_device_of(planner, node),
                     .node = node,
                     .own_kernel =
                         bti_host_has_kernel(node->host, planner->how->target(bti_device_of(planner, node))->language),
                     .input_count = node->input_count,
                     .output_count = tuple->result_count};
    bti_known known = {.step = -1};
    for (int i = 0; i < node->input_count && !planner->failed; i++)
        inputs[i] = bti_add_dense(planner, node, bti_value_on(planner, node->inputs[i], bti_device_of(planner, node)));
    int32_t equal = planner->failed ? -1 : bti_find_kernel(planner, &step, inputs, NULL, &known.hash);
    if (equal >= 0 && makes(planner, &planner->plan->steps.items[equal], tuple)) return equal;
    for (int i = 0; i < tuple->result_count && !planner->failed; i++) {
        const bti_type *type = bti_tuple_type(tuple, i);
        outputs[i] =
            bti_add_value(planner, node, bti_device_of(planner, node), -1, type->dtype, type->rank, type->shape, NULL);
    }
    known.step = known.value = (int32_t)planner->plan->steps.count;
    if (planner->failed) return 0;
    bti_remember_value(planner, known);
    bti_add_step_of_many(planner, step, inputs, outputs);
    return known.step;
}

void bti_plan_custom(bti_planner *planner, bti_node *node) {
    size_t operands = (size_t)node->input_count + (size_t)node->tuple->result_count;
    int32_t *room = bti_alloc(operands * sizeof *room);
    planner->now = node;
    if (!room) planner->failed = true;
    if (room) {
        int32_t number = add_custom(planner, node, room, room + node->input_count);
        bti_note_planned(planner, node, number);
    }
    bti_free(room);
}

/* Tuples: operations that run regions. A region is planned by itself, once, whatever the number of times that it runs: its inputs
 * and outputs are storages that each run binds. */
#include "base/alloc.h"
#include "compile/mark.h"
#include "compile/planner.h"
#include "ir/region.h"

/* --- the plan of a region ----------------------------------------------------------------------------------------------- */

/* An output in memory of its own, dense, that a step of the plan writes. */
static int32_t own_output(bti_planner *planner, bti_node *output, const int32_t *before, int count) {
    int32_t value = bti_value_of(planner, output);
    if (planner->failed) return 0;
    const bti_value v = *bti_plan_value(planner, value);
    const bti_storage *storage = &planner->plan->storages.items[v.storage];
    bool own = !storage->given && v.layout.offset == 0 && bti_layout_is_dense(v.rank, v.shape, &v.layout) &&
               storage->bytes == bti_value_bytes(&v);
    for (int o = 0; o < count && own; o++) own = bti_plan_value(planner, before[o])->storage != v.storage;
    if (own) return value;
    int32_t copy = bti_add_value(planner, output, output->device, -1, v.dtype, v.rank, v.shape, NULL);
    if (planner->failed || bti_node_count(output) == 0) return copy;
    bti_step step = {.op = BTI_OP_copy, .device = output->device, .node = output, .input_count = 1};
    bti_add_step(planner, step, &value, copy);
    return copy;
}

static bt_status plan_region(const bti_planner *outer, const bti_region *region, int device, bti_plan *plan) {
    bti_planner planner = {.plan = plan, .fusing = outer->fusing, .mark = bti_next_mark()};
    int32_t *outputs = bti_alloc((size_t)region->output_count * sizeof *outputs);
    if (!outputs) return bti_no_memory();
    for (int i = 0; i < region->input_count; i++) (void)bti_value_of(&planner, region->inputs[i]);
    for (int i = 0; i < region->node_count && !planner.failed; i++) {
        bti_node *node = region->nodes[i];
        if (node->tuple) {
            bti_plan_tuple(&planner, node);
            continue;
        }
        int32_t value = bti_plan_node(&planner, node);
        node->mark = planner.mark;
        node->mark_index = value;
    }
    for (int o = 0; o < region->output_count && !planner.failed; o++) {
        outputs[o] = own_output(&planner, region->outputs[o], outputs, o);
        if (!bti_vec_push(&plan->results, ((bti_plan_result){region->outputs[o], outputs[o], -1})))
            planner.failed = true;
    }
    bti_free(outputs);
    (void)device;
    return bti_finish_plan(&planner, true, (size_t)region->node_count);
}

/* --- the step of a tuple -------------------------------------------------------------------------------------------------- */

static int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; } /* BTI_MEMORY_ALIGN of drivers */

/* Lays out the scratch memory; its bytes. */
static int64_t lay_out_scratch(bti_control *control, const bti_node *node) {
    int64_t bytes = 0;
    for (int p = 0; p < control->plan_count; p++) {
        const bti_plan *plan = &control->plans[p];
        for (size_t d = 0; d < plan->arenas.count; d++)
            if (plan->arenas.items[d] > control->arena_bytes) control->arena_bytes = plan->arenas.items[d];
    }
    bytes = rounded(control->arena_bytes);
    control->test_offset = bytes;
    if (node->op == BTI_OP_while) bytes += 256;
    for (int i = 0; i < control->carried; i++) {
        control->carry_offset[i] = bytes;
        const bti_type *type = &node->tuple->types[i];
        int64_t size = (int64_t)bt_dtype_size(type->dtype);
        for (int d = 0; d < type->rank; d++) size *= type->shape[d];
        bytes += rounded(size);
    }
    return bytes;
}

static bool fill_control(bti_planner *planner, bti_control *control, const bti_node *node) {
    const bti_tuple *tuple = node->tuple;
    control->op = node->op;
    control->plans = bti_calloc((size_t)tuple->region_count, sizeof *control->plans);
    if (!control->plans) return false;
    control->plan_count = tuple->region_count;
    if (node->op == BTI_OP_scan) {
        control->steps = node->attr[0];
        control->carried = (int)node->attr[1];
        control->by_row = (int)node->attr[2];
        control->reverse = node->attr[3] != 0;
    } else if (node->op == BTI_OP_while) {
        control->carried = (int)node->attr[0];
        control->steps = node->attr[1];
    }
    control->carry_offset = bti_calloc((size_t)control->carried + 1, sizeof *control->carry_offset);
    for (int r = 0; r < tuple->region_count; r++)
        if (plan_region(planner, tuple->regions[r], node->device, &control->plans[r]) != BT_OK) return false;
    return control->carry_offset != NULL;
}

static int32_t add_scratch(bti_planner *planner, const bti_node *node, int64_t bytes) {
    bti_layout layout = {.stride = {1}};
    return bti_add_value(planner, node, node->device, -1, BT_U8, 1, &bytes, &layout);
}

void bti_plan_tuple(bti_planner *planner, bti_node *node) {
    bti_plan *plan = planner->plan;
    int count = node->tuple->result_count;
    bti_control control = {0};
    int32_t *inputs = bti_alloc(((size_t)node->input_count + (size_t)count + 1) * sizeof *inputs);
    bool planned = inputs && fill_control(planner, &control, node);
    if (!bti_vec_push(&plan->controls, control)) planned = false; /* from here on the plan frees it */
    if (!planned) planner->failed = true;
    planner->now = node;
    for (int i = 0; i < node->input_count && !planner->failed; i++)
        inputs[i] = bti_add_dense(planner, node, bti_value_on(planner, node->inputs[i], node->device));
    int32_t *outputs = inputs + node->input_count;
    for (int i = 0; i < count && !planner->failed; i++) {
        const bti_type *type = &node->tuple->types[i];
        outputs[i] = bti_add_value(planner, node, node->device, -1, type->dtype, type->rank, type->shape, NULL);
    }
    if (!planner->failed) {
        bti_control *kept = &plan->controls.items[plan->controls.count - 1];
        outputs[count] = add_scratch(planner, node, lay_out_scratch(kept, node));
    }
    if (!planner->failed) {
        bti_step step = {.kind = BTI_STEP_CONTROL,
                         .op = node->op,
                         .device = node->device,
                         .node = node,
                         .input_count = node->input_count,
                         .output_count = count + 1,
                         .control = (int32_t)plan->controls.count - 1};
        node->mark = planner->mark;
        node->mark_index = (int64_t)plan->steps.count;
        bti_add_step_of_many(planner, step, inputs, outputs);
    }
    bti_free(inputs);
}

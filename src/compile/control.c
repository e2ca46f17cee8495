/* Operations that run regions. A region is planned by itself, once, whatever the number of times that it runs: its inputs
 * and outputs are storages that each run binds. */
#include "base/alloc.h"
#include "compile/planner.h"
#include "ir/region.h"

static int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; } /* BTI_MEMORY_ALIGN of drivers */

/* Has each step write what is carried where it lies, if the body reads it before it writes it, and not later; whether it does. */
static bool write_over(bti_control *control, int carried) {
    bti_plan *body = &control->plans[control->plan_count - 1];
    int32_t result = body->values.items[body->results.items[carried].value].storage;
    return body->storages.items[result].in_place = bti_passes_on(body, carried, result);
}

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
        control->carry_offset[i] = write_over(control, i) ? -1 : bytes;
        if (control->carry_offset[i] < 0) continue;
        const bti_type *type = bti_tuple_type(node->tuple, i);
        int64_t size = (int64_t)bt_dtype_size(type->dtype);
        for (int d = 0; d < type->rank; d++) size *= type->shape[d];
        bytes += rounded(size);
    }
    return bytes;
}

/* --- inputs ----------------------------------------------------------------------------------------------------------- */

/* Whether rows of x are read where they lie: vectors of a kernel read what is contiguous, or one element. */
static bool has_rows(const bti_value *x) {
    int last = x->rank - 1;
    while (last > 0 && x->shape[last] == 1) last--;
    bool read = x->storage >= 0 && (last <= 0 || x->layout.stride[last] <= 1);
    for (int d = 1; d < x->rank; d++) read = read && x->layout.stride[d] >= 0;
    return read;
}

/* The values that the step is given: dense, but for rows. */
static void add_inputs(bti_planner *planner, const bti_node *node, int32_t *inputs) {
    bool scan = node->op == BTI_OP_scan;
    int first = scan ? node->attr->scan.carried : 0, behind = scan ? first + node->attr->scan.by_row : 0;
    for (int i = 0; i < node->input_count && !planner->failed; i++) {
        inputs[i] = bti_value_on(planner, node->inputs[i], bti_device_of(planner, node));
        bool by_row = i >= first && i < behind && !planner->failed;
        if (!by_row || !has_rows(bti_plan_value(planner, inputs[i])))
            inputs[i] = bti_add_dense(planner, node->inputs[i], inputs[i]);
    }
}

/* The layouts of what a step of a scan is given, of which rows may be no dense ones. NULL when memory is short. */
static bti_layout *lay_out_given(bti_planner *planner, bti_control *control, const bti_region *body,
                                 const int32_t *inputs) {
    bti_layout *given = bti_calloc((size_t)body->input_count + 1, sizeof *given);
    control->row_move = bti_calloc((size_t)control->by_row + 1, sizeof *control->row_move);
    if (!given || !control->row_move) {
        bti_free(given);
        return NULL;
    }
    for (int i = 0; i < body->input_count; i++)
        bti_layout_dense(body->inputs[i]->rank, body->inputs[i]->shape, &given[i]);
    for (int r = 0; r < control->by_row; r++) {
        const bti_value *x = bti_plan_value(planner, inputs[control->carried + r]);
        control->row_move[r] = x->layout.stride[0] * (int64_t)bt_dtype_size(x->dtype);
        for (int d = 1; d < x->rank; d++) given[control->carried + r].stride[d - 1] = x->layout.stride[d];
    }
    return given;
}

/* --- regions ---------------------------------------------------------------------------------------------------------- */

static bool plan_scan(bti_planner *planner, bti_control *control, const bti_node *node, const int32_t *inputs) {
    bool *read = bti_use_of(planner, node)->read;
    control->steps = node->attr->scan.length;
    control->carried = node->attr->scan.carried;
    control->by_row = node->attr->scan.by_row;
    control->reverse = node->attr->scan.reverse != 0;
    for (int i = 0; i < control->carried; i++) read[i] = true;
    bti_layout *given = lay_out_given(planner, control, node->tuple->regions[0], inputs);
    bool planned = given && planner->plan_region(planner, node, 0, read, given, &control->plans[0]) == BT_OK;
    bti_free(given);
    return planned;
}

static bool fill_control(bti_planner *planner, bti_control *control, const bti_node *node, const int32_t *inputs) {
    const bti_tuple *tuple = node->tuple;
    bool planned = true;
    control->op = node->op;
    control->plans = bti_calloc((size_t)tuple->region_count, sizeof *control->plans);
    if (!control->plans) return false;
    control->plan_count = tuple->region_count;
    if (node->op == BTI_OP_scan)
        planned = plan_scan(planner, control, node, inputs);
    else if (node->op == BTI_OP_while) {
        control->carried = (int)node->attr->loop.carried;
        control->steps = node->attr->loop.most;
    }
    control->carry_offset = bti_calloc((size_t)control->carried + 1, sizeof *control->carry_offset);
    for (int r = 0; r < tuple->region_count && planned && node->op != BTI_OP_scan; r++)
        planned = planner->plan_region(planner, node, r, NULL, NULL, &control->plans[r]) == BT_OK;
    return planned && control->carry_offset;
}

static int32_t add_scratch(bti_planner *planner, const bti_node *node, int64_t bytes) {
    bti_layout layout = {.stride = {1}};
    return bti_add_value(planner, node, bti_device_of(planner, node), -1, BT_U8, 1, &bytes, &layout);
}

void bti_plan_control(bti_planner *planner, bti_node *node) {
    bti_plan *plan = planner->plan;
    int count = node->tuple->result_count;
    bti_control control = {0};
    int32_t *inputs = bti_alloc(((size_t)node->input_count + (size_t)count + 1) * sizeof *inputs);
    planner->now = node;
    if (inputs) add_inputs(planner, node, inputs);
    bool planned = inputs && !planner->failed && bti_vec_reserve(&plan->controls, 1) &&
                   fill_control(planner, &control, node, inputs);
    if (plan->controls.count < plan->controls.capacity) plan->controls.items[plan->controls.count++] = control;
    if (!planned) planner->failed = true; /* the plan frees what there is of it */
    int32_t *outputs = inputs + node->input_count;
    for (int i = 0; i < count && !planner->failed; i++) {
        const bti_type *type = bti_tuple_type(node->tuple, i);
        bool rows = node->op == BTI_OP_scan && i >= node->attr->scan.carried;
        if (rows && !bti_use_of(planner, node)->read[i])
            outputs[i] = bti_add_nothing(planner, node);
        else
            outputs[i] = bti_add_value(planner, node, bti_device_of(planner, node), -1, type->dtype, type->rank,
                                       type->shape, NULL);
    }
    if (!planner->failed) {
        bti_control *kept = &plan->controls.items[plan->controls.count - 1];
        outputs[count] = add_scratch(planner, node, lay_out_scratch(kept, node));
    }
    if (!planner->failed) {
        bti_step step = {.kind = BTI_STEP_CONTROL,
                         .op = node->op,
                         .device = bti_device_of(planner, node),
                         .node = node,
                         .input_count = node->input_count,
                         .output_count = count + 1,
                         .control = (int32_t)plan->controls.count - 1};
        bti_note_planned(planner, node, (int32_t)plan->steps.count);
        bti_add_step_of_many(planner, step, inputs, outputs);
    }
    bti_free(inputs);
}

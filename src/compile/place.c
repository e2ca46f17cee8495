/* The first pass: nodes become steps of one operation each, on their devices, and views of what steps leave. The walk numbers values, computes
 * constants and copies between devices as it goes: what a node reads is the simplified value, with its layout, on the node's device. */
#include "compile/fuser.h"
#include "ir/region.h"

/* --- what is kept ------------------------------------------------------------------------------------------------------ */

/* Whether what the program holds but did not ask for is kept: at once where it is in memory anyway, or lives long; what
 * would only be stored for its sake, when it is computed for the second time. Nested expressions hold what nobody reads. */
static bool is_kept(bti_planner *planner, const bti_node *node, int32_t value) {
    if (planner->failed) return false;
    if (node->op == BTI_OP_callback) return true; /* another plan does not call again */
    if (!atomic_load(&node->handles)) return false;
    if (planner->how->fusing != BTI_FUSED || node->passed || node->forget) return true;
    int32_t maker = planner->plan->storages.items[bti_plan_value(planner, value)->storage].first_step;
    const bti_step *step = maker < 0 ? NULL : &planner->plan->steps.items[maker];
    if (step && bti_step_is_inner(planner, step)) return false;
    return !step || !(bti_is_fusable(step) || bti_is_take(step)); /* bti_keep_takes() comes back to those */
}

static void add_result(bti_planner *planner, bti_node *node, int32_t value, int32_t of_tuple) {
    if (!bti_vec_push(&planner->plan->results, ((bti_plan_result){node, value, of_tuple}))) planner->failed = true;
}

/* Of a tuple: some of its results were not asked for, and may be later. The program's function is not called again for a rule that reads what
 * nobody else asked for. */
static void keep_results(bti_planner *planner, bti_node *tuple) {
    bti_tuple *of = tuple->tuple;
    const bti_tuple_use *use = planner->failed ? NULL : bti_use_of(planner, tuple);
    if (!use || (atomic_load(&of->alive) <= use->reached && !(tuple->host && use->held))) return;
    if (!of->buffers && !(of->buffers = bti_calloc((size_t)of->result_count + 1, sizeof *of->buffers))) {
        planner->failed = true;
        return;
    }
    for (int i = 0; i < of->result_count; i++) add_result(planner, tuple, bti_value_of_result(planner, tuple, i), i);
}

static bool add_tuple_use(bti_planner *planner, const bti_node *tuple) {
    bti_tuple_use use = {.read = bti_calloc((size_t)tuple->tuple->result_count + 1, sizeof *use.read)};
    if (!use.read || !bti_vec_push(&planner->tuples, use)) {
        bti_free(use.read);
        return false;
    }
    return bti_number_put(&planner->tuple_numbers, tuple, (int64_t)planner->tuples.count - 1);
}

/* Which results of tuples are computed for somebody: those among the nodes. asked: by node; NULL: none. */
static void note_reads(bti_planner *planner, bti_node *const *nodes, size_t count, const bool *asked) {
    for (size_t i = 0; i < count && !planner->failed; i++)
        if (nodes[i]->tuple) planner->failed = !add_tuple_use(planner, nodes[i]);
    for (size_t i = 0; i < count && planner->tuples.count && !planner->failed; i++) {
        if (nodes[i]->op != BTI_OP_result) continue;
        const bti_node *tuple = nodes[i]->inputs[0];
        if (bti_number_of(&planner->tuple_numbers, tuple) < 0) continue; /* it is done */
        bti_tuple_use *use = bti_use_of(planner, tuple);
        use->reached++;
        use->held = use->held || (asked && asked[i]) || atomic_load(&nodes[i]->handles);
        use->read[nodes[i]->attr->result.index] = true;
    }
}

/* Others hold results that were not asked for: all are computed. */
static void note_other_readers(bti_planner *planner) {
    const bti_order *order = planner->order;
    for (size_t i = 0; i < order->count && planner->tuples.count && !planner->failed; i++) {
        const bti_tuple *tuple = order->items[i]->tuple;
        bti_tuple_use *use = tuple ? bti_use_of(planner, order->items[i]) : NULL;
        for (int r = 0; tuple && r < tuple->result_count && atomic_load(&tuple->alive) > use->reached; r++)
            use->read[r] = true;
    }
}

/* By node of the order, whether it was asked for; -1 as what each is planned as. */
static bool *begin_order(bti_planner *planner) {
    const bti_order *order = planner->order;
    bool *asked = bti_calloc(order->count + 1, sizeof *asked);
    planner->planned = bti_alloc((order->count + 1) * sizeof *planner->planned);
    if (!asked || !planner->planned) planner->failed = true;
    for (size_t i = 0; i < order->count && !planner->failed; i++) planner->planned[i] = -1;
    for (size_t i = 0; i < planner->wanted_count && !planner->failed; i++)
        if (bti_is_claimed(planner->wanted[i], order)) asked[planner->wanted[i]->claimed] = true;
    return asked;
}

static void place_order(bti_planner *planner) {
    const bti_order *order = planner->order;
    bool *asked = begin_order(planner);
    note_reads(planner, order->items, order->count, asked);
    note_other_readers(planner);
    for (size_t i = 0; i < order->count && !planner->failed; i++) {
        bti_node *node = order->items[i];
        if (!bti_is_claimed(node, order)) continue; /* a constant: made where it is read */
        if (node->tuple) {
            bti_plan_tuple(planner, node);
            keep_results(planner, node);
            continue;
        }
        if (!asked[i] && bti_is_rematerializable(node)) continue;
        int32_t value = bti_plan_node(planner, node);
        bti_note_planned(planner, node, value);
        if (asked[i] || is_kept(planner, node, value)) add_result(planner, node, value, -1);
    }
    bti_free(asked);
}

/* --- regions ------------------------------------------------------------------------------------------------------------ */

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
    int32_t copy = bti_add_value(planner, output, bti_device_of(planner, output), -1, v.dtype, v.rank, v.shape, NULL);
    if (planner->failed || bti_node_count(output) == 0) return copy;
    bti_step step = {.op = BTI_OP_copy, .device = bti_device_of(planner, output), .node = output, .input_count = 1};
    bti_add_step(planner, step, &value, copy);
    return copy;
}

static bool is_read(const bti_planner *planner, int output) { return !planner->read || planner->read[output]; }

/* By node of the region: whether an output that is read is made of it. NULL when memory is short. */
static bool *find_needed(const bti_planner *planner) {
    const bti_region *region = planner->region;
    bool *needed = bti_calloc((size_t)(region->input_count + region->node_count) + 1, sizeof *needed);
    for (int o = 0; o < region->output_count && needed; o++)
        if (is_read(planner, o)) needed[bti_region_place(region, region->outputs[o])] = true;
    for (int n = region->node_count; n-- > 0 && needed;)
        for (int i = 0; i < region->nodes[n]->input_count && needed[region->input_count + n]; i++)
            needed[bti_region_place(region, region->nodes[n]->inputs[i])] = true;
    return needed;
}

/* The plan's first storages are the region's inputs, its results are the region's outputs. */
static void place_region(bti_planner *planner) {
    const bti_region *region = planner->region;
    int32_t *outputs = bti_alloc(((size_t)region->output_count + 1) * sizeof *outputs);
    bool *needed = find_needed(planner);
    if (!outputs || !needed) planner->failed = true;
    note_reads(planner, region->nodes, (size_t)region->node_count, NULL);
    for (int i = 0; i < region->input_count && !planner->failed; i++) {
        int32_t value = bti_value_of(planner, region->inputs[i]);
        if (planner->given && !planner->failed) bti_plan_value(planner, value)->layout = planner->given[i];
    }
    for (int i = 0; i < region->node_count && !planner->failed; i++) {
        bti_node *node = region->nodes[i];
        if (!needed[region->input_count + i]) continue;
        if (node->tuple) {
            bti_plan_tuple(planner, node);
            continue;
        }
        int32_t value = bti_plan_node(planner, node);
        bti_note_planned(planner, node, value);
    }
    for (int o = 0; o < region->output_count && !planner->failed; o++) {
        outputs[o] = is_read(planner, o) ? own_output(planner, region->outputs[o], outputs, o)
                                         : bti_add_nothing(planner, region->outputs[o]);
        add_result(planner, region->outputs[o], outputs[o], -1);
    }
    bti_free(outputs);
    bti_free(needed);
}

void bti_pass_place(bti_planner *planner) {
    if (planner->region)
        place_region(planner);
    else
        place_order(planner);
    planner->known_used = 0; /* from here on of kernels */
    bti_vec_free(&planner->known);
}

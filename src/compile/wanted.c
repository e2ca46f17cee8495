/* From wanted nodes to a plan. */
#include "compile/compile.h"

#include "compile/fuse.h"
#include "compile/mark.h"
#include "compile/planner.h"

/* --- which nodes are needed ------------------------------------------------------------------------------------------ */

static bool add_to_order(bti_nodes *order, bti_node *node, uint64_t mark) {
    if (node->mark == mark || atomic_load(&node->state) != BTI_PENDING) return true;
    node->mark = mark;
    return bti_vec_push(order, node);
}

bt_status bti_reach(bti_node *const *wanted, size_t count, bti_nodes *order) {
    uint64_t mark = bti_next_mark();
    for (size_t i = 0; i < count; i++)
        if (!add_to_order(order, wanted[i], mark)) goto short_of_memory;
    for (size_t next = 0; next < order->count; next++) {
        const bti_node *node = order->items[next];
        for (int i = 0; i < node->input_count; i++)
            if (!add_to_order(order, node->inputs[i], mark)) goto short_of_memory;
    }
    bti_nodes_sort(order->items, order->count);
    return BT_OK;
short_of_memory:
    return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory while collecting %zu operations", order->count);
}

/* --- what is kept ------------------------------------------------------------------------------------------------------ */

/* Whether what the program holds but did not ask for is kept: at once where it is in memory anyway, or lives long; what
 * would only be stored for its sake, when it is computed for the second time. Nested expressions hold what nobody reads. */
static bool is_kept(bti_planner *planner, const bti_node *node, int32_t value, bti_fusing fusing) {
    if (planner->failed || !atomic_load(&node->handles)) return false;
    if (fusing != BTI_FUSED || node->passed || node->forget) return true;
    int32_t maker = planner->plan->storages.items[bti_plan_value(planner, value)->storage].first_step;
    return maker < 0 || !bti_is_fusable(&planner->plan->steps.items[maker]);
}

static void add_result(bti_planner *planner, bti_node *node, int32_t value, int32_t of_tuple) {
    if (!bti_vec_push(&planner->plan->results, ((bti_plan_result){node, value, of_tuple}))) planner->failed = true;
}

/* Of a tuple: some of its results were not asked for, and may be later. */
static void keep_results(bti_planner *planner, bti_node *tuple) {
    if (planner->failed || atomic_load(&tuple->tuple->alive) <= tuple->tuple->reached) return;
    bti_tuple *of = tuple->tuple;
    if (!of->buffers && !(of->buffers = bti_calloc((size_t)of->result_count + 1, sizeof *of->buffers))) {
        planner->failed = true;
        return;
    }
    const bti_step *step = &planner->plan->steps.items[tuple->mark_index];
    int first = step->first_operand + step->input_count;
    for (int i = 0; i < of->result_count; i++) add_result(planner, tuple, planner->plan->operands.items[first + i], i);
}

static void count_reached_results(const bti_nodes *order) {
    for (size_t i = 0; i < order->count; i++)
        if (order->items[i]->tuple) order->items[i]->tuple->reached = 0;
    for (size_t i = 0; i < order->count; i++)
        if (order->items[i]->op == BTI_OP_result) order->items[i]->inputs[0]->tuple->reached++;
}

bt_status bti_compile(const bti_nodes *order, bti_node *const *wanted, size_t count, bti_fusing fusing, bool share,
                      bti_plan *plan) {
    uint64_t is_wanted = bti_next_mark();
    bti_planner planner = {.plan = plan, .fusing = fusing, .mark = bti_next_mark()};
    for (size_t i = 0; i < count; i++) wanted[i]->mark = is_wanted;
    count_reached_results(order);
    for (size_t i = 0; i < order->count && !planner.failed; i++) {
        bti_node *node = order->items[i];
        bool asked = node->mark == is_wanted;
        if (node->tuple) {
            bti_plan_tuple(&planner, node);
            keep_results(&planner, node);
            continue;
        }
        if (!asked && bti_is_rematerializable(node)) continue; /* made where it is read */
        int32_t value = bti_plan_node(&planner, node);
        node->mark = planner.mark;
        node->mark_index = value;
        if (asked || is_kept(&planner, node, value, fusing)) add_result(&planner, node, value, -1);
    }
    return bti_finish_plan(&planner, share, order->count);
}

/* The region of the forward scan gets outputs for the values. Where they come from a scan in the body, which the gradient of the body runs again with more
 * results, that one takes the place of the scan in the body, and what is made of it is made anew: the two have the first results in common. */
#include "ops/scan_store.h"

#include "array/claim.h"
#include "array/record.h"
#include "base/alloc.h"
#include "ir/walk.h"

/* --- which scan it is ------------------------------------------------------------------------------------------------------ */

/* Whether nobody has computed it yet, and nobody else's plan has it. *claimed: until bti_claim_end_node. */
static bool claim_pending(bti_node *scan, bool *claimed) {
    *claimed = bti_claim_node(scan);
    return *claimed && !scan->passed && !scan->in_region;
}

bool bti_scan_runs_again(const bti_backward *b) {
    bool claimed, pending = claim_pending(b->tuple, &claimed);
    if (claimed) bti_claim_end_node(b->tuple);
    return !pending || b->tuple != b->node;
}

/* A region that is extended keeps its leaves, which no other one has. */
static bool has_leaves_of(const bti_region *a, const bti_region *b) {
    bool same = a->input_count == b->input_count && a->input_count;
    for (int i = 0; i < a->input_count && same; i++) same = a->inputs[i] == b->inputs[i];
    return same;
}

static bool runs_again(const bti_node *tuple, const bti_node *scan) {
    bool same = scan->op == BTI_OP_scan && !scan->checkpoint && scan->input_count == tuple->input_count &&
                has_leaves_of(scan->tuple->regions[0], tuple->tuple->regions[0]);
    for (int i = 0; i < scan->input_count && same; i++) same = scan->inputs[i] == tuple->inputs[i];
    return same;
}

static const bti_node *scan_of(const bti_scan_pairs *pairs, const bti_node *tuple) {
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->items[i].tuple == tuple) return pairs->items[i].scan;
    return NULL;
}

static const bti_node *tuple_of(const bti_scan_pairs *pairs, const bti_node *scan) {
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->items[i].scan == scan) return pairs->items[i].tuple;
    return NULL;
}

bt_status bti_scan_pair_up(bti_scan_pairs *pairs, const bti_region *region, const bti_node *tuple, bool *paired) {
    const bti_node *scan = NULL;
    *paired = scan_of(pairs, tuple);
    if (*paired || tuple->op != BTI_OP_scan || bti_region_place(region, tuple) >= 0) return BT_OK;
    for (int n = 0; n < region->node_count && !scan; n++)
        if (runs_again(tuple, region->nodes[n]) && !tuple_of(pairs, region->nodes[n])) scan = region->nodes[n];
    *paired = scan;
    return !scan || bti_vec_push(pairs, ((bti_scan_pair){scan, tuple})) ? BT_OK : bti_no_memory();
}

/* --- the region ------------------------------------------------------------------------------------------------------------ */

/* The region with outputs for the values. */
typedef struct extended {
    const bti_region *before;
    const bti_scan_pairs *pairs;
    bool untold;        /* callbacks are not called: it computes again */
    bti_node **now;     /* by place in `before`: itself, or what takes its place; borrowed */
    bti_node_vec anew;  /* in recorded order */
    bti_node **outputs; /* borrowed */
    int output_count;
    bti_type *types;
    bti_region *region;
} extended;

static bool is_outside(const extended *e, const bti_node *node) { return bti_region_place(e->before, node) < 0; }

/* What stands for a node of the region, or for the tuple of a pair. */
static bti_node *now_of(const extended *e, const bti_node *node) {
    return e->now[bti_region_place(e->before, is_outside(e, node) ? scan_of(e->pairs, node) : node)];
}

static bt_status make_anew(extended *e, const bti_node *pattern, bti_node **made) {
    bti_node **inputs = bti_alloc((size_t)pattern->input_count * sizeof *inputs);
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < pattern->input_count; i++) inputs[i] = now_of(e, pattern->inputs[i]);
    bt_status status = bti_node_again_untold(pattern, inputs, NULL, made);
    bti_free(inputs);
    if (status != BT_OK) return status;
    (*made)->symbolic = true;
    if (bti_vec_push(&e->anew, *made)) return BT_OK;
    bti_node_release(*made);
    return bti_no_memory();
}

static bt_status make_nodes(extended *e) {
    for (int i = 0; i < e->before->input_count; i++) e->now[i] = e->before->inputs[i];
    for (int n = 0; n < e->before->node_count; n++) {
        bti_node *node = e->before->nodes[n], **now = &e->now[e->before->input_count + n];
        const bti_node *tuple = tuple_of(e->pairs, node);
        bool same = !tuple && !(e->untold && bti_node_tells(node));
        for (int i = 0; i < node->input_count && same; i++) same = now_of(e, node->inputs[i]) == node->inputs[i];
        *now = node;
        if (!same) BTI_TRY(make_anew(e, tuple ? tuple : node, now));
    }
    return BT_OK;
}

/* place[k]: which output value k is. */
static bt_status add_outputs(extended *e, const bti_node_vec *values, int carried, int *place) {
    for (int o = 0; o < e->before->output_count; o++) e->outputs[e->output_count++] = now_of(e, e->before->outputs[o]);
    for (size_t k = 0; k < values->count; k++) {
        bti_node *output;
        if (is_outside(e, values->items[k]))
            BTI_TRY(make_anew(e, values->items[k], &output));
        else
            output = now_of(e, values->items[k]);
        for (place[k] = carried; place[k] < e->output_count && e->outputs[place[k]] != output;) place[k]++;
        if (place[k] == e->output_count) e->outputs[e->output_count++] = output;
    }
    return BT_OK;
}

static bt_status make_region(extended *e) {
    const bti_region *before = e->before;
    size_t count = (size_t)before->node_count + e->anew.count;
    bti_node **nodes = bti_alloc((count + 1) * sizeof *nodes);
    if (!nodes) return bti_no_memory();
    int n = 0;
    for (int i = 0; i < before->node_count; i++)
        if (e->now[before->input_count + i] == before->nodes[i]) nodes[n++] = before->nodes[i];
    for (size_t i = 0; i < e->anew.count; i++) nodes[n++] = e->anew.items[i];
    bti_nodes_sort(nodes, (size_t)n); /* another thread may have extended it before */
    e->region = bti_region_new(before->inputs, before->input_count, e->outputs, e->output_count, nodes, n);
    bti_free(nodes);
    return e->region ? BT_OK : bti_no_memory();
}

static bt_status extend_region(const bti_backward *b, const bti_region *before, const bti_node_vec *values, extended *e,
                               int *place) {
    size_t most = (size_t)before->output_count + values->count + 1;
    int carried = b->attr->scan.carried;
    e->before = before;
    e->now = bti_alloc(((size_t)(before->input_count + before->node_count) + 1) * sizeof *e->now);
    e->outputs = bti_alloc(most * sizeof *e->outputs);
    e->types = bti_alloc(most * sizeof *e->types);
    if (!e->now || !e->outputs || !e->types) return bti_no_memory();
    BTI_TRY(make_nodes(e));
    BTI_TRY(add_outputs(e, values, carried, place));
    BTI_TRY(bti_region_results(e->outputs, e->output_count, carried, b->attr->scan.length, e->types));
    return make_region(e);
}

static void end_extended(extended *e) {
    bti_region_release(e->region);
    bti_node_vec_release(&e->anew);
    bti_free(e->now);
    bti_free(e->outputs);
    bti_free(e->types);
}

/* --- the scan -------------------------------------------------------------------------------------------------------------- */

static bt_status record_extended(const bti_backward *b, const extended *e, bti_node **tuple) {
    bt_array **results = bti_calloc((size_t)e->output_count + 1, sizeof *results);
    if (!results) return bti_no_memory();
    bti_region *region = e->region;
    bt_status status =
        bti_record_tuple(BTI_OP_scan, b->x, b->count, b->attr, e->types, e->output_count, &region, 1, results);
    if (status == BT_OK) status = bti_fail_with(bti_array_error(results[0]));
    if (status == BT_OK) *tuple = bti_node_retain(bti_node_of(results[0])->inputs[0]);
    bti_free(results);
    return status;
}

/* The scan itself while it is pending; else another one. Retained. */
static bt_status extend_forward(const bti_backward *b, const bti_node_vec *values, const bti_scan_pairs *pairs,
                                bti_node **tuple, int *place) {
    bti_node *forward = b->tuple;
    bool claimed, pending = claim_pending(forward, &claimed);
    extended e = {.pairs = pairs, .untold = !pending};
    bt_status status = extend_region(b, forward->tuple->regions[0], values, &e, place);
    if (status == BT_OK && pending && !bti_node_extend(forward, e.output_count, e.types, e.region))
        status = bti_no_memory();
    if (claimed) bti_claim_end_node(forward);
    if (status == BT_OK && pending) *tuple = bti_node_retain(forward);
    if (status == BT_OK && !pending) status = record_extended(b, &e, tuple);
    end_extended(&e);
    return status;
}

bt_status bti_scan_store(const bti_backward *b, const bti_node_vec *values, const bti_scan_pairs *pairs,
                         bt_array **rows) {
    if (!values->count) return BT_OK;
    int *place = bti_alloc(values->count * sizeof *place);
    bti_node *tuple = NULL;
    bt_status status = place ? extend_forward(b, values, pairs, &tuple, place) : bti_no_memory();
    for (size_t k = 0; k < values->count && status == BT_OK; k++) {
        rows[k] = bti_result_of(tuple, place[k]);
        status = bti_fail_with(bti_array_error(rows[k]));
    }
    bti_node_release(tuple);
    bti_free(place);
    return status;
}

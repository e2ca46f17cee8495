/* Gradients of branches and of loops with a test. A branch's is the branch of the gradients, of which the one that runs computes its way
 * again. A loop's is that of a scan of as many steps as it may take, of which those after its end do nothing. */
#include <berth/control.h>

#include "array/record.h"
#include "base/alloc.h"
#include "ops/gradient.h"
#include "ops/primitive.h"
#include "ops/region.h"

/* --- branches ----------------------------------------------------------------------------------------------------------- */

typedef struct backward_branch {
    bti_backward *b;
    int inputs, flowing; /* of a way; results with a gradient */
    int wanted;          /* inputs whose gradient is wanted */
    uint64_t since;      /* of both ways */
    bt_array **leaves;   /* what stands for the gradients that flow in */
    bt_array **made[2];  /* by way: the gradients of what is wanted */
} backward_branch;

static bt_status make_leaves(backward_branch *s, bti_region *region) {
    for (int r = 0; r < s->b->result_count; r++) {
        if (!s->b->results[r]) continue;
        bti_type type = bti_type_of(region->outputs[r]);
        bt_array *leaf = bti_array_new(bti_region_leaf(&type, s->b->tuple->device, s->b->tuple->place));
        BTI_TRY(bti_fail_with(bti_array_error(leaf)));
        s->leaves[s->flowing++] = leaf;
    }
    return BT_OK;
}

/* Fills in the gradients of a way. arrays: room. */
static bt_status differentiate_way(backward_branch *s, const bti_region *region, bt_array **arrays, int way) {
    bt_array **ys = arrays, **xs = ys + s->flowing;
    int y = 0, x = 0;
    for (int r = 0; r < s->b->result_count; r++)
        if (s->b->results[r]) ys[y++] = bti_array_on(region->outputs[r]);
    for (int i = 0; i < s->inputs; i++)
        if (s->b->wanted[i + 1]) xs[x++] = bti_array_on(region->inputs[i]);
    BTI_TRY(s->b->differentiate(ys, s->leaves, y, xs, x, NULL, s->made[way]));
    for (int i = 0; i < x; i++) {
        if (!s->made[way][i]) s->made[way][i] = bt_zeros_like(xs[i]);
        BTI_TRY(bti_fail_with(bti_array_error(s->made[way][i])));
    }
    return BT_OK;
}

/* What is cut out for a way: its inputs, then the gradients that flow in; then the captures of both. */
static bt_status cut_way(const backward_branch *s, const bti_region *region, int way, bti_node_vec *captures, bool cut,
                         bti_region **made) {
    int given = s->inputs + s->flowing;
    size_t count = (size_t)given + (cut ? captures->count : 0);
    bti_node **nodes = bti_alloc((count + (size_t)s->wanted + 1) * sizeof *nodes), **outputs = nodes + count;
    if (!nodes) return bti_no_memory();
    for (int i = 0; i < s->inputs; i++) nodes[i] = region->inputs[i];
    for (int i = 0; i < s->flowing; i++) nodes[s->inputs + i] = bti_node_of(s->leaves[i]);
    for (size_t i = (size_t)given; i < count; i++) nodes[i] = captures->items[i - (size_t)given];
    for (int i = 0; i < s->wanted; i++) outputs[i] = bti_node_of(s->made[way][i]);
    bti_cutting cutting = {nodes, (int)count, outputs, s->wanted, s->since, true, true};
    bt_status status =
        cut ? bti_region_cut(&cutting, s->b->tuple->device, made) : bti_region_captures(&cutting, captures);
    bti_free(nodes);
    return status;
}

static bt_status record_backward(backward_branch *s, bti_region *const *ways, const bti_node_vec *captures) {
    int given = 1 + s->inputs + s->flowing, count = given + (int)captures->count, n = 0;
    bt_array **arrays = bti_calloc((size_t)(count + s->wanted + 1), sizeof *arrays), **results = arrays + count;
    bti_type *types = bti_alloc((size_t)(s->wanted + 1) * sizeof *types);
    bt_status status = arrays && types ? BT_OK : bti_no_memory();
    if (status == BT_OK) {
        for (int i = 0; i <= s->inputs; i++) arrays[n++] = s->b->x[i];
        for (int r = 0; r < s->b->result_count; r++)
            if (s->b->results[r]) arrays[n++] = s->b->results[r];
        for (size_t i = 0; i < captures->count; i++) arrays[n++] = bti_array_on(captures->items[i]);
        for (int i = 0; i < s->wanted; i++) types[i] = bti_type_of(ways[0]->outputs[i]);
        status = bti_record_tuple(BTI_OP_cond, arrays, count, NULL, types, s->wanted, ways, 2, results);
        for (int i = 0, w = 0; i < s->inputs && status == BT_OK; i++)
            if (s->b->wanted[i + 1]) s->b->gx[i + 1] = results[w++];
    }
    bti_free(arrays);
    bti_free(types);
    return status;
}

static bt_status go_back(backward_branch *s, bti_region *const *regions) {
    bti_region *ways[2] = {NULL};
    bti_node_vec captures = {0};
    bt_array **room = bti_alloc((size_t)(s->b->result_count + s->inputs + 1) * sizeof *room);
    bt_status status = room ? make_leaves(s, regions[0]) : bti_no_memory();
    for (int way = 0; way < 2 && status == BT_OK; way++) status = differentiate_way(s, regions[way], room, way);
    for (int way = 0; way < 2 && status == BT_OK; way++) status = cut_way(s, regions[way], way, &captures, false, NULL);
    for (int way = 0; way < 2 && status == BT_OK; way++)
        status = cut_way(s, regions[way], way, &captures, true, &ways[way]);
    if (status == BT_OK) status = record_backward(s, ways, &captures);
    bti_region_release(ways[0]);
    bti_region_release(ways[1]);
    bti_node_vec_release(&captures);
    bti_free(room);
    return status;
}

void bti_gradient_cond(bti_backward *b) {
    backward_branch s = {.b = b, .inputs = b->count - 1};
    bti_region *regions[2];
    bti_regions_of(b->tuple, regions);
    for (int i = 0; i < s.inputs; i++) s.wanted += b->wanted[i + 1];
    s.since = bti_regions_since(regions, 2);
    size_t room = (size_t)(b->result_count + 1) + 2 * (size_t)(s.wanted + 1);
    s.leaves = bti_calloc(room, sizeof *s.leaves);
    bt_status status = s.leaves ? BT_OK : bti_no_memory();
    if (status == BT_OK) {
        s.made[0] = s.leaves + b->result_count + 1;
        s.made[1] = s.made[0] + s.wanted + 1;
        status = go_back(&s, regions);
    }
    if (status != BT_OK) bti_poison_gradients_of(b);
    bti_free(s.leaves);
    bti_region_release(regions[0]);
    bti_region_release(regions[1]);
}

/* --- loops with a test ---------------------------------------------------------------------------------------------------- */

/* Of the scan that stands for a loop: what a step needs. carry[0]: whether the loop still goes on. */
typedef struct bounded {
    bt_array **x; /* the loop's inputs, as nodes that nothing else is made of: one input may depend on another */
    int count, carried;
    bti_region **regions; /* test, body */
} bounded;

static bt_array *apart(bt_array *x) { return bti_record(BTI_OP_copy, bti_dtype(x), false, &x, 1, NULL); }

static void run_region(const bounded *s, const bti_region *region, bt_array *const *carry, bt_array **outputs) {
    bt_array **inputs = bti_alloc((size_t)(s->count + 1) * sizeof *inputs);
    bt_status status = inputs ? BT_OK : bti_no_memory();
    for (int i = 0; i < s->count && inputs; i++) inputs[i] = i < s->carried ? carry[i] : s->x[i];
    if (inputs) status = bti_region_inline(region, true, inputs, outputs);
    for (int o = 0; o < region->output_count && status != BT_OK; o++) outputs[o] = bti_poison(bti_error_last());
    bti_free(inputs);
}

static void go_on(bt_array *const *carry, bt_array **next, void *data) {
    const bounded *s = data;
    run_region(s, s->regions[1], carry, next);
}

static void stay(bt_array *const *carry, bt_array **next, void *data) {
    const bounded *s = data;
    for (int i = 0; i < s->carried; i++) next[i] = carry[i];
}

static void bounded_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bounded *s = data;
    bt_array *test;
    (void)x, (void)y;
    run_region(s, s->regions[0], carry + 1, &test);
    carry[0] = bt_logical_and(carry[0], test);
    (void)bt_cond(carry[0], go_on, stay, s, carry + 1, s->carried, carry + 1, s->carried);
}

static bt_status gradient_of_bounded(bti_backward *b, bounded *s, bt_array **room) {
    bt_array **carry = room, **ys = carry + s->carried + 1, **gs = ys + s->carried, **xs = gs + s->carried,
             **made = xs + b->count;
    int y_count = 0, x_count = 0;
    s->x = made + b->count;
    for (int i = 0; i < b->count; i++) {
        s->x[i] = apart(b->x[i]);
        BTI_TRY(bti_fail_with(bti_array_error(s->x[i])));
    }
    carry[0] = bt_full_shape(1, BT_BOOL, (bt_shape){.rank = 0});
    for (int i = 0; i < s->carried; i++) carry[i + 1] = s->x[i];
    BTI_TRY(bt_scan(bounded_step, s, b->attr->loop.most, carry, s->carried + 1, NULL, 0, NULL, 0));
    for (int i = 0; i < s->carried; i++) {
        if (!b->results[i]) continue;
        ys[y_count] = carry[i + 1];
        gs[y_count++] = b->results[i];
    }
    for (int i = 0; i < b->count; i++)
        if (b->wanted[i]) xs[x_count++] = s->x[i];
    BTI_TRY(b->differentiate(ys, gs, y_count, xs, x_count, NULL, made));
    for (int i = 0, w = 0; i < b->count; i++)
        if (b->wanted[i]) b->gx[i] = made[w++];
    return BT_OK;
}

void bti_gradient_while(bti_backward *b) {
    bti_region *regions[2];
    bt_status status = BT_OK;
    bti_regions_of(b->tuple, regions);
    bounded s = {.count = b->count, .carried = (int)b->attr->loop.carried, .regions = regions};
    if (!b->attr->loop.most)
        status = bti_fail(
            BT_FAILED_PRECONDITION,
            "a gradient of bt_while needs to know how many steps it may take; give most_steps, or use bt_scan");
    bt_array **room = bti_alloc((size_t)(3 * s.carried + 3 * b->count + 2) * sizeof *room);
    if (status == BT_OK) status = room ? gradient_of_bounded(b, &s, room) : bti_no_memory();
    if (status != BT_OK) bti_poison_gradients_of(b);
    bti_free(room);
    bti_region_release(regions[0]);
    bti_region_release(regions[1]);
}

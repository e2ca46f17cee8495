/* A region is cut out of the graph in three walks: what the outputs are made of; which of it depends on what is given; which of it
 * is needed inside. */
#include "ops/region.h"

#include "array/eval.h"
#include "array/place.h"
#include "base/alloc.h"
#include "ir/op.h"
#include "ir/sequence.h"
#include "ir/walk.h"

void bti_regions_of(const bti_node *tuple, bti_region **regions) {
    bti_sequence_pass();
    for (int r = 0; r < tuple->tuple->region_count; r++) regions[r] = bti_region_retain(tuple->tuple->regions[r]);
}

uint64_t bti_regions_since(bti_region *const *regions, int count) {
    uint64_t since = UINT64_MAX;
    for (int r = 0; r < count; r++)
        if (bti_region_since(regions[r]) < since) since = bti_region_since(regions[r]);
    return since;
}

void bti_node_vec_release(bti_node_vec *nodes) {
    for (size_t i = 0; i < nodes->count; i++) bti_node_release(nodes->items[i]);
    bti_vec_free(nodes);
}

typedef enum part { UNNEEDED, INSIDE, CAPTURED } part;

typedef struct walk {
    const bti_cutting *of;
    bool
        captured; /* what is captured was found before, and is given: the rest is made inside, even if it is computed meanwhile */
    bti_numbers numbers;     /* of what is given, then of what was met */
    BTI_VEC(bti_node *) met; /* in recorded order, without what is given; borrowed */
    int walk;
    bool *depends; /* by place in `met` */
    part *parts;
    bti_stand_in_blocks blocks; /* inside of the region */
} walk;

/* Whether a copy of the node computes what it does. What has been computed meanwhile is no exception: that would change the order in which gradients are added. */
static bool can_be_made_again(const bti_node *node) {
    if (node->op == BTI_OP_leaf || node->op == BTI_OP_value || node->op == BTI_OP_call) return false;
    if (atomic_load(&node->state) == BTI_FAILED) return false;
    if (!node->input_count) return bti_op_info((bti_op)node->op)->class == BTI_SOURCE; /* else it has forgotten */
    return node->op != BTI_OP_result || can_be_made_again(node->inputs[0]);
}

/* Cheaper to make in each step than to be given, or made of nothing but constants of a body, which are nowhere else. What the user holds from before is given: a gradient
 * may be wanted of it. */
static bool is_made_inside(const walk *w, const bti_node *node) {
    bti_class class = bti_op_info((bti_op)node->op)->class;
    bool old = node->sequence <= w->of->since;
    if (w->captured) return true;
    if (old && (atomic_load(&node->handles) || atomic_load(&node->forget))) return false;
    if (!can_be_made_again(node)) return false;
    if (!old && (w->of->whole || node->symbolic || node->op == BTI_OP_callback)) return true;
    bool scalar_cast =
        node->op == BTI_OP_cast && node->rank == 0 && bti_op_info((bti_op)node->inputs[0]->op)->class == BTI_SOURCE;
    return class == BTI_SOURCE || class == BTI_MOVEMENT || scalar_cast;
}

static bool meet(walk *w, bti_node *node) {
    bool met;
    return bti_number_meet(&w->numbers, node, &met) && (met || bti_vec_push(&w->met, node));
}

static bool meet_all(walk *w) {
    for (int o = 0; o < w->of->output_count; o++)
        if (!meet(w, w->of->outputs[o])) return false;
    for (size_t next = 0; next < w->met.count; next++) {
        const bti_node *node = w->met.items[next];
        bool old = node->sequence <= w->of->since; /* it cannot depend on what is given */
        for (int i = 0; i < node->input_count && (!old || is_made_inside(w, node)); i++)
            if (!meet(w, node->inputs[i])) return false;
    }
    bti_nodes_sort(w->met.items, w->met.count);
    return true;
}

static bool find_dependence(walk *w) {
    for (size_t n = 0; n < w->met.count; n++) {
        bti_node *node = w->met.items[n];
        if (!bti_number_put(&w->numbers, node, w->of->given_count + (int64_t)n)) return false;
        for (int i = 0; i < node->input_count && !w->depends[n]; i++) {
            int64_t input = bti_number_of(&w->numbers, node->inputs[i]);
            if (input >= 0) w->depends[n] = input < w->of->given_count || w->depends[input - w->of->given_count];
        }
    }
    return true;
}

static void need(walk *w, const bti_node *node) {
    int64_t number = bti_number_of(&w->numbers, node);
    if (number >= w->of->given_count) w->parts[number - w->of->given_count] = INSIDE;
}

static void find_parts(walk *w) {
    for (int o = 0; o < w->of->output_count; o++) need(w, w->of->outputs[o]);
    for (size_t n = w->met.count; n-- > 0;) {
        const bti_node *node = w->met.items[n];
        if (w->parts[n] == UNNEEDED) continue;
        if (!w->depends[n] && !is_made_inside(w, node)) {
            w->parts[n] = CAPTURED;
            continue;
        }
        for (int i = 0; i < node->input_count; i++) need(w, node->inputs[i]);
    }
}

static bool walk_cutting(walk *w, const bti_cutting *cutting, bool captured) {
    *w = (walk){.of = cutting, .captured = captured, .walk = bti_walk_begin()};
    for (int i = 0; i < cutting->given_count; i++)
        if (!bti_number_put(&w->numbers, cutting->given[i], i)) return false;
    if (!meet_all(w)) return false;
    w->depends = bti_calloc(w->met.count, sizeof *w->depends);
    w->parts = bti_calloc(w->met.count, sizeof *w->parts);
    if (!w->depends || !w->parts || !find_dependence(w)) return false;
    find_parts(w);
    return true;
}

static void end_walk(walk *w) {
    bti_vec_free(&w->met);
    bti_free(w->depends);
    bti_free(w->parts);
    bti_stand_in_blocks_free(&w->blocks);
    bti_numbers_free(&w->numbers);
    bti_walk_end(w->walk);
}

static bool holds(const bti_node_vec *nodes, const bti_node *node) {
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->items[i] == node) return true;
    return false;
}

bt_status bti_region_captures(const bti_cutting *cutting, bti_node_vec *captures) {
    walk w;
    bool room = walk_cutting(&w, cutting, false);
    for (size_t n = 0; n < w.met.count && room; n++) {
        if (w.parts[n] != CAPTURED || holds(captures, w.met.items[n])) continue;
        room = bti_vec_push(captures, w.met.items[n]);
        if (room) bti_node_retain(w.met.items[n]);
    }
    end_walk(&w);
    return room ? BT_OK : bti_no_memory();
}

bt_status bti_region_results(bti_node *const *outputs, int count, int carried, int64_t length, bti_type *types) {
    for (int o = 0; o < count; o++) {
        if (o >= carried && outputs[o]->rank == BTI_MAX_RANK)
            return bti_fail(
                BT_INVALID_ARGUMENT,
                "what a loop computes again for a derivative or a batch has an array of %d axes for each "
                "step, and an axis of steps makes one too many: give the loop arrays of fewer axes (bt_reshape)",
                BTI_MAX_RANK);
        types[o] = o < carried ? bti_type_of(outputs[o]) : bti_type_of_rows(outputs[o], length);
    }
    return BT_OK;
}

/* --- the copy --------------------------------------------------------------------------------------------------------- */

static bt_status check_device(const bti_node *node, int device) {
    for (int r = 0; node->tuple && r < node->tuple->region_count; r++)
        for (int i = 0; i < node->tuple->regions[r]->node_count; i++)
            BTI_TRY(check_device(node->tuple->regions[r]->nodes[i], device));
    bool collective = bti_op_info((bti_op)node->op)->class == BTI_COLLECTIVE;
    if (!collective && (node->rule != BTI_RULE_EXPLICIT || node->device == device)) return BT_OK;
    bti_error *error =
        bti_error_at(node->place, BT_UNIMPLEMENTED,
                     collective ? "a body runs on one device, and %s on several; take it out of the body"
                                : "a body runs on one device, and this operation was put on another; take it out of "
                                  "the body, or put the loop there (BT_ON)",
                     bti_op_info((bti_op)node->op)->name);
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

static bool is_around(const bti_checkpoint *outer, const bti_checkpoint *block) {
    while (block && block != outer) block = block->outer;
    return block;
}

/* The checkpoint block that a node of this one is in inside of the region. A block around the whole operation computes that again, and is none
 * inside: else each step would be computed once more. */
static bt_status block_inside(walk *w, bti_checkpoint *block, bti_checkpoint **inside) {
    bti_checkpoint *around = bti_checkpoint_now(), *outer;
    *inside = block == around ? NULL : block;
    if (!around || block == around || !is_around(around, block)) return BT_OK;
    if ((*inside = bti_stand_in_block(&w->blocks, block))) return BT_OK;
    BTI_TRY(block_inside(w, block->outer, &outer));
    *inside = bti_stand_in_block_new(&w->blocks, block, outer);
    return *inside ? BT_OK : bti_no_memory();
}

static bt_status copy_node(walk *w, bti_node *const *made, const bti_node *node, int device, bti_node **copy) {
    bti_node **inputs = bti_alloc((size_t)node->input_count * sizeof *inputs);
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < node->input_count; i++) inputs[i] = made[bti_number_of(&w->numbers, node->inputs[i])];
    bt_status status =
        w->of->untold ? bti_node_again_untold(node, inputs, NULL, copy) : bti_node_again(node, inputs, NULL, copy);
    bti_free(inputs);
    bti_checkpoint *block;
    if (status == BT_OK) status = block_inside(w, node->checkpoint, &block);
    if (status != BT_OK) return status;
    bti_checkpoint_retain(block);
    bti_checkpoint_release((*copy)->checkpoint);
    (*copy)->checkpoint = block;
    (*copy)->symbolic = true;
    (*copy)->device = (int16_t)device;
    return w->depends[bti_number_of(&w->numbers, node) - w->of->given_count] ? check_device(node, device) : BT_OK;
}

/* made: room for copies of all that is given and met. */
static bt_status copy_parts(walk *w, int device, bti_node **made, bti_node_vec *inside) {
    int given = w->of->given_count;
    for (int i = 0; i < given; i++) {
        bti_type type = bti_type_of(w->of->given[i]);
        if (!(made[i] = bti_region_leaf(&type, device, w->of->given[i]->place))) return bti_no_memory();
        made[i]->weak = w->of->given[i]->weak;
    }
    for (size_t n = 0; n < w->met.count; n++) {
        if (w->parts[n] != INSIDE) continue;
        BTI_TRY(copy_node(w, made, w->met.items[n], device, &made[given + (int)n]));
        if (!bti_vec_push(inside, made[given + (int)n])) return bti_no_memory();
    }
    return BT_OK;
}

static bt_status cut_walked(walk *w, int device, bti_region **region) {
    size_t count = (size_t)w->of->given_count + w->met.count;
    bti_node **made = bti_calloc(count, sizeof *made);
    bti_node **outputs = bti_alloc((size_t)w->of->output_count * sizeof *outputs);
    bti_node_vec inside = {0};
    bt_status status = made && outputs ? copy_parts(w, device, made, &inside) : bti_no_memory();
    for (int o = 0; o < w->of->output_count && status == BT_OK; o++)
        outputs[o] = made[bti_number_of(&w->numbers, w->of->outputs[o])];
    if (status == BT_OK) {
        *region =
            bti_region_new(made, w->of->given_count, outputs, w->of->output_count, inside.items, (int)inside.count);
        if (!*region) status = bti_no_memory();
    }
    for (size_t i = 0; i < count && made; i++) bti_node_release(made[i]);
    bti_vec_free(&inside);
    bti_free(made);
    bti_free(outputs);
    return status;
}

bt_status bti_region_cut(const bti_cutting *cutting, int device, bti_region **region) {
    walk w;
    *region = NULL;
    bt_status status = walk_cutting(&w, cutting, true) ? cut_walked(&w, device, region) : bti_no_memory();
    end_walk(&w);
    return status;
}

/* --- inline ----------------------------------------------------------------------------------------------------------- */

static bt_status record_node(const bti_region *region, bool untold, bti_node *const *made, const bti_node *node,
                             bti_node **again) {
    bti_node **inputs = bti_alloc((size_t)node->input_count * sizeof *inputs);
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < node->input_count; i++) inputs[i] = made[bti_region_place(region, node->inputs[i])];
    bt_status status =
        untold ? bti_node_again_untold(node, inputs, NULL, again) : bti_node_again(node, inputs, NULL, again);
    bti_free(inputs);
    if (status != BT_OK) return status;
    bti_eval_recorded(*again);
    return BT_OK;
}

bt_status bti_region_inline(const bti_region *region, bool untold, bt_array *const *inputs, bt_array **outputs) {
    int count = region->input_count + region->node_count;
    bti_node **made = bti_calloc((size_t)count + 1, sizeof *made);
    bt_status status = made ? BT_OK : bti_no_memory();
    for (int i = 0; i < region->input_count && made; i++) made[i] = bti_node_retain(bti_node_of(inputs[i]));
    for (int i = 0; i < region->node_count && status == BT_OK; i++)
        status = record_node(region, untold, made, region->nodes[i], &made[region->input_count + i]);
    for (int o = 0; o < region->output_count && status == BT_OK; o++)
        outputs[o] = bti_array_on(made[bti_region_place(region, region->outputs[o])]);
    for (int i = 0; i < count && made; i++) bti_node_release(made[i]);
    bti_free(made);
    return status;
}

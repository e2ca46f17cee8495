/* Where gradients end that should have come to variables. */
#include "grad/grad.h"

#include "array/handle.h"
#include "base/vec.h"
#include "grad/walk.h"
#include "ir/walk.h"
#include "ops/rules.h"

typedef BTI_VEC(bti_node *) met_nodes; /* borrowed, in a walk */

static bool go_to(met_nodes *met, bti_numbers *numbers, bti_node *node) {
    bool before;
    return bti_number_meet(numbers, node, &before) && (before || bti_vec_push(met, node));
}

static bool go_to_inputs(met_nodes *met, bti_numbers *numbers, const bti_node *node) {
    int count = node->input_count;
    for (int i = 0; i < count; i++)
        if (!go_to(met, numbers, node->inputs[i])) return false;
    return true;
}

static bool is_of(const bti_node *node, bt_shared *const *wrt, int count) {
    if (node->op != BTI_OP_value) return false;
    for (int i = 0; i < count; i++)
        if (bti_node_of(bt_value(wrt[i]))->attr->value.variable == node->attr->value.variable) return true;
    return false;
}

/* Whether it was computed from one of the variables, in whatever way. */
static bool depends(bti_node *node, bt_shared *const *wrt, int count, bool *room) {
    met_nodes met = {0};
    bti_numbers numbers = {0};
    bool found = false;
    *room = go_to(&met, &numbers, node);
    for (size_t next = 0; next < met.count && *room && !found; next++) {
        found = is_of(met.items[next], wrt, count);
        *room = go_to_inputs(&met, &numbers, met.items[next]);
    }
    bti_numbers_free(&numbers);
    bti_vec_free(&met);
    return found;
}

/* By its dtype, its kind or its rule. */
static bool lets_pass(const bti_node *node) {
    if (!bti_passes_gradient(node) && !node->tuple) return false;
    bti_gradient_rule *rule = bti_gradient_rule_of((bti_op)node->op);
    return rule != bti_gradient_zero;
}

/* The ends among all that the loss was made of by ways that gradients pass, oldest first. */
static bool find_ends(bt_array *loss, met_nodes *ends) {
    met_nodes met = {0};
    bti_numbers numbers = {0};
    bool room = go_to(&met, &numbers, bti_node_of(loss));
    for (size_t next = 0; next < met.count && room; next++) {
        bti_node *node = met.items[next];
        if (lets_pass(node))
            room = go_to_inputs(&met, &numbers, node);
        else if (node->input_count)
            room = bti_vec_push(ends, node);
    }
    bti_nodes_sort(ends->items, ends->count);
    bti_numbers_free(&numbers);
    bti_vec_free(&met);
    return room;
}

bt_status bti_find_gradient_end(bt_array *loss, bt_shared *const *wrt, int count, bti_node **end) {
    met_nodes ends = {0};
    int walk = bti_walk_begin();
    *end = NULL;
    bool room = find_ends(loss, &ends);
    BT_SCOPE
        for (size_t i = 0; i < ends.count && room && !*end; i++)
            if (depends(ends.items[i], wrt, count, &room)) *end = bti_node_retain(ends.items[i]);
    bti_walk_end(walk);
    bti_vec_free(&ends);
    return room ? BT_OK : bti_no_memory();
}

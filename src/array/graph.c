#include "array/graph.h"

#include "base/lock.h"
#include "base/vec.h"
#include "ir/walk.h"

/* Protects the place that ended a node's history; it is read where `forget` is set. */
BTI_STATIC_LOCK(cuts_lock, cuts)

static bool has_history(const bti_node *node) { return node->input_count > 0 || (node->origin && !node->left_origin); }

void bti_history_note_end(bti_node *node, const char *name) {
    bti_place place = {.site = bti_here(), .name = name};
    bti_lock_take(&cuts_lock);
    if (!node->cut.name && has_history(node)) node->cut = place;
    bti_lock_give(&cuts_lock);
}

/* If it is computed now, the thread that has claimed it lets it forget. */
void bti_history_end_noted(bti_node *node) {
    if (atomic_exchange(&node->forget, true)) return;
    if (atomic_load(&node->state) == BTI_DONE && !atomic_load(&node->claim)) bti_node_forget(node);
}

void bti_history_end(bti_node *node, const char *name) {
    if (node->forget) return;
    bti_history_note_end(node, name);
    bti_history_end_noted(node);
}

uint64_t bti_history_length(bti_node *node, uint64_t since) {
    BTI_VEC(bti_node *) found = {0};
    bti_numbers numbers = {0};
    int walk = bti_walk_begin();
    bool met, room = bti_number_meet(&numbers, node, &met) && bti_vec_push(&found, node);
    for (size_t next = 0; next < found.count && room; next++) {
        const bti_node *user = found.items[next];
        for (int i = 0; i < user->input_count && room; i++) {
            bti_node *input = user->inputs[i];
            if (input->sequence <= since || !has_history(input)) continue;
            room = bti_number_meet(&numbers, input, &met) && (met || bti_vec_push(&found, input));
        }
    }
    bti_walk_end(walk);
    uint64_t count = found.count;
    bti_vec_free(&found);
    bti_numbers_free(&numbers);
    return count;
}

void bti_history_cut(bti_node *node, const char *name) {
    node->cut = (bti_place){.site = bti_here(), .name = name};
    atomic_store(&node->forget, true);
}

void bti_history_number(bti_node *node, uint64_t sequence) {
    node->sequence = sequence;
    if (node->oldest > sequence) node->oldest = sequence;
}

void bti_history_derive(bti_node *node, const bti_node *from) {
    node->reads |= from->reads;
    if (!bti_node_has_gradient(node) || !bti_node_has_gradient(from)) return;
    if (from->oldest < node->oldest) node->oldest = from->oldest;
    node->variables |= from->variables;
}

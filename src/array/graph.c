#include "array/graph.h"

#include "base/lock.h"
#include "base/vec.h"
#include "compile/mark.h"

/* Protects the inputs and marks of all nodes, and the flags that evaluation sets in them. */
BTI_STATIC_LOCK(graph, graph)
void bti_graph_lock(void) { bti_lock_take(&graph); }
void bti_graph_unlock(void) { bti_lock_give(&graph); }

static bool has_history(const bti_node *node) { return node->input_count > 0 || (node->origin && !node->left_origin); }

/* Under the graph lock. */
static void note_end(bti_node *node, const char *name) {
    bti_place place = {bti_here(), name};
    if (!node->cut.name && has_history(node)) node->cut = place;
}

static void end_history(bti_node *node) {
    node->forget = true;
    if (atomic_load(&node->state) == BTI_DONE) bti_node_forget(node);
}

void bti_history_end(bti_node *node, const char *name) {
    if (node->forget) return;
    bti_graph_lock();
    note_end(node, name);
    end_history(node);
    bti_graph_unlock();
}

void bti_history_note_end(bti_node *node, const char *name) {
    bti_graph_lock();
    note_end(node, name);
    bti_graph_unlock();
}

void bti_history_end_noted(bti_node *node) {
    if (node->forget) return;
    bti_graph_lock();
    end_history(node);
    bti_graph_unlock();
}

uint64_t bti_history_length(bti_node *node, uint64_t since) {
    BTI_VEC(bti_node *) found = {0};
    bti_graph_lock();
    uint64_t mark = bti_next_mark();
    bool room = bti_vec_push(&found, node);
    node->mark = mark;
    for (size_t next = 0; next < found.count && room; next++) {
        const bti_node *user = found.items[next];
        for (int i = 0; i < user->input_count && room; i++) {
            bti_node *input = user->inputs[i];
            if (input->mark == mark || input->sequence <= since || !has_history(input)) continue;
            input->mark = mark;
            room = bti_vec_push(&found, input);
        }
    }
    bti_graph_unlock();
    uint64_t count = found.count;
    bti_vec_free(&found);
    return count;
}

void bti_history_number(bti_node *node, uint64_t sequence) {
    node->sequence = sequence;
    if (node->oldest > sequence) node->oldest = sequence;
}

void bti_history_derive(bti_node *node, const bti_node *from) {
    node->reads |= from->reads;
    if (!bti_node_is_float(node) || !bti_node_is_float(from)) return;
    if (from->oldest < node->oldest) node->oldest = from->oldest;
    node->variables |= from->variables;
}

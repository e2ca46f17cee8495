/* Finds what a node in a block is made of, then records it again, inputs before users. */
#include "grad/again.h"

#include <stdlib.h>

#include "array/eval.h"
#include "array/place.h"
#include "ir/region.h"

/* --- entries by node and block --------------------------------------------------------------------------------------- */

static size_t hash_of(const bti_node *node, const bti_checkpoint *block) {
    uint64_t hash = ((uint64_t)(uintptr_t)node ^ (uint64_t)(uintptr_t)block * 31) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(hash ^ hash >> 29);
}

static bti_again_entry *find_entry(const bti_again *again, const bti_node *node, const bti_checkpoint *block) {
    for (size_t i = hash_of(node, block); again->table.count; i++) {
        int32_t number = again->table.items[i & (again->table.count - 1)];
        if (!number) break;
        bti_again_entry *entry = &again->entries.items[number - 1];
        if (entry->node == node && entry->block == block) return entry;
    }
    return NULL;
}

static void put_number(bti_again *again, size_t e) {
    size_t i = hash_of(again->entries.items[e].node, again->entries.items[e].block);
    while (again->table.items[i & (again->table.count - 1)]) i++;
    again->table.items[i & (again->table.count - 1)] = (int32_t)e + 1;
}

static bool grow_table(bti_again *again) {
    if ((again->entries.count + 1) * 2 <= again->table.count) return true;
    size_t count = again->table.count ? again->table.count * 2 : 64;
    int32_t *items = bti_calloc(count, sizeof *items);
    if (!items) return false;
    bti_vec_free(&again->table);
    again->table.items = items;
    again->table.count = again->table.capacity = count;
    for (size_t e = 0; e < again->entries.count; e++) put_number(again, e);
    return true;
}

/* --- blocks ----------------------------------------------------------------------------------------------------------- */

static bool is_inside(const bti_node *node, const bti_checkpoint *block) {
    const bti_checkpoint *of = node->checkpoint;
    while (of && of != block) of = of->outer;
    return of;
}

static int depth_of(const bti_checkpoint *block) {
    int depth = 0;
    for (; block; block = block->outer) depth++;
    return depth;
}

/* The innermost of the block and those around it that the node is in; NULL. */
static bti_checkpoint *block_with(bti_checkpoint *block, const bti_node *node) {
    while (block && !is_inside(node, block)) block = block->outer;
    return block;
}

static bool is_pending(const bti_node *node) { return atomic_load(&node->state) == BTI_PENDING; }

/* Constants are made wherever they are read; of tuples only the results are read. */
static bool stands_for_itself(const bti_node *node) {
    return (bti_op_info((bti_op)node->op)->class == BTI_SOURCE && node->op != BTI_OP_leaf) ||
           (node->tuple && !is_pending(node));
}

static bool is_recorded_again(const bti_node *node, const bti_checkpoint *block) {
    if (!is_inside(node, block) || !node->input_count || node->op == BTI_OP_value) return false;
    if (!is_pending(node) || atomic_load(&node->forget)) return false; /* it is in memory, or will be kept there */
    return node->op != BTI_OP_result || is_pending(node->inputs[0]);
}

/* --- what is needed; in a walk ----------------------------------------------------------------------------------------- */

static bool need(bti_again *again, bti_node *node, bti_checkpoint *block) {
    if (!block || stands_for_itself(node) || find_entry(again, node, block)) return true;
    bool inside = is_recorded_again(node, block);
    size_t inputs = inside ? (size_t)node->input_count : 0;
    if (!grow_table(again) || !bti_vec_reserve(&again->entries, 1) || !bti_vec_reserve(&again->inputs, inputs))
        return false;
    again->entries.items[again->entries.count++] = (bti_again_entry){.node = bti_node_retain(node),
                                                                     .block = block,
                                                                     .depth = depth_of(block),
                                                                     .inside = inside,
                                                                     .first_input = again->inputs.count};
    for (size_t i = 0; i < inputs; i++) again->inputs.items[again->inputs.count++] = bti_node_retain(node->inputs[i]);
    put_number(again, again->entries.count - 1);
    return true;
}

static int input_count(const bti_again *again, size_t e) {
    size_t end = e + 1 < again->entries.count ? again->entries.items[e + 1].first_input : again->inputs.count;
    return (int)(end - again->entries.items[e].first_input);
}

/* Adds what is missing, the users first. */
static bool find_needed(bti_again *again, bti_node *node, bti_checkpoint *block) {
    size_t next = again->entries.count;
    bool room = need(again, node, block);
    for (; next < again->entries.count && room; next++) {
        bti_again_entry entry = again->entries.items[next];
        int count = input_count(again, next);
        for (int i = 0; i < count && room; i++)
            room = need(again, again->inputs.items[entry.first_input + (size_t)i], entry.block);
        if (!entry.inside && room) room = need(again, entry.node, block_with(entry.block->outer, entry.node));
    }
    return room;
}

/* --- recording -------------------------------------------------------------------------------------------------------- */

static bti_node *seen_from(const bti_again *again, bti_node *node, bti_checkpoint *block) {
    const bti_again_entry *entry = block ? find_entry(again, node, block) : NULL;
    return entry ? entry->again : node;
}

static bti_node *finish(bti_node *made) {
    if (!made) return NULL;
    atomic_store(&made->logged, NULL);
    atomic_store(&made->in_gradient, true);
    bti_checkpoint_release(made->checkpoint);
    made->checkpoint = bti_checkpoint_retain(bti_checkpoint_now());
    for (int i = 0; i < made->input_count; i++) made->symbolic = made->symbolic || made->inputs[i]->symbolic;
    return made;
}

static bti_node *record_barrier(const bti_again *again, const bti_again_entry *entry, bti_node *cotangent) {
    const bti_node *node = entry->node;
    bti_node *inputs[2] = {seen_from(again, entry->node, block_with(entry->block->outer, node)), cotangent};
    bti_node *made = bti_node_new(BTI_OP_barrier, (bt_dtype)node->dtype, node->rank, node->shape, 2, inputs, NULL);
    if (made) bti_copy_marks(made, node);
    return finish(made);
}

static bti_node *record_operation(const bti_again *again, size_t e) {
    const bti_again_entry *entry = &again->entries.items[e];
    int count = input_count(again, e);
    bti_node **inputs = bti_alloc((size_t)count * sizeof *inputs), *made = NULL;
    if (!inputs) return NULL;
    for (int i = 0; i < count; i++)
        inputs[i] = seen_from(again, again->inputs.items[entry->first_input + (size_t)i], entry->block);
    (void)bti_node_again_untold(entry->node, inputs, NULL, &made);
    bti_free(inputs);
    return finish(made);
}

typedef struct ordered {
    int depth;
    uint64_t sequence;
    size_t entry;
} ordered;

/* Outer blocks first; inside of a block, in recorded order. */
static int compare_order(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static bool record_entries(bti_again *again, size_t first, bti_node *cotangent) {
    size_t count = again->entries.count - first;
    ordered *order = bti_alloc(count * sizeof *order);
    bool room = order;
    for (size_t i = 0; i < count && room; i++) {
        const bti_again_entry *entry = &again->entries.items[first + i];
        order[i] = (ordered){entry->depth, entry->node->sequence, first + i};
    }
    if (room) qsort(order, count, sizeof *order, compare_order);
    for (size_t i = 0; i < count && room; i++) {
        bti_again_entry *entry = &again->entries.items[order[i].entry];
        entry->again =
            entry->inside ? record_operation(again, order[i].entry) : record_barrier(again, entry, cotangent);
        room = entry->again;
        if (room) bti_eval_recorded(entry->again);
    }
    bti_free(order);
    return room;
}

bti_node *bti_again_for(bti_again *again, const bti_node *user, bti_node *node, bti_node *cotangent) {
    bti_checkpoint *block = block_with(user->checkpoint, node);
    if (!block) return node;
    size_t first = again->entries.count;
    int walk = bti_walk_begin();
    bool room = find_needed(again, node, block);
    bti_walk_end(walk);
    if (!room || (again->entries.count > first && !record_entries(again, first, cotangent))) return NULL;
    return seen_from(again, node, block);
}

void bti_again_end(bti_again *again) {
    for (size_t e = 0; e < again->entries.count; e++) {
        bti_node_release(again->entries.items[e].node);
        bti_node_release(again->entries.items[e].again);
    }
    for (size_t i = 0; i < again->inputs.count; i++) bti_node_release(again->inputs.items[i]);
    bti_vec_free(&again->entries);
    bti_vec_free(&again->inputs);
    bti_vec_free(&again->table);
}

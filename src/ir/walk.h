/* For walks over nodes: which were met, with a number each, and their order. */
#ifndef BTI_IR_WALK_H
#define BTI_IR_WALK_H

#include "ir/node.h"

/* A number for each node that was put in. Begins as {0}; freed by bti_numbers_free. */
typedef struct bti_numbered {
    const bti_node *node;
    int64_t number;
} bti_numbered;
typedef struct bti_numbers {
    bti_numbered *slots; /* open addressing; capacity a power of two, or 0 */
    size_t capacity, count;
} bti_numbers;

/* The slot that it is in, or would be; not of an empty table. */
static inline bti_numbered *bti_number_slot(const bti_numbers *numbers, const bti_node *node) {
    size_t last = numbers->capacity - 1, i = (size_t)((uint64_t)(uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    while (numbers->slots[i & last].node && numbers->slots[i & last].node != node) i++;
    return &numbers->slots[i & last];
}
/* -1: it has none */
static inline int64_t bti_number_of(const bti_numbers *numbers, const bti_node *node) {
    if (!numbers->count) return -1;
    const bti_numbered *slot = bti_number_slot(numbers, node);
    return slot->node ? slot->number : -1;
}
bool bti_number_put(bti_numbers *numbers, const bti_node *node, int64_t number); /* false: memory is short */
/* Puts it in with -1 if it is not in. *met: whether it was. */
bool bti_number_meet(bti_numbers *numbers, const bti_node *node, bool *met);
void bti_numbers_free(bti_numbers *numbers);

/* Sorts into the order of recording: inputs before users. */
void bti_nodes_sort(bti_node **nodes, size_t count);

#endif

#include "ir/walk.h"

#include <stdlib.h>

#include "base/alloc.h"

/* --- numbers -------------------------------------------------------------------------------------------------------- */

enum { FEW = 64 };

static bool grow_numbers(bti_numbers *numbers) {
    bti_numbers grown = {.capacity = numbers->capacity ? 2 * numbers->capacity : FEW, .count = numbers->count};
    grown.slots = bti_calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots) return false;
    for (size_t i = 0; i < numbers->capacity; i++)
        if (numbers->slots[i].node) *bti_number_slot(&grown, numbers->slots[i].node) = numbers->slots[i];
    bti_free(numbers->slots);
    *numbers = grown;
    return true;
}

static bti_numbered *find_or_add(bti_numbers *numbers, const bti_node *node) {
    if (2 * (numbers->count + 1) > numbers->capacity && !grow_numbers(numbers)) return NULL;
    return bti_number_slot(numbers, node);
}

bool bti_number_put(bti_numbers *numbers, const bti_node *node, int64_t number) {
    bti_numbered *slot = find_or_add(numbers, node);
    if (!slot) return false;
    numbers->count += !slot->node;
    *slot = (bti_numbered){node, number};
    return true;
}

bool bti_number_meet(bti_numbers *numbers, const bti_node *node, bool *met) {
    bti_numbered *slot = find_or_add(numbers, node);
    if (!slot) return false;
    *met = slot->node;
    if (*met) return true;
    numbers->count++;
    *slot = (bti_numbered){node, -1};
    return true;
}

void bti_numbers_free(bti_numbers *numbers) {
    bti_free(numbers->slots);
    *numbers = (bti_numbers){0};
}

/* --- order ---------------------------------------------------------------------------------------------------------- */

static int by_sequence(const void *a, const void *b) {
    uint64_t x = (*(bti_node *const *)a)->sequence, y = (*(bti_node *const *)b)->sequence;
    return x < y ? -1 : x > y;
}

#define SPARSE 8 /* numbers per node up to which each node is put at its number */

/* Sorts in linear time where the numbers are close together, as those of one graph mostly are. False: they are not, or memory is
 * short. */
static bool counting_sort(bti_node **nodes, size_t count) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        if (nodes[i]->sequence < least) least = nodes[i]->sequence;
        if (nodes[i]->sequence > most) most = nodes[i]->sequence;
    }
    if (count < 16 || most - least >= SPARSE * (uint64_t)count) return false;
    bti_node **places = bti_calloc((size_t)(most - least) + 1, sizeof *places);
    if (!places) return false;
    bool apart = true;
    for (size_t i = 0; i < count && apart; i++) {
        bti_node **place = &places[nodes[i]->sequence - least];
        apart = !*place;
        *place = nodes[i];
    }
    for (size_t p = 0, sorted = 0; p <= (size_t)(most - least) && apart; p++)
        if (places[p]) nodes[sorted++] = places[p];
    bti_free(places);
    return apart;
}

void bti_nodes_sort(bti_node **nodes, size_t count) {
    if (count && !counting_sort(nodes, count)) qsort(nodes, count, sizeof *nodes, by_sequence);
}

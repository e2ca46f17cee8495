/* The smaller and the larger of two numbers, and the place of a number in a sorted list. */
#ifndef BTI_BASE_COMPARE_H
#define BTI_BASE_COMPARE_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t bti_smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t bti_larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* How many of `count` items are at most `key`. They are in the order of their first members, which are uint64_t. */
static inline size_t bti_items_up_to(const void *items, size_t count, size_t item_bytes, uint64_t key) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (*(const uint64_t *)(const void *)((const char *)items + middle * item_bytes) <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif

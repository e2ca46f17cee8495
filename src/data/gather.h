/* Batches that are stacked in memory of the host. */
#ifndef BTI_DATA_GATHER_H
#define BTI_DATA_GATHER_H

#include "data/examples.h"
#include "data/memory.h"

/* Whom a loader's batches are made from and where; shared by its threads. */
typedef struct bti_gatherer {
    bt_dataset *dataset; /* borrowed */
    bti_leaf leaf;
    bti_batch_memory *store;
    unsigned char pad[BT_MAX_COLUMNS][8]; /* of ragged columns, one element each */
} bti_gatherer;

/* store_device, keep_bytes: of bti_batch_memory_new. Computes and waits. Ended by bti_gatherer_close, after an error too. */
bt_status bti_gatherer_open(bt_dataset *dataset, bt_device *store_device, size_t keep_bytes, bti_gatherer *gatherer);
void bti_gatherer_close(bti_gatherer *gatherer);

/* Stacks `count` examples: arrays[c] is [count, ...] on the CPU, not committed; sizes[c] of a ragged column is int32 [count], else NULL. They are
 * of the innermost scope. rows: which examples; NULL: first, first + 1, ... Any thread, each with a maker of its own. */
bt_status bti_gather_rows(const bti_gatherer *gatherer, bti_example_maker *maker, const int32_t *rows, int64_t first,
                          int64_t count, bt_array **arrays, bt_array **sizes);

#endif

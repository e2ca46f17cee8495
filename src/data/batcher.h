/* What makes the batches of a loader, one by one, in any order and on any thread. */
#ifndef BTI_DATA_BATCHER_H
#define BTI_DATA_BATCHER_H

#include "data/gather.h"

/* A batch. Zero is none. */
typedef struct bti_made {
    bt_array **arrays; /* [2 * columns] retained: the arrays, then the sizes or NULL */
    int columns;
    int64_t number, rows;
    uint64_t bytes;
    bti_error *error; /* why it could not be made, retained; then it has no arrays */
} bti_made;
void bti_made_release(bti_made *made); /* zero afterwards */

/* The rows of an epoch in their order: where the array that was computed lies. */
typedef struct bti_row_order {
    bt_array *array;     /* retained; NULL: there is none */
    const int32_t *rows; /* [rows]; NULL: in order */
} bti_row_order;

typedef struct bti_batcher {
    bt_dataset *dataset; /* retained */
    int64_t batch, batches;
    bool shuffled, recorded; /* recorded: by operations, where the arrays are; else gathered */
    uint32_t key[2];
    bt_device *device; /* NULL: batches stay where they are made */
    bool starts;       /* the work that makes a batch, and its copy to the device, are started when it is made */

    /* of the epoch */
    bt_array *orders[BT_MAX_COLUMNS]; /* recorded: where each column is, retained; NULL: in order */
    bti_row_order order;              /* gathered */
    bti_gatherer gatherer;

    bti_row_order prepared; /* gathered: that of epoch prepared_epoch, if it was computed before */
    int64_t epoch, prepared_epoch;
} bti_batcher;

/* Whether batches can be recorded: the data set is of arrays. */
bool bti_batcher_can_record(const bt_dataset *dataset);
/* Whether all columns are arrays in memory of the host. */
bool bti_batcher_is_on_host(const bt_dataset *dataset);
/* Whether all columns are arrays on that device. */
bool bti_batcher_is_on(const bt_dataset *dataset, const bt_device *device);
/* Prepares what gathers, unless batches are recorded. Computes and waits. */
bt_status bti_batcher_open(bti_batcher *batcher, uint64_t keep_bytes);
void bti_batcher_close(bti_batcher *batcher); /* a zero one is fine */
/* Sets the order of an epoch. No batch may be in the making. Gathered: computes and waits. */
bt_status bti_batcher_order(bti_batcher *batcher, int64_t epoch);
/* Gathered: computes the order of the epoch after this one, while nobody sets one. Errors come when that is set. */
void bti_batcher_prepare(bti_batcher *batcher);
/* Makes a batch of the epoch. */
void bti_batcher_make(const bti_batcher *batcher, bti_example_maker *maker, int64_t number, bti_made *made);
/* Bytes of a whole batch, with ragged columns as small as can be. */
uint64_t bti_batcher_least_bytes(const bti_batcher *batcher);

#endif

/* Examples one by one: what functions of the program's make of their numbers, or of other examples. */
#ifndef BTI_DATA_EXAMPLES_H
#define BTI_DATA_EXAMPLES_H

#include "data/dataset.h"

enum { BTI_MAX_CHAIN = 64 /* maps and selections of each other */ };

/* Memory that is taken piece by piece and given back all at once; zero is an empty one. Pieces are aligned to 64 bytes. */
typedef struct bti_arena_chunk bti_arena_chunk;
typedef struct bti_scratch {
    bti_arena_chunk *first, *last;
} bti_scratch;
void bti_scratch_reset(bti_scratch *scratch); /* keeps the first chunk */

/* A leaf in memory of the host. */
typedef struct bti_leaf {
    bt_dataset *dataset;                       /* borrowed */
    const unsigned char *base[BT_MAX_COLUMNS]; /* ARRAYS, FILES: the elements of each column, row-major */
    bt_array *holder[BT_MAX_COLUMNS];          /* ARRAYS: retained; keeps them */
} bti_leaf;
/* Computes and waits; arrays that are not row-major in memory of the host are copied. Ended by bti_leaf_close, after an error too. */
bt_status bti_leaf_open(bt_dataset *dataset, bti_leaf *leaf);
void bti_leaf_close(bti_leaf *leaf);

/* What one thread needs to make examples. */
typedef struct bti_example_maker {
    const bti_leaf *leaf;
    bti_scratch of_example; /* examples that others are made of */
    bti_scratch of_batch;   /* ragged ones, until the batch is stacked */
} bti_example_maker;
void bti_example_maker_free(bti_example_maker *maker);

/* Makes example `index` of a CALLBACK or MAP: data[c] is where the elements of column c go; of a ragged one it is set, to memory of
 * of_batch, and shape[c] says how large it is. */
bt_status bti_example_fill(bti_example_maker *maker, const bt_dataset *dataset, int64_t index, void **data,
                           bt_shape *shape);
/* Where the elements of example `index` of any data set are, until the next call for this maker. */
bt_status bti_example_view(bti_example_maker *maker, const bt_dataset *dataset, int64_t index, void **data,
                           bt_shape *shape);

#endif

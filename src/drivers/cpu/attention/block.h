/* What both operations are made of: blocks of scores, and products of blocks. */
#ifndef BTI_DRIVERS_CPU_ATTENTION_BLOCK_H
#define BTI_DRIVERS_CPU_ATTENTION_BLOCK_H

#include <stdatomic.h>

#include "drivers/cpu/product/onednn.h"
#include "drivers/cpu/product/tile.h"
#include "drivers/cpu/vector/vector.h"
#include "reference/attention.h"

/* One operation. The last axis of all operands but masks is contiguous, and rows do not overlap. */
typedef struct bti_attention_run {
    bti_attention a;
    bt_dtype dtype;
    int64_t size; /* of an element */
    bti_target target;
    const bti_row_loops *loops;
    int64_t block_rows, block_keys;
    int64_t line;      /* elements from a row of a block of scores to the next */
    int64_t spare;     /* bytes of scratch for products */
    atomic_int status; /* of what failed last; BT_OK */
} bti_attention_run;

/* What a thread has: `by_library` says whether products may be. */
typedef struct bti_attention_thread {
    bti_attention_run *run;
    bool by_library;
    char *scores, *slopes, *spare; /* [block_rows][line] each; slopes: of gradients */
    double *stats;                 /* so many numbers as were asked for */
    char *memory;
    bti_guest guest;
} bti_attention_thread;

/* Chooses blocks. */
void bti_attention_cut(bti_attention_run *run);
/* Pieces of so many rows of queries that are worth a core. */
int64_t bti_attention_grain(const bti_attention_run *run, int64_t rows);
/* Memory and the library for a thread, and the end of both; false: there is no memory, and the run has failed. */
bool bti_attention_begin(bti_attention_thread *t, bti_attention_run *run, int64_t stats);
void bti_attention_end(bti_attention_thread *t);

/* Rows of an operand from i on, of a batch and head, as a matrix; and turned. */
bti_matrix bti_attention_rows(const bti_attention_run *run, const bti_operand *x, int64_t n, int64_t h, int64_t i);
static inline bti_matrix bti_attention_turned(bti_matrix x) { return (bti_matrix){x.at, x.column, x.row}; }
static inline bti_matrix bti_attention_scores(const bti_attention_run *run, char *at) {
    return (bti_matrix){at, run->line * run->size, run->size};
}

/* c = a x b, or with `add` c += a x b: [m, k] x [k, n]. The run fails where it does. */
void bti_attention_multiply(bti_attention_thread *t, int64_t m, int64_t n, int64_t k, bti_matrix a, bti_matrix b,
                            bti_matrix c, bool add);

/* A row of scores, of query i and keys from j on. With a mask they become scale * x + mask; gives what they are still to be multiplied with, which is not negative. */
double bti_attention_mask_row(const bti_attention_run *run, char *row, int64_t n, int64_t h, int64_t i, int64_t j,
                              int64_t count);

/* Zeros in the part of rows. */
void bti_attention_clear(const bti_attention_run *run, const bti_operand *x, int64_t n, int64_t h, int64_t from,
                         int64_t count);

bt_status bti_attention_forward(bti_attention_run *run);
bt_status bti_attention_backward(bti_attention_run *run);

#endif

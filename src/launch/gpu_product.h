/* A matrix product as libraries of vendors take it: matrices whose rows or columns are dense, and a batch of equal steps. */
#ifndef BTI_LAUNCH_GPU_PRODUCT_H
#define BTI_LAUNCH_GPU_PRODUCT_H

#include "base/error.h"
#include "ir/work.h"

typedef struct bti_gpu_matrix {
    int64_t leading;    /* elements from a row to the next; of a transposed one, from a column */
    int64_t batch_step; /* elements from a matrix to the next; 0: all are the same */
    bool transposed;    /* columns are dense, not rows */
} bti_gpu_matrix;

typedef struct bti_gpu_product {
    int64_t rows, columns, inner;    /* [rows, inner] times [inner, columns] */
    int64_t batch;                   /* the innermost axes of the batch that are one */
    int outside;                     /* how many axes come before them */
    bti_gpu_matrix left, right, out; /* out is not transposed */
} bti_gpu_product;

/* False: it is no such product, or an empty one. */
bool bti_gpu_product_of(const bti_work *work, bti_gpu_product *product);

/* Calls it for each place of the axes outside, row-major, with the addresses there. */
typedef bt_status bti_gpu_product_function(void *data, uint64_t left, uint64_t right, uint64_t out);
bt_status bti_gpu_product_each(const bti_work *work, const bti_gpu_product *product, bti_gpu_product_function *function,
                               void *data);

#endif

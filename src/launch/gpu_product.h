/* Matrix products: their launch, and a product as vendors' libraries take it, with matrices whose rows or columns are contiguous and a
 * batch with constant steps. */
#ifndef BTI_LAUNCH_GPU_PRODUCT_H
#define BTI_LAUNCH_GPU_PRODUCT_H

#include "base/error.h"
#include "ir/work.h"

typedef struct bti_gpu_matrix {
    int64_t leading;    /* elements from one row to the next; of a transposed matrix, from one column to the next */
    int64_t batch_step; /* elements from one matrix to the next; 0: all are the same */
    bool transposed;    /* columns are contiguous, not rows */
} bti_gpu_matrix;

typedef struct bti_gpu_product {
    int64_t rows, columns, inner;                          /* [rows, inner] times [inner, columns] */
    int64_t batch;                                         /* the innermost batch axes, as one */
    bti_gpu_matrix left, right, out;                       /* out is not transposed */
    int outside;                                           /* the number of batch axes before them, which stand in: */
    int64_t extent[BTI_MAX_RANK], stride[3][BTI_MAX_RANK]; /* in elements, of left, right, out */
} bti_gpu_product;

/* False: it is not such a product, or it is empty. */
bool bti_gpu_product_of(const bti_work *work, bti_gpu_product *product);

/* Calls the function for each position of the outside axes, in row-major order, with the addresses there. */
typedef bt_status bti_gpu_product_function(void *data, uint64_t left, uint64_t right, uint64_t out);
bt_status bti_gpu_product_each(const bti_work *work, const bti_gpu_product *product, bti_gpu_product_function *function,
                               void *data);

struct bti_gpu;
struct bti_gpu_work;
struct bti_gpu_job;
/* Launches a product by the driver's library. `work`: the program that it is part of. *done false: the driver has none, or it does not support this product; nothing is launched. */
bt_status bti_gpu_launch_by_library(struct bti_gpu *gpu, struct bti_gpu_work *work, const bti_work *product,
                                    bool *done);
/* Launches the product of a job (gpu_job.h): by the driver's library (driver->product), or by the engine's own text. */
bt_status bti_gpu_launch_matmul(struct bti_gpu_job *job);

#endif

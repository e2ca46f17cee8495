/* Shared by the files of the fake libcublasLt. */
#ifndef BERTH_TESTS_FAKES_LIBCUBLASLT_H
#define BERTH_TESTS_FAKES_LIBCUBLASLT_H

#include "drivers/cuda/cublaslt.h"
#include "fakes/stream.h"

struct cublasLtMatmulDescOpaque {
    int compute, scale, a, b;
};
struct cublasLtMatrixLayoutOpaque {
    int type;
    uint64_t rows, columns;
    int64_t leading, step; /* elements; step: from one matrix of a batch to the next */
    int batch;
};

/* A product, as an operation of a stream gets it: d = alpha a b + beta c. */
typedef struct fake_product {
    uint64_t a, b, c, d, workspace, workspace_bytes;
    double alpha, beta;
    struct cublasLtMatmulDescOpaque product;
    struct cublasLtMatrixLayoutOpaque a_layout, b_layout, c_layout, d_layout;
    uint64_t m, n, k;
} fake_product;

size_t fake_element_bytes(int type); /* 0: unknown */
/* The bytes from the first to the last element of the matrices of a batch. */
uint64_t fake_layout_bytes(const struct cublasLtMatrixLayoutOpaque *layout);
void fake_run_product(void *product);

#endif

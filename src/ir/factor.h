/* Linear algebra of matrices, as operations of the library's own and the libraries that compute them have it (ops/linalg.c; drivers/cpu/product/lapack.c, drivers/cuda/factor.c). */
#ifndef BTI_IR_FACTOR_H
#define BTI_IR_FACTOR_H

#include <berth/dtype.h>
#include <stdbool.h>

/* What is computed of the matrices a, row by row: the inputs and outputs of each, in their order. k: the smaller side. */
typedef enum bti_factor_kind {
    BTI_FACTOR_CHOLESKY,        /* a [n, n] -> l [n, n], of the lower half */
    BTI_FACTOR_SOLVE,           /* a [n, n], b [n, m] -> x [n, m], a x = b */
    BTI_FACTOR_TRIANGLE,        /* the same of a triangle */
    BTI_FACTOR_DETERMINANT,     /* a [n, n] -> a number */
    BTI_FACTOR_LOG_DETERMINANT, /* a [n, n] -> a sign, and a logarithm, which is real */
    BTI_FACTOR_QR,              /* a [m, n] -> q [m, k], r [k, n] */
    BTI_FACTOR_EIGH, /* a [n, n] -> values [n], which are real, vectors [n, n] in columns; of the lower half */
    BTI_FACTOR_SVD,  /* a [m, n] -> u [m, k], values [k], which are real, v [k, n] */
    BTI_FACTOR_KINDS
} bti_factor_kind;

typedef struct bti_matrices {
    bt_dtype dtype; /* float32, float64, complex64, complex128 */
    int64_t batch, m, n;
} bti_matrices;

typedef struct bti_triangle {
    bool upper, transposed,
        unit; /* which half is read; its transpose is meant (not the adjoint); its diagonal counts as ones */
} bti_triangle;

typedef struct bti_factor {
    bti_factor_kind kind;
    bti_matrices of;
    bti_triangle triangle;
} bti_factor;

static inline int64_t bti_matrices_smaller_side(const bti_matrices *s) { return s->m < s->n ? s->m : s->n; }

#endif

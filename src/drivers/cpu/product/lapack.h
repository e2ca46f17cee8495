/* Factorisations of float32, float64, complex64 and complex128 matrices by LAPACK, which is in OpenBLAS: dense row-major matrices, `batch` of them one after the
 * other, on the calling thread, so that the bits do not depend on the number of threads. UNIMPLEMENTED, naming what to install, where there
 * is no OpenBLAS with LAPACK. What has no result (not positive definite, not finite, no convergence) is NaN. Sizes are below 2^31. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_LAPACK_H
#define BTI_DRIVERS_CPU_PRODUCT_LAPACK_H

#include "base/error.h"
#include "ir/factor.h"

/* a -> l [n, n], of the lower half of a. */
bt_status bti_lapack_cholesky(bti_matrices s, const void *a, void *l);
/* a x = b, with x and b [n, m]. */
bt_status bti_lapack_triangular_solve(bti_matrices s, bti_triangle how, const void *a, const void *b, void *x);
bt_status bti_lapack_solve(bti_matrices s, const void *a, const void *b, void *x);
/* The determinant; of `logarithm` its sign, of complex ones a number of size 1, and the logarithm of its absolute value, which is real. */
bt_status bti_lapack_determinant(bti_matrices s, const void *a, void *determinant);
bt_status bti_lapack_log_determinant(bti_matrices s, const void *a, void *sign, void *logarithm);
/* k = min(m, n): q [m, k], r [k, n]. */
bt_status bti_lapack_qr(bti_matrices s, const void *a, void *q, void *r);
/* Of the lower half: values [n] ascending, which are real, vectors [n, n] in columns. */
bt_status bti_lapack_eigh(bti_matrices s, const void *a, void *values, void *vectors);
/* u [m, k], values [k] descending, which are real, v [k, n] (transposed, of complex ones the adjoint). */
bt_status bti_lapack_svd(bti_matrices s, const void *a, void *u, void *values, void *v);

#endif

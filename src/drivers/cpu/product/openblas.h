/* OpenBLAS, for products of float64. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_OPENBLAS_H
#define BTI_DRIVERS_CPU_PRODUCT_OPENBLAS_H

#include "base/error.h"
#include "drivers/cpu/product/library.h"

/* The first call opens the library. */
bool bti_openblas_available(void);

extern const char *const bti_openblas_names[]; /* the usual ones, up to a NULL */

/* Around calls of the library, which is available: the calling thread's next team is itself alone. */
bt_status bti_openblas_begin(int *threads);
void bti_openblas_end(int threads);

/* c = a x b; m, n, k at least 1 and below 2^31; c is not transposed. The library must be available. */
bt_status bti_openblas_dgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                             const bti_blas_matrix *c);

void bti_openblas_state(bti_library_state *state);
void bti_openblas_use(const char *const *names); /* bti_product_library_reset; NULL: the usual names */

#endif

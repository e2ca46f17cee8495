/* oneDNN, for products of float32 and bfloat16. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_ONEDNN_H
#define BTI_DRIVERS_CPU_PRODUCT_ONEDNN_H

#include "base/error.h"
#include "drivers/cpu/product/library.h"

/* The first call opens the library. has_bf16: whether oneDNN and this CPU have instructions for bfloat16. */
bool bti_onednn_available(void);
bool bti_onednn_has_bf16(void);

/* c = a x b, or with `add` c += a x b; m, n, k at least 1; c is not transposed. The library must be available. */
bt_status bti_onednn_sgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                           const bti_blas_matrix *c, bool add);
/* c = a x b of bfloat16, rounded once. oneDNN makes a primitive for each shape; the most recently used ones are kept. */
bt_status bti_onednn_bf16_gemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                               const bti_blas_matrix *c);

#define BTI_ONEDNN_PRIMITIVES 64 /* kept at most */
typedef struct bti_primitive_counts {
    uint64_t kept, found, made, evicted; /* kept now; calls that found one; made so far; evicted so far */
} bti_primitive_counts;
void bti_onednn_state(bti_library_state *state, bti_primitive_counts *counts);
/* bti_product_library_reset; NULL: the usual names. Frees all primitives and sets their counts to 0. */
void bti_onednn_use(const char *const *names);

#endif

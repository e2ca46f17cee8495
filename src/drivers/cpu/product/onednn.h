/* oneDNN, for products of float32 and bfloat16. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_ONEDNN_H
#define BTI_DRIVERS_CPU_PRODUCT_ONEDNN_H

#include "base/error.h"
#include "drivers/cpu/product/dnnl.h"

/* Whether oneDNN and this CPU have instructions for bfloat16. */
bool bti_onednn_has_bf16(void);

/* c = a x b, or with `add` c += a x b; m, n, k at least 1; c is not transposed. The library must be available. */
bt_status bti_onednn_sgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                           const bti_blas_matrix *c, bool add);
/* c = a x b of bfloat16, rounded once. */
bt_status bti_onednn_bf16_gemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                               const bti_blas_matrix *c);

#endif

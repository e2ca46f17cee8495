/* oneDNN, for products of float32, bfloat16 and bytes. */
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

/* Whether it has products of bytes whose sums are exact: where the CPU adds four of them to an int32 at once; older ones add two in 16 bits, which saturate. */
bool bti_onednn_has_bytes(void);
/* c = a x b: a of uint8 or int8, b of int8, c of int32. */
bt_status bti_onednn_bytes_gemm(bool is_unsigned, int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a,
                                const bti_blas_matrix *b, const bti_blas_matrix *c);

#endif

#include "drivers/cpu/product/onednn.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

bool bti_onednn_has_bf16(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512bf16") && bti_dnnl_has_primitives();
#else
    return false;
#endif
}

static bt_status outcome(int status, const char *of, int64_t m, int64_t n, int64_t k) {
    if (!status) return BT_OK;
    return bti_fail(status == BTI_DNNL_NO_MEMORY ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "oneDNN refuses a %sproduct of %lld x %lld x %lld (its status is %d)", of, (long long)m,
                    (long long)k, (long long)n, status);
}

bt_status bti_onednn_sgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                           const bti_blas_matrix *c, bool add) {
    int status = bti_dnnl_sgemm(a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', m, n, k,
                                (const float *)(const void *)a->at, a->leading, (const float *)(const void *)b->at,
                                b->leading, add ? 1 : 0, (float *)(void *)c->at, c->leading);
    return outcome(status, "", m, n, k);
}

static bti_dnnl_tensor tensor_of(const bti_blas_matrix *matrix, int64_t rows, int64_t columns) {
    int64_t row = matrix->transposed ? 1 : matrix->leading, column = matrix->transposed ? matrix->leading : 1;
    return (bti_dnnl_tensor){2, {rows, columns}, {row, column}};
}

bt_status bti_onednn_bf16_gemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                               const bti_blas_matrix *c) {
    bti_dnnl_key key = {.kind = BTI_DNNL_PRODUCT,
                        .type = BTI_DNNL_BF16,
                        .operand = {tensor_of(a, m, k), tensor_of(b, k, n), tensor_of(c, m, n)}};
    int status;
    bti_dnnl_primitive *p = bti_dnnl_acquire(&key, &status);
    if (p && !p->refused) {
        void *scratch = bti_alloc_aligned(64, p->scratch_bytes);
        status = scratch ? bti_dnnl_run(p, (void *const[]){a->at, b->at, c->at}, scratch) : BTI_DNNL_NO_MEMORY;
        bti_free(scratch);
    } else if (p) {
        status = 3; /* unimplemented */
    }
    if (p) bti_dnnl_release(p);
    return outcome(status, "bfloat16 ", m, n, k);
}

/* Where it has no VNNI, or was told to do without (ONEDNN_MAX_CPU_ISA), pairs of products saturate at 16 bits. */
static bool adds_exactly(void) {
    enum { LENGTH = 64 };
    uint8_t left[LENGTH];
    int8_t right[LENGTH];
    int32_t sum = 0;
    memset(left, 255, sizeof left);
    memset(right, 127, sizeof right);
    return !bti_dnnl_bytes_gemm(true, 'N', 'N', 1, 1, LENGTH, left, LENGTH, right, 1, &sum, 1) &&
           sum == LENGTH * 255 * 127;
}

bool bti_onednn_has_bytes(void) {
#ifdef __x86_64__
    static atomic_int known; /* 1: yes, 2: no */
    if (!atomic_load(&known))
        atomic_store(&known, __builtin_cpu_supports("avx512vnni") && bti_dnnl_open() && adds_exactly() ? 1 : 2);
    return atomic_load(&known) == 1;
#else
    return false;
#endif
}

bt_status bti_onednn_bytes_gemm(bool is_unsigned, int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a,
                                const bti_blas_matrix *b, const bti_blas_matrix *c) {
    int status = bti_dnnl_bytes_gemm(is_unsigned, a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', m, n, k, a->at,
                                     a->leading, b->at, b->leading, c->at, c->leading);
    return outcome(status, "8-bit ", m, n, k);
}

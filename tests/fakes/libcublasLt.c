/* A fake cuBLASLt: products of float32 and float64 by a plain loop. */
#include <stdlib.h>
#include <string.h>

#include "drivers/cuda/cublaslt.h"
#include "fakes/stream.h"

struct cublasLtMatmulDescOpaque {
    int compute, a, b;
};
struct cublasLtMatrixLayoutOpaque {
    int type;
    uint64_t rows, columns;
    int64_t leading, step;
    int batch;
};
struct cublasLtMatmulPreferenceOpaque {
    size_t workspace;
};
struct cublasLtContext {
    int unused;
};
fake_stream *fake_stream_of(CUstream stream);

#define ENTER(name)                               \
    do {                                          \
        int fake_code_ = fake_call(#name, false); \
        if (fake_code_) return fake_code_;        \
    } while (0)
#define MAKE(to)                          \
    do {                                  \
        *(to) = calloc(1, sizeof **(to)); \
        if (!*(to)) return 3;             \
        fake_live(1);                     \
    } while (0)
#define DROP(what) (free(what), fake_live(-1), 0)

FAKE_API size_t cublasLtGetVersion(void) { return 130002; }
FAKE_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    ENTER(cublasLtCreate);
    MAKE(handle);
    return 0;
}
FAKE_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return DROP(handle); }
FAKE_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, int compute, int scale) {
    ENTER(cublasLtMatmulDescCreate);
    if ((compute == CUBLAS_COMPUTE_64F) != (scale == CUDA_R_64F)) return 7;
    MAKE(product);
    (*product)->compute = compute;
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) { return DROP(product); }
FAKE_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, int attribute, const void *value,
                                                       size_t bytes) {
    ENTER(cublasLtMatmulDescSetAttribute);
    if (bytes != sizeof(int)) return 7;
    memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &product->a : &product->b, value, bytes);
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows,
                                                   uint64_t columns, int64_t leading) {
    ENTER(cublasLtMatrixLayoutCreate);
    if (leading < (int64_t)rows) return 7;
    MAKE(layout);
    **layout = (struct cublasLtMatrixLayoutOpaque){type, rows, columns, leading, 0, 1};
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return DROP(layout); }
FAKE_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute,
                                                         const void *value, size_t bytes) {
    ENTER(cublasLtMatrixLayoutSetAttribute);
    bool batch = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (bytes != (batch ? 4u : 8u)) return 7;
    memcpy(batch ? (void *)&layout->batch : &layout->step, value, bytes);
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    ENTER(cublasLtMatmulPreferenceCreate);
    MAKE(preference);
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return DROP(preference);
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute,
                                                             const void *value, size_t bytes) {
    ENTER(cublasLtMatmulPreferenceSetAttribute);
    if (bytes != (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8u : 4u)) return 7;
    if (bytes == 8) memcpy(&preference->workspace, value, bytes);
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                       cublasLtMatmulPreference_t preference, int wanted,
                                                       cublasLtMatmulHeuristicResult_t *results, int *count) {
    (void)handle, (void)preference, (void)wanted;
    ENTER(cublasLtMatmulAlgoGetHeuristic);
    uint64_t m = product->a ? a->columns : a->rows, k = product->a ? a->rows : a->columns;
    uint64_t n = product->b ? b->rows : b->columns, k_too = product->b ? b->columns : b->rows;
    *count = 0;
    if (c->rows != m || c->columns != n || k != k_too || d != c || (a->type != CUDA_R_32F && a->type != CUDA_R_64F))
        return 15;
    *results = (cublasLtMatmulHeuristicResult_t){.workspaceSize = 256};
    *count = 1;
    fake_log("heuristic %d %d%d %llu %llu %llu %d", product->compute, product->a, product->b, (unsigned long long)m,
             (unsigned long long)n, (unsigned long long)k, c->batch);
    return 0;
}

typedef struct run_of {
    uint64_t a, b, c;
    struct cublasLtMatmulDescOpaque product;
    struct cublasLtMatrixLayoutOpaque al, bl, cl;
} run_of;

static double at(const run_of *r, uint64_t base, const struct cublasLtMatrixLayoutOpaque *layout, int transposed,
                 int batch, uint64_t row, uint64_t column) {
    int64_t place = batch * layout->step + (int64_t)(transposed ? column : row) +
                    (int64_t)(transposed ? row : column) * layout->leading;
    (void)r;
    if (layout->type == CUDA_R_64F) return *(double *)fake_memory(base + (uint64_t)place * 8, 8);
    return (double)*(float *)fake_memory(base + (uint64_t)place * 4, 4);
}

static void run_product(void *data) {
    const run_of *r = data;
    uint64_t depth = r->product.a ? r->al.rows : r->al.columns;
    for (int batch = 0; batch < r->cl.batch; batch++)
        for (uint64_t row = 0; row < r->cl.rows; row++)
            for (uint64_t column = 0; column < r->cl.columns; column++) {
                double sum = 0;
                for (uint64_t i = 0; i < depth; i++)
                    sum += at(r, r->a, &r->al, r->product.a, batch, row, i) *
                           at(r, r->b, &r->bl, r->product.b, batch, i, column);
                uint64_t place = (uint64_t)(batch * r->cl.step + (int64_t)row + (int64_t)column * r->cl.leading);
                if (r->cl.type == CUDA_R_64F)
                    *(double *)fake_memory(r->c + place * 8, 8) = sum;
                else
                    *(float *)fake_memory(r->c + place * 4, 4) = (float)sum;
            }
    fake_log("product");
}

FAKE_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
                                       const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                       cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                       cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                       CUstream stream) {
    (void)handle, (void)algo, (void)alpha, (void)beta, (void)c, (void)d_layout;
    ENTER(cublasLtMatmul);
    if (workspace_bytes && !fake_memory((uint64_t)(uintptr_t)workspace, workspace_bytes)) return 7;
    run_of r = {(uint64_t)(uintptr_t)a,
                (uint64_t)(uintptr_t)b,
                (uint64_t)(uintptr_t)d,
                *product,
                *a_layout,
                *b_layout,
                *c_layout};
    fake_lock();
    fake_stream_add(fake_stream_of(stream), run_product, &r, sizeof r);
    fake_unlock();
    return 0;
}

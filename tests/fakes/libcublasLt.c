/* A fake cuBLASLt (NVIDIA, "cuBLAS Library", "Using the cuBLASLt API"): it checks what it is asked for as the library documents, and
 * libcublasLt_product.c computes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libcublasLt.h"

struct cublasLtMatmulPreferenceOpaque {
    uint64_t workspace;
    uint32_t aligned[4]; /* of A, B, C, D */
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
#define WORKSPACE_ALIGNED 256

enum { COMPUTE_32F_FAST_16F = 74 };

/* --- descriptions ---------------------------------------------------------------------------------------------------- */

FAKE_API size_t cublasLtGetVersion(void) { return 130002; }
FAKE_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    ENTER(cublasLtCreate);
    MAKE(handle);
    return 0;
}
FAKE_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return DROP(handle); }
FAKE_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, int compute, int scale) {
    ENTER(cublasLtMatmulDescCreate);
    bool f32 = compute == CUBLAS_COMPUTE_32F || compute == COMPUTE_32F_FAST_16F ||
               compute == CUBLAS_COMPUTE_32F_FAST_16BF || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    bool whole = compute == CUBLAS_COMPUTE_32I;
    if (!f32 && !whole && compute != CUBLAS_COMPUTE_64F) return CUBLAS_STATUS_INVALID_VALUE;
    if (scale != (f32 ? CUDA_R_32F : whole ? CUDA_R_32I : CUDA_R_64F)) return CUBLAS_STATUS_INVALID_VALUE;
    MAKE(product);
    (*product)->compute = compute, (*product)->scale = scale;
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) { return DROP(product); }
FAKE_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, int attribute, const void *value,
                                                       size_t bytes) {
    int transposed;
    ENTER(cublasLtMatmulDescSetAttribute);
    if (!product || !value || bytes != sizeof transposed) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&transposed, value, bytes);
    if (transposed != CUBLAS_OP_N && transposed != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
        product->a = transposed;
    else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
        product->b = transposed;
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows,
                                                   uint64_t columns, int64_t leading) {
    ENTER(cublasLtMatrixLayoutCreate);
    MAKE(layout);
    **layout = (struct cublasLtMatrixLayoutOpaque){type, rows, columns, leading, 0, 1};
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return DROP(layout); }
FAKE_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute,
                                                         const void *value, size_t bytes) {
    ENTER(cublasLtMatrixLayoutSetAttribute);
    bool batch = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (!layout || !value || (!batch && attribute != CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes != (batch ? sizeof layout->batch : sizeof layout->step)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(batch ? (void *)&layout->batch : &layout->step, value, bytes);
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    ENTER(cublasLtMatmulPreferenceCreate);
    MAKE(preference);
    for (int i = 0; i < 4; i++) (*preference)->aligned[i] = 256; /* the documented default */
    return 0;
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return DROP(preference);
}
FAKE_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute,
                                                             const void *value, size_t bytes) {
    ENTER(cublasLtMatmulPreferenceSetAttribute);
    if (preference && attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && value && bytes == sizeof(uint32_t))
        return *(const uint32_t *)value <= CUBLASLT_REDUCTION_SCHEME_MASK ? 0 : CUBLAS_STATUS_INVALID_VALUE;
    bool workspace = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (!preference || !value || (!workspace && (which < 0 || which > 3))) return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes != (workspace ? sizeof preference->workspace : sizeof preference->aligned[0]))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(workspace ? (void *)&preference->workspace : &preference->aligned[which], value, bytes);
    return 0;
}

/* --- what may be multiplied ------------------------------------------------------------------------------------------ */

size_t fake_element_bytes(int type) {
    switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F:
    case CUDA_R_32I: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return type == CUDA_R_8I;
    }
}

uint64_t fake_layout_bytes(const struct cublasLtMatrixLayoutOpaque *l) {
    uint64_t last = (uint64_t)(l->batch - 1) * (uint64_t)l->step + (l->columns - 1) * (uint64_t)l->leading + l->rows;
    return last * fake_element_bytes(l->type);
}

static bool layout_makes_sense(const struct cublasLtMatrixLayoutOpaque *l) {
    return l->rows && l->columns && l->leading >= (int64_t)l->rows && l->batch >= 1 && l->step >= 0;
}

static cublasStatus_t check_types(const struct cublasLtMatmulDescOpaque *product, int a, int b, int c, int d) {
    if (a == CUDA_R_32I || product->compute == CUBLAS_COMPUTE_32I) return CUBLAS_STATUS_NOT_SUPPORTED;
    bool fast = product->compute != CUBLAS_COMPUTE_32F && product->compute != CUBLAS_COMPUTE_64F;
    bool widens = a == CUDA_R_16BF && c == CUDA_R_32F;
    if (a != b || c != d || (a != c && !widens) || !fake_element_bytes(a)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((product->compute == CUBLAS_COMPUTE_64F) != (a == CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    return fast && a != CUDA_R_32F ? CUBLAS_STATUS_NOT_SUPPORTED : 0;
}

/* Of 8-bit integers, as NVIDIA says of matrices that are not in an order of their own: the first is transposed, the second is not; the rows of the
 * result, the inner size and the leading sizes are multiples of 4. */
static cublasStatus_t check_bytes(const fake_product *p) {
    const struct cublasLtMatmulDescOpaque *d = &p->product;
    bool types = p->b_layout.type == CUDA_R_8I && p->c_layout.type == CUDA_R_32I && p->d_layout.type == CUDA_R_32I;
    if (!types || d->compute != CUBLAS_COMPUTE_32I || d->scale != CUDA_R_32I) return CUBLAS_STATUS_NOT_SUPPORTED;
    bool fits = p->m % 4 == 0 && p->k % 4 == 0 && p->a_layout.leading % 4 == 0 && p->b_layout.leading % 4 == 0;
    return d->a && !d->b && fits ? 0 : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Fills in the product's layouts and sizes. */
static cublasStatus_t read_product(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, fake_product *p) {
    if (!product || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
    *p = (fake_product){.product = *product, .a_layout = *a, .b_layout = *b, .c_layout = *c, .d_layout = *d};
    const struct cublasLtMatrixLayoutOpaque *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (!layout_makes_sense(all[i]) || all[i]->batch != d->batch) return CUBLAS_STATUS_INVALID_VALUE;
    p->m = product->a ? a->columns : a->rows, p->k = product->a ? a->rows : a->columns;
    p->n = product->b ? b->rows : b->columns;
    if (p->k != (product->b ? b->columns : b->rows)) return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 2; i < 4; i++)
        if (all[i]->rows != p->m || all[i]->columns != p->n) return CUBLAS_STATUS_INVALID_VALUE;
    if (d->batch > 1 && (uint64_t)d->step < d->rows)
        return CUBLAS_STATUS_INVALID_VALUE; /* the matrices that are written overlap */
    if (a->type == CUDA_R_8I) return check_bytes(p);
    return check_types(product, a->type, b->type, c->type, d->type);
}

/* An algorithm knows its shape, its workspace and the alignment that it relies on. */
typedef struct algorithm {
    uint64_t magic, shape, workspace;
    uint32_t aligned[4];
} algorithm;
#define MAGIC UINT64_C(0x616c676f72697468)
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm has 64 bytes");

static uint64_t shape_of(const fake_product *p) {
    const int64_t numbers[] = {p->product.compute,  p->product.a,        p->product.b,        p->d_layout.type,
                               (int64_t)p->m,       (int64_t)p->n,       (int64_t)p->k,       p->d_layout.batch,
                               p->a_layout.leading, p->b_layout.leading, p->c_layout.leading, p->d_layout.leading,
                               p->a_layout.step,    p->b_layout.step,    p->c_layout.step,    p->d_layout.step};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = (hash ^ (uint64_t)numbers[i]) * UINT64_C(0x9fb21c651e98df25), hash ^= hash >> 29;
    return hash;
}

FAKE_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                       cublasLtMatmulPreference_t preference, int wanted,
                                                       cublasLtMatmulHeuristicResult_t *results, int *count) {
    fake_product p;
    ENTER(cublasLtMatmulAlgoGetHeuristic);
    *count = 0;
    if (!handle || !preference || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = read_product(product, a, b, c, d, &p);
    if (status) return status;
    const uint64_t sizes[] = {256, 1 << 16, 0}, size = sizes[shape_of(&p) % 3];
    algorithm chosen = {MAGIC, shape_of(&p), size <= preference->workspace ? size : 0, {0}};
    for (int i = 0; i < 4; i++) {
        size_t element = fake_element_bytes(i < 2 ? p.a_layout.type : p.d_layout.type);
        if (preference->aligned[i] % (element == 1 ? 4 : element)) return CUBLAS_STATUS_NOT_SUPPORTED;
        chosen.aligned[i] = preference->aligned[i] < 16 ? preference->aligned[i] : 16; /* wider loads there are none */
    }
    *results = (cublasLtMatmulHeuristicResult_t){.workspaceSize = chosen.workspace, .wavesCount = 1};
    memcpy(&results->algo, &chosen, sizeof chosen);
    *count = 1;
    fake_log("heuristic %d %d%d %llu %llu %llu %d", p.product.compute, p.product.a, p.product.b,
             (unsigned long long)p.m, (unsigned long long)p.n, (unsigned long long)p.k, p.d_layout.batch);
    return 0;
}

/* --- multiplying ------------------------------------------------------------------------------------------------------ */

static double scale_of(const void *number, int scale) {
    return scale == CUDA_R_64F   ? *(const double *)number
           : scale == CUDA_R_32I ? (double)*(const int32_t *)number
                                 : (double)*(const float *)number;
}

/* Whether the algorithm may take these operands and this workspace. */
static cublasStatus_t check_call(const fake_product *p, const cublasLtMatmulAlgo_t *algo) {
    algorithm chosen;
    const uint64_t operands[] = {p->a, p->b, p->c, p->d};
    memcpy(&chosen, algo, sizeof chosen);
    if (chosen.magic != MAGIC || chosen.shape != shape_of(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < 4; i++)
        if (!operands[i] || operands[i] % chosen.aligned[i]) return CUBLAS_STATUS_INVALID_VALUE;
    if (p->workspace % WORKSPACE_ALIGNED || p->workspace_bytes < chosen.workspace) return CUBLAS_STATUS_INVALID_VALUE;
    if (chosen.workspace && !fake_memory_exists(p->workspace, chosen.workspace)) return CUBLAS_STATUS_INVALID_VALUE;
    return p->c == p->d && memcmp(&p->c_layout, &p->d_layout, sizeof p->c_layout) ? CUBLAS_STATUS_INVALID_VALUE : 0;
}

FAKE_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
                                       const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                       cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                       cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                       CUstream stream) {
    fake_product p;
    ENTER(cublasLtMatmul);
    if (!handle || !alpha || !beta || !algo) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = read_product(product, a_layout, b_layout, c_layout, d_layout, &p);
    if (status) return status;
    p.a = (uint64_t)(uintptr_t)a, p.b = (uint64_t)(uintptr_t)b, p.c = (uint64_t)(uintptr_t)c,
    p.d = (uint64_t)(uintptr_t)d;
    p.workspace = (uint64_t)(uintptr_t)workspace, p.workspace_bytes = workspace_bytes;
    p.alpha = scale_of(alpha, product->scale), p.beta = scale_of(beta, product->scale);
    status = check_call(&p, algo);
    if (status) return status;
    fake_work work = {.run = fake_run_product};
    snprintf(work.name, sizeof work.name, "cublasLtMatmul of %llu x %llu x %llu", (unsigned long long)p.m,
             (unsigned long long)p.n, (unsigned long long)p.k);
    fake_lock();
    fake_stream_add_work(fake_stream_of(stream), &work, &p, sizeof p);
    fake_unlock();
    return 0;
}

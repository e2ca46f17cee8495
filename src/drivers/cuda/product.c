/* Matrix products by cuBLASLt. Its matrices are column-major, so a row-major C = A B is computed as C' = B' A', where each matrix is read
 * as its transpose. */
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lru.h"
#include "drivers/cuda/device.h"
#include "launch/gpu_product.h"

#define KEPT 256                           /* shapes */
#define WORKSPACE_BYTES ((size_t)32 << 20) /* NVIDIA's recommendation for Hopper; other GPUs need 4 MiB */
#define ALIGNED 256
/* Products of fewer multiplications and additions, and sums that are no longer, are not cut into parts, whose sum is one more launch. Measured on an H200: 32 x 128
 * times 128 x 10 takes 4.3 us whole and 4.7 cut, 128 x 512 times 512 x 10 takes 11.3 and 6.4. */
#define SMALL 4e6
#define SHORT 128

/* One matrix of the product as cuBLASLt reads it. */
typedef struct matrix {
    int64_t leading, batch_step; /* elements */
    int32_t transposed, aligned; /* bytes, a power of two */
} matrix;

typedef struct product_key { /* compared by memcmp */
    int64_t m, n, k, batch;
    matrix a, b, c;             /* a is the work's second input, b its first */
    int32_t type, out, compute; /* type: of a and b */
} product_key;

typedef struct known_product {
    bti_lru_entry entry; /* first */
    product_key shape;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    bool refused; /* cuBLASLt does not support it */
} known_product;

struct bti_cuda_products {
    cublasLtHandle_t handle;
    bti_lru known; /* used by the thread that runs the device's queue */
};

/* --- the shape of a product --------------------------------------------------------------------------------------- */

enum { HIGHEST, TF32, BF16 }; /* matmul_precision */

static bool read_type(bt_dtype dtype, int32_t *type) {
    switch (dtype) {
    case BT_F32: *type = CUDA_R_32F; return true;
    case BT_F64: *type = CUDA_R_64F; return true;
    case BT_F16: *type = CUDA_R_16F; return true;
    case BT_BF16: *type = CUDA_R_16BF; return true;
    default: return false;
    }
}

static bool read_types(bt_dtype in, bt_dtype out, product_key *s) {
    static const int computes[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_16BF};
    if (in == BT_I8 && out == BT_I32) { /* both operands: read_shape */
        s->type = CUDA_R_8I, s->out = CUDA_R_32I, s->compute = CUBLAS_COMPUTE_32I;
        return true;
    }
    s->compute = in == BT_F64   ? CUBLAS_COMPUTE_64F
                 : in == BT_F32 ? computes[bti_flag_choice(BTI_FLAG_matmul_precision)]
                                : CUBLAS_COMPUTE_32F;
    return read_type(in, &s->type) && read_type(out, &s->out);
}

/* The alignment is that of every matrix of the batch. */
static matrix as_cublas_reads(const bti_operand *o, const bti_gpu_matrix *of) {
    uint64_t aligned = o->address | ALIGNED;
    for (int axis = 0; axis < o->rank - 2; axis++) aligned |= (uint64_t)o->stride[axis] * bt_dtype_size(o->dtype);
    return (matrix){of->leading, of->batch_step, of->transposed, (int32_t)(aligned & -aligned)};
}

static bool read_shape(const bti_work *work, product_key *s, bti_gpu_product *product) {
    memset(s, 0, sizeof *s);
    if (work->inputs[0].dtype != work->inputs[1].dtype) return false;
    if (!read_types(work->inputs[0].dtype, work->output.dtype, s) || !bti_gpu_product_of(work, product)) return false;
    s->m = product->columns;
    s->n = product->rows;
    s->k = product->inner;
    s->batch = product->batch;
    s->a = as_cublas_reads(&work->inputs[1], &product->right);
    s->b = as_cublas_reads(&work->inputs[0], &product->left);
    s->c = as_cublas_reads(&work->output, &product->out);
    return s->batch <= INT32_MAX;
}

/* --- known shapes ------------------------------------------------------------------------------------------------- */

static bt_status fail_cublas(const bti_cuda_device *device, const char *call, cublasStatus_t status) {
    return bti_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "%s: %s: cuBLASLt's status is %d", device->name, call, status);
}
#define LT_TRY(device, function, ...)                                      \
    do {                                                                   \
        cublasStatus_t lt_status_ = bti_cublaslt.function(__VA_ARGS__);    \
        if (lt_status_) return fail_cublas(device, #function, lt_status_); \
    } while (0)

static bool is_known(const bti_lru_entry *entry, const void *key) {
    return !memcmp(&((const known_product *)entry)->shape, key, sizeof(product_key));
}

static void free_known(bti_lru_entry *freed) {
    known_product *entry = (known_product *)freed;
    if (entry->c) (void)bti_cublaslt.cublasLtMatrixLayoutDestroy(entry->c);
    if (entry->b) (void)bti_cublaslt.cublasLtMatrixLayoutDestroy(entry->b);
    if (entry->a) (void)bti_cublaslt.cublasLtMatrixLayoutDestroy(entry->a);
    if (entry->product) (void)bti_cublaslt.cublasLtMatmulDescDestroy(entry->product);
    bti_free(entry);
}

static bt_status make_layout(const bti_cuda_device *device, const product_key *s, const matrix *of, int32_t type,
                             int64_t rows, int64_t columns, cublasLtMatrixLayout_t *layout) {
    int32_t batch = (int32_t)s->batch;
    if (of->transposed) {
        int64_t swap = rows;
        rows = columns, columns = swap;
    }
    LT_TRY(device, cublasLtMatrixLayoutCreate, layout, type, (uint64_t)rows, (uint64_t)columns, of->leading);
    if (s->batch == 1) return BT_OK;
    LT_TRY(device, cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    LT_TRY(device, cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
           &of->batch_step, sizeof of->batch_step);
    return BT_OK;
}

static bt_status ask_heuristic(const bti_cuda_device *device, cublasLtMatmulPreference_t preference,
                               known_product *entry) {
    const product_key *s = &entry->shape;
    const size_t workspace = WORKSPACE_BYTES;
    const bool small = 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch < SMALL && s->k <= SHORT;
    const struct {
        int attribute;
        int32_t value;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   small ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_MASK},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s->a.aligned},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s->b.aligned},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s->c.aligned},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s->c.aligned}};
    cublasLtMatmulHeuristicResult_t result = {0};
    int count = 0;
    LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           &workspace, sizeof workspace);
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference, wishes[i].attribute, &wishes[i].value,
               sizeof wishes[i].value);
    cublasStatus_t status =
        bti_cublaslt.cublasLtMatmulAlgoGetHeuristic(device->products->handle, entry->product, entry->a, entry->b,
                                                    entry->c, entry->c, preference, 1, &result, &count);
    if (status == CUBLAS_STATUS_ALLOC_FAILED) return fail_cublas(device, "cublasLtMatmulAlgoGetHeuristic", status);
    entry->refused = status || !count || result.state;
    entry->algorithm = result.algo;
    entry->workspace_bytes = result.workspaceSize;
    return BT_OK;
}

/* Of the two factors. */
static int32_t scale_type(const product_key *s) {
    return s->type == CUDA_R_64F ? CUDA_R_64F : s->type == CUDA_R_8I ? CUDA_R_32I : CUDA_R_32F;
}

static bt_status make_product(const bti_cuda_device *device, known_product *entry) {
    const product_key *s = &entry->shape;
    const int32_t a = s->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, b = s->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulPreference_t preference;
    LT_TRY(device, cublasLtMatmulDescCreate, &entry->product, s->compute, scale_type(s));
    LT_TRY(device, cublasLtMatmulDescSetAttribute, entry->product, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    LT_TRY(device, cublasLtMatmulDescSetAttribute, entry->product, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    BTI_TRY(make_layout(device, s, &s->a, s->type, s->m, s->k, &entry->a));
    BTI_TRY(make_layout(device, s, &s->b, s->type, s->k, s->n, &entry->b));
    BTI_TRY(make_layout(device, s, &s->c, s->out, s->m, s->n, &entry->c));
    LT_TRY(device, cublasLtMatmulPreferenceCreate, &preference);
    bt_status status = ask_heuristic(device, preference, entry);
    (void)bti_cublaslt.cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* The caller releases *found. */
static bt_status find_known(bti_cuda_device *device, const product_key *s, known_product **found) {
    struct bti_cuda_products *products = device->products;
    uint64_t hash = XXH3_64bits(s, sizeof *s);
    *found = bti_lru_find(&products->known, hash, s);
    if (*found) return BT_OK;
    known_product *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    bti_lru_entry_init(&new->entry);
    new->shape = *s;
    bt_status status = make_product(device, new);
    if (status == BT_OK) {
        bti_lru_add(&products->known, &new->entry, hash, 0);
        *found = new;
    } else
        bti_lru_release(&products->known, &new->entry);
    return status;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

typedef struct cublas_call {
    bti_cuda_device *device;
    const known_product *entry;
    uint64_t workspace;
} cublas_call;

static bt_status call_cublas(void *data, uint64_t left, uint64_t right, uint64_t out) {
    static const float one = 1;
    static const double one_double = 1, zero = 0; /* zero: the bits of all three */
    static const int32_t one_whole = 1;
    const cublas_call *l = data;
    bti_cuda_device *device = l->device;
    const known_product *entry = l->entry;
    if (bti_cuda_cannot_update(device)) return BT_OK;
    int32_t scale = scale_type(&entry->shape);
    const void *factor = scale == CUDA_R_64F   ? (const void *)&one_double
                         : scale == CUDA_R_32I ? (const void *)&one_whole
                                               : &one;
    LT_TRY(device, cublasLtMatmul, device->products->handle, entry->product, factor, (const void *)(uintptr_t)right,
           entry->a, (const void *)(uintptr_t)left, entry->b, &zero, (const void *)(uintptr_t)out, entry->c,
           (void *)(uintptr_t)out, entry->c, &entry->algorithm, (void *)(uintptr_t)l->workspace, entry->workspace_bytes,
           bti_cuda_stream(device));
    return BT_OK;
}

static bt_status open_products(bti_cuda_device *device) {
    if (device->products) return BT_OK;
    struct bti_cuda_products *products = bti_calloc(1, sizeof *products);
    if (!products) return bti_no_memory();
    cublasStatus_t status = bti_cublaslt.cublasLtCreate(&products->handle);
    if (status) {
        bti_free(products);
        return fail_cublas(device, "cublasLtCreate", status);
    }
    products->known = (bti_lru){.equal = is_known, .free = free_known, .most_count = KEPT};
    device->products = products;
    return BT_OK;
}

static bt_status multiply_by_cublas(bti_cuda_device *device, const bti_work *work, const product_key *s,
                                    const bti_gpu_product *product, bool *done) {
    known_product *entry;
    uint64_t workspace = 0;
    BTI_TRY(open_products(device));
    BTI_TRY(find_known(device, s, &entry));
    bt_status status = BT_OK;
    if (!entry->refused && entry->workspace_bytes)
        status = bti_gpu_scratch(&device->gpu, BTI_GPU_WORKSPACE, entry->workspace_bytes, &workspace);
    if (!entry->refused && status == BT_OK)
        status = bti_gpu_product_each(work, product, call_cublas, &(cublas_call){device, entry, workspace});
    *done = !entry->refused && status == BT_OK;
    bti_lru_release(&device->products->known, &entry->entry);
    return status;
}

bool bti_cuda_has_product(void *opened, bt_dtype dtype) {
    (void)opened;
    product_key s;
    return bti_cuda_has(BTI_CUDA_CUBLASLT) && read_types(dtype, dtype, &s);
}

/* The library rounds float32 elements to bfloat16 each time that it loads one, and takes twice the time of a product of bfloat16 (H200: 3.0 ms
 * and 1.5 of 8192). Rounding them before reads and writes each once, which pays for itself where rows and columns are many. */
#define MANY 800
#define LEAST_INNER 256

bt_dtype bti_cuda_product_dtype(void *opened, const bti_work *work) {
    (void)opened;
    const bti_operand *left = &work->inputs[0], *out = &work->output;
    if (left->dtype != BT_F32 || bti_flag_choice(BTI_FLAG_matmul_precision) != BF16 || !bti_cuda_has(BTI_CUDA_CUBLASLT))
        return left->dtype;
    for (int i = 0; i < 2; i++) /* what is repeated within a matrix the library does not take */
        for (int axis = out->rank - 2; axis < out->rank; axis++)
            if (!work->inputs[i].stride[axis] && work->inputs[i].shape[axis] > 1) return BT_F32;
    double rows = (double)out->shape[out->rank - 2], columns = (double)out->shape[out->rank - 1];
    bool many = rows * columns >= MANY * (rows + columns) && left->shape[left->rank - 1] >= LEAST_INNER;
    return many ? BT_BF16 : BT_F32;
}

bt_status bti_cuda_product(void *opened, const bti_work *work, bool *done) {
    bti_cuda_device *device = opened;
    product_key s;
    bti_gpu_product product;
    *done = false;
    if (!bti_cuda_has(BTI_CUDA_CUBLASLT) || !read_shape(work, &s, &product)) return BT_OK;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(multiply_by_cublas(device, work, &s, &product, done));
}

void bti_cuda_products_free(bti_cuda_device *device) {
    struct bti_cuda_products *products = device->products;
    if (!products) return;
    bti_lru_clear(&products->known);
    if (!atomic_load(&device->lost)) (void)bti_cublaslt.cublasLtDestroy(products->handle);
    bti_free(products);
    device->products = NULL;
}

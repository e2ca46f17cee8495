/* Matrix products by cuBLASLt. Its matrices are column-major: a row-major C = A B is asked for as C' = B' A', each of the three
 * read as what it is when rows and columns change places. */
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cuda/device.h"

#define KEPT 256                           /* shapes */
#define WORKSPACE_BYTES ((size_t)32 << 20) /* what NVIDIA advises for Hopper; for others 4 MiB would do */
#define WORKSPACE_SLOT (BTI_GPU_SLOTS - 1) /* of the engine's scratch */
#define ALIGNED 256

/* One matrix of the product as cuBLASLt reads it. */
typedef struct matrix {
    int64_t leading, batch_step; /* elements */
    int32_t transposed, aligned; /* bytes, a power of two */
} matrix;

typedef struct shape { /* all bytes are compared */
    int64_t m, n, k, batch;
    matrix a, b, c; /* a is the work's second input, b its first */
    int32_t type, compute;
} shape;

typedef struct known {
    shape shape;
    uint64_t hash, used;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    bool refused; /* the library has nothing for it */
} known;

struct bti_cuda_products {
    cublasLtHandle_t handle;
    uint64_t clock;
    int count;
    known kept[KEPT];
};

/* --- what is asked for --------------------------------------------------------------------------------------------- */

static bool read_types(bt_dtype dtype, shape *s) {
    static const int computes[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_16BF};
    switch (dtype) {
    case BT_F32: s->type = CUDA_R_32F, s->compute = computes[bti_flag_choice(BTI_FLAG_matmul_precision)]; return true;
    case BT_F64: s->type = CUDA_R_64F, s->compute = CUBLAS_COMPUTE_64F; return true;
    case BT_F16: s->type = CUDA_R_16F, s->compute = CUBLAS_COMPUTE_32F; return true;
    case BT_BF16: s->type = CUDA_R_16BF, s->compute = CUBLAS_COMPUTE_32F; return true;
    default: return false;
    }
}

/* The last two axes of an operand: rows of unit elements, or columns. */
static bool read_matrix(const bti_operand *o, matrix *read) {
    int64_t rows = o->shape[o->rank - 2], columns = o->shape[o->rank - 1];
    int64_t down = o->stride[o->rank - 2], along = o->stride[o->rank - 1];
    uint64_t aligned = o->address | ALIGNED;
    *read = (matrix){.aligned = (int32_t)(aligned & -aligned)};
    if ((along == 1 || columns == 1) && (down >= columns || rows == 1))
        read->leading = rows == 1 ? columns : down;
    else if ((down == 1 || rows == 1) && (along >= rows || columns == 1))
        read->leading = columns == 1 ? rows : along, read->transposed = 1;
    else
        return false;
    return true;
}

/* Axis `axis` of the batch goes on where the axis within it ends, in all operands. */
static bool joins(const bti_work *work, int axis) {
    const bti_operand *all[] = {&work->inputs[0], &work->inputs[1], &work->output};
    for (int i = 0; i < 3; i++)
        if (all[i]->stride[axis] != all[i]->stride[axis + 1] * all[i]->shape[axis + 1]) return false;
    return true;
}

/* The innermost axes of the batch that are one: the library runs them in one go. Returns how many axes stay outside. */
static int read_batch(const bti_work *work, shape *s) {
    int axis = work->output.rank - 3;
    s->batch = 1;
    if (axis < 0) return 0;
    s->a.batch_step = work->inputs[1].stride[axis];
    s->b.batch_step = work->inputs[0].stride[axis];
    s->c.batch_step = work->output.stride[axis];
    s->batch = work->output.shape[axis];
    while (axis > 0 && joins(work, axis - 1)) s->batch *= work->output.shape[--axis];
    return axis;
}

static bool read_shape(const bti_work *work, shape *s, int *outside) {
    memset(s, 0, sizeof *s);
    const bti_operand *left = &work->inputs[0], *out = &work->output;
    s->m = out->shape[out->rank - 1];
    s->n = out->shape[out->rank - 2];
    s->k = left->shape[left->rank - 1];
    if (!s->m || !s->n || !s->k || !read_types(out->dtype, s) || !read_matrix(&work->inputs[1], &s->a) ||
        !read_matrix(left, &s->b) || !read_matrix(out, &s->c) || s->c.transposed)
        return false;
    *outside = read_batch(work, s);
    if (s->c.batch_step == 0 && s->batch > 1) return false;
    size_t size = bt_dtype_size(out->dtype);
    matrix *all[] = {&s->a, &s->b, &s->c};
    for (int i = 0; i < 3 && out->rank > 2; i++) { /* each matrix of a batch begins somewhere else */
        const bti_operand *o = i == 0 ? &work->inputs[1] : i == 1 ? left : out;
        for (int axis = 0; axis < out->rank - 2; axis++) {
            uint64_t aligned = (uint64_t)o->stride[axis] * size | (uint64_t)all[i]->aligned;
            all[i]->aligned = (int32_t)(aligned & -aligned);
        }
    }
    return true;
}

/* --- what is kept per shape ---------------------------------------------------------------------------------------- */

static bt_status failed(const bti_cuda_device *device, const char *call, cublasStatus_t status) {
    return bti_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "%s: %s: cuBLASLt's status is %d", device->name, call, status);
}
#define LT_TRY(device, function, ...)                                   \
    do {                                                                \
        cublasStatus_t lt_status_ = bti_cublaslt.function(__VA_ARGS__); \
        if (lt_status_) return failed(device, #function, lt_status_);   \
    } while (0)

static void forget(known *entry) {
    if (entry->c) (void)bti_cublaslt.cublasLtMatrixLayoutDestroy(entry->c);
    if (entry->b) (void)bti_cublaslt.cublasLtMatrixLayoutDestroy(entry->b);
    if (entry->a) (void)bti_cublaslt.cublasLtMatrixLayoutDestroy(entry->a);
    if (entry->product) (void)bti_cublaslt.cublasLtMatmulDescDestroy(entry->product);
    *entry = (known){0};
}

static bt_status make_layout(const bti_cuda_device *device, const shape *s, const matrix *of, int64_t rows,
                             int64_t columns, cublasLtMatrixLayout_t *layout) {
    int32_t batch = (int32_t)s->batch;
    if (of->transposed) {
        int64_t swap = rows;
        rows = columns, columns = swap;
    }
    LT_TRY(device, cublasLtMatrixLayoutCreate, layout, s->type, (uint64_t)rows, (uint64_t)columns, of->leading);
    if (s->batch == 1) return BT_OK;
    LT_TRY(device, cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    LT_TRY(device, cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
           &of->batch_step, sizeof of->batch_step);
    return BT_OK;
}

static bt_status ask(const bti_cuda_device *device, cublasLtMatmulPreference_t preference, known *entry) {
    const shape *s = &entry->shape;
    const size_t workspace = WORKSPACE_BYTES;
    const struct {
        int attribute;
        int32_t aligned;
    } wishes[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s->a.aligned},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s->b.aligned},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s->c.aligned},
                  {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s->c.aligned}};
    cublasLtMatmulHeuristicResult_t result = {0};
    int count = 0;
    LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           &workspace, sizeof workspace);
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference, wishes[i].attribute, &wishes[i].aligned,
               sizeof wishes[i].aligned);
    cublasStatus_t status =
        bti_cublaslt.cublasLtMatmulAlgoGetHeuristic(device->products->handle, entry->product, entry->a, entry->b,
                                                    entry->c, entry->c, preference, 1, &result, &count);
    if (status == CUBLAS_STATUS_ALLOC_FAILED) return failed(device, "cublasLtMatmulAlgoGetHeuristic", status);
    entry->refused = status || !count || result.state;
    entry->algorithm = result.algo;
    entry->workspace_bytes = result.workspaceSize;
    return BT_OK;
}

static bt_status make(const bti_cuda_device *device, known *entry) {
    const shape *s = &entry->shape;
    const int32_t a = s->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, b = s->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulPreference_t preference;
    LT_TRY(device, cublasLtMatmulDescCreate, &entry->product, s->compute,
           s->type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
    LT_TRY(device, cublasLtMatmulDescSetAttribute, entry->product, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    LT_TRY(device, cublasLtMatmulDescSetAttribute, entry->product, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    BTI_TRY(make_layout(device, s, &s->a, s->m, s->k, &entry->a));
    BTI_TRY(make_layout(device, s, &s->b, s->k, s->n, &entry->b));
    BTI_TRY(make_layout(device, s, &s->c, s->m, s->n, &entry->c));
    LT_TRY(device, cublasLtMatmulPreferenceCreate, &preference);
    bt_status status = ask(device, preference, entry);
    (void)bti_cublaslt.cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* What was used longest ago goes when there is no room. */
static bt_status find(bti_cuda_device *device, const shape *s, known **found) {
    struct bti_cuda_products *products = device->products;
    uint64_t hash = XXH3_64bits(s, sizeof *s);
    known *oldest = &products->kept[0];
    products->clock++;
    for (int i = 0; i < products->count; i++) {
        known *entry = &products->kept[i];
        if (entry->hash == hash && !memcmp(&entry->shape, s, sizeof *s)) {
            entry->used = products->clock;
            *found = entry;
            return BT_OK;
        }
        if (entry->used < oldest->used) oldest = entry;
    }
    if (products->count < KEPT) oldest = &products->kept[products->count++];
    forget(oldest);
    oldest->shape = *s;
    bt_status status = make(device, oldest);
    if (status == BT_OK) {
        oldest->hash = hash;
        oldest->used = products->clock;
        *found = oldest;
    } else
        forget(oldest);
    return status;
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static bt_status run(bti_cuda_device *device, const known *entry, uint64_t a, uint64_t b, uint64_t c,
                     uint64_t workspace) {
    static const float one = 1, zero = 0;
    static const double one_double = 1, zero_double = 0;
    bool is_double = entry->shape.type == CUDA_R_64F;
    LT_TRY(device, cublasLtMatmul, device->products->handle, entry->product,
           is_double ? (const void *)&one_double : &one, (const void *)(uintptr_t)a, entry->a,
           (const void *)(uintptr_t)b, entry->b, is_double ? (const void *)&zero_double : &zero,
           (const void *)(uintptr_t)c, entry->c, (void *)(uintptr_t)c, entry->c, &entry->algorithm,
           (void *)(uintptr_t)workspace, entry->workspace_bytes, bti_cuda_stream(device));
    return BT_OK;
}

/* The axes of the batch that the library cannot run in one go, row-major. */
static bt_status run_all(bti_cuda_device *device, const known *entry, const bti_work *work, int outside,
                         uint64_t workspace) {
    size_t size = bt_dtype_size(work->output.dtype);
    int64_t at[BTI_MAX_RANK] = {0};
    for (int axis = outside; axis >= 0;) {
        uint64_t address[3] = {work->inputs[1].address, work->inputs[0].address, work->output.address};
        for (int i = 0; i < outside; i++) {
            address[0] += (uint64_t)(at[i] * work->inputs[1].stride[i]) * size;
            address[1] += (uint64_t)(at[i] * work->inputs[0].stride[i]) * size;
            address[2] += (uint64_t)(at[i] * work->output.stride[i]) * size;
        }
        BTI_TRY(run(device, entry, address[0], address[1], address[2], workspace));
        for (axis = outside - 1; axis >= 0 && ++at[axis] == work->output.shape[axis]; axis--) at[axis] = 0;
    }
    return BT_OK;
}

static bt_status open_products(bti_cuda_device *device) {
    if (device->products) return BT_OK;
    struct bti_cuda_products *products = bti_calloc(1, sizeof *products);
    if (!products) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    cublasStatus_t status = bti_cublaslt.cublasLtCreate(&products->handle);
    if (status) {
        bti_free(products);
        return failed(device, "cublasLtCreate", status);
    }
    device->products = products;
    return BT_OK;
}

static bt_status product(bti_cuda_device *device, const bti_work *work, const shape *s, int outside, bool *done) {
    known *entry;
    uint64_t workspace = 0;
    BTI_TRY(open_products(device));
    BTI_TRY(find(device, s, &entry));
    if (entry->refused) return BT_OK;
    if (entry->workspace_bytes)
        BTI_TRY(bti_gpu_scratch(&device->gpu, WORKSPACE_SLOT, entry->workspace_bytes, &workspace));
    BTI_TRY(run_all(device, entry, work, outside, workspace));
    *done = true;
    return BT_OK;
}

bt_status bti_cuda_product(void *opened, const bti_work *work, bool *done) {
    bti_cuda_device *device = opened;
    shape s;
    int outside = 0;
    *done = false;
    if (!bti_cuda_has(BTI_CUDA_CUBLASLT) || !read_shape(work, &s, &outside) || s.batch > INT32_MAX) return BT_OK;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(product(device, work, &s, outside, done));
}

void bti_cuda_products_free(bti_cuda_device *device) {
    struct bti_cuda_products *products = device->products;
    if (!products) return;
    for (int i = 0; i < products->count; i++) forget(&products->kept[i]);
    if (!atomic_load(&device->lost)) (void)bti_cublaslt.cublasLtDestroy(products->handle);
    bti_free(products);
    device->products = NULL;
}

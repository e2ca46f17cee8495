/* Linear algebra by cuSOLVER, and by cuBLAS, which is loaded with it: triangles, and the LU factors of many small matrices. Many small matrices are computed by one call, others of a batch one by
 * one. What cuSOLVER computes cannot be recorded: it reads results back, and uses a workspace of the host's besides the device's. Its results are the same ones each time
 * (cusolverDnSetDeterministicMode). */
#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cuda/device.h"
#include "ir/dtype.h"

#define MANY 32                                   /* matrices of a batch: fewer are the host's where they are small */
#define CUBLAS_WORKSPACE_BYTES ((size_t)32 << 20) /* NVIDIA's recommendation for Hopper; other GPUs need 4 MiB */

typedef struct planned_factor {
    bti_cuda_held held; /* first */
    bti_factor of;
    size_t bytes, host_bytes; /* of workspaces */
    int form_elements;        /* of a QR: of the workspace of q */
    void *host_workspace;
    bool together; /* the batch is one call */
} planned_factor;

struct bti_cuda_solvers {
    cusolverDnHandle_t solver; /* NULL: it does not start here */
    cusolverDnParams_t parameters;
    cublasHandle_t blas;
    const char *call; /* the last one of the start */
    int started;      /* its result */
    bool no_memory;
};

/* --- starting ------------------------------------------------------------------------------------------------------- */

static int start_solver(const bti_cuda_device *device, struct bti_cuda_solvers *s) {
    s->call = "cusolverDnCreate";
    cusolverStatus_t status = bti_cusolver.cusolverDnCreate(&s->solver);
    if (status) return s->solver = NULL, status;
    s->call = "cusolverDnCreateParams";
    status = bti_cusolver.cusolverDnCreateParams(&s->parameters);
    if (status) return s->parameters = NULL, status;
    s->call = "cusolverDnSetDeterministicMode";
    status = bti_cusolver.cusolverDnSetDeterministicMode(s->solver, CUSOLVER_DETERMINISTIC_RESULTS);
    if (status) return status;
    s->call = "cusolverDnSetStream";
    return bti_cusolver.cusolverDnSetStream(s->solver, device->compute);
}

static void free_handles(struct bti_cuda_solvers *s) {
    if (s->blas) (void)bti_cusolver.cublasDestroy(s->blas);
    if (s->parameters) (void)bti_cusolver.cusolverDnDestroyParams(s->parameters);
    if (s->solver) (void)bti_cusolver.cusolverDnDestroy(s->solver);
    s->blas = NULL, s->parameters = NULL, s->solver = NULL;
}

static bt_status fail_factor(const bti_cuda_device *device, const char *call, int status, bool no_memory,
                             bt_status otherwise) {
    return bti_fail(no_memory ? BT_RESOURCE_EXHAUSTED : otherwise, "%s: %s: its status is %d", device->name, call,
                    status);
}

/* With the context current. A cuSOLVER that does not start is done without; but for want of memory it may start later. */
static bt_status open_solvers(bti_cuda_device *device) {
    if (device->solvers) return BT_OK;
    struct bti_cuda_solvers *s = bti_calloc(1, sizeof *s);
    if (!s) return bti_no_memory();
    s->started = start_solver(device, s);
    s->no_memory = s->started == CUSOLVER_STATUS_ALLOC_FAILED;
    if (!s->started) {
        s->call = "cublasCreate_v2";
        s->started = bti_cusolver.cublasCreate(&s->blas);
        s->no_memory = s->started == CUBLAS_STATUS_ALLOC_FAILED;
        if (s->started) s->blas = NULL;
    }
    if (s->started) free_handles(s);
    if (!s->no_memory) return device->solvers = s, BT_OK;
    bt_status status = fail_factor(device, s->call, s->started, true, BT_INTERNAL);
    bti_free(s);
    return status;
}

void bti_cuda_solvers_free(bti_cuda_device *device) {
    if (!device->solvers) return;
    if (!atomic_load(&device->lost)) free_handles(device->solvers);
    bti_free(device->solvers);
    device->solvers = NULL;
}

/* --- plans ------------------------------------------------------------------------------------------------------------ */

/* Smaller matrices are the host's, but for batches of many that there is a call for: what it takes for one, with copies and a wait, is less than what the many small kernels of a factorisation take (decision 0077). */
static int64_t fewest_rows(bti_factor_kind kind) {
    int64_t asked = bti_flag_int(BTI_FLAG_cusolver_rows);
    return asked ? asked : kind == BTI_FACTOR_SVD ? 512 : 256;
}

static bool is_small(const bti_factor *of) {
    bool of_rectangles = of->kind == BTI_FACTOR_QR || of->kind == BTI_FACTOR_SVD;
    return (of_rectangles ? bti_matrices_smaller_side(&of->of) : of->of.n) < fewest_rows(of->kind);
}

/* *together: by one call. The library is opened for those alone that it may compute. */
static bool is_for_host(const bti_factor *of, bool *together) {
    const bti_matrices *s = &of->of;
    bool small = is_small(of), has_batches = of->kind != BTI_FACTOR_QR && of->kind != BTI_FACTOR_SVD;
    *together = small && s->batch >= MANY && has_batches;
    if ((small && !*together) || s->m > INT32_MAX || s->n > INT32_MAX || s->batch > INT32_MAX) return true;
    if (!bti_cuda_has(BTI_CUDA_CUSOLVER)) return true;
    return *together && of->kind == BTI_FACTOR_EIGH &&
           !(bti_cusolver.cusolverDnXsyevBatched_bufferSize && bti_cusolver.cusolverDnXsyevBatched);
}

/* By cuBLAS, which can be recorded; cuSOLVER has Cholesky's factors and eigenvalues. */
static bool is_by_blas(const planned_factor *p) {
    bool by_solver = p->of.kind == BTI_FACTOR_CHOLESKY || p->of.kind == BTI_FACTOR_EIGH;
    return p->of.kind == BTI_FACTOR_TRIANGLE || (p->together && !by_solver);
}

static int type_of(bt_dtype dtype) {
    switch (dtype) {
    case BT_F64: return CUDA_R_64F;
    case BT_C64: return CUDA_C_32F;
    case BT_C128: return CUDA_C_64F;
    default: return CUDA_R_32F;
    }
}
static int number_of_type(bt_dtype dtype) {
    return dtype == BT_F32 ? 0 : dtype == BT_F64 ? 1 : dtype == BT_C64 ? 2 : 3;
}

/* Of each type in this order. */
#define OF_TYPES(prefix, real, complex, suffix)                                                \
    {                                                                                          \
        &bti_cusolver.prefix##S##real##suffix, &bti_cusolver.prefix##D##real##suffix,          \
            &bti_cusolver.prefix##C##complex##suffix, &bti_cusolver.prefix##Z##complex##suffix \
    }
static cusolverStatus_t (**const measure_q[])(cusolverDnHandle_t, int, int, int, const void *, int, const void *,
                                              int *) = OF_TYPES(cusolverDn, orgqr, ungqr, _bufferSize);
static cusolverStatus_t (**const form_q[])(cusolverDnHandle_t, int, int, int, void *, int, const void *, void *, int,
                                           int *) = OF_TYPES(cusolverDn, orgqr, ungqr, );
static cusolverStatus_t (**const factor_many[])(cusolverDnHandle_t, int, int, void *, int, int *,
                                                int) = OF_TYPES(cusolverDn, potrfBatched, potrfBatched, );
static cublasStatus_t (**const factor_many_lu[])(cublasHandle_t, int, const void *, int, int *, int *,
                                                 int) = OF_TYPES(cublas, getrfBatched, getrfBatched, );
static cublasStatus_t (**const solve_many[])(cublasHandle_t, int, int, int, const void *, int, const int *,
                                             const void *, int, int *,
                                             int) = OF_TYPES(cublas, getrsBatched, getrsBatched, );
static cublasStatus_t (**const solve_triangles[])(cublasHandle_t, int, int, int, int, int, int, const void *,
                                                  const void *, int, const void *, int,
                                                  int) = OF_TYPES(cublas, trsmBatched, trsmBatched, );
static cublasStatus_t (**const solve_triangle[])(cublasHandle_t, int, int, int, int, int, int, const void *,
                                                 const void *, int, void *, int) = OF_TYPES(cublas, trsm, trsm, );

static cusolverStatus_t measure_form(const struct bti_cuda_solvers *s, planned_factor *p) {
    const bti_matrices *of = &p->of.of;
    int m = (int)of->m, k = (int)bti_matrices_smaller_side(of);
    cusolverStatus_t status =
        (*measure_q[number_of_type(of->dtype)])(s->solver, m, k, k, NULL, m, NULL, &p->form_elements);
    size_t bytes = status ? 0 : (size_t)p->form_elements * bt_dtype_size(of->dtype);
    if (bytes > p->bytes) p->bytes = bytes;
    return status;
}

/* Workspaces; the name of the call that failed is in *call. */
static cusolverStatus_t measure(const struct bti_cuda_solvers *s, planned_factor *p, const char **call) {
    const bti_matrices *of = &p->of.of;
    int type = type_of(of->dtype), part = type_of(bti_dtype_of_part(of->dtype));
    int64_t m = of->m, n = of->n, k = bti_matrices_smaller_side(of), longer = m > n ? m : n;
    cusolverStatus_t status;
    if (is_by_blas(p)) return p->bytes = CUBLAS_WORKSPACE_BYTES, CUSOLVER_STATUS_SUCCESS;
    switch (p->of.kind) {
    case BTI_FACTOR_CHOLESKY:
        if (p->together) return CUSOLVER_STATUS_SUCCESS; /* the lower halves are its workspace */
        *call = "cusolverDnXpotrf_bufferSize";
        return bti_cusolver.cusolverDnXpotrf_bufferSize(s->solver, s->parameters, CUBLAS_FILL_MODE_UPPER, n, type, NULL,
                                                        n, type, &p->bytes, &p->host_bytes);
    case BTI_FACTOR_QR:
        *call = "cusolverDnXgeqrf_bufferSize";
        status = bti_cusolver.cusolverDnXgeqrf_bufferSize(s->solver, s->parameters, m, n, type, NULL, m, type, NULL,
                                                          type, &p->bytes, &p->host_bytes);
        if (status) return status;
        *call = "cusolverDnXorgqr_bufferSize";
        return measure_form(s, p);
    case BTI_FACTOR_EIGH:
        *call = "cusolverDnXsyevBatched_bufferSize";
        if (p->together)
            return bti_cusolver.cusolverDnXsyevBatched_bufferSize(s->solver, s->parameters, CUSOLVER_EIG_MODE_VECTOR,
                                                                  CUBLAS_FILL_MODE_UPPER, n, type, NULL, n, part, NULL,
                                                                  type, &p->bytes, &p->host_bytes, of->batch);
        *call = "cusolverDnXsyevd_bufferSize";
        return bti_cusolver.cusolverDnXsyevd_bufferSize(s->solver, s->parameters, CUSOLVER_EIG_MODE_VECTOR,
                                                        CUBLAS_FILL_MODE_UPPER, n, type, NULL, n, part, NULL, type,
                                                        &p->bytes, &p->host_bytes);
    case BTI_FACTOR_SVD:
        *call = "cusolverDnXgesvd_bufferSize";
        return bti_cusolver.cusolverDnXgesvd_bufferSize(s->solver, s->parameters, 'S', 'S', longer, k, type, NULL,
                                                        longer, part, NULL, type, NULL, longer, type, NULL, k, type,
                                                        &p->bytes, &p->host_bytes);

    default:
        *call = "cusolverDnXgetrf_bufferSize";
        return bti_cusolver.cusolverDnXgetrf_bufferSize(s->solver, s->parameters, n, n, type, NULL, n, type, &p->bytes,
                                                        &p->host_bytes);
    }
}

static void free_factor(bti_cuda_device *device, bti_cuda_retired *retired) {
    planned_factor *p = (planned_factor *)retired;
    (void)device;
    bti_free(p->host_workspace);
    bti_free(p);
}

static bt_status plan_factor(bti_cuda_device *device, planned_factor *p) {
    const char *call = "";
    BTI_TRY(open_solvers(device));
    if (device->solvers->started)
        return fail_factor(device, device->solvers->call, device->solvers->started, false, BT_UNIMPLEMENTED);
    cusolverStatus_t status = measure(device->solvers, p, &call);
    if (status) return fail_factor(device, call, status, status == CUSOLVER_STATUS_ALLOC_FAILED, BT_UNIMPLEMENTED);
    if (p->host_bytes && !(p->host_workspace = bti_alloc(p->host_bytes))) return bti_no_memory();
    return BT_OK;
}

bt_status bti_cuda_factor_new(void *opened, const bti_factor *of, void **made, bool *by_pointers) {
    bti_cuda_device *device = opened;
    bool together;
    if (is_for_host(of, &together))
        return bti_fail(BT_UNIMPLEMENTED, "%s: there is no cuSOLVER, or the matrices are small", device->name);
    planned_factor *p = bti_calloc(1, sizeof *p);
    if (!p) return bti_no_memory();
    p->held.retired.free = free_factor;
    p->held.holders = 1;
    p->of = *of;
    p->together = together;
    *by_pointers = together && of->kind != BTI_FACTOR_EIGH;
    bt_status status = bti_cuda_enter(device);
    if (status == BT_OK) status = bti_cuda_leave(plan_factor(device, p));
    if (status == BT_OK)
        *made = p;
    else
        free_factor(device, &p->held.retired);
    return status;
}

/* --- running ---------------------------------------------------------------------------------------------------------- */

/* Of one matrix. */
typedef struct one_matrix {
    void *a, *b, *u, *v, *values;
    int64_t *pivots;
    int *info, *spare;
} one_matrix;

static void *pointer_to(uint64_t address, int64_t number, size_t bytes) {
    return (void *)(uintptr_t)(address + (uint64_t)number * bytes);
}

static one_matrix matrix_of(const bti_factor *of, const bti_gpu_factor_arrays *at, int64_t i) {
    const bti_matrices *s = &of->of;
    int64_t k = bti_matrices_smaller_side(s), longer = s->m > s->n ? s->m : s->n;
    size_t bytes = bt_dtype_size(s->dtype), values_bytes = bytes;
    bool has_right_side = of->kind == BTI_FACTOR_SOLVE || of->kind == BTI_FACTOR_TRIANGLE;
    if (of->kind != BTI_FACTOR_QR) values_bytes = bt_dtype_size(bti_dtype_of_part(s->dtype));
    return (one_matrix){.a = pointer_to(at->a, i * (has_right_side ? s->n : s->m) * s->n, bytes),
                        .b = pointer_to(at->b, i * s->n * s->m, bytes),
                        .u = pointer_to(at->u, i * longer * k, bytes),
                        .v = pointer_to(at->v, i * k * k, bytes),
                        .values = pointer_to(at->values, i * k, values_bytes),
                        .pivots = pointer_to(at->pivots, i * s->n, sizeof(int64_t)),
                        .info = pointer_to(at->flags, i, sizeof(int)),
                        .spare = pointer_to(at->flags, 2 * s->batch, sizeof(int))};
}

#define WORKSPACES workspace, p->bytes, p->host_workspace, p->host_bytes

static cusolverStatus_t run_solver(const struct bti_cuda_solvers *s, const planned_factor *p, const one_matrix *x,
                                   void *workspace, const char **call) {
    const bti_matrices *of = &p->of.of;
    int type = type_of(of->dtype), part = type_of(bti_dtype_of_part(of->dtype));
    int64_t m = of->m, n = of->n, k = bti_matrices_smaller_side(of), longer = m > n ? m : n;
    switch (p->of.kind) {
    case BTI_FACTOR_CHOLESKY:
        *call = "cusolverDnXpotrf";
        return bti_cusolver.cusolverDnXpotrf(s->solver, s->parameters, CUBLAS_FILL_MODE_UPPER, n, type, x->a, n, type,
                                             WORKSPACES, x->info);
    case BTI_FACTOR_QR:
        *call = "cusolverDnXgeqrf";
        return bti_cusolver.cusolverDnXgeqrf(s->solver, s->parameters, m, n, type, x->a, m, type, x->values, type,
                                             WORKSPACES, x->info);
    case BTI_FACTOR_EIGH:
        *call = "cusolverDnXsyevd";
        return bti_cusolver.cusolverDnXsyevd(s->solver, s->parameters, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER,
                                             n, type, x->a, n, part, x->values, type, WORKSPACES, x->info);
    case BTI_FACTOR_SVD:
        *call = "cusolverDnXgesvd";
        return bti_cusolver.cusolverDnXgesvd(s->solver, s->parameters, 'S', 'S', longer, k, type, x->a, longer, part,
                                             x->values, type, x->u, longer, type, x->v, k, type, WORKSPACES, x->info);
    default:
        *call = "cusolverDnXgetrf";
        return bti_cusolver.cusolverDnXgetrf(s->solver, s->parameters, n, n, type, x->a, n, x->pivots, type, WORKSPACES,
                                             x->info);
    }
}

/* What is done with the factors: of a solve, and of a QR's second call. */
static cusolverStatus_t run_second(const struct bti_cuda_solvers *s, const planned_factor *p, const one_matrix *x,
                                   void *workspace, const char **call) {
    const bti_matrices *of = &p->of.of;
    int type = type_of(of->dtype), m = (int)of->m, k = (int)bti_matrices_smaller_side(of);
    if (p->of.kind == BTI_FACTOR_QR) {
        *call = "cusolverDnXorgqr";
        return (*form_q[number_of_type(of->dtype)])(s->solver, m, k, k, x->a, m, x->values, workspace, p->form_elements,
                                                    x->spare);
    }
    *call = "cusolverDnXgetrs";
    return bti_cusolver.cusolverDnXgetrs(s->solver, s->parameters, CUBLAS_OP_T, of->n, of->m, type, x->a, of->n,
                                         x->pivots, type, x->b, of->n, x->spare);
}

static cusolverStatus_t run_together(const struct bti_cuda_solvers *s, const planned_factor *p,
                                     const bti_gpu_factor_arrays *at, void *workspace, const char **call) {
    const bti_matrices *of = &p->of.of;
    int type = type_of(of->dtype), part = type_of(bti_dtype_of_part(of->dtype));
    one_matrix first = matrix_of(&p->of, at, 0);
    if (p->of.kind == BTI_FACTOR_CHOLESKY) {
        *call = "cusolverDnXpotrfBatched";
        return (*factor_many[number_of_type(of->dtype)])(s->solver, CUBLAS_FILL_MODE_UPPER, (int)of->n,
                                                         pointer_to(at->a_pointers, 0, 0), (int)of->n, first.info,
                                                         (int)of->batch);
    }
    *call = "cusolverDnXsyevBatched";
    return bti_cusolver.cusolverDnXsyevBatched(s->solver, s->parameters, CUSOLVER_EIG_MODE_VECTOR,
                                               CUBLAS_FILL_MODE_UPPER, of->n, type, first.a, of->n, part, first.values,
                                               type, WORKSPACES, first.info, of->batch);
}

static bt_status run_matrices(bti_cuda_device *device, const planned_factor *p, const bti_gpu_factor_arrays *at,
                              bool second) {
    const struct bti_cuda_solvers *s = device->solvers;
    uint64_t address = 0;
    if (p->bytes) BTI_TRY(bti_gpu_scratch(&device->gpu, BTI_GPU_WORKSPACE, p->bytes, &address));
    void *workspace = (void *)(uintptr_t)address;
    cusolverStatus_t status = CUSOLVER_STATUS_SUCCESS;
    const char *call = "";
    if (p->together) status = run_together(s, p, at, workspace, &call);
    for (int64_t i = 0; i < p->of.of.batch && !p->together && !status; i++) {
        one_matrix x = matrix_of(&p->of, at, i);
        if (!second) status = run_solver(s, p, &x, workspace, &call);
        if (!status && (second || p->of.kind == BTI_FACTOR_SOLVE)) status = run_second(s, p, &x, workspace, &call);
    }
    if (!status) return BT_OK;
    return fail_factor(device, call, status, status == CUSOLVER_STATUS_ALLOC_FAILED, BT_INTERNAL);
}

#define BLAS_TRY(device, function, ...)                                                                     \
    do {                                                                                                    \
        cublasStatus_t blas_status_ = (function)(__VA_ARGS__);                                              \
        if (blas_status_)                                                                                   \
            return fail_factor(device, #function, blas_status_, blas_status_ == CUBLAS_STATUS_ALLOC_FAILED, \
                               BT_INTERNAL);                                                                \
    } while (0)

/* x^T of x^T a^T = b^T: what lies by rows are the transposes. */
static bt_status run_triangles(bti_cuda_device *device, const planned_factor *p, const bti_gpu_factor_arrays *at) {
    static const double one[2] = {1, 0};
    static const float one_f32[2] = {1, 0};
    const bti_matrices *of = &p->of.of;
    const bti_triangle *how = &p->of.triangle;
    cublasHandle_t blas = device->solvers->blas;
    int number = number_of_type(of->dtype), n = (int)of->n, m = (int)of->m;
    int half = how->upper ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    int transposed = how->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
        unit = how->unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    const void *alpha = number % 2 ? (const void *)one : (const void *)one_f32;
    if (p->together) {
        BLAS_TRY(device, *solve_triangles[number], blas, CUBLAS_SIDE_RIGHT, half, transposed, unit, m, n, alpha,
                 pointer_to(at->a_pointers, 0, 0), n, pointer_to(at->b_pointers, 0, 0), m, (int)of->batch);
        return BT_OK;
    }
    for (int64_t i = 0; i < of->batch; i++) {
        one_matrix x = matrix_of(&p->of, at, i);
        BLAS_TRY(device, *solve_triangle[number], blas, CUBLAS_SIDE_RIGHT, half, transposed, unit, m, n, alpha, x.a, n,
                 x.b, m);
    }
    return BT_OK;
}

static bt_status run_many_lu(bti_cuda_device *device, const planned_factor *p, const bti_gpu_factor_arrays *at) {
    const bti_matrices *of = &p->of.of;
    int number = number_of_type(of->dtype), n = (int)of->n, batch = (int)of->batch, wrong = 0;
    cublasHandle_t blas = device->solvers->blas;
    one_matrix first = matrix_of(&p->of, at, 0);
    int *pivots = (int *)(void *)first.pivots;
    const void *a = pointer_to(at->a_pointers, 0, 0), *b = pointer_to(at->b_pointers, 0, 0);
    BLAS_TRY(device, *factor_many_lu[number], blas, n, a, n, pivots, first.info, batch);
    if (p->of.kind == BTI_FACTOR_SOLVE)
        BLAS_TRY(device, *solve_many[number], blas, CUBLAS_OP_T, n, (int)of->m, a, n, pivots, b, n, &wrong, batch);
    return BT_OK;
}

/* A workspace is forgotten when the stream is set. */
static bt_status run_blas(bti_cuda_device *device, const planned_factor *p, const bti_gpu_factor_arrays *at) {
    uint64_t workspace;
    BTI_TRY(bti_gpu_scratch(&device->gpu, BTI_GPU_WORKSPACE, p->bytes, &workspace));
    BLAS_TRY(device, bti_cusolver.cublasSetStream, device->solvers->blas, bti_cuda_stream(device));
    BLAS_TRY(device, bti_cusolver.cublasSetWorkspace, device->solvers->blas, pointer_to(workspace, 0, 0), p->bytes);
    return p->of.kind == BTI_FACTOR_TRIANGLE ? run_triangles(device, p, at) : run_many_lu(device, p, at);
}

bt_status bti_cuda_factor(void *opened, void *factor, const bti_gpu_factor_arrays *at, bool second) {
    bti_cuda_device *device = opened;
    planned_factor *p = factor;
    bool by_blas = is_by_blas(p);
    if (by_blas ? bti_cuda_cannot_update(device) : bti_cuda_cannot_record(device)) return BT_OK;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(by_blas ? run_blas(device, p, at) : run_matrices(device, p, at, second));
}

void bti_cuda_factors_describe(bti_cuda_device *device, bti_str *text) {
    if (!bti_cuda_has(BTI_CUDA_CUSOLVER) || bti_cuda_enter(device) != BT_OK) return;
    planned_factor tried = {.of = {BTI_FACTOR_CHOLESKY, {BT_F32, 1, 1024, 1024}, {0}}};
    bti_lock_take(&device->gpu.lock);
    bt_status status = bti_cuda_leave(plan_factor(device, &tried));
    bti_lock_give(&device->gpu.lock);
    bti_free(tried.host_workspace);
    if (status != BT_OK)
        bti_str_addf(text, "cuSOLVER does not work, and the host computes linear algebra: %s\n", bt_error_text());
}

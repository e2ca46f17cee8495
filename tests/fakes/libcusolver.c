/* A fake cuSOLVER (NVIDIA, "cuSOLVER API") with the part of cuBLAS that solves triangles and has LU factors of batches: it checks what it is asked for as the libraries document, and libcusolver_run.c computes it. A wrong parameter, a
 * handle that is destroyed while its work is in flight, and work that cannot be in a graph are findings. Which workspaces a matrix needs is drawn from its shape and BERTH_FAKE_SEED; an eighth of the
 * small ones is refused. */
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/libcusolver.h"

struct cusolverDnContext {
    bool alive, deterministic;
    int device;
    CUstream stream;
};
struct cusolverDnParams {
    bool alive;
};
struct cublasContext {
    bool alive;
    int device;
    CUstream stream;
    uint64_t workspace, bytes; /* since the stream was set */
};
fake_stream *fake_stream_of(CUstream stream);
int fake_current_device(void);

enum {
    ALIGNED = 256,
    SMALL = 4096,
    MOST = 256
}; /* MOST: handles, whose places are used again late, so that late use is seen */

static struct cusolverDnContext solvers[MOST];
static struct cusolverDnParams params[MOST];
static struct cublasContext blas[MOST];
static int solver_count, params_count, blas_count;

/* What no caller should ask for. */
static int misuse(int status, const char *call, const char *what) {
    fake_find(fake_current_device(), FAKE_LAUNCH_FAILED, "%s: %s", call, what);
    return status;
}
static int bad(const char *call, const char *what) { return misuse(CUSOLVER_STATUS_INVALID_VALUE, call, what); }

#define ENTER_SOLVER(name)                        \
    do {                                          \
        int fake_code_ = fake_call(#name, false); \
        if (fake_code_) return fake_code_;        \
    } while (0)

/* --- handles ------------------------------------------------------------------------------------------------------------ */

FAKE_API cusolverStatus_t cusolverGetVersion(int *version) { return *version = 12001, 0; }

FAKE_API cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle) {
    ENTER_SOLVER(cusolverDnCreate);
    if (fake_current_device() < 0) return CUSOLVER_STATUS_NOT_INITIALIZED;
    fake_lock();
    *handle = &solvers[solver_count++ % MOST];
    **handle = (struct cusolverDnContext){.alive = true, .device = fake_current_device()};
    fake_unlock();
    fake_live(1);
    return 0;
}
FAKE_API cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
    if (!handle || !handle->alive) return bad("cusolverDnDestroy", "there is no such handle, or no more");
    fake_lock();
    const char *launch = fake_stream_uses(handle);
    fake_unlock();
    if (launch) (void)bad("cusolverDnDestroy", "the handle's work has not run");
    handle->alive = false;
    fake_live(-1);
    return 0;
}
FAKE_API cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, CUstream stream) {
    ENTER_SOLVER(cusolverDnSetStream);
    if (!handle || !handle->alive) return bad("cusolverDnSetStream", "what handle?");
    handle->stream = stream;
    return 0;
}
FAKE_API cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, int mode) {
    ENTER_SOLVER(cusolverDnSetDeterministicMode);
    if (!handle || !handle->alive) return bad("cusolverDnSetDeterministicMode", "what handle?");
    handle->deterministic = mode == CUSOLVER_DETERMINISTIC_RESULTS;
    return 0;
}
FAKE_API cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *made) {
    ENTER_SOLVER(cusolverDnCreateParams);
    fake_lock();
    *made = &params[params_count++ % MOST];
    (*made)->alive = true;
    fake_unlock();
    fake_live(1);
    return 0;
}
FAKE_API cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t given) {
    if (!given || !given->alive) return bad("cusolverDnDestroyParams", "there are no such parameters, or no more");
    given->alive = false;
    fake_live(-1);
    return 0;
}

/* --- what a matrix needs -------------------------------------------------------------------------------------------------- */

static bool is_wide(int type) { return type == CUDA_R_64F || type == CUDA_C_64F; }
static bool is_complex(int type) { return type == CUDA_C_32F || type == CUDA_C_64F; }
static int part_of(int type) { return is_wide(type) ? CUDA_R_64F : CUDA_R_32F; }
uint64_t fake_factor_bytes(int type) { return (is_wide(type) ? 8u : 4u) * (is_complex(type) ? 2u : 1u); }

static uint64_t drawn(const fake_factor *f) {
    const int64_t numbers[] = {f->kind, f->type, f->m, f->n};
    uint64_t hash = fake_seed() + 1;
    for (int i = 0; i < 4; i++) hash = (hash ^ (uint64_t)numbers[i]) * UINT64_C(0x9fb21c651e98df25), hash ^= hash >> 29;
    return hash >> 8;
}
static bool is_refused(const fake_factor *f) { return drawn(f) % 8 == 0 && f->m * f->n <= SMALL; }
static size_t device_bytes(const fake_factor *f) {
    static const size_t sizes[] = {0, 256, 1000, 1 << 16};
    return sizes[drawn(f) / 8 % 4];
}
static size_t host_bytes(const fake_factor *f) {
    static const size_t sizes[] = {0, 0, 64, 5000};
    return sizes[drawn(f) / 32 % 4];
}

static const char *why_no_matrix(const fake_factor *f) {
    bool known = f->type == CUDA_R_32F || f->type == CUDA_R_64F || is_complex(f->type);
    if (!known || f->m < 1 || f->n < 1) return "what matrix?";
    return f->kind == FAKE_GESVD && f->m < f->n ? "the matrix is wider than it is long" : NULL;
}

static cusolverStatus_t measure(cusolverDnHandle_t handle, cusolverDnParams_t given, const fake_factor *f,
                                const char *call, size_t *bytes, size_t *of_host) {
    int code = fake_call(call, false);
    if (code) return code;
    if (!handle || !handle->alive || !given || !given->alive) return bad(call, "what handle?");
    const char *why = why_no_matrix(f);
    if (why) return bad(call, why);
    if (is_refused(f)) return CUSOLVER_STATUS_NOT_SUPPORTED;
    *bytes = device_bytes(f), *of_host = host_bytes(f);
    return 0;
}

/* --- calls ------------------------------------------------------------------------------------------------------------------ */

static bool exists(uint64_t address, uint64_t bytes) { return !bytes || fake_memory_exists(address, bytes); }

/* The matrices are found when it runs. */
static const char *why_no_batch(const fake_factor *f) {
    uint64_t batch = (uint64_t)f->batch, n = (uint64_t)f->n, bytes = fake_factor_bytes(f->type);
    uint64_t part = fake_factor_bytes(part_of(f->type));
    if (!f->a_pointers && !exists(f->a, batch * n * n * bytes)) return "the matrices are no memory";
    if (f->a_pointers && !exists(f->a_pointers, batch * 8)) return "the addresses are no memory";
    if (f->b_pointers && !exists(f->b_pointers, batch * 8)) return "the addresses of right sides are no memory";
    if (f->values && !exists(f->values, batch * n * part)) return "values are no memory";
    if (f->pivots && !exists(f->pivots, batch * n * 4)) return "pivots are no memory";
    return f->info && !exists(f->info, batch * 4) ? "the status is no memory" : NULL;
}

static const char *why_no_arrays(const fake_factor *f) {
    uint64_t bytes = fake_factor_bytes(f->type), part = fake_factor_bytes(part_of(f->type)), m = (uint64_t)f->m,
             n = (uint64_t)f->n, k = m < n ? m : n;
    if (f->batch) return why_no_batch(f);
    bool qr = f->kind == FAKE_GEQRF || f->kind == FAKE_ORGQR, trsm = f->kind == FAKE_TRSM;
    uint64_t of_b = trsm ? m * n : n * (uint64_t)f->columns;
    if (f->a % bytes || f->b % bytes || f->u % bytes || f->v % bytes || f->values % part || f->pivots % 8 ||
        f->info % 4)
        return "an address is not that of an element";
    if (!exists(f->a, trsm ? n * n * bytes : m * n * bytes)) return "the matrix is no memory";
    if (f->b && !exists(f->b, of_b * bytes)) return "the right side is no memory";
    if (f->u && (!exists(f->u, m * n * bytes) || !exists(f->v, n * n * bytes))) return "vectors are no memory";
    if (f->values && !exists(f->values, k * (qr ? bytes : part))) return "values are no memory";
    if (f->pivots && !exists(f->pivots, n * 8)) return "pivots are no memory";
    return !trsm && !exists(f->info, 4) ? "the status is no memory" : NULL;
}

static const char *why_no_workspaces(const fake_factor *f, uint64_t bytes, size_t of_host) {
    if (f->workspace_bytes < bytes) return "the workspace is too small";
    if (bytes && f->workspace % ALIGNED) return "the workspace is not aligned";
    if (bytes && !exists(f->workspace, f->workspace_bytes)) return "the workspace is no memory";
    return f->host_bytes < of_host || (of_host && !f->host_workspace) ? "the host's workspace is too small" : NULL;
}

static cusolverStatus_t add(cusolverDnHandle_t handle, const fake_factor *f, const char *call, uint64_t bytes,
                            size_t of_host) {
    int code = fake_call(call, false);
    if (code) return code;
    if (!handle || !handle->alive || handle->device != fake_current_device()) return bad(call, "what handle?");
    if (!handle->deterministic) return bad(call, "results may be others each time");
    const char *why = why_no_matrix(f);
    if (!why) why = why_no_arrays(f);
    if (!why) why = why_no_workspaces(f, bytes, of_host);
    fake_work work = {.run = fake_run_factor, .uses = handle};
    strncpy(work.name, call, sizeof work.name - 1);
    fake_lock();
    fake_stream *stream = fake_stream_of(handle->stream);
    if (!why && stream->capture) why = "it cannot be recorded";
    fake_factor on_device = *f;
    on_device.device = handle->device;
    if (!why) fake_stream_add_work(stream, &work, &on_device, sizeof on_device);
    fake_unlock();
    return why ? bad(call, why) : 0;
}

#define HANDLES cusolverDnHandle_t handle, cusolverDnParams_t given
#define MEASURED int computes, size_t *bytes, size_t *of_host
#define WORKSPACES int computes, void *workspace, size_t bytes, void *of_host, size_t host_size, int *info
#define AT(pointer) (uint64_t)(uintptr_t)(pointer)
#define WITH_WORKSPACES                                                                                \
    .info = AT(info), .workspace = AT(workspace), .workspace_bytes = bytes, .host_workspace = of_host, \
    .host_bytes = host_size
/* Types and leading dimensions that berth does not use are refused. */
#define NEED(call, condition) \
    if (!(condition)) return bad(call, "these types or leading dimensions are not known to the fake")

FAKE_API cusolverStatus_t cusolverDnXpotrf_bufferSize(HANDLES, int half, int64_t n, int type, const void *a,
                                                      int64_t lda, MEASURED) {
    (void)a;
    NEED("cusolverDnXpotrf_bufferSize", half == CUBLAS_FILL_MODE_UPPER && lda == n && computes == type);
    const fake_factor f = {.kind = FAKE_POTRF, .type = type, .m = n, .n = n};
    return measure(handle, given, &f, "cusolverDnXpotrf_bufferSize", bytes, of_host);
}
FAKE_API cusolverStatus_t cusolverDnXpotrf(HANDLES, int half, int64_t n, int type, void *a, int64_t lda, WORKSPACES) {
    NEED("cusolverDnXpotrf", given && half == CUBLAS_FILL_MODE_UPPER && lda == n && computes == type);
    const fake_factor f = {.kind = FAKE_POTRF, .type = type, .m = n, .n = n, .a = AT(a), WITH_WORKSPACES};
    return add(handle, &f, "cusolverDnXpotrf", device_bytes(&f), host_bytes(&f));
}

FAKE_API cusolverStatus_t cusolverDnXgetrf_bufferSize(HANDLES, int64_t m, int64_t n, int type, const void *a,
                                                      int64_t lda, MEASURED) {
    (void)a;
    NEED("cusolverDnXgetrf_bufferSize", m == n && lda == m && computes == type);
    const fake_factor f = {.kind = FAKE_GETRF, .type = type, .m = m, .n = n};
    return measure(handle, given, &f, "cusolverDnXgetrf_bufferSize", bytes, of_host);
}
FAKE_API cusolverStatus_t cusolverDnXgetrf(HANDLES, int64_t m, int64_t n, int type, void *a, int64_t lda,
                                           int64_t *pivots, WORKSPACES) {
    NEED("cusolverDnXgetrf", given && m == n && lda == m && computes == type && pivots);
    const fake_factor f = {
        .kind = FAKE_GETRF, .type = type, .m = m, .n = n, .a = AT(a), .pivots = AT(pivots), WITH_WORKSPACES};
    return add(handle, &f, "cusolverDnXgetrf", device_bytes(&f), host_bytes(&f));
}
FAKE_API cusolverStatus_t cusolverDnXgetrs(HANDLES, int transposed, int64_t n, int64_t columns, int type, const void *a,
                                           int64_t lda, const int64_t *pivots, int b_type, void *b, int64_t ldb,
                                           int *info) {
    NEED("cusolverDnXgetrs", given && transposed == CUBLAS_OP_T && lda == n && ldb == n && b_type == type && pivots);
    const fake_factor f = {.kind = FAKE_GETRS,
                           .type = type,
                           .m = n,
                           .n = n,
                           .columns = columns,
                           .a = AT(a),
                           .b = AT(b),
                           .pivots = AT(pivots),
                           .info = AT(info)};
    return add(handle, &f, "cusolverDnXgetrs", 0, 0);
}

FAKE_API cusolverStatus_t cusolverDnXgeqrf_bufferSize(HANDLES, int64_t m, int64_t n, int type, const void *a,
                                                      int64_t lda, int tau_type, const void *tau, MEASURED) {
    (void)a, (void)tau;
    NEED("cusolverDnXgeqrf_bufferSize", lda == m && tau_type == type && computes == type);
    const fake_factor f = {.kind = FAKE_GEQRF, .type = type, .m = m, .n = n};
    return measure(handle, given, &f, "cusolverDnXgeqrf_bufferSize", bytes, of_host);
}
FAKE_API cusolverStatus_t cusolverDnXgeqrf(HANDLES, int64_t m, int64_t n, int type, void *a, int64_t lda, int tau_type,
                                           void *tau, WORKSPACES) {
    NEED("cusolverDnXgeqrf", given && lda == m && tau_type == type && computes == type && tau);
    const fake_factor f = {
        .kind = FAKE_GEQRF, .type = type, .m = m, .n = n, .a = AT(a), .values = AT(tau), WITH_WORKSPACES};
    return add(handle, &f, "cusolverDnXgeqrf", device_bytes(&f), host_bytes(&f));
}

/* A third of the workspace that is drawn for bytes, in elements. */
static int form_elements(const fake_factor *f) { return 1 + (int)(device_bytes(f) / 3); }
static cusolverStatus_t measure_form(cusolverDnHandle_t handle, int type, int m, int n, int k, int lda, int *elements) {
    const fake_factor f = {.kind = FAKE_ORGQR, .type = type, .m = m, .n = n};
    ENTER_SOLVER(cusolverDnXorgqr_bufferSize);
    if (!handle || !handle->alive || m < n || n != k || lda != m) return bad("orgqr_bufferSize", "what matrix?");
    *elements = form_elements(&f);
    return 0;
}
static cusolverStatus_t form(cusolverDnHandle_t handle, int type, int m, int n, int k, void *a, int lda,
                             const void *tau, void *workspace, int elements, int *info) {
    const fake_factor f = {.kind = FAKE_ORGQR,
                           .type = type,
                           .m = m,
                           .n = n,
                           .a = AT(a),
                           .values = AT(tau),
                           .info = AT(info),
                           .workspace = AT(workspace),
                           .workspace_bytes = (uint64_t)elements * fake_factor_bytes(type)};
    if (m < n || n != k || lda != m || !tau) return bad("orgqr", "what matrix?");
    return add(handle, &f, "cusolverDnXorgqr", (uint64_t)form_elements(&f) * fake_factor_bytes(type), 0);
}
#define FORM(name, type)                                                                                              \
    FAKE_API cusolverStatus_t name##_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, const void *a,        \
                                                int lda, const void *tau, int *elements) {                            \
        (void)a, (void)tau;                                                                                           \
        return measure_form(handle, type, m, n, k, lda, elements);                                                    \
    }                                                                                                                 \
    FAKE_API cusolverStatus_t name(cusolverDnHandle_t handle, int m, int n, int k, void *a, int lda, const void *tau, \
                                   void *workspace, int elements, int *info) {                                        \
        return form(handle, type, m, n, k, a, lda, tau, workspace, elements, info);                                   \
    }
FORM(cusolverDnSorgqr, CUDA_R_32F)
FORM(cusolverDnDorgqr, CUDA_R_64F)
FORM(cusolverDnCungqr, CUDA_C_32F)
FORM(cusolverDnZungqr, CUDA_C_64F)

FAKE_API cusolverStatus_t cusolverDnXsyevd_bufferSize(HANDLES, int vectors, int half, int64_t n, int type,
                                                      const void *a, int64_t lda, int values_type, const void *values,
                                                      MEASURED) {
    (void)a, (void)values;
    NEED("cusolverDnXsyevd_bufferSize", vectors == CUSOLVER_EIG_MODE_VECTOR && half == CUBLAS_FILL_MODE_UPPER &&
                                            lda == n && values_type == part_of(type) && computes == type);
    const fake_factor f = {.kind = FAKE_SYEVD, .type = type, .m = n, .n = n};
    return measure(handle, given, &f, "cusolverDnXsyevd_bufferSize", bytes, of_host);
}
FAKE_API cusolverStatus_t cusolverDnXsyevd(HANDLES, int vectors, int half, int64_t n, int type, void *a, int64_t lda,
                                           int values_type, void *values, WORKSPACES) {
    NEED("cusolverDnXsyevd", given && vectors == CUSOLVER_EIG_MODE_VECTOR && half == CUBLAS_FILL_MODE_UPPER &&
                                 lda == n && values_type == part_of(type) && computes == type && values);
    const fake_factor f = {
        .kind = FAKE_SYEVD, .type = type, .m = n, .n = n, .a = AT(a), .values = AT(values), WITH_WORKSPACES};
    return add(handle, &f, "cusolverDnXsyevd", device_bytes(&f), host_bytes(&f));
}

FAKE_API cusolverStatus_t cusolverDnXsyevBatched_bufferSize(HANDLES, int vectors, int half, int64_t n, int type,
                                                            const void *a, int64_t lda, int values_type,
                                                            const void *values, MEASURED, int64_t batch) {
    (void)a, (void)values;
    NEED("cusolverDnXsyevBatched_bufferSize", vectors == CUSOLVER_EIG_MODE_VECTOR && half == CUBLAS_FILL_MODE_UPPER &&
                                                  lda == n && values_type == part_of(type) && computes == type &&
                                                  batch > 0);
    const fake_factor f = {.kind = FAKE_SYEVD, .type = type, .m = n, .n = n};
    return measure(handle, given, &f, "cusolverDnXsyevBatched_bufferSize", bytes, of_host);
}
FAKE_API cusolverStatus_t cusolverDnXsyevBatched(HANDLES, int vectors, int half, int64_t n, int type, void *a,
                                                 int64_t lda, int values_type, void *values, WORKSPACES,
                                                 int64_t batch) {
    NEED("cusolverDnXsyevBatched", given && vectors == CUSOLVER_EIG_MODE_VECTOR && half == CUBLAS_FILL_MODE_UPPER &&
                                       lda == n && values_type == part_of(type) && computes == type && values &&
                                       batch > 0);
    const fake_factor f = {.kind = FAKE_SYEVD,
                           .type = type,
                           .m = n,
                           .n = n,
                           .batch = batch,
                           .a = AT(a),
                           .values = AT(values),
                           WITH_WORKSPACES};
    return add(handle, &f, "cusolverDnXsyevBatched", device_bytes(&f), host_bytes(&f));
}

#define POTRF_BATCHED(name, of_type)                                                                        \
    FAKE_API cusolverStatus_t name(cusolverDnHandle_t handle, int half, int n, void *a, int lda, int *info, \
                                   int batch) {                                                             \
        NEED(#name, half == CUBLAS_FILL_MODE_UPPER && lda == n && batch > 0 && a && info);                  \
        const fake_factor f = {.kind = FAKE_POTRF,                                                          \
                               .type = of_type,                                                             \
                               .m = n,                                                                      \
                               .n = n,                                                                      \
                               .batch = batch,                                                              \
                               .a_pointers = AT(a),                                                         \
                               .info = AT(info)};                                                           \
        return add(handle, &f, "cusolverDnXpotrfBatched", 0, 0);                                            \
    }
POTRF_BATCHED(cusolverDnSpotrfBatched, CUDA_R_32F)
POTRF_BATCHED(cusolverDnDpotrfBatched, CUDA_R_64F)
POTRF_BATCHED(cusolverDnCpotrfBatched, CUDA_C_32F)
POTRF_BATCHED(cusolverDnZpotrfBatched, CUDA_C_64F)

FAKE_API cusolverStatus_t cusolverDnXgesvd_bufferSize(HANDLES, signed char of_u, signed char of_v, int64_t m, int64_t n,
                                                      int type, const void *a, int64_t lda, int values_type,
                                                      const void *values, int u_type, const void *u, int64_t ldu,
                                                      int v_type, const void *v, int64_t ldv, MEASURED) {
    (void)a, (void)values, (void)u, (void)v;
    NEED("cusolverDnXgesvd_bufferSize", of_u == 'S' && of_v == 'S' && lda == m && ldu == m && ldv == n &&
                                            values_type == part_of(type) && u_type == type && v_type == type &&
                                            computes == type);
    const fake_factor f = {.kind = FAKE_GESVD, .type = type, .m = m, .n = n};
    return measure(handle, given, &f, "cusolverDnXgesvd_bufferSize", bytes, of_host);
}
FAKE_API cusolverStatus_t cusolverDnXgesvd(HANDLES, signed char of_u, signed char of_v, int64_t m, int64_t n, int type,
                                           void *a, int64_t lda, int values_type, void *values, int u_type, void *u,
                                           int64_t ldu, int v_type, void *v, int64_t ldv, WORKSPACES) {
    NEED("cusolverDnXgesvd", given && of_u == 'S' && of_v == 'S' && lda == m && ldu == m && ldv == n &&
                                 values_type == part_of(type) && u_type == type && v_type == type && computes == type &&
                                 values && u && v);
    const fake_factor f = {.kind = FAKE_GESVD,
                           .type = type,
                           .m = m,
                           .n = n,
                           .a = AT(a),
                           .u = AT(u),
                           .v = AT(v),
                           .values = AT(values),
                           WITH_WORKSPACES};
    return add(handle, &f, "cusolverDnXgesvd", device_bytes(&f), host_bytes(&f));
}

/* --- cuBLAS ----------------------------------------------------------------------------------------------------------------- */

static int bad_blas(const char *call, const char *what) { return misuse(CUBLAS_STATUS_INVALID_VALUE, call, what); }

FAKE_API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    ENTER_SOLVER(cublasCreate_v2);
    if (fake_current_device() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    fake_lock();
    *handle = &blas[blas_count++ % MOST];
    **handle = (struct cublasContext){.alive = true, .device = fake_current_device()};
    fake_unlock();
    fake_live(1);
    return 0;
}
FAKE_API cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    if (!handle || !handle->alive) return bad_blas("cublasDestroy_v2", "there is no such handle, or no more");
    fake_lock();
    const char *launch = fake_stream_uses(handle), *recorded = fake_executables_use(handle);
    fake_unlock();
    if (launch || recorded) (void)bad_blas("cublasDestroy_v2", "the handle's work is in flight, or in a graph");
    handle->alive = false;
    fake_live(-1);
    return 0;
}
FAKE_API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CUstream stream) {
    ENTER_SOLVER(cublasSetStream_v2);
    if (!handle || !handle->alive) return bad_blas("cublasSetStream_v2", "what handle?");
    handle->stream = stream;
    handle->bytes = 0;
    return 0;
}
FAKE_API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    ENTER_SOLVER(cublasSetWorkspace_v2);
    if (!handle || !handle->alive) return bad_blas("cublasSetWorkspace_v2", "what handle?");
    handle->workspace = AT(workspace), handle->bytes = bytes;
    return 0;
}

static cublasStatus_t add_blas(cublasHandle_t handle, const fake_factor *f, const char *call) {
    int code = fake_call(call, false);
    if (code) return code;
    if (!handle || !handle->alive || handle->device != fake_current_device()) return bad_blas(call, "what handle?");
    if (!handle->bytes) return bad_blas(call, "cuBLAS takes a workspace of its own");
    const char *why = f->m < 1 || f->n < 1 ? "what matrix?" : why_no_arrays(f);
    if (!why) why = why_no_workspaces(f, handle->bytes, 0);
    if (why) return bad_blas(call, why);
    fake_work work = {.run = fake_run_factor, .uses = handle};
    strncpy(work.name, call, sizeof work.name - 1);
    fake_lock();
    fake_stream_add_work(fake_stream_of(handle->stream), &work, f, sizeof *f);
    fake_unlock();
    return 0;
}

static bool is_one(int type, const void *alpha) {
    const float *narrow = alpha;
    const double *wide = alpha;
    bool imaginary = is_complex(type) && (is_wide(type) ? wide[1] != 0 : narrow[1] != 0);
    return !imaginary && (is_wide(type) ? wide[0] == 1 : narrow[0] == 1);
}
static fake_factor on_workspace(cublasHandle_t handle, fake_factor f) {
    if (handle) f.workspace = handle->workspace, f.workspace_bytes = handle->bytes;
    return f;
}
static fake_factor triangle_of(int type, int half, int transposed, int unit, int m, int n) {
    return (fake_factor){.kind = FAKE_TRSM,
                         .type = type,
                         .m = m,
                         .n = n,
                         .lower = half == CUBLAS_FILL_MODE_LOWER,
                         .transposed = transposed == CUBLAS_OP_T,
                         .unit = unit == CUBLAS_DIAG_UNIT};
}
#define OF_CUBLAS(p, of_type)                                                                                          \
    FAKE_API cublasStatus_t cublas##p##trsm_v2(cublasHandle_t handle, int side, int half, int transposed, int unit,    \
                                               int m, int n, const void *alpha, const void *a, int lda, void *b,       \
                                               int ldb) {                                                              \
        fake_factor f = on_workspace(handle, triangle_of(of_type, half, transposed, unit, m, n));                      \
        f.a = AT(a), f.b = AT(b);                                                                                      \
        if (side != CUBLAS_SIDE_RIGHT || lda != n || ldb != m || transposed > CUBLAS_OP_T || !is_one(of_type, alpha))  \
            return bad_blas("trsm", "a side or leading dimensions that are not known to the fake");                    \
        return add_blas(handle, &f, "cublas" #p "trsm_v2");                                                            \
    }                                                                                                                  \
    FAKE_API cublasStatus_t cublas##p##trsmBatched(cublasHandle_t handle, int side, int half, int transposed,          \
                                                   int unit, int m, int n, const void *alpha, const void *a, int lda,  \
                                                   const void *b, int ldb, int batch) {                                \
        fake_factor f = on_workspace(handle, triangle_of(of_type, half, transposed, unit, m, n));                      \
        f.batch = batch, f.a_pointers = AT(a), f.b_pointers = AT(b);                                                   \
        if (side != CUBLAS_SIDE_RIGHT || lda != n || ldb != m || transposed > CUBLAS_OP_T || !is_one(of_type, alpha))  \
            return bad_blas("trsmBatched", "a side or leading dimensions that are not known to the fake");             \
        return add_blas(handle, &f, "cublas" #p "trsmBatched");                                                        \
    }                                                                                                                  \
    FAKE_API cublasStatus_t cublas##p##getrfBatched(cublasHandle_t handle, int n, const void *a, int lda, int *pivots, \
                                                    int *info, int batch) {                                            \
        if (lda != n || !pivots || !info) return bad_blas("getrfBatched", "what matrices?");                           \
        fake_factor f = {.kind = FAKE_GETRF, .type = of_type, .m = n, .n = n, .batch = batch, .a_pointers = AT(a)};    \
        f.pivots = AT(pivots), f.info = AT(info);                                                                      \
        f = on_workspace(handle, f);                                                                                   \
        return add_blas(handle, &f, "cublas" #p "getrfBatched");                                                       \
    }                                                                                                                  \
    FAKE_API cublasStatus_t cublas##p##getrsBatched(cublasHandle_t handle, int transposed, int n, int columns,         \
                                                    const void *a, int lda, const int *pivots, const void *b, int ldb, \
                                                    int *host_info, int batch) {                                       \
        if (transposed != CUBLAS_OP_T || lda != n || ldb != n || !host_info || columns < 1)                            \
            return bad_blas("getrsBatched", "what matrices?");                                                         \
        *host_info = 0;                                                                                                \
        fake_factor f = {.kind = FAKE_GETRS, .type = of_type, .m = n, .n = n, .columns = columns, .batch = batch};     \
        f.a_pointers = AT(a), f.b_pointers = AT(b), f.pivots = AT(pivots);                                             \
        f = on_workspace(handle, f);                                                                                   \
        return add_blas(handle, &f, "cublas" #p "getrsBatched");                                                       \
    }
OF_CUBLAS(S, CUDA_R_32F)
OF_CUBLAS(D, CUDA_R_64F)
OF_CUBLAS(C, CUDA_C_32F)
OF_CUBLAS(Z, CUDA_C_64F)

#include "drivers/cpu/product/openblas.h"

#include <stdio.h>

#include "base/error.h"
#include "base/guard.h"

#define CALL_ROOM ((size_t)192 << 20) /* bytes of address space of each thread in OpenBLAS: 128 MiB, which it keeps */

/* Debian installs several builds of OpenBLAS. The OpenMP build is tried first: it starts no threads when it is opened. The serial
 * build has no locks, so several threads must not call it at once. */
#if defined __x86_64__
#define OPENBLAS_OF_DEBIAN "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0"
#elif defined __aarch64__
#define OPENBLAS_OF_DEBIAN "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblas.so.0"
#else
#define OPENBLAS_OF_DEBIAN "libopenblas_omp.so.0"
#endif

const char *const bti_openblas_names[] = {OPENBLAS_OF_DEBIAN, "libopenblas.so.0", NULL};

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, SERIAL = 0, ON_OPENMP = 2 };
#define OPENBLAS_ENTRIES(ENTRY)                                                                                     \
    ENTRY(void, cblas_dgemm,                                                                                        \
          (int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,        \
           const double *b, int ldb, double beta, double *c, int ldc))                                              \
    ENTRY(void, cblas_dgemv,                                                                                        \
          (int order, int trans, int m, int n, double alpha, const double *a, int lda, const double *x, int x_step, \
           double beta, double *y, int y_step))                                                                     \
    ENTRY(char *, openblas_get_config, (void))                                                                      \
    ENTRY(int, openblas_get_parallel, (void))                                                                       \
    ENTRY(void, openblas_set_num_threads, (int threads))

#define FIELD(result, name, arguments) result(*name) arguments;
static struct {
    OPENBLAS_ENTRIES(FIELD)
    bti_omp omp;
} openblas;

/* --- opening ------------------------------------------------------------------------------------------------------ */

static bool resolve_openblas(void *handle, bti_library_state *now, bti_str *reason) {
#define NAME(result, name, arguments) {#name, (void **)&openblas.name},
    static const bti_library_symbol symbols[] = {OPENBLAS_ENTRIES(NAME)};
    const char *missing = BTI_LIBRARY_RESOLVE(handle, symbols);
    int kind = missing ? SERIAL : openblas.openblas_get_parallel();
    if (!missing && kind == SERIAL) missing = "locks (the serial build)";
    openblas.omp = (bti_omp){NULL, NULL};
    if (kind == ON_OPENMP) missing = bti_omp_resolve(handle, &openblas.omp);
    if (missing) {
        bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
        return false;
    }
    if (sscanf(openblas.openblas_get_config(), "OpenBLAS %31s", now->version) != 1) *now->version = '\0';
    if (kind != ON_OPENMP) openblas.openblas_set_num_threads(1);
    return true;
}

static bti_product_library openblas_library = {
    bti_openblas_names, resolve_openblas, "install OpenBLAS (on Debian the package libopenblas0-openmp)", 0, {0}};

bool bti_openblas_available(void) { return bti_product_library_open(&openblas_library); }
void bti_openblas_state(bti_library_state *state) { bti_product_library_state(&openblas_library, state); }
void bti_openblas_use(const char *const *names) {
    bti_product_library_reset(&openblas_library, names ? names : bti_openblas_names);
}

/* --- calling ------------------------------------------------------------------------------------------------------ */

/* OpenBLAS keeps a buffer for each thread that is in it at once. When it cannot allocate one more, it retries forever. */
static atomic_int in_openblas, buffers;

static bt_status enter_openblas(void) {
    int now = atomic_fetch_add(&in_openblas, 1) + 1;
    if (now <= atomic_load(&buffers)) return BT_OK;
    bt_status status = bti_guard_room((size_t)(now - atomic_load(&buffers)) * CALL_ROOM, "OpenBLAS");
    if (status != BT_OK) atomic_fetch_sub(&in_openblas, 1);
    return status;
}

static void leave_openblas(void) {
    int now = atomic_fetch_sub(&in_openblas, 1), had = atomic_load(&buffers);
    while (had < now && !atomic_compare_exchange_weak(&buffers, &had, now)) {
    }
}

bt_status bti_openblas_begin(int *threads) {
    BTI_TRY(enter_openblas());
    *threads = bti_omp_begin(&openblas.omp);
    return BT_OK;
}

void bti_openblas_end(int threads) {
    bti_omp_end(&openblas.omp, threads);
    leave_openblas();
}

bt_status bti_openblas_dgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                             const bti_blas_matrix *c) {
    const double *left = (const void *)a->at, *right = (const void *)b->at;
    double *to = (void *)c->at;
    int trans_a = a->transposed ? TRANSPOSED : PLAIN, trans_b = b->transposed ? TRANSPOSED : PLAIN;
    int threads;
    BTI_TRY(bti_openblas_begin(&threads));
    if (n == 1)
        openblas.cblas_dgemv(ROW_MAJOR, trans_a, (int)(a->transposed ? k : m), (int)(a->transposed ? m : k), 1, left,
                             (int)a->leading, right, b->transposed ? 1 : (int)b->leading, 0, to, (int)c->leading);
    else if (m == 1)
        openblas.cblas_dgemv(ROW_MAJOR, b->transposed ? PLAIN : TRANSPOSED, (int)(b->transposed ? n : k),
                             (int)(b->transposed ? k : n), 1, right, (int)b->leading, left,
                             a->transposed ? (int)a->leading : 1, 0, to, 1);
    else
        openblas.cblas_dgemm(ROW_MAJOR, trans_a, trans_b, (int)m, (int)n, (int)k, 1, left, (int)a->leading, right,
                             (int)b->leading, 0, to, (int)c->leading);
    bti_openblas_end(threads);
    return BT_OK;
}

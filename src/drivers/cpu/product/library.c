#include "drivers/cpu/product/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/guard.h"
#include "base/error.h"
#include "base/libraries.h"
#include "drivers/cpu/product/onednn.h"
#include "drivers/cpu/product/dnnl.h"

/* Debian keeps OpenBLAS's builds beside each other. The one on OpenMP is tried first: it makes no threads when it is opened.
 * The serial one has no locks, so several threads cannot be in it. */
#if defined __x86_64__
#define OPENBLAS_OF_DEBIAN "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0"
#elif defined __aarch64__
#define OPENBLAS_OF_DEBIAN "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblas.so.0"
#else
#define OPENBLAS_OF_DEBIAN "libopenblas_omp.so.0"
#endif

static const char *const usual_dnnl[] = {"libdnnl.so.2", "libdnnl.so.3", NULL};
static const char *const usual_openblas[] = {OPENBLAS_OF_DEBIAN, "libopenblas.so.0", NULL};

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

bti_dnnl bti_dnnl_;
#define FIELD(result, name, arguments) result(*name) arguments;
static struct {
    OPENBLAS_ENTRIES(FIELD)
    bti_omp omp;
} openblas;

typedef struct library {
    const char *const *names;
    bool (*resolve)(void *handle, bti_library_state *now, bti_str *reason);
    const char *install;
    atomic_int found; /* 0: not tried yet; 1: there; -1: not */
    bti_library_state now;
} library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of opening and of `now` */
BTI_RENEW_IN_CHILD(lock)

/* --- opening ------------------------------------------------------------------------------------------------------ */

typedef struct entry {
    const char *name;
    void **at;
} entry;

static const char *resolve_all(void *handle, const entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(*entries[i].at = dlsym(handle, entries[i].name))) return entries[i].name;
    return NULL;
}
#define RESOLVE(handle, entries) resolve_all(handle, entries, sizeof entries / sizeof *entries)

static const char *resolve_omp(void *handle, bti_omp *omp) {
    *(void **)&omp->get_max_threads = dlsym(handle, "omp_get_max_threads");
    *(void **)&omp->set_num_threads = dlsym(handle, "omp_set_num_threads");
    return omp->get_max_threads && omp->set_num_threads ? NULL : "OpenMP";
}

#define DNNL_NAME(result, name, arguments) {"dnnl_" #name, (void **)&bti_dnnl_.name},
static void open_primitives(void *handle, int version) {
    static const entry entries[] = {BTI_DNNL_PRIMITIVE_ENTRIES(DNNL_NAME)};
    if (version != 2 || RESOLVE(handle, entries)) return;
    if (bti_dnnl_.engine_create(&bti_dnnl_.engine, BTI_DNNL_CPU, 0)) bti_dnnl_.engine = NULL;
}

static bool resolve_dnnl(void *handle, bti_library_state *now, bti_str *reason) {
    static const entry entries[] = {BTI_DNNL_ENTRIES(DNNL_NAME)};
    bti_dnnl_ = (bti_dnnl){0};
    const char *missing = RESOLVE(handle, entries);
    const bti_dnnl_version *version = missing ? NULL : bti_dnnl_.version();
    if (version && version->cpu_runtime == BTI_DNNL_RUNTIME_OMP)
        missing = resolve_omp(handle, &bti_dnnl_.omp);
    else if (version && version->cpu_runtime != BTI_DNNL_RUNTIME_SEQUENTIAL)
        missing = "way to run on one thread (it is not built for OpenMP)";
    if (missing) {
        bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
        return false;
    }
    snprintf(now->version, sizeof now->version, "%d.%d.%d", version->major, version->minor, version->patch);
    open_primitives(handle, version->major);
    return true;
}

static bool resolve_openblas(void *handle, bti_library_state *now, bti_str *reason) {
#define NAME(result, name, arguments) {#name, (void **)&openblas.name},
    static const entry entries[] = {OPENBLAS_ENTRIES(NAME)};
    const char *missing = RESOLVE(handle, entries);
    int kind = missing ? SERIAL : openblas.openblas_get_parallel();
    if (!missing && kind == SERIAL) missing = "locks (the serial build)";
    openblas.omp = (bti_omp){NULL, NULL};
    if (kind == ON_OPENMP) missing = resolve_omp(handle, &openblas.omp);
    if (missing) {
        bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
        return false;
    }
    if (sscanf(openblas.openblas_get_config(), "OpenBLAS %31s", now->version) != 1) *now->version = '\0';
    if (kind != ON_OPENMP) openblas.openblas_set_num_threads(1);
    return true;
}

static library libraries[] = {
    {usual_dnnl, resolve_dnnl, "install oneDNN (on Debian 12 the package libdnnl2)", 0, {0}},
    {usual_openblas, resolve_openblas, "install OpenBLAS (on Debian the package libopenblas0-openmp)", 0, {0}},
};
enum { DNNL, OPENBLAS };

#define OPEN_ROOM ((size_t)512 << 20) /* bytes of address space that opening either takes at most */
#define DNNL_ROOM \
    ((size_t)64 << 20) /* and a call of oneDNN, whose malloc is not always looked at, beside the matrices */
#define OPENBLAS_ROOM ((size_t)192 << 20) /* and each thread that is in OpenBLAS at once: 128 MiB, kept */

/* Under the lock. A library that has no room is not tried again: the same products by other ways have other bits. */
static void open_library(library *l) {
    int64_t start = (int64_t)bti_now_ns();
    bti_str reason = {0};
    bool room = bti_guard_room(OPEN_ROOM, "opening a library of products") == BT_OK;
    if (!room) bti_str_addf(&reason, "%s; ", bt_error_text());
    for (int i = 0; l->names[i] && !l->now.opened && room; i++) {
        void *handle = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
        snprintf(l->now.library, sizeof l->now.library, "%s", l->names[i]);
        const char *said = handle ? NULL : dlerror();
        if (!handle)
            bti_str_addf(&reason, "%s; ", said ? said : l->names[i]);
        else if (l->resolve(handle, &l->now, &reason))
            l->now.opened = true, bti_guard_watch(handle);
        else
            dlclose(handle);
    }
    if (l->now.opened) {
        l->now.open_ns = (uint64_t)((int64_t)bti_now_ns() - start);
    } else {
        *l->now.library = '\0';
        snprintf(l->now.reason, sizeof l->now.reason, "%s%s", bti_str_text(&reason), l->install);
    }
    bti_str_free(&reason);
    atomic_store(&l->found, l->now.opened ? 1 : -1);
}

static bool has(library *l) {
    int found = atomic_load_explicit(&l->found, memory_order_acquire);
    if (found) return found > 0;
    bti_opening opening;
    if (!bti_opening_begin(&opening)) return false;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&l->found)) open_library(l);
    pthread_mutex_unlock(&lock);
    bti_opening_end(&opening);
    return atomic_load(&l->found) > 0;
}

bool bti_has_dnnl(void) { return has(&libraries[DNNL]); }
bool bti_has_openblas(void) { return has(&libraries[OPENBLAS]); }

void bti_product_look(bti_product_state *state, bool attempt) {
    *state = (bti_product_state){0};
    for (int i = 0; i < 2 && attempt; i++) has(&libraries[i]);
    pthread_mutex_lock(&lock);
    state->dnnl = libraries[DNNL].now;
    state->openblas = libraries[OPENBLAS].now;
    pthread_mutex_unlock(&lock);
    bti_primitives_look(state);
}

void bti_product_use(const char *const *dnnl, const char *const *openblas_names) {
    pthread_mutex_lock(&lock);
    bti_primitives_drop();
    if (bti_dnnl_.engine) bti_dnnl_.engine_destroy(bti_dnnl_.engine);
    bti_dnnl_.engine = NULL;
    libraries[DNNL].names = dnnl ? dnnl : usual_dnnl;
    libraries[OPENBLAS].names = openblas_names ? openblas_names : usual_openblas;
    for (int i = 0; i < 2; i++) {
        atomic_store(&libraries[i].found, 0);
        libraries[i].now = (bti_library_state){0};
    }
    pthread_mutex_unlock(&lock);
}

/* --- calling ------------------------------------------------------------------------------------------------------ */

bt_status bti_sgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                    const bti_blas_matrix *c, bool add) {
    BTI_TRY(bti_guard_begin("oneDNN", DNNL_ROOM + 4 * (size_t)(m * k + k * n), NULL));
    int threads = bti_omp_begin(&bti_dnnl_.omp);
    int status = bti_dnnl_.sgemm(a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', m, n, k, 1,
                                 (const float *)(const void *)a->at, a->leading, (const float *)(const void *)b->at,
                                 b->leading, add ? 1 : 0, (float *)(void *)c->at, c->leading);
    bti_omp_end(&bti_dnnl_.omp, threads);
    bti_guard_end();
    if (!status) return BT_OK;
    return bti_fail(status == 1 ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "oneDNN refuses a product of %lld x %lld x %lld (its status is %d)", (long long)m, (long long)k,
                    (long long)n, status);
}

/* OpenBLAS keeps a buffer for each thread that was ever in it at once, and tries for ever to get one more. */
static atomic_int in_openblas, buffers;

static bt_status enter_openblas(void) {
    int now = atomic_fetch_add(&in_openblas, 1) + 1;
    if (now <= atomic_load(&buffers)) return BT_OK;
    bt_status status = bti_guard_room((size_t)(now - atomic_load(&buffers)) * OPENBLAS_ROOM, "OpenBLAS");
    if (status != BT_OK) atomic_fetch_sub(&in_openblas, 1);
    return status;
}

static void leave_openblas(void) {
    int now = atomic_fetch_sub(&in_openblas, 1), had = atomic_load(&buffers);
    while (had < now && !atomic_compare_exchange_weak(&buffers, &had, now)) {
    }
}

bt_status bti_dgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                    const bti_blas_matrix *c) {
    const double *left = (const void *)a->at, *right = (const void *)b->at;
    double *to = (void *)c->at;
    int trans_a = a->transposed ? TRANSPOSED : PLAIN, trans_b = b->transposed ? TRANSPOSED : PLAIN;
    BTI_TRY(enter_openblas());
    int threads = bti_omp_begin(&openblas.omp);
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
    bti_omp_end(&openblas.omp, threads);
    leave_openblas();
    return BT_OK;
}

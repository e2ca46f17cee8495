#include "drivers/cpu/product/onednn.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/lru.h"
#include "base/alloc.h"
#include "base/lock.h"
#include "base/guard.h"

/* Bytes of address space: of a call of sgemm beside the matrices, because oneDNN does not check every malloc; of making or running a
 * primitive. */
#define SGEMM_ROOM ((size_t)64 << 20)
#define PRIMITIVE_ROOM ((size_t)64 << 20)

static const char *const onednn_names[] = {"libdnnl.so.2", "libdnnl.so.3", NULL};

typedef struct dnnl_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} dnnl_version;

/* oneDNN's enums. */
enum {
    DNNL_BF16 = 2,
    DNNL_CPU = 1,
    DNNL_STREAM_IN_ORDER = 1,
    DNNL_SCRATCHPAD_USER = 1,
    DNNL_QUERY_SCRATCHPAD = 136,
    DNNL_RUNTIME_SEQUENTIAL = 1,
    DNNL_RUNTIME_OMP = 2
};

/* An int result is a status, 0 for success; handles are pointers. The primitives are those of version 2; version 3 has another API. */
#define DNNL_ENTRIES(ENTRY)                                                                                       \
    ENTRY(const dnnl_version *, version, (void))                                                                  \
    ENTRY(int, sgemm,                                                                                             \
          (char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, \
           const float *b, int64_t ldb, float beta, float *c, int64_t ldc))
#define DNNL_PRIMITIVE_ENTRIES(ENTRY)                                                                                \
    ENTRY(int, engine_destroy, (void *engine))                                                                       \
    ENTRY(int, engine_create, (void **engine, int kind, size_t index))                                               \
    ENTRY(int, stream_create, (void **stream, void *engine, unsigned flags))                                         \
    ENTRY(int, stream_destroy, (void *stream))                                                                       \
    ENTRY(int, memory_desc_init_by_strides, (void *desc, int rank, const int64_t *shape, int type, const int64_t *)) \
    ENTRY(size_t, memory_desc_get_size, (const void *desc))                                                          \
    ENTRY(int, matmul_desc_init, (void *matmul, const void *a, const void *b, const void *bias, const void *c))      \
    ENTRY(int, primitive_attr_create, (void **attr))                                                                 \
    ENTRY(int, primitive_attr_set_scratchpad_mode, (void *attr, int mode))                                           \
    ENTRY(int, primitive_attr_destroy, (void *attr))                                                                 \
    ENTRY(int, primitive_desc_create, (void **desc, const void *operation, const void *attr, void *engine, void *))  \
    ENTRY(const void *, primitive_desc_query_md, (const void *desc, int what, int index))                            \
    ENTRY(int, primitive_desc_destroy, (void *desc))                                                                 \
    ENTRY(int, primitive_create, (void **primitive, const void *desc))                                               \
    ENTRY(int, primitive_destroy, (void *primitive))                                                                 \
    ENTRY(int, memory_create, (void **memory, const void *desc, void *engine, void *at))                             \
    ENTRY(int, memory_destroy, (void *memory))                                                                       \
    ENTRY(int, primitive_execute, (const void *primitive, void *stream, int count, const void *arguments))

#define FIELD(result, name, arguments) result(*name) arguments;
typedef struct dnnl_library {
    DNNL_ENTRIES(FIELD)
    DNNL_PRIMITIVE_ENTRIES(FIELD)
    void *engine; /* NULL: no primitives */
    bti_omp omp;
} dnnl_library;
static dnnl_library dnnl; /* does not change once it is open */

/* --- opening ------------------------------------------------------------------------------------------------------ */

#define DNNL_NAME(result, name, arguments) {"dnnl_" #name, (void **)&dnnl.name},
static void open_primitives(void *handle, int version) {
    static const bti_library_symbol symbols[] = {DNNL_PRIMITIVE_ENTRIES(DNNL_NAME)};
    if (version != 2 || BTI_LIBRARY_RESOLVE(handle, symbols)) return;
    if (dnnl.engine_create(&dnnl.engine, DNNL_CPU, 0)) dnnl.engine = NULL;
}

static bool resolve_dnnl(void *handle, bti_library_state *now, bti_str *reason) {
    static const bti_library_symbol symbols[] = {DNNL_ENTRIES(DNNL_NAME)};
    dnnl = (dnnl_library){0};
    const char *missing = BTI_LIBRARY_RESOLVE(handle, symbols);
    const dnnl_version *version = missing ? NULL : dnnl.version();
    if (version && version->cpu_runtime == DNNL_RUNTIME_OMP)
        missing = bti_omp_resolve(handle, &dnnl.omp);
    else if (version && version->cpu_runtime != DNNL_RUNTIME_SEQUENTIAL)
        missing = "way to run on one thread (it is not built for OpenMP)";
    if (missing) {
        bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
        return false;
    }
    snprintf(now->version, sizeof now->version, "%d.%d.%d", version->major, version->minor, version->patch);
    open_primitives(handle, version->major);
    return true;
}

static bti_product_library onednn = {
    onednn_names, resolve_dnnl, "install oneDNN (on Debian 12 the package libdnnl2)", 0, {0}};

bool bti_onednn_available(void) { return bti_product_library_open(&onednn); }

bool bti_onednn_has_bf16(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512bf16") && bti_onednn_available() && dnnl.engine;
#else
    return false;
#endif
}

/* --- float32 ------------------------------------------------------------------------------------------------------ */

bt_status bti_onednn_sgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                           const bti_blas_matrix *c, bool add) {
    BTI_TRY(bti_guard_begin("oneDNN", SGEMM_ROOM + 4 * (size_t)(m * k + k * n), NULL));
    int threads = bti_omp_begin(&dnnl.omp);
    int status = dnnl.sgemm(a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', m, n, k, 1,
                            (const float *)(const void *)a->at, a->leading, (const float *)(const void *)b->at,
                            b->leading, add ? 1 : 0, (float *)(void *)c->at, c->leading);
    bti_omp_end(&dnnl.omp, threads);
    bti_guard_end();
    if (!status) return BT_OK;
    return bti_fail(status == 1 ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "oneDNN refuses a product of %lld x %lld x %lld (its status is %d)", (long long)m, (long long)k,
                    (long long)n, status);
}

/* --- bfloat16: primitives, one for each shape of product ---------------------------------------------------------- */

enum { A, B, C, OPERANDS };
enum { DESC_BYTES = 1024, MATMUL_BYTES = 8192 }; /* more than oneDNN 2 has */

typedef struct product_shape {
    int64_t shape[OPERANDS][2], stride[OPERANDS][2];
} product_shape;

typedef struct primitive {
    bti_lru_entry entry; /* first */
    product_shape shape;
    void *handle, *desc;
    const void *scratch; /* the memory descriptor of its scratchpad */
    size_t scratch_bytes;
    _Alignas(16) char operand[OPERANDS][DESC_BYTES];
} primitive;

BTI_STATIC_LOCK(onednn_lock, onednn) /* protects what follows, and `kept` */
static uint64_t found, made;

/* --- primitives: making ------------------------------------------------------------------------------------------- */

static int make_handle(primitive *p) {
    _Alignas(16) char matmul[MATMUL_BYTES] = {0};
    void *attr = NULL;
    if (bti_guard_begin("oneDNN", PRIMITIVE_ROOM, NULL) != BT_OK) return 1; /* out of memory */
    int status = 0, threads = bti_omp_begin(&dnnl.omp);
    for (int i = 0; i < OPERANDS && !status; i++)
        status = dnnl.memory_desc_init_by_strides(p->operand[i], 2, p->shape.shape[i], DNNL_BF16, p->shape.stride[i]);
    if (!status) status = dnnl.matmul_desc_init(matmul, p->operand[A], p->operand[B], NULL, p->operand[C]);
    if (!status) status = dnnl.primitive_attr_create(&attr);
    if (!status) status = dnnl.primitive_attr_set_scratchpad_mode(attr, DNNL_SCRATCHPAD_USER);
    if (!status) status = dnnl.primitive_desc_create(&p->desc, matmul, attr, dnnl.engine, NULL);
    if (!status) status = dnnl.primitive_create(&p->handle, p->desc);
    if (!status) {
        p->scratch = dnnl.primitive_desc_query_md(p->desc, DNNL_QUERY_SCRATCHPAD, 0);
        p->scratch_bytes = dnnl.memory_desc_get_size(p->scratch);
    }
    if (attr) dnnl.primitive_attr_destroy(attr);
    bti_omp_end(&dnnl.omp, threads);
    bti_guard_end();
    return status;
}

static void free_primitive(bti_lru_entry *entry) {
    primitive *p = (primitive *)entry;
    if (p->handle) dnnl.primitive_destroy(p->handle);
    if (p->desc) dnnl.primitive_desc_destroy(p->desc);
    bti_free(p);
}

static bool is_of_shape(const bti_lru_entry *entry, const void *shape) {
    return !memcmp(&((const primitive *)entry)->shape, shape, sizeof(product_shape));
}

static bti_lru kept = {.equal = is_of_shape, .free = free_primitive, .most_count = BTI_ONEDNN_PRIMITIVES};

static primitive *make_primitive(const product_shape *shape, int *status) {
    primitive *p = bti_calloc(1, sizeof *p);
    *status = 1; /* out of memory */
    if (!p) return NULL;
    p->shape = *shape;
    bti_lru_entry_init(&p->entry);
    *status = make_handle(p);
    if (!*status) return p;
    bti_lru_release(&kept, &p->entry);
    return NULL;
}

/* --- primitives: keeping ------------------------------------------------------------------------------------------ */

/* A primitive is made under the lock: a second thread that needs the same one waits, and finds it. */
static primitive *acquire_primitive(const product_shape *shape, int *status) {
    bti_lru_entry *evicted = NULL;
    bti_lock_take(&onednn_lock);
    uint64_t hash = XXH3_64bits(shape, sizeof *shape);
    primitive *p = bti_lru_find(&kept, hash, shape);
    *status = 0;
    if (p) {
        found++;
    } else if ((p = make_primitive(shape, status))) {
        made++;
        evicted = bti_lru_add_evicting(&kept, &p->entry, hash, 0);
    }
    bti_lock_give(&onednn_lock);
    bti_lru_free_evicted(&kept, evicted);
    return p;
}

/* --- primitives: running ------------------------------------------------------------------------------------------ */

static int execute_primitive(const primitive *p, char *const at[OPERANDS], void *scratch) {
    static const int numbers[] = {1, 33, 17, 80}; /* DNNL_ARG_SRC, _WEIGHTS, _DST, _SCRATCHPAD */
    struct argument {
        int number;
        void *memory;
    } arguments[OPERANDS + 1];
    if (bti_guard_begin("oneDNN", PRIMITIVE_ROOM, NULL) != BT_OK) return 1; /* out of memory */
    int status = 0, count = 0, threads = bti_omp_begin(&dnnl.omp);
    void *stream = NULL;
    for (int i = 0; i <= OPERANDS && !status; i++) {
        if (i == OPERANDS && !p->scratch_bytes) continue;
        arguments[count].number = numbers[i];
        status = dnnl.memory_create(&arguments[count].memory, i < OPERANDS ? p->operand[i] : p->scratch, dnnl.engine,
                                    i < OPERANDS ? at[i] : scratch);
        count += !status;
    }
    if (!status) status = dnnl.stream_create(&stream, dnnl.engine, DNNL_STREAM_IN_ORDER);
    if (!status) status = dnnl.primitive_execute(p->handle, stream, count, arguments);
    if (stream) dnnl.stream_destroy(stream);
    while (count) dnnl.memory_destroy(arguments[--count].memory);
    bti_omp_end(&dnnl.omp, threads);
    bti_guard_end();
    return status;
}

static void set_operand(product_shape *product, int operand, const bti_blas_matrix *matrix, int64_t rows,
                        int64_t columns) {
    product->shape[operand][0] = rows, product->shape[operand][1] = columns;
    product->stride[operand][0] = matrix->transposed ? 1 : matrix->leading;
    product->stride[operand][1] = matrix->transposed ? matrix->leading : 1;
}

bt_status bti_onednn_bf16_gemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                               const bti_blas_matrix *c) {
    product_shape wanted;
    set_operand(&wanted, A, a, m, k);
    set_operand(&wanted, B, b, k, n);
    set_operand(&wanted, C, c, m, n);
    int status;
    primitive *p = acquire_primitive(&wanted, &status);
    if (p) {
        void *scratch = bti_alloc_aligned(64, p->scratch_bytes);
        status = scratch ? execute_primitive(p, (char *const[]){a->at, b->at, c->at}, scratch) : 1;
        bti_free(scratch);
        bti_lock_take(&onednn_lock);
        bti_lru_release(&kept, &p->entry);
        bti_lock_give(&onednn_lock);
    }
    if (!status) return BT_OK;
    return bti_fail(status == 1 ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "oneDNN refuses a bfloat16 product of %lld x %lld x %lld (its status is %d)", (long long)m,
                    (long long)k, (long long)n, status);
}

/* --- state -------------------------------------------------------------------------------------------------------- */

void bti_onednn_state(bti_library_state *state, bti_primitive_counts *counts) {
    bti_product_library_state(&onednn, state);
    *counts = (bti_primitive_counts){0};
    bti_lock_take(&onednn_lock);
    counts->kept += kept.count;
    counts->found = found, counts->made = made, counts->evicted = kept.evicted;
    bti_lock_give(&onednn_lock);
}

static void drop_primitives(void) {
    bti_lock_take(&onednn_lock);
    bti_lru_clear(&kept);
    found = made = kept.evicted = 0;
    bti_lock_give(&onednn_lock);
}

void bti_onednn_use(const char *const *names) {
    drop_primitives();
    if (dnnl.engine) dnnl.engine_destroy(dnnl.engine);
    dnnl.engine = NULL;
    bti_product_library_reset(&onednn, names ? names : onednn_names);
}

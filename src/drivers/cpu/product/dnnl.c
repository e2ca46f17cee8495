#include "drivers/cpu/product/dnnl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/guard.h"
#include "base/lock.h"

/* Bytes of address space: of a call of sgemm beside the matrices, because oneDNN does not check every malloc; of making or running a
 * primitive. */
#define SGEMM_ROOM ((size_t)64 << 20)
#define PRIMITIVE_ROOM ((size_t)64 << 20)

static const char *const usual_names[] = {"libdnnl.so.3", "libdnnl.so.2", NULL};

typedef struct dnnl_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} dnnl_version;

/* oneDNN's enums. */
enum {
    CPU = 1,
    STREAM_IN_ORDER = 1,
    SCRATCHPAD_USER = 1,
    TAG_ANY = 1,
    INFERENCE = 96,
    DIRECT = 1,
    QUERY_NAME = 8,
    QUERY_SCRATCHPAD = 136,
    QUERY_ARGUMENT = 255,
    ARG_SRC = 1,
    ARG_DST = 17,
    ARG_SCRATCHPAD = 80,
    SEQUENTIAL = 1,
    OMP = 2
};

/* An int result is a status; handles are pointers. First what all versions have, then what both that have primitives do, then what one of them does. */
#define ENTRIES(ENTRY)                                                                                            \
    ENTRY(const dnnl_version *, version, (void))                                                                  \
    ENTRY(int, sgemm,                                                                                             \
          (char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, \
           const float *b, int64_t ldb, float beta, float *c, int64_t ldc))                                       \
    ENTRY(int, gemm_s8s8s32, BYTES_ARGUMENTS)                                                                     \
    ENTRY(int, gemm_u8s8s32, BYTES_ARGUMENTS)
#define BYTES_ARGUMENTS                                                                                           \
    (char trans_a, char trans_b, char offset_c, int64_t m, int64_t n, int64_t k, float alpha, const void *a,      \
     int64_t lda, int8_t offset_a, const void *b, int64_t ldb, int8_t offset_b, float beta, void *c, int64_t ldc, \
     const void *offsets)
#define PRIMITIVE_ENTRIES(ENTRY)                                                                                 \
    ENTRY(int, set_primitive_cache_capacity, (int primitives))                                                   \
    ENTRY(int, engine_destroy, (void *engine))                                                                   \
    ENTRY(int, engine_create, (void **engine, int kind, size_t index))                                           \
    ENTRY(int, stream_create, (void **stream, void *engine, unsigned flags))                                     \
    ENTRY(int, stream_destroy, (void *stream))                                                                   \
    ENTRY(size_t, memory_desc_get_size, (const void *desc))                                                      \
    ENTRY(int, memory_desc_equal, (const void *a, const void *b))                                                \
    ENTRY(int, primitive_attr_create, (void **attr))                                                             \
    ENTRY(int, primitive_attr_set_scratchpad_mode, (void *attr, int mode))                                       \
    ENTRY(int, primitive_attr_destroy, (void *attr))                                                             \
    ENTRY(int, primitive_desc_query, (const void *desc, int what, int index, void *result))                      \
    ENTRY(const void *, primitive_desc_query_md, (const void *desc, int what, int index))                        \
    ENTRY(int, primitive_desc_destroy, (void *desc))                                                             \
    ENTRY(int, primitive_create, (void **primitive, const void *desc))                                           \
    ENTRY(int, primitive_destroy, (void *primitive))                                                             \
    ENTRY(int, reorder_primitive_desc_create,                                                                    \
          (void **desc, const void *from, void *from_engine, const void *to, void *to_engine, const void *attr)) \
    ENTRY(int, memory_create, (void **memory, const void *desc, void *engine, void *at))                         \
    ENTRY(int, memory_destroy, (void *memory))                                                                   \
    ENTRY(int, primitive_execute, (const void *primitive, void *stream, int count, const void *arguments))
#define ENTRIES_2(ENTRY)                                                                                              \
    ENTRY(int, memory_desc_init_by_strides, (void *desc, int rank, const int64_t *shape, int type, const int64_t *))  \
    ENTRY(int, memory_desc_init_by_tag, (void *desc, int rank, const int64_t *shape, int type, int tag))              \
    ENTRY(int, matmul_desc_init, (void *matmul, const void *a, const void *b, const void *bias, const void *c))       \
    ENTRY(int, dilated_convolution_forward_desc_init,                                                                 \
          (void *conv, int use, int way, const void *x, const void *w, const void *bias, const void *y,               \
           const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after))              \
    ENTRY(int, dilated_convolution_backward_data_desc_init,                                                           \
          (void *conv, int way, const void *x, const void *w, const void *y, const int64_t *stride,                   \
           const int64_t *dilation, const int64_t *before, const int64_t *after))                                     \
    ENTRY(int, dilated_convolution_backward_weights_desc_init,                                                        \
          (void *conv, int way, const void *x, const void *w, const void *bias, const void *y, const int64_t *stride, \
           const int64_t *dilation, const int64_t *before, const int64_t *after))                                     \
    ENTRY(int, primitive_desc_create,                                                                                 \
          (void **desc, const void *operation, const void *attr, void *engine, const void *forward))
#define ENTRIES_3(ENTRY)                                                                                               \
    ENTRY(int, memory_desc_create_with_strides,                                                                        \
          (void **desc, int rank, const int64_t *shape, int type, const int64_t *))                                    \
    ENTRY(int, memory_desc_create_with_tag, (void **desc, int rank, const int64_t *shape, int type, int tag))          \
    ENTRY(int, memory_desc_destroy, (void *desc))                                                                      \
    ENTRY(                                                                                                             \
        int, matmul_primitive_desc_create,                                                                             \
        (void **desc, void *engine, const void *a, const void *b, const void *bias, const void *c, const void *attr))  \
    ENTRY(int, convolution_forward_primitive_desc_create,                                                              \
          (void **desc, void *engine, int use, int way, const void *x, const void *w, const void *bias, const void *y, \
           const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after,                \
           const void *attr))                                                                                          \
    ENTRY(int, convolution_backward_data_primitive_desc_create,                                                        \
          (void **desc, void *engine, int way, const void *x, const void *w, const void *y, const int64_t *stride,     \
           const int64_t *dilation, const int64_t *before, const int64_t *after, const void *forward,                  \
           const void *attr))                                                                                          \
    ENTRY(int, convolution_backward_weights_primitive_desc_create,                                                     \
          (void **desc, void *engine, int way, const void *x, const void *w, const void *bias, const void *y,          \
           const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after,                \
           const void *forward, const void *attr))

#define FIELD(result, name, arguments) result(*name) arguments;
static struct dnnl_library {
    ENTRIES(FIELD)
    PRIMITIVE_ENTRIES(FIELD)
    ENTRIES_2(FIELD)
    ENTRIES_3(FIELD)
    int major;
    void *engine; /* NULL: no primitives */
    bti_omp omp;
} dnnl; /* does not change once it is open */

/* --- opening ------------------------------------------------------------------------------------------------------ */

#define NAME(result, name, arguments) {"dnnl_" #name, (void **)&dnnl.name},
static bool resolve_primitives(void *handle) {
    static const bti_library_symbol both[] = {PRIMITIVE_ENTRIES(NAME)}, of_2[] = {ENTRIES_2(NAME)},
                                    of_3[] = {ENTRIES_3(NAME)};
    if (BTI_LIBRARY_RESOLVE(handle, both)) return false;
    if (dnnl.major == 2) return !BTI_LIBRARY_RESOLVE(handle, of_2);
    return dnnl.major == 3 && !BTI_LIBRARY_RESOLVE(handle, of_3);
}

static bool resolve_dnnl(void *handle, bti_library_state *now, bti_str *reason) {
    static const bti_library_symbol symbols[] = {ENTRIES(NAME)};
    dnnl = (struct dnnl_library){0};
    const char *missing = BTI_LIBRARY_RESOLVE(handle, symbols);
    const dnnl_version *version = missing ? NULL : dnnl.version();
    if (version && version->cpu_runtime == OMP)
        missing = bti_omp_resolve(handle, &dnnl.omp);
    else if (version && version->cpu_runtime != SEQUENTIAL)
        missing = "way to run on one thread (it is not built for OpenMP)";
    if (missing) {
        bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
        return false;
    }
    snprintf(now->version, sizeof now->version, "%d.%d.%d", version->major, version->minor, version->patch);
    dnnl.major = version->major;
    if (!resolve_primitives(handle)) return true;
    if (dnnl.engine_create(&dnnl.engine, CPU, 0)) dnnl.engine = NULL;
    (void)dnnl.set_primitive_cache_capacity(0); /* they are kept here, and no others */
    return true;
}

static bti_product_library library = {
    usual_names, resolve_dnnl, "install oneDNN (on Debian 12 the package libdnnl2)", 0, {0}};

bool bti_dnnl_open(void) { return bti_product_library_open(&library); }
bool bti_dnnl_has_primitives(void) { return bti_dnnl_open() && dnnl.engine; }

/* --- calls -------------------------------------------------------------------------------------------------------- */

typedef struct visit {
    int threads;
} visit;

/* Around calls, on their thread. False: memory is short. */
static bool enter(visit *v, size_t room) {
    if (bti_guard_begin("oneDNN", room, NULL) != BT_OK) return false;
    v->threads = bti_omp_begin(&dnnl.omp);
    return true;
}

static void leave(const visit *v) {
    bti_omp_end(&dnnl.omp, v->threads);
    bti_guard_end();
}

int bti_dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                   const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    visit v;
    if (!enter(&v, SGEMM_ROOM + 4 * (size_t)(m * k + k * n))) return BTI_DNNL_NO_MEMORY;
    int status = dnnl.sgemm(trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
    leave(&v);
    return status;
}

int bti_dnnl_bytes_gemm(bool is_unsigned, char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, const void *a,
                        int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc) {
    static const int32_t no_offset = 0;
    visit v;
    if (!enter(&v, SGEMM_ROOM + (size_t)(m * k + k * n))) return BTI_DNNL_NO_MEMORY;
    int status = (is_unsigned ? dnnl.gemm_u8s8s32 : dnnl.gemm_s8s8s32)(trans_a, trans_b, 'F', m, n, k, 1, a, lda, 0, b,
                                                                       ldb, 0, 0, c, ldc, &no_offset);
    leave(&v);
    return status;
}

/* --- descriptors of memory ---------------------------------------------------------------------------------------- */

static const void *of(const bti_dnnl_desc *desc) { return dnnl.major == 2 ? desc->value : desc->handle; }

static int describe(bti_dnnl_desc *desc, const bti_dnnl_tensor *tensor, bti_dnnl_type type, bool any) {
    int rank = (int)tensor->rank;
    if (dnnl.major == 2)
        return any ? dnnl.memory_desc_init_by_tag(desc->value, rank, tensor->shape, type, TAG_ANY)
                   : dnnl.memory_desc_init_by_strides(desc->value, rank, tensor->shape, type, tensor->stride);
    return any ? dnnl.memory_desc_create_with_tag(&desc->handle, rank, tensor->shape, type, TAG_ANY)
               : dnnl.memory_desc_create_with_strides(&desc->handle, rank, tensor->shape, type, tensor->stride);
}

static void forget(bti_dnnl_desc *desc) {
    if (desc->handle) dnnl.memory_desc_destroy(desc->handle);
    desc->handle = NULL;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

enum { OPERATION_BYTES = 16384 }; /* more than oneDNN 2 has */

static int describe_product(const bti_dnnl_primitive *p, const void *attr, void **made) {
    _Alignas(16) char operation[OPERATION_BYTES] = {0};
    const void *a = of(&p->given[0]), *b = of(&p->given[1]), *c = of(&p->given[2]);
    if (dnnl.major == 3) return dnnl.matmul_primitive_desc_create(made, dnnl.engine, a, b, NULL, c, attr);
    int status = dnnl.matmul_desc_init(operation, a, b, NULL, c);
    return status ? status : dnnl.primitive_desc_create(made, operation, attr, dnnl.engine, NULL);
}

/* forward: of what it is the gradient; NULL: it is the forward one. */
static int describe_conv_2(const bti_dnnl_key *key, bti_dnnl_kind kind, const void *const md[BTI_DNNL_OPERANDS],
                           const int64_t *gaps, const void *forward, const void *attr, void **made) {
    _Alignas(16) char operation[OPERATION_BYTES] = {0};
    int status;
    if (kind == BTI_DNNL_CONV)
        status = dnnl.dilated_convolution_forward_desc_init(operation, INFERENCE, DIRECT, md[0], md[1], NULL, md[2],
                                                            key->stride, gaps, key->before, key->after);
    else if (kind == BTI_DNNL_CONV_DATA)
        status = dnnl.dilated_convolution_backward_data_desc_init(operation, DIRECT, md[0], md[1], md[2], key->stride,
                                                                  gaps, key->before, key->after);
    else
        status = dnnl.dilated_convolution_backward_weights_desc_init(operation, DIRECT, md[0], md[1], NULL, md[2],
                                                                     key->stride, gaps, key->before, key->after);
    return status ? status : dnnl.primitive_desc_create(made, operation, attr, dnnl.engine, forward);
}

static int describe_conv_3(const bti_dnnl_key *key, bti_dnnl_kind kind, const void *const md[BTI_DNNL_OPERANDS],
                           const int64_t *gaps, const void *forward, const void *attr, void **made) {
    if (kind == BTI_DNNL_CONV)
        return dnnl.convolution_forward_primitive_desc_create(made, dnnl.engine, INFERENCE, DIRECT, md[0], md[1], NULL,
                                                              md[2], key->stride, gaps, key->before, key->after, attr);
    if (kind == BTI_DNNL_CONV_DATA)
        return dnnl.convolution_backward_data_primitive_desc_create(
            made, dnnl.engine, DIRECT, md[0], md[1], md[2], key->stride, gaps, key->before, key->after, forward, attr);
    return dnnl.convolution_backward_weights_primitive_desc_create(made, dnnl.engine, DIRECT, md[0], md[1], NULL, md[2],
                                                                   key->stride, gaps, key->before, key->after, forward,
                                                                   attr);
}

/* A gradient is made beside its forward primitive. oneDNN counts the elements that a dilation leaves out. */
static int describe_conv(const bti_dnnl_primitive *p, const bti_dnnl_desc *asked, const void *attr, void **made) {
    const bti_dnnl_key *key = &p->key;
    int64_t gaps[BTI_DNNL_PLACES];
    const void *md[BTI_DNNL_OPERANDS];
    void *forward = NULL;
    int status = 0,
        (*describe_one)(const bti_dnnl_key *, bti_dnnl_kind, const void *const[BTI_DNNL_OPERANDS], const int64_t *,
                        const void *, const void *, void **) = dnnl.major == 2 ? describe_conv_2 : describe_conv_3;
    for (int i = 0; i < BTI_DNNL_PLACES; i++) gaps[i] = key->dilation[i] - 1;
    for (int i = 0; i < BTI_DNNL_OPERANDS; i++) md[i] = of(&asked[i]);
    if (key->kind != BTI_DNNL_CONV) status = describe_one(key, BTI_DNNL_CONV, md, gaps, NULL, attr, &forward);
    if (!status) status = describe_one(key, (bti_dnnl_kind)key->kind, md, gaps, forward, attr, made);
    if (forward) dnnl.primitive_desc_destroy(forward);
    return status;
}

static int describe_any(bti_dnnl_primitive *p, const void *attr) {
    bti_dnnl_desc asked[BTI_DNNL_OPERANDS] = {0};
    int status = 0;
    if (p->key.kind == BTI_DNNL_PRODUCT) return describe_product(p, attr, &p->desc);
    for (int i = 0; i < BTI_DNNL_OPERANDS && !status; i++)
        status = describe(&asked[i], &p->key.operand[i], (bti_dnnl_type)p->key.type, p->key.chooses >> i & 1);
    if (!status) status = describe_conv(p, asked, attr, &p->desc);
    for (int i = 0; i < BTI_DNNL_OPERANDS; i++) forget(&asked[i]);
    return status;
}

/* oneDNN's numbers of an operand, as what a primitive reads or as the gradient that it reads or makes. */
static int argument_of(bti_dnnl_kind kind, int operand) {
    static const int plain[] = {ARG_SRC, 33, ARG_DST}, gradient[] = {129, 161, 145};
    bool is_gradient = kind > BTI_DNNL_CONV && (operand == 2 || operand == bti_dnnl_made(kind));
    return is_gradient ? gradient[operand] : plain[operand];
}

static int make_reorder(bti_dnnl_primitive *p, int operand) {
    bool is_made = operand == bti_dnnl_made((bti_dnnl_kind)p->key.kind);
    const void *lies = of(&p->given[operand]), *chosen = p->chosen[operand];
    void *desc = NULL;
    int status = dnnl.reorder_primitive_desc_create(&desc, is_made ? chosen : lies, dnnl.engine,
                                                    is_made ? lies : chosen, dnnl.engine, NULL);
    if (!status) status = dnnl.primitive_create(&p->reorder[operand], desc);
    if (desc) dnnl.primitive_desc_destroy(desc);
    return status;
}

static int look_at_operands(bti_dnnl_primitive *p) {
    int status = 0;
    for (int i = 0; i < BTI_DNNL_OPERANDS && !status; i++) {
        p->chosen[i] =
            dnnl.primitive_desc_query_md(p->desc, QUERY_ARGUMENT, argument_of((bti_dnnl_kind)p->key.kind, i));
        if (!p->chosen[i]) return 2;
        p->bytes[i] = dnnl.memory_desc_get_size(p->chosen[i]);
        if (!dnnl.memory_desc_equal(p->chosen[i], of(&p->given[i]))) status = make_reorder(p, i);
    }
    p->scratch = dnnl.primitive_desc_query_md(p->desc, QUERY_SCRATCHPAD, 0);
    p->scratch_bytes = p->scratch ? dnnl.memory_desc_get_size(p->scratch) : 0;
    return status;
}

/* Its reference implementations take a hundred times as long. Those for AVX2 take up to 1.4 times as long where images do not lie as they wish. */
static bool is_slow(const bti_dnnl_primitive *p) {
    const char *name = NULL;
    bool is_told = p->key.kind != BTI_DNNL_PRODUCT && p->key.chooses != BTI_DNNL_ALL;
    if (dnnl.primitive_desc_query(p->desc, QUERY_NAME, 0, &name) || !name) return false;
    return !strncmp(name, "ref", 3) || (is_told && !strstr(name, "512"));
}

static int make_handle(bti_dnnl_primitive *p) {
    void *attr = NULL;
    visit v;
    if (!enter(&v, PRIMITIVE_ROOM)) return BTI_DNNL_NO_MEMORY;
    int status = 0;
    for (int i = 0; i < BTI_DNNL_OPERANDS && !status; i++)
        status = describe(&p->given[i], &p->key.operand[i], (bti_dnnl_type)p->key.type, false);
    if (!status) status = dnnl.primitive_attr_create(&attr);
    if (!status) status = dnnl.primitive_attr_set_scratchpad_mode(attr, SCRATCHPAD_USER);
    if (!status) status = describe_any(p, attr);
    if (!status && is_slow(p)) status = 3;
    if (!status) status = dnnl.primitive_create(&p->handle, p->desc);
    if (!status) status = look_at_operands(p);
    if (attr) dnnl.primitive_attr_destroy(attr);
    leave(&v);
    return status;
}

static void free_primitive(bti_lru_entry *entry) {
    bti_dnnl_primitive *p = (bti_dnnl_primitive *)entry;
    for (int i = 0; i < BTI_DNNL_OPERANDS; i++) {
        if (p->reorder[i]) dnnl.primitive_destroy(p->reorder[i]);
        forget(&p->given[i]);
    }
    if (p->handle) dnnl.primitive_destroy(p->handle);
    if (p->desc) dnnl.primitive_desc_destroy(p->desc);
    bti_free(p);
}

static bool has_key(const bti_lru_entry *entry, const void *key) {
    return !memcmp(&((const bti_dnnl_primitive *)entry)->key, key, sizeof(bti_dnnl_key));
}

BTI_STATIC_LOCK(dnnl_lock, onednn) /* protects what follows */
static bti_lru kept = {.equal = has_key, .free = free_primitive, .most_count = BTI_DNNL_PRIMITIVES};
static uint64_t found_count, made_count;

/* That there is none is kept too, but for want of memory. */
static bti_dnnl_primitive *make(const bti_dnnl_key *key, int *status) {
    bti_dnnl_primitive *p = bti_calloc(1, sizeof *p);
    *status = BTI_DNNL_NO_MEMORY;
    if (!p) return NULL;
    p->key = *key;
    bti_lru_entry_init(&p->entry);
    *status = make_handle(p);
    p->refused = *status && *status != BTI_DNNL_NO_MEMORY;
    if (!*status || p->refused) return p;
    bti_lru_release(&kept, &p->entry);
    return NULL;
}

/* --- keeping ------------------------------------------------------------------------------------------------------ */

/* A primitive is made under the lock: a second thread that needs the same one waits, and finds it. */
bti_dnnl_primitive *bti_dnnl_acquire(const bti_dnnl_key *key, int *status) {
    bti_lru_entry *evicted = NULL;
    bti_lock_take(&dnnl_lock);
    uint64_t hash = XXH3_64bits(key, sizeof *key);
    bti_dnnl_primitive *p = bti_lru_find(&kept, hash, key);
    *status = 0;
    if (p) {
        found_count++;
    } else if ((p = make(key, status))) {
        made_count++;
        evicted = bti_lru_add_evicting(&kept, &p->entry, hash, 0);
    }
    bti_lock_give(&dnnl_lock);
    bti_lru_free_evicted(&kept, evicted);
    return p;
}

void bti_dnnl_release(bti_dnnl_primitive *p) {
    bti_lock_take(&dnnl_lock);
    bti_lru_release(&kept, &p->entry);
    bti_lock_give(&dnnl_lock);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

typedef struct argument {
    int number;
    const void *desc;
    void *at;
} argument;

static int execute(const void *handle, const argument *given, int count) {
    struct {
        int number;
        void *memory;
    } arguments[BTI_DNNL_OPERANDS + 1];
    visit v;
    if (!enter(&v, PRIMITIVE_ROOM)) return BTI_DNNL_NO_MEMORY;
    int status = 0, there = 0;
    void *stream = NULL;
    while (there < count && !status) {
        arguments[there].number = given[there].number;
        status = dnnl.memory_create(&arguments[there].memory, given[there].desc, dnnl.engine, given[there].at);
        there += !status;
    }
    if (!status) status = dnnl.stream_create(&stream, dnnl.engine, STREAM_IN_ORDER);
    if (!status) status = dnnl.primitive_execute(handle, stream, there, arguments);
    if (stream) dnnl.stream_destroy(stream);
    while (there) dnnl.memory_destroy(arguments[--there].memory);
    leave(&v);
    return status;
}

int bti_dnnl_reorder(const bti_dnnl_primitive *p, int operand, void *from, void *to) {
    bool is_made = operand == bti_dnnl_made((bti_dnnl_kind)p->key.kind);
    const void *lies = of(&p->given[operand]), *chosen = p->chosen[operand];
    return execute(p->reorder[operand],
                   (argument[]){{ARG_SRC, is_made ? chosen : lies, from}, {ARG_DST, is_made ? lies : chosen, to}}, 2);
}

int bti_dnnl_run(const bti_dnnl_primitive *p, void *const operand[BTI_DNNL_OPERANDS], void *scratch) {
    argument given[BTI_DNNL_OPERANDS + 1];
    for (int i = 0; i < BTI_DNNL_OPERANDS; i++)
        given[i] = (argument){argument_of((bti_dnnl_kind)p->key.kind, i), p->chosen[i], operand[i]};
    given[BTI_DNNL_OPERANDS] = (argument){ARG_SCRATCHPAD, p->scratch, scratch};
    return execute(p->handle, given, BTI_DNNL_OPERANDS + (p->scratch_bytes > 0));
}

/* --- state -------------------------------------------------------------------------------------------------------- */

void bti_dnnl_state(bti_library_state *state, bti_primitive_counts *counts) {
    bti_product_library_state(&library, state);
    *counts = (bti_primitive_counts){0};
    bti_lock_take(&dnnl_lock);
    counts->kept += kept.count;
    counts->found = found_count, counts->made = made_count, counts->evicted = kept.evicted;
    bti_lock_give(&dnnl_lock);
}

static void drop_primitives(void) {
    bti_lock_take(&dnnl_lock);
    bti_lru_clear(&kept);
    found_count = made_count = kept.evicted = 0;
    bti_lock_give(&dnnl_lock);
}

static atomic_uint_fast64_t uses;
uint64_t bti_dnnl_uses(void) { return atomic_load(&uses); }

void bti_dnnl_use(const char *const *names) {
    atomic_fetch_add(&uses, 1);
    drop_primitives();
    if (dnnl.engine) dnnl.engine_destroy(dnnl.engine);
    dnnl.engine = NULL;
    bti_product_library_reset(&library, names ? names : usual_names);
}

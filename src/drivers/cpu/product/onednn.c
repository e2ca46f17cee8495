#include "drivers/cpu/product/onednn.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/guard.h"
#include "drivers/cpu/product/dnnl.h"

#define PRIMITIVE_ROOM ((size_t)64 << 20) /* bytes of address space that making or running one may take */

enum { A, B, C, OPERANDS };
enum { DESC_BYTES = 1024, MATMUL_BYTES = 8192 }; /* more than oneDNN 2 has */

typedef struct key {
    int64_t shape[OPERANDS][2], stride[OPERANDS][2];
} key;

typedef struct primitive {
    key made_for;
    int users; /* of those that run it, and one more while it is kept */
    uint64_t last_use;
    void *handle, *desc;
    const void *scratch; /* what oneDNN calls the descriptor of it */
    size_t scratch_bytes;
    _Alignas(16) char operand[OPERANDS][DESC_BYTES];
} primitive;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
BTI_RENEW_IN_CHILD(lock)
static primitive *kept[BTI_PRIMITIVES];
static uint64_t uses, found, made, evicted;

bool bti_has_bf16(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512bf16") && bti_has_dnnl() && bti_dnnl_.engine;
#else
    return false;
#endif
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static int make_handle(primitive *p) {
    _Alignas(16) char matmul[MATMUL_BYTES] = {0};
    void *attr = NULL;
    if (bti_guard_begin("oneDNN", PRIMITIVE_ROOM, NULL) != BT_OK) return 1; /* out of memory */
    int status = 0, threads = bti_omp_begin(&bti_dnnl_.omp);
    for (int i = 0; i < OPERANDS && !status; i++)
        status = bti_dnnl_.memory_desc_init_by_strides(p->operand[i], 2, p->made_for.shape[i], BTI_DNNL_BF16,
                                                       p->made_for.stride[i]);
    if (!status) status = bti_dnnl_.matmul_desc_init(matmul, p->operand[A], p->operand[B], NULL, p->operand[C]);
    if (!status) status = bti_dnnl_.primitive_attr_create(&attr);
    if (!status) status = bti_dnnl_.primitive_attr_set_scratchpad_mode(attr, BTI_DNNL_SCRATCHPAD_USER);
    if (!status) status = bti_dnnl_.primitive_desc_create(&p->desc, matmul, attr, bti_dnnl_.engine, NULL);
    if (!status) status = bti_dnnl_.primitive_create(&p->handle, p->desc);
    if (!status) {
        p->scratch = bti_dnnl_.primitive_desc_query_md(p->desc, BTI_DNNL_QUERY_SCRATCHPAD, 0);
        p->scratch_bytes = bti_dnnl_.memory_desc_get_size(p->scratch);
    }
    if (attr) bti_dnnl_.primitive_attr_destroy(attr);
    bti_omp_end(&bti_dnnl_.omp, threads);
    bti_guard_end();
    return status;
}

static void release(primitive *p) { /* under the lock */
    if (!p || --p->users) return;
    if (p->handle) bti_dnnl_.primitive_destroy(p->handle);
    if (p->desc) bti_dnnl_.primitive_desc_destroy(p->desc);
    bti_free(p);
}

static primitive *make(const key *k, int *status) {
    primitive *p = bti_calloc(1, sizeof *p);
    *status = 1; /* out of memory */
    if (!p) return NULL;
    p->made_for = *k, p->users = 1;
    *status = make_handle(p);
    if (!*status) return p;
    release(p);
    return NULL;
}

/* --- keeping ------------------------------------------------------------------------------------------------------ */

static primitive *find(const key *k) {
    for (int i = 0; i < BTI_PRIMITIVES; i++)
        if (kept[i] && !memcmp(&kept[i]->made_for, k, sizeof *k)) return kept[i];
    return NULL;
}

static void keep(primitive *p) {
    int slot = 0;
    for (int i = 0; i < BTI_PRIMITIVES && kept[slot]; i++)
        if (!kept[i] || kept[i]->last_use < kept[slot]->last_use) slot = i;
    evicted += kept[slot] != NULL;
    release(kept[slot]);
    kept[slot] = p;
    p->users++;
}

/* Made under the lock: who wants the same waits, and finds it. */
static primitive *get(const key *k, int *status) {
    pthread_mutex_lock(&lock);
    primitive *p = find(k);
    *status = 0;
    if (p) {
        p->users++, found++;
    } else if ((p = make(k, status))) {
        made++;
        keep(p);
    }
    if (p) p->last_use = ++uses;
    pthread_mutex_unlock(&lock);
    return p;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int run(const primitive *p, char *const at[OPERANDS], void *scratch) {
    static const int numbers[] = {1, 33, 17, 80}; /* DNNL_ARG_SRC, _WEIGHTS, _DST, _SCRATCHPAD */
    struct argument {
        int number;
        void *memory;
    } arguments[OPERANDS + 1];
    if (bti_guard_begin("oneDNN", PRIMITIVE_ROOM, NULL) != BT_OK) return 1; /* out of memory */
    int status = 0, count = 0, threads = bti_omp_begin(&bti_dnnl_.omp);
    void *stream = NULL;
    for (int i = 0; i <= OPERANDS && !status; i++) {
        if (i == OPERANDS && !p->scratch_bytes) continue;
        arguments[count].number = numbers[i];
        status = bti_dnnl_.memory_create(&arguments[count].memory, i < OPERANDS ? p->operand[i] : p->scratch,
                                         bti_dnnl_.engine, i < OPERANDS ? at[i] : scratch);
        count += !status;
    }
    if (!status) status = bti_dnnl_.stream_create(&stream, bti_dnnl_.engine, BTI_DNNL_STREAM_IN_ORDER);
    if (!status) status = bti_dnnl_.primitive_execute(p->handle, stream, count, arguments);
    if (stream) bti_dnnl_.stream_destroy(stream);
    while (count) bti_dnnl_.memory_destroy(arguments[--count].memory);
    bti_omp_end(&bti_dnnl_.omp, threads);
    bti_guard_end();
    return status;
}

static void set_operand(key *k, int operand, const bti_blas_matrix *matrix, int64_t rows, int64_t columns) {
    k->shape[operand][0] = rows, k->shape[operand][1] = columns;
    k->stride[operand][0] = matrix->transposed ? 1 : matrix->leading;
    k->stride[operand][1] = matrix->transposed ? matrix->leading : 1;
}

bt_status bti_bf16_gemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                        const bti_blas_matrix *c) {
    key wanted;
    set_operand(&wanted, A, a, m, k);
    set_operand(&wanted, B, b, k, n);
    set_operand(&wanted, C, c, m, n);
    int status;
    primitive *p = get(&wanted, &status);
    if (p) {
        void *scratch = bti_alloc_aligned(64, p->scratch_bytes);
        status = scratch ? run(p, (char *const[]){a->at, b->at, c->at}, scratch) : 1;
        bti_free(scratch);
        pthread_mutex_lock(&lock);
        release(p);
        pthread_mutex_unlock(&lock);
    }
    if (!status) return BT_OK;
    return bti_fail(status == 1 ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL,
                    "oneDNN refuses a bfloat16 product of %lld x %lld x %lld (its status is %d)", (long long)m,
                    (long long)k, (long long)n, status);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

void bti_primitives_look(bti_product_state *state) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BTI_PRIMITIVES; i++) state->primitives += kept[i] != NULL;
    state->found = found, state->made = made, state->evicted = evicted;
    pthread_mutex_unlock(&lock);
}

void bti_primitives_drop(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BTI_PRIMITIVES; i++) release(kept[i]), kept[i] = NULL;
    found = made = evicted = 0;
    pthread_mutex_unlock(&lock);
}

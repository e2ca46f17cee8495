/* oneDNN's entries, as product_library.c finds them. */
#ifndef BTI_DRIVERS_PRODUCT_DNNL_H
#define BTI_DRIVERS_PRODUCT_DNNL_H

#include <stddef.h>
#include <stdint.h>

typedef struct bti_dnnl_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} bti_dnnl_version;

/* oneDNN's enums. */
enum {
    BTI_DNNL_BF16 = 2,
    BTI_DNNL_CPU = 1,
    BTI_DNNL_STREAM_IN_ORDER = 1,
    BTI_DNNL_SCRATCHPAD_USER = 1,
    BTI_DNNL_QUERY_SCRATCHPAD = 136,
    BTI_DNNL_RUNTIME_SEQUENTIAL = 1,
    BTI_DNNL_RUNTIME_OMP = 2
};

/* An int result is a status, 0 for success; handles are pointers. Primitives are those of version 2: 3 makes them
 * otherwise. */
#define BTI_DNNL_ENTRIES(ENTRY)                                                                                   \
    ENTRY(const bti_dnnl_version *, version, (void))                                                              \
    ENTRY(int, sgemm,                                                                                             \
          (char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, \
           const float *b, int64_t ldb, float beta, float *c, int64_t ldc))
#define BTI_DNNL_PRIMITIVE_ENTRIES(ENTRY)                                                                            \
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

/* The OpenMP that a library runs on: NULLs when it runs on none. */
typedef struct bti_omp {
    int (*get_max_threads)(void);
    void (*set_num_threads)(int threads);
} bti_omp;

/* Around each call: the calling thread's next team is itself alone; what the program had set comes back afterwards. */
static inline int bti_omp_begin(const bti_omp *omp) {
    int threads = omp->get_max_threads ? omp->get_max_threads() : 1;
    if (threads != 1) omp->set_num_threads(1);
    return threads;
}
static inline void bti_omp_end(const bti_omp *omp, int threads) {
    if (threads != 1) omp->set_num_threads(threads);
}

#define BTI_DNNL_FIELD(result, name, arguments) result(*name) arguments;
typedef struct bti_dnnl {
    BTI_DNNL_ENTRIES(BTI_DNNL_FIELD)
    BTI_DNNL_PRIMITIVE_ENTRIES(BTI_DNNL_FIELD)
    void *engine; /* NULL: no primitives */
    bti_omp omp;
} bti_dnnl;

extern bti_dnnl bti_dnnl_; /* stands still once it is open */

#endif

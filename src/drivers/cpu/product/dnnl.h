/* Primitives of oneDNN, of its versions 2 and 3, on the calling thread. A primitive is made for given shapes and kept; those used longest ago go. It takes an operand
 * as it lies, or, where it chose another layout, a copy that bti_dnnl_reorder makes.
 *
 * Calls of oneDNN fail with its statuses: 0 is success, 1 says that memory is short. Any thread. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_DNNL_H
#define BTI_DRIVERS_CPU_PRODUCT_DNNL_H

#include "base/lru.h"
#include "drivers/cpu/product/library.h"

enum { BTI_DNNL_NO_MEMORY = 1, BTI_DNNL_AXES = 6, BTI_DNNL_OPERANDS = 3, BTI_DNNL_PLACES = 3, BTI_DNNL_ALL = 7 };

/* oneDNN's numbers of element types. */
typedef enum bti_dnnl_type { BTI_DNNL_BF16 = 2, BTI_DNNL_F32 = 3 } bti_dnnl_type;
/* Operands of a product are a, b and c; of convolutions x, w and y: the last is made of the others, or x, or w. */
typedef enum bti_dnnl_kind { BTI_DNNL_PRODUCT, BTI_DNNL_CONV, BTI_DNNL_CONV_DATA, BTI_DNNL_CONV_WEIGHTS } bti_dnnl_kind;

typedef struct bti_dnnl_tensor {
    int64_t rank, shape[BTI_DNNL_AXES], stride[BTI_DNNL_AXES]; /* strides count elements; unused ones 0 */
} bti_dnnl_tensor;

/* What a primitive is made for. Keys are compared byte by byte. */
typedef struct bti_dnnl_key {
    int64_t kind, type;
    int64_t
        chooses; /* bit i: the primitive chooses the layout of operand i of a convolution. Where it is not to choose all, it is refused if it is slower for that */
    bti_dnnl_tensor operand[BTI_DNNL_OPERANDS];
    /* of a convolution: by axis of places, as many as x has; after: elements behind x that count as 0 */
    int64_t stride[BTI_DNNL_PLACES], dilation[BTI_DNNL_PLACES], before[BTI_DNNL_PLACES], after[BTI_DNNL_PLACES];
} bti_dnnl_key;

/* A memory descriptor: version 2 has a struct of the caller's, version 3 a handle. */
typedef struct bti_dnnl_desc {
    _Alignas(16) char value[1024]; /* more than oneDNN 2 has */
    void *handle;
} bti_dnnl_desc;

typedef struct bti_dnnl_primitive {
    bti_lru_entry entry; /* first */
    bti_dnnl_key key;
    void *handle, *desc;
    bool refused; /* oneDNN has none, or none that is fast */
    bti_dnnl_desc given[BTI_DNNL_OPERANDS];
    const void *chosen[BTI_DNNL_OPERANDS]; /* as the primitive takes or makes it */
    void *reorder[BTI_DNNL_OPERANDS];      /* into the chosen layout, or out of it; NULL: as it lies */
    size_t bytes[BTI_DNNL_OPERANDS];       /* in the chosen layout */
    const void *scratch;
    size_t scratch_bytes;
} bti_dnnl_primitive;

/* Whether the library is available, and has primitives on this CPU; the first call opens it. */
bool bti_dnnl_open(void);
bool bti_dnnl_has_primitives(void);

/* The primitive for a key, to be released; NULL: *status. It may have been refused. */
bti_dnnl_primitive *bti_dnnl_acquire(const bti_dnnl_key *key, int *status);
void bti_dnnl_release(bti_dnnl_primitive *p);
/* From one layout into the other of an operand whose `reorder` is there: an input into the chosen one, what is made out of it. */
int bti_dnnl_reorder(const bti_dnnl_primitive *p, int operand, void *from, void *to);
/* scratch: scratch_bytes, aligned to 64. */
int bti_dnnl_run(const bti_dnnl_primitive *p, void *const operand[BTI_DNNL_OPERANDS], void *scratch);
/* Which operand it makes. */
static inline int bti_dnnl_made(bti_dnnl_kind kind) {
    return kind == BTI_DNNL_CONV_DATA ? 0 : kind == BTI_DNNL_CONV_WEIGHTS ? 1 : 2;
}

/* sgemm, by oneDNN's numbers of BLAS. */
int bti_dnnl_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                   const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* c = a x b of uint8 or int8 and int8, in int32, by the same numbers. */
int bti_dnnl_bytes_gemm(bool is_unsigned, char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, const void *a,
                        int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc);

/* How often bti_dnnl_use was called: primitives from before may have taken other layouts. */
uint64_t bti_dnnl_uses(void);

#define BTI_DNNL_PRIMITIVES 128 /* kept at most */
typedef struct bti_primitive_counts {
    uint64_t kept, found, made, evicted; /* kept now; calls that found one; made so far; evicted so far */
} bti_primitive_counts;
void bti_dnnl_state(bti_library_state *state, bti_primitive_counts *counts);
/* bti_product_library_reset; NULL: the usual names. Frees all primitives and sets their counts to 0. */
void bti_dnnl_use(const char *const *names);

#endif

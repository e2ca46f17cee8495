/* The libraries that large products are left to, opened when a product first needs one: oneDNN for float32 and bfloat16,
 * OpenBLAS for float64. They run on the calling thread alone: what is cut over cores is cut above. Any thread. */
#ifndef BTI_DRIVERS_PRODUCT_LIBRARY_H
#define BTI_DRIVERS_PRODUCT_LIBRARY_H

#include "drivers/cpu/product/tile.h"

/* A matrix as these libraries take it: rows (or, transposed, columns) of unit stride, `leading` elements apart. */
typedef struct bti_blas_matrix {
    char *at;
    bool transposed;
    int64_t leading;
} bti_blas_matrix;

/* Whether the library is there; the first call opens it. */
bool bti_has_dnnl(void);
bool bti_has_openblas(void);

/* c (+)= a x b; m, n, k at least 1; c is not transposed. The library must be there. */
bt_status bti_sgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                    const bti_blas_matrix *c, bool add);
/* All sizes below 2^31. */
bt_status bti_dgemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                    const bti_blas_matrix *c);

/* Whether oneDNN and this CPU multiply bfloat16 by instructions of their own. */
bool bti_has_bf16(void);
/* The same of bfloat16, rounded once, by a primitive that is made for the sizes and kept; the 64 used last are. */
bt_status bti_bf16_gemm(int64_t m, int64_t n, int64_t k, const bti_blas_matrix *a, const bti_blas_matrix *b,
                        const bti_blas_matrix *c);

typedef struct bti_library_state {
    bool opened;
    char library[96]; /* "libdnnl.so.2" */
    char version[32]; /* "2.6.3" */
    uint64_t open_ns; /* what opening took */
    char reason[600]; /* why it is not there, cut to fit; "" when it is or was not needed yet */
} bti_library_state;
typedef struct bti_product_state {
    bti_library_state dnnl, openblas;
    uint64_t primitives, found, made, evicted; /* kept now; calls that found one; made so far; given up for others */
} bti_product_state;

/* How things stand. `attempt`: opens both. */
void bti_product_look(bti_product_state *state, bool attempt);

/* For tests: closes nothing, forgets what is open, and tries these from now on (a NULL ends them; NULL alone: the usual
 * ones). No product may be running. */
void bti_product_use(const char *const *dnnl, const char *const *openblas);

#endif

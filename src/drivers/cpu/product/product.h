/* Matrix products: by a library (onednn.h, openblas.h), or by our own loops (tile.h) where they are faster or no library is
 * available. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_PRODUCT_H
#define BTI_DRIVERS_CPU_PRODUCT_PRODUCT_H

#include "drivers/cpu/product/onednn.h"
#include "ir/work.h"

/* BTI_OP_matmul of any dtype, strides and batches, on the cores. The way that is chosen and the tiles, and so the bits, depend on the
 * shape, the dtype, the CPU and the libraries that are installed, never on the number of cores. float16 and bfloat16 are summed in
 * float32 and rounded once; integers wrap around. Of int8 and uint8 with an output of int32 the products and sums are int32. RESOURCE_EXHAUSTED: no memory for scratch. */
bt_status bti_product(const bti_work *work);

typedef struct bti_product_state {
    bti_library_state onednn, openblas;
    bti_primitive_counts primitives; /* of oneDNN */
} bti_product_state;

/* The state of the libraries. `attempt`: opens both first. */
void bti_product_look(bti_product_state *state, bool attempt);

/* For tests: bti_dnnl_use and bti_openblas_use. */
void bti_product_use(const char *const *onednn, const char *const *openblas);

#endif

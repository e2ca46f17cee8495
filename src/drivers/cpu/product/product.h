/* Products of matrices: by a library where one is there, by our own loops where they are faster or nothing else is. */
#ifndef BTI_DRIVERS_PRODUCT_H
#define BTI_DRIVERS_PRODUCT_H

#include "ir/work.h"

/* BTI_OP_matmul of any dtype, strides and batches, over the cores. The way it goes and where it is cut depend on the shape, the
 * dtype, the CPU and the libraries that are there, never on how many cores there are: so do its bits. float16 and bfloat16 are
 * summed up in float32 and rounded once, integers wrap. RESOURCE_EXHAUSTED: no memory for scratch. */
bt_status bti_product(const bti_work *work);

#endif

/* Batches of what is recorded already: the engine of bt_vmap, and of Jacobians, which are batches of unit vectors. */
#ifndef BTI_TRANSFORM_BATCH_H
#define BTI_TRANSFORM_BATCH_H

#include "array/handle.h"

/* What ys[i] becomes when leaves[k], which are inputs of functions (symbolic), become `size` of them, stacked along a new first axis in
 * images[k]: stacked in the same way; NULL where it does not depend on the leaves. */
bt_status bti_batch(bt_array *const *ys, int y_count, bt_array *const *leaves, bt_array *const *images, int leaf_count,
                    int64_t size, bt_array **made);

#endif

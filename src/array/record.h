/* What the recorders of primitives (build*.c) stand on. */
#ifndef BTI_ARRAY_RECORD_H
#define BTI_ARRAY_RECORD_H

#include "array/handle.h"

/* Records one node of the innermost scope: poison passes through, its bytes must be countable, its device is chosen, and its
 * place is the running public call's. shape, attr: copied. */
bt_array *bti_record(bti_op op, bt_dtype dtype, bool weak, int rank, const int64_t *shape, bt_array *const *inputs,
                     int count, const int64_t *attr, int attr_count);
/* Poison when dtype or shape cannot be an array's; NULL when they can. unknown_allowed: sizes may be -1. */
bt_array *bti_check_shape(bt_dtype dtype, bt_shape shape, bool unknown_allowed);
/* The node itself when it has the dtype, is strong and on the device; else recorded anew: cast, copied there. Retained; NULL when
 * memory is short. */
bti_node *bti_node_fit(bti_node *node, bt_dtype dtype, int device);
/* The two arrays change their nodes. */
void bti_array_swap(bt_array *a, bt_array *b);

#endif

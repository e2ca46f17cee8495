/* One recorded operation; and arrays made from the host's data. */
#ifndef BTI_ARRAY_RECORD_H
#define BTI_ARRAY_RECORD_H

#include "array/handle.h"

/* Records one node of the innermost scope: poison passes through, its bytes must be countable, its device is chosen, and its
 * place is the running public call's. shape, attr: copied. */
bt_array *bti_record(bti_op op, bt_dtype dtype, bool weak, int rank, const int64_t *shape, bt_array *const *inputs,
                     int count, const int64_t *attr, int attr_count);
/* Poison when dtype or shape cannot be an array's; NULL when they can. unknown_allowed: sizes may be -1. */
bt_array *bti_check_shape(bt_dtype dtype, bt_shape shape, bool unknown_allowed);

#endif

/* What was wrong with values, found out afterwards. */
#ifndef BTI_OPS_CHECK_H
#define BTI_OPS_CHECK_H

#include "array/handle.h"
#include "base/str.h"

/* Whether the operation takes elements by index, or losses by class, and gives NaN for those that there are not. */
bool bti_takes_by_index(const bti_node *node);
/* Of such an operation: says which of its indices is the first that there is not. Adds nothing when all are in range. Computes them, and waits. */
bt_status bti_add_index_fault(bti_str *text, const bti_node *node);
/* OUT_OF_RANGE: among all that x was made of is an operation with an index, or a class, that there is not; names the first recorded one, its line, the index
 * and the bounds. Computes indices, and nothing else, and waits. Those of loops and branches are not looked at. */
bt_status bti_check_indices(bt_array *x);
/* Adds "nan at [1, 2] of float32 (16, 4)", of the first one; nothing if x has none. Computes x, and waits. */
bt_status bti_add_nan(bti_str *text, bt_array *x);

#endif

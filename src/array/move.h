/* Arrays on other devices: moves that are recorded. */
#ifndef BTI_ARRAY_MOVE_H
#define BTI_ARRAY_MOVE_H

#include "array/handle.h"

/* x, a batch or its labels, on a device that work is meant to go to: moved there, unless a block puts work elsewhere, or it
 * goes there anyway. */
bt_array *bti_bring(bt_array *x, int device);
/* x on a device of the registry, committed: x itself when it is that already; a view of x when it is there uncommitted; else a
 * copy. Recorded now; x stays as it was. */
bt_array *bti_move(bt_array *x, int device, bool softened);
/* Whether the program asked for inputs from other devices: by such a copy or view, or by a collective, whose results lie on several. */
bool bti_may_cross(const bti_node *node);
/* The node itself when it has the dtype, is strong and on the device; else recorded anew: cast, copied there. Retained; NULL when
 * memory is short. */
bti_node *bti_node_fit(bti_node *node, bt_dtype dtype, int device);

#endif

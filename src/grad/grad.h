/* Gradients for folders above. */
#ifndef BTI_GRAD_GRAD_H
#define BTI_GRAD_GRAD_H

#include <berth/grad.h>

#include "ir/node.h"

/* bt_grad_shared and bt_grad in one walk: grads[] has the gradients by the variables, then those by the arrays. flows[] (or NULL): whether a gradient comes to
 * each of the variables; else it is zero whatever the values are. */
bt_status bti_grad_both(bt_array *loss, bt_shared *const *shared, int shared_count, bt_array *const *arrays, int count,
                        bt_array **grads, bool *flows);
/* Of the operations that let no gradient pass, and stand between the variables and the loss, the first recorded one: retained. NULL: there is none, since
 * the loss was not computed from them. */
bt_status bti_find_gradient_end(bt_array *loss, bt_shared *const *wrt, int count, bti_node **end);

#endif

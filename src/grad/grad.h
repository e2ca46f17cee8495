/* Gradients for folders above. */
#ifndef BTI_GRAD_GRAD_H
#define BTI_GRAD_GRAD_H

#include <berth/grad.h>

/* bt_grad_shared and bt_grad in one walk: grads[] has the gradients by the variables, then those by the arrays. */
bt_status bti_grad_both(bt_array *loss, bt_shared *const *shared, int shared_count, bt_array *const *arrays, int count,
                        bt_array **grads);

#endif

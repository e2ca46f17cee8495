/* The loss of a model and its gradients, for steps that are written by hand. */
#include <berth/dist.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/error.h"

bt_array *bt_with_gradient(bt_layer *model, bt_model_loss *loss, void *data, bt_array *x, bt_array *y,
                           bt_array **grads) {
    if (bti_handle_check(BTI_OWNED_LAYER, model, "bt_with_gradient") != BT_OK) return bti_poison(bti_error_last());
    int count = bt_parameters(model, NULL, 0);
    if (!loss || (count && !grads))
        return bti_poisonf(BT_INVALID_ARGUMENT, "bt_with_gradient: the %s is NULL",
                           loss ? "list of gradients" : "loss");
    bt_shared **parameters = bti_alloc(((size_t)count + 1) * sizeof(bt_shared *));
    if (!parameters) return bti_array_new(NULL);
    (void)bt_parameters(model, parameters, count);
    bt_array *value = NULL;
    BT_SCOPE {
        value = bt_keep(loss(model, x, y, data));
        (void)bt_grad_shared(value, parameters, count, grads); /* they carry the cause when there are none */
        for (int p = 0; p < count; p++) (void)bt_keep(grads[p]);
    }
    bti_free(parameters);
    return value ? value : bti_poisonf(BT_INVALID_ARGUMENT, "bt_with_gradient: the loss gave NULL");
}

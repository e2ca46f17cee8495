/* Hooks on outputs and on gradients. */
#include "base/error.h"
#include "nn/layer.h"

bt_status bt_layer_hook(bt_layer *layer, bt_layer_hook_fn *fn, void *data) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_hook"));
    layer->hook = fn;
    layer->hook_data = data;
    return BT_OK;
}

bt_status bt_layer_gradient_hook(bt_layer *layer, bt_gradient_hook_fn *fn, void *data) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_gradient_hook"));
    layer->gradient_hook = fn;
    layer->gradient_hook_data = data;
    return BT_OK;
}

bool bti_has_gradient_hooks(const bt_layer *layer) {
    if (layer->gradient_hook) return true;
    for (int i = 0; i < layer->child_count; i++)
        if (bti_has_gradient_hooks(layer->children[i])) return true;
    return false;
}

/* Innermost layers first; a layer that is used several times is asked once, at its first place. True: the parameter is in it. */
static bool hook_gradient(bt_layer *layer, const bt_shared *parameter, bt_array **gradient) {
    bool inside = false;
    for (int i = 0; i < layer->variable_count[BTI_PARAMETERS] && !inside; i++)
        inside = layer->variables[BTI_PARAMETERS][i].shared == parameter;
    for (int i = 0; i < layer->child_count && !inside; i++)
        inside = hook_gradient(layer->children[i], parameter, gradient);
    if (!inside || !layer->gradient_hook) return inside;
    bt_array *other = layer->gradient_hook(layer, bt_shared_name(parameter), *gradient, layer->gradient_hook_data);
    if (other) *gradient = other;
    return true;
}

bt_array *bti_hooked_gradient(bt_layer *model, const bt_shared *parameter, bt_array *gradient) {
    (void)hook_gradient(model, parameter, &gradient);
    return gradient;
}

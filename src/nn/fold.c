/* Batch norms become parts of the layers before them, for inference. */
#include <stdlib.h>
#include <string.h>

#include "function/shared.h"
#include "nn/layer.h"

static const char *option_of(const bt_layer *layer, const char *name) {
    const bti_layer_option *options;
    int count = bti_layer_options(layer, &options);
    for (int i = 0; i < count; i++)
        if (!strcmp(options[i].name, name)) return options[i].value;
    return "";
}

static bool option_is(const bt_layer *layer, const char *name, const char *value) {
    return !strcmp(option_of(layer, name), value);
}

/* The axis of the weight's outputs; -1: a norm cannot become a part of the layer. */
static int output_axis(const bt_layer *layer) {
    if (!option_is(layer, "activation", "") && !option_is(layer, "activation", "identity")) return -1;
    if (!strcmp(layer->name, "Conv")) return 0;
    if (!strcmp(layer->name, "Dense")) return 1;
    bool grouped = !option_is(layer, "groups", "0") && !option_is(layer, "groups", "1");
    return !strcmp(layer->name, "ConvTranspose") && !grouped ? 1 : -1;
}

static bt_array *value_of(const bt_layer *layer, bti_variables kind, const char *name) {
    for (int i = 0; i < layer->variable_count[kind]; i++)
        if (!strcmp(layer->variables[kind][i].name, name)) return bt_value(layer->variables[kind][i].shared);
    return NULL;
}

static bool can_join(const bt_layer *first, const bt_layer *second) {
    if (strcmp(second->name, "BatchNorm") || !option_is(second, "tracking", "true") || first->hook || second->hook)
        return false;
    int axis = output_axis(first);
    bt_array *weight = axis < 0 ? NULL : value_of(first, BTI_PARAMETERS, "weight");
    bt_array *mean = value_of(second, BTI_STATES, "running_mean");
    return weight && mean && bt_size(weight, axis) == bt_size(mean, 0);
}

/* The same layer with a bias, of zeros. */
static bt_layer *with_bias(const bt_layer *layer) {
    const bti_layer_option *options;
    int count = bti_layer_options(layer, &options);
    bti_layer_option own[32];
    if (count > (int)(sizeof own / sizeof *own)) return NULL;
    for (int i = 0; i < count; i++)
        own[i] = strcmp(options[i].name, "bias") ? options[i] : (bti_layer_option){"bias", "true"};
    bti_layer_plan plan = {.record = {.size = sizeof plan.record, .name = layer->name},
                           .options = own,
                           .option_count = count,
                           .most_elements = INT64_MAX};
    return bti_layer_again(&plan);
}

static bt_status set_variable(bt_layer *layer, const char *name, bt_array *value) {
    for (int i = 0; i < layer->variable_count[BTI_PARAMETERS]; i++) {
        if (strcmp(layer->variables[BTI_PARAMETERS][i].name, name)) continue;
        bt_shared *variable = bt_shared_new(value, NULL);
        BTI_TRY(bt_shared_status(variable));
        bti_layer_set_variable(layer, BTI_PARAMETERS, i, variable);
        return BT_OK;
    }
    return bti_fail(BT_INTERNAL, "layer %s has no %s", layer->name, name);
}

/* s = weight / sqrt(var + eps): the layer's outputs times s, plus bias - mean * s. */
static bt_status set_folded(bt_layer *joined, const bt_layer *first, const bt_layer *norm) {
    bt_array *weight = value_of(first, BTI_PARAMETERS, "weight"), *bias = value_of(first, BTI_PARAMETERS, "bias");
    bt_array *scale = value_of(norm, BTI_PARAMETERS, "weight"), *shift = value_of(norm, BTI_PARAMETERS, "bias");
    bt_array *mean = value_of(norm, BTI_STATES, "running_mean");
    bt_array *s =
        bt_rsqrt(bt_add(value_of(norm, BTI_STATES, "running_var"), bt_num(strtod(option_of(norm, "eps"), NULL))));
    if (scale) s = bt_mul(s, scale);
    bt_array *offset = bt_mul(bt_sub(bias ? bias : bt_zeros_like(mean), mean), s);
    if (shift) offset = bt_add(offset, shift);
    int axis = output_axis(first);
    bt_shape across = {.rank = bt_rank(weight)};
    for (int i = 0; i < across.rank; i++) across.size[i] = i == axis ? bt_size(s, 0) : 1;
    bt_dtype dtype = bt_dtype_of(weight);
    BTI_TRY(set_variable(joined, "weight", bt_cast(bt_mul(weight, bt_reshape_to(s, across)), dtype)));
    return set_variable(joined, "bias", bt_cast(offset, dtype));
}

static bool join_norm(const bt_layer *first, const bt_layer *second, bt_layer **joined) {
    *joined = NULL;
    BT_SCOPE {
        if (can_join(first, second)) {
            bt_layer *made = NULL;
            BT_ON(bt_device_long_name(bt_device_of(value_of(first, BTI_PARAMETERS, "weight")))) made = with_bias(first);
            if (made && bt_layer_status(made) == BT_OK && set_folded(made, first, second) == BT_OK)
                *joined = bt_layer_retain(made);
        }
    }
    return *joined;
}

static bt_array *unchanged(bt_array *value, void *unused) {
    (void)unused;
    return value;
}

bt_layer *bt_fold_norms(const bt_layer *model) {
    BTI_CALL("bt_fold_norms");
    if (bti_handle_check(BTI_OWNED_LAYER, model, "bt_fold_norms") != BT_OK) return bti_layer_own(NULL);
    bt_layer *copy = bti_layer_map(unchanged, NULL, join_norm, model);
    if (bt_layer_status(copy) == BT_OK && bti_layer_name_variables(copy) != BT_OK) return bti_layer_own(NULL);
    return copy;
}

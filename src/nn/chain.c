/* Layers of layers: chains, parallel layers, skip connections. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/layer.h"

/* --- chains -------------------------------------------------------------------------------------------------------------- */

static bt_array *apply_chain(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    for (int i = 0; i < layer->child_count; i++) x = bti_apply_child(layer, i, x);
    return x;
}

bt_layer *bt_chain_of(bt_layer *const *layers, int count) {
    BTI_CALL("bt_chain");
    return bt_layer_new("Chain", apply_chain, BT_LAYER(.list = layers, .list_count = count));
}

/* --- combiners ----------------------------------------------------------------------------------------------------------- */

static bt_array *check_parts(bt_array *const *parts, int count) {
    if (parts && count > 0) return bti_poisoned_by(parts, count);
    return bti_poisonf(BT_INVALID_ARGUMENT, parts ? "there are %d parts; one or more are needed" : "the parts are NULL",
                       count);
}

bt_array *bt_combine_sum(bt_array *const *parts, int count) {
    BTI_PUBLIC("bt_combine_sum");
    bt_array *sum = check_parts(parts, count);
    if (sum) BTI_RETURN(sum);
    sum = parts[0];
    for (int i = 1; i < count; i++) sum = bt_add(sum, parts[i]);
    BTI_RETURN(count > 1 ? sum : bt_identity(sum));
}

bt_array *bt_combine_concat(bt_array *const *parts, int count) {
    BTI_PUBLIC("bt_combine_concat");
    bt_array *poison = check_parts(parts, count);
    BTI_RETURN(poison ? poison : bt_concat(parts, count, 1));
}

/* --- parallel layers ------------------------------------------------------------------------------------------------------ */

typedef struct combiner_settings {
    bt_combiner *combine;
} combiner_settings;

static bt_layer *combining(const char *name, bt_forward_all *forward, bt_combiner *combine, bt_layer *const *layers,
                           int count) {
    void *copy = bti_layer_settings(&(combiner_settings){combine}, sizeof(combiner_settings));
    if (!copy) return bti_no_settings();
    const char *noted = "function", *text = "(function)";
    if (combine == bt_combine_sum) noted = "sum", text = "(+)";
    if (combine == bt_combine_concat) noted = "concat", text = "(concat)";
    bt_layer *layer = bt_layer_new(name, NULL,
                                   BT_LAYER(.data = copy, .free_data = bti_free, .text = text, .forward_all = forward,
                                            .list = layers, .list_count = count));
    return bti_layer_note(layer, "combine", "%s", noted);
}

static bt_status check_one_output(const bt_layer *layer, int output_count) {
    BTI_CALL("bt_apply_all");
    if (output_count == 1) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "layer %s has 1 output, not %d", layer->name, output_count);
}

static bt_status apply_parallel(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                                int output_count, void *data) {
    BTI_TRY(check_one_output(layer, output_count));
    int count = layer->child_count;
    if (input_count != 1 && input_count != count) {
        BTI_CALL("bt_apply_all");
        return bti_fail(BT_INVALID_ARGUMENT, "layer Parallel has 1 input for all or %d, one for each layer, not %d",
                        count, input_count);
    }
    bt_array **parts = bti_alloc((size_t)count * sizeof *parts);
    if (!parts) return bti_no_memory();
    for (int i = 0; i < count; i++) parts[i] = bt_apply(layer->children[i], inputs[input_count == 1 ? 0 : i]);
    outputs[0] = ((const combiner_settings *)data)->combine(parts, count);
    bti_free(parts);
    return BT_OK;
}

bt_layer *bt_parallel_of(bt_combiner *combine, bt_layer *const *layers, int count) {
    BTI_CALL("bt_parallel");
    if (combine && count > 0) return combining("Parallel", apply_parallel, combine, layers, count);
    (void)!bti_fail(BT_INVALID_ARGUMENT,
                    combine ? "there are %d layers; one or more are needed" : "the combiner is NULL", count);
    return bti_layer_own(NULL);
}

static bt_status apply_skip(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                            int output_count, void *data) {
    BTI_TRY(check_one_output(layer, output_count));
    if (input_count != 1) return bti_fail(BT_INVALID_ARGUMENT, "layer SkipConnection has 1 input, not %d", input_count);
    bt_array *parts[2] = {bt_apply(layer->children[0], inputs[0]), inputs[0]};
    outputs[0] = ((const combiner_settings *)data)->combine(parts, 2);
    return BT_OK;
}

bt_layer *bt_skip(bt_layer *layer, bt_combiner *combine) {
    BTI_CALL("bt_skip");
    return combining("SkipConnection", apply_skip, combine ? combine : bt_combine_sum, &layer, 1);
}

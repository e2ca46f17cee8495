/* Layers as objects: made, owned, applied. */
#include "nn/layer.h"

#include <stdarg.h>
#include <stdio.h>

#include "array/place.h"
#include "base/alloc.h"
#include "base/str.h"
#include "ops/primitive.h"

bt_layer *bti_layer_bare(const char *name, const char *text, bt_forward *forward, bt_forward_all *forward_all) {
    bt_layer *layer = bti_owned_new(BTI_OWNED_LAYER, sizeof *layer);
    if (!layer) return (void)bti_no_memory(), NULL;
    layer->forward = forward;
    layer->forward_all = forward_all;
    layer->name = bti_strdup(name);
    layer->text = text ? bti_strdup(text) : NULL;
    if (layer->name && (layer->text || !text)) return layer;
    bt_layer_release(layer);
    return (void)bti_no_memory(), NULL;
}

static void release_data(bti_layer_data *data) {
    if (!data || atomic_fetch_sub(&data->refs, 1) != 1) return;
    if (data->free) data->free(data->data);
    bti_free(data);
}

static void clear_layer(void *object) {
    bt_layer *layer = object;
    for (int i = 0; i < layer->child_count; i++) {
        bt_layer_release(layer->children[i]);
        bti_free(layer->child_names[i]);
    }
    for (int kind = 0; kind < BTI_VARIABLES; kind++) {
        for (int i = 0; i < layer->variable_count[kind]; i++) {
            bt_shared_release(layer->variables[kind][i].shared);
            bti_free(layer->variables[kind][i].name);
        }
        bti_free(layer->variables[kind]);
    }
    for (int i = 0; i < layer->option_count; i++) bti_free(layer->options[i].value);
    bti_free(layer->options);
    bti_free(layer->children);
    bti_free(layer->child_names);
    bti_free(layer->name);
    bti_free(layer->text);
    release_data(layer->data);
}

static bt_layer layer_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class layer_class = {BTI_OWNED_LAYER, sizeof(bt_layer), clear_layer, &layer_without_memory};

bt_layer *bti_layer_own(bt_layer *layer) { return bti_scope_own(&layer_class, layer); }
bt_layer *bt_layer_retain(bt_layer *layer) { return bti_handle_retain(&layer_class, layer, "bt_layer_retain"); }
void bt_layer_release(bt_layer *layer) { bti_handle_release(&layer_class, layer, "bt_layer_release"); }
bt_status bt_layer_status(const bt_layer *layer) { return bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_status"); }

/* --- its parts -------------------------------------------------------------------------------------------------------- */

/* Room for one item more; NULL when memory is short. */
static void *longer_list(void *list, int count, size_t bytes) { return bti_realloc(list, ((size_t)count + 1) * bytes); }

bool bti_layer_add_variable(bt_layer *layer, bti_variables kind, const char *name, bt_shared *shared) {
    int *count = &layer->variable_count[kind];
    bti_layer_variable *list = longer_list(layer->variables[kind], *count, sizeof *list);
    if (list) layer->variables[kind] = list;
    char *copy = list ? bti_strdup(name) : NULL;
    if (!copy) return (void)bti_no_memory(), false;
    list[(*count)++] = (bti_layer_variable){copy, bt_shared_retain(shared)};
    return true;
}

void bti_layer_set_variable(bt_layer *layer, bti_variables kind, int i, bt_shared *shared) {
    bt_shared *before = layer->variables[kind][i].shared;
    layer->variables[kind][i].shared = bt_shared_retain(shared);
    bt_shared_release(before);
}

bool bti_layer_add_child(bt_layer *layer, const char *name, bt_layer *child) {
    int count = layer->child_count;
    bt_layer **children = longer_list(layer->children, count, sizeof *children);
    if (children) layer->children = children;
    char **names = children ? longer_list(layer->child_names, count, sizeof *names) : NULL;
    if (names) layer->child_names = names;
    char *copy = names ? bti_strdup(name) : NULL;
    if (!copy) return (void)bti_no_memory(), false;
    names[count] = copy;
    children[count] = bt_layer_retain(child);
    layer->child_count++;
    if (child->depth >= layer->depth) layer->depth = child->depth + 1;
    return true;
}

static void lose_options(bt_layer *layer) {
    for (int i = 0; i < layer->option_count; i++) bti_free(layer->options[i].value);
    layer->option_count = BTI_OPTIONS_LOST;
}

bt_layer *bti_layer_note(bt_layer *layer, const char *name, const char *format, ...) {
    if (layer->head.error || layer->option_count == BTI_OPTIONS_LOST) return layer;
    bti_str value = {0};
    va_list arguments;
    va_start(arguments, format);
    bti_str_addv(&value, format, arguments);
    va_end(arguments);
    bti_layer_option *list = longer_list(layer->options, layer->option_count, sizeof *list);
    if (list) layer->options = list;
    char *taken = bti_str_take(&value);
    if (list && taken)
        list[layer->option_count++] = (bti_layer_option){name, taken};
    else {
        bti_free(taken);
        lose_options(layer);
    }
    return layer;
}

int bti_layer_options(const bt_layer *layer, const bti_layer_option **options) {
    *options = layer->options;
    return layer->option_count > 0 ? layer->option_count : 0;
}

/* --- texts ------------------------------------------------------------------------------------------------------------ */

bti_array_words bti_describe_array(const bt_array *x) {
    bti_array_words words;
    snprintf(words.text, sizeof words.text, "%s %s", bt_dtype_name(bti_dtype(x)), bti_shape_string(x).text);
    return words;
}

void bti_layer_add_text(bti_str *text, const bt_layer *layer) {
    bti_str_addf(text, "%s%s", layer->name, layer->text ? layer->text : "()");
}

const int64_t bti_all_zeros[6] = {0}, bti_all_ones[6] = {1, 1, 1, 1, 1, 1};

void bti_layer_add_sizes(bti_str *text, const char *name, int axes, const int64_t *sizes, const int64_t *defaults) {
    int64_t size[6];
    bool alike = true, differs = false;
    for (int i = 0; i < axes; i++) {
        size[i] = sizes[i] ? sizes[i] : defaults[i];
        differs = differs || size[i] != defaults[i];
        alike = alike && size[i] == size[0];
    }
    if (!differs) return;
    if (alike)
        bti_str_addf(text, ", %s=%lld", name, (long long)size[0]);
    else
        bti_str_addf(text, ", %s=%s", name, bti_sizes_string(axes, size).text);
}

/* --- applying --------------------------------------------------------------------------------------------------------- */

static bt_array *without_result(const bt_layer *layer) {
    BTI_CALL("bt_apply");
    return bti_poisonf(BT_INVALID_ARGUMENT, "the function of layer %s gave NULL", layer->name);
}

static bt_array *hooked(bt_layer *layer, bt_array *y) {
    if (!y) return without_result(layer);
    bt_array *other = layer->hook && !bti_array_error(y) ? layer->hook(layer, y, layer->hook_data) : NULL;
    return other ? other : y;
}

static bt_array *call_layer(bt_layer *layer, bt_array *x) {
    bt_array *y = NULL;
    if (layer->forward)
        y = layer->forward(layer, x, layer->data->data);
    else if (layer->forward_all(layer, &x, 1, &y, 1, layer->data->data) != BT_OK)
        y = bti_poison(bti_error_last());
    return hooked(layer, y);
}

bt_array *bt_apply(bt_layer *layer, bt_array *x) {
    bti_error *error = bti_handle_error(BTI_OWNED_LAYER, layer, "bt_apply");
    if (error) return bti_poison(bti_error_retain(error));
    bt_array *y = NULL;
    BT_SCOPE
        y = bt_keep(call_layer(layer, x));
    return y;
}

/* The layer before it, if x comes from one, and the layer itself do not fit: their names and what is between them, and the cause. */
static bt_array *name_layers(const bt_layer *layer, int i, const bt_array *x, const bt_array *y) {
    bti_error *cause = bti_array_error(y);
    BTI_CALL("bt_apply");
    bti_str text = {0}, own = {0};
    bti_layer_add_text(&own, layer->children[i]);
    bti_str_addf(&text, "layer %s, %s, does not take %s", layer->child_names[i], bti_str_text(&own),
                 bti_describe_array(x).text);
    bti_str_free(&own);
    if (i) {
        bti_str_addf(&text, " from layer %s, ", layer->child_names[i - 1]);
        bti_layer_add_text(&text, layer->children[i - 1]);
    }
    bool quiet = bti_errors_quiet(true);
    bti_error *named = bti_error_new(bti_error_code(cause), "%s: %s", bti_str_text(&text), bti_error_message(cause));
    bti_errors_quiet(quiet);
    bti_str_free(&text);
    return bti_poison(named);
}

bt_array *bti_apply_child(bt_layer *layer, int i, bt_array *x) {
    bt_array *y = bt_apply(layer->children[i], x);
    bti_error *error = bti_array_error(y);
    bool theirs = error && bti_error_code(error) == BT_INVALID_ARGUMENT && x && !bti_array_error(x) &&
                  !layer->children[i]->child_count && !layer->children[i]->head.error;
    return theirs ? name_layers(layer, i, x, y) : y;
}

static bt_status poison_all(bt_array **outputs, int count, bt_status status) {
    for (int i = 0; i < count; i++) outputs[i] = bti_poison(bti_error_last());
    return status;
}

static bt_status check_apply_all(const bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                                 int output_count) {
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, layer, "bt_apply_all"));
    BTI_TRY(bti_check_list(inputs, input_count, "inputs"));
    BTI_TRY(bti_check_list(outputs, output_count, "outputs"));
    for (int i = 0; i < input_count; i++) BTI_TRY(bti_fail_with(bti_array_error(inputs[i])));
    if (layer->forward && (input_count != 1 || output_count != 1))
        return bti_fail(BT_INVALID_ARGUMENT, "layer %s has 1 input and 1 output, not %d and %d", layer->name,
                        input_count, output_count);
    return BT_OK;
}

bt_status bt_apply_all(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                       int output_count) {
    bt_status status;
    {
        BTI_CALL("bt_apply_all");
        status = check_apply_all(layer, inputs, input_count, outputs, output_count);
    }
    if (status != BT_OK) return outputs && output_count > 0 ? poison_all(outputs, output_count, status) : status;
    for (int i = 0; i < output_count; i++) outputs[i] = NULL;
    BT_SCOPE {
        if (layer->forward)
            outputs[0] = call_layer(layer, inputs[0]);
        else
            status = layer->forward_all(layer, inputs, input_count, outputs, output_count, layer->data->data);
        for (int i = 0; i < output_count && status == BT_OK; i++) {
            if (!layer->forward) outputs[i] = hooked(layer, outputs[i]);
            status = bti_fail_with(bti_array_error(bt_keep(outputs[i])));
        }
    }
    return status == BT_OK ? BT_OK : poison_all(outputs, output_count, status);
}

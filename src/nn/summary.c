/* A model as Flux prints one. */
#include "base/error.h"
#include "base/str.h"
#include "nn/layer.h"

static void add_own(bti_str *text, const bt_layer *layer) {
    if (layer->own[0] && layer->own_names[0]) {
        BT_SCOPE {
            bt_array *weight = bt_value(layer->own[0]);
            bti_str_addf(text, "%s(%lld => %lld", layer->kind, (long long)bt_size(weight, 0),
                         (long long)bt_size(weight, 1));
        }
        if (layer->activation) bti_str_addf(text, ", %s", bti_activation_name(layer->activation));
        bti_str_add(text, ")");
    } else if (layer->activation)
        bti_str_add(text, layer->name ? layer->name : bti_activation_name(layer->activation));
    else
        bti_str_addf(text, "%s()", layer->kind);
}

static void add_comment(bti_str *text, size_t line_start, int64_t count, const char *what) {
    do bti_str_add(text, " ");
    while (text->length - line_start < 32);
    bti_str_addf(text, "# %lld %s", (long long)count, what);
}

static void add_layer(bti_str *text, const bt_layer *layer, int depth, const char *end) {
    size_t line = text->length;
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
    if (!layer->child_count) {
        add_own(text, layer);
        bti_str_add(text, end);
        int64_t count = bt_parameter_count(layer);
        if (count) add_comment(text, line, count, "parameters");
        bti_str_add(text, "\n");
        return;
    }
    bti_str_addf(text, "%s(\n", layer->kind);
    for (int i = 0; i < layer->child_count; i++) add_layer(text, layer->children[i], depth + 1, ",");
    line = text->length;
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
    bti_str_addf(text, ")%s", end);
    if (depth == 0) add_comment(text, line, bt_parameter_count(layer), "parameters in all");
    bti_str_add(text, "\n");
}

char *bt_summary(const bt_layer *layer) {
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_summary") != BT_OK) return NULL;
    bti_str text = {0};
    add_layer(&text, layer, 0, "");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

/* A model as text, as Flux prints it. */
#include <ctype.h>

#include "base/error.h"
#include "base/str.h"
#include "nn/layer.h"

static void add_count_comment(bti_str *text, size_t line_start, int64_t count, int64_t states, const char *what) {
    do bti_str_add(text, " ");
    while (text->length - line_start < 32);
    bti_str_addf(text, "# %lld %s", (long long)count, what);
    if (states) bti_str_addf(text, ", plus %lld", (long long)states);
}

/* Children that are numbered are told by their order. */
static void add_child_name(bti_str *text, const char *name) {
    if (name && !isdigit((unsigned char)*name)) bti_str_addf(text, "%s = ", name);
}

static void add_layer_lines(bti_str *text, const bt_layer *layer, const char *name, int depth, const char *end) {
    size_t line = text->length;
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
    add_child_name(text, name);
    if (!layer->child_count) {
        bti_layer_add_text(text, layer);
        bti_str_add(text, end);
        int64_t count = bt_parameter_count(layer);
        if (count) add_count_comment(text, line, count, bti_state_count(layer), "parameters");
        bti_str_add(text, "\n");
        return;
    }
    bti_str_addf(text, "%s(\n", layer->name);
    for (int i = 0; i < layer->child_count; i++)
        add_layer_lines(text, layer->children[i], layer->child_names[i], depth + 1, ",");
    line = text->length;
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
    bti_str_addf(text, ")%s", end);
    if (depth == 0) add_count_comment(text, line, bt_parameter_count(layer), 0, "parameters in all");
    bti_str_add(text, "\n");
}

char *bt_summary(const bt_layer *layer) {
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_summary") != BT_OK) return NULL;
    bti_str text = {0};
    add_layer_lines(&text, layer, NULL, 0, "");
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

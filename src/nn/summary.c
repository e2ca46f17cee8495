/* A model as text, as Flux prints it. */
#include <ctype.h>
#include <string.h>

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

static void indent(bti_str *text, int depth) {
    for (int i = 0; i < depth; i++) bti_str_add(text, "  ");
}

/* "(3) of (4)" is in no brackets of its own. */
static bool is_in_brackets(const char *text) {
    int open = 0;
    if (*text != '(') return false;
    for (; *text; text++) {
        open += (*text == '(') - (*text == ')');
        if (!open) return !text[1];
    }
    return false;
}

/* What a layer with children says of itself: "+," of "(+)". */
static void add_own_text(bti_str *text, const bt_layer *layer, int depth) {
    const char *own = layer->text ? layer->text : "";
    size_t length = strlen(own), cut = is_in_brackets(own);
    if (length <= 2 * cut) return;
    indent(text, depth);
    bti_str_add_bytes(text, own + cut, length - 2 * cut);
    bti_str_add(text, ",\n");
}

/* "factor = float32 (3,),      # 3 parameters": of a layer with children. */
static void add_own_parameters(bti_str *text, const bt_layer *layer, int depth) {
    for (int i = 0; i < layer->variable_count[BTI_PARAMETERS]; i++) {
        const bti_layer_variable *variable = &layer->variables[BTI_PARAMETERS][i];
        size_t line = text->length;
        indent(text, depth);
        BT_SCOPE {
            bt_array *value = bt_value(variable->shared);
            bti_str_addf(text, "%s = %s,", variable->name,
                         bti_array_error(value) ? "?" : bti_describe_array(value).text);
            add_count_comment(text, line, bt_count(value), 0, "parameters");
        }
        bti_str_add(text, "\n");
    }
}

static void add_layer_lines(bti_str *text, const bt_layer *layer, const char *name, int depth, const char *end);

static void add_inner_lines(bti_str *text, const bt_layer *layer, int depth) {
    bool text_is_last = !strcmp(layer->name, "SkipConnection"); /* as Flux has it */
    if (!text_is_last) add_own_text(text, layer, depth);
    add_own_parameters(text, layer, depth);
    for (int i = 0; i < layer->child_count; i++)
        add_layer_lines(text, layer->children[i], layer->child_names[i], depth, ",");
    if (text_is_last) add_own_text(text, layer, depth);
}

static void add_layer_lines(bti_str *text, const bt_layer *layer, const char *name, int depth, const char *end) {
    size_t line = text->length;
    indent(text, depth);
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
    add_inner_lines(text, layer, depth + 1);
    line = text->length;
    indent(text, depth);
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

/* bt_layer_new: a layer of a C function, and what its function asks for. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "nn/layer.h"

#define MEMBER(name) BTI_MEMBER(bt_layer_options, name)
static const bti_member layer_members[] = {
    MEMBER(size),       MEMBER(by_name), MEMBER(data),  MEMBER(free_data), MEMBER(forward_all), MEMBER(text),
    MEMBER(parameters), MEMBER(tied),    MEMBER(state), MEMBER(children),  MEMBER(list),        MEMBER(list_count)};
#undef MEMBER
static const bti_sized_type layer_layout =
    BTI_SIZED_TYPE(bt_layer_options, "options", "BT_LAYER(.data = x)", layer_members, NULL);

/* --- names of variables by their path ----------------------------------------------------------------------------------- */

static bool name_variables(bt_layer *layer, bti_str *path);

static bool name_child(bt_layer *layer, int i, bti_str *path) {
    size_t length = path->length;
    bti_str_addf(path, "%s.", layer->child_names[i]);
    bool whole = !path->failed && name_variables(layer->children[i], path);
    path->length = length;
    return whole;
}

/* "0.weight". From the last child to the first and the layer's own at the end, so that a variable with several paths gets the first one. False: memory is short. */
static bool name_variables(bt_layer *layer, bti_str *path) {
    size_t length = path->length;
    for (int i = layer->child_count - 1; i >= 0; i--)
        if (!name_child(layer, i, path)) return false;
    for (int kind = 0; kind < BTI_VARIABLES; kind++)
        for (int i = 0; i < layer->variable_count[kind]; i++) {
            const bti_layer_variable *variable = &layer->variables[kind][i];
            bti_str_add(path, variable->name);
            if (path->failed) return false;
            bt_shared_set_name(variable->shared, bti_str_text(path));
            if (strcmp(bt_shared_name(variable->shared), bti_str_text(path))) return false;
            path->length = length;
        }
    return true;
}

bt_status bti_layer_name_variables(bt_layer *layer) {
    bti_str path = {0};
    bool whole = name_variables(layer, &path);
    bti_str_free(&path);
    return whole ? BT_OK : bti_no_memory();
}

/* --- checks ------------------------------------------------------------------------------------------------------------- */

/* The names of one layer's variables and children so far. */
typedef struct name_list {
    const char *names[5 * BT_LAYER_VARIABLES];
    int count;
} name_list;

static bt_status check_layer_name(name_list *seen, const char *name) {
    if (!*name || strchr(name, '.'))
        return bti_fail(BT_INVALID_ARGUMENT, "the name \"%s\"; a name has a character or more, and no point", name);
    for (int i = 0; i < seen->count; i++)
        if (!strcmp(seen->names[i], name)) return bti_fail(BT_INVALID_ARGUMENT, "the name \"%s\" is there twice", name);
    seen->names[seen->count++] = name;
    return BT_OK;
}

static bt_status check_values(name_list *seen, const bt_named_value *values, const char *what) {
    for (int i = 0; i < BT_LAYER_VARIABLES && values[i].name; i++) {
        BTI_TRY(check_layer_name(seen, values[i].name));
        if (!values[i].value) return bti_fail(BT_INVALID_ARGUMENT, "%s \"%s\" is NULL", what, values[i].name);
        BTI_TRY(bti_fail_with(bti_array_error(values[i].value)));
    }
    return BT_OK;
}

static bt_status check_child_depth(const bt_layer *child) {
    if (child->depth < BTI_LAYER_DEPTH) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "chains are nested more than %d levels deep; list the layers in one chain",
                    BTI_LAYER_DEPTH);
}

static bt_status check_children(name_list *seen, const bt_layer_options *o) {
    for (int i = 0; i < BT_LAYER_VARIABLES && o->children[i].name; i++) {
        BTI_TRY(check_layer_name(seen, o->children[i].name));
        if (!o->children[i].layer) return bti_fail(BT_INVALID_ARGUMENT, "layer \"%s\" is NULL", o->children[i].name);
        BTI_TRY(bt_layer_status(o->children[i].layer));
        BTI_TRY(check_child_depth(o->children[i].layer));
    }
    BTI_TRY(bti_check_list(o->list, o->list_count, "layers"));
    for (int i = 0; i < o->list_count; i++) {
        if (!o->list[i]) return bti_fail(BT_INVALID_ARGUMENT, "layer %d is NULL", i + 1);
        BTI_TRY(bt_layer_status(o->list[i]));
        BTI_TRY(check_child_depth(o->list[i]));
    }
    return BT_OK;
}

static bt_status check_new_layer(const char *name, bt_forward *forward, const bt_layer_options *o) {
    name_list seen = {.count = 0};
    if (!name) return bti_fail(BT_INVALID_ARGUMENT, "the name is NULL");
    if (!forward == !o->forward_all)
        return bti_fail(BT_INVALID_ARGUMENT, "layer %s has %s; it needs one of them", name,
                        forward ? "a function and `forward_all`" : "no function and no `forward_all`");
    BTI_TRY(check_values(&seen, o->parameters, "parameter"));
    for (int i = 0; i < BT_LAYER_VARIABLES && o->tied[i].name; i++) {
        BTI_TRY(check_layer_name(&seen, o->tied[i].name));
        BTI_TRY(bt_shared_status(o->tied[i].variable));
    }
    BTI_TRY(check_values(&seen, o->state, "state"));
    return check_children(&seen, o);
}

/* --- making ------------------------------------------------------------------------------------------------------------- */

static bt_status add_values(bt_layer *layer, bti_variables kind, const bt_named_value *values) {
    bt_status status = BT_OK;
    for (int i = 0; i < BT_LAYER_VARIABLES && values[i].name && status == BT_OK; i++)
        BT_SCOPE {
            bt_shared *shared = bt_shared_new(values[i].value, NULL);
            status = bt_shared_status(shared);
            if (status == BT_OK && !bti_layer_add_variable(layer, kind, values[i].name, shared))
                status = BT_RESOURCE_EXHAUSTED;
        }
    return status;
}

static bt_status add_parts(bt_layer *layer, const bt_layer_options *o) {
    BTI_TRY(add_values(layer, BTI_PARAMETERS, o->parameters));
    for (int i = 0; i < BT_LAYER_VARIABLES && o->tied[i].name; i++)
        if (!bti_layer_add_variable(layer, BTI_PARAMETERS, o->tied[i].name, o->tied[i].variable))
            return BT_RESOURCE_EXHAUSTED;
    BTI_TRY(add_values(layer, BTI_STATES, o->state));
    for (int i = 0; i < BT_LAYER_VARIABLES && o->children[i].name; i++)
        if (!bti_layer_add_child(layer, o->children[i].name, o->children[i].layer)) return BT_RESOURCE_EXHAUSTED;
    char name[16];
    for (int i = 0; i < o->list_count; i++) {
        snprintf(name, sizeof name, "%d", i);
        if (!bti_layer_add_child(layer, name, o->list[i])) return BT_RESOURCE_EXHAUSTED;
    }
    return BT_OK;
}

static bt_layer *make_layer(const char *name, bt_forward *forward, const bt_layer_options *o, bti_layer_data *data) {
    if (check_new_layer(name, forward, o) != BT_OK) return NULL;
    bt_layer *layer = bti_layer_bare(name, o->text, forward, o->forward_all);
    if (!layer) return NULL;
    if (add_parts(layer, o) == BT_OK && bti_layer_name_variables(layer) == BT_OK) {
        layer->data = data;
        return layer;
    }
    bt_layer_release(layer);
    return NULL;
}

bt_layer *bt_layer_new(const char *name, bt_forward *forward, const bt_layer_options *options) {
    BTI_CALL("bt_layer_new");
    bt_layer_options o = {.size = sizeof o};
    if (options && bti_options_take(&layer_layout, "bt_layer_new", options, &o) != BT_OK) return bti_layer_own(NULL);
    bti_layer_data *data = bti_calloc(1, sizeof *data);
    if (!data) (void)!bti_no_memory();
    if (data) *data = (bti_layer_data){.refs = 1, .data = o.data, .free = o.free_data};
    bt_layer *layer = data ? make_layer(name, forward, &o, data) : NULL;
    if (!layer) {
        bti_free(data);
        if (o.free_data) o.free_data(o.data);
    }
    return bti_layer_own(layer);
}

void *bti_layer_settings(const void *settings, size_t bytes) {
    void *copy = bti_alloc(bytes);
    if (copy) memcpy(copy, settings, bytes);
    return copy;
}

bt_layer *bti_no_settings(void) {
    (void)!bti_no_memory();
    return bti_layer_own(NULL);
}

/* --- for its function --------------------------------------------------------------------------------------------------- */

static bt_layer *no_child(const bt_layer *layer, int i) {
    (void)!bti_fail(BT_OUT_OF_RANGE, "layer %s has %d children; there is no number %d", layer->name, layer->child_count,
                    i);
    return NULL;
}

int bt_layer_child_count(const bt_layer *layer) {
    return bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_child_count") == BT_OK ? layer->child_count : 0;
}

bt_layer *bt_layer_child(const bt_layer *layer, int i) {
    BTI_CALL("bt_layer_child");
    if (bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_child") != BT_OK) return NULL;
    return i >= 0 && i < layer->child_count ? layer->children[i] : no_child(layer, i);
}

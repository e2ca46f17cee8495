#include "file/structure.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "base/vec.h"
#include "file/fill.h"
#include "nn/layer.h"

/* A layer is visited this often at most: layers that are used several times multiply. */
enum { MOST_VISITS = 1 << 20 };

/* --- writing ---------------------------------------------------------------------------------------------------------------------- */

typedef BTI_VEC(const bt_layer *) layer_list;

static int place_of_layer(const layer_list *list, const bt_layer *layer) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == layer) return (int)i;
    return -1;
}

/* Sets a member of the object; false for NULL, so that texts that are no UTF-8 fail. */
static bool set_member(json_t *object, const char *key, json_t *value) {
    return !json_object_set_new(object, key, value); /* takes the value over in any case */
}

static json_t *options_json(const bt_layer *layer) {
    const bti_layer_option *options;
    int count = bti_layer_options(layer, &options);
    json_t *object = json_object();
    for (int i = 0; i < count; i++)
        if (!set_member(object, options[i].name, json_string(options[i].value))) return json_decref(object), NULL;
    return object;
}

static bool has_own_names(const bt_layer *layer) {
    char number[16];
    for (int i = 0; i < layer->child_count; i++) {
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(layer->child_names[i], number)) return true;
    }
    return false;
}

static json_t *layer_json(const bt_layer *layer, layer_list *seen);

static bool set_children(json_t *object, const bt_layer *layer, layer_list *seen) {
    if (!layer->child_count || bti_layer_makes_children(layer->name)) return true;
    json_t *children = json_array(), *names = has_own_names(layer) ? json_array() : NULL;
    bool whole = true;
    for (int i = 0; i < layer->child_count && whole; i++) {
        whole = !json_array_append_new(children, layer_json(layer->children[i], seen));
        if (names) whole = whole && !json_array_append_new(names, json_string(layer->child_names[i]));
    }
    whole = set_member(object, "children", children) && whole;
    return (!names || set_member(object, "names", names)) && whole;
}

/* NULL: out of memory, or a text that is no UTF-8. */
static json_t *layer_json(const bt_layer *layer, layer_list *seen) {
    int place = place_of_layer(seen, layer);
    if (place >= 0) return json_pack("{s:i}", "same", place);
    json_t *object = json_object();
    bool whole = layer->option_count != BTI_OPTIONS_LOST && bti_vec_push(seen, layer) &&
                 set_member(object, "layer", json_string(layer->name));
    if (whole && layer->text) whole = set_member(object, "text", json_string(layer->text));
    const bti_layer_option *options;
    if (whole && bti_layer_options(layer, &options)) whole = set_member(object, "options", options_json(layer));
    whole = whole && set_children(object, layer, seen);
    if (!whole) json_decref(object), object = NULL;
    return object;
}

/* Names of variables that are not their paths. */
static bool add_names(json_t *names, const bt_layer *layer, bti_str *path, layer_list *seen) {
    if (place_of_layer(seen, layer) >= 0) return true;
    bool whole = bti_vec_push(seen, layer);
    size_t length = path->length;
    for (int kind = 0; kind < BTI_VARIABLES; kind++)
        for (int i = 0; i < layer->variable_count[kind] && whole; i++) {
            const char *name = bt_shared_name(layer->variables[kind][i].shared);
            bti_str_add(path, layer->variables[kind][i].name);
            if (!path->failed && name && strcmp(name, path->text))
                whole = set_member(names, path->text, json_string(name));
            path->length = length;
        }
    for (int i = 0; i < layer->child_count && whole; i++) {
        bti_str_addf(path, "%s.", layer->child_names[i]);
        whole = !path->failed && add_names(names, layer->children[i], path, seen);
        path->length = length;
    }
    return whole;
}

bt_status bti_structure_write(const bt_layer *model, char **text) {
    layer_list seen = {0}, named = {0};
    bti_str path = {0};
    json_t *layer = layer_json(model, &seen), *names = json_object();
    bool whole = layer && names && add_names(names, model, &path, &named);
    json_t *all = whole ? json_pack("{s:i, s:O, s:O}", "version", 1, "layer", layer, "names", names) : NULL;
    *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    json_decref(layer);
    json_decref(names);
    bti_vec_free(&seen);
    bti_vec_free(&named);
    bti_str_free(&path);
    if (*text) return BT_OK;
    return bti_fail(BT_RESOURCE_EXHAUSTED, "out of memory, or a name of the model's layers is no UTF-8");
}

/* --- reading ---------------------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const bt_tensors *file;
    json_t *names;            /* of variables that are not their paths */
    bt_array **values;        /* by tensor: read for a record; NULL: not yet */
    BTI_VEC(bt_layer *) made; /* in the order in which layers begin; NULL while a layer's children are made */
    BTI_VEC(int) visits;      /* of each: layers in its tree, with repetition */
    int64_t most_elements;
    bti_str path;
} reader;

static bt_status is_malformed(const reader *r, const char *what) {
    return bti_fail(BT_DATA_LOSS,
                    "%s: the structure in its metadata (" BTI_STRUCTURE ") is malformed: layer \"%s\": %s",
                    r->file->file.path, bti_quote(bti_str_text(&r->path)).text, what);
}

static bt_status make_from_json(reader *r, json_t *json, int depth, bt_layer **layer, int *visits);

/* What is made of a layer's text before the layer itself. */
typedef struct parts {
    bti_layer_plan plan;
    bti_layer_option *options;
    bt_layer **children;
    const char **names;
    char (*numbers)[24];
    BTI_VEC(bt_named_value) values;
} parts;

static void free_parts(parts *p) {
    bti_free(p->options);
    bti_free(p->children);
    bti_free(p->names);
    bti_free(p->numbers);
    bti_vec_free(&p->values);
}

static bt_status take_json_options(const reader *r, json_t *json, parts *p) {
    json_t *options = json_object_get(json, "options"), *value;
    const char *name;
    if (options && !json_is_object(options)) return is_malformed(r, "\"options\" is no object");
    p->options = bti_calloc(json_object_size(options) + 1, sizeof *p->options);
    if (!p->options) return bti_no_memory();
    json_object_foreach(options, name, value) {
        const char *text = json_string_value(value);
        if (!text) return is_malformed(r, "an option is no text");
        p->options[p->plan.option_count++] = (bti_layer_option){name, (char *)(uintptr_t)text};
    }
    p->plan.options = p->options;
    return BT_OK;
}

static bt_status take_children(reader *r, json_t *json, int depth, parts *p, int *visits) {
    json_t *children = json_object_get(json, "children"), *names = json_object_get(json, "names");
    size_t count = json_array_size(children), length = r->path.length;
    if ((children && !json_is_array(children)) || (names && json_array_size(names) != count))
        return is_malformed(r, "\"children\" is no list, or \"names\" has another length");
    p->children = bti_calloc(count + 1, sizeof *p->children);
    p->names = bti_calloc(count + 1, sizeof *p->names);
    p->numbers = bti_calloc(count + 1, sizeof *p->numbers);
    if (!p->children || !p->names || !p->numbers) return bti_no_memory();
    for (size_t i = 0; i < count; i++) {
        snprintf(p->numbers[i], sizeof *p->numbers, "%zu", i);
        p->names[i] = names ? json_string_value(json_array_get(names, i)) : p->numbers[i];
        if (!p->names[i]) return is_malformed(r, "a name of a child is no text");
        bti_str_addf(&r->path, "%s.", p->names[i]);
        int below = 0;
        BTI_TRY(make_from_json(r, json_array_get(children, i), depth + 1, &p->children[i], &below));
        *visits += below;
        if (*visits > MOST_VISITS) return is_malformed(r, "layers are used again more than a million times");
        r->path.length = length;
        p->plan.record.child_count++;
    }
    if (r->path.text) r->path.text[length] = '\0';
    p->plan.record.children = p->children;
    p->plan.record.child_names = p->names;
    return BT_OK;
}

/* The name within the layer at the path; NULL: of a variable of another layer. */
static const char *own_name(const reader *r, const char *path) {
    size_t length = r->path.length;
    return strncmp(path, bti_str_text(&r->path), length) || strchr(path + length, '.') ? NULL : path + length;
}

static bt_status take_value(const reader *r, const char *own, int tensor, parts *p) {
    if (!r->values[tensor]) r->values[tensor] = r->file->format->read(r->file, tensor);
    BTI_TRY(bti_fail_with(bti_array_error(r->values[tensor])));
    return bti_vec_push(&p->values, ((bt_named_value){own, r->values[tensor]})) ? BT_OK : bti_no_memory();
}

/* The tensors of the layer's own variables: under their paths, or under the names that are not their paths (tied ones). */
static bt_status take_values(const reader *r, parts *p) {
    const bti_names *names = &r->file->names;
    const char *path, *own;
    json_t *name;
    for (int i = 0; i < names->count; i++)
        if ((own = own_name(r, names->names[i])) && !json_object_get(r->names, names->names[i]))
            BTI_TRY(take_value(r, own, i, p));
    json_object_foreach(r->names, path, name) {
        const char *text = json_string_value(name);
        int tensor = (own = own_name(r, path)) && text ? bti_names_find(names, text) : -1;
        if (tensor >= 0) BTI_TRY(take_value(r, own, tensor, p));
    }
    p->plan.record.values = p->values.items;
    p->plan.record.value_count = (int)p->values.count;
    return BT_OK;
}

static bt_status make_layer(reader *r, json_t *json, int depth, bt_layer **layer, int *visits) {
    const char *name = json_string_value(json_object_get(json, "layer"));
    if (!name) return is_malformed(r, "it has no name");
    size_t place = r->made.count;
    if (!bti_vec_push(&r->made, NULL) || !bti_vec_push(&r->visits, 0)) return bti_no_memory();
    parts p = {.plan = {.record = {.size = sizeof p.plan.record, .name = name}, .most_elements = r->most_elements}};
    p.plan.record.text = json_string_value(json_object_get(json, "text"));
    *visits = 1;
    bt_status status = take_json_options(r, json, &p);
    if (status == BT_OK) status = take_children(r, json, depth, &p, visits);
    if (status == BT_OK && !bti_layer_is_known(name)) status = take_values(r, &p);
    if (status == BT_OK) {
        *layer = bti_layer_again(&p.plan);
        status = bt_layer_status(*layer);
    }
    free_parts(&p);
    if (status != BT_OK) return status;
    r->made.items[place] = *layer;
    r->visits.items[place] = *visits;
    return BT_OK;
}

static bt_status make_from_json(reader *r, json_t *json, int depth, bt_layer **layer, int *visits) {
    if (depth > BTI_LAYER_DEPTH) return is_malformed(r, "layers are nested more than 200 deep");
    const json_t *same = json_object_get(json, "same");
    if (!same) return make_layer(r, json, depth, layer, visits);
    json_int_t place = json_integer_value(same);
    if (!json_is_integer(same) || place < 0 || (size_t)place >= r->made.count || !r->made.items[place])
        return is_malformed(r, "\"same\" is no layer before it");
    *layer = r->made.items[place];
    *visits = r->visits.items[place];
    return BT_OK;
}

static const char *find_name(void *names, const char *path) {
    const char *name = json_string_value(json_object_get(names, path));
    return name ? name : path;
}

static bt_status open_structure(reader *r, json_t *json, bt_layer **model) {
    r->names = json_object_get(json, "names");
    if (json_integer_value(json_object_get(json, "version")) != 1)
        return is_malformed(r, "its version is not 1; a newer berth may read it");
    int visits;
    BTI_TRY(make_from_json(r, json_object_get(json, "layer"), 0, model, &visits));
    return bti_fill_model(*model, r->file, find_name, r->names);
}

bt_status bti_structure_open(const bt_tensors *file, const char *text, bt_layer **model) {
    reader r = {.file = file, .values = bti_calloc((size_t)file->names.count + 1, sizeof *r.values)};
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    bt_status status = json ? bti_most_elements(file, &r.most_elements) : is_malformed(&r, bti_quote(error.text).text);
    if (status == BT_OK && !r.values) status = bti_no_memory();
    if (status == BT_OK) status = open_structure(&r, json, model);
    json_decref(json);
    bti_vec_free(&r.made);
    bti_vec_free(&r.visits);
    bti_free(r.values);
    bti_str_free(&r.path);
    return status;
}

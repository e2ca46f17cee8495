/* Models as BSON.jl writes those of Flux's: the structs of flux_open.c, with the parameters of their types, which Julia needs to make them. */
#include <stdio.h>
#include <stdlib.h>

#include <berth/file.h>
#include <berth/layers.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/flux.h"
#include "file/io.h"
#include "file/julia_write.h"
#include "nn/layer.h"

enum { MOST_VISITS = 1 << 16, SLACK = 1 << 14 /* libbson keeps a byte per bti_put_level */ };

/* The function of an option of a layer; NULL: Flux has none (an error). */
static const bti_flux_function *function_of(bti_julia_writer *w, const char *berth) {
    const bti_flux_function *function = bti_flux_function_named(berth);
    char what[200];
    snprintf(what, sizeof what, "has the function %s, which Flux has not by that name", bti_quote(berth).text);
    if (!function) (void)!bti_put_refuse(w, what);
    return function;
}

static const char *option(const bt_layer *layer, const char *name) {
    const bti_layer_option *options;
    int count = bti_layer_options(layer, &options);
    for (int i = 0; i < count; i++)
        if (!strcmp(options[i].name, name)) return options[i].value;
    return "";
}
static bool is_set(const bt_layer *layer, const char *name) { return !strcmp(option(layer, name), "true"); }

static void put_function_type(bti_julia_writer *w, const char *key, const char *berth) {
    const bti_flux_function *function = function_of(w, berth);
    if (function) bti_put_type(w, key, function->module, function->name);
}

/* --- values ------------------------------------------------------------------------------------------------------------------ */

static void put_function(bti_julia_writer *w, const char *key, const char *berth) {
    const bti_flux_function *function = function_of(w, berth);
    if (function) bti_put_singleton(w, key, function->module, function->name);
}
static int place_of_variable(bt_shared *const *list, size_t count, const bt_shared *shared) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == shared) return (int)i;
    return -1;
}

static void put_variable(bti_julia_writer *w, const char *key, bt_shared *shared) {
    int place = place_of_variable(w->shared.items, w->shared.count, shared);
    if (place < 0) {
        BT_SCOPE
            bti_put_array(w, key, bt_value(shared));
        return;
    }
    bti_put_level reference;
    bti_put_begin(w, &reference, key, false);
    bti_put_text(w, "tag", "backref");
    bti_put_integer(w, "ref", place + 1);
    bti_put_end(w, &reference);
}

/* Parameter or state of a layer, by name; NULL: it has none. */
static bt_shared *variable_of(const bt_layer *layer, const char *name) {
    for (int kind = 0; kind < BTI_VARIABLES; kind++)
        for (int i = 0; i < layer->variable_count[kind]; i++)
            if (!strcmp(layer->variables[kind][i].name, name)) return layer->variables[kind][i].shared;
    return NULL;
}

/* The variable, or what Flux has in the place of one that is missing. */
static void put_weight(bti_julia_writer *w, const char *key, const bt_layer *layer, const char *name) {
    bt_shared *shared = variable_of(layer, name);
    if (shared)
        put_variable(w, key, shared);
    else if (!strcmp(name, "bias") && strcmp(layer->name, "BatchNorm"))
        bti_put_bool(w, key, false);
    else
        bti_put_nothing(w, key);
}
static void put_weight_type(bti_julia_writer *w, const char *key, const bt_layer *layer, const char *name) {
    bt_shared *shared = variable_of(layer, name);
    BT_SCOPE {
        bt_array *value = shared ? bt_value(shared) : NULL;
        if (value && w->status == BT_OK) w->status = bti_fail_with(bti_array_error(value));
        if (value && w->status == BT_OK && bti_julia_dtype_name(bt_dtype_of(value)))
            bti_put_array_type(w, key, bt_dtype_of(value), bt_rank(value));
        else if (!value)
            bti_put_type(w, key, "Core",
                         !strcmp(name, "bias") && strcmp(layer->name, "BatchNorm") ? "Bool" : "Nothing");
    }
}

/* --- layers: the parameters of a type, and the fields ------------------------------------------------------------------------ */

static void put_layer_type(bti_julia_writer *w, const char *key, const bt_layer *layer);
static void put_layer(bti_julia_writer *w, const char *key, const bt_layer *layer);

/* "(3, 3)" */
static bt_shape sizes_of(const bt_layer *layer, const char *name) {
    bt_shape shape = {0};
    const char *at = option(layer, name);
    while (*at && shape.rank < 3) {
        char *end_of_number;
        long long size = strtoll(at + 1, &end_of_number, 10);
        if (end_of_number == at + 1) {
            at++;
            continue;
        }
        shape.size[shape.rank++] = size;
        at = end_of_number;
    }
    return shape;
}

typedef void put_part(bti_julia_writer *w, const char *key, const bt_layer *layer);

/* The types or the values of a chain's layers. */
static void put_children(bti_julia_writer *w, bti_put_level *l, const bt_layer *layer, put_part *put) {
    size_t length = w->path.length;
    for (int i = 0; i < layer->child_count; i++) {
        bti_str_addf(&w->path, "%s%d", length ? "." : "", i);
        put(w, bti_put_key(l).text, layer->children[i]);
        w->path.length = length;
        if (w->path.text) w->path.text[length] = '\0';
    }
}

static void chain_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    bti_put_level tuple, types;
    bti_put_begin_type(w, &tuple, &types, bti_put_key(p).text, "Core", "Tuple");
    put_children(w, &types, layer, put_layer_type);
    bti_put_end_type(w, &tuple, &types);
}

static void chain_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    bti_put_level tuple, data;
    bti_put_begin(w, &tuple, bti_put_key(f).text, false);
    bti_put_text(w, "tag", "tuple");
    bti_put_begin(w, &data, "data", true);
    put_children(w, &data, layer, put_layer);
    bti_put_end(w, &data);
    bti_put_end(w, &tuple);
}

static void dense_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    put_function_type(w, bti_put_key(p).text, option(layer, "activation"));
    put_weight_type(w, bti_put_key(p).text, layer, "weight");
    put_weight_type(w, bti_put_key(p).text, layer, "bias");
}
static void dense_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    put_weight(w, bti_put_key(f).text, layer, "weight");
    put_weight(w, bti_put_key(f).text, layer, "bias");
    put_function(w, bti_put_key(f).text, option(layer, "activation"));
}

static void conv_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    int axes = sizes_of(layer, "kernel").rank;
    bti_put_integer(w, bti_put_key(p).text, axes);
    bti_put_integer(w, bti_put_key(p).text, 2 * axes);
    dense_parameters(w, p, layer);
}

/* The pads of a convolution; `same` needs kernels whose pads are alike on both sides, as Flux puts the odd one in front. */
static bt_shape pads_of(bti_julia_writer *w, const bt_layer *layer, bt_shape kernel, bt_shape dilation) {
    bt_shape pads = sizes_of(layer, "pad");
    if (!is_set(layer, "same")) return pads;
    for (int d = 0; d < kernel.rank; d++) {
        int64_t span = (kernel.size[d] - 1) * (dilation.size[d] ? dilation.size[d] : 1);
        if (span % 2)
            (void)!bti_put_refuse(w, "has an odd pad, `same` of an even kernel, which Flux has not on that side");
        pads.size[d] = span / 2;
    }
    return pads;
}
static void conv_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    bt_shape kernel = sizes_of(layer, "kernel"), dilation = sizes_of(layer, "dilation");
    put_function(w, bti_put_key(f).text, option(layer, "activation"));
    put_weight(w, bti_put_key(f).text, layer, "weight");
    put_weight(w, bti_put_key(f).text, layer, "bias");
    bti_put_tuple(w, bti_put_key(f).text, sizes_of(layer, "stride"), 1, 1);
    bti_put_tuple(w, bti_put_key(f).text, pads_of(w, layer, kernel, dilation), 2, 0);
    bt_shape output_pad = sizes_of(layer, "output_pad");
    for (int d = 0; d < output_pad.rank; d++)
        if (output_pad.size[d]) (void)!bti_put_refuse(w, "has an output pad, which Flux 0.14 has not");
    bti_put_tuple(w, bti_put_key(f).text, dilation, 1, 1);
    int64_t groups = atoll(option(layer, "groups"));
    bti_put_integer(w, bti_put_key(f).text, groups ? groups : 1);
}

static void batch_norm_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    bti_put_type(w, bti_put_key(p).text, "Base", "#identity");
    put_weight_type(w, bti_put_key(p).text, layer, "bias");
    bti_put_type(w, bti_put_key(p).text, "Core", "Float32");
    put_weight_type(w, bti_put_key(p).text, layer, "running_mean");
}
static void batch_norm_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    double momentum = strtod(option(layer, "momentum"), NULL);
    if (!(momentum > 0)) (void)!bti_put_refuse(w, "counts each batch alike (momentum below 0), which Flux does not");
    put_function(w, bti_put_key(f).text, "");
    put_weight(w, bti_put_key(f).text, layer, "bias");
    put_weight(w, bti_put_key(f).text, layer, "weight");
    put_weight(w, bti_put_key(f).text, layer, "running_mean");
    put_weight(w, bti_put_key(f).text, layer, "running_var");
    bti_put_float32(w, bti_put_key(f).text, strtod(option(layer, "eps"), NULL));
    bti_put_float32(w, bti_put_key(f).text, momentum);
    bti_put_bool(w, bti_put_key(f).text, is_set(layer, "affine"));
    bti_put_bool(w, bti_put_key(f).text, is_set(layer, "tracking"));
    bti_put_nothing(w, bti_put_key(f).text);
    bti_put_integer(w, bti_put_key(f).text, atoll(option(layer, "size")));
}

static void dropout_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    (void)layer;
    bti_put_type(w, bti_put_key(p).text, "Core", "Float64");
    bti_put_type(w, bti_put_key(p).text, "Base", "Colon");
    bti_put_type(w, bti_put_key(p).text, "Random", "TaskLocalRNG");
}
static void dropout_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    bti_put_real(w, bti_put_key(f).text, strtod(option(layer, "rate"), NULL));
    bti_put_singleton(w, bti_put_key(f).text, "Base", "Colon");
    bti_put_nothing(w, bti_put_key(f).text);
    bti_put_singleton(w, bti_put_key(f).text, "Random", "TaskLocalRNG");
}

static void embedding_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    put_weight_type(w, bti_put_key(p).text, layer, "weight");
}
static void embedding_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    put_weight(w, bti_put_key(f).text, layer, "weight");
}

static void pool_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    int axes = sizes_of(layer, "window").rank;
    bti_put_integer(w, bti_put_key(p).text, axes);
    bti_put_integer(w, bti_put_key(p).text, 2 * axes);
}
static void pool_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    bt_shape window = sizes_of(layer, "window"), stride = sizes_of(layer, "stride"),
             dilation = sizes_of(layer, "dilation");
    for (int d = 0; d < window.rank; d++) {
        if (dilation.size[d] > 1) (void)!bti_put_refuse(w, "has a dilated window, which Flux has not");
        if (!stride.size[d]) stride.size[d] = window.size[d];
    }
    if (is_set(layer, "exclude_pads")) (void)!bti_put_refuse(w, "leaves pads out of its means, which Flux does not");
    bti_put_tuple(w, bti_put_key(f).text, window, 1, 1);
    bti_put_tuple(w, bti_put_key(f).text, sizes_of(layer, "pad"), 2, 0);
    bti_put_tuple(w, bti_put_key(f).text, stride, 1, 1);
}

static void skip_parameters(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer) {
    put_layer_type(w, bti_put_key(p).text, layer->children[0]);
    bti_put_type(w, bti_put_key(p).text, "Base", "#+");
}
static void skip_fields(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer) {
    if (strcmp(option(layer, "combine"), "sum")) (void)!bti_put_refuse(w, "combines by another function than a sum");
    put_layer(w, bti_put_key(f).text, layer->children[0]);
    bti_put_singleton(w, bti_put_key(f).text, "Base", "#+");
}

static void nothing_more(bti_julia_writer *w, bti_put_level *l, const bt_layer *layer) {
    (void)w, (void)l, (void)layer;
}

/* --- layers ------------------------------------------------------------------------------------------------------------------ */

typedef struct flux_struct {
    const char *berth, *flux;
    void (*parameters)(bti_julia_writer *w, bti_put_level *p, const bt_layer *layer);
    void (*fields)(bti_julia_writer *w, bti_put_level *f, const bt_layer *layer);
} flux_struct;

static const flux_struct structs[] = {{"Chain", "Chain", chain_parameters, chain_fields},
                                      {"Dense", "Dense", dense_parameters, dense_fields},
                                      {"Conv", "Conv", conv_parameters, conv_fields},
                                      {"ConvTranspose", "ConvTranspose", conv_parameters, conv_fields},
                                      {"BatchNorm", "BatchNorm", batch_norm_parameters, batch_norm_fields},
                                      {"Dropout", "Dropout", dropout_parameters, dropout_fields},
                                      {"Embedding", "Embedding", embedding_parameters, embedding_fields},
                                      {"MaxPool", "MaxPool", pool_parameters, pool_fields},
                                      {"MeanPool", "MeanPool", pool_parameters, pool_fields},
                                      {"GlobalMaxPool", "GlobalMaxPool", nothing_more, nothing_more},
                                      {"GlobalMeanPool", "GlobalMeanPool", nothing_more, nothing_more},
                                      {"SkipConnection", "SkipConnection", skip_parameters, skip_fields}};

/* A layer that berth made is known by its options too: one of the program's own may have the same name. */
static const flux_struct *struct_of(const bt_layer *layer) {
    bool plain = !strcmp(layer->name, "Chain") || !strncmp(layer->name, "Global", 6);
    if (!plain && !layer->option_count) return NULL;
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++)
        if (!strcmp(structs[i].berth, layer->name)) return &structs[i];
    return NULL;
}

/* What a layer that is a function in Flux is called. False: it is no such. */
static bool find_function(bti_julia_writer *w, const bt_layer *layer, const char **module, const char **name) {
    *module = "Flux";
    *name = "#flatten";
    if (!strcmp(layer->name, "Flatten") && !layer->option_count) return true;
    if (layer->option_count != 1 || strcmp(layer->options[0].name, "function")) return false;
    const bti_flux_function *function = function_of(w, layer->options[0].value);
    if (function) *module = function->module, *name = function->name;
    return true;
}

static bool may_visit(bti_julia_writer *w) {
    if (w->visits++ >= MOST_VISITS) (void)!bti_put_refuse(w, "is one of too many: layers that are used again multiply");
    return w->status == BT_OK && !w->failed;
}

static void put_layer_type(bti_julia_writer *w, const char *key, const bt_layer *layer) {
    const flux_struct *known = struct_of(layer);
    const char *module, *name;
    bti_put_level type, parameters;
    if (!may_visit(w)) return;
    if (known) {
        bti_put_begin_type(w, &type, &parameters, key, "Flux", known->flux);
        known->parameters(w, &parameters, layer);
        bti_put_end_type(w, &type, &parameters);
    } else if (find_function(w, layer, &module, &name))
        bti_put_type(w, key, module, name);
}

static void put_layer(bti_julia_writer *w, const char *key, const bt_layer *layer) {
    const flux_struct *known = struct_of(layer);
    const char *module, *name;
    bti_put_level struct_, data;
    if (!may_visit(w)) return;
    if (known) {
        bti_put_begin(w, &struct_, key, false);
        bti_put_text(w, "tag", "struct");
        put_layer_type(w, "type", layer);
        bti_put_begin(w, &data, "data", true);
        known->fields(w, &data, layer);
        bti_put_end(w, &data);
        bti_put_end(w, &struct_);
    } else if (find_function(w, layer, &module, &name))
        bti_put_singleton(w, key, module, name);
    else {
        char what[200];
        snprintf(what, sizeof what, "is %s, which Flux has not or bt_save_bson does not write",
                 bti_quote(layer->name).text);
        (void)!bti_put_refuse(w, what);
    }
}

/* --- the document ------------------------------------------------------------------------------------------------------------ */

/* Variables that are met again. */
static bt_status list_shared(bti_julia_writer *w, const bt_layer *layer) {
    if (w->visits++ >= MOST_VISITS) return bti_put_refuse(w, "is one of too many: layers that are used again multiply");
    if (layer->option_count == BTI_OPTIONS_LOST) return bti_no_memory();
    for (int kind = 0; kind < BTI_VARIABLES; kind++)
        for (int i = 0; i < layer->variable_count[kind]; i++) {
            bt_shared *shared = layer->variables[kind][i].shared;
            bool again = place_of_variable(w->seen.items, w->seen.count, shared) >= 0;
            bool listed = place_of_variable(w->shared.items, w->shared.count, shared) >= 0;
            if (!again && !bti_vec_push(&w->seen, shared)) return bti_no_memory();
            if (again && !listed && !bti_vec_push(&w->shared, shared)) return bti_no_memory();
        }
    for (int i = 0; i < layer->child_count; i++) BTI_TRY(list_shared(w, layer->children[i]));
    return BT_OK;
}

static bt_status put_model(bti_julia_writer *w, const char *key, const bt_layer *model) {
    w->visits = 0;
    put_layer(w, key, model);
    if (w->shared.count) {
        bti_put_level references;
        bti_put_begin(w, &references, "_backrefs", true);
        for (size_t i = 0; i < w->shared.count; i++)
            BT_SCOPE
                bti_put_array(w, bti_put_key(&references).text, bt_value(w->shared.items[i]));
        bti_put_end(w, &references);
    }
    if (w->status == BT_OK && w->failed) w->status = bti_fail(BT_INTERNAL, "libbson refused an element");
    return w->status;
}

static void *keep_buffer(void *memory, size_t bytes, void *unused) {
    (void)unused;
    return bti_realloc(memory, bytes);
}

/* Fills a document of the size that was counted, and writes it. */
static bt_status write_document(bti_julia_writer *w, const char *path, const char *key, const bt_layer *model) {
    size_t room = (size_t)w->bytes + SLACK;
    uint8_t *bytes = bti_alloc(room);
    if (!bytes) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes of BSON", room);
    static const uint8_t empty[5] = {5};
    memcpy(bytes, empty, sizeof empty);
    bson_t *document = bson_new_from_buffer(&bytes, &room, keep_buffer, NULL);
    w->at = document;
    bt_status status = put_model(w, key, model);
    bti_writer out = {.fd = -1};
    if (status == BT_OK) status = bti_writer_open(&out, path);
    if (status == BT_OK) status = bti_writer_add(&out, bson_get_data(document), document->len);
    if (status == BT_OK) status = bti_writer_commit(&out);
    bti_writer_discard(&out);
    bson_destroy(document);
    bti_free(bytes);
    return status;
}

static bt_status check_key(const char *key) {
    if (!key || !*key) return bti_fail(BT_INVALID_ARGUMENT, "the key is %s", key ? "empty" : "NULL");
    if (!strcmp(key, "_backrefs") || !bson_utf8_validate(key, strlen(key), false))
        return bti_fail(BT_INVALID_ARGUMENT, "the key \"%s\" is BSON.jl's own, or no UTF-8", bti_quote(key).text);
    return BT_OK;
}

bt_status bt_save_bson(const char *path, const char *key, const bt_layer *model) {
    BTI_PUBLIC("bt_save_bson");
    BTI_TRY(check_key(key));
    BTI_TRY(bt_layer_status(model));
    bti_julia_writer w = {.bytes = 5};
    bt_status status = list_shared(&w, model);
    if (status == BT_OK) status = put_model(&w, key, model);
    if (status == BT_OK && w.bytes > INT32_MAX - SLACK)
        status = bti_fail(BT_INVALID_ARGUMENT,
                          "the model takes %llu bytes as BSON, which can have 2 GiB (2147483647 bytes); bt_save_model "
                          "writes safetensors of any size",
                          (unsigned long long)w.bytes);
    if (status == BT_OK) status = write_document(&w, path, key, model);
    bti_vec_free(&w.seen);
    bti_vec_free(&w.shared);
    bti_str_free(&w.path);
    return status;
}

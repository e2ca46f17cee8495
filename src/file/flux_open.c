/* Layers of berth from Flux's structs. Julia's arrays are column-major: an array of size (a, b) is the row-major [b, a] of the same bytes, so a Dense layer's weight (out, in)
 * is [in, out], and a convolution's (K..., in, out) is [out, in, ...K]. Flux convolves, with the kernel flipped. */
#include <math.h>
#include <stdio.h>

#include <berth/layers.h>
#include <berth/random.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "file/flux.h"
#include "nn/layer.h"

enum { MOST_VISITS = 1 << 16 };

typedef struct tie {
    int node;
    bool flipped;
    bt_shared *variable;
} tie;

typedef struct reader {
    const bti_julia *j;
    bti_str path;
    BTI_VEC(tie) ties; /* variables made of arrays so far: one that is referred to again is tied */
    int visits;
} reader;

/* UNIMPLEMENTED or DATA_LOSS, with the place of the value in the file and in the model. */
static bt_status refuse_value(const reader *r, bt_status status, int node, const char *what) {
    return bti_bson_fail(&r->j->bson, status, node, "%s %s", bti_quote(bti_str_text(&r->path)).text, what);
}

/* Field i, which must be there. */
static bt_status field(const reader *r, const bti_julia_value *of, int i, bti_julia_value *value) {
    int item = bti_julia_item(r->j, of, i);
    if (item >= 0) return bti_julia_look(r->j, item, value);
    char what[200];
    snprintf(what, sizeof what, "is a %s with fewer fields than %d", of->name, i + 1);
    return refuse_value(r, BT_DATA_LOSS, of->node, what);
}

static bool is_nothing(const reader *r, const bti_julia_value *value) {
    const bti_bson_node *node = bti_bson_at(&r->j->bson, value->node);
    return value->kind == BTI_JULIA_PLAIN && node->kind == BTI_BSON_NULL;
}

static bool is_false(const reader *r, const bti_julia_value *value) {
    const bti_bson_node *node = bti_bson_at(&r->j->bson, value->node);
    return value->kind == BTI_JULIA_PLAIN && node->kind == BTI_BSON_BOOL && !node->integer;
}

static bt_status take_function(const reader *r, const bti_julia_value *value, bt_activation **function) {
    const bti_flux_function *known = value->kind == BTI_JULIA_STRUCT ? bti_flux_function_of(value) : NULL;
    if (known && bti_activation_find(known->berth, function)) {
        if (*function == bt_identity) *function = NULL;
        return BT_OK;
    }
    const char *last = value->kind == BTI_JULIA_STRUCT ? strchr(value->name, '#') : NULL;
    char what[300];
    if (last && last[1] >= '0' && last[1] <= '9')
        snprintf(what, sizeof what, "has the anonymous function %s, whose code berth cannot run", value->name);
    else
        snprintf(what, sizeof what, "has %s for a function, which berth has not",
                 *value->name ? value->name : "a value");
    return refuse_value(r, BT_UNIMPLEMENTED, value->node, what);
}

/* Up to three whole numbers >= 0 of a tuple, Julia's order. */
static bt_status take_tuple(const reader *r, const bti_julia_value *value, int64_t *sizes, int room, int *count) {
    *count = 0;
    bool good = value->kind == BTI_JULIA_TUPLE;
    for (int item = good ? bti_julia_item(r->j, value, 0) : -1; item >= 0;
         item = bti_bson_at(&r->j->bson, item)->next) {
        bti_julia_value size;
        BTI_TRY(bti_julia_look(r->j, item, &size));
        good = good && *count < room && !isnan(size.real) && size.integer >= 0 && size.integer < INT32_MAX;
        if (good) sizes[(*count)++] = size.integer;
    }
    return good ? BT_OK
                : refuse_value(r, BT_UNIMPLEMENTED, value->node, "has sizes that are no tuple of small whole numbers");
}

/* --- variables -------------------------------------------------------------------------------------------------------- */

/* Reverses the order of each kernel's elements: of all but the last two of Julia's axes. */
static void flip_kernels(char *bytes, size_t total, size_t kernel, size_t element) {
    for (size_t at = 0; at + kernel <= total; at += kernel)
        for (size_t low = 0, high = kernel - element; low < high; low += element, high -= element) {
            char swapped[8];
            memcpy(swapped, bytes + at + low, element);
            memcpy(bytes + at + low, bytes + at + high, element);
            memcpy(bytes + at + high, swapped, element);
        }
}

/* Julia's array as the row-major one of the same bytes, or with each kernel flipped. */
static bt_status take_value(const bti_julia_value *v, bool flipped, bt_array **array) {
    bt_shape shape = {.rank = v->rank};
    for (int d = 0; d < v->rank; d++) shape.size[d] = v->shape.size[v->rank - 1 - d];
    if (!flipped) return *array = bt_from(v->bytes, v->dtype, shape), BT_OK;
    char *bytes = bti_alloc(v->length);
    if (!bytes) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes of an array", v->length);
    memcpy(bytes, v->bytes, v->length);
    size_t element = bt_dtype_size(v->dtype), kernel = element;
    for (int d = 0; d < v->rank - 2; d++) kernel *= (size_t)v->shape.size[d];
    if (kernel) flip_kernels(bytes, v->length, kernel, element);
    *array = bt_from(bytes, v->dtype, shape);
    bti_free(bytes);
    return BT_OK;
}

static bt_status check_array(const reader *r, const bti_julia_value *v, int rank) {
    char what[200];
    if (v->kind == BTI_JULIA_ARRAY && v->rank == rank && v->dtype < BT_DTYPE_COUNT) return BT_OK;
    if (v->kind == BTI_JULIA_ARRAY)
        snprintf(what, sizeof what, "has an array of %d axes of %s; it must have %d axes of numbers", v->rank, v->name,
                 rank);
    else
        snprintf(what, sizeof what, "has no array where it should (%s)", *v->name ? v->name : "a plain value");
    return refuse_value(r, BT_UNIMPLEMENTED, v->node, what);
}

/* Puts the array in the place of variable i of a new layer, or the variable that was made of the same array. */
static bt_status set_variable(reader *r, bt_layer *layer, bti_variables kind, int i, const bti_julia_value *v,
                              bool flipped) {
    bt_array *before = bt_value(layer->variables[kind][i].shared);
    BTI_TRY(bti_fail_with(bti_array_error(before)));
    bt_shape has = bt_shape_of(before);
    bool fits = has.rank == v->rank;
    for (int d = 0; d < has.rank && fits; d++) fits = has.size[d] == v->shape.size[v->rank - 1 - d];
    if (!fits) return refuse_value(r, BT_DATA_LOSS, v->node, "has an array of another size than its others");
    for (size_t t = 0; t < r->ties.count; t++)
        if (r->ties.items[t].node == v->node && r->ties.items[t].flipped == flipped)
            return bti_layer_set_variable(layer, kind, i, r->ties.items[t].variable), BT_OK;
    bt_array *value = NULL;
    BTI_TRY(take_value(v, flipped, &value));
    bt_shared *variable = bt_shared_new(value, NULL);
    BTI_TRY(bt_shared_status(variable));
    if (!bti_vec_push(&r->ties, ((tie){v->node, flipped, variable}))) return bti_no_memory();
    bti_layer_set_variable(layer, kind, i, variable);
    return BT_OK;
}

/* --- layers ----------------------------------------------------------------------------------------------------------- */

static bt_status open_layer(reader *r, int node, int depth, bt_layer **layer);

/* The bias, field i, of `out` elements: *has_bias is false for `false`, `nothing` and Flux 0.12's Zeros. */
static bt_status take_bias(const reader *r, const bti_julia_value *of, int i, int64_t out, bti_julia_value *bias,
                           bool *has_bias) {
    BTI_TRY(field(r, of, i, bias));
    bool zeros = bias->kind == BTI_JULIA_STRUCT && bti_julia_is(bias, "Zeros");
    *has_bias = !is_false(r, bias) && !is_nothing(r, bias) && !zeros;
    if (!*has_bias) return BT_OK;
    BTI_TRY(check_array(r, bias, 1));
    return bias->shape.size[0] == out
               ? BT_OK
               : refuse_value(r, BT_DATA_LOSS, bias->node, "has a bias of another size than outputs");
}

static bt_array *zeros_of(bt_array *key, bt_dtype dtype, bt_shape shape) {
    (void)key;
    return bt_full_shape(0, dtype, shape);
}

static bt_status open_dense(reader *r, const bti_julia_value *of, bt_layer **layer) {
    bti_julia_value weight, bias, function;
    bt_activation *activation;
    bool has_bias;
    BTI_TRY(field(r, of, 0, &weight));
    BTI_TRY(check_array(r, &weight, 2));
    BTI_TRY(take_bias(r, of, 1, weight.shape.size[0], &bias, &has_bias));
    BTI_TRY(field(r, of, 2, &function));
    BTI_TRY(take_function(r, &function, &activation));
    bt_weight_options o = {.size = sizeof o, .init = zeros_of, .no_bias = !has_bias};
    *layer = bt_dense(weight.shape.size[1], weight.shape.size[0], activation, NULL, &o);
    BTI_TRY(bt_layer_status(*layer));
    BTI_TRY(set_variable(r, *layer, BTI_PARAMETERS, 0, &weight, false));
    return has_bias ? set_variable(r, *layer, BTI_PARAMETERS, 1, &bias, false) : BT_OK;
}

static bt_status open_embedding(reader *r, const bti_julia_value *of, bt_layer **layer) {
    bti_julia_value weight;
    BTI_TRY(field(r, of, 0, &weight));
    BTI_TRY(check_array(r, &weight, 2));
    bt_weight_options o = {.size = sizeof o, .init = zeros_of};
    *layer = bt_embedding_layer(weight.shape.size[1], weight.shape.size[0], NULL, &o);
    BTI_TRY(bt_layer_status(*layer));
    return set_variable(r, *layer, BTI_PARAMETERS, 0, &weight, false);
}

/* Julia's first axis is berth's last one. */
static void reverse_sizes(int64_t to[3], const int64_t *from, int axes) {
    for (int d = 0; d < axes; d++) to[axes - 1 - d] = from[d];
}

/* Field i: a size for each axis. */
static bt_status take_sizes(const reader *r, const bti_julia_value *of, int i, int axes, int64_t to[3]) {
    bti_julia_value value;
    int64_t sizes[3];
    int count;
    BTI_TRY(field(r, of, i, &value));
    BTI_TRY(take_tuple(r, &value, sizes, 3, &count));
    if (count != axes) return refuse_value(r, BT_DATA_LOSS, value.node, "has another number of sizes than axes");
    reverse_sizes(to, sizes, axes);
    return BT_OK;
}

/* Field i: a pad for each axis, or those before and behind each. */
static bt_status take_pads(const reader *r, const bti_julia_value *of, int i, int axes, int64_t to[3]) {
    bti_julia_value value;
    int64_t pads[6];
    int count;
    BTI_TRY(field(r, of, i, &value));
    BTI_TRY(take_tuple(r, &value, pads, 6, &count));
    if (count != axes && count != 2 * axes)
        return refuse_value(r, BT_DATA_LOSS, value.node, "has another number of pads than axes");
    for (int d = 0; d < axes && count == 2 * axes; d++) {
        if (pads[2 * d] != pads[2 * d + 1])
            return refuse_value(r, BT_UNIMPLEMENTED, value.node,
                                "has other pads before an axis than behind it, which "
                                "layers of berth have not");
        pads[d] = pads[2 * d];
    }
    reverse_sizes(to, pads, axes);
    return BT_OK;
}

static bt_status open_conv(reader *r, const bti_julia_value *of, bool transposed, bt_layer **layer) {
    bti_julia_value function, weight, bias, groups;
    bt_activation *activation;
    bool has_bias;
    bt_conv_layer_options o = {.size = sizeof o, .init = zeros_of};
    BTI_TRY(field(r, of, 0, &function));
    BTI_TRY(take_function(r, &function, &activation));
    BTI_TRY(field(r, of, 1, &weight));
    int axes = weight.rank - 2;
    if (axes < 1 || axes > 3) axes = 2;
    BTI_TRY(check_array(r, &weight, axes + 2));
    BTI_TRY(take_sizes(r, of, 3, axes, o.stride));
    int after = transposed && bti_julia_item(r->j, of, 7) >= 0; /* newer ones have outpad behind pad */
    BTI_TRY(take_pads(r, of, 4, axes, o.pad));
    if (after) BTI_TRY(take_sizes(r, of, 5, axes, o.output_pad));
    BTI_TRY(take_sizes(r, of, 5 + after, axes, o.dilation));
    o.groups = 1;
    if (bti_julia_item(r->j, of, 6 + after) >= 0) { /* since Flux 0.12 */
        BTI_TRY(field(r, of, 6 + after, &groups));
        o.groups = groups.integer;
    }
    if (o.groups < 1 || o.groups > INT32_MAX)
        return refuse_value(r, BT_DATA_LOSS, of->node, "has no positive number of groups");
    bt_shape kernel = {.rank = axes};
    reverse_sizes(kernel.size, weight.shape.size, axes);
    int64_t first = weight.shape.size[axes], second = weight.shape.size[axes + 1], wide;
    if (__builtin_mul_overflow(first, o.groups, &wide))
        return refuse_value(r, BT_DATA_LOSS, of->node, "has too many groups");
    int64_t in = transposed ? second : wide, out = transposed ? wide : second;
    BTI_TRY(take_bias(r, of, 2, out, &bias, &has_bias));
    o.no_bias = !has_bias;
    *layer = (transposed ? bt_conv_transposed_layer : bt_conv_layer)(in, out, kernel, activation, NULL, &o);
    BTI_TRY(bt_layer_status(*layer));
    BTI_TRY(set_variable(r, *layer, BTI_PARAMETERS, 0, &weight, true));
    return has_bias ? set_variable(r, *layer, BTI_PARAMETERS, 1, &bias, false) : BT_OK;
}

static bt_status open_pool(reader *r, const bti_julia_value *of, bool mean, bt_layer **layer) {
    bti_julia_value window;
    int64_t sizes[3];
    bt_pool_layer_options o = {.size = sizeof o};
    bt_shape shape = {0};
    BTI_TRY(field(r, of, 0, &window));
    BTI_TRY(take_tuple(r, &window, sizes, 3, &shape.rank));
    reverse_sizes(shape.size, sizes, shape.rank);
    BTI_TRY(take_pads(r, of, 1, shape.rank, o.pad));
    BTI_TRY(take_sizes(r, of, 2, shape.rank, o.stride));
    *layer = (mean ? bt_avg_pool_layer : bt_max_pool_layer)(shape, &o);
    return bt_layer_status(*layer);
}

/* λ, β, γ, μ, σ², ϵ, momentum, affine, track_stats, active, chs: where weight is γ and bias β. */
static bt_status open_batch_norm(reader *r, const bti_julia_value *of, bt_layer **layer) {
    bti_julia_value v[7];
    bt_activation *activation;
    for (int i = 0; i < 7; i++) BTI_TRY(field(r, of, i, &v[i]));
    BTI_TRY(take_function(r, &v[0], &activation));
    bool affine = !is_nothing(r, &v[2]), tracks = !is_nothing(r, &v[3]);
    for (int i = 1; i < 5; i++)
        if (i < 3 ? affine : tracks) BTI_TRY(check_array(r, &v[i], 1));
    int64_t channels = affine ? v[2].shape.size[0] : tracks ? v[3].shape.size[0] : 0;
    bti_julia_value count = {.integer = channels};
    if (bti_julia_item(r->j, of, 10) >= 0) BTI_TRY(field(r, of, 10, &count));
    if (!channels && count.integer > 0 && count.integer < 1 << 24) channels = count.integer;
    if (!(v[5].real > 0) || !(v[6].real > 0 && v[6].real <= 1))
        return refuse_value(r, BT_UNIMPLEMENTED, of->node, "has an ϵ or a momentum that is not in (0, 1]");
    bt_norm_options o = {
        .size = sizeof o, .eps = v[5].real, .momentum = v[6].real, .no_affine = !affine, .no_tracking = !tracks};
    bt_layer *norm = *layer = bt_batch_norm_layer(channels, &o);
    BTI_TRY(bt_layer_status(norm));
    if (affine) BTI_TRY(set_variable(r, norm, BTI_PARAMETERS, 0, &v[2], false));
    if (affine) BTI_TRY(set_variable(r, norm, BTI_PARAMETERS, 1, &v[1], false));
    if (tracks) BTI_TRY(set_variable(r, norm, BTI_STATES, 0, &v[3], false));
    if (tracks) BTI_TRY(set_variable(r, norm, BTI_STATES, 1, &v[4], false));
    if (!activation) return BT_OK;
    bt_layer *both[2] = {norm, bt_lambda(NULL, activation)};
    *layer = bt_chain_of(both, 2);
    return bt_layer_status(*layer);
}

static bt_status open_dropout(reader *r, const bti_julia_value *of, bt_layer **layer) {
    bti_julia_value rate, dims;
    BTI_TRY(field(r, of, 0, &rate));
    if (bti_julia_item(r->j, of, 1) >= 0) {
        BTI_TRY(field(r, of, 1, &dims));
        if (!(dims.kind == BTI_JULIA_STRUCT && bti_julia_is(&dims, "Colon")))
            return refuse_value(r, BT_UNIMPLEMENTED, dims.node,
                                "drops along some axes (dims), which berth's Dropout does not");
    }
    if (isnan(rate.real)) return refuse_value(r, BT_DATA_LOSS, rate.node, "has no number for p");
    *layer = bt_dropout_layer(rate.real, bt_key(0));
    return bt_layer_status(*layer);
}

/* --- layers of layers --------------------------------------------------------------------------------------------------- */

/* The layers of a tuple, named tuple or vector, field i. */
static bt_status open_chain(reader *r, const bti_julia_value *of, int i, int depth, bt_layer **chain) {
    bti_julia_value list;
    BTI_TRY(field(r, of, i, &list));
    int count = list.items < 0 ? 0 : bti_bson_at(&r->j->bson, list.items)->count, made = 0;
    bt_layer **layers = bti_calloc((size_t)count + 1, sizeof *layers);
    if (!layers) return bti_no_memory();
    bt_status status = BT_OK;
    size_t length = r->path.length;
    for (int item = bti_julia_item(r->j, &list, 0); item >= 0 && status == BT_OK;
         item = bti_bson_at(&r->j->bson, item)->next) {
        bti_str_addf(&r->path, ".layers.%d", made);
        status = open_layer(r, item, depth + 1, &layers[made++]);
        if (status == BT_OK) r->path.length = length;
    }
    if (status == BT_OK && r->path.text) r->path.text[length] = '\0';
    if (status == BT_OK) *chain = bt_chain_of(layers, count);
    if (status == BT_OK) status = bt_layer_status(*chain);
    bti_free(layers);
    return status;
}

static bt_status open_skip(reader *r, const bti_julia_value *of, int depth, bt_layer **layer) {
    bti_julia_value connection;
    bt_layer *inner;
    BTI_TRY(field(r, of, 1, &connection));
    if (!(connection.kind == BTI_JULIA_STRUCT && bti_julia_is(&connection, "#+")))
        return refuse_value(r, BT_UNIMPLEMENTED, connection.node, "has a connection that is not +");
    BTI_TRY(open_layer(r, bti_julia_item(r->j, of, 0), depth + 1, &inner));
    *layer = bt_skip(inner, bt_combine_sum);
    return bt_layer_status(*layer);
}

/* A struct without fields: a function as a layer. */
static bt_status open_function(reader *r, const bti_julia_value *of, bt_layer **layer) {
    bt_activation *activation;
    if (bti_julia_is(of, "#flatten"))
        *layer = bt_flatten_layer();
    else {
        BTI_TRY(take_function(r, of, &activation));
        *layer = bt_lambda(NULL, activation ? activation : bt_identity);
    }
    return bt_layer_status(*layer);
}

static bt_status open_struct(reader *r, const bti_julia_value *of, int depth, bt_layer **layer) {
    if (strchr(of->name, '#')) return open_function(r, of, layer);
    if (bti_julia_is(of, "Chain")) return open_chain(r, of, 0, depth, layer);
    if (bti_julia_is(of, "Dense")) return open_dense(r, of, layer);
    if (bti_julia_is(of, "Conv")) return open_conv(r, of, false, layer);
    if (bti_julia_is(of, "ConvTranspose")) return open_conv(r, of, true, layer);
    if (bti_julia_is(of, "BatchNorm")) return open_batch_norm(r, of, layer);
    if (bti_julia_is(of, "Dropout")) return open_dropout(r, of, layer);
    if (bti_julia_is(of, "Embedding")) return open_embedding(r, of, layer);
    if (bti_julia_is(of, "MaxPool")) return open_pool(r, of, false, layer);
    if (bti_julia_is(of, "MeanPool")) return open_pool(r, of, true, layer);
    if (bti_julia_is(of, "SkipConnection")) return open_skip(r, of, depth, layer);
    if (bti_julia_is(of, "GlobalMaxPool")) return *layer = bt_global_max_pool_layer(), bt_layer_status(*layer);
    if (bti_julia_is(of, "GlobalMeanPool")) return *layer = bt_global_avg_pool_layer(), bt_layer_status(*layer);
    char what[200];
    snprintf(what, sizeof what, "is a %s, for which berth has no layer", of->name);
    return refuse_value(r, BT_UNIMPLEMENTED, of->node, what);
}

static bt_status open_layer(reader *r, int node, int depth, bt_layer **layer) {
    bti_julia_value value;
    if (depth > BTI_LAYER_DEPTH || r->visits++ > MOST_VISITS)
        return refuse_value(r, BT_DATA_LOSS, node < 0 ? 0 : node, "is nested too deep, or too many layers are");
    if (node < 0) return refuse_value(r, BT_DATA_LOSS, 0, "has no layer");
    BTI_TRY(bti_julia_look(r->j, node, &value));
    if (value.kind == BTI_JULIA_STRUCT && !bti_julia_is(&value, "NamedTuple"))
        return open_struct(r, &value, depth, layer);
    bool state = value.kind == BTI_JULIA_STRUCT || value.kind == BTI_JULIA_DICT;
    return refuse_value(
        r, BT_FAILED_PRECONDITION, node,
        state ? "is no model but values by name (Flux.state?): make the model, and bt_load_model reads them "
                "into it, with `rename` and `torch`"
              : "is no model of Flux's");
}

/* --- which one ----------------------------------------------------------------------------------------------------------- */

/* A struct but no named tuple. */
static bool may_be_model(const bti_julia *j, int node) {
    bti_julia_value value;
    return bti_julia_look(j, node, &value) == BT_OK && value.kind == BTI_JULIA_STRUCT &&
           !bti_julia_is(&value, "NamedTuple");
}

static bt_status find_model(const bti_julia *j, const char *key, int *node) {
    bti_str keys = {0};
    int count = 0, found = 0;
    for (int i = bti_bson_at(&j->bson, 0)->first; i >= 0; i = bti_bson_at(&j->bson, i)->next) {
        const char *name = bti_bson_at(&j->bson, i)->key;
        if (!strcmp(name, "_backrefs")) continue;
        if (key ? !strcmp(name, key) : may_be_model(j, i)) *node = i, found++;
        if (count++ < 20) bti_str_addf(&keys, "%s\"%s\"", count > 1 ? ", " : "", bti_quote(name).text);
    }
    bt_status status = BT_OK;
    if (key && !found)
        status = bti_fail(BT_NOT_FOUND, "%s has no key \"%s\"; it has %s", j->bson.file->path, bti_quote(key).text,
                          count ? bti_str_text(&keys) : "none");
    else if (found > 1)
        status = bti_fail(BT_INVALID_ARGUMENT, "%s has several models, of %s; `key` says which", j->bson.file->path,
                          bti_str_text(&keys));
    else if (!found)
        status = bti_fail(BT_FAILED_PRECONDITION,
                          "%s has no model of Flux's, but %s; bt_tensors_open reads its arrays, and bt_load_model "
                          "loads them into a model, with `rename` and `torch`",
                          j->bson.file->path, count ? bti_str_text(&keys) : "no keys");
    bti_str_free(&keys);
    return status;
}

bt_status bti_flux_open(const bti_julia *j, const char *key, bt_layer **model) {
    int node = -1;
    BTI_TRY(find_model(j, key, &node));
    reader r = {.j = j};
    bti_str_add(&r.path, bti_bson_at(&j->bson, node)->key);
    bt_status status = open_layer(&r, node, 0, model);
    if (status == BT_OK) status = bti_layer_name_variables(*model);
    bti_vec_free(&r.ties);
    bti_str_free(&r.path);
    return status;
}

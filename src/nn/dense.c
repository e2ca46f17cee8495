/* Dense layers, embeddings, functions as layers; what layers with weights have in common. */
#include <math.h>
#include <stdio.h>

#include <berth/matrices.h>
#include <berth/precision.h>
#include <berth/random.h>

#include "array/move.h"
#include "array/place.h"
#include "base/alloc.h"
#include "base/sized.h"
#include "function/shared.h"
#include "nn/layer.h"
#include "ops/primitive.h"

/* --- weights -------------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_weight_options, name)
static const bti_member weight_members[] = {MEMBER(size), MEMBER(by_name), MEMBER(init), MEMBER(no_bias)};
#undef MEMBER
static const bti_sized_type weight_layout =
    BTI_SIZED_TYPE(bt_weight_options, "options", "BT_WEIGHT(.no_bias = true)", weight_members, NULL);

bt_array *bti_weight(bt_initializer *init, bt_initializer *unless, bt_array *key, bt_shape shape) {
    return (init ? init : unless)(key, BT_F32, shape);
}

bt_status bti_check_positive(int64_t size, const char *name) {
    return size > 0 ? BT_OK : bti_fail(BT_INVALID_ARGUMENT, "%s is %lld; it must be 1 or more", name, (long long)size);
}

bt_array *bti_bring_to_weight(bt_layer *layer, bt_array *x) {
    const bt_shared *weight = layer->variable_count[BTI_PARAMETERS] ? layer->variables[BTI_PARAMETERS][0].shared : NULL;
    if (!weight || bti_array_error(x) || !bti_shared_committed(weight) || !atomic_load(&bti_node_of(x)->committed))
        return x;
    int device = bti_shared_device(weight);
    return bti_node_of(x)->device == device || bti_transfer_refused(bti_node_of(x), device) ? x : bti_bring(x, device);
}

bt_array *bti_add_bias(bt_array *y, bt_array *bias) {
    bt_dtype lower = bt_autocast_dtype();
    bool casts = bt_dtype_of(y) == lower && bt_dtype_of(bias) == BT_F32;
    return bt_add(y, casts ? bt_cast(bias, lower) : bias);
}

/* --- activations ----------------------------------------------------------------------------------------------------------- */

const char *bti_activation_text(bt_activation *activation, char text[40]) {
    snprintf(text, 40, "%s%s", activation ? ", " : "", bti_activation_name(activation));
    return text;
}

/* --- dense ------------------------------------------------------------------------------------------------------------------- */

typedef struct dense_settings {
    bt_activation *activation;
    bool bias;
} dense_settings;

/* NULL: the sizes fit, or are not known, or the product says what is wrong. */
static bt_array *refuse_size(const bt_array *x, const bt_array *weight) {
    if (bti_array_error(x) || bti_array_error(weight) || !bti_rank(x)) return NULL;
    int64_t size = bti_shape(x)[bti_rank(x) - 1], in = bti_shape(weight)[0], out = bti_shape(weight)[1];
    if (bti_size_is_symbolic(size) || size == in) return NULL;
    BTI_CALL("bt_apply");
    int64_t all = bti_size_of_axes(x, UINT32_MAX - 1);
    bti_str flat = {0};
    if (bti_rank(x) > 2 && !bti_size_is_symbolic(all))
        bti_str_addf(&flat, ", and bt_dense(%lld, %lld, ...) takes it behind bt_flatten_layer()", (long long)all,
                     (long long)out);
    bt_array *refused = bti_poisonf(
        BT_INVALID_ARGUMENT,
        "x %s and the weight %s do not fit: the last axis of x must be %lld; bt_dense(%lld, %lld, ...) takes "
        "such an x%s",
        bti_shape_string(x).text, bti_shape_string(weight).text, (long long)in, (long long)size, (long long)out,
        bti_str_text(&flat));
    bti_str_free(&flat);
    return refused;
}

static bt_array *apply_dense(bt_layer *layer, bt_array *x, void *data) {
    const dense_settings *settings = data;
    x = bti_bring_to_weight(layer, x);
    bt_array *weight = bt_layer_parameter(layer, "weight"), *refused = refuse_size(x, weight);
    if (refused) return refused;
    bt_array *y = bt_matmul(x, weight);
    if (settings->bias) y = bti_add_bias(y, bt_layer_parameter(layer, "bias"));
    return bti_activate(settings->activation, y);
}

static bt_status check_dense(bt_array *weight, bt_array *bias) {
    BTI_TRY(bti_fail_with(bti_array_error(weight)));
    if (bias) BTI_TRY(bti_fail_with(bti_array_error(bias)));
    if (bt_rank(weight) != 2)
        return bti_fail(BT_INVALID_ARGUMENT, "the weight has %d axes; it must be [in, out]", bt_rank(weight));
    if (bias && (bt_rank(bias) != 1 || bt_size(bias, 0) != bt_size(weight, 1)))
        return bti_fail(BT_INVALID_ARGUMENT, "the bias has %lld elements and %d axes; it must be [out], out is %lld",
                        (long long)bt_count(bias), bt_rank(bias), (long long)bt_size(weight, 1));
    return BT_OK;
}

static bt_layer *make_dense(bt_array *weight, bt_array *bias, bt_activation *activation) {
    if (check_dense(weight, bias) != BT_OK) return bti_layer_own(NULL);
    dense_settings settings = {activation, bias};
    void *copy = bti_layer_settings(&settings, sizeof settings);
    if (!copy) return bti_no_settings();
    long long in = bt_size(weight, 0), out = bt_size(weight, 1);
    char text[120], name[40];
    snprintf(text, sizeof text, "(%lld => %lld%s%s)", in, out, bti_activation_text(activation, name),
             bias ? "" : "; bias=false");
    bt_layer *layer = bt_layer_new("Dense", apply_dense,
                                   BT_LAYER(.data = copy, .free_data = bti_free, .text = text,
                                            .parameters = {{"weight", weight}, {bias ? "bias" : NULL, bias}}));
    bti_layer_note(bti_layer_note(layer, "in", "%lld", in), "out", "%lld", out);
    bti_layer_note(layer, "bias", "%s", bias ? "true" : "false");
    return bti_layer_note(layer, "activation", "%s", bti_activation_name(activation));
}

bt_layer *bt_dense_from(bt_array *weight, bt_array *bias, bt_activation *activation) {
    BTI_CALL("bt_dense_from");
    return make_dense(weight, bias, activation);
}

static bt_status take_weight_options(const char *call, const bt_weight_options *given, bt_weight_options *known) {
    *known = (bt_weight_options){.size = sizeof *known};
    return given ? bti_options_take(&weight_layout, call, given, known) : BT_OK;
}

static bt_layer *draw_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key,
                            const bt_weight_options *o) {
    bt_array *weight = bti_weight(o->init, bt_init_glorot_uniform, key, BT_SHAPE(in, out));
    if (bti_fail_with(bti_array_error(weight)) != BT_OK) return bti_layer_own(NULL);
    return make_dense(weight, o->no_bias ? NULL : bt_zeros(BT_F32, out), activation);
}

bt_layer *bt_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key,
                   const bt_weight_options *options) {
    BTI_CALL("bt_dense");
    bt_weight_options o;
    if (take_weight_options("bt_dense", options, &o) != BT_OK) return bti_layer_own(NULL);
    bt_layer *layer = NULL;
    BT_SCOPE
        layer = bt_layer_retain(draw_dense(in, out, activation, key, &o));
    return bti_layer_own(layer);
}

/* --- embeddings ---------------------------------------------------------------------------------------------------------------- */

static bt_array *apply_embedding(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    return bt_take(bt_layer_parameter(layer, "weight"), bti_bring_to_weight(layer, x), 0);
}

bt_layer *bt_embedding_layer(int64_t count, int64_t depth, bt_array *key, const bt_weight_options *options) {
    BTI_CALL("bt_embedding_layer");
    bt_weight_options o;
    bool fits = take_weight_options("bt_embedding_layer", options, &o) == BT_OK &&
                bti_check_positive(count, "count") == BT_OK && bti_check_positive(depth, "depth") == BT_OK;
    if (!fits) return bti_layer_own(NULL);
    char text[80];
    snprintf(text, sizeof text, "(%lld => %lld)", (long long)count, (long long)depth);
    bt_layer *layer = NULL;
    BT_SCOPE {
        bt_array *weight = bti_weight(o.init, bt_normal_shape, key, BT_SHAPE(count, depth));
        layer = bt_layer_retain(
            bt_layer_new("Embedding", apply_embedding, BT_LAYER(.text = text, .parameters = {{"weight", weight}})));
    }
    bti_layer_note(layer, "count", "%lld", (long long)count);
    bti_layer_note(layer, "depth", "%lld", (long long)depth);
    return bti_layer_own(layer);
}

/* --- layers without parameters --------------------------------------------------------------------------------------------------- */

typedef struct lambda_settings {
    bt_activation *function;
} lambda_settings;

static bt_array *apply_lambda(bt_layer *layer, bt_array *x, void *data) {
    (void)layer;
    return ((const lambda_settings *)data)->function(x);
}

bt_layer *bt_lambda(const char *name, bt_activation *function) {
    BTI_CALL("bt_lambda");
    if (!function) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
        return bti_layer_own(NULL);
    }
    void *copy = bti_layer_settings(&(lambda_settings){function}, sizeof(lambda_settings));
    if (!copy) return bti_no_settings();
    bt_layer *layer = bt_layer_new(name ? name : bti_activation_name(function), apply_lambda,
                                   BT_LAYER(.data = copy, .free_data = bti_free, .text = ""));
    return bti_layer_note(layer, "function", "%s", bti_activation_name(function));
}

static bt_array *apply_flatten(bt_layer *layer, bt_array *x, void *unused) {
    (void)layer;
    (void)unused;
    return bt_flatten(x, 1);
}

bt_layer *bt_flatten_layer(void) {
    BTI_CALL("bt_flatten_layer");
    return bt_layer_new("Flatten", apply_flatten, NULL);
}

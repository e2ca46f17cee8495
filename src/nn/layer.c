#include "nn/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <berth/matrices.h>
#include <berth/precision.h>
#include <berth/random.h>

#include "array/move.h"
#include "array/place.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "function/shared.h"

bt_layer *bti_layer_new(const char *kind, bt_array *(*apply)(bt_layer *, bt_array *)) {
    bt_layer *layer = bti_owned_new(BTI_OWNED_LAYER, sizeof *layer);
    if (!layer) return (void)bti_no_memory(), NULL;
    layer->kind = kind;
    layer->apply = apply;
    return layer;
}

static void clear_layer(void *object) {
    bt_layer *layer = object;
    for (int i = 0; i < layer->child_count; i++) bt_layer_release(layer->children[i]);
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) bt_shared_release(layer->own[i]);
    bti_free(layer->children);
    bti_free(layer->name);
}

static bt_layer layer_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class layer_class = {BTI_OWNED_LAYER, sizeof(bt_layer), clear_layer, &layer_without_memory};

bt_layer *bti_layer_own(bt_layer *layer) { return bti_scope_own(&layer_class, layer); }
bt_layer *bt_layer_retain(bt_layer *layer) { return bti_handle_retain(&layer_class, layer, "bt_layer_retain"); }
void bt_layer_release(bt_layer *layer) { bti_handle_release(&layer_class, layer, "bt_layer_release"); }
bt_status bt_layer_status(const bt_layer *layer) { return bti_handle_check(BTI_OWNED_LAYER, layer, "bt_layer_status"); }

/* --- dense ------------------------------------------------------------------------------------------------------------ */

/* An input that is committed to another device is moved to the layer, even if the layer is smaller: weights stay where they were put. */
static bt_array *bring_to_weight(const bt_shared *weight, bt_array *x) {
    if (bti_array_error(x) || !bti_shared_committed(weight) || !atomic_load(&bti_node_of(x)->committed)) return x;
    int device = bti_shared_device(weight);
    return bti_node_of(x)->device == device || bti_transfer_refused(bti_node_of(x), device) ? x : bti_bring(x, device);
}

/* In an autocast block a layer gives the dtype of its product. */
static bt_array *add_bias(bt_array *y, bt_array *bias) {
    bt_dtype lower = bt_autocast_dtype();
    bool casts = bt_dtype_of(y) == lower && bt_dtype_of(bias) == BT_F32;
    return bt_add(y, casts ? bt_cast(bias, lower) : bias);
}

static bt_array *apply_dense(bt_layer *layer, bt_array *x) {
    x = bring_to_weight(layer->own[0], x);
    bt_array *y = bt_matmul(x, bt_value(layer->own[0]));
    if (layer->own[1]) y = add_bias(y, bt_value(layer->own[1]));
    return layer->activation ? layer->activation(y) : y;
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

/* With one reference, the caller's; NULL with the cause in the error record. */
static bt_layer *make_dense_layer(bt_array *weight, bt_array *bias, bt_activation *activation) {
    if (check_dense(weight, bias) != BT_OK) return NULL;
    bt_layer *layer = bti_layer_new("Dense", apply_dense);
    if (!layer) return NULL;
    layer->activation = activation;
    layer->own_names[0] = "weight";
    layer->own_names[1] = "bias";
    bt_array *values[] = {weight, bias};
    for (int i = 0; i < 2 && values[i]; i++) {
        BT_SCOPE
            layer->own[i] = bt_shared_retain(bt_shared_new(values[i], NULL));
        if (bt_shared_status(layer->own[i]) != BT_OK) {
            bt_layer_release(layer);
            return NULL;
        }
        bt_shared_set_name(layer->own[i], layer->own_names[i]);
    }
    return layer;
}

bt_layer *bt_dense_from(bt_array *weight, bt_array *bias, bt_activation *activation) {
    BTI_CALL("bt_dense_from");
    return bti_layer_own(make_dense_layer(weight, bias, activation));
}

bt_layer *bt_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key) {
    BTI_CALL("bt_dense");
    bt_layer *layer = NULL;
    BT_SCOPE {
        double both = (double)in + (double)out, bound = sqrt(6.0 / (both > 0 ? both : 1));
        bt_array *weight = bt_uniform_shape(key, -bound, bound, BT_F32, BT_SHAPE(in, out));
        if (bti_fail_with(bti_array_error(weight)) == BT_OK)
            layer = make_dense_layer(weight, bt_zeros(BT_F32, out), activation);
    }
    return bti_layer_own(layer);
}

/* --- layers without parameters ---------------------------------------------------------------------------------------- */

static bt_array *apply_lambda(bt_layer *layer, bt_array *x) { return layer->activation(x); }

bt_layer *bt_lambda(const char *name, bt_activation *function) {
    BTI_CALL("bt_lambda");
    bt_layer *layer = NULL;
    if (function)
        layer = bti_layer_new("Function", apply_lambda);
    else
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
    if (layer) {
        layer->activation = function;
        layer->name = name ? bti_strdup(name) : NULL;
    }
    return bti_layer_own(layer);
}

static bt_array *apply_flatten(bt_layer *layer, bt_array *x) {
    (void)layer;
    return bt_flatten(x, 1);
}

bt_layer *bt_flatten_layer(void) { return bti_layer_own(bti_layer_new("Flatten", apply_flatten)); }

bt_array *bt_softmax_last(bt_array *x) {
    BTI_PUBLIC("bt_softmax_last");
    BTI_RETURN(bt_softmax(x, -1));
}

const char *bti_activation_name(bt_activation *activation) {
    static const struct {
        bt_activation *function;
        const char *name;
    } known[] = {{bt_relu, "relu"}, {bt_sigmoid, "sigmoid"},   {bt_tanh, "tanh"},         {bt_gelu, "gelu"},
                 {bt_silu, "silu"}, {bt_softplus, "softplus"}, {bt_identity, "identity"}, {bt_softmax_last, "softmax"}};
    if (!activation) return "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].function == activation) return known[i].name;
    return "function";
}

/* --- chain ------------------------------------------------------------------------------------------------------------ */

static bt_array *apply_chain(bt_layer *layer, bt_array *x) {
    for (int i = 0; i < layer->child_count; i++) x = bt_apply(layer->children[i], x);
    return x;
}

/* Names parameters by their path in the tree: "0.weight". Goes from the last child to the first, so that a parameter with several paths
 * gets the first one. */
static void name_parameters(bt_layer *layer, const char *path) {
    char name[256];
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!layer->own[i]) continue;
        snprintf(name, sizeof name, "%s%s", path, layer->own_names[i]);
        bt_shared_set_name(layer->own[i], name);
    }
    for (int i = layer->child_count - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "%s%d.", path, i);
        name_parameters(layer->children[i], name);
    }
}

static int depth_over(bt_layer *const *layers, int count) {
    int depth = 0;
    for (int i = 0; i < count; i++)
        if (layers[i]->depth >= depth) depth = layers[i]->depth + 1;
    return depth;
}

static bt_status check_chain(bt_layer *const *layers, int count) {
    BTI_TRY(bti_check_list(layers, count, "layers"));
    for (int i = 0; i < count; i++) {
        if (!layers[i]) return bti_fail(BT_INVALID_ARGUMENT, "layer %d is NULL", i + 1);
        BTI_TRY(bt_layer_status(layers[i]));
    }
    if (depth_over(layers, count) <= BTI_LAYER_DEPTH) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "chains are nested more than %d levels deep; list the layers in one chain",
                    BTI_LAYER_DEPTH);
}

bt_layer *bt_chain_of(bt_layer *const *layers, int count) {
    BTI_CALL("bt_chain");
    bt_layer *chain = check_chain(layers, count) == BT_OK ? bti_layer_new("Chain", apply_chain) : NULL;
    if (!chain) return bti_layer_own(NULL);
    chain->depth = depth_over(layers, count);
    chain->children = bti_alloc((size_t)count * sizeof *layers);
    if (!chain->children) {
        bt_layer_release(chain);
        return (void)bti_no_memory(), bti_layer_own(NULL);
    }
    for (int i = 0; i < count; i++) chain->children[chain->child_count++] = bt_layer_retain(layers[i]);
    name_parameters(chain, "");
    return bti_layer_own(chain);
}

/* --- applying --------------------------------------------------------------------------------------------------------- */

bt_array *bt_apply(bt_layer *layer, bt_array *x) {
    bti_error *error = bti_handle_error(BTI_OWNED_LAYER, layer, "bt_apply");
    if (error) return bti_poison(bti_error_retain(error));
    bt_array *y = NULL;
    BT_SCOPE
        y = bt_keep(layer->apply(layer, x));
    return y ? y : bti_poisonf(BT_INVALID_ARGUMENT, "bt_apply: a function of the layer gave NULL");
}

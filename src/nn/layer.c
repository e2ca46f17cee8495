#include "nn/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <berth/random.h>

#include "array/shared.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"

static bt_layer *no_memory(void) {
    (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    return NULL;
}

bt_layer *bti_layer_new(const char *kind, bt_array *(*apply)(bt_layer *, bt_array *)) {
    bt_layer *layer = bti_calloc(1, sizeof *layer);
    if (!layer) return no_memory();
    atomic_init(&layer->refs, 1);
    layer->kind = kind;
    layer->apply = apply;
    return layer;
}

bt_layer *bt_layer_retain(bt_layer *layer) {
    if (layer) atomic_fetch_add_explicit(&layer->refs, 1, memory_order_relaxed);
    return layer;
}

void bt_layer_release(bt_layer *layer) {
    if (!layer || atomic_fetch_sub_explicit(&layer->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < layer->child_count; i++) bt_layer_release(layer->children[i]);
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) bt_shared_release(layer->own[i]);
    bti_free(layer->children);
    bti_free(layer->name);
    bti_free(layer);
}

static void release(void *layer) { bt_layer_release(layer); }
bt_layer *bti_layer_own(bt_layer *layer) { return bti_scope_own(layer, release); }

/* --- dense ------------------------------------------------------------------------------------------------------------ */

/* An input that is committed elsewhere goes to the layer, however small that is: weights stay where they were put. */
static bt_array *brought(const bt_shared *weight, bt_array *x) {
    if (bti_array_error(x) || !bti_shared_committed(weight) || !atomic_load(&bti_node_of(x)->committed)) return x;
    int device = bti_shared_device(weight);
    return bti_node_of(x)->device == device || bti_transfer_refused(bti_node_of(x), device) ? x : bti_bring(x, device);
}

static bt_array *apply_dense(bt_layer *layer, bt_array *x) {
    x = brought(layer->own[0], x);
    bt_array *y = bt_matmul(x, bt_value(layer->own[0]));
    if (layer->own[1]) y = bt_add(y, bt_value(layer->own[1]));
    return layer->activation ? layer->activation(y) : y;
}

/* Of poisoned ones bt_shared_new will give the cause. */
static bool dense_fits(bt_array *weight, bt_array *bias) {
    if (!weight || bt_peek_status(weight) != BT_OK || (bias && bt_peek_status(bias) != BT_OK)) return true;
    if (bt_rank(weight) != 2)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the weight has %d axes; it must be [in, out]", bt_rank(weight));
    else if (bias && (bt_rank(bias) != 1 || bt_size(bias, 0) != bt_size(weight, 1)))
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the bias has %lld elements and %d axes; it must be [out], out is %lld",
                        (long long)bt_count(bias), bt_rank(bias), (long long)bt_size(weight, 1));
    else
        return true;
    return false;
}

bt_layer *bt_dense_from(bt_array *weight, bt_array *bias, bt_activation *activation) {
    BTI_CALL("bt_dense_from");
    if (!dense_fits(weight, bias)) return NULL;
    bt_layer *layer = bti_layer_new("Dense", apply_dense);
    if (!layer) return NULL;
    layer->activation = activation;
    layer->own_names[0] = "weight";
    layer->own_names[1] = "bias";
    BT_SCOPE {
        layer->own[0] = bt_shared_retain(bt_shared_new(weight, NULL));
        if (bias) layer->own[1] = bt_shared_retain(bt_shared_new(bias, NULL));
    }
    if (layer->own[0] && (layer->own[1] || !bias)) {
        bt_shared_set_name(layer->own[0], "weight");
        if (bias) bt_shared_set_name(layer->own[1], "bias");
        return bti_layer_own(layer);
    }
    bt_layer_release(layer);
    return NULL;
}

bt_layer *bt_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key) {
    BTI_CALL("bt_dense");
    bt_layer *layer = NULL;
    BT_SCOPE {
        double both = (double)in + (double)out, bound = sqrt(6.0 / (both > 0 ? both : 1));
        bt_array *weight = bt_uniform_shape(key, -bound, bound, BT_F32, BT_SHAPE(in, out));
        layer = bt_layer_retain(bt_dense_from(weight, bt_zeros(BT_F32, out), activation));
    }
    return bti_layer_own(layer);
}

/* --- layers without parameters ---------------------------------------------------------------------------------------- */

static bt_array *apply_lambda(bt_layer *layer, bt_array *x) { return layer->activation(x); }

bt_layer *bt_lambda(const char *name, bt_activation *function) {
    BTI_CALL("bt_lambda");
    if (!function) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
        return NULL;
    }
    bt_layer *layer = bti_layer_new("Function", apply_lambda);
    if (!layer) return NULL;
    layer->activation = function;
    layer->name = name ? bti_strdup(name) : NULL;
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

/* Parameters are named by their way through the tree: "0.weight". From the last to the first, so that of several ways to one
 * the first names it. */
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

bt_layer *bt_chain_of(bt_layer *const *layers, int count) {
    BTI_CALL("bt_chain");
    if (count < 0 || (count && !layers)) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, count < 0 ? "%d layers" : "the list of %d layers is NULL", count);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (layers[i]) continue;
        if (bt_error_status() == BT_OK) (void)!bti_fail(BT_INVALID_ARGUMENT, "layer %d is NULL", i + 1);
        return NULL; /* else its maker has said why */
    }
    int depth = 0;
    for (int i = 0; i < count; i++)
        if (layers[i]->depth >= depth) depth = layers[i]->depth + 1;
    if (depth > BTI_LAYER_DEPTH) {
        (void)!bti_fail(BT_INVALID_ARGUMENT,
                        "bt_chain: chains are nested more than %d levels deep; list the layers in one chain",
                        BTI_LAYER_DEPTH);
        return NULL;
    }
    bt_layer *chain = bti_layer_new("Chain", apply_chain);
    if (!chain) return NULL;
    chain->depth = depth;
    chain->children = bti_alloc((size_t)count * sizeof *layers);
    if (!chain->children) {
        bt_layer_release(chain);
        return no_memory();
    }
    for (int i = 0; i < count; i++) chain->children[chain->child_count++] = bt_layer_retain(layers[i]);
    name_parameters(chain, "");
    return bti_layer_own(chain);
}

/* --- applying --------------------------------------------------------------------------------------------------------- */

bt_array *bt_apply(bt_layer *layer, bt_array *x) {
    if (!layer) return bti_poisonf(BT_INVALID_ARGUMENT, "bt_apply: the layer is NULL");
    bt_array *y = NULL;
    BT_SCOPE
        y = bt_keep(layer->apply(layer, x));
    return y ? y : bti_poisonf(BT_INVALID_ARGUMENT, "bt_apply: a function of the layer gave NULL");
}

/* --- the tree --------------------------------------------------------------------------------------------------------- */

typedef struct parameter_walk {
    const bt_layer *root;
    int steps;              /* parameters passed, again and again those of a layer that is used several times */
    bt_shared **parameters; /* room for `capacity` of them */
    int capacity, count;
    int64_t numbers;
} parameter_walk;

/* Whether the first `*steps` parameters of the tree have it among them. */
static bool passed(const bt_layer *layer, const bt_shared *parameter, int *steps) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++)
        if (layer->own[i] && (*steps)-- > 0 && layer->own[i] == parameter) return true;
    for (int i = 0; i<layer->child_count && * steps> 0; i++)
        if (passed(layer->children[i], parameter, steps)) return true;
    return false;
}

/* Each parameter once, where the tree first has it. */
static void walk_parameters(const bt_layer *layer, parameter_walk *walk) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!layer->own[i]) continue;
        int steps = walk->steps++;
        if (passed(walk->root, layer->own[i], &steps)) continue;
        if (walk->count < walk->capacity) walk->parameters[walk->count] = layer->own[i];
        walk->count++;
        BT_SCOPE
            walk->numbers += bt_count(bt_value(layer->own[i]));
    }
    for (int i = 0; i < layer->child_count; i++) walk_parameters(layer->children[i], walk);
}

int bt_parameters(const bt_layer *layer, bt_shared **parameters, int capacity) {
    parameter_walk walk = {.root = layer, .parameters = parameters, .capacity = parameters ? capacity : 0};
    if (!parameters && capacity > 0)
        (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_parameters: the list for %d parameters is NULL", capacity);
    if (layer) walk_parameters(layer, &walk);
    return walk.count;
}

int64_t bt_parameter_count(const bt_layer *layer) {
    parameter_walk walk = {.root = layer};
    if (layer) walk_parameters(layer, &walk);
    return walk.numbers;
}

/* --- mapping ---------------------------------------------------------------------------------------------------------- */

typedef struct mapping {
    bt_map_fn *fn;
    void *data;
    BTI_VEC(const bt_layer *) from; /* mapped so far: a layer that is used several times becomes one */
    BTI_VEC(bt_layer *) to;
} mapping;

static bool map_own(mapping *m, const bt_layer *from, bt_layer *to) {
    for (int i = 0; i < BTI_LAYER_PARAMETERS; i++) {
        if (!from->own[i]) continue;
        BT_SCOPE
            to->own[i] = bt_shared_retain(bt_shared_new(m->fn(bt_value(from->own[i]), m->data), NULL));
        if (!to->own[i]) return false;
        bt_shared_set_name(to->own[i], bt_shared_name(from->own[i]));
    }
    return true;
}

/* A copy of the tree, with one reference, the caller's. */
static bt_layer *map_tree(mapping *m, const bt_layer *layer) {
    for (size_t i = 0; i < m->to.count; i++)
        if (m->from.items[i] == layer) return bt_layer_retain(m->to.items[i]);
    bt_layer *copy = bti_layer_new(layer->kind, layer->apply);
    if (!copy) return NULL;
    copy->activation = layer->activation;
    copy->depth = layer->depth;
    memcpy(copy->own_names, layer->own_names, sizeof copy->own_names);
    bool whole = (!layer->name || (copy->name = bti_strdup(layer->name))) && map_own(m, layer, copy);
    if (whole && layer->child_count)
        whole = (copy->children = bti_calloc((size_t)layer->child_count, sizeof *copy->children));
    for (int i = 0; i < layer->child_count && whole; i++) {
        copy->children[i] = map_tree(m, layer->children[i]);
        whole = copy->children[i];
        copy->child_count += whole;
    }
    if (whole && bti_vec_push(&m->from, layer) && bti_vec_push(&m->to, copy)) return copy;
    bt_layer_release(copy);
    return whole ? no_memory() : NULL;
}

bt_layer *bt_fmap(bt_map_fn *fn, void *data, const bt_layer *layer) {
    if (layer && fn) {
        mapping m = {.fn = fn, .data = data};
        bt_layer *copy = map_tree(&m, layer);
        bti_vec_free(&m.from);
        bti_vec_free(&m.to);
        return bti_layer_own(copy);
    }
    BTI_CALL("bt_fmap");
    (void)!bti_fail(BT_INVALID_ARGUMENT, "the %s is NULL", layer ? "function" : "layer");
    return NULL;
}

/* berth/nn.h: layers, trees of parameters, optimisers.
 *
 * A model is any function with a tree of parameters; the layers here are one way to write it. A `bt_layer` is a node of a tree:
 * its own parameters (shared variables), its children, and a function from an array to an array. Like arrays, layers and
 * optimisers belong to the innermost scope of the thread that makes them, and may be used from any thread; bt_layer_retain and
 * bt_layer_release (bt_optimizer_...) are for those that live longer.
 *
 * Errors. What makes one never returns NULL: a layer or an optimizer that cannot be made is poisoned, as an array. It carries the
 * first cause, which also goes to the error record; each use of it fails with that cause, and layers made of it carry it on.
 * bt_layer_status tells at once. A released one is refused with INVALID_ARGUMENT, which names what made and what released it.
 */
#ifndef BERTH_NN_H
#define BERTH_NN_H

#include <berth/grad.h>
#include <berth/ops.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

typedef struct bt_layer bt_layer;
typedef bt_array *bt_activation(bt_array *x);

/* x @ W + b, then the activation (NULL: none): [..., in] -> [..., out]. W [in, out] by Glorot's uniform rule from the key
 * (Glorot & Bengio 2010), b [out] zeros; float32. On the block's device. */
BT_API bt_layer *bt_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key);
#define bt_dense(...) BTI_AT(bt_layer *, bt_dense(__VA_ARGS__))
/* The same from given W and b (b NULL: none). */
BT_API bt_layer *bt_dense_from(bt_array *weight, bt_array *bias, bt_activation *activation);
#define bt_dense_from(...) BTI_AT(bt_layer *, bt_dense_from(__VA_ARGS__))
/* Any function as a layer without parameters: bt_softmax_last, bt_relu, yours. `name` is copied, for the summary. */
BT_API bt_layer *bt_lambda(const char *name, bt_activation *function);
#define bt_lambda(...) BTI_AT(bt_layer *, bt_lambda(__VA_ARGS__))
/* [B, ...] -> [B, rest]. */
BT_API bt_layer *bt_flatten_layer(void);
#define bt_flatten_layer(...) BTI_AT(bt_layer *, bt_flatten_layer(__VA_ARGS__))
/* One after the other; it shares its layers. Chains within chains: at most 200 levels (INVALID_ARGUMENT). A poisoned or released one or a
 * NULL among them poisons it. `bt_chain(a, b, c)`. */
BT_API bt_layer *bt_chain_of(bt_layer *const *layers, int count);
#ifdef __cplusplus
}
static inline bt_layer *bti_chain_list(std::initializer_list<bt_layer *> layers) {
    return bt_chain_of(layers.begin(), (int)layers.size());
}
extern "C" {
#define bt_chain(...) BTI_AT(bt_layer *, bti_chain_list({__VA_ARGS__}))
#else
#define bt_chain(...)                                                \
    BTI_AT(bt_layer *, bt_chain_of((bt_layer *const[]){__VA_ARGS__}, \
                                   (int)(sizeof((bt_layer *const[]){__VA_ARGS__}) / sizeof(bt_layer *))))
#endif
BT_API bt_layer *bt_layer_retain(bt_layer *layer);
#define bt_layer_retain(...) BTI_AT(bt_layer *, bt_layer_retain(__VA_ARGS__))
BT_API void bt_layer_release(bt_layer *layer); /* NULL is fine */
#define bt_layer_release(...) BTI_AT_VOID(bt_layer_release(__VA_ARGS__))
/* BT_OK when it can be used; else why not, with the cause in the error record. */
BT_API bt_status bt_layer_status(const bt_layer *layer);
#define bt_layer_status(...) BTI_AT_STATUS(bt_layer_status(__VA_ARGS__))

/* Softmax over the last axis, as an activation. */
BT_API bt_array *bt_softmax_last(bt_array *x);

/* layer(x). A layer that cannot be used gives an array that is poisoned by its cause. An x that is committed to another device than a committed
 * Dense layer is copied to the layer, by the policy of transfers: weights stay where they were put. */
BT_API bt_array *bt_apply(bt_layer *layer, bt_array *x);
#define bt_apply(...) BTI_AT(bt_array *, bt_apply(__VA_ARGS__))

/* --- the tree ------------------------------------------------------------------------------------------------------- */

/* Its parameters, in order, children's too: "0.weight", "0.bias", "1.weight"... One of a layer that is used several times
 * counts once, by its first way through the tree. Returns how many there are; writes up to `capacity` of them (borrowed). Of a layer
 * that cannot be used: 0, with the cause in the error record. */
BT_API int bt_parameters(const bt_layer *layer, bt_shared **parameters, int capacity);
/* Numbers in all of them. */
BT_API int64_t bt_parameter_count(const bt_layer *layer);

/* A tree like `layer` with every parameter replaced by fn(parameter's value); functions and structure are shared, a
 * layer that is used several times becomes one that is (Flux's fmap). */
typedef bt_array *bt_map_fn(bt_array *value, void *data);
BT_API bt_layer *bt_fmap(bt_map_fn *fn, void *data, const bt_layer *layer);
#define bt_fmap(...) BTI_AT(bt_layer *, bt_fmap(__VA_ARGS__))
/* The tree on another device: every parameter moved. bt_layer_gpu without a GPU gives an equal tree, and never fails for
 * that. */
BT_API bt_layer *bt_layer_to(const bt_layer *layer, const char *device);
#define bt_layer_to(...) BTI_AT(bt_layer *, bt_layer_to(__VA_ARGS__))
BT_API bt_layer *bt_layer_gpu(const bt_layer *layer);
#define bt_layer_gpu(...) BTI_AT(bt_layer *, bt_layer_gpu(__VA_ARGS__))
BT_API bt_layer *bt_layer_cpu(const bt_layer *layer);
#define bt_layer_cpu(...) BTI_AT(bt_layer *, bt_layer_cpu(__VA_ARGS__))

/* "Chain(\n  Dense(10 => 5, sigmoid),      # 55 parameters\n ..." Yours: bt_free. */
BT_API char *bt_summary(const bt_layer *layer);
#define bt_summary(...) BTI_AT(char *, bt_summary(__VA_ARGS__))

/* --- tuples: several arrays moved alike ----------------------------------------------------------------------------- */

/* Moves each of arrays[] in place: arrays[i] = bt_to(arrays[i], device). bt_gpu_all does nothing without a GPU. Names, where a
 * caller keeps them beside, are untouched. */
BT_API void bt_to_all(bt_array **arrays, int count, const char *device);
#define bt_to_all(...) BTI_AT_VOID(bt_to_all(__VA_ARGS__))
BT_API void bt_gpu_all(bt_array **arrays, int count);
#define bt_gpu_all(...) BTI_AT_VOID(bt_gpu_all(__VA_ARGS__))
BT_API void bt_cpu_all(bt_array **arrays, int count);
#define bt_cpu_all(...) BTI_AT_VOID(bt_cpu_all(__VA_ARGS__))

/* --- optimisers ------------------------------------------------------------------------------------------------------ */

typedef struct bt_optimizer bt_optimizer;

/* p -= rate * g. */
BT_API bt_optimizer *bt_sgd(double rate);
#define bt_sgd(...) BTI_AT(bt_optimizer *, bt_sgd(__VA_ARGS__))
/* v = momentum * v + g; p -= rate * v. */
BT_API bt_optimizer *bt_momentum(double rate, double momentum);
#define bt_momentum(...) BTI_AT(bt_optimizer *, bt_momentum(__VA_ARGS__))
/* Adam (Kingma & Ba 2015), bias-corrected, epsilon outside the root. */
BT_API bt_optimizer *bt_adam(double rate, double beta1, double beta2, double epsilon);
#define bt_adam(...) BTI_AT(bt_optimizer *, bt_adam(__VA_ARGS__))
BT_API bt_optimizer *bt_optimizer_retain(bt_optimizer *optimizer);
#define bt_optimizer_retain(...) BTI_AT(bt_optimizer *, bt_optimizer_retain(__VA_ARGS__))
BT_API void bt_optimizer_release(bt_optimizer *optimizer); /* NULL is fine; its states go with it */
#define bt_optimizer_release(...) BTI_AT_VOID(bt_optimizer_release(__VA_ARGS__))
/* As bt_layer_status. */
BT_API bt_status bt_optimizer_status(const bt_optimizer *optimizer);
#define bt_optimizer_status(...) BTI_AT_STATUS(bt_optimizer_status(__VA_ARGS__))

/* One update of parameters[i] by grads[i], all in one step (bt_set_all); states (velocities) are made at the first call, where
 * the parameters are, and belong to the calling thread's replica. */
BT_API bt_status bt_optimizer_step(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads,
                                   int count);
#define bt_optimizer_step(...) BTI_AT_STATUS(bt_optimizer_step(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

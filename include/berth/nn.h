/* berth/nn.h: layers and trees of parameters.
 *
 * A model is any function with a tree of parameters; the layers here are one way to write it. A `bt_layer` is a node of
 * a tree: its own parameters (shared variables), its children, and a function from an array to an array. Like arrays,
 * layers belong to the innermost scope of the thread that makes them, and may be used from any thread. bt_layer_retain
 * and bt_layer_release are for those that live longer.
 *
 * Errors. A layer that cannot be made is poisoned, like an array; it is never NULL. It carries the
 * first cause, which is also put into the error record. Each use fails with that cause, and a layer with a poisoned
 * child is poisoned too. bt_layer_status reports it at once. A released one is refused with INVALID_ARGUMENT; the text
 * names the line that made it and the line that released it.
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

/* x @ W + b, then the activation (NULL: none): [..., in] -> [..., out]. W [in, out] is drawn with the key by Glorot's
 * uniform rule (Glorot & Bengio 2010), b [out] is zero; both are float32, on the device of the BT_ON block or the
 * default device. */
BT_API bt_layer *bt_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key);
#define bt_dense(...) BTI_AT(bt_layer *, bt_dense(__VA_ARGS__))
/* The same with the given W [in, out] and b [out] (b NULL: none). */
BT_API bt_layer *bt_dense_from(bt_array *weight, bt_array *bias, bt_activation *activation);
#define bt_dense_from(...) BTI_AT(bt_layer *, bt_dense_from(__VA_ARGS__))
/* A function as a layer without parameters: bt_softmax_last, bt_relu, or one of the program. `name` is copied;
 * bt_summary prints it. */
BT_API bt_layer *bt_lambda(const char *name, bt_activation *function);
#define bt_lambda(...) BTI_AT(bt_layer *, bt_lambda(__VA_ARGS__))
/* [B, ...] -> [B, product of the other sizes]. */
BT_API bt_layer *bt_flatten_layer(void);
#define bt_flatten_layer(...) BTI_AT(bt_layer *, bt_flatten_layer(__VA_ARGS__))
/* Applies the layers in order: `bt_chain(a, b, c)`. The chain shares its layers, it does not copy them. Chains may be
 * nested up to 200 levels deep (INVALID_ARGUMENT). A NULL, poisoned or released layer poisons the chain. */
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
/* An additional owner, outside of all scopes; each bt_layer_retain needs one bt_layer_release. */
BT_API bt_layer *bt_layer_retain(bt_layer *layer);
#define bt_layer_retain(...) BTI_AT(bt_layer *, bt_layer_retain(__VA_ARGS__))
BT_API void bt_layer_release(bt_layer *layer); /* NULL is accepted */
#define bt_layer_release(...) BTI_AT_VOID(bt_layer_release(__VA_ARGS__))
/* BT_OK when it can be used; else its error, with the cause in the error record. */
BT_API bt_status bt_layer_status(const bt_layer *layer);
#define bt_layer_status(...) BTI_AT_STATUS(bt_layer_status(__VA_ARGS__))

/* bt_softmax over the last axis, as an activation. */
BT_API bt_array *bt_softmax_last(bt_array *x);

/* layer(x). A poisoned layer gives a poisoned array. If x and the weights of a Dense layer are committed to different
 * devices, x is copied to the device of the layer, as the transfer policy (BT_TRANSFERS) allows; weights are never
 * moved. */
BT_API bt_array *bt_apply(bt_layer *layer, bt_array *x);
#define bt_apply(...) BTI_AT(bt_array *, bt_apply(__VA_ARGS__))

/* --- the tree ------------------------------------------------------------------------------------------------------- */

/* The layer's parameters and those of its children, in order: "0.weight", "0.bias", "1.weight"... A parameter of a
 * layer that occurs several times is listed once, under its first position. Writes up to `capacity` of them (borrowed)
 * and returns how many there are. For a poisoned layer 0, with the cause in the error record. */
BT_API int bt_parameters(const bt_layer *layer, bt_shared **parameters, int capacity);
/* The number of elements of all parameters. */
BT_API int64_t bt_parameter_count(const bt_layer *layer);

/* Freezes the parameters of the layer and of its children, or thaws them (Flux's freeze! and thaw!): a training step and bt_optimizer_step pass frozen
 * ones over, the optimiser's states of them too, and bt_train_step computes no gradients for them. A function keeps what held when its body was
 * recorded. bt_set changes a frozen variable as any other; copies of a tree are frozen as it is. bt_shared_freeze does it to one variable.
 * Errors: those of the layer or variable. */
BT_API bt_status bt_freeze(bt_layer *layer);
#define bt_freeze(...) BTI_AT_STATUS(bt_freeze(__VA_ARGS__))
BT_API bt_status bt_thaw(bt_layer *layer);
#define bt_thaw(...) BTI_AT_STATUS(bt_thaw(__VA_ARGS__))

/* A copy of the tree in which the value of every parameter is replaced by fn(value). Functions and structure are shared
 * with `layer`; a layer that occurs several times is copied once (Flux's fmap). */
typedef bt_array *bt_map_fn(bt_array *value, void *data);
BT_API bt_layer *bt_fmap(bt_map_fn *fn, void *data, const bt_layer *layer);
#define bt_fmap(...) BTI_AT(bt_layer *, bt_fmap(__VA_ARGS__))
/* A copy of the tree on another device: every parameter is moved there. Without a GPU, bt_layer_gpu gives a copy on the
 * same device and is no error. */
BT_API bt_layer *bt_layer_to(const bt_layer *layer, const char *device);
#define bt_layer_to(layer, device) BTI_AT(bt_layer *, bt_layer_to(layer, BTI_DEVICE(device)))
BT_API bt_layer *bt_layer_gpu(const bt_layer *layer);
#define bt_layer_gpu(...) BTI_AT(bt_layer *, bt_layer_gpu(__VA_ARGS__))
BT_API bt_layer *bt_layer_cpu(const bt_layer *layer);
#define bt_layer_cpu(...) BTI_AT(bt_layer *, bt_layer_cpu(__VA_ARGS__))

/* "Chain(\n  Dense(10 => 5, sigmoid),      # 55 parameters\n ..." The caller owns the text: bt_free. */
BT_API char *bt_summary(const bt_layer *layer);
#define bt_summary(...) BTI_AT(char *, bt_summary(__VA_ARGS__))

/* --- moving several arrays ------------------------------------------------------------------------------------------ */

/* arrays[i] = bt_to(arrays[i], device) for each i. Without a GPU bt_gpu_all does nothing. */
BT_API void bt_to_all(bt_array **arrays, int count, const char *device);
#define bt_to_all(arrays, count, device) BTI_AT_VOID(bt_to_all(arrays, count, BTI_DEVICE(device)))
BT_API void bt_gpu_all(bt_array **arrays, int count);
#define bt_gpu_all(...) BTI_AT_VOID(bt_gpu_all(__VA_ARGS__))
BT_API void bt_cpu_all(bt_array **arrays, int count);
#define bt_cpu_all(...) BTI_AT_VOID(bt_cpu_all(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

/* berth/layers.h: the layers that are there, and initialisers.
 *
 * Shapes: B examples, C channels or features, T places of a sequence; `...` is any number of axes. Weights are float32 (bt_fmap with bt_cast makes
 * others), on the device of the BT_ON block or the default device, in a BT_STRATEGY block with a replica on each of its devices. A key is used once:
 * bt_split makes several. Layers and keys that do not fit poison the layer (nn.h). Parameters and states have PyTorch's names, and its layouts where
 * nothing else is said; so that its files can be loaded. An activation that is NULL is none. Options are given by name at the end of the call; 0 and
 * NULL mean the default in brackets. Of the function itself, `(bt_dense)(...)`, NULL means the defaults. */
#ifndef BERTH_LAYERS_H
#define BERTH_LAYERS_H

#include <berth/nn.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

/* --- initialisers ------------------------------------------------------------------------------------------------------ (key, dtype, shape) -> an
 * array of random floats. The fans of a shape: [n] has n and n; a matrix [in, out] has those (as bt_dense's); one of more axes, [O, I, K...], has I
 * and O times the product of K (as bt_conv's). */

typedef bt_array *bt_initializer(bt_array *key, bt_dtype dtype, bt_shape shape);
/* Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010). */
BT_API bt_array *bt_init_glorot_uniform(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_glorot_uniform(...) BTI_AT(bt_array *, bt_init_glorot_uniform(__VA_ARGS__))
/* Normal with variance 2 / (fan_in + fan_out). */
BT_API bt_array *bt_init_glorot_normal(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_glorot_normal(...) BTI_AT(bt_array *, bt_init_glorot_normal(__VA_ARGS__))
/* Uniform in +-sqrt(6 / fan_in), for layers before a ReLU (He et al. 2015; PyTorch's kaiming_uniform_). */
BT_API bt_array *bt_init_he_uniform(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_he_uniform(...) BTI_AT(bt_array *, bt_init_he_uniform(__VA_ARGS__))
/* Normal with variance 2 / fan_in. */
BT_API bt_array *bt_init_he_normal(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_he_normal(...) BTI_AT(bt_array *, bt_init_he_normal(__VA_ARGS__))
/* Uniform in +-sqrt(3 / fan_in) (LeCun et al. 1998). */
BT_API bt_array *bt_init_lecun_uniform(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_lecun_uniform(...) BTI_AT(bt_array *, bt_init_lecun_uniform(__VA_ARGS__))
/* Normal with variance 1 / fan_in. */
BT_API bt_array *bt_init_lecun_normal(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_lecun_normal(...) BTI_AT(bt_array *, bt_init_lecun_normal(__VA_ARGS__))
/* The standard normal distribution, of which values beyond 2 are drawn by its inverse within these bounds; times 0.02. */
BT_API bt_array *bt_init_truncated_normal(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_truncated_normal(...) BTI_AT(bt_array *, bt_init_truncated_normal(__VA_ARGS__))
/* Rows, or columns where there are fewer, that are orthogonal and of length 1 (Saxe et al. 2014): [O, ...] counts as a matrix of O rows. Needs linear
 * algebra (linalg.h); float32 and float64. */
BT_API bt_array *bt_init_orthogonal(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_orthogonal(...) BTI_AT(bt_array *, bt_init_orthogonal(__VA_ARGS__))
/* Zeros. The key may be NULL. */
BT_API bt_array *bt_init_zeros(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_zeros(...) BTI_AT(bt_array *, bt_init_zeros(__VA_ARGS__))
/* Ones. Otherwise as bt_init_zeros. */
BT_API bt_array *bt_init_ones(bt_array *key, bt_dtype dtype, bt_shape shape);
#define bt_init_ones(...) BTI_AT(bt_array *, bt_init_ones(__VA_ARGS__))

/* --- dense, embedding -------------------------------------------------------------------------------------------------- */

/* Options of layers with weights. */
typedef struct bt_weight_options {
    size_t size BTI_INITIALLY(sizeof(bt_weight_options)); /* set by the macro */
    BTI_BY_NAME
    bt_initializer *init BTI_INITIALLY(NULL); /* of the weights [the layer's own rule]; biases begin with zeros */
    bool no_bias BTI_INITIALLY(false);
} bt_weight_options;
#define BT_WEIGHT(...) BTI_OPTIONS(bt_weight_options, __VA_ARGS__)

/* x @ weight + bias, then the activation: [..., in] -> [..., out]. weight [in, out] is drawn by Glorot's uniform rule, as Flux's; bias [out] is zero.
 * PyTorch's Linear has the transposed weight [out, in]. */
BT_API bt_layer *bt_dense(int64_t in, int64_t out, bt_activation *activation, bt_array *key,
                          const bt_weight_options *options);
/* The same with the given weight [in, out] and bias [out] (NULL: none). */
BT_API bt_layer *bt_dense_from(bt_array *weight, bt_array *bias, bt_activation *activation);
#define bt_dense_from(...) BTI_AT(bt_layer *, bt_dense_from(__VA_ARGS__))
/* Rows of weight [count, depth], normal as in PyTorch and Flux: integers [...] -> [..., depth]. Negative numbers count from the end; one that is out
 * of range gives NaN. */
BT_API bt_layer *bt_embedding_layer(int64_t count, int64_t depth, bt_array *key, const bt_weight_options *options);
#ifndef BERTH_BUILDING
#define BTI_DENSE(in, out, activation, key, ...) bt_dense(in, out, activation, key, BT_WEIGHT(__VA_ARGS__))
#define bt_dense(...) BTI_AT(bt_layer *, BTI_DENSE(__VA_ARGS__, ))
#define BTI_EMBEDDING(count, depth, key, ...) bt_embedding_layer(count, depth, key, BT_WEIGHT(__VA_ARGS__))
#define bt_embedding_layer(...) BTI_AT(bt_layer *, BTI_EMBEDDING(__VA_ARGS__, ))
#endif

/* --- convolutions and pools --------------------------------------------------------------------------------------------- */

/* By axis behind the first two. */
typedef struct bt_conv_layer_options {
    size_t size BTI_INITIALLY(sizeof(bt_conv_layer_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t stride[3] BTI_INITIALLY({});     /* [1] */
    int64_t pad[3] BTI_INITIALLY({});        /* zeros on both sides of x [0] */
    int64_t dilation[3] BTI_INITIALLY({});   /* [1] */
    int64_t output_pad[3] BTI_INITIALLY({}); /* of transposed ones: so much longer at the end [0] */
    int64_t groups BTI_INITIALLY(0);         /* [1] */
    bool same
        BTI_INITIALLY(false); /* in place of `pad`: with stride 1, y is as long as x; an odd pad is one more behind x */
    bool no_bias BTI_INITIALLY(false);
    bt_initializer *init BTI_INITIALLY(NULL); /* [bt_init_glorot_uniform, as Flux's] */
} bt_conv_layer_options;
#define BT_CONV_LAYER(...) BTI_OPTIONS(bt_conv_layer_options, __VA_ARGS__)

/* Cross-correlation along as many axes as the kernel has, 1 to 3, plus a bias by channel, then the activation: [B, in, ...] -> [B, out, ...].
 * `bt_conv_layer(3, 8, BT_SHAPE(3, 3), bt_relu, key, .pad = {1, 1})`. weight [out, in / groups, K...], bias [out]: PyTorch's Conv1d, Conv2d and
 * Conv3d. */
BT_API bt_layer *bt_conv_layer(int64_t in, int64_t out, bt_shape kernel, bt_activation *activation, bt_array *key,
                               const bt_conv_layer_options *options);
/* The transposed convolution, otherwise as bt_conv_layer. weight [in, out / groups, K...]: PyTorch's ConvTranspose. `same` is refused. */
BT_API bt_layer *bt_conv_transposed_layer(int64_t in, int64_t out, bt_shape kernel, bt_activation *activation,
                                          bt_array *key, const bt_conv_layer_options *options);

typedef struct bt_pool_layer_options {
    size_t size BTI_INITIALLY(sizeof(bt_pool_layer_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t stride[3] BTI_INITIALLY({});   /* [the window] */
    int64_t pad[3] BTI_INITIALLY({});      /* on both sides of x [0] */
    int64_t dilation[3] BTI_INITIALLY({}); /* [1] */
    bool exclude_pads
        BTI_INITIALLY(false); /* means are of elements of x alone; else pads count as zeros, as PyTorch's */
} bt_pool_layer_options;
#define BT_POOL_LAYER(...) BTI_OPTIONS(bt_pool_layer_options, __VA_ARGS__)

/* bt_max_pool with windows of 1 to 3 axes: [B, C, ...] -> [B, C, ...]. */
BT_API bt_layer *bt_max_pool_layer(bt_shape window, const bt_pool_layer_options *options);
/* bt_avg_pool. Otherwise as bt_max_pool_layer. */
BT_API bt_layer *bt_avg_pool_layer(bt_shape window, const bt_pool_layer_options *options);
#ifndef BERTH_BUILDING
#define BTI_CONV_LAYER(function, in, out, kernel, activation, key, ...) \
    function(in, out, kernel, activation, key, BT_CONV_LAYER(__VA_ARGS__))
#define bt_conv_layer(...) BTI_AT(bt_layer *, BTI_CONV_LAYER(bt_conv_layer, __VA_ARGS__, ))
#define bt_conv_transposed_layer(...) BTI_AT(bt_layer *, BTI_CONV_LAYER(bt_conv_transposed_layer, __VA_ARGS__, ))
#define BTI_POOL_LAYER(function, window, ...) function(window, BT_POOL_LAYER(__VA_ARGS__))
#define bt_max_pool_layer(...) BTI_AT(bt_layer *, BTI_POOL_LAYER(bt_max_pool_layer, __VA_ARGS__, ))
#define bt_avg_pool_layer(...) BTI_AT(bt_layer *, BTI_POOL_LAYER(bt_avg_pool_layer, __VA_ARGS__, ))
#endif
/* bt_adaptive_max_pool: [B, C, ...] -> [B, C, sizes...]. */
BT_API bt_layer *bt_adaptive_max_pool_layer(bt_shape sizes);
#define bt_adaptive_max_pool_layer(...) BTI_AT(bt_layer *, bt_adaptive_max_pool_layer(__VA_ARGS__))
/* bt_adaptive_avg_pool. */
BT_API bt_layer *bt_adaptive_avg_pool_layer(bt_shape sizes);
#define bt_adaptive_avg_pool_layer(...) BTI_AT(bt_layer *, bt_adaptive_avg_pool_layer(__VA_ARGS__))
/* The greatest element of each channel: [B, C, ...] -> [B, C, 1...], as Flux's GlobalMaxPool. */
BT_API bt_layer *bt_global_max_pool_layer(void);
#define bt_global_max_pool_layer(...) BTI_AT(bt_layer *, bt_global_max_pool_layer(__VA_ARGS__))
/* The mean of each channel. */
BT_API bt_layer *bt_global_avg_pool_layer(void);
#define bt_global_avg_pool_layer(...) BTI_AT(bt_layer *, bt_global_avg_pool_layer(__VA_ARGS__))
/* [B, ...] -> [B, product of the other sizes]. */
BT_API bt_layer *bt_flatten_layer(void);
#define bt_flatten_layer(...) BTI_AT(bt_layer *, bt_flatten_layer(__VA_ARGS__))

/* --- norms, dropout ------------------------------------------------------------------------------------------------------ */

typedef struct bt_norm_options {
    size_t size BTI_INITIALLY(sizeof(bt_norm_options)); /* set by the macro */
    BTI_BY_NAME
    double eps BTI_INITIALLY(0); /* added to the variance [1e-5; of bt_rms_norm_layer 2**-23] */
    double momentum BTI_INITIALLY(
        0); /* of bt_batch_norm_layer: the share of a new batch in the running statistics; below 0: each batch counts alike [0.1] */
    bool no_affine BTI_INITIALLY(false); /* without weight and bias */
    bool no_tracking
        BTI_INITIALLY(false); /* of bt_batch_norm_layer: without running statistics; inference uses the batch's too */
} bt_norm_options;
#define BT_NORM(...) BTI_OPTIONS(bt_norm_options, __VA_ARGS__)

/* (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, of `size`. weight and bias [size] begin with 1 and 0. PyTorch's LayerNorm of one size. */
BT_API bt_layer *bt_layer_norm_layer(int64_t size, const bt_norm_options *options);
/* The same by channel, over all other axes of [B, C, ...], as PyTorch's BatchNorm. In training by the statistics of the batch (over all its parts:
 * bt_batch_mean), from which running_mean and running_var [C] are updated, the variance with n - 1; num_batches_tracked (int64) counts. In inference
 * by the running ones. A batch of one value per channel is INVALID_ARGUMENT in training. */
BT_API bt_layer *bt_batch_norm_layer(int64_t channels, const bt_norm_options *options);
/* The same over each example's groups of channels: [B, C, ...], as PyTorch's GroupNorm; `groups` divides the channels. weight and bias [C]. */
BT_API bt_layer *bt_group_norm_layer(int64_t groups, int64_t channels, const bt_norm_options *options);
/* x / sqrt(mean(x**2) + eps) * weight over the last axis (Zhang & Sennrich 2019; PyTorch's RMSNorm). */
BT_API bt_layer *bt_rms_norm_layer(int64_t size, const bt_norm_options *options);
/* A copy of the model for inference: in its chains each batch norm that follows a convolution, a transposed one without groups, or a Dense layer over [B, in], without an activation
 * between them, is a part of that layer's weights and bias, with its running statistics; the copy has the results of bt_apply up to rounding, in fewer operations. Other norms stay, and so does `model`. Blocks. Errors: those of the layer. */
BT_API bt_layer *bt_fold_norms(const bt_layer *model);
#define bt_fold_norms(...) BTI_AT(bt_layer *, bt_fold_norms(__VA_ARGS__))
#ifndef BERTH_BUILDING
#define BTI_NORM(function, size, ...) function(size, BT_NORM(__VA_ARGS__))
#define BTI_GROUP_NORM(groups, channels, ...) bt_group_norm_layer(groups, channels, BT_NORM(__VA_ARGS__))
#define bt_layer_norm_layer(...) BTI_AT(bt_layer *, BTI_NORM(bt_layer_norm_layer, __VA_ARGS__, ))
#define bt_batch_norm_layer(...) BTI_AT(bt_layer *, BTI_NORM(bt_batch_norm_layer, __VA_ARGS__, ))
#define bt_group_norm_layer(...) BTI_AT(bt_layer *, BTI_GROUP_NORM(__VA_ARGS__, ))
#define bt_rms_norm_layer(...) BTI_AT(bt_layer *, BTI_NORM(bt_rms_norm_layer, __VA_ARGS__, ))
#endif
/* In training each element becomes 0 with probability `rate`, in [0, 1], and the others are divided by 1 - rate; in inference x. What is drawn for an
 * example depends on the key, the number of times that the layer was applied in training (state `steps`), and the example's place in the batch alone:
 * it is the same on any number of devices. The first axis of x counts examples. */
BT_API bt_layer *bt_dropout_layer(double rate, bt_array *key);
#define bt_dropout_layer(...) BTI_AT(bt_layer *, bt_dropout_layer(__VA_ARGS__))

/* --- sequences ------------------------------------------------------------------------------------------------------------ */

typedef struct bt_recurrent_options {
    size_t size BTI_INITIALLY(sizeof(bt_recurrent_options)); /* set by the macro */
    BTI_BY_NAME
    bt_initializer *
        init BTI_INITIALLY(NULL); /* of the weights [uniform in +-1 / sqrt(hidden), biases too, as PyTorch's] */
    bool no_bias BTI_INITIALLY(false);
    bool last BTI_INITIALLY(false); /* y is that of the last place alone: [B, hidden] */
} bt_recurrent_options;
#define BT_RECURRENT(...) BTI_OPTIONS(bt_recurrent_options, __VA_ARGS__)

/* A gated recurrent unit (Cho et al. 2014) over places 0 to T - 1: [B, T, in] -> [B, T, hidden]; one scan, whatever T is. weight_ih_l0 [3 hidden,
 * in], weight_hh_l0 [3 hidden, hidden], bias_ih_l0 and bias_hh_l0 [3 hidden], rows of the gates r, z, n in this order: n = tanh(W_n x + b_n + r *
 * (U_n h + c_n)), h = (1 - z) * n + z * h, as PyTorch's GRU with batch_first. With bt_apply_all: inputs x, h [B, hidden] (else zeros); outputs y, h.
 * Several layers are a chain. */
BT_API bt_layer *bt_gru_layer(int64_t in, int64_t hidden, bt_array *key, const bt_recurrent_options *options);
/* Long short-term memory (Hochreiter & Schmidhuber 1997): gates i, f, g, o in this order, [4 hidden, ...], as PyTorch's LSTM. With bt_apply_all:
 * inputs x, h, c; outputs y, h, c. Otherwise as bt_gru_layer. */
BT_API bt_layer *bt_lstm_layer(int64_t in, int64_t hidden, bt_array *key, const bt_recurrent_options *options);

typedef struct bt_attention_layer_options {
    size_t size BTI_INITIALLY(sizeof(bt_attention_layer_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t kv_heads BTI_INITIALLY(0); /* heads of keys and values, which heads share [heads] */
    bool causal BTI_INITIALLY(false);  /* a place reads those before it and itself */
    bool no_bias BTI_INITIALLY(false);
    bt_initializer *init BTI_INITIALLY(NULL); /* [bt_init_glorot_uniform] */
} bt_attention_layer_options;
#define BT_ATTENTION_LAYER(...) BTI_OPTIONS(bt_attention_layer_options, __VA_ARGS__)

/* Multi-head attention: [B, L, width] -> [B, L, width], by Dense layers `query`, `key`, `value` and `out` and bt_attention. With bt_apply_all: inputs
 * x; or x and what keys and values are made of; or those of queries, keys and values; and behind them, as a fourth, a mask of bt_attention. PyTorch's
 * MultiheadAttention has the transposed weights of query, key and value in one, in_proj_weight [3 width, width]. `heads` divides `width`, kv_heads
 * `heads`. */
BT_API bt_layer *bt_attention_layer(int64_t width, int64_t heads, bt_array *key,
                                    const bt_attention_layer_options *options);
#ifndef BERTH_BUILDING
#define BTI_RECURRENT(function, in, hidden, key, ...) function(in, hidden, key, BT_RECURRENT(__VA_ARGS__))
#define bt_gru_layer(...) BTI_AT(bt_layer *, BTI_RECURRENT(bt_gru_layer, __VA_ARGS__, ))
#define bt_lstm_layer(...) BTI_AT(bt_layer *, BTI_RECURRENT(bt_lstm_layer, __VA_ARGS__, ))
#define BTI_ATTENTION_LAYER(width, heads, key, ...) \
    bt_attention_layer(width, heads, key, BT_ATTENTION_LAYER(__VA_ARGS__))
#define bt_attention_layer(...) BTI_AT(bt_layer *, BTI_ATTENTION_LAYER(__VA_ARGS__, ))
#endif

/* --- layers of layers ------------------------------------------------------------------------------------------------------ */

/* A function as a layer without parameters: bt_softmax_last, bt_relu, or one of the program. `name` is copied;
 * bt_summary prints it. */
BT_API bt_layer *bt_lambda(const char *name, bt_activation *function);
#define bt_lambda(...) BTI_AT(bt_layer *, bt_lambda(__VA_ARGS__))
/* bt_softmax over the last axis, as an activation. */
BT_API bt_array *bt_softmax_last(bt_array *x);
/* Applies the layers in order: `bt_chain(a, b, c)`. The chain shares its layers, it does not copy them. Layers may be
 * nested up to 200 levels deep (INVALID_ARGUMENT). A NULL, poisoned or released layer poisons the chain. */
BT_API bt_layer *bt_chain_of(bt_layer *const *layers, int count);

/* Makes one array of several, one or more. */
typedef bt_array *bt_combiner(bt_array *const *parts, int count);
/* Their sum; they broadcast. */
BT_API bt_array *bt_combine_sum(bt_array *const *parts, int count);
#define bt_combine_sum(...) BTI_AT(bt_array *, bt_combine_sum(__VA_ARGS__))
/* Put behind each other along axis 1, that of channels and features. */
BT_API bt_array *bt_combine_concat(bt_array *const *parts, int count);
#define bt_combine_concat(...) BTI_AT(bt_array *, bt_combine_concat(__VA_ARGS__))
/* Each layer is given x; what they give is combined: `bt_parallel(bt_combine_concat, a, b)`. With bt_apply_all and as many inputs as layers each is
 * given its own. Otherwise as bt_chain; one layer or more. */
BT_API bt_layer *bt_parallel_of(bt_combiner *combine, bt_layer *const *layers, int count);
/* combine(layer(x), x), a skip connection; NULL: bt_combine_sum. */
BT_API bt_layer *bt_skip(bt_layer *layer, bt_combiner *combine);
#define bt_skip(...) BTI_AT(bt_layer *, bt_skip(__VA_ARGS__))
#ifdef __cplusplus
}
static inline bt_layer *bti_chain_list(std::initializer_list<bt_layer *> layers) {
    return bt_chain_of(layers.begin(), (int)layers.size());
}
static inline bt_layer *bti_parallel_list(bt_combiner *combine, std::initializer_list<bt_layer *> layers) {
    return bt_parallel_of(combine, layers.begin(), (int)layers.size());
}
extern "C" {
#define bt_chain(...) BTI_AT(bt_layer *, bti_chain_list({__VA_ARGS__}))
#define bt_parallel(combine, ...) BTI_AT(bt_layer *, bti_parallel_list(combine, {__VA_ARGS__}))
#else
#define BTI_LAYERS(...) \
    (bt_layer *const[]){__VA_ARGS__}, (int)(sizeof((bt_layer *const[]){__VA_ARGS__}) / sizeof(bt_layer *))
#define bt_chain(...) BTI_AT(bt_layer *, bt_chain_of(BTI_LAYERS(__VA_ARGS__)))
#define bt_parallel(combine, ...) BTI_AT(bt_layer *, bt_parallel_of(combine, BTI_LAYERS(__VA_ARGS__)))
#endif

#ifdef __cplusplus
}
#endif
#endif

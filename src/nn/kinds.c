/* The layers of berth/layers.h made of their options, as a file has them: nothing of it is trusted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <berth/layers.h>

#include "base/quote.h"
#include "nn/kinds.h"
#include "ops/primitive.h"

/* --- options ---------------------------------------------------------------------------------------------------------------- */

static const char *option_text(bti_layer_making *a, const char *name) {
    for (int i = 0; i < a->plan->option_count; i++)
        if (!strcmp(a->plan->options[i].name, name)) return a->plan->options[i].value;
    if (a->status == BT_OK)
        a->status = bti_fail(BT_INVALID_ARGUMENT, "layer %s lacks the option \"%s\"",
                             bti_quote(a->plan->record.name).text, name);
    return NULL;
}

static void refuse_option(bti_layer_making *a, const char *name, const char *text, const char *takes) {
    if (a->status == BT_OK)
        a->status = bti_fail(BT_INVALID_ARGUMENT, "option \"%s\" of layer %s is \"%s\"; it must be %s", name,
                             bti_quote(a->plan->record.name).text, bti_quote(text).text, takes);
}

/* Sizes of weights are at most as many as the largest tensor of the file has elements. */
static int64_t size_option(bti_layer_making *a, const char *name) {
    const char *text = option_text(a, name);
    if (!text) return 1;
    char *end;
    errno = 0;
    long long size = strtoll(text, &end, 10);
    if (end == text || *end || errno || size < 0 || size > a->plan->most_elements)
        refuse_option(a, name, text, "a whole number that the file's tensors allow");
    return a->status == BT_OK ? size : 1;
}

static double real_option(bti_layer_making *a, const char *name) {
    const char *text = option_text(a, name);
    if (!text) return 1;
    char *end;
    double real = strtod(text, &end);
    if (end == text || *end) refuse_option(a, name, text, "a number");
    return real;
}

static bool flag_option(bti_layer_making *a, const char *name) {
    const char *text = option_text(a, name);
    if (text && strcmp(text, "true") && strcmp(text, "false")) refuse_option(a, name, text, "true or false");
    return text && !strcmp(text, "true");
}

/* "(3, 3)", "(3,)" */
static bt_shape sizes_option(bti_layer_making *a, const char *name) {
    const char *text = option_text(a, name), *at = text;
    bt_shape shape = {0};
    bool good = at && *at++ == '(';
    while (good && *at && *at != ')') {
        char *end;
        errno = 0;
        long long size = strtoll(at, &end, 10);
        good = end > at && !errno && size >= 0 && size < INT32_MAX && shape.rank < 3;
        if (!good) break;
        shape.size[shape.rank++] = size;
        at = end;
        while (*at == ',' || *at == ' ') at++;
    }
    if (text && !(good && *at == ')' && !at[1])) refuse_option(a, name, text, "up to three sizes, \"(3, 3)\"");
    return shape;
}

/* Into an array of as many as the kernel has. */
static void copy_sizes(bti_layer_making *a, const char *name, int axes, int64_t sizes[3]) {
    bt_shape shape = sizes_option(a, name);
    if (a->status == BT_OK && shape.rank != axes)
        refuse_option(a, name, option_text(a, name), "as many sizes as the window has");
    for (int i = 0; i < shape.rank; i++) sizes[i] = shape.size[i];
}

bt_activation *bti_again_activation(bti_layer_making *a, const char *name) {
    const char *text = option_text(a, name);
    bt_activation *activation = NULL;
    if (text && !bti_activation_find(text, &activation) && a->status == BT_OK)
        a->status = bti_fail(BT_UNIMPLEMENTED,
                             "layer %s has the function \"%s\", which berth has not; bt_activation_register names one "
                             "of the program, before layers with it are made and before files with them are opened",
                             bti_quote(a->plan->record.name).text, bti_quote(text).text);
    return activation;
}

/* --- weights ---------------------------------------------------------------------------------------------------------------- */

static _Thread_local int64_t most_elements; /* of the layer that is being made */

/* The values of the file are set later; a shape that is larger than any of its tensors is refused before memory is taken. */
static bt_array *zeros_within_file(bt_array *key, bt_dtype dtype, bt_shape shape) {
    (void)key;
    int64_t count;
    if (bti_shape_count(shape.rank, shape.size, &count) && count <= most_elements)
        return bt_full_shape(0, dtype, shape);
    return bti_poisonf(BT_INVALID_ARGUMENT, "a weight has more elements than any tensor of the file, %lld",
                       (long long)most_elements);
}

/* --- one function per kind ---------------------------------------------------------------------------------------------------- */

static bt_layer *again_dense(bti_layer_making *a) {
    int64_t in = size_option(a, "in"), out = size_option(a, "out");
    bt_activation *activation = bti_again_activation(a, "activation");
    bt_weight_options o = {.size = sizeof o, .init = zeros_within_file, .no_bias = !flag_option(a, "bias")};
    return a->status == BT_OK ? bt_dense(in, out, activation, NULL, &o) : NULL;
}

static bt_layer *again_embedding(bti_layer_making *a) {
    int64_t count = size_option(a, "count"), depth = size_option(a, "depth");
    bt_weight_options o = {.size = sizeof o, .init = zeros_within_file};
    return a->status == BT_OK ? bt_embedding_layer(count, depth, NULL, &o) : NULL;
}

static bt_layer *again_convolution(bti_layer_making *a, bool transposed) {
    int64_t in = size_option(a, "in"), out = size_option(a, "out");
    bt_shape kernel = sizes_option(a, "kernel");
    bt_activation *activation = bti_again_activation(a, "activation");
    bt_conv_layer_options o = {.size = sizeof o,
                               .init = zeros_within_file,
                               .groups = size_option(a, "groups"),
                               .same = flag_option(a, "same"),
                               .no_bias = !flag_option(a, "bias")};
    copy_sizes(a, "stride", kernel.rank, o.stride);
    copy_sizes(a, "pad", kernel.rank, o.pad);
    copy_sizes(a, "dilation", kernel.rank, o.dilation);
    copy_sizes(a, "output_pad", kernel.rank, o.output_pad);
    if (a->status != BT_OK) return NULL;
    return (transposed ? bt_conv_transposed_layer : bt_conv_layer)(in, out, kernel, activation, NULL, &o);
}
static bt_layer *again_conv(bti_layer_making *a) { return again_convolution(a, false); }
static bt_layer *again_conv_transposed(bti_layer_making *a) { return again_convolution(a, true); }

static bt_layer *again_pool(bti_layer_making *a, bt_layer *(*make)(bt_shape, const bt_pool_layer_options *)) {
    bt_shape window = sizes_option(a, "window");
    bt_pool_layer_options o = {.size = sizeof o, .exclude_pads = flag_option(a, "exclude_pads")};
    copy_sizes(a, "stride", window.rank, o.stride);
    copy_sizes(a, "pad", window.rank, o.pad);
    copy_sizes(a, "dilation", window.rank, o.dilation);
    return a->status == BT_OK ? make(window, &o) : NULL;
}
static bt_layer *again_max_pool(bti_layer_making *a) { return again_pool(a, bt_max_pool_layer); }
static bt_layer *again_mean_pool(bti_layer_making *a) { return again_pool(a, bt_avg_pool_layer); }

static bt_layer *again_adaptive(bti_layer_making *a, bt_layer *(*make)(bt_shape)) {
    bt_shape sizes = sizes_option(a, "sizes");
    return a->status == BT_OK ? make(sizes) : NULL;
}
static bt_layer *again_adaptive_max(bti_layer_making *a) { return again_adaptive(a, bt_adaptive_max_pool_layer); }
static bt_layer *again_adaptive_mean(bti_layer_making *a) { return again_adaptive(a, bt_adaptive_avg_pool_layer); }

static bt_layer *again_global_max(bti_layer_making *a) {
    return a->status == BT_OK ? bt_global_max_pool_layer() : NULL;
}
static bt_layer *again_global_mean(bti_layer_making *a) {
    return a->status == BT_OK ? bt_global_avg_pool_layer() : NULL;
}
static bt_layer *again_flatten(bti_layer_making *a) { return a->status == BT_OK ? bt_flatten_layer() : NULL; }

/* Its size; without values in the file nothing but 2**24 bounds it. */
static int64_t norm_options(bti_layer_making *a, bool batch, bt_norm_options *o) {
    *o = (bt_norm_options){.size = sizeof *o,
                           .eps = real_option(a, "eps"),
                           .momentum = real_option(a, "momentum"),
                           .no_affine = !flag_option(a, "affine"),
                           .no_tracking = !flag_option(a, "tracking")};
    bool has_values = !o->no_affine || (batch && !o->no_tracking);
    bti_layer_plan plan = *a->plan;
    if (!has_values) plan.most_elements = 1 << 24;
    bti_layer_making sized = {&plan, a->status};
    int64_t size = size_option(&sized, "size");
    a->status = sized.status;
    return size;
}
static bt_layer *again_layer_norm(bti_layer_making *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, false, &o);
    return a->status == BT_OK ? bt_layer_norm_layer(size, &o) : NULL;
}
static bt_layer *again_rms_norm(bti_layer_making *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, false, &o);
    return a->status == BT_OK ? bt_rms_norm_layer(size, &o) : NULL;
}
static bt_layer *again_batch_norm(bti_layer_making *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, true, &o);
    return a->status == BT_OK ? bt_batch_norm_layer(size, &o) : NULL;
}
static bt_layer *again_group_norm(bti_layer_making *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, false, &o), groups = size_option(a, "groups");
    return a->status == BT_OK ? bt_group_norm_layer(groups, size, &o) : NULL;
}

static bt_layer *again_dropout(bti_layer_making *a) {
    double rate = real_option(a, "rate");
    return a->status == BT_OK ? bt_dropout_layer(rate, bt_key(0)) : NULL;
}

static bt_layer *again_recurrent(bti_layer_making *a,
                                 bt_layer *(*make)(int64_t, int64_t, bt_array *, const bt_recurrent_options *)) {
    int64_t in = size_option(a, "in"), hidden = size_option(a, "hidden");
    bt_recurrent_options o = {.size = sizeof o,
                              .init = zeros_within_file,
                              .no_bias = !flag_option(a, "bias"),
                              .last = flag_option(a, "last")};
    return a->status == BT_OK ? make(in, hidden, bt_key(0), &o) : NULL;
}
static bt_layer *again_gru(bti_layer_making *a) { return again_recurrent(a, bt_gru_layer); }
static bt_layer *again_lstm(bti_layer_making *a) { return again_recurrent(a, bt_lstm_layer); }

static bt_layer *again_attention(bti_layer_making *a) {
    int64_t width = size_option(a, "width"), heads = size_option(a, "heads");
    bt_attention_layer_options o = {.size = sizeof o,
                                    .kv_heads = size_option(a, "kv_heads"),
                                    .causal = flag_option(a, "causal"),
                                    .no_bias = !flag_option(a, "bias"),
                                    .init = zeros_within_file};
    return a->status == BT_OK ? bt_attention_layer(width, heads, bt_key(0), &o) : NULL;
}

static bt_layer *again_chain(bti_layer_making *a) {
    return bt_chain_of(a->plan->record.children, a->plan->record.child_count);
}

static bt_combiner *combiner_option(bti_layer_making *a) {
    const char *text = option_text(a, "combine");
    if (!text) return NULL;
    if (!strcmp(text, "sum")) return bt_combine_sum;
    if (!strcmp(text, "concat")) return bt_combine_concat;
    if (a->status == BT_OK)
        a->status = bti_fail(BT_UNIMPLEMENTED,
                             "layer %s combines by \"%s\", a function of the program that saved it; a layer of one's "
                             "own (bt_layer_register) can be opened",
                             a->plan->record.name, bti_quote(text).text);
    return NULL;
}
static bt_layer *again_parallel(bti_layer_making *a) {
    bt_combiner *combine = combiner_option(a);
    return a->status == BT_OK ? bt_parallel_of(combine, a->plan->record.children, a->plan->record.child_count) : NULL;
}
static bt_layer *again_skip(bti_layer_making *a) {
    bt_combiner *combine = combiner_option(a);
    if (a->status == BT_OK && a->plan->record.child_count != 1)
        a->status = bti_fail(BT_INVALID_ARGUMENT, "layer SkipConnection has %d children; it must have one",
                             a->plan->record.child_count);
    return a->status == BT_OK ? bt_skip(a->plan->record.children[0], combine) : NULL;
}

/* --- which it is ---------------------------------------------------------------------------------------------------------------- */

static const bti_layer_kind kinds[] = {{"Dense", again_dense, BTI_NO_CHILDREN},
                                       {"Embedding", again_embedding, BTI_NO_CHILDREN},
                                       {"Conv", again_conv, BTI_NO_CHILDREN},
                                       {"ConvTranspose", again_conv_transposed, BTI_NO_CHILDREN},
                                       {"MaxPool", again_max_pool, BTI_NO_CHILDREN},
                                       {"MeanPool", again_mean_pool, BTI_NO_CHILDREN},
                                       {"AdaptiveMaxPool", again_adaptive_max, BTI_NO_CHILDREN},
                                       {"AdaptiveMeanPool", again_adaptive_mean, BTI_NO_CHILDREN},
                                       {"GlobalMaxPool", again_global_max, BTI_NO_CHILDREN},
                                       {"GlobalMeanPool", again_global_mean, BTI_NO_CHILDREN},
                                       {"Flatten", again_flatten, BTI_NO_CHILDREN},
                                       {"LayerNorm", again_layer_norm, BTI_NO_CHILDREN},
                                       {"RMSNorm", again_rms_norm, BTI_NO_CHILDREN},
                                       {"BatchNorm", again_batch_norm, BTI_NO_CHILDREN},
                                       {"GroupNorm", again_group_norm, BTI_NO_CHILDREN},
                                       {"Dropout", again_dropout, BTI_NO_CHILDREN},
                                       {"GRU", again_gru, BTI_NO_CHILDREN},
                                       {"LSTM", again_lstm, BTI_NO_CHILDREN},
                                       {"MultiHeadAttention", again_attention, BTI_MAKES_CHILDREN},
                                       {"Chain", again_chain, BTI_TAKES_CHILDREN},
                                       {"Parallel", again_parallel, BTI_TAKES_CHILDREN},
                                       {"SkipConnection", again_skip, BTI_TAKES_CHILDREN}};

const bti_layer_kind *bti_layer_kind_find(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

bt_layer *bti_layer_kind_make(const bti_layer_kind *kind, bti_layer_making *a) {
    most_elements = a->plan->most_elements;
    return kind->make(a);
}

bool bti_layer_is_known(const char *name) { return bti_layer_kind_find(name); }

bool bti_layer_makes_children(const char *name) {
    const bti_layer_kind *kind = bti_layer_kind_find(name);
    return kind && kind->children == BTI_MAKES_CHILDREN;
}

/* Layers made again of their names and options, as a file has them: nothing of it is trusted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <berth/layers.h>

#include "base/quote.h"
#include "nn/layer.h"
#include "nn/registry.h"
#include "ops/primitive.h"

/* --- options ---------------------------------------------------------------------------------------------------------------- */

typedef struct again {
    const bti_layer_plan *plan;
    bt_status status; /* of the first option that is missing or does not fit */
} again;

static const char *option_text(again *a, const char *name) {
    for (int i = 0; i < a->plan->option_count; i++)
        if (!strcmp(a->plan->options[i].name, name)) return a->plan->options[i].value;
    if (a->status == BT_OK)
        a->status = bti_fail(BT_INVALID_ARGUMENT, "layer %s lacks the option \"%s\"",
                             bti_quote(a->plan->record.name).text, name);
    return NULL;
}

static void refuse_option(again *a, const char *name, const char *text, const char *takes) {
    if (a->status == BT_OK)
        a->status = bti_fail(BT_INVALID_ARGUMENT, "option \"%s\" of layer %s is \"%s\"; it must be %s", name,
                             bti_quote(a->plan->record.name).text, bti_quote(text).text, takes);
}

/* Sizes of weights are at most as many as the largest tensor of the file has elements. */
static int64_t size_option(again *a, const char *name) {
    const char *text = option_text(a, name);
    if (!text) return 1;
    char *end;
    errno = 0;
    long long size = strtoll(text, &end, 10);
    if (end == text || *end || errno || size < 0 || size > a->plan->most_elements)
        refuse_option(a, name, text, "a whole number that the file's tensors allow");
    return a->status == BT_OK ? size : 1;
}

static double real_option(again *a, const char *name) {
    const char *text = option_text(a, name);
    if (!text) return 1;
    char *end;
    double real = strtod(text, &end);
    if (end == text || *end) refuse_option(a, name, text, "a number");
    return real;
}

static bool flag_option(again *a, const char *name) {
    const char *text = option_text(a, name);
    if (text && strcmp(text, "true") && strcmp(text, "false")) refuse_option(a, name, text, "true or false");
    return text && !strcmp(text, "true");
}

/* "(3, 3)", "(3,)" */
static bt_shape sizes_option(again *a, const char *name) {
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
static void copy_sizes(again *a, const char *name, int axes, int64_t sizes[3]) {
    bt_shape shape = sizes_option(a, name);
    if (a->status == BT_OK && shape.rank != axes)
        refuse_option(a, name, option_text(a, name), "as many sizes as the window has");
    for (int i = 0; i < shape.rank; i++) sizes[i] = shape.size[i];
}

static bt_activation *activation_option(again *a, const char *name) {
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

static bt_layer *again_dense(again *a) {
    int64_t in = size_option(a, "in"), out = size_option(a, "out");
    bt_activation *activation = activation_option(a, "activation");
    bt_weight_options o = {.size = sizeof o, .init = zeros_within_file, .no_bias = !flag_option(a, "bias")};
    return a->status == BT_OK ? bt_dense(in, out, activation, NULL, &o) : NULL;
}

static bt_layer *again_embedding(again *a) {
    int64_t count = size_option(a, "count"), depth = size_option(a, "depth");
    bt_weight_options o = {.size = sizeof o, .init = zeros_within_file};
    return a->status == BT_OK ? bt_embedding_layer(count, depth, NULL, &o) : NULL;
}

static bt_layer *again_convolution(again *a, bool transposed) {
    int64_t in = size_option(a, "in"), out = size_option(a, "out");
    bt_shape kernel = sizes_option(a, "kernel");
    bt_activation *activation = activation_option(a, "activation");
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
static bt_layer *again_conv(again *a) { return again_convolution(a, false); }
static bt_layer *again_conv_transposed(again *a) { return again_convolution(a, true); }

static bt_layer *again_pool(again *a, bt_layer *(*make)(bt_shape, const bt_pool_layer_options *)) {
    bt_shape window = sizes_option(a, "window");
    bt_pool_layer_options o = {.size = sizeof o, .exclude_pads = flag_option(a, "exclude_pads")};
    copy_sizes(a, "stride", window.rank, o.stride);
    copy_sizes(a, "pad", window.rank, o.pad);
    copy_sizes(a, "dilation", window.rank, o.dilation);
    return a->status == BT_OK ? make(window, &o) : NULL;
}
static bt_layer *again_max_pool(again *a) { return again_pool(a, bt_max_pool_layer); }
static bt_layer *again_mean_pool(again *a) { return again_pool(a, bt_avg_pool_layer); }

static bt_layer *again_adaptive(again *a, bt_layer *(*make)(bt_shape)) {
    bt_shape sizes = sizes_option(a, "sizes");
    return a->status == BT_OK ? make(sizes) : NULL;
}
static bt_layer *again_adaptive_max(again *a) { return again_adaptive(a, bt_adaptive_max_pool_layer); }
static bt_layer *again_adaptive_mean(again *a) { return again_adaptive(a, bt_adaptive_avg_pool_layer); }

static bt_layer *again_global_max(again *a) { return a->status == BT_OK ? bt_global_max_pool_layer() : NULL; }
static bt_layer *again_global_mean(again *a) { return a->status == BT_OK ? bt_global_avg_pool_layer() : NULL; }
static bt_layer *again_flatten(again *a) { return a->status == BT_OK ? bt_flatten_layer() : NULL; }

/* Its size; without values in the file nothing but 2**24 bounds it. */
static int64_t norm_options(again *a, bool batch, bt_norm_options *o) {
    *o = (bt_norm_options){.size = sizeof *o,
                           .eps = real_option(a, "eps"),
                           .momentum = real_option(a, "momentum"),
                           .no_affine = !flag_option(a, "affine"),
                           .no_tracking = !flag_option(a, "tracking")};
    bool has_values = !o->no_affine || (batch && !o->no_tracking);
    bti_layer_plan plan = *a->plan;
    if (!has_values) plan.most_elements = 1 << 24;
    again sized = {&plan, a->status};
    int64_t size = size_option(&sized, "size");
    a->status = sized.status;
    return size;
}
static bt_layer *again_layer_norm(again *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, false, &o);
    return a->status == BT_OK ? bt_layer_norm_layer(size, &o) : NULL;
}
static bt_layer *again_rms_norm(again *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, false, &o);
    return a->status == BT_OK ? bt_rms_norm_layer(size, &o) : NULL;
}
static bt_layer *again_batch_norm(again *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, true, &o);
    return a->status == BT_OK ? bt_batch_norm_layer(size, &o) : NULL;
}
static bt_layer *again_group_norm(again *a) {
    bt_norm_options o;
    int64_t size = norm_options(a, false, &o), groups = size_option(a, "groups");
    return a->status == BT_OK ? bt_group_norm_layer(groups, size, &o) : NULL;
}

static bt_layer *again_dropout(again *a) {
    double rate = real_option(a, "rate");
    return a->status == BT_OK ? bt_dropout_layer(rate, bt_key(0)) : NULL;
}

static bt_layer *again_recurrent(again *a,
                                 bt_layer *(*make)(int64_t, int64_t, bt_array *, const bt_recurrent_options *)) {
    int64_t in = size_option(a, "in"), hidden = size_option(a, "hidden");
    bt_recurrent_options o = {.size = sizeof o,
                              .init = zeros_within_file,
                              .no_bias = !flag_option(a, "bias"),
                              .last = flag_option(a, "last")};
    return a->status == BT_OK ? make(in, hidden, bt_key(0), &o) : NULL;
}
static bt_layer *again_gru(again *a) { return again_recurrent(a, bt_gru_layer); }
static bt_layer *again_lstm(again *a) { return again_recurrent(a, bt_lstm_layer); }

static bt_layer *again_attention(again *a) {
    int64_t width = size_option(a, "width"), heads = size_option(a, "heads");
    bt_attention_layer_options o = {.size = sizeof o,
                                    .kv_heads = size_option(a, "kv_heads"),
                                    .causal = flag_option(a, "causal"),
                                    .no_bias = !flag_option(a, "bias"),
                                    .init = zeros_within_file};
    return a->status == BT_OK ? bt_attention_layer(width, heads, bt_key(0), &o) : NULL;
}

static bt_layer *again_chain(again *a) { return bt_chain_of(a->plan->record.children, a->plan->record.child_count); }

static bt_combiner *combiner_option(again *a) {
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
static bt_layer *again_parallel(again *a) {
    bt_combiner *combine = combiner_option(a);
    return a->status == BT_OK ? bt_parallel_of(combine, a->plan->record.children, a->plan->record.child_count) : NULL;
}
static bt_layer *again_skip(again *a) {
    bt_combiner *combine = combiner_option(a);
    if (a->status == BT_OK && a->plan->record.child_count != 1)
        a->status = bti_fail(BT_INVALID_ARGUMENT, "layer SkipConnection has %d children; it must have one",
                             a->plan->record.child_count);
    return a->status == BT_OK ? bt_skip(a->plan->record.children[0], combine) : NULL;
}

/* --- which it is ---------------------------------------------------------------------------------------------------------------- */

typedef struct layer_kind {
    const char *name;
    bt_layer *(*make)(again *a);
    enum { NO_CHILDREN, MAKES_CHILDREN, TAKES_CHILDREN } children;
} layer_kind;

static const layer_kind kinds[] = {{"Dense", again_dense, NO_CHILDREN},
                                   {"Embedding", again_embedding, NO_CHILDREN},
                                   {"Conv", again_conv, NO_CHILDREN},
                                   {"ConvTranspose", again_conv_transposed, NO_CHILDREN},
                                   {"MaxPool", again_max_pool, NO_CHILDREN},
                                   {"MeanPool", again_mean_pool, NO_CHILDREN},
                                   {"AdaptiveMaxPool", again_adaptive_max, NO_CHILDREN},
                                   {"AdaptiveMeanPool", again_adaptive_mean, NO_CHILDREN},
                                   {"GlobalMaxPool", again_global_max, NO_CHILDREN},
                                   {"GlobalMeanPool", again_global_mean, NO_CHILDREN},
                                   {"Flatten", again_flatten, NO_CHILDREN},
                                   {"LayerNorm", again_layer_norm, NO_CHILDREN},
                                   {"RMSNorm", again_rms_norm, NO_CHILDREN},
                                   {"BatchNorm", again_batch_norm, NO_CHILDREN},
                                   {"GroupNorm", again_group_norm, NO_CHILDREN},
                                   {"Dropout", again_dropout, NO_CHILDREN},
                                   {"GRU", again_gru, NO_CHILDREN},
                                   {"LSTM", again_lstm, NO_CHILDREN},
                                   {"MultiHeadAttention", again_attention, MAKES_CHILDREN},
                                   {"Chain", again_chain, TAKES_CHILDREN},
                                   {"Parallel", again_parallel, TAKES_CHILDREN},
                                   {"SkipConnection", again_skip, TAKES_CHILDREN}};

static const layer_kind *find_kind(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

bool bti_layer_is_known(const char *name) { return find_kind(name); }

bool bti_layer_makes_children(const char *name) {
    const layer_kind *kind = find_kind(name);
    return kind && kind->children == MAKES_CHILDREN;
}

static bt_layer *again_registered(const bti_layer_plan *plan) {
    bti_named_maker maker;
    if (!bti_maker_find(plan->record.name, &maker)) {
        (void)!bti_fail(BT_UNIMPLEMENTED,
                        "there is no layer \"%s\"; bt_layer_register(\"%s\", ...) says how a layer of the program is "
                        "made again",
                        bti_quote(plan->record.name).text, bti_quote(plan->record.name).text);
        return bti_layer_own(NULL);
    }
    bt_layer *layer = maker.make(&plan->record, maker.data);
    if (layer) return layer;
    (void)!bti_fail(BT_INVALID_ARGUMENT, "the function that makes layer \"%s\" gave NULL",
                    bti_quote(plan->record.name).text);
    return bti_layer_own(NULL);
}

/* A function as a layer: its option names it. NULL: the layer is no such. */
static bt_layer *again_function(again *a) {
    if (a->plan->option_count != 1 || strcmp(a->plan->options[0].name, "function")) return NULL;
    bti_named_maker maker;
    if (!strcmp(a->plan->options[0].value, "function") && bti_maker_find(a->plan->record.name, &maker)) return NULL;
    bt_activation *function = activation_option(a, "function");
    return a->status == BT_OK ? bt_lambda(a->plan->record.name, function) : bti_layer_own(NULL);
}

bt_layer *bti_layer_again(const bti_layer_plan *plan) {
    again a = {plan, BT_OK};
    most_elements = plan->most_elements;
    const layer_kind *kind = find_kind(plan->record.name);
    bt_layer *layer = kind ? NULL : again_function(&a);
    if (kind && kind->children == NO_CHILDREN && plan->record.child_count)
        a.status = bti_fail(BT_INVALID_ARGUMENT, "layer %s has %d children; it has none", kind->name,
                            plan->record.child_count);
    if (kind) layer = a.status == BT_OK ? kind->make(&a) : NULL;
    if (kind) return layer ? layer : bti_layer_own(NULL);
    return layer ? layer : again_registered(plan);
}

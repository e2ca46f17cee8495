/* Convolutions and their transposes as layers. */
#include <stdio.h>
#include <string.h>

#include <berth/windows.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "nn/layer.h"
#include "ops/primitive.h"

#define MEMBER(name) BTI_MEMBER(bt_conv_layer_options, name)
static const bti_member conv_members[] = {MEMBER(size),     MEMBER(by_name),    MEMBER(stride), MEMBER(pad),
                                          MEMBER(dilation), MEMBER(output_pad), MEMBER(groups), MEMBER(same),
                                          MEMBER(no_bias),  MEMBER(init)};
#undef MEMBER
static const bti_sized_type conv_layer_layout =
    BTI_SIZED_TYPE(bt_conv_layer_options, "options", "BT_CONV_LAYER(.stride = {2})", conv_members, NULL);

typedef struct conv_settings {
    bt_conv_options window;
    bt_activation *activation;
    bool bias, transposed;
    int axes;
} conv_settings;

static bt_array *apply_conv(bt_layer *layer, bt_array *x, void *data) {
    const conv_settings *s = data;
    x = bti_bring_to_weight(layer, x);
    bt_array *w = bt_layer_parameter(layer, "weight");
    bt_array *y = s->transposed ? bt_conv_transposed(x, w, &s->window) : bt_conv(x, w, &s->window);
    if (s->bias) {
        bt_array *bias = bt_layer_parameter(layer, "bias");
        bt_shape shape = {.rank = 1 + s->axes, .size = {bti_array_error(bias) ? 1 : bt_size(bias, 0), 1, 1, 1}};
        y = bti_add_bias(y, bt_reshape_to(bias, shape));
    }
    return bti_activate(s->activation, y);
}

/* --- options -------------------------------------------------------------------------------------------------------------- */

static bt_status check_conv(const bt_conv_layer_options *o, int64_t in, int64_t out, bt_shape kernel, bool transposed) {
    int64_t groups = o->groups ? o->groups : 1;
    BTI_TRY(bti_check_positive(in, "in"));
    BTI_TRY(bti_check_positive(out, "out"));
    BTI_TRY(bti_check_positive(groups, "groups"));
    if (kernel.rank < 1 || kernel.rank > 3)
        return bti_fail(BT_INVALID_ARGUMENT, "the kernel has %d axes; it has one to three", kernel.rank);
    for (int i = 0; i < kernel.rank; i++) BTI_TRY(bti_check_positive(kernel.size[i], "a size of the kernel"));
    if (in % groups || out % groups)
        return bti_fail(BT_INVALID_ARGUMENT, "%lld groups; they must divide in, %lld, and out, %lld", (long long)groups,
                        (long long)in, (long long)out);
    if (o->same && transposed) return bti_fail(BT_INVALID_ARGUMENT, "a transposed convolution has no `same`");
    for (int i = 0; i < kernel.rank && o->same; i++)
        if (o->pad[i] || (o->stride[i] && o->stride[i] != 1))
            return bti_fail(BT_INVALID_ARGUMENT, "`same` goes with stride 1 and without `pad`");
    return BT_OK;
}

static bt_conv_options window_of(const bt_conv_layer_options *o, bt_shape kernel) {
    bt_conv_options window = {.size = sizeof window, .groups = o->groups};
    memcpy(window.stride, o->stride, sizeof window.stride);
    memcpy(window.dilation, o->dilation, sizeof window.dilation);
    memcpy(window.output_pad, o->output_pad, sizeof window.output_pad);
    for (int i = 0; i < kernel.rank; i++) {
        int64_t span = o->same ? (kernel.size[i] - 1) * (o->dilation[i] ? o->dilation[i] : 1) : 0;
        window.pad_low[i] = o->same ? span / 2 : o->pad[i];
        window.pad_high[i] = o->same ? span - span / 2 : o->pad[i];
    }
    return window;
}

/* ", pad=1", ", pad=(1, 2)", or of `same` with an odd pad both sides of each axis: ", pad=(0, 1, 1, 1)" */
static void add_pads(bti_str *text, const bt_conv_options *window, int axes) {
    int64_t sides[6];
    for (int i = 0; i < axes; i++) {
        sides[2 * i] = window->pad_low[i];
        sides[2 * i + 1] = window->pad_high[i];
    }
    if (memcmp(window->pad_low, window->pad_high, sizeof window->pad_low))
        bti_layer_add_sizes(text, "pad", 2 * axes, sides, bti_all_zeros);
    else
        bti_layer_add_sizes(text, "pad", axes, window->pad_low, bti_all_zeros);
}

/* "((3, 3), 1 => 8, relu, pad=1)" */
static void describe_conv(bti_str *text, int64_t in, int64_t out, bt_shape kernel, const conv_settings *s) {
    const bt_conv_options *window = &s->window;
    int axes = kernel.rank;
    char name[40];
    bti_str_addf(text, "(%s, %lld => %lld%s", bti_sizes_string(axes, kernel.size).text, (long long)in, (long long)out,
                 bti_activation_text(s->activation, name));
    add_pads(text, window, axes);
    bti_layer_add_sizes(text, "stride", axes, window->stride, bti_all_ones);
    bti_layer_add_sizes(text, "dilation", axes, window->dilation, bti_all_ones);
    if (window->groups > 1) bti_str_addf(text, ", groups=%lld", (long long)window->groups);
    if (!s->bias) bti_str_add(text, ", bias=false");
    bti_layer_add_sizes(text, "outpad", axes, window->output_pad, bti_all_zeros);
    bti_str_add(text, ")");
}

/* --- making ----------------------------------------------------------------------------------------------------------------- */

typedef struct conv_call {
    const char *name;
    int64_t in, out;
    bt_shape kernel;
    bt_activation *activation;
    bt_array *key;
    bool transposed;
    bt_conv_layer_options options;
} conv_call;

static void note_conv(bt_layer *layer, const conv_call *c) {
    const bt_conv_layer_options *o = &c->options;
    int axes = c->kernel.rank;
    bti_layer_note(layer, "in", "%lld", (long long)c->in);
    bti_layer_note(layer, "out", "%lld", (long long)c->out);
    bti_layer_note(layer, "kernel", "%s", bti_sizes_string(axes, c->kernel.size).text);
    bti_layer_note(layer, "stride", "%s", bti_sizes_string(axes, o->stride).text);
    bti_layer_note(layer, "pad", "%s", bti_sizes_string(axes, o->pad).text);
    bti_layer_note(layer, "dilation", "%s", bti_sizes_string(axes, o->dilation).text);
    bti_layer_note(layer, "output_pad", "%s", bti_sizes_string(axes, o->output_pad).text);
    bti_layer_note(layer, "groups", "%lld", (long long)o->groups);
    bti_layer_note(layer, "same", "%s", o->same ? "true" : "false");
    bti_layer_note(layer, "bias", "%s", o->no_bias ? "false" : "true");
    bti_layer_note(layer, "activation", "%s", bti_activation_name(c->activation));
}

static bt_layer *draw_conv(const conv_call *c, const char *text, void *settings) {
    const bt_conv_layer_options *o = &c->options;
    int64_t groups = o->groups ? o->groups : 1;
    bt_shape shape = {.rank = 2 + c->kernel.rank};
    shape.size[0] = c->transposed ? c->in : c->out;
    shape.size[1] = (c->transposed ? c->out : c->in) / groups;
    for (int i = 0; i < c->kernel.rank; i++) shape.size[2 + i] = c->kernel.size[i];
    bt_array *weight = bti_weight(o->init, bt_init_glorot_uniform, c->key, shape);
    bt_array *bias = o->no_bias ? NULL : bt_zeros(BT_F32, c->out);
    return bt_layer_new(c->transposed ? "ConvTranspose" : "Conv", apply_conv,
                        BT_LAYER(.data = settings, .free_data = bti_free, .text = text,
                                 .parameters = {{"weight", weight}, {bias ? "bias" : NULL, bias}}));
}

static bt_layer *make_conv(conv_call *c, const bt_conv_layer_options *options) {
    BTI_CALL(c->name);
    c->options = (bt_conv_layer_options){.size = sizeof c->options};
    bool fits = (!options || bti_options_take(&conv_layer_layout, c->name, options, &c->options) == BT_OK) &&
                check_conv(&c->options, c->in, c->out, c->kernel, c->transposed) == BT_OK;
    if (!fits) return bti_layer_own(NULL);
    conv_settings settings = {window_of(&c->options, c->kernel), c->activation, !c->options.no_bias, c->transposed,
                              c->kernel.rank};
    void *copy = bti_layer_settings(&settings, sizeof settings);
    if (!copy) return bti_no_settings();
    bti_str text = {0};
    describe_conv(&text, c->in, c->out, c->kernel, &settings);
    bt_layer *layer = NULL;
    BT_SCOPE
        layer = bt_layer_retain(draw_conv(c, bti_str_text(&text), copy));
    bti_str_free(&text);
    note_conv(layer, c);
    return bti_layer_own(layer);
}

bt_layer *bt_conv_layer(int64_t in, int64_t out, bt_shape kernel, bt_activation *activation, bt_array *key,
                        const bt_conv_layer_options *options) {
    conv_call c = {"bt_conv_layer", in, out, kernel, activation, key, false, {0}};
    return make_conv(&c, options);
}

bt_layer *bt_conv_transposed_layer(int64_t in, int64_t out, bt_shape kernel, bt_activation *activation, bt_array *key,
                                   const bt_conv_layer_options *options) {
    conv_call c = {"bt_conv_transposed_layer", in, out, kernel, activation, key, true, {0}};
    return make_conv(&c, options);
}

/* Recurrent layers: one product for the inputs of all places, then one scan over the places. B examples, T places, H hidden features, G gates. */
#include <math.h>
#include <stdio.h>

#include <berth/control.h>
#include <berth/matrices.h>
#include <berth/random.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "nn/layer.h"
#include "ops/primitive.h"

#define MEMBER(name) BTI_MEMBER(bt_recurrent_options, name)
static const bti_member recurrent_members[] = {MEMBER(size), MEMBER(by_name), MEMBER(init), MEMBER(no_bias),
                                               MEMBER(last)};
#undef MEMBER
static const bti_sized_type recurrent_layout =
    BTI_SIZED_TYPE(bt_recurrent_options, "options", "BT_RECURRENT(.last = true)", recurrent_members, NULL);

typedef struct recurrent_settings {
    int64_t in, hidden;
    int gates, carried; /* 3 and 1 of a GRU, 4 and 2 of an LSTM */
    bool bias, last;
    bt_scan_fn *step;
} recurrent_settings;

/* What a step reads from outside. */
typedef struct recurrent_step {
    bt_array *weight; /* [G * H, H] */
    bt_array *bias;   /* [G * H]; NULL: none */
    int64_t hidden;
    bool rows; /* of y are wanted */
} recurrent_step;

static bt_array *gate(bt_array *all, const recurrent_step *s, int i) {
    return bt_slice_axis(all, 1, i * s->hidden, (i + 1) * s->hidden, 1);
}

static bt_array *from_hidden(bt_array *h, const recurrent_step *s) {
    bt_array *product = bt_matmul_t(h, s->weight, false, true);
    return s->bias ? bti_add_bias(product, s->bias) : product;
}

/* h = (1 - z) * n + z * h = n + z * (h - n) */
static void gru_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const recurrent_step *s = data;
    bt_array *h = carry[0], *own = from_hidden(h, s);
    bt_array *r = bt_sigmoid(bt_add(gate(x[0], s, 0), gate(own, s, 0)));
    bt_array *z = bt_sigmoid(bt_add(gate(x[0], s, 1), gate(own, s, 1)));
    bt_array *n = bt_tanh(bt_add(gate(x[0], s, 2), bt_mul(r, gate(own, s, 2))));
    carry[0] = bt_add(n, bt_mul(z, bt_sub(h, n)));
    if (s->rows) y[0] = carry[0];
}

static void lstm_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const recurrent_step *s = data;
    bt_array *all = bt_add(x[0], from_hidden(carry[0], s));
    bt_array *i = bt_sigmoid(gate(all, s, 0)), *f = bt_sigmoid(gate(all, s, 1));
    bt_array *g = bt_tanh(gate(all, s, 2)), *o = bt_sigmoid(gate(all, s, 3));
    carry[1] = bt_add(bt_mul(f, carry[1]), bt_mul(i, g));
    carry[0] = bt_mul(o, bt_tanh(carry[1]));
    if (s->rows) y[0] = carry[0];
}

/* --- applying ------------------------------------------------------------------------------------------------------------------ */

/* h or c is [B, hidden], with the B of x as far as both are known. */
static bt_status check_carried(const bt_layer *layer, const recurrent_settings *s, const bt_array *x,
                               const bt_array *carried, const char *name) {
    int64_t rows = bti_shape(x)[0];
    bool fits = bti_rank(carried) == 2 && bti_shape(carried)[1] == s->hidden;
    bool rows_fit = fits && (bti_shape(carried)[0] == rows || bti_size_is_symbolic(rows) ||
                             bti_size_is_symbolic(bti_shape(carried)[0]));
    if (rows_fit) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "%s is %s and x %s; %s%s takes %s of [B, %lld], with the B of x", name,
                    bti_describe_array(carried).text, bti_describe_array(x).text, layer->name, layer->text, name,
                    (long long)s->hidden);
}

static bt_status check_sequence(const bt_layer *layer, const recurrent_settings *s, bt_array *const *inputs,
                                int input_count, int output_count) {
    BTI_CALL("bt_apply");
    if ((input_count != 1 && input_count != 1 + s->carried) || output_count < 1 || output_count > 1 + s->carried)
        return bti_fail(BT_INVALID_ARGUMENT, "layer %s has 1 or %d inputs and 1 to %d outputs, not %d and %d",
                        layer->name, 1 + s->carried, 1 + s->carried, input_count, output_count);
    for (int i = 0; i < input_count; i++) BTI_TRY(bti_fail_with(bti_array_error(inputs[i])));
    if (bt_rank(inputs[0]) != 3 || bt_size(inputs[0], 2) != s->in)
        return bti_fail(BT_INVALID_ARGUMENT, "x is %s; %s%s takes [B, T, %lld]", bti_describe_array(inputs[0]).text,
                        layer->name, layer->text, (long long)s->in);
    for (int i = 1; i < input_count; i++) BTI_TRY(check_carried(layer, s, inputs[0], inputs[i], i == 1 ? "h" : "c"));
    return BT_OK;
}

static bt_array *swap_first_axes(bt_array *x) { return bt_permute_axes(x, BT_AXES(1, 0, 2)); }

static bt_status apply_recurrent(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                                 int output_count, void *data) {
    const recurrent_settings *s = data;
    BTI_TRY(check_sequence(layer, s, inputs, input_count, output_count));
    bt_array *x = bti_bring_to_weight(layer, inputs[0]), *carry[2], *y = NULL;
    bt_array *all = bt_matmul_t(x, bt_layer_parameter(layer, "weight_ih_l0"), false, true);
    if (s->bias) all = bti_add_bias(all, bt_layer_parameter(layer, "bias_ih_l0"));
    all = swap_first_axes(all); /* [T, B, G * H] */
    recurrent_step step = {bt_layer_parameter(layer, "weight_hh_l0"),
                           s->bias ? bt_layer_parameter(layer, "bias_hh_l0") : NULL, s->hidden, !s->last};
    bt_array *place = bt_sum(all, BT_AXES(0), false); /* [B, G * H], for its shape */
    for (int i = 0; i < s->carried; i++)
        carry[i] = input_count > 1 ? inputs[i + 1] : bt_zeros_like(bt_slice_axis(place, 1, 0, s->hidden, 1));
    BTI_TRY(bt_scan(s->step, &step, BT_ALL_ROWS, carry, s->carried, &all, 1, &y, s->last ? 0 : 1));
    outputs[0] = s->last ? carry[0] : swap_first_axes(y);
    for (int i = 1; i < output_count; i++) outputs[i] = carry[i - 1];
    return BT_OK;
}

/* --- making --------------------------------------------------------------------------------------------------------------------- */

static bt_array *draw_recurrent(const bt_recurrent_options *o, bt_array *keys, int i, int64_t hidden, bt_shape shape) {
    double bound = 1 / sqrt((double)hidden);
    bt_array *key = bt_split_at(keys, i);
    bool weight = shape.rank == 2;
    return o->init && weight ? o->init(key, BT_F32, shape) : bt_uniform_shape(key, -bound, bound, BT_F32, shape);
}

static bt_layer *draw_recurrent_layer(const char *name, const char *text, const recurrent_settings *s,
                                      const bt_recurrent_options *o, bt_array *key, void *copy) {
    bt_array *keys = bt_split(key, 4);
    int64_t rows = s->gates * s->hidden;
    bt_array *input = draw_recurrent(o, keys, 0, s->hidden, BT_SHAPE(rows, s->in));
    bt_array *hidden = draw_recurrent(o, keys, 1, s->hidden, BT_SHAPE(rows, s->hidden));
    bt_array *input_bias = s->bias ? draw_recurrent(o, keys, 2, s->hidden, BT_SHAPE(rows)) : NULL;
    bt_array *hidden_bias = s->bias ? draw_recurrent(o, keys, 3, s->hidden, BT_SHAPE(rows)) : NULL;
    return bt_layer_new(name, NULL,
                        BT_LAYER(.data = copy, .free_data = bti_free, .forward_all = apply_recurrent, .text = text,
                                 .parameters = {{"weight_ih_l0", input},
                                                {"weight_hh_l0", hidden},
                                                {s->bias ? "bias_ih_l0" : NULL, input_bias},
                                                {"bias_hh_l0", hidden_bias}}));
}

static bt_layer *make_recurrent(const char *call, const char *name, recurrent_settings s, bt_array *key,
                                const bt_recurrent_options *options) {
    BTI_CALL(call);
    bt_recurrent_options o = {.size = sizeof o};
    bool fits = (!options || bti_options_take(&recurrent_layout, call, options, &o) == BT_OK) &&
                bti_check_positive(s.in, "in") == BT_OK && bti_check_positive(s.hidden, "hidden") == BT_OK &&
                bti_fail_with(bti_array_error(key)) == BT_OK;
    if (!fits) return bti_layer_own(NULL);
    if (s.hidden > INT64_MAX / 64 || s.in > INT64_MAX / 64) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%lld => %lld are too many features", (long long)s.in,
                        (long long)s.hidden);
        return bti_layer_own(NULL);
    }
    s.bias = !o.no_bias;
    s.last = o.last;
    void *copy = bti_layer_settings(&s, sizeof s);
    if (!copy) return bti_no_settings();
    char text[80];
    snprintf(text, sizeof text, "(%lld => %lld)", (long long)s.in, (long long)s.hidden);
    bt_layer *layer = NULL;
    BT_SCOPE
        layer = bt_layer_retain(draw_recurrent_layer(name, text, &s, &o, key, copy));
    bti_layer_note(layer, "in", "%lld", (long long)s.in);
    bti_layer_note(layer, "hidden", "%lld", (long long)s.hidden);
    bti_layer_note(layer, "bias", "%s", s.bias ? "true" : "false");
    bti_layer_note(layer, "last", "%s", s.last ? "true" : "false");
    return bti_layer_own(layer);
}

bt_layer *bt_gru_layer(int64_t in, int64_t hidden, bt_array *key, const bt_recurrent_options *options) {
    recurrent_settings s = {.in = in, .hidden = hidden, .gates = 3, .carried = 1, .step = gru_step};
    return make_recurrent("bt_gru_layer", "GRU", s, key, options);
}

bt_layer *bt_lstm_layer(int64_t in, int64_t hidden, bt_array *key, const bt_recurrent_options *options) {
    recurrent_settings s = {.in = in, .hidden = hidden, .gates = 4, .carried = 2, .step = lstm_step};
    return make_recurrent("bt_lstm_layer", "LSTM", s, key, options);
}

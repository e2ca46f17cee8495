/* Multi-head attention of four dense layers. B examples, L queries, S keys, H heads of a depth D. */
#include <berth/attention.h>
#include <berth/random.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "nn/layer.h"
#include "ops/primitive.h"

#define MEMBER(name) BTI_MEMBER(bt_attention_layer_options, name)
static const bti_member attention_layer_members[] = {MEMBER(size),   MEMBER(by_name), MEMBER(kv_heads),
                                                     MEMBER(causal), MEMBER(no_bias), MEMBER(init)};
#undef MEMBER
static const bti_sized_type attention_layer_layout = BTI_SIZED_TYPE(
    bt_attention_layer_options, "options", "BT_ATTENTION_LAYER(.causal = true)", attention_layer_members, NULL);

typedef struct attention_settings {
    int64_t width, heads, kv_heads;
    bool causal;
} attention_settings;

enum { QUERY, KEY, VALUE, OUT, PARTS };
static const char *const part_names[PARTS] = {"query", "key", "value", "out"};

/* [B, L, H * D] -> [B, H, L, D] */
static bt_array *split_heads(bt_array *x, int64_t heads, int64_t depth) {
    if (bti_array_error(x)) return x;
    x = bti_reshape(x, 4, (int64_t[]){bti_shape(x)[0], bti_shape(x)[1], heads, depth});
    return bt_permute_axes(x, BT_AXES(0, 2, 1, 3));
}

static bt_array *join_heads(bt_array *x, int64_t width) {
    if (bti_array_error(x)) return x;
    x = bt_permute_axes(x, BT_AXES(0, 2, 1, 3));
    return bti_reshape(x, 3, (int64_t[]){bti_shape(x)[0], bti_shape(x)[1], width});
}

static bt_status check_attended(const bt_layer *layer, const attention_settings *s, bt_array *const *inputs,
                                int input_count, int output_count) {
    BTI_CALL("bt_apply");
    if (input_count < 1 || input_count > 4 || output_count != 1)
        return bti_fail(BT_INVALID_ARGUMENT, "layer %s has 1 to 4 inputs and 1 output, not %d and %d", layer->name,
                        input_count, output_count);
    for (int i = 0; i < input_count; i++) BTI_TRY(bti_fail_with(bti_array_error(inputs[i])));
    for (int i = 0; i < input_count && i < 3; i++)
        if (bti_rank(inputs[i]) != 3 || bti_shape(inputs[i])[2] != s->width)
            return bti_fail(BT_INVALID_ARGUMENT, "input %d is %s; %s takes [B, L, %lld]", i + 1,
                            bti_describe_array(inputs[i]).text, layer->name, (long long)s->width);
    return BT_OK;
}

static bt_status apply_attention(bt_layer *layer, bt_array *const *inputs, int input_count, bt_array **outputs,
                                 int output_count, void *data) {
    const attention_settings *s = data;
    BTI_TRY(check_attended(layer, s, inputs, input_count, output_count));
    int64_t depth = s->width / s->heads;
    bt_array *parts[3];
    for (int i = 0; i < 3; i++) {
        bt_array *x = inputs[i < input_count ? i : input_count - 1];
        parts[i] = split_heads(bt_apply(layer->children[i], x), i == QUERY ? s->heads : s->kv_heads, depth);
    }
    bt_attention_options options = {.size = sizeof options, .causal = s->causal};
    if (input_count == 4) options.mask = inputs[3];
    bt_array *read = bt_attention(parts[QUERY], parts[KEY], parts[VALUE], &options);
    outputs[0] = bt_apply(layer->children[OUT], join_heads(read, s->width));
    return BT_OK;
}

/* --- making --------------------------------------------------------------------------------------------------------------------- */

static bt_status check_heads(const attention_settings *s) {
    BTI_TRY(bti_check_positive(s->width, "width"));
    BTI_TRY(bti_check_positive(s->heads, "heads"));
    BTI_TRY(bti_check_positive(s->kv_heads, "kv_heads"));
    if (s->width % s->heads || s->heads % s->kv_heads)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "width %lld, %lld heads and %lld of keys: each must divide the one before it",
                        (long long)s->width, (long long)s->heads, (long long)s->kv_heads);
    return BT_OK;
}

/* "(64; nheads=8, bias=true)" */
static void describe_attention(bti_str *text, const attention_settings *s, const bt_attention_layer_options *o) {
    bti_str_addf(text, "(%lld; nheads=%lld", (long long)s->width, (long long)s->heads);
    if (s->kv_heads != s->heads) bti_str_addf(text, ", kv_heads=%lld", (long long)s->kv_heads);
    bti_str_add(text, o->no_bias ? "" : ", bias=true");
    bti_str_add(text, s->causal ? ", causal=true)" : ")");
}

static bt_layer *draw_attention(const attention_settings *s, const bt_attention_layer_options *o, bt_array *key,
                                void *copy) {
    bt_array *keys = bt_split(key, PARTS);
    bt_weight_options weights = {.size = sizeof weights, .init = o->init, .no_bias = o->no_bias};
    bti_str text = {0};
    describe_attention(&text, s, o);
    bt_layer_options options = {.size = sizeof options,
                                .data = copy,
                                .free_data = bti_free,
                                .text = bti_str_text(&text),
                                .forward_all = apply_attention};
    for (int i = 0; i < PARTS; i++) {
        int64_t out = i == KEY || i == VALUE ? s->width / s->heads * s->kv_heads : s->width;
        options.children[i] =
            (bt_named_layer){part_names[i], bt_dense(s->width, out, NULL, bt_split_at(keys, i), &weights)};
    }
    bt_layer *layer = bt_layer_new("MultiHeadAttention", NULL, &options);
    bti_str_free(&text);
    return layer;
}

bt_layer *bt_attention_layer(int64_t width, int64_t heads, bt_array *key, const bt_attention_layer_options *options) {
    BTI_CALL("bt_attention_layer");
    bt_attention_layer_options o = {.size = sizeof o};
    if (options && bti_options_take(&attention_layer_layout, "bt_attention_layer", options, &o) != BT_OK)
        return bti_layer_own(NULL);
    attention_settings s = {width, heads, o.kv_heads ? o.kv_heads : heads, o.causal};
    if (check_heads(&s) != BT_OK || bti_fail_with(bti_array_error(key)) != BT_OK) return bti_layer_own(NULL);
    void *copy = bti_layer_settings(&s, sizeof s);
    if (!copy) return bti_no_settings();
    bt_layer *layer = NULL;
    BT_SCOPE
        layer = bt_layer_retain(draw_attention(&s, &o, key, copy));
    bti_layer_note(layer, "width", "%lld", (long long)width);
    bti_layer_note(layer, "heads", "%lld", (long long)heads);
    bti_layer_note(layer, "kv_heads", "%lld", (long long)s.kv_heads);
    bti_layer_note(layer, "causal", "%s", s.causal ? "true" : "false");
    bti_layer_note(layer, "bias", "%s", o.no_bias ? "false" : "true");
    return bti_layer_own(layer);
}

// labels: valgrind
/* Layers of one's own, and the built-in ones as objects: what they refuse, and how they print. */
#include <math.h>

#include "support/support.h"

/* --- layers of one's own ------------------------------------------------------------------------------------------------- */

static int freed;
static void count_free(void *data) { freed += *(int *)data; }

/* x * factor + child(x), and a count of calls. */
static bt_array *scale(bt_layer *layer, bt_array *x, void *data) {
    (void)data;
    bt_array *calls = bt_layer_state(layer, "calls");
    if (bt_is_training() && bt_layer_set_state(layer, "calls", bt_add(calls, bt_i32(1))) != BT_OK)
        return bt_layer_state(layer, "calls");
    return bt_add(bt_mul(x, bt_layer_parameter(layer, "factor")), bt_apply(bt_layer_child(layer, 0), x));
}

static bt_layer *make_scale(void *data) {
    return bt_layer_new("Scale", scale, .data = data, .free_data = data ? count_free : NULL, .text = "(3)",
                        .parameters = {{"factor", bt_from((float[]){1, 2, 3}, BT_F32, BT_SHAPE(3))}},
                        .state = {{"calls", bt_i32(0)}},
                        .children = {{"inner", bt_dense_from(bt_eye(3, 3, BT_F32), NULL, NULL)}});
}

static void of_ones_own(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    int one = 1;
    freed = 0;
    BT_SCOPE {
        bt_layer *model = bt_chain_of((bt_layer *[]){make_scale(&one)}, 1);
        bt_array *x = bt_ones(BT_F32, 1, 3);
        READS(bt_apply(model, x), 2, 3, 4);
        bt_shared *p[4], *calls;
        assert_int_equal(bt_parameters(model, p, 4), 2);
        assert_int_equal(bt_states(model, &calls, 1), 1);
        assert_string_equal(bt_shared_name(p[0]), "0.factor");
        assert_string_equal(bt_shared_name(p[1]), "0.inner.weight");
        assert_string_equal(bt_shared_name(calls), "0.calls");
        BT_TRAINING(true) {
            READS(bt_apply(model, x), 2, 3, 4);
            READS(bt_apply(model, x), 2, 3, 4);
        }
        READS(bt_value(calls), 2);
        bt_layer *copy = bt_layer_to(model, "gpu:1");
        BT_TRAINING(true) READS(bt_apply(copy, x), 2, 3, 4);
        READS(bt_value(calls), 2);
        bt_states(copy, &calls, 1);
        READS(bt_value(calls), 3);
        assert_string_equal(bt_device_name(bt_device_of(bt_value(calls))), "GPU:1");
        assert_int_equal(bt_layer_child_count(bt_layer_child(model, 0)), 1);
        char *text = bt_summary(model);
        assert_string_equal(text, "Chain(\n"
                                  "  Scale(\n"
                                  "    3,\n"
                                  "    factor = float32 (3,),      # 3 parameters\n"
                                  "    inner = Dense(3 => 3; bias=false), # 9 parameters\n"
                                  "  ),\n"
                                  ")                               # 12 parameters in all\n");
        bt_free(text);
        assert_int_equal(freed, 0);
    }
    assert_int_equal(freed, 1);
    assert_int_equal(bt_live_arrays(), 0);
}

static bt_array *first_of(bt_layer *layer, bt_array *x, void *data) {
    (void)layer;
    (void)data;
    return x;
}
static bt_array *gives_nothing(bt_layer *layer, bt_array *x, void *data) {
    (void)layer;
    (void)x;
    (void)data;
    return NULL;
}
static bt_status swapped(bt_layer *layer, bt_array *const *inputs, int in, bt_array **outputs, int out, void *data) {
    (void)layer;
    (void)data;
    for (int i = 0; i < out; i++) outputs[i] = inputs[(i + 1) % in];
    return BT_OK;
}

static void several_inputs(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_layer *swap = bt_layer_new("Swap", NULL, .forward_all = swapped);
        bt_array *in[2] = {bt_f32(1), bt_f32(2)}, *out[2];
        OK(bt_apply_all(swap, in, 2, out, 2));
        READS(out[0], 2);
        READS(out[1], 1);
        READS(bt_apply(swap, in[0]), 1);
        bt_layer *single = bt_layer_new("First", first_of);
        FAILS(bt_apply_all(single, in, 2, out, 1), BT_INVALID_ARGUMENT,
              "bt_apply_all: layer First has 1 input and 1 output, not 2 and 1");
        POISONED(out[0], BT_INVALID_ARGUMENT, "layer First");
        FAILS(bt_apply_all(swap, NULL, 2, out, 2), BT_INVALID_ARGUMENT, "inputs");
        FAILS(bt_apply_all(swap, (bt_array *[]){in[0], NULL}, 2, out, 2), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_apply_all(NULL, in, 2, out, 2), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_apply(bt_layer_new("Nothing", gives_nothing), in[0]), BT_INVALID_ARGUMENT,
                 "the function of layer Nothing gave NULL");
    }
}

/* Two layers with one variable: one parameter of the model, also of its copies. */
static bt_array *reversed(bt_layer *layer, bt_array *x, void *data) {
    (void)data;
    return bt_matmul_t(x, bt_layer_parameter(layer, "weight"), false, true);
}
static void tied(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_layer *embedding = bt_embedding_layer(5, 3, bt_key(1));
        bt_shared *w, *all[3];
        bt_parameters(embedding, &w, 1);
        bt_layer *output = bt_layer_new("Output", reversed, .tied = {{"weight", w}});
        bt_layer *model = bt_chain_of((bt_layer *[]){embedding, output}, 2), *copy = bt_layer_cpu(model);
        assert_int_equal(bt_parameters(model, all, 3), 1);
        assert_ptr_equal(all[0], w);
        assert_string_equal(bt_shared_name(w), "0.weight");
        assert_int_equal(bt_parameters(copy, all, 3), 1);
        assert_int_equal(bt_parameter_count(copy), 15);
        bt_array *y = bt_apply(copy, bt_from((int32_t[]){1, 2}, BT_I32, BT_SHAPE(2)));
        assert_int_equal(bt_size(y, 1), 5);
    }
}

/* --- refusals ---------------------------------------------------------------------------------------------------------------- */

#define REFUSED(layer, ...) FAILS(bt_layer_status(layer), BT_INVALID_ARGUMENT, ##__VA_ARGS__)

static void refused_new(void **state) {
    (void)state;
    fresh("");
    int ten = 10;
    freed = 0;
    BT_SCOPE {
        bt_array *one = bt_f32(1), *bad = bt_reshape_to(one, BT_SHAPE(7));
        REFUSED(bt_layer_new(NULL, first_of), "bt_layer_new: the name is NULL");
        REFUSED(bt_layer_new("L", NULL, .data = &ten, .free_data = count_free), "no function and no `forward_all`");
        assert_int_equal(freed, 10);
        REFUSED(bt_layer_new("L", first_of, .forward_all = swapped), "a function and `forward_all`");
        REFUSED(bt_layer_new("L", first_of, .parameters = {{"a.b", one}}),
                "\"a.b\"; a name has a character or more, and no point");
        REFUSED(bt_layer_new("L", first_of, .parameters = {{"a", one}}, .state = {{"a", one}}), "\"a\" is there twice");
        REFUSED(bt_layer_new("L", first_of, .parameters = {{"a", NULL}}), "parameter \"a\" is NULL");
        REFUSED(bt_layer_new("L", first_of, .state = {{"a", bad}}), "bt_reshape");
        REFUSED(bt_layer_new("L", first_of, .tied = {{"a", NULL}}), "NULL");
        REFUSED(bt_layer_new("L", first_of, .children = {{"a", NULL}}), "layer \"a\" is NULL");
        REFUSED(bt_layer_new("L", first_of, .list = NULL, .list_count = 2), "the list of layers is NULL");
        REFUSED((bt_layer_new)("L", first_of, &(bt_layer_options){.data = &ten}), "no size: use BT_LAYER(");
        bt_layer *layer = make_scale(NULL);
        POISONED(bt_layer_parameter(layer, "none"), BT_NOT_FOUND,
                 "layer Scale has no parameter \"none\"; it has \"factor\"");
        POISONED(bt_layer_state(layer, NULL), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_layer_parameter(NULL, "x"), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_layer_set_state(layer, "calls", bt_ones(BT_I32, 2)), BT_INVALID_ARGUMENT, "calls");
        FAILS(bt_layer_set_state(layer, "calls", NULL), BT_INVALID_ARGUMENT, "NULL");
        assert_null(bt_layer_child(layer, 1));
        FAILS(bt_error_status(), BT_OUT_OF_RANGE, "has 1 children; there is no number 1");
        bt_layer_retain(layer);
        bt_layer_release(layer);
    }
    assert_int_equal(bt_live_arrays(), 0);
}

static bt_array *sets_other_shape(bt_layer *layer, bt_array *x, void *data) {
    (void)data;
    if (bt_is_training()) bt_layer_set_state(layer, "mean", bt_ones(BT_F32, 5));
    return bt_mul(x, bt_layer_parameter(layer, "w"));
}
static bt_array *distance(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y);
}

/* Steps fail, also if the layer does not look. */
static void states_that_cannot_be_set(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 4, 3);
        for (int way = 0; way < 2; way++) {
            bt_strategy *both = way ? bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2) : NULL;
            bt_layer *layer = NULL;
            BT_STRATEGY(both)
                layer = bt_layer_new("L", sets_other_shape, .parameters = {{"w", bt_ones(BT_F32, 3)}},
                                     .state = {{"mean", bt_zeros(BT_F32, 3)}});
            FAILS(bt_block(bt_train_step(both, layer, bt_sgd(0.1), distance, NULL, x, x)), BT_INVALID_ARGUMENT,
                  "bt_layer_set_state", "(5,)");
            FAILS(bt_fit(layer, bt_sgd(0.1), x, x, BT_FIT_OPTIONS(.quiet = true, .loss = distance, .strategy = both),
                         NULL),
                  BT_INVALID_ARGUMENT, "(5,)");
            bt_update list[4];
            bt_state_updates updates = {.list = list, .capacity = 4};
            BT_TRAINING(true)
            BT_STATE_UPDATES(&updates) OK(bt_block(bt_apply(layer, x)));
            assert_int_equal(updates.count, -1);
            FAILS(bt_error_status(), BT_INVALID_ARGUMENT, "(5,)");
        }
    }
    assert_int_equal(bt_live_arrays(), 0);
}

/* Released layers, poisoned ones, and blocks without a list. */
static void misused(void **state) {
    (void)state;
    fresh("");
    bt_layer *gone = NULL;
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 1, 3), *out = NULL;
        BT_SCOPE
            gone = make_scale(NULL);
        POISONED(bt_apply(gone, x), BT_INVALID_ARGUMENT, "released");
        FAILS(bt_apply_all(gone, &x, 1, &out, 1), BT_INVALID_ARGUMENT, "released");
        POISONED(bt_layer_parameter(gone, "factor"), BT_INVALID_ARGUMENT, "released");
        POISONED(bt_layer_state(gone, "calls"), BT_INVALID_ARGUMENT, "released");
        FAILS(bt_layer_set_state(gone, "calls", bt_i32(1)), BT_INVALID_ARGUMENT, "released");
        FAILS(bt_layer_hook(gone, NULL, NULL), BT_INVALID_ARGUMENT, "released");
        FAILS(bt_layer_gradient_hook(gone, NULL, NULL), BT_INVALID_ARGUMENT, "released");
        assert_null(bt_layer_child(gone, 0));
        assert_int_equal(bt_layer_child_count(gone), 0);
        assert_int_equal(bt_states(gone, NULL, 0), 0);
        assert_null(bt_summary(gone));
        REFUSED(bt_skip(gone, NULL), "released");
        REFUSED(bt_chain(gone), "released");
        REFUSED(bt_layer_new("L", first_of, .children = {{"a", gone}}), "released");
        bt_layer *bad = bt_dropout_layer(7, bt_key(1));
        POISONED(bt_apply(bad, x), BT_INVALID_ARGUMENT, "the rate is 7");
        POISONED(bt_apply(bt_chain(bad), x), BT_INVALID_ARGUMENT, "the rate is 7");
        REFUSED(bt_layer_cpu(bad), "the rate is 7");
        bt_error_clear();
        BT_STATE_UPDATES(NULL) OK(bt_layer_set_state(make_scale(NULL), "calls", bt_i32(1)));
        FAILS(bt_error_status(), BT_INVALID_ARGUMENT, "BT_STATE_UPDATES: the updates are NULL");
    }
    assert_int_equal(bt_live_arrays(), 0);
}

static void refused_sizes(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *key = bt_key(1), *bad = bt_reshape_to(bt_f32(1), BT_SHAPE(7));
        const int64_t hostile[] = {0, -1, INT64_MIN, INT64_MAX};
        for (int i = 0; i < COUNT(hostile); i++) {
            int64_t n = hostile[i];
            assert_int_not_equal(bt_layer_status(bt_embedding_layer(n, n, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_conv_layer(n, 2, BT_SHAPE(3), NULL, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_conv_layer(2, n, BT_SHAPE(n), NULL, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_conv_transposed_layer(n, n, BT_SHAPE(n), NULL, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_gru_layer(n, n, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_lstm_layer(2, n, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_attention_layer(n, 2, key)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_batch_norm_layer(n)), BT_OK);
            assert_int_not_equal(bt_layer_status(bt_group_norm_layer(n, n)), BT_OK);
            bt_layer *pool = bt_max_pool_layer(BT_SHAPE(n, n)), *adaptive = bt_adaptive_avg_pool_layer(BT_SHAPE(n));
            assert_int_not_equal(bt_peek_status(bt_apply(pool, bt_ones(BT_F32, 1, 1, 4, 4))), BT_OK);
            assert_int_not_equal(bt_peek_status(bt_apply(adaptive, bt_ones(BT_F32, 1, 4, 4))), BT_OK);
        }
        REFUSED(bt_dropout_layer(NAN, key), "the rate is");
        REFUSED(bt_dropout_layer(0.5, bt_f32(1)), "a key is uint32 (2,)");
        REFUSED(bt_dropout_layer(0.5, bad), "bt_reshape");
        REFUSED(bt_dense(2, 2, NULL, bad), "bt_reshape");
        REFUSED(bt_conv_layer(4, 6, BT_SHAPE(3), NULL, key, .groups = 4),
                "bt_conv_layer: 4 groups; they must divide in, 4, and out, 6");
        REFUSED(bt_conv_layer(4, 6, BT_SHAPE(3), NULL, key, .same = true, .stride = {2}), "`same` goes with stride 1");
        REFUSED((bt_conv_layer)(4, 6, BT_SHAPE(3), NULL, key, &(bt_conv_layer_options){.groups = 2}),
                "no size: use BT_CONV_LAYER(");
        REFUSED(bt_attention_layer(8, 4, key, .kv_heads = 3), "each must divide the one before it");
        REFUSED(bt_batch_norm_layer(3, .eps = NAN), "eps is");
        REFUSED(bt_parallel_of(bt_combine_sum, NULL, 0), "there are 0 layers");
        REFUSED(bt_skip(NULL, NULL), "bt_skip: layer 1 is NULL");
    }
    assert_int_equal(bt_live_arrays(), 0);
}

static void refused_inputs(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *key = bt_key(1), *x = bt_ones(BT_F32, 2, 3), *whole = bt_ones(BT_I32, 2, 3);
        bt_layer *chain = bt_chain_of((bt_layer *[]){bt_dense(3, 4, bt_relu, key), bt_dense(5, 2, NULL, key)}, 2);
        POISONED(bt_apply(chain, x), BT_INVALID_ARGUMENT,
                 "bt_apply: layer 1, Dense(5 => 2), does not take float32 (2, 4) from layer 0, Dense(3 => 4, relu): ",
                 "bt_dense(4, 2, ...) takes such an x");
        POISONED(bt_apply(chain, bt_ones(BT_F32, 2, 9)), BT_INVALID_ARGUMENT,
                 "layer 0, Dense(3 => 4, relu), does not take float32 (2, 9): ");
        POISONED(bt_apply(chain, NULL), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_apply(bt_batch_norm_layer(4), x), BT_INVALID_ARGUMENT,
                 "x is float32 (2, 3); BatchNorm(4) takes floats, [B, C, ...]");
        POISONED(bt_apply(bt_batch_norm_layer(3), whole), BT_INVALID_ARGUMENT, "int32");
        BT_TRAINING(true) {
            POISONED(bt_apply(bt_batch_norm_layer(3), bt_ones(BT_F32, 1, 3)), BT_INVALID_ARGUMENT,
                     "two values or more per channel in training");
            POISONED(bt_apply(bt_dropout_layer(0.5, key), whole), BT_INVALID_ARGUMENT, "takes floats in training");
        }
        POISONED(bt_apply(bt_layer_norm_layer(4), x), BT_INVALID_ARGUMENT, "LayerNorm(4)");
        POISONED(bt_apply(bt_gru_layer(3, 4, key), x), BT_INVALID_ARGUMENT,
                 "x is float32 (2, 3); GRU(3 => 4) takes [B, T, 3]");
        POISONED(bt_apply(bt_attention_layer(4, 2, key), x), BT_INVALID_ARGUMENT, "input 1 is float32 (2, 3)");
        POISONED(bt_apply(bt_max_pool_layer(BT_SHAPE(2, 2)), x), BT_INVALID_ARGUMENT,
                 "the window has 2 axes, and x two more");
        bt_array *out[3], *states[2] = {bt_ones(BT_F32, 2, 5, 3), bt_ones(BT_F32, 2, 3)};
        FAILS(bt_apply_all(bt_gru_layer(3, 4, key), states, 2, out, 2), BT_INVALID_ARGUMENT,
              "bt_apply: h is float32 (2, 3) and x float32 (2, 5, 3); GRU(3 => 4) takes h of [B, 4], with the B of x");
        bt_array *three[3] = {states[0], bt_ones(BT_F32, 2, 4), bt_ones(BT_F32, 3, 4)};
        FAILS(bt_apply_all(bt_lstm_layer(3, 4, key), three, 3, out, 3), BT_INVALID_ARGUMENT,
              "bt_apply: c is float32 (3, 4) and x float32 (2, 5, 3); LSTM(3 => 4) takes c of [B, 4]");
        FAILS(bt_apply_all(bt_gru_layer(3, 4, key), (bt_array *[]){states[0], bt_ones(BT_F32, 1, 4)}, 2, out, 2),
              BT_INVALID_ARGUMENT, "h is float32 (1, 4)");
        FAILS(bt_apply_all(bt_lstm_layer(3, 4, key), states, 2, out, 2), BT_INVALID_ARGUMENT,
              "has 1 or 3 inputs and 1 to 3 outputs, not 2 and 2");
        POISONED(bt_combine_concat(&x, 0), BT_INVALID_ARGUMENT, "there are 0 parts");
    }
    assert_int_equal(bt_live_arrays(), 0);
}

/* --- what is there ------------------------------------------------------------------------------------------------------------ */

static void expect_line(bt_layer *layer, const char *line) {
    OK(bt_layer_status(layer));
    char *text = bt_summary(layer);
    if (strncmp(text, line, strlen(line))) fail_msg("%s, not %s", text, line);
    bt_free(text);
}

static void printed(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *key = bt_key(1);
        expect_line(bt_conv_layer(1, 8, BT_SHAPE(3, 3), bt_relu, key),
                    "Conv((3, 3), 1 => 8, relu)      # 80 parameters\n");
        expect_line(bt_conv_layer(2, 8, BT_SHAPE(3, 5), NULL, key, .stride = {2, 2}, .pad = {1, 2}, .groups = 2,
                                  .no_bias = true),
                    "Conv((3, 5), 2 => 8, pad=(1, 2), stride=2, groups=2, bias=false) # 120 parameters\n");
        expect_line(bt_conv_layer(1, 2, BT_SHAPE(3, 3), NULL, key, .stride = {0, 2}, .dilation = {2, 2}),
                    "Conv((3, 3), 1 => 2, stride=(1, 2), dilation=2) #");
        expect_line(bt_conv_layer(1, 2, BT_SHAPE(3, 5), NULL, key, .same = true), "Conv((3, 5), 1 => 2, pad=(1, 2))");
        expect_line(bt_conv_layer(1, 2, BT_SHAPE(3, 2), NULL, key, .same = true),
                    "Conv((3, 2), 1 => 2, pad=(1, 1, 0, 1))");
        expect_line(bt_conv_layer(1, 2, BT_SHAPE(1), NULL, key, .same = true), "Conv((1,), 1 => 2) ");
        expect_line(bt_conv_transposed_layer(1, 2, BT_SHAPE(3, 3), NULL, key, .stride = {2, 2}, .output_pad = {1, 0},
                                             .no_bias = true),
                    "ConvTranspose((3, 3), 1 => 2, stride=2, bias=false, outpad=(1, 0))");
        expect_line(bt_conv_transposed_layer(1, 2, BT_SHAPE(3), NULL, key), "ConvTranspose((3,), 1 => 2) ");
        expect_line(bt_max_pool_layer(BT_SHAPE(2, 2)), "MaxPool((2, 2))\n");
        expect_line(bt_max_pool_layer(BT_SHAPE(2, 2), .stride = {2}), "MaxPool((2, 2))\n");
        expect_line(bt_max_pool_layer(BT_SHAPE(3, 3), .pad = {1, 1}, .stride = {2, 2}),
                    "MaxPool((3, 3), pad=1, stride=2)\n");
        expect_line(bt_avg_pool_layer(BT_SHAPE(3, 2), .stride = {3, 1}, .exclude_pads = true),
                    "MeanPool((3, 2), stride=(3, 1), exclude_pads=true)\n");
        expect_line(bt_global_avg_pool_layer(), "GlobalMeanPool()\n");
        expect_line(bt_embedding_layer(10, 4, key), "Embedding(10 => 4)              # 40 parameters\n");
        expect_line(bt_batch_norm_layer(8), "BatchNorm(8)                    # 16 parameters, plus 16\n");
        expect_line(bt_batch_norm_layer(8, .no_affine = true), "BatchNorm(8, affine=false)\n");
        expect_line(bt_layer_norm_layer(8, .no_affine = true), "LayerNorm(8, affine=false)\n");
        expect_line(bt_group_norm_layer(2, 8, .no_affine = true), "GroupNorm(8, 2, affine=false)\n");
        expect_line(bt_group_norm_layer(2, 8), "GroupNorm(8, 2) ");
        expect_line(bt_dropout_layer(0.5, key), "Dropout(0.5)\n");
        expect_line(bt_gru_layer(8, 16, key), "GRU(8 => 16)                    # 1248 parameters\n");
        expect_line(
            bt_attention_layer(4, 2, key),
            "MultiHeadAttention(\n  4; nheads=2, bias=true,\n  query = Dense(4 => 4),        # 20 parameters\n");
        expect_line(bt_attention_layer(8, 4, key, .kv_heads = 2, .no_bias = true, .causal = true),
                    "MultiHeadAttention(\n  8; nheads=4, kv_heads=2, causal=true,\n");
        expect_line(bt_skip(bt_flatten_layer(), NULL), "SkipConnection(\n  Flatten(),\n  +,\n)");
        expect_line(bt_skip(bt_flatten_layer(), bt_combine_concat), "SkipConnection(\n  Flatten(),\n  concat,\n)");
        expect_line(bt_parallel_of(bt_combine_sum, (bt_layer *[]){bt_flatten_layer()}, 1),
                    "Parallel(\n  +,\n  Flatten(),\n)");
        expect_line(bt_dense(2, 3, bt_relu, key, .no_bias = true), "Dense(2 => 3, relu; bias=false) # 6 parameters\n");
        bt_named_layer inner = {"inner", bt_flatten_layer()};
        expect_line(bt_layer_new("Own", first_of, .text = "(2) of (3)", .children = {inner}),
                    "Own(\n  (2) of (3),\n  inner = Flatten(),\n)");
        expect_line(bt_layer_new("Own", first_of, .text = "()", .children = {inner}), "Own(\n  inner = Flatten(),\n)");
    }
}

static void combined(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_from((float[]){1, 2}, BT_F32, BT_SHAPE(1, 2)), *y = NULL;
        bt_layer *minus = bt_lambda("minus", bt_neg), *square = bt_lambda("square", bt_square);
        bt_layer *both[2] = {minus, square};
        READS(bt_apply(bt_parallel_of(bt_combine_sum, both, 2), x), 0, 2);
        bt_layer *concat = bt_parallel_of(bt_combine_concat, both, 2);
        READS(bt_apply(concat, x), -1, -2, 1, 4);
        OK(bt_apply_all(concat, (bt_array *[]){x, bt_add(x, bt_num(1))}, 2, &y, 1));
        READS(y, -1, -2, 4, 9);
        FAILS(bt_apply_all(concat, (bt_array *[]){x, x, x}, 3, &y, 1), BT_INVALID_ARGUMENT,
              "1 input for all or 2, one for each layer, not 3");
        READS(bt_apply(bt_skip(square, NULL), x), 2, 6);
        READS(bt_apply(bt_skip(square, bt_combine_concat), x), 1, 4, 1, 2);
        READS(bt_apply(bt_chain_of(NULL, 0), x), 1, 2);
    }
}

/* Functions with a batch of unknown size, and batches without rows. */
static void any_batch(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *key = bt_key(1);
        bt_layer *layers[] = {
            bt_chain_of((bt_layer *[]){bt_conv_layer(3, 4, BT_SHAPE(3), NULL, key), bt_batch_norm_layer(4),
                                       bt_group_norm_layer(2, 4), bt_max_pool_layer(BT_SHAPE(2)),
                                       bt_global_avg_pool_layer(), bt_flatten_layer()},
                        6),
            bt_gru_layer(6, 4, key), bt_lstm_layer(6, 4, key, .last = true),
            bt_attention_layer(6, 2, key, .causal = true),
            bt_chain_of((bt_layer *[]){bt_rms_norm_layer(6), bt_layer_norm_layer(6), bt_dropout_layer(0.5, key)}, 3)};
        for (int i = 0; i < COUNT(layers); i++) {
            bt_array *x = bt_input_shape(BT_F32, BT_SHAPE(-1, 3, 6)), *y = bt_apply(layers[i], x);
            bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
            OK(bt_function_status(f));
            for (int64_t rows = 0; rows < 4; rows += 2) {
                bt_array *argument = bt_normal_shape(key, BT_F32, BT_SHAPE(rows, 3, 6));
                bt_array *called = bt_call1(f, &argument, 1), *direct = bt_apply(layers[i], argument);
                OK(bt_block(called));
                assert_int_equal(bt_size(called, 0), rows);
                if (rows) assert_true(bt_item(bt_max(bt_abs(bt_sub(called, direct)), BT_ALL, false)) < 1e-5);
            }
        }
    }
}

/* --- initialisers --------------------------------------------------------------------------------------------------------------- */

static void expect_spread(bt_array *x, double deviation, double most) {
    OK(bt_block(x));
    double mean = bt_item(bt_mean(x, BT_ALL, false)), is = bt_item(bt_std(x, BT_ALL, false, 0));
    if (fabs(mean) > 0.05 * deviation || fabs(is / deviation - 1) > 0.05)
        fail_msg("mean %g, deviation %g, not %g", mean, is, deviation);
    double greatest = bt_item(bt_max(bt_abs(x), BT_ALL, false));
    if (greatest > most || greatest < 0.9 * most) fail_msg("the greatest is %g, not %g", greatest, most);
}

static void initialisers(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *key = bt_key(5);
        bt_shape matrix = BT_SHAPE(100, 300), kernel = BT_SHAPE(40, 20, 5, 5); /* fans 100 and 300; 500 and 1000 */
        expect_spread(bt_init_glorot_uniform(key, BT_F32, matrix), sqrt(2.0 / 400), sqrt(6.0 / 400));
        expect_spread(bt_init_glorot_uniform(key, BT_F32, kernel), sqrt(2.0 / 1500), sqrt(6.0 / 1500));
        expect_spread(bt_init_he_uniform(key, BT_F32, matrix), sqrt(2.0 / 100), sqrt(6.0 / 100));
        expect_spread(bt_init_he_uniform(key, BT_F32, kernel), sqrt(2.0 / 500), sqrt(6.0 / 500));
        expect_spread(bt_init_lecun_uniform(key, BT_F32, matrix), sqrt(1.0 / 100), sqrt(3.0 / 100));
        expect_spread(bt_init_truncated_normal(key, BT_F32, matrix), 0.02 * 0.8796, 0.04);
        double deviations[3] = {sqrt(2.0 / 400), sqrt(2.0 / 100), sqrt(1.0 / 100)};
        bt_initializer *normals[3] = {bt_init_glorot_normal, bt_init_he_normal, bt_init_lecun_normal};
        for (int i = 0; i < 3; i++) {
            bt_array *x = normals[i](key, BT_F32, matrix);
            double is = bt_item(bt_std(x, BT_ALL, false, 0));
            assert_true(fabs(is / deviations[i] - 1) < 0.05);
        }
        for (int wide = 0; wide < 2; wide++) {
            bt_array *q = bt_init_orthogonal(key, BT_F64, wide ? BT_SHAPE(3, 2, 4) : BT_SHAPE(8, 3));
            bt_array *m = wide ? bt_reshape_to(q, BT_SHAPE(3, 8)) : bt_transpose(q);
            bt_array *product = bt_matmul_t(m, m, false, true);
            assert_true(bt_item(bt_max(bt_abs(bt_sub(product, bt_eye(3, 3, BT_F64))), BT_ALL, false)) < 1e-12);
        }
        READS(bt_init_ones(NULL, BT_F32, BT_SHAPE(2)), 1, 1);
        POISONED(bt_init_orthogonal(key, BT_F16, BT_SHAPE(2, 2)), BT_INVALID_ARGUMENT, "float16");
        bt_layer *dense = bt_dense(3, 2, NULL, key, .init = bt_init_ones, .no_bias = true);
        READS(bt_apply(dense, bt_ones(BT_F32, 1, 3)), 3, 3);
    }
}

/* --- folding --------------------------------------------------------------------------------------------------------------- */

static bt_layer *two_norms(void) {
    bt_array *keys = bt_split(bt_key(4), 6);
    return bt_chain(
        bt_conv_layer(3, 8, BT_SHAPE(3, 3), NULL, bt_split_at(keys, 0), .pad = {1, 1}, .no_bias = true),
        bt_batch_norm_layer(8), bt_lambda("relu", bt_relu),
        bt_skip(bt_chain(bt_conv_layer(8, 8, BT_SHAPE(3, 3), NULL, bt_split_at(keys, 1), .pad = {1, 1}, .groups = 2),
                         bt_batch_norm_layer(8, .eps = 1e-3)),
                bt_combine_sum),
        bt_conv_transposed_layer(8, 4, BT_SHAPE(2, 2), NULL, bt_split_at(keys, 2), .stride = {2, 2}),
        bt_batch_norm_layer(4, .no_affine = true), bt_flatten_layer(),
        bt_dense(4 * 8 * 8, 6, NULL, bt_split_at(keys, 3), .no_bias = true), bt_batch_norm_layer(6),
        bt_dense(6, 5, bt_relu, bt_split_at(keys, 4)), bt_batch_norm_layer(5));
}

static int count_kind(const bt_layer *model, const char *kind) {
    char *text = bt_summary(model);
    int count = 0;
    for (const char *at = text; (at = strstr(at, kind)); at++) count++;
    bt_free(text);
    return count;
}

static void norms_are_folded(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    for (int d = 0; d < 2; d++)
        BT_SCOPE {
            bt_layer *model = bt_layer_to(two_norms(), d ? "gpu:1" : "cpu");
            bt_array *x = bt_normal(bt_key(9), BT_F32, 6, 3, 4, 4);
            for (int i = 0; i < 3; i++) /* statistics that are not those that they begin with */
                BT_TRAINING(true) OK(bt_block(bt_apply(model, bt_add(bt_mul(x, 2), i))));
            bt_layer *folded = bt_fold_norms(model);
            OK(bt_layer_status(folded));
            bt_array *y = bt_apply(model, x), *z = bt_apply(folded, x);
            assert_true(bt_item(bt_max(bt_abs(bt_sub(y, z)))) < 1e-4);
            assert_int_equal(count_kind(model, "BatchNorm"), 5);
            assert_int_equal(count_kind(folded, "BatchNorm"), 1); /* behind an activation */
            assert_string_equal(bt_device_name(bt_device_of(z)), bt_device_name(bt_device_of(y)));
            bt_shared *first[2];
            bt_parameters(folded, first, 2);
            assert_string_equal(bt_shared_name(first[1]), "0.bias");
            OK(bt_save_model(BERTH_BUILD_DIR "/tests/folded.safetensors", folded));
            bt_array *again = bt_apply(bt_model_open(BERTH_BUILD_DIR "/tests/folded.safetensors"), bt_cpu(x));
            assert_true(bt_item(bt_max(bt_abs(bt_sub(bt_cpu(again), bt_cpu(z))))) < 1e-6);
            FAILS(bt_layer_status(bt_fold_norms(NULL)), BT_INVALID_ARGUMENT, "bt_fold_norms");
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_ones_own),
        cmocka_unit_test(norms_are_folded),
        cmocka_unit_test(several_inputs),
        cmocka_unit_test(tied),
        cmocka_unit_test(refused_new),
        cmocka_unit_test(misused),
        cmocka_unit_test(states_that_cannot_be_set),
        cmocka_unit_test(refused_sizes),
        cmocka_unit_test(refused_inputs),
        cmocka_unit_test(printed),
        cmocka_unit_test(combined),
        cmocka_unit_test(any_batch),
        cmocka_unit_test(initialisers),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

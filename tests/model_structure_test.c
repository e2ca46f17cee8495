// labels: valgrind
/* Models in safetensors with their structure: made again without being built first; hostile structures; names by rules. */
#include <jansson.h>

#include "file_cases.h"

static void expect_equal_variables(bt_layer *a, bt_layer *b) {
    bt_shared *x[64], *y[64];
    int count = bt_parameters(a, x, 64), all = count + bt_states(a, x + count, 64 - count);
    assert_int_equal(bt_parameters(b, y, 64), count);
    assert_int_equal(count + bt_states(b, y + count, 64 - count), all);
    for (int i = 0; i < all; i++) {
        assert_string_equal(bt_shared_name(x[i]), bt_shared_name(y[i]));
        expect_same(bt_value(x[i]), bt_value(y[i]));
    }
}

/* Saved, opened: the same variables, and the same summary. */
static bt_layer *expect_back(bt_layer *model) {
    OK(bt_layer_status(model));
    OK(bt_save_model(path_of("m"), model));
    bt_layer *again = bt_model_open(path_of("m"));
    OK(bt_layer_status(again));
    expect_equal_variables(model, again);
    char *a = bt_summary(model), *b = bt_summary(again);
    assert_string_equal(a, b);
    bt_free(a);
    bt_free(b);
    return again;
}

static void every_layer_comes_back(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *k = bt_key(1);
        bt_layer *layers[] = {
            bt_dense(3, 4, bt_gelu, k),
            bt_dense(3, 4, NULL, k, .no_bias = true),
            bt_embedding_layer(5, 3, k),
            bt_conv_layer(2, 4, BT_SHAPE(3), bt_relu, k, .stride = {2}, .pad = {1}, .dilation = {2}, .groups = 2),
            bt_conv_layer(2, 4, BT_SHAPE(3, 3), NULL, k, .same = true, .no_bias = true),
            bt_conv_transposed_layer(2, 4, BT_SHAPE(3, 2), NULL, k, .stride = {2, 2}, .output_pad = {1, 0}),
            bt_max_pool_layer(BT_SHAPE(2, 3), .stride = {1, 2}, .pad = {1, 1}),
            bt_avg_pool_layer(BT_SHAPE(2), .exclude_pads = true),
            bt_adaptive_max_pool_layer(BT_SHAPE(2, 3)),
            bt_adaptive_avg_pool_layer(BT_SHAPE(2)),
            bt_global_max_pool_layer(),
            bt_global_avg_pool_layer(),
            bt_flatten_layer(),
            bt_layer_norm_layer(4, .eps = 1e-3),
            bt_layer_norm_layer(4, .no_affine = true),
            bt_batch_norm_layer(4, .momentum = -1),
            bt_batch_norm_layer(4, .no_affine = true, .no_tracking = true),
            bt_group_norm_layer(2, 4),
            bt_rms_norm_layer(4),
            bt_dropout_layer(0.3, bt_key(9)),
            bt_gru_layer(2, 3, k, .last = true),
            bt_lstm_layer(2, 3, k, .no_bias = true),
            bt_attention_layer(8, 4, k, .kv_heads = 2, .causal = true),
            bt_lambda("squash", bt_tanh),
            bt_parallel(bt_combine_concat, bt_dense(3, 4, NULL, k), bt_dense(3, 2, bt_silu, k)),
            bt_skip(bt_dense(3, 3, NULL, k), NULL),
        };
        int count = sizeof layers / sizeof *layers;
        for (int i = 0; i < count; i++)
            BT_SCOPE
                expect_back(layers[i]);
        expect_back(bt_chain(bt_chain_of(layers, count), bt_chain(bt_flatten_layer())));
    }
    expect_files(1);
}

static void outputs_are_the_same(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = bt_chain(bt_conv_layer(1, 4, BT_SHAPE(3, 3), bt_relu, bt_key(1), .pad = {1, 1}),
                                   bt_batch_norm_layer(4), bt_max_pool_layer(BT_SHAPE(2, 2)), bt_flatten_layer(),
                                   bt_dropout_layer(0.5, bt_key(2)), bt_dense(36, 3, bt_softmax_last, bt_key(3)));
        bt_array *x = bt_normal(bt_key(4), BT_F32, 2, 1, 6, 6);
        BT_TRAINING(true) OK(bt_block(bt_apply(model, x)));
        bt_layer *again = expect_back(model);
        expect_same(bt_apply(again, x), bt_apply(model, x));
        bt_array *a = NULL, *b = NULL;
        BT_TRAINING(true) a = bt_apply(model, x), b = bt_apply(again, x); /* the dropout's key and steps came along */
        expect_same(a, b);
    }
}

static bt_array *halve(bt_array *value, void *unused) {
    (void)unused;
    return bt_cast(value, BT_F16);
}

static void dtypes_ties_and_repeated_layers_come_back(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *dense = bt_dense(3, 3, bt_relu, bt_key(1));
        expect_back(bt_fmap(halve, NULL, bt_chain(dense, bt_dense(3, 2, NULL, bt_key(2)))));
        bt_layer *twice = expect_back(bt_chain(dense, bt_chain(dense, bt_flatten_layer()), dense));
        assert_ptr_equal(bt_layer_child(twice, 0), bt_layer_child(twice, 2));
    }
}

/* --- layers of the program ------------------------------------------------------------------------------------------------ */

static bt_array *scale(bt_layer *layer, bt_array *x, void *data) {
    (void)data;
    return bt_mul(bt_apply(bt_layer_child(layer, 0), x), bt_layer_parameter(layer, "factor"));
}
static bt_layer *new_scale(bt_layer *inner, bt_array *factor) {
    return bt_layer_new("Scaled", scale, .text = "(by a factor)", .parameters = {{"factor", factor}},
                        .children = {{"inner", inner}});
}
static bt_layer *make_scale(const bt_layer_record *record, void *data) {
    ++*(int *)data;
    assert_string_equal(record->name, "Scaled");
    assert_string_equal(record->child_names[0], "inner");
    return new_scale(record->children[0], bt_record_value(record, "factor"));
}
static bt_layer *make_nothing(const bt_layer_record *record, void *data) { return (void)record, (void)data, NULL; }
static bt_layer *make_wrong(const bt_layer_record *record, void *data) {
    (void)data;
    return new_scale(record->children[0], bt_ones(BT_F32, 7));
}
static bt_layer *ask_wrong(const bt_layer_record *record, void *data) {
    (void)data;
    return new_scale(record->children[0], bt_record_value(record, "scale"));
}
static bt_array *cube(bt_array *x) { return bt_mul(x, bt_mul(x, x)); }

static void layers_of_the_program_are_registered(void **state) {
    (void)state;
    int made = 0;
    BT_SCOPE {
        bt_layer *model =
            bt_chain(new_scale(bt_dense(3, 2, cube, bt_key(1)), bt_ones(BT_F32, 2)), bt_lambda("cubed", cube));
        OK(bt_save_model(path_of("m"), model));
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_UNIMPLEMENTED,
                     "layer Dense has the function \"function\", which berth has not; bt_activation_register");
        OK(bt_activation_register("cube", cube));
        model = bt_chain(new_scale(bt_dense(3, 2, cube, bt_key(1)), bt_ones(BT_F32, 2)), bt_lambda("cubed", cube));
        OK(bt_save_model(path_of("m"), model));
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_UNIMPLEMENTED,
                     "there is no layer \"Scaled\"; bt_layer_register(\"Scaled\", ...)");
        OK(bt_layer_register("Scaled", make_scale, &made));
        bt_layer *again = expect_back(model);
        assert_int_equal(made, 1);
        bt_array *x = bt_normal(bt_key(5), BT_F32, 4, 3);
        expect_same(bt_apply(again, x), bt_apply(model, x));
        OK(bt_layer_register("Scaled", make_nothing, NULL));
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_INVALID_ARGUMENT, "\"Scaled\" gave NULL");
        OK(bt_layer_register("Scaled", make_wrong, NULL));
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_INVALID_ARGUMENT,
                     "\"0.factor\" is F32[2] in the file and F32[7] in the model");
        OK(bt_layer_register("Scaled", ask_wrong, NULL));
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_NOT_FOUND,
                     "no value \"scale\" for layer Scaled; it has factor");
        expect_error(bt_layer_register("Dense", make_nothing, NULL), BT_INVALID_ARGUMENT, "of its own");
        expect_error(bt_layer_register(NULL, make_nothing, NULL), BT_INVALID_ARGUMENT, "the name is NULL");
        expect_error(bt_layer_register("X", NULL, NULL), BT_INVALID_ARGUMENT, "the function is NULL");
        expect_error(bt_activation_register("relu", cube), BT_INVALID_ARGUMENT, "of its own");
        expect_error(bt_activation_register("", cube), BT_INVALID_ARGUMENT, "the name is empty");
    }
}

static bt_array *unembed(bt_layer *layer, bt_array *x, void *data) {
    (void)data;
    return bt_matmul(x, bt_transpose(bt_layer_parameter(layer, "table")));
}
static bt_layer *make_unembed(const bt_layer_record *record, void *data) {
    ++*(int *)data;
    assert_int_equal(record->value_count, 2);
    bt_shared *table = bt_shared_new(bt_record_value(record, "table"), NULL);
    return bt_layer_new("Unembed", unembed, .tied = {{"table", table}},
                        .parameters = {{"unused", bt_record_value(record, "unused")}});
}

/* The record of the second layer has the value of the first layer's parameter, under its own name. */
static void tied_parameters_are_in_records(void **state) {
    (void)state;
    int made = 0;
    BT_SCOPE {
        bt_layer *embedding = bt_embedding_layer(5, 3, bt_key(1));
        bt_shared *table;
        assert_int_equal(bt_parameters(embedding, &table, 1), 1);
        bt_layer *out = bt_layer_new("Unembed", unembed, .tied = {{"table", table}},
                                     .parameters = {{"unused", bt_ones(BT_F32, 2)}});
        bt_layer *model = bt_chain(embedding, out);
        OK(bt_layer_register("Unembed", make_unembed, &made));
        bt_layer *again = expect_back(model);
        assert_int_equal(made, 1);
        assert_int_equal(bt_parameters(again, NULL, 0), 2);
        bt_array *x = BT_ARRAY(int32_t, (2), 4, 0);
        expect_same(bt_apply(again, x), bt_apply(model, x));
        bt_shared_set_name(table, "table"); /* a name of no path */
        OK(bt_save_model(path_of("m"), model));
        OK(bt_layer_status(bt_model_open(path_of("m"))));
        assert_int_equal(made, 2);
    }
}

/* --- structures that are wrong ---------------------------------------------------------------------------------------------- */

static void save_with(const char *structure) {
    static const char *const names[] = {"weight", "bias"};
    bt_array *arrays[] = {bt_ones(BT_F32, 2, 3), bt_ones(BT_F32, 3)};
    const char *const metadata[] = {"berth.model", structure, NULL};
    OK(bt_save(path_of("m"), names, arrays, 2, metadata));
}

#define DENSE(in, out) \
    "{\"layer\":\"Dense\",\"options\":{\"in\":\"" in "\",\"out\":\"" out "\",\"bias\":\"true\",\"activation\":\"\"}}"
#define MODEL(layer) "{\"version\":1,\"names\":{},\"layer\":" layer "}"

static void structures_are_not_trusted(void **state) {
    (void)state;
    static const struct {
        const char *structure, *says;
        bt_status status;
    } cases[] = {
        {"", "malformed", BT_DATA_LOSS},
        {"{", "malformed", BT_DATA_LOSS},
        {"{}", "its version is not 1", BT_DATA_LOSS},
        {"{\"version\":2}", "its version is not 1", BT_DATA_LOSS},
        {"{\"version\":1}", "it has no name", BT_DATA_LOSS},
        {MODEL("[]"), "it has no name", BT_DATA_LOSS},
        {MODEL("{\"same\":0}"), "no layer before it", BT_DATA_LOSS},
        {MODEL("{\"layer\":\"Chain\",\"children\":[{\"same\":0}]}"), "no layer before it", BT_DATA_LOSS},
        {MODEL("{\"layer\":\"Chain\",\"children\":7}"), "\"children\" is no list", BT_DATA_LOSS},
        {MODEL("{\"layer\":\"Dense\"}"), "layer Dense lacks the option \"in\"", BT_INVALID_ARGUMENT},
        {MODEL("{\"layer\":\"Dense\",\"options\":{\"in\":2}}"), "an option is no text", BT_DATA_LOSS},
        {MODEL("{\"layer\":\"Dense\",\"children\":[" DENSE("2", "3") "]}"), "it has none", BT_INVALID_ARGUMENT},
        {MODEL(DENSE("2", "x")), "option \"out\" of layer Dense is \"x\"", BT_INVALID_ARGUMENT},
        {MODEL(DENSE("2", "-1")), "option \"out\"", BT_INVALID_ARGUMENT},
        {MODEL(DENSE("2", "1000000000000")), "that the file's tensors allow", BT_INVALID_ARGUMENT},
        {MODEL(DENSE("6", "6")), "a weight has more elements than any tensor of the file, 6", BT_INVALID_ARGUMENT},
        {MODEL(DENSE("3", "2")), "\"weight\" is F32[2, 3] in the file and F32[3, 2] in the model", BT_INVALID_ARGUMENT},
        {MODEL("{\"layer\":\"Flatten\"}"), "not in the model: \"bias\", \"weight\"", BT_INVALID_ARGUMENT},
        {MODEL("{\"layer\":\"Chain\",\"children\":[" DENSE("2", "3") "]}"), "missing in the file: \"0.weight\"",
         BT_INVALID_ARGUMENT},
        {MODEL("{\"layer\":\"Warp\"}"), "there is no layer \"Warp\"", BT_UNIMPLEMENTED},
        {MODEL("{\"layer\":\"SkipConnection\",\"options\":{\"combine\":\"sum\"}}"), "it must have one",
         BT_INVALID_ARGUMENT},
        {MODEL("{\"layer\":\"Dropout\",\"options\":{\"rate\":\"7\"}}"), "the rate is 7", BT_INVALID_ARGUMENT},
        {MODEL("{\"layer\":\"Conv\",\"options\":{\"in\":\"1\",\"out\":\"1\",\"kernel\":\"(3, 3, 3, 3)\"}}"),
         "up to three sizes", BT_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        BT_SCOPE {
            save_with(cases[i].structure);
            expect_error(bt_layer_status(bt_model_open(path_of("m"))), cases[i].status, cases[i].says);
        }
    BT_SCOPE {
        save_with(MODEL(DENSE("2", "3")));
        OK(bt_layer_status(bt_model_open(path_of("m"))));
    }
}

/* Layers that hold the one before them twice: 2**40 visits. */
static void layers_that_multiply_are_refused(void **state) {
    (void)state;
    char text[1 << 14] = "{\"version\":1,\"layer\":";
    for (int i = 0; i < 40; i++) strcat(text, "{\"layer\":\"Chain\",\"children\":[");
    strcat(text, "{\"layer\":\"Flatten\"}");
    for (int i = 40; i-- > 0;) sprintf(text + strlen(text), ",{\"same\":%d}]}", i + 1);
    strcat(text, "}");
    BT_SCOPE {
        save_with(text);
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_DATA_LOSS, "more than a million times");
    }
}

static void deep_structures_are_refused(void **state) {
    (void)state;
    char text[1 << 14] = "{\"version\":1,\"layer\":";
    for (int i = 0; i < 250; i++) strcat(text, "{\"layer\":\"Chain\",\"children\":[");
    strcat(text, "{\"layer\":\"Flatten\"}");
    for (int i = 0; i < 250; i++) strcat(text, "]}");
    strcat(text, "}");
    BT_SCOPE {
        save_with(text);
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_DATA_LOSS, "more than 200 deep");
    }
}

static void a_file_without_structure_says_so(void **state) {
    (void)state;
    BT_SCOPE {
        static const char *const names[] = {"weight"};
        bt_array *arrays[] = {bt_ones(BT_F32, 2, 3)};
        OK(bt_save(path_of("m"), names, arrays, 1, NULL));
        expect_error(bt_layer_status(bt_model_open(path_of("m"))), BT_FAILED_PRECONDITION,
                     "has no structure of a model");
    }
}

/* --- names by rules ---------------------------------------------------------------------------------------------------------- */

static void names_of_others_are_renamed(void **state) {
    (void)state;
    BT_SCOPE {
        static const char *const names[] = {"module.body.0.weight", "module.body.0.bias", "module.head.weight",
                                            "module.head.bias", "module.step"};
        bt_array *w0 = bt_normal(bt_key(1), BT_F32, 3, 4), *w1 = bt_normal(bt_key(2), BT_F32, 2, 3);
        bt_array *arrays[] = {w0, bt_ones(BT_F32, 3), w1, bt_ones(BT_F32, 2), bt_ones(BT_F32, 1)};
        OK(bt_save(path_of("m"), names, arrays, 5, NULL));
        bt_layer *model = bt_chain(bt_dense(4, 3, bt_relu, bt_key(3)), bt_dense(3, 2, NULL, bt_key(4)));
        bt_shared *own[4];
        assert_int_equal(bt_parameters(model, own, 4), 4);
        bt_array *before = bt_identity(bt_value(own[0]));
        static const char rules[] = "*.step=; module.body.*.*=*.*; module.head.*=1.*";
        expect_error(bt_load_model(path_of("m"), model), BT_INVALID_ARGUMENT, "missing in the file: \"0.weight\"");
        expect_error(bt_load_model(path_of("m"), model, .rename = rules), BT_INVALID_ARGUMENT,
                     "\"0.weight\" is F32[3, 4] in the file and F32[4, 3] in the model");
        expect_same(bt_value(own[0]), before);
        OK(bt_load_model(path_of("m"), model, .rename = rules, .torch = true));
        expect_same(bt_value(own[0]), bt_transpose(w0));
        expect_same(bt_value(own[2]), bt_transpose(w1));
        OK(bt_set(own[2], bt_zeros(BT_F32, 3, 2)));
        OK(bt_load_model(path_of("m"), model, .rename = rules, .transpose = "0.weight; 1.w*t"));
        expect_same(bt_value(own[2]), bt_transpose(w1));
        expect_error(bt_load_model(path_of("m"), model, .rename = rules, .transpose = "0.weight"), BT_INVALID_ARGUMENT,
                     "different: \"1.weight\"");
        expect_error(bt_load_model(path_of("m"), model, .rename = "*weight=w", .torch = true), BT_INVALID_ARGUMENT,
                     "not in the model: \"module.body.0.bias\"");
        expect_error(bt_load_model(path_of("m"), model, .rename = "*.weight=0.weight"), BT_INVALID_ARGUMENT,
                     "the same name, \"0.weight\"");
        expect_error(bt_load_model(path_of("m"), model, .rename = "a"), BT_INVALID_ARGUMENT,
                     "rule \"a\" of `rename` has no '='");
        expect_error(bt_load_model(path_of("m"), model, .rename = "a=*"), BT_INVALID_ARGUMENT, "more '*' behind");
        expect_error(bt_load_model(path_of("m"), model, .rename = "=b"), BT_INVALID_ARGUMENT, "names nothing");
        expect_error(bt_load_model(path_of("m"), model, .rename = "*********=b"), BT_INVALID_ARGUMENT, "more than 8");
        expect_error(bt_load_model(path_of("m"), model, .rename = rules, .transpose = "*.weight; 0.wieght"),
                     BT_INVALID_ARGUMENT, "rule \"0.wieght\" of `transpose` matches no name of the model");
        expect_error(bt_load_model(path_of("m"), model, .rename = "module.stop = 7; module.*=*"), BT_INVALID_ARGUMENT,
                     "rule \"module.stop = 7\" of `rename` matches no name of the file");
        expect_error(bt_load_model(path_of("m"), model, .rename = "none.*=; modul.*=*"), BT_INVALID_ARGUMENT,
                     "; rule \"modul.*=*\" of `rename` matches no name of the file");
        expect_error(bt_load_model(path_of("m"), model, .transpose = "a=b"), BT_INVALID_ARGUMENT,
                     "of `transpose` has a '='");
    }
}

/* Flux's arrays under their names, as Flux.state has them: a model that was built takes them. */
static void arrays_of_bson_load_by_name(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = bt_chain(bt_dense(10, 5, NULL, bt_key(3)), bt_dense(5, 2, bt_relu, bt_key(4)));
        const char *path = BERTH_SOURCE_DIR "/tests/golden/flux/chain.bson";
        OK(bt_load_model(path, model, .rename = "model.layers.*=*", .torch = true));
        expect_equal_variables(model, bt_model_open(path));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(every_layer_comes_back),
        FILE_TEST(outputs_are_the_same),
        FILE_TEST(dtypes_ties_and_repeated_layers_come_back),
        FILE_TEST(layers_of_the_program_are_registered),
        FILE_TEST(tied_parameters_are_in_records),
        FILE_TEST(structures_are_not_trusted),
        FILE_TEST(layers_that_multiply_are_refused),
        FILE_TEST(deep_structures_are_refused),
        FILE_TEST(a_file_without_structure_says_so),
        FILE_TEST(names_of_others_are_renamed),
        FILE_TEST(arrays_of_bson_load_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

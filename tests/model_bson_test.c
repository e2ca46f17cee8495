// labels: valgrind
/* Models of Flux's in BSON: read with the results that they must give, written and read back to the bit. */
#include <jansson.h>
#include <math.h>

#include "file_cases.h"

/* What a file of tests/golden/flux must give. */
typedef struct flux_case {
    json_t *all, *expected;
    char path[512];
} flux_case;

static void open_case(flux_case *c, const char *name) {
    c->all = json_load_file(BERTH_SOURCE_DIR "/tests/golden/flux/expected.json", 0, NULL);
    c->expected = json_object_get(c->all, name);
    assert_non_null(c->expected);
    snprintf(c->path, sizeof c->path, BERTH_SOURCE_DIR "/tests/golden/flux/%s.bson", name);
}

static bt_array *array_of(json_t *rows) {
    int64_t count = (int64_t)json_array_size(rows), width = (int64_t)json_array_size(json_array_get(rows, 0));
    float values[256];
    assert_true(count * width <= 256);
    for (int64_t i = 0; i < count * width; i++)
        values[i] =
            (float)json_number_value(json_array_get(json_array_get(rows, (size_t)(i / width)), (size_t)(i % width)));
    return bt_from(values, BT_F32, BT_SHAPE(count, width));
}

static void expect_close(bt_array *got, bt_array *expected) {
    float x[256], y[256];
    size_t count = (size_t)bt_count(expected);
    assert_int_equal(bt_count(got), count);
    OK(bt_read(expected, x, count * sizeof *x));
    OK(bt_read(got, y, count * sizeof *y));
    for (size_t i = 0; i < count; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-5f + 1e-5f * fabsf(x[i]));
}

static void expect_output(bt_layer *model, const flux_case *c) {
    OK(bt_layer_status(model));
    expect_close(bt_apply(model, array_of(json_object_get(c->expected, "x"))),
                 array_of(json_object_get(c->expected, "y")));
}

static void expect_equal_variables(bt_layer *a, bt_layer *b) {
    bt_shared *x[64], *y[64];
    int count = bt_parameters(a, x, 64), states = bt_states(a, x + count, 64 - count);
    assert_int_equal(bt_parameters(b, y, 64), count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(bt_shared_name(x[i]), bt_shared_name(y[i]));
        expect_same(bt_value(x[i]), bt_value(y[i]));
    }
    (void)states;
}

static const char *const cases[] = {"dense", "chain", "chain_nobias", "chain_main", "chain_tied"};

static void files_of_flux_give_their_results(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        BT_SCOPE {
            flux_case c;
            open_case(&c, cases[i]);
            bt_layer *model = bt_model_open(c.path), *again;
            expect_output(model, &c);
            const char *key = json_string_value(json_object_get(c.expected, "key"));
            expect_output(bt_model_open(c.path, .key = key), &c);
            OK(bt_save_bson(path_of("m.bson"), key, model));
            again = bt_model_open(path_of("m.bson"), .key = key);
            expect_output(again, &c);
            expect_equal_variables(model, again);
            OK(bt_save_model(path_of("m.safetensors"), model));
            again = bt_model_open(path_of("m.safetensors"));
            expect_output(again, &c);
            expect_equal_variables(model, again);
            json_decref(c.all);
        }
    expect_files(2);
}

/* Files of tools/bson_files.py: Conv, BatchNorm and others, worked out index by index. */
static void networks_of_flux_give_their_results(void **state) {
    (void)state;
    json_t *all = json_load_file(BERTH_SOURCE_DIR "/tests/flux/expected.json", 0, NULL);
    json_t *network = json_object_get(all, "network"), *images = json_object_get(network, "x");
    BT_SCOPE {
        float x[2 * 2 * 5 * 6], *at = x;
        for (size_t n = 0; n < 2; n++)
            for (size_t c = 0; c < 2; c++)
                for (size_t j = 0; j < 5; j++)
                    for (size_t i = 0; i < 6; i++) {
                        json_t *channel = json_array_get(json_array_get(images, n), c);
                        *at++ = (float)json_number_value(json_array_get(json_array_get(channel, j), i));
                    }
        bt_layer *model = bt_model_open(BERTH_SOURCE_DIR "/tests/flux/network.bson");
        OK(bt_layer_status(model));
        bt_array *input = bt_from(x, BT_F32, BT_SHAPE(2, 2, 5, 6));
        expect_close(bt_apply(model, input), array_of(json_object_get(network, "y")));
        OK(bt_save_bson(path_of("m.bson"), "m", model));
        bt_layer *again = bt_model_open(path_of("m.bson"));
        expect_same(bt_apply(again, input), bt_apply(model, input));
        expect_equal_variables(model, again);
    }
    BT_SCOPE {
        json_t *expected = json_object_get(all, "state");
        bt_layer *model =
            bt_chain(bt_dense(4, 3, bt_tanh, bt_key(1)), bt_dense(3, 2, NULL, bt_key(2), .no_bias = true));
        const char *path = BERTH_SOURCE_DIR "/tests/flux/state.bson";
        OK(bt_load_model(path, model, .rename = "model_state.layers.*=*", .torch = true));
        expect_close(bt_apply(model, array_of(json_object_get(expected, "x"))),
                     array_of(json_object_get(expected, "y")));
        expect_error(bt_layer_status(bt_model_open(path)), BT_FAILED_PRECONDITION, "bt_load_model");
        expect_error(bt_layer_status(bt_model_open(path, .key = "model_state")), BT_FAILED_PRECONDITION, "Flux.state");
        path = BERTH_SOURCE_DIR "/tests/flux/anonymous.bson";
        expect_error(bt_layer_status(bt_model_open(path)), BT_UNIMPLEMENTED, "the anonymous function #5#6");
    }
    json_decref(all);
}

static void tied_weights_stay_tied(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = bt_model_open(BERTH_SOURCE_DIR "/tests/golden/flux/chain_tied.bson");
        assert_int_equal(bt_parameters(model, NULL, 0), 2);
        OK(bt_save_bson(path_of("m.bson"), "model", model));
        assert_int_equal(bt_parameters(bt_model_open(path_of("m.bson")), NULL, 0), 2);
        OK(bt_save_model(path_of("m"), model));
        assert_int_equal(bt_parameters(bt_model_open(path_of("m")), NULL, 0), 2);
    }
}

/* The same bytes as the file that was read, but for the order of keys: each document of ours is as long. */
static void a_dense_layer_is_written_as_bson_jl_does(void **state) {
    (void)state;
    unsigned char ours[4096], theirs[4096];
    BT_SCOPE {
        const char *path = BERTH_SOURCE_DIR "/tests/golden/flux/dense.bson";
        OK(bt_save_bson(path_of("m.bson"), "model", bt_model_open(path)));
        size_t count = read_bytes("m.bson", ours, sizeof ours);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fread(theirs, 1, sizeof theirs, file), count);
        fclose(file);
        assert_memory_equal(ours, theirs, count);
    }
}

/* --- convolutions --------------------------------------------------------------------------------------------------------- */

static bt_layer *make_network(bt_array *key) {
    return bt_chain(
        bt_conv_layer(2, 4, BT_SHAPE(3, 2), bt_relu, bt_split_at(key, 0), .pad = {1, 0}, .stride = {1, 2}, .groups = 2),
        bt_batch_norm_layer(4, .eps = 1e-3, .momentum = 0.25), bt_max_pool_layer(BT_SHAPE(2, 1)),
        bt_skip(bt_conv_layer(4, 4, BT_SHAPE(1, 3), NULL, bt_split_at(key, 1), .same = true), NULL), bt_flatten_layer(),
        bt_dropout_layer(0.5, bt_split_at(key, 2)), bt_dense(24, 3, bt_tanh, bt_split_at(key, 3), .no_bias = true),
        bt_lambda(NULL, bt_softmax_last));
}

static void networks_come_back_to_the_bit(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *keys = bt_split(bt_key(3), 5);
        bt_layer *model = make_network(keys);
        OK(bt_layer_status(model));
        bt_array *x = bt_normal(bt_split_at(keys, 4), BT_F32, 5, 2, 4, 6);
        BT_TRAINING(true) OK(bt_block(bt_apply(model, x))); /* the running statistics move */
        OK(bt_save_bson(path_of("m.bson"), "net", model));
        bt_layer *again = bt_model_open(path_of("m.bson"));
        OK(bt_layer_status(again));
        expect_equal_variables(model, again);
        expect_same(bt_apply(again, x), bt_apply(model, x));
        char *a = bt_summary(model), *b = bt_summary(again);
        assert_string_equal(strstr(a, "Flatten"), strstr(b, "Flatten"));
        bt_free(a);
        bt_free(b);
    }
}

/* Flux flips the kernel: its weight (W, H, in, out) convolves. */
static void kernels_are_flipped(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = bt_conv_layer(1, 1, BT_SHAPE(2, 3), NULL, bt_key(1), .no_bias = true);
        bt_shared *weight;
        assert_int_equal(bt_parameters(model, &weight, 1), 1);
        OK(bt_set(weight, bt_reshape(bt_arange(0, 6, 1, BT_F32), 1, 1, 2, 3)));
        OK(bt_save_bson(path_of("m.bson"), "model", model));
        bt_tensors *tensors;
        OK(bt_tensors_open(path_of("m.bson"), &tensors));
        /* (W, H, in, out) in Julia: w[1, 1] is the last element here. */
        expect_same(bt_tensors_get(tensors, "model.weight"), BT_ARRAY(float, (3, 2, 1, 1), 5, 2, 4, 1, 3, 0));
        assert_string_equal(bt_tensors_metadata(tensors, "model.pad.3"), "0");
        assert_string_equal(bt_tensors_metadata(tensors, "model.groups"), "1");
        bt_tensors_close(tensors);
    }
}

/* --- what cannot be -------------------------------------------------------------------------------------------------------- */

static bt_array *own(bt_array *x) { return bt_add(x, x); }

static void what_flux_has_not_is_refused(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *key = bt_key(1);
        bt_layer *gru = bt_chain(bt_flatten_layer(), bt_gru_layer(2, 3, key));
        expect_error(bt_save_bson(path_of("m"), "m", gru), BT_UNIMPLEMENTED, "layer 1 is GRU");
        bt_layer *function = bt_chain(bt_dense(2, 3, own, key));
        expect_error(bt_save_bson(path_of("m"), "m", function), BT_UNIMPLEMENTED, "layer 0 has the function function");
        bt_layer *half = bt_dense_from(bt_zeros(BT_BF16, 2, 3), NULL, NULL);
        expect_error(bt_save_bson(path_of("m"), "m", half), BT_UNIMPLEMENTED, "bfloat16");
        expect_error(bt_save_bson(path_of("m"), NULL, half), BT_INVALID_ARGUMENT, "the key is NULL");
        expect_error(bt_save_bson(path_of("m"), "_backrefs", half), BT_INVALID_ARGUMENT, "own");
        expect_error(bt_save_bson(path_of("m"), "m", NULL), BT_INVALID_ARGUMENT, "the layer is NULL");
        expect_error(bt_save_bson(path_of("none/m"), "m", bt_dense(2, 3, NULL, key)), BT_NOT_FOUND, "none");
    }
    expect_files(0);
}

/* On a simulated device without data the weights take no memory. */
static void more_than_2_gib_is_refused(void **state) {
    (void)state;
    OK(bt_shutdown());
    OK(bt_set_flag("devices", "sim:h200"));
    OK(bt_set_flag("sim_data", "off"));
    BT_SCOPE {
        bt_layer *model = NULL;
        BT_ON("gpu:0") model = bt_dense_from(bt_zeros(BT_F32, 1 << 15, 1 << 14), NULL, NULL);
        OK(bt_layer_status(model));
        expect_error(bt_save_bson(path_of("m"), "m", model), BT_INVALID_ARGUMENT, "which can have 2 GiB");
    }
    OK(bt_shutdown());
    OK(bt_set_flag("devices", ""));
    OK(bt_set_flag("sim_data", "on"));
    expect_files(0);
}

static void keys_are_named(void **state) {
    (void)state;
    const char *chain = BERTH_SOURCE_DIR "/tests/golden/flux/chain.bson";
    BT_SCOPE {
        expect_error(bt_layer_status(bt_model_open(chain, .key = "nets")), BT_NOT_FOUND, "it has \"model\"");
        OK(bt_save_model(path_of("m"), bt_dense(2, 3, NULL, bt_key(1))));
        expect_error(bt_layer_status(bt_model_open(path_of("m"), .key = "m")), BT_INVALID_ARGUMENT,
                     "`key` is for BSON");
        expect_error(bt_layer_status(bt_model_open(path_of("none"))), BT_NOT_FOUND, "none");
        expect_error(bt_layer_status(bt_model_open(NULL)), BT_INVALID_ARGUMENT, "NULL");
    }
}

static void damage_is_refused_with_its_offset(void **state) {
    (void)state;
    unsigned char bytes[8192];
    BT_SCOPE {
        OK(bt_save_bson(path_of("m"), "model", bt_chain(bt_dense(2, 3, bt_relu, bt_key(1)), bt_flatten_layer())));
        size_t count = read_bytes("m", bytes, sizeof bytes);
        int refused = 0;
        for (size_t i = 0; i < count; i += 5)
            BT_SCOPE {
                bytes[i] ^= 0x55;
                write_bytes("d", bytes, count);
                bt_status status = bt_layer_status(bt_model_open(path_of("d")));
                if (status != BT_OK && !*bt_error_text()) fail_msg("byte %zu: no text", i);
                refused += status != BT_OK;
                bytes[i] ^= 0x55;
            }
        assert_true(refused > (int)count / 10);
        for (size_t cut = 6; cut < count; cut += 7) {
            write_bytes("d", bytes, cut);
            expect_error(bt_layer_status(bt_model_open(path_of("d"))), BT_DATA_LOSS, "byte 0: a document of");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(files_of_flux_give_their_results),
        FILE_TEST(networks_of_flux_give_their_results),
        FILE_TEST(tied_weights_stay_tied),
        FILE_TEST(a_dense_layer_is_written_as_bson_jl_does),
        FILE_TEST(networks_come_back_to_the_bit),
        FILE_TEST(kernels_are_flipped),
        FILE_TEST(what_flux_has_not_is_refused),
        FILE_TEST(more_than_2_gib_is_refused),
        FILE_TEST(keys_are_named),
        FILE_TEST(damage_is_refused_with_its_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// labels: valgrind
/* Layers give what PyTorch's give from the same weights, with the same gradients and states (tests/layers/torch.safetensors, made by tools/layer_cases.py). */
#include <math.h>

#include "support/support.h"

enum { MOST = 16 };

static bt_tensors *file;

static bool has(const char *name) {
    for (int i = 0; i < bt_tensors_count(file); i++)
        if (!strcmp(bt_tensors_name(file, i), name)) return true;
    return false;
}

/* The tensor "case/part"; NULL: there is none. */
static bt_array *part_of(const char *name, const char *part, const char *variable, int number) {
    char text[160];
    if (variable)
        snprintf(text, sizeof text, "%s/%s/%s", name, part, variable);
    else
        snprintf(text, sizeof text, "%s/%s%d", name, part, number);
    return has(text) ? bt_tensors_get(file, text) : NULL;
}

static double largest(bt_array *x) { return bt_count(x) ? bt_item(bt_max(bt_abs(bt_cast(x, BT_F64)))) : 0; }

static void expect_near(bt_array *ours, bt_array *theirs, const char *name, const char *what) {
    bt_shape a = bt_shape_of(ours), b = bt_shape_of(theirs);
    if (bt_peek_status(ours) != BT_OK) fail_msg("%s, %s: %s", name, what, bt_block(ours) ? bt_error_text() : "");
    if (a.rank != b.rank || memcmp(a.size, b.size, (size_t)a.rank * sizeof *a.size))
        fail_msg("%s, %s: %d axes and %lld elements, theirs %d and %lld", name, what, a.rank, (long long)bt_count(ours),
                 b.rank, (long long)bt_count(theirs));
    double difference = largest(bt_sub(bt_cast(ours, BT_F64), bt_cast(theirs, BT_F64)));
    if (!(difference <= 2e-5 * (1 + largest(theirs)))) fail_msg("%s, %s: %g apart", name, what, difference);
}

static void set_variables(const char *name, bt_shared *const *variables, int count) {
    for (int i = 0; i < count; i++) {
        bt_array *value = part_of(name, "p", bt_shared_name(variables[i]), 0);
        if (!value) fail_msg("%s: no value for %s", name, bt_shared_name(variables[i]));
        OK(bt_set(variables[i], value));
    }
}

/* Outputs, and gradients by the inputs and by the parameters; then the states. */
static void compare(bt_layer *layer, const char *name, bool training) {
    OK(bt_layer_status(layer));
    bt_shared *parameters[MOST], *states[MOST];
    int count = bt_parameters(layer, parameters, MOST), state_count = bt_states(layer, states, MOST);
    set_variables(name, parameters, count);
    set_variables(name, states, state_count);
    bt_array *inputs[4], *outputs[3], *total = bt_f32(0), *grads[MOST];
    int in = 0, out = 0;
    while (in < 4 && (inputs[in] = part_of(name, "in", NULL, in))) in++;
    while (out < 3 && part_of(name, "out", NULL, out)) out++;
    BT_TRAINING(training) OK(bt_apply_all(layer, inputs, in, outputs, out));
    for (int i = 0; i < out; i++) {
        expect_near(outputs[i], part_of(name, "out", NULL, i), name, "output");
        total = bt_add(total, bt_sum(bt_mul(outputs[i], part_of(name, "ct", NULL, i))));
    }
    OK(bt_grad_shared(total, parameters, count, grads));
    for (int i = 0; i < count; i++)
        expect_near(grads[i], part_of(name, "g", bt_shared_name(parameters[i]), 0), name,
                    bt_shared_name(parameters[i]));
    for (int i = 0; i < in && part_of(name, "dx", NULL, i); i++)
        expect_near(bt_grad1(total, inputs[i]), part_of(name, "dx", NULL, i), name, "gradient of an input");
    for (int i = 0; i < state_count; i++)
        expect_near(bt_value(states[i]), part_of(name, "after", bt_shared_name(states[i]), 0), name,
                    bt_shared_name(states[i]));
}

#define CASE(name, training, layer)         \
    do {                                    \
        BT_SCOPE                            \
            compare(layer, name, training); \
    } while (0)

static void as_pytorch(const char *settings) {
    fresh(settings);
    OK(bt_tensors_open(BERTH_SOURCE_DIR "/tests/layers/torch.safetensors", &file));
    BT_SCOPE {
        bt_array *key = bt_key(1);
        CASE("dense", false, bt_dense(3, 4, NULL, key));
        CASE("embedding", false, bt_embedding_layer(5, 3, key));
        CASE("conv1", false, bt_conv_layer(3, 4, BT_SHAPE(3), NULL, key, .stride = {2}, .pad = {1}));
        CASE("conv2", true,
             bt_conv_layer(4, 6, BT_SHAPE(3, 2), NULL, key, .stride = {1, 2}, .pad = {2}, .dilation = {2, 1},
                           .groups = 2, .no_bias = true));
        CASE("conv2same", false, bt_conv_layer(2, 3, BT_SHAPE(3, 4), NULL, key, .same = true));
        CASE("conv3", false, bt_conv_layer(2, 3, BT_SHAPE(2, 2, 2), NULL, key));
        CASE("conv_transposed1", false, bt_conv_transposed_layer(3, 2, BT_SHAPE(3), NULL, key, .stride = {2}));
        CASE("conv_transposed2", false,
             bt_conv_transposed_layer(4, 6, BT_SHAPE(3, 3), NULL, key, .stride = {2, 2}, .pad = {1, 1},
                                      .output_pad = {1, 1}, .groups = 2));
        CASE("max_pool", false, bt_max_pool_layer(BT_SHAPE(3, 2), .stride = {2, 2}, .pad = {1, 0}));
        CASE("avg_pool", false, bt_avg_pool_layer(BT_SHAPE(3), .pad = {1}));
        CASE("avg_pool_excluding", false,
             bt_avg_pool_layer(BT_SHAPE(3, 3), .stride = {2, 2}, .pad = {1, 1}, .exclude_pads = true));
        CASE("adaptive_max", false, bt_adaptive_max_pool_layer(BT_SHAPE(2, 3)));
        CASE("adaptive_avg", false, bt_adaptive_avg_pool_layer(BT_SHAPE(4)));
        CASE("global_avg", false, bt_global_avg_pool_layer());
        CASE("layer_norm", true, bt_layer_norm_layer(6, .eps = 1e-3));
        CASE("rms_norm", true, bt_rms_norm_layer(6));
        CASE("group_norm", true, bt_group_norm_layer(2, 6));
        CASE("batch_norm", true, bt_batch_norm_layer(3));
        CASE("batch_norm_dense", true, bt_batch_norm_layer(3, .momentum = 0.25, .eps = 1e-3));
        CASE("batch_norm_cumulative", true, bt_batch_norm_layer(3, .momentum = -1));
        CASE("batch_norm_inference", false, bt_batch_norm_layer(3));
        CASE("gru", true, bt_gru_layer(3, 4, key));
        CASE("gru_state", false, bt_gru_layer(3, 4, key));
        CASE("lstm_state", false, bt_lstm_layer(3, 4, key));
        CASE("lstm_last", false, bt_lstm_layer(2, 3, key, .no_bias = true, .last = true));
        CASE("attention_causal", false, bt_attention_layer(8, 2, key, .causal = true));
        CASE("attention_grouped", false, bt_attention_layer(8, 4, key, .kv_heads = 2));
        CASE("attention_masked", false, bt_attention_layer(8, 2, key));
        CASE("model", true,
             bt_chain(bt_conv_layer(1, 4, BT_SHAPE(3, 3), NULL, key, .no_bias = true), bt_batch_norm_layer(4),
                      bt_lambda(NULL, bt_relu), bt_max_pool_layer(BT_SHAPE(2, 2)), bt_flatten_layer(),
                      bt_dense(16, 3, NULL, key)));
    }
    bt_tensors_close(file);
}

static void values(void **state) {
    (void)state;
    as_pytorch("");
}
static void values_on_devices(void **state) {
    (void)state;
    as_pytorch("devices=sim:gpu*2");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(values_on_devices)};
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

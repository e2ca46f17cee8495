// timeout: 300
/* Values that their readers compute again: the bits are those of each operation as a kernel of its own, on CPUs, simulated GPUs and those of
 * BERTH_TEST_DEVICES. */
#include "support/support.h"

enum { INPUTS = 4, OUTPUTS = 5, ROOM = 1 << 16 };

typedef bt_array *layer(bt_array *x);

static bt_array *of_tanh(bt_array *x) { return bt_tanh(x); }
static bt_array *of_sigmoid(bt_array *x) { return bt_sigmoid(x); }
static bt_array *of_silu(bt_array *x) { return bt_silu(x); }
static bt_array *of_gelu(bt_array *x) { return bt_gelu(x); }
static bt_array *of_quotient(bt_array *x) { return bt_div(x, bt_add(bt_num(1), bt_abs(x))); }
static bt_array *of_norm(bt_array *x) { return bt_tanh(bt_layer_norm(x, NULL, NULL, 1e-5)); }
static bt_array *of_softmax(bt_array *x) { return bt_silu(bt_softmax(x, -1)); }

static const struct program {
    const char *name;
    layer *apply;
} programs[] = {{"tanh", of_tanh},         {"sigmoid", of_sigmoid}, {"silu", of_silu},      {"gelu", of_gelu},
                {"quotient", of_quotient}, {"norm", of_norm},       {"softmax", of_softmax}};

static bt_array *filled(bt_dtype dtype, bt_shape shape, double step) {
    double count = 1;
    for (int i = 0; i < shape.rank; i++) count *= (double)shape.size[i];
    bt_array *line = bt_sin(bt_mul(bt_arange(0, count, 1, BT_F32), bt_num(step)));
    return bt_cast(bt_reshape_to(line, shape), dtype);
}

/* x and the weights of two layers. */
static void fill(bt_dtype dtype, int64_t rows, bt_array **given) {
    given[0] = filled(dtype, BT_SHAPE(rows, 20), 0.37);
    given[1] = filled(dtype, BT_SHAPE(20, 36), 0.71);
    given[2] = filled(dtype, BT_SHAPE(1, 36), 0.53);
    given[3] = filled(dtype, BT_SHAPE(36, 8), 0.29);
}

/* The loss and its gradients: what the activations leave is read by both ways. */
static void record(const struct program *p, bt_array *const *in, bt_array **out) {
    bt_array *hidden = p->apply(bt_add(bt_matmul(in[0], in[1]), in[2]));
    out[0] = bt_sum(bt_sin(bt_matmul(hidden, in[3])), BT_ALL, false);
    OK(bt_grad(out[0], in, INPUTS, out + 1));
}

static void begin(const char *place, const char *more, bool fused) {
    char settings[200];
    bool simulated = !on_cuda() && !strcmp(place, "gpu:0");
    snprintf(settings, sizeof settings, "%s%sfuse=%s", simulated ? "devices=sim:gpu*1," : "", more,
             fused ? "on" : "off");
    fresh(settings);
    OK(bt_set_default_device(place));
}

static size_t run(const struct program *p, bt_dtype dtype, int64_t rows, char *all) {
    size_t bytes = 0;
    BT_SCOPE {
        bt_array *given[INPUTS], *inputs[INPUTS], *outputs[OUTPUTS], *got[OUTPUTS];
        fill(dtype, rows, given);
        for (int i = 0; i < INPUTS; i++) inputs[i] = bt_input_shape(dtype, bt_shape_of(given[i]));
        record(p, inputs, outputs);
        bt_function *f = bt_function_new(inputs, INPUTS, outputs, OUTPUTS, NULL, 0);
        for (int call = 0; call < 2; call++) OK(bt_call(f, given, INPUTS, got, OUTPUTS));
        for (int i = 0; i < OUTPUTS; i++) {
            size_t of = (size_t)bt_count(got[i]) * bt_dtype_size(dtype);
            assert_true(bytes + of <= ROOM);
            OK(bt_read(got[i], all + bytes, of));
            bytes += of;
        }
    }
    return bytes;
}

static void expect_the_same_bits(const char *place, const char *more) {
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_BF16, BT_F16};
    static char fused[ROOM], apart[ROOM];
    for (int n = 0; n < COUNT(programs) * COUNT(dtypes); n++) {
        const struct program *p = &programs[n / COUNT(dtypes)];
        bt_dtype dtype = dtypes[n % COUNT(dtypes)];
        bool skipped = !strcmp(place, "opencl0:0") ? n != 8 : on_cuda() && n % 5;
        if (skipped) continue; /* texts are slow to compile, and emulated devices to run */
        int64_t rows = n % 3 ? 33 : 128;
        begin(place, more, true);
        size_t bytes = run(p, dtype, rows, fused);
        begin(place, more, false);
        assert_true(run(p, dtype, rows, apart) == bytes);
        if (memcmp(fused, apart, bytes)) fail_msg("%s of %s on %s: other bits", p->name, bt_dtype_name(dtype), place);
    }
}

static void bits_of_kernels_apart(void **state) { expect_the_same_bits("gpu:0", ""); }

static void bits_on_cpus(void **state) {
    if (on_cuda()) skip();
    static const char *const modes[] = {"", "kernels=compiled,", "kernels=interpreter,", "check_kernels=on,",
                                        "memory_pool=off,"};
    for (int m = 0; m < COUNT(modes); m++) expect_the_same_bits("cpu:0", modes[m]);
}

static void bits_on_opencl(void **state) {
    fresh("");
    if (on_cuda() || bt_device_find("opencl0:0", &(bt_device *){NULL}) != BT_OK) skip();
    expect_the_same_bits("opencl0:0", "");
}

/* On CPUs each of these has something that is computed again. */
static void all_compute_again(void **state) {
    if (on_cuda()) skip();
    begin("cpu:0", "", true);
    for (int n = 0; n < COUNT(programs); n++)
        BT_SCOPE {
            bt_array *given[INPUTS], *outputs[OUTPUTS];
            fill(BT_F32, 128, given);
            for (int i = 0; i < INPUTS; i++) OK(bt_eval(given[i]));
            record(&programs[n], given, outputs);
            char *text = bt_explain_as(outputs, OUTPUTS, BT_EXPLAIN_PASSES);
            if (!text || !strstr(text, ", again")) fail_msg("%s:\n%s", programs[n].name, text ? text : bt_error_text());
            bt_free(text);
        }
}

/* Two derivatives of a batch share so much that what is computed again is read by what is computed again. */
static void derivatives_of_a_batch(float *made) {
    enum { N = 4 };
    BT_SCOPE {
        bt_array *i = bt_input(BT_F32, N), *j = bt_input(BT_F32, N), *out[2], *products[2], *got[2];
        bt_array *x = bt_sin(bt_mul(bt_softmax(bt_tanh(i), 0), bt_num(0.9)));
        x = bt_mul(bt_mul(bt_sub(x, bt_mul(j, bt_num(0.3))), bt_num(0.9)), bt_num(0.9));
        bt_function *each = bt_function_new((bt_array *[]){i, j}, 2, &x, 1, NULL, 0);
        bt_function *batch = bt_vmap(each, (int[]){0, BT_NOT_BATCHED}, (int[]){-1});
        bt_array *in[2] = {bt_input(BT_F32, N), bt_input(BT_F32, N)};
        bt_array *z = bt_call1(batch, (bt_array *[]){bt_stack(in, 2, 0), in[1]}, 2);
        z = bt_square(bt_mul(bt_mean(z, BT_AXES(1), false), bt_num(0.9)));
        bt_array *loss = bt_mean(z, BT_ALL, false);
        OK(bt_jvp(&loss, 1, in, in, 2, out));
        OK(bt_hvp(loss, in, in, 2, products));
        out[1] = products[1];
        bt_function *f = bt_function_new(in, 2, out, 2, NULL, 0);
        bt_array *args[2] = {BT_ARRAY(float, (4), 1, 2, 3, 4), BT_ARRAY(float, (4), 0.125f, 0.25f, 0.375f, 0.5f)};
        OK(bt_call(f, args, 2, got, 2));
        OK(bt_read(got[0], made, sizeof *made));
        OK(bt_read(got[1], made + 1, N * sizeof *made));
    }
}

static void copies_of_copies(void **state) {
    static const char *const places[] = {"cpu:0", "gpu:0"};
    float made[2][5];
    for (int p = on_cuda(); p < 2; p++) {
        for (int fused = 0; fused < 2; fused++) {
            begin(places[p], "", fused);
            derivatives_of_a_batch(made[fused]);
        }
        for (int i = 0; i < 5; i++) assert_float_equal(made[1][i], made[0][i], 1e-7);
    }
}

int main(void) {
    restart_emulated();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_kernels_apart), cmocka_unit_test(bits_on_cpus),     cmocka_unit_test(bits_on_opencl),
        cmocka_unit_test(all_compute_again),     cmocka_unit_test(copies_of_copies),
    };
    return _cmocka_run_group_tests("recompute", tests, COUNT(tests), NULL, fresh_end);
}

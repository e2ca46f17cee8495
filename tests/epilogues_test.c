// timeout: 600
/* Maps that matrix products apply as they are made: the bits of product and map as kernels of their own, on simulated GPUs and those of
 * BERTH_TEST_DEVICES. */
#include "support/support.h"

enum { MOST_OUTPUTS = 4, ROOM = 1 << 16 };

/* Records outputs of two matrices and a few more arrays; the number of outputs. */
typedef struct program {
    const char *name;
    int (*record)(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **outputs);
    bool joins;    /* a product with an epilogue is part of its plan */
    bool symbolic; /* it asks for no size of M */
} program;

static bt_array *filled(bt_dtype dtype, bt_shape shape, double step) {
    double count = 1;
    for (int i = 0; i < shape.rank; i++) count *= (double)shape.size[i];
    bt_array *line = bt_mul(bt_sin(bt_mul(bt_arange(0, count, 1, BT_F32), bt_num(step))), bt_num(5));
    return bt_cast(bt_reshape_to(line, shape), dtype);
}

/* Of the shape of x, with 1 in the place of each axis of the mask. */
static bt_array *narrow(bt_array *x, unsigned axes, double step) {
    bt_shape shape = bt_shape_of(x);
    for (int i = 0; i < shape.rank; i++)
        if (axes >> i & 1) shape.size[i] = 1;
    return filled(bt_dtype_of(x), shape, step);
}

static int bias(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    int rank = bt_rank(p);
    out[0] = bt_maximum(bt_add(p, narrow(p, (1u << (rank - 1)) - 1, 0.7)), bt_num(0));
    return 1;
}
static int rows_and_columns(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    int rank = bt_rank(p);
    out[0] = bt_mul(bt_add(p, narrow(p, 1u << (rank - 1), 0.3)), narrow(p, 1u << (rank - 2), 0.9));
    return 1;
}
static int residual(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    out[0] = bt_add(bt_maximum(p, bt_neg(p)), narrow(p, 0, 0.1));
    return 1;
}
static int only_an_activation(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    out[0] = bt_square(bt_matmul(a, b));
    return 1;
}
static int casts(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    out[0] = bt_cast(bt_mul(p, p), dtype == BT_BF16 ? BT_F32 : BT_BF16);
    return 1;
}
static int several(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b), *y = bt_add(p, narrow(p, 1, 0.5));
    out[0] = y;
    out[1] = bt_lt(y, bt_num(0));
    out[2] = bt_mul(y, y);
    return 3;
}
static int kept_too(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    out[0] = bt_matmul(a, b);
    out[1] = bt_add(out[0], narrow(out[0], 2, 0.4));
    return 2;
}
static int read_by_another(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    out[0] = bt_add(p, narrow(p, 0, 0.2));
    out[1] = bt_sum(p, BT_AXES(0), false);
    return 2;
}
static int transposed(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    int64_t axes[4] = {0};
    int rank = bt_rank(p);
    for (int i = 0; i < rank; i++) axes[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    bt_array *turned = bt_permute_axes(p, (bt_axes){.count = rank, .axis = {axes[0], axes[1], axes[2], axes[3]}});
    out[0] = bt_add(turned, narrow(turned, 0, 0.2));
    out[1] = bt_sub(p, narrow(p, 0, 0.6));
    return 2;
}
static int only_transposed(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    transposed(a, b, dtype, out);
    return 1;
}
static int reversed(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b), *r = narrow(p, 0, 0.2);
    out[0] = bt_add(p, bt_flip(r, BT_AXES(0)));
    return 1;
}
static int reshaped(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b), *flat = bt_reshape(p, -1);
    out[0] = bt_add(flat, narrow(flat, 0, 0.3));
    return 1;
}
static int two_products(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b), *q = bt_matmul(bt_neg(a), b);
    out[0] = bt_mul(bt_add(p, q), p);
    return 1;
}
/* An epilogue that reads what is only there later, and a product that is the factor of another. */
static int later(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b), *sums = bt_sum(p, BT_AXES(-2, -1), true);
    out[0] = bt_sub(p, sums);
    out[1] = bt_add(bt_matmul(a, bt_add(b, sums)), narrow(p, 0, 0.2));
    return 2;
}
static int random_and_index(bt_array *a, bt_array *b, bt_dtype dtype, bt_array **out) {
    bt_array *p = bt_matmul(a, b);
    bt_array *keep = bt_lt(bt_uniform_shape(bt_key(3), 0, 1, BT_F32, bt_shape_of(p)), bt_num(0.5));
    out[0] = bt_where(keep, p, bt_mul(p, bt_num(2)));
    return 1;
}

static const program programs[] = {
    {"bias", bias, .joins = true, .symbolic = true},
    {"rows and columns", rows_and_columns, .joins = true},
    {"residual", residual, .joins = true},
    {"only an activation", only_an_activation, .joins = true, .symbolic = true},
    {"casts", casts, .joins = true, .symbolic = true},
    {"several", several, .joins = true},
    {"kept too", kept_too, .joins = true},
    {"read by another", read_by_another, .joins = true},
    {"transposed", transposed, .joins = true}, /* with the other reader, which reads it in order */
    {"only transposed", only_transposed, .joins = false},
    {"reversed", reversed, .joins = true},
    {"reshaped", reshaped, .joins = true},
    {"two products", two_products, .joins = true},
    {"later", later, .joins = true},
    {"random and index", random_and_index, .joins = false}, /* of an even number it runs in halves */
};

/* Factors: leading axes of each, M, K, N. */
typedef struct sizes {
    int batch;
    int64_t of_a[2], of_b[2], m, k, n;
} sizes;
static const sizes shapes[] = {
    {0, {0}, {0}, 7, 5, 9},        {0, {0}, {0}, 70, 33, 130},    {0, {0}, {0}, 1, 20, 40},  {0, {0}, {0}, 30, 4, 1},
    {0, {0}, {0}, 0, 4, 9},        {0, {0}, {0}, 6, 0, 10},       {1, {3}, {3}, 10, 6, 12},  {1, {5}, {1}, 4, 8, 64},
    {2, {2, 3}, {2, 3}, 5, 4, 11}, {2, {2, 1}, {1, 3}, 9, 7, 16}, {0, {0}, {0}, 64, 16, 64},
};

/* Where programs run; by `begin` only. */
static const char *place = "gpu:0";

static bool is_simulated(void) { return !on_cuda() && !strcmp(place, "gpu:0"); }

static void begin(bool fused, const char *more) {
    char settings[200];
    snprintf(settings, sizeof settings, "%s%sfuse=%s", is_simulated() ? "devices=sim:gpu*1," : "", more,
             fused ? "on" : "off");
    fresh(settings);
    OK(bt_set_default_device(place));
}

/* how: 0 dense, 1 transposed, 2 every second element of each axis, which no library takes. */
static bt_array *factor(bt_dtype dtype, int batch, const int64_t *leading, int64_t rows, int64_t columns, int how) {
    bt_shape shape = {.rank = batch + 2};
    for (int i = 0; i < batch; i++) shape.size[i] = leading[i];
    bool turned = how == 1;
    shape.size[batch] = (how == 2 ? 2 : 1) * (turned ? columns : rows);
    shape.size[batch + 1] = (how == 2 ? 2 : 1) * (turned ? rows : columns);
    bt_array *x = filled(dtype, shape, 0.17);
    for (int axis = batch; axis < batch + 2 && how == 2; axis++) x = bt_slice_axis(x, axis, 0, shape.size[axis], 2);
    if (!turned) return x;
    bt_axes axes = {.count = batch + 2, .axis = {0, 1, 2, 3}};
    axes.axis[batch] = batch + 1;
    axes.axis[batch + 1] = batch;
    return bt_permute_axes(x, axes);
}

/* The outputs of a program, one behind the other; how many bytes. As a function: its intermediate results are nobody's. */
static size_t run(const program *p, const sizes *s, bt_dtype dtype, int how, bool symbolic, char *all) {
    size_t bytes = 0;
    BT_SCOPE {
        bt_array *given[2] = {factor(dtype, s->batch, s->of_a, s->m, s->k, how),
                              factor(dtype, s->batch, s->of_b, s->k, s->n, how == 1 ? 0 : how)};
        bt_array *inputs[2], *outputs[MOST_OUTPUTS], *got[MOST_OUTPUTS];
        for (int i = 0; i < 2; i++) {
            bt_shape shape = bt_shape_of(given[i]);
            if (symbolic && !i) shape.size[s->batch] = -1;
            inputs[i] = bt_input_shape(dtype, shape);
        }
        int count = p->record(inputs[0], inputs[1], dtype, outputs);
        bt_function *f = bt_function_new(inputs, 2, outputs, count, NULL, 0);
        for (int call = 0; call < 2; call++) OK(bt_call(f, given, 2, got, count)); /* the second one keeps its plan */
        for (int i = 0; i < count; i++) {
            size_t of = (size_t)bt_count(got[i]) * bt_dtype_size(bt_dtype_of(got[i]));
            assert_true(bytes + of <= ROOM * 4);
            OK(bt_read(got[i], all + bytes, of));
            bytes += of;
        }
    }
    return bytes;
}

/* Texts are slow to compile, and emulated devices to run. */
static bool is_drawn(const program *p, int64_t number) {
    int every = on_cuda() ? 43 : !is_simulated() ? 199 : getenv("BERTH_TEST_SHORT") ? 31 : 4;
    return (number + (p - programs)) % (getenv("BERTH_TEST_LONG") && is_simulated() ? 1 : every) == 0;
}

/* Fused and not, in the same way through the device. */
static void expect_the_same_bits(const program *p, const char *more, bool symbolic) {
    static const bt_dtype dtypes[] = {BT_F32, BT_BF16, BT_I32, BT_F16, BT_F64, BT_U8};
    static char fused[4 * ROOM], apart[4 * ROOM];
    int draw = 0;
    for (int s = 0; s < COUNT(shapes); s++)
        for (int d = 0; d < COUNT(dtypes); d++)
            for (int how = 0; how < 3; how++) {
                if (!is_drawn(p, draw++)) continue;
                begin(true, more);
                memset(fused, 0, sizeof fused);
                size_t bytes = run(p, &shapes[s], dtypes[d], how, symbolic, fused);
                begin(false, more);
                memset(apart, 0, sizeof apart);
                assert_true(run(p, &shapes[s], dtypes[d], how, symbolic, apart) == bytes);
                if (memcmp(fused, apart, bytes))
                    fail_msg("%s of %s, shapes %d, way %d: other bits", p->name, bt_dtype_name(dtypes[d]), s, how);
            }
}

static void bits_of_kernels_apart(void **state) { expect_the_same_bits(*state, "", false); }

static void bits_of_symbolic_sizes(void **state) {
    for (int p = 0; p < COUNT(programs); p++)
        if (programs[p].symbolic) expect_the_same_bits(&programs[p], "", true);
}

/* Compiled kernels, checked kernels and the interpreter. */
static void bits_in_each_mode(void **state) {
    static const char *const modes[] = {"kernels=compiled,", "kernels=interpreter,", "check_kernels=on,",
                                        "memory_pool=off,"};
    if (!is_simulated()) skip(); /* the modes are those of CPUs */
    for (int m = 0; m < COUNT(modes); m++)
        for (int p = m % 3; p < COUNT(programs); p += 3) expect_the_same_bits(&programs[p], modes[m], false);
}

static void bits_on_opencl(void **state) {
    fresh("");
    if (on_cuda() || bt_device_find("opencl0:0", &(bt_device *){NULL}) != BT_OK) skip();
    place = "opencl0:0";
    for (int p = 0; p < COUNT(programs); p++) expect_the_same_bits(&programs[p], "", false);
    place = "gpu:0";
}

/* --- what is joined ----------------------------------------------------------------------------------------------------- */

static bool has_epilogue(const program *p, const sizes *s) {
    bool has = false;
    BT_SCOPE {
        bt_array *given[2] = {factor(BT_F32, s->batch, s->of_a, s->m, s->k, 0),
                              factor(BT_F32, s->batch, s->of_b, s->k, s->n, 0)};
        bt_array *inputs[2], *outputs[MOST_OUTPUTS];
        for (int i = 0; i < 2; i++) inputs[i] = bt_input_shape(BT_F32, bt_shape_of(given[i]));
        int count = p->record(inputs[0], inputs[1], BT_F32, outputs);
        bt_function *f = bt_function_new(inputs, 2, outputs, count, NULL, 0);
        char *text = bt_explain_function(f, given, 2);
        assert_non_null(text);
        has = strstr(text, "  product ");
        bt_free(text);
    }
    return has;
}

static void what_is_joined(void **state) {
    const sizes narrow_ones = {0, {0}, {0}, 30, 4, 1};
    begin(true, "");
    for (int p = 0; p < COUNT(programs); p++)
        if (has_epilogue(&programs[p], &shapes[1]) != programs[p].joins) fail_msg("%s", programs[p].name);
    assert_false(has_epilogue(&programs[0], &narrow_ones));
    begin(false, "");
    assert_false(has_epilogue(&programs[0], &shapes[1]));
    if (on_cuda()) return;
    fresh("");
    OK(bt_set_default_device("cpu:0"));
    assert_false(has_epilogue(&programs[0], &shapes[1])); /* its facts say so */
}

static bt_cost cost_of_layer(bool fused) {
    bt_cost cost = BT_COST_INIT;
    begin(fused, "");
    BT_SCOPE {
        bt_array *in[3] = {bt_input(BT_F32, 256, 64), bt_input(BT_F32, 64, 128), bt_input(BT_F32, 128)};
        bt_array *y = bt_relu(bt_add(bt_matmul(in[0], in[1]), in[2]));
        bt_function *f = bt_function_new(in, 3, &y, 1, NULL, 0);
        OK(bt_function_cost(f, (bt_array *[]){NULL, NULL, NULL},
                            (bt_shape[]){{2, {256, 64}}, {2, {64, 128}}, {1, {128}}}, 3, &cost));
    }
    return cost;
}

static void the_product_is_not_in_memory(void **state) {
    enum { PRODUCT = 256 * 128 * 4, GIVEN = (256 * 64 + 64 * 128 + 128) * 4 };
    bt_cost fused = cost_of_layer(true), apart = cost_of_layer(false);
    assert_int_equal(fused.bytes_written, PRODUCT);
    assert_int_equal(fused.bytes_read, GIVEN);
    assert_int_equal(fused.memory_bytes, PRODUCT);
    assert_int_equal(fused.kernels, 1);
    assert_true(fused.operations == apart.operations);
    assert_true(apart.kernels > 1 && apart.bytes_written > PRODUCT && apart.bytes_read > GIVEN);
}

/* --- in programs -------------------------------------------------------------------------------------------------------- */

static void cell(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *const *weights = data;
    carry[0] = bt_tanh(bt_add(bt_add(bt_matmul(x[0], weights[0]), bt_matmul(carry[0], weights[1])), weights[2]));
    y[0] = bt_square(carry[0]);
}

static bt_array *block(bt_array *const *args, int count, void *data) {
    bt_array *h = args[0];
    for (int i = 0; i < 3; i++) h = bt_gelu(bt_add(bt_matmul(h, args[1]), args[2]));
    return h;
}

enum { STEPS = 5, ROWS = 12, WIDTH = 16, CALLS = 6, WEIGHTS = 3 };

/* Steps of training of a loop and of blocks that are computed again; the weights at last. */
static void train(const char *flags, float *all) {
    begin(strstr(flags, "fused"), strstr(flags, "graphs") ? "graphs=on," : "graphs=off,");
    BT_SCOPE {
        bt_array *x = filled(BT_F32, BT_SHAPE(STEPS, ROWS, WIDTH), 0.3), *w[WEIGHTS], *in[WEIGHTS + 1], *next[WEIGHTS];
        w[0] = filled(BT_F32, BT_SHAPE(WIDTH, WIDTH), 0.011);
        w[1] = filled(BT_F32, BT_SHAPE(WIDTH, WIDTH), 0.013);
        w[2] = filled(BT_F32, BT_SHAPE(WIDTH), 0.017);
        for (int i = 0; i < WEIGHTS; i++) in[i] = bt_input_shape(BT_F32, bt_shape_of(w[i]));
        in[WEIGHTS] = bt_input_shape(BT_F32, bt_shape_of(x));
        bt_array *carry = bt_zeros(BT_F32, ROWS, WIDTH), *made, *h, *grads[WEIGHTS];
        OK(bt_scan(cell, in, BT_ALL_ROWS, &carry, 1, &in[WEIGHTS], 1, &made, 1));
        h = bt_checkpoint(block, NULL, (bt_array *[]){carry, in[1], in[2]}, 3);
        bt_array *loss = bt_add(bt_mean(bt_square(h), BT_ALL, false), bt_mean(made, BT_ALL, false));
        OK(bt_grad(loss, in, WEIGHTS, grads));
        for (int i = 0; i < WEIGHTS; i++) next[i] = bt_sub(in[i], bt_mul(grads[i], bt_num(0.1)));
        bt_function *f = bt_function_new(in, WEIGHTS + 1, next, WEIGHTS, NULL, 0);
        for (int call = 0; call < CALLS; call++) {
            bt_array *given[WEIGHTS + 1] = {w[0], w[1], w[2], x};
            OK(bt_call(f, given, WEIGHTS + 1, w, WEIGHTS));
            OK(bt_eval_all(w, WEIGHTS));
        }
        for (int i = 0; i < WEIGHTS; i++, all += WIDTH * WIDTH) OK(bt_read(w[i], all, (size_t)bt_count(w[i]) * 4));
    }
}

static void training_has_the_same_bits(void **state) {
    static float results[4][WEIGHTS * WIDTH * WIDTH];
    static const char *const ways[] = {"apart", "fused", "fused graphs", "apart graphs"};
    for (int i = 0; i < 4; i++) {
        train(ways[i], results[i]);
        assert_memory_equal(results[0], results[i], sizeof results[0]);
    }
}

static void a_failure_poisons_what_is_made(void **state) {
    if (!is_simulated()) skip(); /* the fault is a flag of simulated devices */
    begin(true, "");
    BT_SCOPE {
        bt_array *in[2] = {bt_input(BT_F32, 20, 30), bt_input(BT_F32, 30, 40)}, *y[2];
        bt_array *p = bt_matmul(in[0], in[1]);
        y[0] = bt_exp(p);
        y[1] = bt_sum(p, BT_AXES(0), false);
        bt_function *f = bt_function_new(in, 2, y, 2, NULL, 0);
        bt_array *given[2] = {bt_ones(BT_F32, 20, 30), bt_ones(BT_F32, 30, 40)};
        OK(bt_eval_all(given, 2));
        OK(bt_call(f, given, 2, y, 2));
        bt_synchronize();
        OK(bt_set_flag("sim_fault", "launch:1"));
        OK(bt_call(f, given, 2, y, 2));
        for (int i = 0; i < 2; i++) POISONED(y[i], BT_INTERNAL, "injected fault");
    }
}

int main(void) {
    restart_emulated();
    enum { MORE = 7 };
    struct CMUnitTest tests[COUNT(programs) + MORE] = {
        cmocka_unit_test(bits_of_symbolic_sizes),
        cmocka_unit_test(bits_in_each_mode),
        cmocka_unit_test(bits_on_opencl),
        cmocka_unit_test(what_is_joined),
        cmocka_unit_test(the_product_is_not_in_memory),
        cmocka_unit_test(training_has_the_same_bits),
        cmocka_unit_test(a_failure_poisons_what_is_made),
    };
    for (int p = 0; p < COUNT(programs); p++)
        tests[MORE + p] =
            (struct CMUnitTest){programs[p].name, bits_of_kernels_apart, NULL, NULL, (void *)(uintptr_t)&programs[p]};
    if (getenv("BERTH_TEST_FILTER")) cmocka_set_test_filter(getenv("BERTH_TEST_FILTER"));
    return _cmocka_run_group_tests("epilogues", tests, COUNT(tests), NULL, fresh_end);
}

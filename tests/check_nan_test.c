// timeout: 600
/* The flag check_nan: which operation is named, on the devices of BERTH_TEST_DEVICES (on_cuda), else on the CPU, a simulated GPU and, where there is one, OpenCL's. */
#include <math.h>
#include <pthread.h>

#include "support/support.h"

static const char *const places[] = {"cpu:0", "gpu:0", "opencl0:0"};
enum { CPU, GPU, OPENCL, PLACES };

/* With the flag; false: there is no such device. */
static bool start_on(int place, const char *value) {
    char settings[100];
    snprintf(settings, sizeof settings, "check_nan=%s%s", value,
             place == GPU && !on_cuda() ? ",devices=sim:gpu*2" : "");
    fresh(settings);
    if (on_cuda()) return place == GPU;
    if (place == OPENCL && getenv("BERTH_TEST_SHORT")) return false; /* under a sanitizer its compiler takes minutes */
    return place != OPENCL || bt_device_find(places[place], &(bt_device *){NULL}) == BT_OK;
}
#define EACH_PLACE(value)                        \
    for (int place = 0; place < PLACES; place++) \
        if (start_on(place, value))              \
            BT_SCOPE                             \
                BT_ON(places[place])

/* --- operations ----------------------------------------------------------------------------------------------------------- */

/* Evaluating it fails with these words, the line among them; so does each later read. */
#define NAN_AT(x, line, ...)                                     \
    do {                                                         \
        bt_array *bad = (x);                                     \
        FAILS(bt_eval(bad), BT_OUT_OF_RANGE, line, __VA_ARGS__); \
        POISONED(bad, BT_OUT_OF_RANGE, line, __VA_ARGS__);       \
    } while (0)

static void named_within_kernels(void **state) {
    EACH_PLACE("on") {
        bt_array *x = BT_ARRAY(float, (2, 3), 1, 4, -2, 3, 0, 1);
        const char *line = HERE(1);
        bt_array *logs = bt_log(bt_sub(x, 0.5)), *y = bt_mul(bt_add(logs, 1), bt_add(logs, 2));
        NAN_AT(y, line, "bt_log: check_nan: made here: log(-2.5) = nan at [0, 2] of float32 (2, 3)",
               bt_device_name(bt_device_of(x)));
        READS(x, 1, 4, -2, 3, 0, 1); /* what it was made of is as it was */
        line = HERE(2);
        bt_array *big = bt_mul(bt_add(bt_abs(x), 1), 1e30f), *product = bt_matmul(big, bt_transpose(big));
        bt_array *nothing = bt_sub(product, product);
        NAN_AT(nothing, line, "bt_sub", "sub(inf, inf) = nan at [0, 0]");
        line = HERE(1);
        NAN_AT(bt_exp(bt_div(bt_sum(bt_mul(x, 0)), 0)), line, "bt_div", "div(0, 0) = nan of float32 ()");
        line = HERE(1);
        BT_NAMED("encoder") NAN_AT(bt_neg(bt_sqrt(x)), line, "bt_sqrt", "sqrt(-2) = nan at [0, 2]", "as \"encoder\"");
        line = HERE(1);
        NAN_AT(bt_mean(bt_std(bt_slice_axis(x, 0, 0, 1, 1), .axes = BT_AXES(0), .ddof = 1)), line, "bt_std");
    }
}

/* What has none, or none that a result has, is no mistake; nor is a number that the program wrote. */
static void no_mistakes(void **state) {
    EACH_PLACE("on") {
        bt_array *x = BT_ARRAY(float, (4), 1, -1, 4, 0);
        OK(bt_eval(bt_where(bt_gt(x, 0), bt_log(x), 0)));
        READS(bt_nan_to_num(bt_sqrt(x), 7, 0, 0), 1, 7, 2, 0);
        READS(bt_cast(bt_isnan(bt_sqrt(x)), BT_F32), 0, 1, 0, 0);
        OK(bt_eval(bt_full(NAN, BT_F32, 3)));
        OK(bt_eval(bt_exp(bt_mul(x, 1000)))); /* infinite */
        OK(bt_eval(bt_cross_entropy(BT_ARRAY(float, (2, 2), 1, 2, 3, 4), BT_ARRAY(int32_t, (2), 1, -1), .ignore = true,
                                    .ignored = -1)));
        OK(bt_eval(bt_zeros(BT_F32, 0, 3)));
        OK(bt_eval(bt_argmax(bt_sqrt(x), 0))); /* no float */
    }
    EACH_PLACE("inf") {
        bt_array *x = BT_ARRAY(float, (2), 1, 100);
        NAN_AT(bt_div(1, bt_exp(bt_mul(x, -2))), HERE(0), "bt_div", "div(1, 0) = inf at [1]");
        NAN_AT(bt_log(bt_exp(x)), HERE(0), "bt_exp", "exp(100) = inf at [1]");
    }
}

static void dtypes(void **state) {
    EACH_PLACE("on") {
        for (bt_dtype dtype = BT_F16; dtype <= BT_F64; dtype++) {
            if (dtype == BT_F64 && place == OPENCL) continue;
            NAN_AT(bt_log(bt_cast(BT_ARRAY(float, (3), 1, -1, 2), dtype)), HERE(0), "log(-1) = nan at [1]",
                   bt_dtype_name(dtype));
        }
        if (place == OPENCL) continue;
        NAN_AT(bt_conj(BT_ARRAY(float _Complex, (2), 1, NAN)), HERE(0), "has (nan, 0) at [1] of complex64 (2,)");
    }
}

/* Data, variables and labels. */
static void what_is_given(void **state) {
    EACH_PLACE("on") {
        const char *line = HERE(1);
        bt_array *x = BT_ARRAY(float, (2, 2), 1, 2, NAN, 4);
        NAN_AT(bt_exp(bt_mul(bt_transpose(x), 2)), line, "the data given here has nan at [1, 0] of float32 (2, 2)");
        READS(bt_where(bt_isnan(x), 0, x), 1, 2, 0, 4); /* it can be used as it is */
        bt_shared *w = bt_shared_new(BT_ARRAY(float, (3), 1, 2, NAN), NULL);
        FAILS(bt_eval(bt_mul(bt_value(w), 2)), BT_OUT_OF_RANGE, "nan at [2] of float32 (3,)");
        bt_array *logits = bt_ones(BT_F32, 2, 3), *labels = BT_ARRAY(int32_t, (2), 1, 3);
        NAN_AT(bt_cross_entropy(logits, labels), HERE(0),
               "label 3, of row [1], is out of range: the logits have 3 classes");
        NAN_AT(bt_cross_entropy(logits, labels, .ignore = true, .ignored = 1, .label_smoothing = 0.1), HERE(0),
               "label 3, of row [1]");
        bt_array *rows = BT_ARRAY(int64_t, (2, 2), 0, -1, 1, -4);
        NAN_AT(bt_sum(bt_take(bt_ones(BT_F32, 3, 2), rows, 0)), HERE(0), "index -4, at [1, 1] of them",
               "axis 0 of float32 (3, 2) has 3 elements");
        NAN_AT(bt_take_along_axis(logits, BT_ARRAY(int32_t, (2, 1), 5, 0), 1), HERE(0), "bt_take_along_axis");
    }
}

/* --- gradients, functions, loops ------------------------------------------------------------------------------------------ */

static void in_gradients(void **state) {
    EACH_PLACE("on") {
        bt_array *x = BT_ARRAY(float, (3), 1, 0, 4);
        const char *line = HERE(1);
        bt_array *root = bt_sqrt(x);
        bt_array *flat = bt_mul(root, bt_cast(bt_gt(x, 0), BT_F32)); /* its gradient at 0 is 0 * inf */
        NAN_AT(bt_grad1(bt_sum(flat), x), line, "bt_sqrt", "in the gradient", "at [1]");
        line = HERE(1);
        bt_array *y = bt_log(bt_sub(x, 4)), *g = bt_grad1(bt_sum(bt_square(y)), x);
        NAN_AT(g, line, "bt_log", "log(-3) = nan at [0]");                       /* the forward pass had it before */
        bt_array *s = bt_grad1(bt_sum(bt_grad1(bt_sum(bt_pow(x, 1.5f)), x)), x); /* of the second order */
        bt_status status = bt_eval(s);
        assert_true(status == BT_OK || status == BT_OUT_OF_RANGE);
    }
}

static void in_functions(void **state) {
    EACH_PLACE("on") {
        bt_shared *sum = bt_shared_new(bt_zeros(BT_F32, 2), NULL);
        bt_array *in = bt_input(BT_F32, 2), *root = NULL;
        const char *line = HERE(1);
        root = bt_sqrt(in);
        bt_array *next = bt_add(bt_value(sum), root), *outputs[] = {bt_mul(root, 2)};
        bt_function *f = bt_function_new(&in, 1, outputs, 1, &(bt_update){sum, next}, 1);
        for (int i = 0; i < 4; i++) {
            bool good = i % 2 == 0;
            bt_array *x = good ? BT_ARRAY(float, (2), 4, 9) : BT_ARRAY(float, (2), 4, -9), *y = NULL;
            bt_status status = bt_call(f, &x, 1, &y, 1);
            if (status != BT_OK && i && good)
                status = bt_call(f, &x, 1, &y, 1); /* the next set tells of the step before */
            OK(status);
            if (good) READS(y, 4, 6);
            if (!good) NAN_AT(y, line, "bt_sqrt", "sqrt(-9) = nan at [1]");
            READS(bt_value(sum), 2 * (i / 2 + 1), 3 * (i / 2 + 1)); /* a step with one sets nothing */
        }
    }
}

static void add_log(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    y[0] = bt_log(carry[0]);
    carry[0] = bt_sub(carry[0], x[0]);
}
static bt_array *below_20(bt_array *const *carry, void *data) { return bt_lt(bt_sum(carry[1]), 20); }
static void take_root(bt_array **carry, void *data) {
    carry[0] = bt_sqrt(bt_sub(3, carry[1]));
    carry[1] = bt_add(carry[1], 1);
}
static void arc(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_asin(args[0]); }
static void scan_inside(bt_array *const *args, bt_array **results, void *data) {
    bt_array *left = bt_sum(args[0]), *taken = bt_ones(BT_F32, 4);
    if (bt_scan(add_log, NULL, BT_ALL_ROWS, &left, 1, &taken, 1, results, 1) != BT_OK) results[0] = NULL;
}

static void in_loops(void **state) {
    EACH_PLACE("on") {
        bt_array *left = BT_ARRAY(float, (1), 2), *taken = bt_ones(BT_F32, 5, 1), *logs;
        OK(bt_scan(add_log, NULL, BT_ALL_ROWS, &left, 1, &taken, 1, &logs, 1));
        NAN_AT(logs, "check_nan_test.c", "bt_log", "log(-1) = nan at [0]",
               "in step 3 (from 0) of the loop at check_nan_test.c");
        bt_array *back = BT_ARRAY(float, (1), 2), *steps = BT_ARRAY(float, (4, 1), 5, 1, 1, 0);
        OK(bt_scan_reverse(add_log, NULL, BT_ALL_ROWS, &back, 1, &steps, 1, &logs, 1));
        OK(bt_eval(back));
        OK(bt_eval(bt_slice_axis(logs, 0, 2, 4, 1)));
        bt_array *carry[2] = {bt_ones(BT_F32, 1), bt_ones(BT_F32, 1)};
        OK(bt_while(below_20, take_root, NULL, 0, carry, 2));
        NAN_AT(carry[0], "bt_sqrt", "sqrt(-1) = nan at [0]", "in step 3 (from 0) of the loop");
        bt_array *args = BT_ARRAY(float, (2), 0.5, 2), *result;
        OK(bt_cond(bt_gt(bt_sum(args), 0), arc, arc, NULL, &args, 1, &result, 1));
        NAN_AT(bt_exp(result), "bt_asin", "asin(2) = nan at [1]", "in the branch that was taken");
        bt_array *start = BT_ARRAY(float, (1), 2);
        OK(bt_cond(bt_gt(bt_sum(start), 0), scan_inside, scan_inside, NULL, &start, 1, &result, 1));
        NAN_AT(result, "bt_log", "log(-1) = nan of float32 ()", "in the branch that was taken",
               "in step 3 (from 0) of the loop");
    }
}

static void gradient_of_loops(void **state) {
    EACH_PLACE("on") {
        bt_array *first = BT_ARRAY(float, (1), 3), *left = first, *taken = bt_ones(BT_F32, 4, 1), *logs;
        OK(bt_scan(add_log, NULL, BT_ALL_ROWS, &left, 1, &taken, 1, &logs, 1)); /* ends with the logarithm of 0 */
        bt_array *weights = BT_ARRAY(float, (4, 1), 1, 1, 1, 0);
        NAN_AT(bt_grad1(bt_sum(bt_mul(logs, weights)), first), "check_nan_test.c", "bt_log", "in the gradient",
               "of the loop");
    }
}

/* --- training ------------------------------------------------------------------------------------------------------------- */

static bt_array *root_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mean(bt_sqrt(bt_sub(bt_sum(bt_square(bt_apply(model, x)), .axes = BT_AXES(1)), y)));
}

static bt_layer *small_model(void) {
    return bt_chain(bt_dense(3, 4, bt_tanh, bt_key(1)), bt_dense(4, 2, NULL, bt_key(2)));
}

static void in_steps(void **state) {
    for (int way = 0; way < 3; way++) {
        if (on_cuda() && way == 1) continue;
        fresh(on_cuda() ? "check_nan=on" : "check_nan=on,devices=sim:gpu*2");
        BT_SCOPE {
            bt_strategy *both = way == 1 ? bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2) : NULL;
            bt_layer *model = NULL;
            if (both) {
                BT_STRATEGY(both) model = small_model();
            } else
                BT_ON(way ? "gpu:0" : "cpu:0") model = small_model();
            bt_array *x = bt_normal(bt_key(3), BT_F32, 32, 3), *y = bt_sub(bt_zeros(BT_F32, 32), 1);
            y = bt_where(bt_eq(bt_arange(0, 32, 1, BT_I32), 20), 1e6f, y); /* one root that cannot be */
            float before[12], after[12];
            bt_shared *weight;
            (void)bt_parameters(model, &weight, 1);
            bt_status status = bt_fit(model, bt_sgd(0.1), x, y,
                                      BT_FIT_OPTIONS(.batch = 8, .in_order = true, .quiet = true, .loss = root_loss,
                                                     .strategy = both, .epochs = 1),
                                      NULL);
            FAILS(status, BT_OUT_OF_RANGE, "bt_fit: in step 3 (epoch 1, batch 3) the loss is no number", "bt_sqrt",
                  "sqrt(-1e+06)", both ? "at [0] of float32 (4,), on GPU:1" : "at [4] of float32 (8,)");
            OK(bt_read(bt_value(weight), before, sizeof before));
            for (int i = 0; i < 12; i++) assert_true(isfinite(before[i])); /* that of step 2 */
            bt_set_log_sink(NULL, NULL);
            OK(bt_set_flag("check_nan", "off"));
            OK(bt_read(bt_value(weight), after, sizeof after));
            assert_memory_equal(before, after, sizeof before);
        }
    }
}

/* Loops of one's own, whose steps run ahead. */
static void steps_ahead(void **state) {
    EACH_PLACE("on") {
        bt_shared *w = bt_shared_new(BT_ARRAY(float, (2), 2.5, 9), NULL);
        int failed = 0;
        for (int i = 0; i < 5; i++)
            BT_SCOPE {
                bt_array *value = bt_value(w), *loss = bt_sum(bt_sqrt(value));
                bt_status status = bt_set(w, bt_sub(value, bt_add(1, bt_mul(bt_grad1(loss, value), 0.01f))));
                if (status == BT_OK) status = bt_eval(bt_sum(loss));
                if (status == BT_OK) continue;
                failed++;
                SAYS(bt_error_text(), "bt_sqrt");
                SAYS(bt_error_text(), "nan");
            }
        assert_true(failed >= 1);
        float now[2];
        OK(bt_read(bt_value(w), now, sizeof now));
        assert_true(isfinite(now[0]) && isfinite(now[1]));
    }
}

/* Found also where memory of the device is short; then what is said is that. */
static void little_memory(void **state) {
    if (on_cuda()) skip();
    fresh("check_nan=on,devices=sim:gpu*1,sim_memory=3M");
    BT_SCOPE
        BT_ON("gpu:0") {
            bt_array *x = bt_sub(bt_uniform(bt_key(1), BT_F32, 1 << 17), 0.5f), *y = x; /* 512 KiB each */
            for (int i = 0; i < 12; i++) y = bt_add(bt_sqrt(bt_abs(y)), bt_mul(y, 0.5f));
            y = bt_log(bt_sub(y, 100));
            bt_status status = bt_eval(y);
            assert_true(status == BT_OUT_OF_RANGE || status == BT_RESOURCE_EXHAUSTED);
            POISONED(y, status, "");
            OK(bt_eval(bt_add(x, 1)));
        }
}

static void *evaluate_beside(void *data) {
    for (int i = 0; i < 30; i++)
        BT_SCOPE {
            bt_array *x = BT_ARRAY(float, (3), 1, 2, (float)(i % 3 ? 4 : -4));
            bt_status status = bt_eval(bt_exp(bt_mul(bt_log(x), 2)));
            if ((status == BT_OUT_OF_RANGE) != (i % 3 == 0)) *(bool *)data = false;
        }
    return NULL;
}

static void side_by_side(void **state) {
    fresh("check_nan=on");
    pthread_t threads[4];
    bool good[4] = {true, true, true, true};
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, evaluate_beside, &good[t]), 0);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < 4; t++) assert_true(good[t]);
}

int main(void) {
    restart_emulated();
    const struct CMUnitTest tests[] = {cmocka_unit_test(named_within_kernels),
                                       cmocka_unit_test(no_mistakes),
                                       cmocka_unit_test(dtypes),
                                       cmocka_unit_test(what_is_given),
                                       cmocka_unit_test(in_gradients),
                                       cmocka_unit_test(in_functions),
                                       cmocka_unit_test(in_loops),
                                       cmocka_unit_test(gradient_of_loops),
                                       cmocka_unit_test(in_steps),
                                       cmocka_unit_test(steps_ahead),
                                       cmocka_unit_test(little_memory),
                                       cmocka_unit_test(side_by_side)};
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

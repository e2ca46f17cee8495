// labels: valgrind
/* Operations of the program's with several results: asked for apart, in functions, loops, branches and batches, with derivatives; misuse. */
#include "support/support.h"

#include <stdatomic.h>

/* --- an operation: the greatest element of each row of x [n, m] and, as int32, where it is --------------------------------- */

static atomic_int runs;

static bt_status greatest(const bt_elements *inputs, int count, const bt_elements *outputs,
                          const bt_custom_args *args) {
    const float *x = inputs[0].data;
    float *most = outputs[0].data;
    int32_t *places = outputs[1].data;
    int64_t columns = inputs[0].shape.size[1];
    (void)count, (void)args;
    for (int64_t i = 0; i < outputs[0].shape.size[0]; i++) {
        places[i] = 0;
        for (int64_t j = 1; j < columns; j++)
            if (x[i * columns + j] > x[i * columns + places[i]]) places[i] = (int32_t)j;
        most[i] = x[i * columns + places[i]];
    }
    atomic_fetch_add(&runs, 1);
    return BT_OK;
}

static bt_status greatest_shape(const bt_elements *inputs, int count, bt_elements *outputs,
                                const bt_custom_args *args) {
    (void)args;
    if (count != 1 || inputs[0].dtype != BT_F32 || inputs[0].shape.rank != 2) return BT_INVALID_ARGUMENT;
    outputs[0].shape.rank = outputs[1].shape.rank = 1;
    outputs[1].dtype = BT_I32;
    return BT_OK;
}

/* 1 where it is. */
static bt_array *mask_of(bt_array *x, bt_array *places) {
    bt_array *columns = bt_cast(bt_arange(0, (double)bt_size(x, 1), 1, BT_F32), BT_I32);
    return bt_cast(bt_eq(bt_expand_dims(places, 1), columns), BT_F32);
}

static void greatest_gradient(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *cotangents,
                              bt_array **gradients, const bt_custom_args *args) {
    (void)count, (void)args;
    if (cotangents[1]) abort(); /* of integers there are none */
    gradients[0] = bt_mul(mask_of(inputs[0], outputs[1]), bt_expand_dims(cotangents[0], 1));
}

static void greatest_tangent(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *tangents,
                             bt_array **made, const bt_custom_args *args) {
    (void)count, (void)args;
    made[0] = bt_sum(bt_mul(mask_of(inputs[0], outputs[1]), tangents[0]), BT_AXES(1), false);
    made[1] = made[0]; /* ignored */
}

static bt_custom *new_greatest(bool impure) {
    return bt_custom_new(BT_CUSTOM(.name = "greatest", .results = 2, .run = greatest, .shape = greatest_shape,
                                   .gradient = greatest_gradient, .tangent = greatest_tangent, .impure = impure));
}
static void call(bt_custom *op, bt_array *x, bt_array **results) {
    OK(bt_custom_call_all(op, &x, 1, NULL, 0, results, 2));
}
static bt_array *numbers(void) { return BT_ARRAY(float, (2, 3), 1, 9, 3, 8, 5, 6); }

/* --- values ---------------------------------------------------------------------------------------------------------------- */

static void computes(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = new_greatest(false);
        bt_array *x = numbers(), *y[2], *again[2];
        atomic_store(&runs, 0);
        call(op, x, y);
        call(op, x, again);
        assert_int_equal(bt_dtype_of(y[1]), BT_I32);
        assert_int_equal(atomic_load(&runs), 0); /* recorded, not run */
        OK(bt_eval_all((bt_array *[]){y[0], again[1]}, 2));
        READS(y[0], 9, 8);
        READS(again[1], 1, 0);
        assert_int_equal(atomic_load(&runs), 1); /* equal calls once */
        READS(y[1], 1, 0);
        READS(again[0], 9, 8);
        assert_int_equal(atomic_load(&runs), 1); /* all results were kept */
        call(op, bt_zeros(BT_F32, 0, 3), y);
        OK(bt_eval_all(y, 2));
        assert_int_equal(bt_count(y[1]), 0);
        assert_int_equal(atomic_load(&runs), 1); /* nothing to compute */
    }
}
static void on_both(void **state) {
    computes("");
    computes("devices=sim:gpu*2");
}

/* What a gradient reads was computed before: it is not called again. */
static void a_gradient_calls_nothing_again(void **state) {
    fresh("");
    for (int impure = 0; impure < 2; impure++)
        for (int held = 0; held < 2; held++)
            BT_SCOPE {
                bt_array *x = numbers(), *y[2];
                atomic_store(&runs, 0);
                BT_SCOPE {
                    call(new_greatest(impure), x, y);
                    (void)bt_keep(y[0]);
                    if (held) READS(bt_keep(y[1]), 1, 0);
                }
                READS(y[0], 9, 8);
                READS(bt_grad1(bt_sum(bt_mul(y[0], y[0]), BT_ALL, false), x), 0, 18, 0, 16, 0, 0);
                assert_int_equal(atomic_load(&runs), 1);
            }
}

/* Of 2 outputs one has no elements. */
static bt_status tail_and_sum(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    const float *x = in[0].data;
    (void)count, (void)args;
    if (!out[0].data != !out[0].shape.size[0]) return BT_INTERNAL;
    for (int64_t i = 0; i < out[0].shape.size[0]; i++) ((float *)out[0].data)[i] = x[i + 1];
    *(float *)out[1].data = 0;
    for (int64_t i = 0; i < in[0].shape.size[0]; i++) *(float *)out[1].data += x[i];
    return BT_OK;
}
static bt_status tail_and_sum_shape(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)count, (void)args;
    out[0].shape.size[0] = in[0].shape.size[0] - 1;
    out[1].shape.rank = 0;
    return BT_OK;
}
static void some_results_are_empty(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = bt_custom_new(
            BT_CUSTOM(.name = "tail_and_sum", .results = 2, .run = tail_and_sum, .shape = tail_and_sum_shape));
        bt_array *x = BT_ARRAY(float, (3), 1, 2, 4), *y[2];
        OK(bt_custom_call_all(op, &x, 1, NULL, 0, y, 2));
        READS(y[0], 2, 4);
        READS(y[1], 7);
        x = bt_full(5, BT_F32, 1);
        OK(bt_custom_call_all(op, &x, 1, NULL, 0, y, 2));
        READS(y[1], 5);
        assert_int_equal(bt_count(y[0]), 0);
    }
}
static void empty_ones_on_both(void **state) {
    some_results_are_empty("");
    some_results_are_empty("devices=sim:gpu*1");
}

/* --- functions, loops, branches, batches ----------------------------------------------------------------------------------- */

static bt_function *function_of(bt_custom *op, int64_t rows) {
    bt_array *x = bt_input(BT_F32, rows, 3), *y[2];
    call(op, bt_mul(x, x), y);
    return bt_function_new(&x, 1, y, 2, NULL, 0);
}

static void in_functions(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_function *f = function_of(new_greatest(false), -1);
        for (int i = 0; i < 3; i++) {
            bt_array *x = numbers(), *y[2];
            OK(bt_call(f, &x, 1, y, 2));
            READS(y[0], 81, 64);
            READS(y[1], 1, 0);
            READS(bt_grad1(bt_sum(y[0], BT_ALL, false), x), 0, 18, 0, 16, 0, 0);
        }
    }
}
static void in_functions_of_both(void **state) {
    in_functions("");
    in_functions("devices=sim:gpu*1");
}

static void in_batches(void **state) {
    fresh("");
    BT_SCOPE {
        bt_function *f = bt_vmap(function_of(new_greatest(false), 2), NULL, NULL);
        bt_array *x = bt_stack((bt_array *[]){numbers(), bt_neg(bt_div(numbers(), bt_num(2)))}, 2, 0), *y[2];
        OK(bt_call(f, &x, 1, y, 2));
        READS(y[0], 81, 64, 20.25, 16);
        READS(y[1], 1, 0, 1, 0);
        READS(bt_grad1(bt_sum(y[0], BT_ALL, false), x), 0, 18, 0, 16, 0, 0, 0, -9, 0, -8, 0, 0);
    }
}

static void add_greatest(bt_array **carry, bt_array *const *x, bt_array **y, void *op) {
    bt_array *results[2];
    (void)!bt_custom_call_all(op, &x[0], 1, NULL, 0, results, 2);
    carry[0] = bt_add(carry[0], bt_mul(results[0], results[0]));
    y[0] = results[1];
}

static void in_a_scan(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = new_greatest(false);
        bt_array *x = bt_stack((bt_array *[]){numbers(), bt_neg(numbers())}, 2, 0), *carry = bt_zeros(BT_F32, 2),
                 *places;
        OK(bt_scan(add_greatest, op, BT_ALL_ROWS, &carry, 1, &x, 1, &places, 1));
        bt_array *gradient = bt_grad1(bt_sum(carry, BT_ALL, false), x);
        READS(carry, 82, 64 + 25);
        READS(places, 1, 0, 0, 1);
        READS(gradient, 0, 18, 0, 16, 0, 0, -2, 0, 0, 0, -10, 0);
        bt_array *t = bt_ones(BT_F32, 2, 2, 3), *tangent;
        OK(bt_jvp(&carry, 1, &x, &t, 1, &tangent));
        READS(tangent, 16, 6);
    }
}
static void in_a_scan_of_both(void **state) {
    in_a_scan("");
    in_a_scan("devices=sim:gpu*1");
}

static void greatest_of(bt_array *const *args, bt_array **results, void *data) { call(data, args[0], results); }
static void least_of(bt_array *const *args, bt_array **results, void *data) {
    call(data, bt_neg(args[0]), results);
    results[0] = bt_neg(results[0]);
}
static bt_array *below_30(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(bt_max(carry[0], BT_ALL, false), bt_num(30));
}
static void grow(bt_array **carry, void *op) {
    bt_array *results[2];
    (void)!bt_custom_call_all(op, &carry[0], 1, NULL, 0, results, 2);
    carry[0] = bt_add(carry[0], bt_expand_dims(results[0], 1));
}

static void in_branches_and_loops(void **state) {
    fresh("");
    for (int yes = 0; yes < 2; yes++)
        BT_SCOPE {
            bt_custom *op = new_greatest(false);
            bt_array *x = numbers(), *y[2];
            OK(bt_cond(bt_gt(bt_num(yes), bt_num(0.5)), greatest_of, least_of, op, &x, 1, y, 2));
            bt_array *gradient = bt_grad1(bt_sum(y[0], BT_ALL, false), x);
            READS(y[0], yes ? 9 : 1, yes ? 8 : 5);
            READS(y[1], yes, !yes);
            READS(gradient, !yes, yes, 0, yes, !yes, 0);
            OK(bt_while(below_30, grow, op, 10, &x, 1));
            READS(x, 28, 36, 30, 32, 29, 30);
        }
}

static void in_blocks_that_are_computed_again(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = numbers(), *y[2], *loss = NULL;
        BT_CHECKPOINT {
            call(new_greatest(false), bt_mul(x, bt_num(2)), y);
            loss = bt_sum(bt_mul(y[0], y[0]), BT_ALL, false);
        }
        READS(bt_grad1(loss, x), 0, 72, 0, 64, 0, 0);
    }
}

/* --- derivatives ------------------------------------------------------------------------------------------------------------ */

/* x, y -> x + y, x * y; of the gradients that flow in one may be zero. */
static bt_status both(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    (void)count, (void)args;
    for (int64_t i = 0; i < out[0].shape.size[0]; i++) {
        float x = ((const float *)in[0].data)[i], y = ((const float *)in[1].data)[i];
        ((float *)out[0].data)[i] = x + y;
        ((float *)out[1].data)[i] = x * y;
    }
    return BT_OK;
}
static bt_status like_the_first(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)out, (void)args;
    return BT_OK;
}
static void both_back(bt_array *const *x, int count, bt_array *const *y, bt_array *const *g, bt_array **gradients,
                      const bt_custom_args *args) {
    (void)count, (void)y, (void)args;
    for (int i = 0; i < 2; i++) {
        bt_array *of_product = g[1] ? bt_mul(g[1], x[!i]) : NULL;
        gradients[i] = of_product && g[0] ? bt_add(g[0], of_product) : of_product ? of_product : g[0];
    }
}

static void gradients_flow_from_some(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = bt_custom_new(
            BT_CUSTOM(.name = "both", .results = 2, .run = both, .shape = like_the_first, .gradient = both_back));
        bt_array *x[2] = {BT_ARRAY(float, (2), 1, 2), BT_ARRAY(float, (2), 5, 7)}, *y[2];
        OK(bt_custom_call_all(op, x, 2, NULL, 0, y, 2));
        READS(bt_grad1(bt_sum(y[0], BT_ALL, false), x[0]), 1, 1);
        READS(bt_grad1(bt_sum(y[1], BT_ALL, false), x[0]), 5, 7);
        READS(bt_grad1(bt_sum(bt_add(y[0], y[1]), BT_ALL, false), x[1]), 2, 3);
        bt_array *t = bt_ones(BT_F32, 2), *made;
        FAILS(bt_jvp(&y[1], 1, x, &t, 1, &made), BT_UNIMPLEMENTED, "\"both\" has no tangent rule");
    }
}

static void forward(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = numbers(), *y[2], *t = bt_reshape(bt_arange(0, 6, 1, BT_F32), 2, 3), *made;
        call(new_greatest(false), x, y);
        OK(bt_jvp(y, 1, &x, &t, 1, &made));
        READS(made, 1, 3);
    }
}

/* --- misuse ------------------------------------------------------------------------------------------------------------------ */

static bt_status bad_second(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)args;
    out[1].shape = (bt_shape){1, {-4}};
    return BT_OK;
}
static void one_stack(bt_array *const *in, const bool *batched, int count, bt_array **out, const bt_custom_args *args) {
    (void)batched, (void)count, (void)args;
    out[0] = bt_max(in[0], BT_AXES(2), false);
}

static void wrong_counts_and_rules(void **state) {
    fresh("");
    BT_SCOPE {
        bt_custom *op = new_greatest(false);
        bt_array *x = numbers(), *y[3], *bad = bt_reshape(x, 7);
        FAILS(bt_custom_status(
                  bt_custom_new(BT_CUSTOM(.name = "f", .results = 17, .run = greatest, .shape = greatest_shape))),
              BT_INVALID_ARGUMENT, "\"f\" has 17 results; it can have 1 to 16");
        FAILS(bt_custom_status(
                  bt_custom_new(BT_CUSTOM(.name = "f", .results = -1, .run = greatest, .shape = greatest_shape))),
              BT_INVALID_ARGUMENT, "\"f\" has -1 results");
        POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_INVALID_ARGUMENT,
                 "\"greatest\" has 2 results (.results of its options), not 1; bt_custom_call_all gives all");
        FAILS(bt_custom_call_all(op, &x, 1, NULL, 0, y, 3), BT_INVALID_ARGUMENT, "2 results", "not 3");
        for (int i = 0; i < 3; i++) POISONED(y[i], BT_INVALID_ARGUMENT, "bt_custom_call_all");
        FAILS(bt_custom_call_all(op, &x, 1, NULL, 0, NULL, 2), BT_INVALID_ARGUMENT, "results is NULL");
        FAILS(bt_custom_call_all(op, &bad, 1, NULL, 0, y, 2), BT_INVALID_ARGUMENT, "bt_reshape");
        POISONED(y[1], BT_INVALID_ARGUMENT, "bt_reshape");
        FAILS(bt_custom_call_all(NULL, &x, 1, NULL, 0, y, 2), BT_INVALID_ARGUMENT);
        bt_custom *odd = bt_custom_new(BT_CUSTOM(.name = "odd", .results = 2, .run = greatest, .shape = bad_second));
        FAILS(bt_custom_call_all(odd, &x, 1, NULL, 0, y, 2), BT_INVALID_ARGUMENT,
              "\"odd\" gives axis 0 of result 1 the size -4");
        POISONED(y[0], BT_INVALID_ARGUMENT, "\"odd\"");
        bt_custom *half = bt_custom_new(
            BT_CUSTOM(.name = "half", .results = 2, .run = greatest, .shape = greatest_shape, .batch = one_stack));
        bt_array *stack = bt_zeros(BT_F32, 4, 2, 3);
        FAILS(bt_call(bt_vmap(function_of(half, 2), NULL, NULL), &stack, 1, y, 2), BT_INVALID_ARGUMENT,
              "the batching rule of the operation \"half\" hands back NULL");
    }
}

static bt_status fails(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)out, (void)args;
    return BT_DATA_LOSS;
}

static void a_run_that_fails_fails_all(const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "bad", .results = 2, .run = fails, .shape = greatest_shape));
        bt_array *x = numbers(), *y[2];
        call(op, x, y);
        POISONED(y[1], BT_DATA_LOSS, "\"bad\" fails with DATA_LOSS");
        POISONED(bt_mul(y[0], y[0]), BT_DATA_LOSS, "\"bad\" fails with DATA_LOSS");
        READS(bt_sum(x, BT_ALL, false), 32);
    }
}
static void failing_runs_on_both(void **state) {
    a_run_that_fails_fails_all("");
    a_run_that_fails_fails_all("devices=sim:gpu*1");
}

static void logs_know_it_once(void **state) {
    fresh("log_device_placement=on");
    BT_SCOPE {
        bt_array *y[2];
        call(new_greatest(false), numbers(), y);
        char *text = bt_explain_all(y, 2);
        SAYS(text, "greatest");
        bt_free(text);
        OK(bt_eval_all(y, 2));
        assert_int_equal(log_count("Executing op greatest in device"), 1);
        assert_int_equal(log_count("Custom"), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_both),
        cmocka_unit_test(a_gradient_calls_nothing_again),
        cmocka_unit_test(empty_ones_on_both),
        cmocka_unit_test(in_functions_of_both),
        cmocka_unit_test(in_batches),
        cmocka_unit_test(in_a_scan_of_both),
        cmocka_unit_test(in_branches_and_loops),
        cmocka_unit_test(in_blocks_that_are_computed_again),
        cmocka_unit_test(gradients_flow_from_some),
        cmocka_unit_test(forward),
        cmocka_unit_test(wrong_counts_and_rules),
        cmocka_unit_test(failing_runs_on_both),
        cmocka_unit_test(logs_know_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

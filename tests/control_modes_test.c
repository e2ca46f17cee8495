/* Loops and branches in every way that they can be run: flags, dtypes, views, devices, unknown sizes; and how much memory they take. */
#include <math.h>

#include "support/support.h"

/* --- a program: its results have the same bits however it is run ------------------------------------------------------ */

enum { STEPS = 5, ROWS = 3, WIDTH = 4, RESULTS = 6 };

static bt_array *some(uint64_t seed, bt_shape shape) { return bt_normal_shape(bt_key(seed), BT_F32, shape); }

static bt_array *is_below_limit(bt_array *const *carry, void *data) {
    return bt_lt(bt_sum(bt_abs(carry[0]), BT_ALL, false), bt_num(50));
}
static void grow(bt_array **carry, void *data) { carry[0] = bt_mul(carry[0], bt_num(1.5)); }
static void grow_much(bt_array *const *args, bt_array **results, void *data) {
    results[0] = args[0];
    (void)bt_while(is_below_limit, grow, NULL, 9, results, 1);
}
static void turn(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_neg(args[0]); }

/* h = tanh(h w + x), grown where the row's sum is positive, else negated; y = x h */
static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *weight) {
    bt_array *h = bt_tanh(bt_add(bt_matmul(carry[0], weight), x[0]));
    bt_array *positive = bt_gt(bt_sum(x[0], BT_ALL, false), bt_num(0));
    (void)bt_cond(positive, grow_much, turn, NULL, &h, 1, carry, 1);
    y[0] = bt_mul(x[0], carry[0]);
    carry[0] = bt_mul(carry[0], bt_num(0.05));
}

/* Both ends of a scan there and back, and the gradients of its inputs. */
static void record_all(bt_array *const *inputs, bt_array **results) {
    bt_array *h = inputs[1], *back = inputs[1], *rows, *rows_back;
    OK(bt_scan(step, inputs[2], BT_ALL_ROWS, &h, 1, &inputs[0], 1, &rows, 1));
    OK(bt_scan_reverse(step, inputs[2], BT_ALL_ROWS, &back, 1, &rows, 1, &rows_back, 1));
    bt_array *loss = bt_sum(bt_add(bt_mul(h, back), bt_sum(bt_sin(rows_back), BT_AXES(0), false)), BT_ALL, false);
    OK(bt_grad(loss, inputs, 3, results));
    results[3] = h;
    results[4] = rows_back;
    results[5] = loss;
}

static void place_inputs(bt_array **inputs) {
    inputs[0] = some(1, BT_SHAPE(STEPS, ROWS, WIDTH));
    inputs[1] = some(2, BT_SHAPE(ROWS, WIDTH));
    inputs[2] = some(3, BT_SHAPE(WIDTH, WIDTH));
}

enum { MOST_VALUES = RESULTS * STEPS * ROWS * WIDTH };

/* All elements of the results; their number. */
static int run_program(bool in_a_function, float *values) {
    int count = 0;
    BT_SCOPE {
        bt_array *inputs[3], *results[RESULTS];
        place_inputs(inputs);
        if (!in_a_function)
            record_all(inputs, results);
        else {
            bt_array *symbols[3] = {bt_input(BT_F32, -1, ROWS, WIDTH), bt_input(BT_F32, ROWS, WIDTH),
                                    bt_input(BT_F32, WIDTH, WIDTH)};
            record_all(symbols, results);
            bt_function *f = bt_function_new(symbols, 3, results, RESULTS, NULL, 0);
            for (int i = 0; i < 3; i++) OK(bt_call(f, inputs, 3, results, RESULTS)); /* recorded once, then repeated */
        }
        for (int i = 0; i < RESULTS; i++) {
            int of = (int)bt_count(results[i]);
            assert_true(count + of <= MOST_VALUES);
            OK(bt_read(results[i], values + count, (size_t)of * sizeof *values));
            count += of;
        }
    }
    return count;
}

/* The reference interpreter has mathematical functions of its own (docs/same-bits.md). */
static void expect_same(const float *got, const float *wanted, int count, const char *settings) {
    bool close = !strcmp(settings, "kernels=interpreter");
    for (int i = 0; i < count; i++)
        if (close ? !(fabsf(got[i] - wanted[i]) <= 1e-3f * (1 + fabsf(wanted[i])))
                  : memcmp(&got[i], &wanted[i], sizeof *got))
            fail_msg("\"%s\": element %d is %.9g, not %.9g", settings, i, (double)got[i], (double)wanted[i]);
}

static void the_same_bits_in_every_way(void **state) {
    static const char *const settings[] = {"",
                                           "kernels=interpreter",
                                           "kernels=blocks",
                                           "kernels=compiled",
                                           "check_kernels=on",
                                           "fuse=off",
                                           "fuse=off,kernels=blocks",
                                           "memory_pool=off",
                                           "threads=1",
                                           "sync=on",
                                           "flush_nodes=1",
                                           "graphs=off",
                                           "devices=sim:gpu*1",
                                           "devices=sim:gpu*1,memory_pool=off",
                                           "devices=sim:gpu*1,sim_latency_us=50"};
    float wanted[MOST_VALUES], got[MOST_VALUES];
    fresh("");
    int count = run_program(false, wanted);
    int every = getenv("BERTH_TEST_SHORT") ? 4 : 1; /* under sanitizers each takes long */
    for (int s = 0; s < COUNT(settings); s += every)
        for (int in_a_function = 0; in_a_function < 2; in_a_function++) {
            fresh(settings[s]);
            assert_int_equal(run_program(in_a_function, got), count);
            expect_same(got, wanted, count, settings[s]);
            assert_int_equal(bt_live_arrays(), 0);
        }
}

/* What does not depend on what a body is given may be computed before the body has been recorded to its end, and be there in one run but not in
 * another: it is computed inside in both, so that gradients are added in one order. */
static void order_rows(bt_array *const *args, bt_array **results, void *outside) {
    bt_array *parts[] = {bt_slice_axis(outside, 0, 1, WIDTH, 1), bt_slice_axis(outside, 0, 0, 1, 1)};
    results[0] = bt_mul(bt_take(args[0], bt_argsort(outside, 0), 0), bt_concat(parts, 2, 0));
}
static void centre(bt_array *const *args, bt_array **results, void *outside) {
    bt_array *mean = bt_broadcast_to(bt_mean(outside, BT_ALL, false), WIDTH);
    results[0] = bt_sub(bt_sin(args[0]), bt_mul(bt_exp(mean), bt_flip(outside, BT_AXES(0))));
}
static void centre_then_branch(bt_array **carry, bt_array *const *x, bt_array **y, void *outside) {
    bt_array *positive = bt_gt(bt_sum(x[0], BT_ALL, false), bt_num(0));
    centre(carry, carry, outside);
    OK(bt_cond(positive, order_rows, centre, outside, carry, 1, carry, 1));
    y[0] = bt_mul(carry[0], bt_sub(x[0], bt_broadcast_to(bt_mean(outside, BT_ALL, false), WIDTH)));
}

static void evaluation_amid_recording_changes_no_bits(void **state) {
    static const char *const settings[] = {"",
                                           "sync=on",
                                           "flush_nodes=1",
                                           "flush_nodes=2",
                                           "flush_nodes=3",
                                           "flush_nodes=5",
                                           "flush_nodes=8",
                                           "devices=sim:gpu*1,flush_nodes=3"};
    float wanted[2][WIDTH], got[2][WIDTH];
    for (int s = 0; s < COUNT(settings); s++) {
        fresh(settings[s]);
        BT_SCOPE {
            bt_array *inputs[] = {some(4, BT_SHAPE(WIDTH)), some(5, BT_SHAPE(STEPS, WIDTH))}, *rows, *grads[2];
            bt_array *h = inputs[0];
            OK(bt_scan_reverse(centre_then_branch, inputs[0], BT_ALL_ROWS, &h, 1, &inputs[1], 1, &rows, 1));
            OK(bt_grad(bt_sum(bt_mul(bt_sin(h), bt_sum(rows, BT_AXES(0), false)), BT_ALL, false), inputs, 2, grads));
            OK(bt_read(h, got[0], sizeof got[0]));
            OK(bt_read(grads[0], got[1], sizeof got[1]));
        }
        if (s == 0) memcpy(wanted, got, sizeof wanted);
        expect_same(got[0], wanted[0], 2 * WIDTH, settings[s]);
    }
}

/* --- what is carried, and what is given by row --------------------------------------------------------------------------- */

static void add_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_add(carry[0], x[0]);
    y[0] = carry[0];
}

static void carries_every_dtype(void **state) {
    static const bt_dtype dtypes[] = {BT_BF16, BT_F16, BT_F32, BT_F64, BT_I8, BT_I32, BT_I64, BT_U8};
    fresh("");
    for (int d = 0; d < COUNT(dtypes); d++)
        BT_SCOPE {
            bt_array *xs = bt_cast(BT_ARRAY(float, (3, 2), 1, 2, 3, 4, 5, 6), dtypes[d]), *rows;
            bt_array *carry = bt_zeros(dtypes[d], 2);
            OK(bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &rows, 1));
            assert_int_equal(bt_dtype_of(carry), dtypes[d]);
            READS(bt_cast(carry, BT_F64), 9, 12);
            READS(bt_cast(rows, BT_F64), 1, 2, 4, 6, 9, 12);
        }
}

/* Carries of several dtypes at once, of which some go by turns through two others. */
static void rotate(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *first = carry[0];
    carry[0] = carry[1];
    carry[1] = first;
    carry[2] = bt_logical_not(carry[2]);
    carry[3] = bt_add(carry[3], bt_i64(1));
    y[0] = carry[2];
}
static void carries_are_exchanged(void **state) {
    fresh("");
    for (int steps = 0; steps < 4; steps++)
        BT_SCOPE {
            bt_array *carry[] = {bt_f32(1), bt_f32(2), bt_lt(bt_f32(1), bt_f32(0)), bt_i64(7)}, *rows;
            OK(bt_scan(rotate, NULL, steps, carry, 4, NULL, 0, &rows, 1));
            READS(carry[0], steps % 2 ? 2 : 1);
            READS(carry[1], steps % 2 ? 1 : 2);
            READS(carry[2], steps % 2);
            READS(carry[3], 7 + steps);
            assert_int_equal(bt_size(rows, 0), steps);
            OK(bt_block(rows));
        }
}

static void rows_may_be_views(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6);
        bt_array *views[] = {bt_transpose(x), bt_flip(x, BT_AXES(0)), bt_slice_axis(x, 1, 0, 3, 2),
                             bt_broadcast_to(bt_slice_axis(x, 0, 1, 2, 1), 3, 3), bt_reshape(bt_transpose(x), 2, 3)};
        for (int v = 0; v < COUNT(views); v++) {
            bt_array *carry = bt_zeros(BT_F32, bt_size(views[v], 1)), *rows;
            OK(bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &views[v], 1, &rows, 1));
            bt_array *wanted = bt_cumsum(views[v], 0, false),
                     *away = bt_max(bt_abs(bt_sub(rows, wanted)), BT_ALL, false);
            READS(away, 0);
        }
    }
}

/* A result is given as it was made: the carry itself, a row itself, a constant, what lies outside. */
static void hand_through(bt_array **carry, bt_array *const *x, bt_array **y, void *outside) {
    y[0] = carry[0];
    y[1] = x[0];
    y[2] = bt_ones(BT_F32, 2);
    y[3] = outside;
    y[4] = bt_slice_axis(carry[0], 0, 0, 1, 1);
    carry[0] = x[0];
}
static void results_may_be_anything(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *outside = BT_ARRAY(float, (2), 8, 9), *xs = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *rows[5];
        bt_array *carry = BT_ARRAY(float, (2), 5, 6);
        OK(bt_scan(hand_through, outside, BT_ALL_ROWS, &carry, 1, &xs, 1, rows, 5));
        READS(carry, 3, 4);
        READS(rows[0], 5, 6, 1, 2);
        READS(rows[1], 1, 2, 3, 4);
        READS(rows[2], 1, 1, 1, 1);
        READS(rows[3], 8, 9, 8, 9);
        READS(rows[4], 5, 1);
    }
}

/* --- unknown sizes --------------------------------------------------------------------------------------------------------- */

static void calls_with_any_number_of_rows(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *xs = bt_input(BT_F32, -1, -1), *carry = bt_input(BT_F32, -1), *inputs[] = {xs, carry}, *rows;
        OK(bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &rows, 1));
        bt_array *outputs[] = {carry, rows, NULL, NULL};
        OK(bt_grad(bt_sum(bt_mul(rows, rows), BT_ALL, false), inputs, 2, outputs + 2));
        bt_function *f = bt_function_new(inputs, 2, outputs, 4, NULL, 0);
        for (int64_t steps = 0; steps < 4; steps++)
            for (int64_t width = 0; width < 3; width++)
                BT_SCOPE {
                    bt_array *given[] = {bt_ones(BT_F32, steps, width), bt_zeros(BT_F32, width)}, *got[4];
                    OK(bt_call(f, given, 2, got, 4));
                    double sum = 0, squares = 0;
                    OK(bt_read(bt_sum(bt_cast(got[0], BT_F64), BT_ALL, false), &sum, sizeof sum));
                    assert_true(sum == (double)(steps * width));
                    OK(bt_read(bt_sum(bt_cast(got[3], BT_F64), BT_ALL, false), &squares, sizeof squares));
                    assert_true(squares == (double)(width * steps * (steps + 1)));
                    assert_int_equal(bt_size(got[2], 0), steps);
                    for (int i = 0; i < 4; i++) OK(bt_block(got[i]));
                }
        bt_array *wrong[] = {bt_ones(BT_F32, 2, 3), bt_zeros(BT_F32, 2)}, *got[4];
        FAILS(bt_call(f, wrong, 2, got, 4), BT_INVALID_ARGUMENT);
    }
}

/* --- devices --------------------------------------------------------------------------------------------------------------- */

/* The rows, what is carried first, and a weight that bodies read from outside, each anywhere: a loop runs where its body would. */
static void captures_come_from_other_devices(void **state) {
    static const char *const places[] = {NULL, "gpu:0", "gpu:1"}; /* the first: wherever an operation wants it */
    float wanted[MOST_VALUES], got[MOST_VALUES];
    fresh("devices=sim:gpu*2");
    int count = run_program(false, wanted);
    for (int placed = 0; placed < 27; placed++)
        BT_SCOPE {
            bt_array *inputs[3], *results[RESULTS];
            int of[3] = {placed % 3, placed / 3 % 3, placed / 9}, at = 0;
            place_inputs(inputs);
            for (int i = 0; i < 3; i++)
                if (of[i]) inputs[i] = bt_to(inputs[i], places[of[i]]);
            record_all(inputs, results);
            if (of[0] == 2 && of[1] == 2 && of[2] == 1)
                assert_ptr_equal(bt_device_of(results[3]), device("gpu:1")); /* by bytes */
            if (of[0] == 0 && of[1] == 0 && of[2]) assert_ptr_equal(bt_device_of(results[3]), device(places[of[2]]));
            for (int i = 0; i < RESULTS; i++) {
                OK(bt_read(results[i], got + at, (size_t)bt_count(results[i]) * sizeof *got));
                at += (int)bt_count(results[i]);
            }
            expect_same(got, wanted, count, "on two devices");
        }
}

/* Where copies are refused, so are those of what a body reads from outside. */
static void captures_are_not_copied_where_that_is_refused(void **state) {
    fresh("devices=sim:gpu*2,transfers=error");
    BT_SCOPE {
        bt_array *weight = NULL, *carry = NULL, *start;
        BT_ON("gpu:0") weight = bt_ones(BT_F32, 1, 1);
        BT_ON("gpu:1") carry = start = bt_ones(BT_F32, 1, 1);
        bt_array *rows = bt_reshape(start, 1, 1, 1);
        FAILS(bt_scan(step, weight, BT_ALL_ROWS, &carry, 1, &rows, 1, NULL, 0), BT_FAILED_PRECONDITION,
              "arrays on different devices");
        POISONED(carry, BT_FAILED_PRECONDITION, "bt_matmul");
        OK(bt_scan(add_row, NULL, BT_ALL_ROWS, &start, 1, &rows, 1, NULL, 0));
        READS(start, 2);
    }
}

static bt_array *recurrent(bt_array *x) { /* [batch, 2] */
    bt_array *carry = bt_zeros(BT_F32, 2), *rows;
    (void)bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &x, 1, &rows, 1);
    return bt_tanh(bt_mul(rows, bt_num(0.1)));
}
static bt_array *squares(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mse(bt_apply(model, x), y);
}

/* A step on two devices trains as one on each half of the batch: all parts have a loop of their own. */
static void trains_on_several_devices(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_strategy *both = bt_mirrored(((const char *const[]){"gpu:0", "gpu:1"}), 2);
        OK(bt_strategy_set_shares(both, (const double[]){1, 1}, 2));
        bt_layer *model = NULL;
        BT_STRATEGY(both) model = bt_chain(bt_lambda("recurrent", recurrent), bt_dense(2, 2, NULL, bt_key(1)));
        bt_optimizer *sgd = bt_sgd(0.5);
        bt_array *x = some(5, BT_SHAPE(8, 2)), *y = bt_full(0.5, BT_F32, 8, 2);
        float first = 0, last = 0;
        for (int i = 0; i < 20; i++)
            BT_SCOPE
                OK(bt_read(bt_train_step(both, model, sgd, squares, NULL, x, y), i ? &last : &first, sizeof last));
        assert_true(last < first / 2);
    }
}

/* --- faults at run time ------------------------------------------------------------------------------------------------------ */

static void a_failed_launch_poisons_what_comes_of_it(void **state) {
    fresh("devices=sim:gpu*1");
    float before[MOST_VALUES], after_it[MOST_VALUES];
    int count = run_program(false, before);
    BT_SCOPE {
        bt_array *inputs[3];
        place_inputs(inputs);
        for (int i = 0; i < 3; i++) OK(bt_block(inputs[i]));
        for (int n = 1; n < 30; n += 4)
            BT_SCOPE {
                char fault[32];
                bt_array *carry = inputs[1], *rows;
                snprintf(fault, sizeof fault, "launch:%d", n);
                OK(bt_set_flag("sim_fault", fault));
                OK(bt_scan(step, inputs[2], BT_ALL_ROWS, &carry, 1, &inputs[0], 1, &rows, 1));
                bt_array *after = bt_add(rows, bt_num(1));
                bt_status status = bt_block(after);
                if (status != BT_OK) {
                    assert_int_equal(status, BT_INTERNAL);
                    SAYS(bt_error_text(), "sim_fault");
                    assert_int_not_equal(bt_block(carry), BT_OK);
                } else
                    assert_true(n > 9); /* fewer launches than that would be no loop */
                OK(bt_set_flag("sim_fault", ""));
            }
    }
    assert_int_equal(run_program(false, after_it), count);
    expect_same(after_it, before, count, "after failed launches");
}

static void a_predicate_may_be_poisoned_when_it_runs(void **state) {
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 3), *result, *carry = x;
        OK(bt_block(x));
        OK(bt_set_flag("sim_fault", "launch:1"));
        bt_array *predicate = bt_all(bt_gt(x, bt_num(0)), BT_ALL, false);
        (void)!bt_eval(predicate);
        bt_synchronize();
        (void)bt_cond(predicate, turn, turn, NULL, &x, 1, &result, 1);
        assert_int_equal(bt_block(result), BT_INTERNAL);
        OK(bt_set_flag("sim_fault", "launch:2"));
        OK(bt_while(is_below_limit, grow, NULL, 0, &carry, 1));
        assert_int_equal(bt_block(carry), BT_INTERNAL);
        OK(bt_set_flag("sim_fault", ""));
    }
}

static void too_little_device_memory_is_an_error(void **state) {
    fresh("devices=sim:gpu*1@1M");
    BT_SCOPE {
        bt_array *carry = bt_zeros(BT_F32, 1000), *rows;
        bt_array *xs = bt_ones(BT_F32, 1000);
        xs = bt_broadcast_to(xs, 1000, 1000); /* 4 MB of rows */
        OK(bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &rows, 1));
        FAILS(bt_block(rows), BT_RESOURCE_EXHAUSTED);
    }
    BT_SCOPE {
        bt_array *carry = bt_zeros(BT_F32, 1000), *xs = bt_ones(BT_F32, 10, 1000), *rows;
        OK(bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &rows, 1));
        OK(bt_block(rows));
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------------------ */

/* Without rows the number of steps costs nothing: neither on the device nor on the host. */
static void decay(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_mul(bt_sin(bt_cumsum(carry[0], 0, false)), bt_num(0.5));
}
static bt_array *is_within(bt_array *const *carry, void *data) { return bt_lt(carry[1], data); }
static void decay_and_count(bt_array **carry, void *data) {
    decay(carry, NULL, NULL, NULL);
    carry[1] = bt_add(carry[1], bt_i32(1));
}

static void decay_and_tell(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    decay(carry, x, y, data);
    y[0] = carry[0];
}

enum kind { SCAN, WHILE, SCAN_WITH_ROWS };

static size_t peak_of(int64_t steps, enum kind kind) {
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        bt_array *carry[] = {bt_ones(BT_F32, 4096), bt_i32(0)}, *most = bt_i32((int32_t)steps), *rows;
        if (kind == SCAN_WITH_ROWS)
            OK(bt_scan(decay_and_tell, NULL, steps, carry, 1, NULL, 0, &rows, 1));
        else if (kind == WHILE)
            OK(bt_while(is_within, decay_and_count, most, 0, carry, 2));
        else
            OK(bt_scan(decay, NULL, steps, carry, 1, NULL, 0, NULL, 0));
        OK(bt_block(carry[0]));
    }
    return memory("gpu:0").peak;
}

static void memory_does_not_grow_with_the_steps(void **state) {
    for (enum kind kind = SCAN; kind <= WHILE; kind++) {
        size_t few = peak_of(10, kind), many = peak_of(10000, kind);
        if (few != many)
            fail_msg("10 steps of a %s take %zu bytes, 10,000 %zu", kind == WHILE ? "while" : "scan", few, many);
    }
    size_t row = 4096 * sizeof(float); /* rows are what grows */
    assert_true(peak_of(1000, SCAN_WITH_ROWS) >= peak_of(10, SCAN_WITH_ROWS) + 990 * row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_in_every_way),
        cmocka_unit_test(evaluation_amid_recording_changes_no_bits),
        cmocka_unit_test(carries_every_dtype),
        cmocka_unit_test(carries_are_exchanged),
        cmocka_unit_test(rows_may_be_views),
        cmocka_unit_test(results_may_be_anything),
        cmocka_unit_test(calls_with_any_number_of_rows),
        cmocka_unit_test(captures_come_from_other_devices),
        cmocka_unit_test(captures_are_not_copied_where_that_is_refused),
        cmocka_unit_test(trains_on_several_devices),
        cmocka_unit_test(a_failed_launch_poisons_what_comes_of_it),
        cmocka_unit_test(a_predicate_may_be_poisoned_when_it_runs),
        cmocka_unit_test(too_little_device_memory_is_an_error),
        cmocka_unit_test(memory_does_not_grow_with_the_steps),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

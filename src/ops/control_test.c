// labels: valgrind
/* Loops and branches as operations beside the same work written out; their gradients beside those of the written-out work. */
#include <stdlib.h>

#include "ops/ops_test.h"

static void expect_close(bt_array *x, bt_array *y, int line) {
    double worst = 1;
    bt_array *away = bt_max(bt_abs(bt_sub(bt_cast(x, BT_F64), bt_cast(y, BT_F64))), BT_ALL, false);
    if (bt_read(away, &worst, sizeof worst) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
    if (!(worst < 1e-5)) fail_msg("line %d: they differ by %g", line, worst);
}
#define CLOSE(x, y) expect_close(x, y, __LINE__)

/* --- scans ------------------------------------------------------------------------------------------------------------ */

typedef struct cell {
    bt_array *weight, *bias;
} cell;

/* h = tanh(h @ w + x + b); y = h * x */
static void cell_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const cell *c = data;
    carry[0] = bt_tanh(bt_add(bt_add(bt_matmul(carry[0], c->weight), x[0]), c->bias));
    y[0] = bt_mul(carry[0], x[0]);
}

enum { STEPS = 5, ROWS = 3, WIDTH = 4 };

static bt_array *some(uint64_t seed, bt_shape shape) { return bt_normal_shape(bt_key(seed), BT_F32, shape); }
static cell new_cell(void) { return (cell){some(1, BT_SHAPE(WIDTH, WIDTH)), some(2, BT_SHAPE(WIDTH))}; }

static void written_out(cell *c, bt_array **h, bt_array *xs, int steps, bool reverse, bt_array **ys) {
    bt_array *rows[STEPS];
    for (int t = 0; t < steps; t++) {
        int row = reverse ? steps - 1 - t : t;
        bt_array *x = bt_reshape(bt_slice_axis(xs, 0, row, row + 1, 1), ROWS, WIDTH);
        cell_step(h, &x, &rows[row], c);
    }
    *ys = bt_stack(rows, steps, 0);
}

static void scans_like_written_out(void **state) {
    for (int reverse = 0; reverse < 2; reverse++)
        BT_SCOPE {
            cell c = new_cell();
            bt_array *xs = some(3, BT_SHAPE(STEPS, ROWS, WIDTH)), *h = some(4, BT_SHAPE(ROWS, WIDTH)), *ys;
            bt_array *h0 = h, *wanted_h = h, *wanted_ys;
            bt_status status = reverse ? bt_scan_reverse(cell_step, &c, BT_ALL_ROWS, &h, 1, &xs, 1, &ys, 1)
                                       : bt_scan(cell_step, &c, BT_ALL_ROWS, &h, 1, &xs, 1, &ys, 1);
            assert_int_equal(status, BT_OK);
            written_out(&c, &wanted_h, xs, STEPS, reverse, &wanted_ys);
            CLOSE(h, wanted_h);
            CLOSE(ys, wanted_ys);

            bt_array *loss = bt_add(bt_sum(bt_mul(h, h), BT_ALL, false), bt_sum(bt_sin(ys), BT_ALL, false));
            bt_array *wanted_loss =
                bt_add(bt_sum(bt_mul(wanted_h, wanted_h), BT_ALL, false), bt_sum(bt_sin(wanted_ys), BT_ALL, false));
            bt_array *by[] = {c.weight, c.bias, xs, h0}, *grads[4], *wanted[4];
            assert_int_equal(bt_grad(wanted_loss, by, 4, wanted), BT_OK);
            assert_int_equal(bt_grad(loss, by, 4, grads), BT_OK);
            for (int i = 0; i < 4; i++) CLOSE(grads[i], wanted[i]);
        }
}

/* The gradient of a scan that has run runs it again. */
static void differentiates_after_it_ran(void **state) {
    cell c = new_cell();
    bt_array *xs = some(3, BT_SHAPE(STEPS, ROWS, WIDTH)), *h = some(4, BT_SHAPE(ROWS, WIDTH)), *ys;
    bt_array *wanted_h = h, *wanted_ys;
    assert_int_equal(bt_scan(cell_step, &c, BT_ALL_ROWS, &h, 1, &xs, 1, &ys, 1), BT_OK);
    written_out(&c, &wanted_h, xs, STEPS, false, &wanted_ys);
    assert_int_equal(bt_block(ys), BT_OK);
    assert_int_equal(bt_block(h), BT_OK);
    bt_array *grad = bt_grad1(bt_sum(ys, BT_ALL, false), c.weight);
    CLOSE(grad, bt_grad1(bt_sum(wanted_ys, BT_ALL, false), c.weight));
}

/* The loss is read before its gradient: what the forward run stored is kept for it. */
static void keeps_what_is_stored(void **state) {
    cell c = new_cell();
    bt_array *xs = some(3, BT_SHAPE(STEPS, ROWS, WIDTH)), *h = some(4, BT_SHAPE(ROWS, WIDTH)), *ys;
    bt_array *wanted_h = h, *wanted_ys;
    assert_int_equal(bt_scan(cell_step, &c, BT_ALL_ROWS, &h, 1, &xs, 1, &ys, 1), BT_OK);
    bt_array *loss = bt_sum(ys, BT_ALL, false), *grad = bt_grad1(loss, c.weight);
    float value;
    assert_int_equal(bt_read(loss, &value, sizeof value), BT_OK);
    written_out(&c, &wanted_h, xs, STEPS, false, &wanted_ys);
    CLOSE(grad, bt_grad1(bt_sum(wanted_ys, BT_ALL, false), c.weight));
    CLOSE(h, wanted_h);
}

static void second_order(void **state) {
    cell c = new_cell();
    bt_array *xs = some(3, BT_SHAPE(STEPS, ROWS, WIDTH)), *h = some(4, BT_SHAPE(ROWS, WIDTH)), *ys;
    bt_array *wanted_h = h, *wanted_ys;
    assert_int_equal(bt_scan(cell_step, &c, BT_ALL_ROWS, &h, 1, &xs, 1, &ys, 1), BT_OK);
    written_out(&c, &wanted_h, xs, STEPS, false, &wanted_ys);
    bt_array *first = bt_grad1(bt_sum(bt_mul(ys, ys), BT_ALL, false), c.weight);
    bt_array *wanted = bt_grad1(bt_sum(bt_mul(wanted_ys, wanted_ys), BT_ALL, false), c.weight);
    CLOSE(first, wanted);
    CLOSE(bt_mul(bt_num(0.01), bt_grad1(bt_sum(bt_mul(first, first), BT_ALL, false), c.weight)),
          bt_mul(bt_num(0.01), bt_grad1(bt_sum(bt_mul(wanted, wanted), BT_ALL, false), c.weight)));
}

/* Of a constant, and of a view, that a body reads: neither is made inside of it. */
static void differentiates_what_is_captured(void **state) {
    bt_array *flat = some(5, BT_SHAPE(WIDTH * WIDTH)),
             *views[] = {bt_ones(BT_F32, WIDTH, WIDTH), bt_reshape(flat, WIDTH, WIDTH)};
    for (int i = 0; i < 2; i++) {
        cell c = {views[i], bt_zeros(BT_F32, WIDTH)};
        bt_array *xs = some(3, BT_SHAPE(STEPS, ROWS, WIDTH)), *h = some(4, BT_SHAPE(ROWS, WIDTH)), *ys;
        bt_array *wanted_h = h, *wanted_ys;
        assert_int_equal(bt_scan(cell_step, &c, BT_ALL_ROWS, &h, 1, &xs, 1, &ys, 1), BT_OK);
        written_out(&c, &wanted_h, xs, STEPS, false, &wanted_ys);
        CLOSE(bt_grad1(bt_sum(ys, BT_ALL, false), c.weight), bt_grad1(bt_sum(wanted_ys, BT_ALL, false), c.weight));
    }
}

/* --- what is carried, written over ------------------------------------------------------------------------------------ */

enum { TURNS = 5 };

/* Each changes two arrays [3, 2] and the number of the step. */
static void both_doubled(bt_array **c) { c[0] = bt_mul(c[0], bt_num(2)), c[1] = bt_sin(c[1]); }
static void exchanged(bt_array **c) {
    bt_array *first = c[0];
    c[0] = c[1], c[1] = first;
}
static void summed_up(bt_array **c) {
    bt_array *first = c[0];
    c[0] = c[1], c[1] = bt_add(first, c[1]);
}
static void read_after_it_is_written(bt_array **c) {
    bt_array *first = c[0];
    c[0] = bt_mul(first, bt_num(3));
    c[1] = bt_add(bt_mul(c[1], bt_sum(c[0], BT_ALL, false)), first);
}
static void turned(bt_array **c) { c[0] = bt_add(c[1], bt_reshape(bt_transpose(c[0]), 3, 2)); }
static void summed_columns(bt_array **c) { c[1] = bt_add(c[1], bt_sum(c[1], BT_AXES(0), true)); }
static void one_row_set(bt_array **c) {
    bt_array *row = bt_sum(c[1], BT_AXES(0), true);
    c[0] = bt_update_slice_axis(c[0], row, bt_mod(c[2], bt_i32(3)), 0);
}
static void its_own_row_set(bt_array **c) {
    c[0] = bt_update_slice_axis(c[0], bt_slice_axis(c[0], 0, 0, 2, 1), bt_i32(1), 0);
}
static void the_row_before_is_read(bt_array **c) {
    bt_array *before = c[0];
    c[0] = bt_update_slice_axis(c[0], bt_slice_axis(c[1], 0, 0, 1, 1), bt_mod(c[2], bt_i32(3)), 0);
    c[1] = bt_add(c[1], before);
}
static void rows_added(bt_array **c) {
    c[0] =
        bt_scatter_add(c[0], BT_ARRAY(int32_t, (6), 2, 0, 2, 1, 1, 0), bt_concat((bt_array *[]){c[1], c[1]}, 2, 0), 0);
}
static void unchanged(bt_array **c) { (void)c; }

typedef void change(bt_array **carry);
static change *const changes[] = {both_doubled,   exchanged,   summed_up,       read_after_it_is_written, turned,
                                  summed_columns, one_row_set, its_own_row_set, the_row_before_is_read,   rows_added,
                                  unchanged};

static void change_in_scan(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x;
    (*(change *const *)data)(carry);
    carry[2] = bt_add(carry[2], bt_i32(1));
    y[0] = bt_neg(carry[0]);
}
static void change_in_while(bt_array **carry, void *data) {
    (*(change *const *)data)(carry);
    carry[2] = bt_add(carry[2], bt_i32(1));
}
static bt_array *before_the_last(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(carry[2], bt_i32(TURNS));
}

static void what_is_carried_is_written_over(void **state) {
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++)
        BT_SCOPE {
            bt_array *first[3] = {some(1, BT_SHAPE(3, 2)), some(2, BT_SHAPE(3, 2)), bt_i32(0)}, *rows, *each[TURNS];
            bt_array *scanned[3], *looped[3], *wanted[3], *kept[2];
            for (int i = 0; i < 3; i++) scanned[i] = looped[i] = wanted[i] = first[i];
            for (int i = 0; i < 2; i++) kept[i] = bt_neg(first[i]);
            assert_int_equal(bt_eval_all(kept, 2), BT_OK);
            for (int t = 0; t < TURNS; t++) {
                changes[k](wanted);
                wanted[2] = bt_add(wanted[2], bt_i32(1));
                each[t] = wanted[0];
            }
            assert_int_equal(bt_scan(change_in_scan, (void *)&changes[k], TURNS, scanned, 3, NULL, 0, &rows, 1), BT_OK);
            assert_int_equal(bt_while(before_the_last, change_in_while, (void *)&changes[k], 0, looped, 3), BT_OK);
            for (int i = 0; i < 3; i++) {
                CLOSE(scanned[i], wanted[i]);
                CLOSE(looped[i], wanted[i]);
            }
            CLOSE(bt_neg(rows), bt_stack(each, TURNS, 0));
            for (int i = 0; i < 2; i++) CLOSE(bt_neg(first[i]), kept[i]); /* the program's arrays are as they were */
        }
}

/* A part of a large array in each of many steps. */
static void put_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y, (void)data;
    carry[0] = bt_update_slice_axis(carry[0], bt_expand_dims(x[0], 0), carry[1], 0);
    carry[1] = bt_add(carry[1], bt_i32(1));
}
static void updates_take_no_memory(void **state) {
    bt_array *xs = some(1, BT_SHAPE(1000, 16)), *carry[2] = {bt_zeros(BT_F32, 1000, 16), bt_i32(0)};
    assert_int_equal(bt_scan(put_row, NULL, BT_ALL_ROWS, carry, 2, &xs, 1, NULL, 0), BT_OK);
    char *plan = bt_explain_as(carry, 1, BT_EXPLAIN_PASSES);
    assert_non_null(plan);
    const char *scratch = strstr(plan, "uint8 (");
    assert_non_null(scratch);
    assert_true(strtol(scratch + strlen("uint8 ("), NULL, 10) < 1000 * 16 * 4);
    bt_free(plan);
    CLOSE(carry[0], xs);
}

/* The gradient of an array of which each step reads rows: they are added where it is. */
static void read_row(bt_array **carry, bt_array *const *x, bt_array **y, void *table) {
    (void)y;
    bt_array *row = bt_dynamic_slice_axis(table, x[0], 1, 0);
    carry[0] = bt_add(bt_mul(carry[0], bt_num(0.5)), bt_sin(bt_add(bt_reshape(row, 16), bt_take(table, x[0], 0))));
}
static void rows_read_are_added_one_by_one(void **state) {
    enum { COUNT = 500 };
    bt_array *table = bt_input(BT_F32, COUNT, 16), *numbers = bt_arange(0, COUNT, 1, BT_I32),
             *carry = bt_zeros(BT_F32, 16);
    bt_array *wanted = carry, *given = some(1, BT_SHAPE(COUNT, 16)), *got;
    assert_int_equal(bt_scan(read_row, table, BT_ALL_ROWS, &carry, 1, &numbers, 1, NULL, 0), BT_OK);
    bt_array *grad = bt_grad1(bt_sum(carry, BT_ALL, false), table);
    bt_function *f = bt_function_new(&table, 1, &grad, 1, NULL, 0);
    bt_cost cost = BT_COST_INIT;
    assert_int_equal(bt_function_cost(f, &given, NULL, 1, &cost), BT_OK);
    assert_true(cost.bytes_written < 20 * COUNT * 16 * 4); /* not the table in each step */
    assert_int_equal(bt_call(f, &given, 1, &got, 1), BT_OK);
    for (int t = 0; t < COUNT; t++) {
        bt_array *row = bt_reshape(bt_slice_axis(given, 0, t, t + 1, 1), 16);
        wanted = bt_add(bt_mul(wanted, bt_num(0.5)), bt_sin(bt_mul(row, bt_num(2))));
    }
    CLOSE(got, bt_grad1(bt_sum(wanted, BT_ALL, false), given));
}

/* --- whiles and branches ------------------------------------------------------------------------------------------------ */

static bt_array *below_limit(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(bt_sum(carry[0], BT_ALL, false), bt_num(100));
}
static void grow(bt_array **carry, void *data) {
    carry[0] = bt_mul(carry[0], data);
    carry[1] = bt_add(carry[1], bt_i32(1));
}

static void loops_while(void **state) {
    bt_array *factor = F32((2), 1.5f, 2), *carry[] = {F32((2), 1, 2), bt_i32(0)}, *x = carry[0];
    assert_int_equal(bt_while(below_limit, grow, factor, 50, carry, 2), BT_OK);
    int32_t steps;
    assert_int_equal(bt_read(carry[1], &steps, sizeof steps), BT_OK);
    assert_int_equal(steps, 6);
    bt_array *wanted = x;
    for (int i = 0; i < steps; i++) wanted = bt_mul(wanted, factor);
    CLOSE(carry[0], wanted);
    bt_array *loss = bt_sum(bt_sin(carry[0]), BT_ALL, false), *wanted_loss = bt_sum(bt_sin(wanted), BT_ALL, false);
    bt_array *by[] = {x, factor}, *grads[2], *wanted_grads[2];
    assert_int_equal(bt_grad(loss, by, 2, grads), BT_OK);
    assert_int_equal(bt_grad(wanted_loss, by, 2, wanted_grads), BT_OK);
    for (int i = 0; i < 2; i++) CLOSE(grads[i], wanted_grads[i]);
}

static void squares(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_mul(args[0], args[0]);
    results[1] = bt_matmul(args[0], data);
}
static void sines(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_sin(args[0]);
    results[1] = args[0];
}

static void branches(void **state) {
    for (int yes = 0; yes < 2; yes++)
        BT_SCOPE {
            bt_array *x = some(1, BT_SHAPE(3, 3)), *w = some(2, BT_SHAPE(3, 3)), *got[2], *wanted[2];
            bt_array *predicate = bt_gt(bt_num(yes), bt_num(0.5));
            assert_int_equal(bt_cond(predicate, squares, sines, w, &x, 1, got, 2), BT_OK);
            (yes ? squares : sines)(&x, wanted, w);
            for (int i = 0; i < 2; i++) CLOSE(got[i], wanted[i]);
            bt_array *loss = bt_sum(bt_mul(got[0], bt_cos(got[1])), BT_ALL, false);
            bt_array *wanted_loss = bt_sum(bt_mul(wanted[0], bt_cos(wanted[1])), BT_ALL, false);
            bt_array *by[] = {x, w}, *grads[2], *wanted_grads[2];
            assert_int_equal(bt_grad(loss, by, 2, grads), BT_OK);
            assert_int_equal(bt_grad(wanted_loss, by, 2, wanted_grads), BT_OK);
            for (int i = 0; i < 2; i++) CLOSE(grads[i], wanted_grads[i]);
        }
}

/* --- in functions, and in each other ------------------------------------------------------------------------------------ */

/* Each step: if the row's sum is positive, the inner scan doubles the carry three times, else it is negated. */
static void twice(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y;
    carry[0] = bt_mul(carry[0], data);
}
static void inner_scan(bt_array *const *args, bt_array **results, void *data) {
    results[0] = args[0];
    (void)bt_scan(twice, data, 3, results, 1, NULL, 0, NULL, 0);
}
static void negated(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_neg(args[0]);
}
static void nested_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y;
    bt_array *positive = bt_gt(bt_sum(x[0], BT_ALL, false), bt_num(0));
    bt_array *sum = bt_add(carry[0], x[0]);
    (void)bt_cond(positive, inner_scan, negated, data, &sum, 1, carry, 1);
}

static void nests_in_a_function(void **state) {
    bt_array *two = bt_f32(2), *xs = bt_input(BT_F32, -1, 2), *h = bt_input(BT_F32, 2), *inputs[] = {xs, h};
    bt_array *carry = h, *grads[2];
    assert_int_equal(bt_scan(nested_step, two, BT_ALL_ROWS, &carry, 1, &xs, 1, NULL, 0), BT_OK);
    assert_int_equal(bt_grad(bt_sum(bt_mul(carry, carry), BT_ALL, false), inputs, 2, grads), BT_OK);
    bt_array *outputs[] = {carry, grads[0], grads[1]}, *got[3];
    bt_function *f = bt_function_new(inputs, 2, outputs, 3, NULL, 0);
    for (int rows = 1; rows < 6; rows++)
        for (int again = 0; again < 2; again++)
            BT_SCOPE {
                bt_array *x = some((uint64_t)rows, BT_SHAPE(rows, 2)), *given[] = {x, F32((2), 1, -1)}, *sum = given[1];
                assert_int_equal(bt_call(f, given, 2, got, 3), BT_OK);
                for (int t = 0; t < rows; t++) {
                    bt_array *row = bt_reshape(bt_slice_axis(x, 0, t, t + 1, 1), 2);
                    float positive;
                    assert_int_equal(bt_read(bt_sum(row, BT_ALL, false), &positive, sizeof positive), BT_OK);
                    sum = bt_add(sum, row);
                    for (int k = 0; k < 3 && positive > 0; k++) sum = bt_mul(sum, two);
                    if (!(positive > 0)) sum = bt_neg(sum);
                }
                bt_array *wanted[2];
                assert_int_equal(bt_grad(bt_sum(bt_mul(sum, sum), BT_ALL, false), given, 2, wanted), BT_OK);
                CLOSE(got[0], sum);
                CLOSE(got[1], wanted[0]);
                CLOSE(got[2], wanted[1]);
            }
}

/* A scan in a scan: the gradient of the inner one needs values of its own steps, and belongs to a body that others share. */
static void inner_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x;
    carry[0] = bt_tanh(bt_mul(carry[0], data));
    y[0] = bt_sin(carry[0]);
}
static void outer_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *rows;
    (void)y;
    (void)bt_scan(inner_step, data, 3, carry, 1, NULL, 0, &rows, 1);
    carry[0] = bt_add(carry[0], bt_mul(x[0], bt_sum(rows, BT_AXES(0), false)));
}

static bt_array *scan_in_scan(bt_array *h, bt_array *xs, bt_array *factor) {
    assert_int_equal(bt_scan(outer_step, factor, BT_ALL_ROWS, &h, 1, &xs, 1, NULL, 0), BT_OK);
    return bt_sum(bt_mul(h, h), BT_ALL, false);
}

static bt_array *scan_in_scan_written_out(bt_array *h, bt_array *xs, bt_array *factor) {
    for (int t = 0; t < 2; t++) {
        bt_array *row = bt_reshape(bt_slice_axis(xs, 0, t, t + 1, 1), WIDTH), *sum = bt_zeros(BT_F32, WIDTH), *y;
        for (int k = 0; k < 3; k++) {
            inner_step(&h, NULL, &y, factor);
            sum = bt_add(sum, y);
        }
        h = bt_add(h, bt_mul(row, sum));
    }
    return bt_sum(bt_mul(h, h), BT_ALL, false);
}

static void scans_in_scans(void **state) {
    for (int computed = 0; computed < 2; computed++)
        BT_SCOPE {
            bt_array *by[] = {some(1, BT_SHAPE(WIDTH)), some(2, BT_SHAPE(2, WIDTH)), some(3, BT_SHAPE(WIDTH))};
            bt_array *loss = scan_in_scan(by[0], by[1], by[2]), *grads[3], *wanted[3];
            if (computed) assert_int_equal(bt_block(loss), BT_OK);
            assert_int_equal(bt_grad(loss, by, 3, grads), BT_OK);
            assert_int_equal(bt_grad(scan_in_scan_written_out(by[0], by[1], by[2]), by, 3, wanted), BT_OK);
            for (int i = 0; i < 3; i++) {
                CLOSE(grads[i], wanted[i]);
                bt_array *second = bt_grad1(bt_sum(bt_mul(grads[i], grads[i]), BT_ALL, false), by[2]);
                CLOSE(bt_mul(bt_num(0.1), second),
                      bt_mul(bt_num(0.1), bt_grad1(bt_sum(bt_mul(wanted[i], wanted[i]), BT_ALL, false), by[2])));
            }
        }
}

/* A gradient that is recorded makes no other function of the same graph store more. */
static void gradients_cost_no_others(void **state) {
    bt_array *h = bt_input(BT_F32, WIDTH), *xs = bt_input(BT_F32, 2, WIDTH), *factor = bt_input(BT_F32, WIDTH);
    bt_array *inputs[] = {h, xs, factor}, *loss = scan_in_scan(h, xs, factor), *grad;
    bt_array *given[] = {some(1, BT_SHAPE(WIDTH)), some(2, BT_SHAPE(2, WIDTH)), some(3, BT_SHAPE(WIDTH))};
    bt_function *before = bt_function_new(inputs, 3, &loss, 1, NULL, 0);
    assert_int_equal(bt_grad(loss, &factor, 1, &grad), BT_OK);
    bt_function *after = bt_function_new(inputs, 3, &loss, 1, NULL, 0);
    bt_cost costs[2] = {BT_COST_INIT, BT_COST_INIT};
    assert_int_equal(bt_function_cost(before, given, NULL, 3, &costs[0]), BT_OK);
    assert_int_equal(bt_function_cost(after, given, NULL, 3, &costs[1]), BT_OK);
    assert_int_equal(costs[0].memory_bytes, costs[1].memory_bytes);
    assert_int_equal(costs[0].bytes_written, costs[1].bytes_written);
}

/* --- what does not run ------------------------------------------------------------------------------------------------------ */

static int calls;
static void count_call(const bt_elements *value, void *data) {
    (void)value, (void)data;
    calls++;
}
static void counted(bt_array *const *args, bt_array **results, void *data) {
    (void)args;
    results[0] = bt_debug_callback(count_call, NULL, bt_mul(data, data));
}
static void uncounted(bt_array *const *args, bt_array **results, void *data) {
    (void)args;
    results[0] = bt_add(data, data);
}

/* Neither way depends on an argument; still only one of them is computed. */
static void only_one_way_runs(void **state) {
    for (int yes = 0; yes < 2; yes++) {
        bt_array *x = F32((2), 3, 4), *result;
        calls = 0;
        assert_int_equal(bt_cond(bt_gt(bt_num(yes), bt_num(0.5)), counted, uncounted, x, NULL, 0, &result, 1), BT_OK);
        CLOSE(result, yes ? F32((2), 9, 16) : F32((2), 6, 8));
        bt_synchronize();
        assert_int_equal(calls, yes);
    }
}

static void first_arg(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_neg(args[0]); }
static void second_arg(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_neg(args[1]); }

static void ways_of_unlike_sizes_are_refused(void **state) {
    bt_array *p = bt_input(BT_BOOL), *a = bt_input(BT_F32, -1), *b = bt_input(BT_F32, -1), *args[] = {a, b};
    bt_array *inputs[] = {p, a, b}, *result;
    assert_int_equal(bt_cond(p, first_arg, second_arg, NULL, args, 2, &result, 1), BT_OK);
    bt_function *f = bt_function_new(inputs, 3, &result, 1, NULL, 0);
    for (int no = 0; no < 2; no++) {
        bt_array *predicate = bt_gt(bt_num(no), bt_num(0.5));
        bt_array *unlike[] = {predicate, bt_ones(BT_F32, 2), bt_ones(BT_F32, 5000)},
                 *like[] = {predicate, vector(), vector()};
        assert_int_equal(bt_block(bt_call1(f, unlike, 3)), BT_INVALID_ARGUMENT);
        CLOSE(bt_call1(f, like, 3), bt_neg(vector()));
    }
}

/* --- numbers ---------------------------------------------------------------------------------------------------------- */

/* The second is made of the first, the third stays a number; y is of the dtype of x. */
static void sum_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    ++*(int *)data;
    y[0] = bt_mul(x[0], carry[2]);
    carry[1] = bt_add(carry[1], carry[0]);
    carry[0] = bt_add(carry[0], x[0]);
    carry[2] = bt_add(carry[2], bt_num(1));
}

static bt_array *below_hundred(bt_array *const *carry, void *data) { return bt_lt(carry[0], bt_num(100)); }
static void add_captured(bt_array **carry, void *data) { carry[0] = bt_add(carry[0], data); }
static void no_change(bt_array **carry, void *data) { (void)carry; }

static void a_number(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_num(0); }
static void their_product(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_mul(args[0], args[1]);
}

static void numbers_take_the_dtype_that_bodies_give(void **state) {
    int called = 0;
    bt_array *xs = F32((3), 1, 2, 3), *carry[] = {bt_num(0), bt_num(0), bt_num(1)}, *ys;
    assert_int_equal(bt_scan(sum_step, &called, BT_ALL_ROWS, carry, 3, &xs, 1, &ys, 1), BT_OK);
    assert_int_equal(bt_dtype_of(carry[0]), BT_F32);
    assert_int_equal(bt_dtype_of(carry[1]), BT_F32);
    assert_int_equal(bt_dtype_of(carry[2]), BT_F64);
    assert_int_equal(bt_dtype_of(ys), BT_F32);
    assert_true(called <= 3);
    CLOSE(carry[0], bt_f32(6));
    CLOSE(carry[1], bt_f32(4));
    CLOSE(carry[2], bt_f32(4));
    CLOSE(ys, F32((3), 1, 4, 9));
    CLOSE(bt_grad1(bt_add(carry[0], bt_mul(carry[1], bt_num(2))), xs), F32((3), 5, 3, 1));
    CLOSE(bt_grad1(bt_sum(ys, BT_ALL, false), xs), F32((3), 1, 2, 3));

    bt_array *one = bt_num(1);
    assert_int_equal(bt_while(below_hundred, add_captured, bt_f32(30), 10, &one, 1), BT_OK);
    assert_int_equal(bt_dtype_of(one), BT_F32);
    CLOSE(one, bt_f32(121));
    one = bt_num(1);
    assert_int_equal(bt_while(below_hundred, no_change, NULL, 3, &one, 1), BT_OK);
    assert_int_equal(bt_dtype_of(one), BT_F64);
    CLOSE(one, bt_f32(1));

    for (int yes = 0; yes < 2; yes++)
        for (int turned = 0; turned < 2; turned++) {
            bt_array *args[] = {bt_f32(3), bt_num(2)}, *result, *predicate = bt_gt(bt_num(yes), bt_num(0.5));
            bt_branch_fn *ways[] = {a_number, their_product};
            assert_int_equal(bt_cond(predicate, ways[turned], ways[!turned], NULL, args, 2, &result, 1), BT_OK);
            assert_int_equal(bt_dtype_of(result), BT_F32);
            CLOSE(result, bt_f32(yes == turned ? 6 : 0));
        }
}

/* --- constants of bodies ------------------------------------------------------------------------------------------------ */

static void power_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = data ? bt_pow(bt_num(1.5), carry[0]) : bt_pow(carry[0], bt_num(2.5));
}

/* carry * base^n, until it exceeds 100, in a loop that counts; then a fiftieth. */
static void multiply_and_count(bt_array **carry, void *base) {
    carry[0] = bt_mul(carry[0], base);
    carry[1] = bt_add(carry[1], bt_i32(1));
}
static void multiply_step(bt_array **carry, bt_array *const *x, bt_array **y, void *base) {
    bt_array *counted[] = {carry[0], bt_i32(0)};
    assert_int_equal(bt_while(below_hundred, multiply_and_count, base, 8, counted, 2), BT_OK);
    carry[0] = bt_div(counted[0], bt_num(50));
}

/* The derivative has parts that are made of them alone: 2.5 - 1, log(1.5). */
static void derivatives_make_more_of_constants(void **state) {
    for (int base = 0; base < 2; base++)
        BT_SCOPE {
            bt_array *x = bt_f32(1.1f), *carry = x, *reversed = x, *wanted = x, *tangent, *wanted_tangent;
            assert_int_equal(bt_scan(power_step, base ? x : NULL, 2, &carry, 1, NULL, 0, NULL, 0), BT_OK);
            assert_int_equal(bt_scan_reverse(power_step, base ? x : NULL, 2, &reversed, 1, NULL, 0, NULL, 0), BT_OK);
            for (int i = 0; i < 2; i++) power_step(&wanted, NULL, NULL, base ? x : NULL);
            bt_array *slope = bt_grad1(carry, x), *wanted_slope = bt_grad1(wanted, x);
            CLOSE(slope, wanted_slope);
            CLOSE(bt_grad1(reversed, x), wanted_slope);
            CLOSE(bt_grad1(slope, x), bt_grad1(wanted_slope, x));
            assert_int_equal(bt_jvp(&carry, 1, &x, &x, 1, &tangent), BT_OK);
            assert_int_equal(bt_jvp(&wanted, 1, &x, &x, 1, &wanted_tangent), BT_OK);
            CLOSE(tangent, wanted_tangent);
        }
    BT_SCOPE {
        bt_array *base = bt_f64(2), *carry = bt_f64(1); /* by 2 seven times, then six, then five times */
        assert_int_equal(bt_scan(multiply_step, base, 3, &carry, 1, NULL, 0, NULL, 0), BT_OK);
        double slope = 0, value = 0;
        assert_int_equal(bt_read(carry, &value, sizeof value), BT_OK);
        bt_array *gradient = bt_grad1(carry, base);
        assert_int_equal(bt_read(gradient, &slope, sizeof slope), BT_OK);
        assert_true(fabs(slope - 18 * value / 2) < 1e-9); /* base^18 / 50^3 */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans_like_written_out),
        cmocka_unit_test(differentiates_after_it_ran),
        cmocka_unit_test(keeps_what_is_stored),
        cmocka_unit_test(second_order),
        cmocka_unit_test(differentiates_what_is_captured),
        cmocka_unit_test(what_is_carried_is_written_over),
        cmocka_unit_test(updates_take_no_memory),
        cmocka_unit_test(rows_read_are_added_one_by_one),
        cmocka_unit_test(loops_while),
        cmocka_unit_test(branches),
        cmocka_unit_test(nests_in_a_function),
        cmocka_unit_test(scans_in_scans),
        cmocka_unit_test(gradients_cost_no_others),
        cmocka_unit_test(only_one_way_runs),
        cmocka_unit_test(ways_of_unlike_sizes_are_refused),
        cmocka_unit_test(numbers_take_the_dtype_that_bodies_give),
        cmocka_unit_test(derivatives_make_more_of_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

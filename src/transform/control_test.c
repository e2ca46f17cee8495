// labels: valgrind
/* Batches and derivatives of loops and branches, beside those of the same work written out. */
#include "ops/ops_test.h"

#define OK(call) expect_ok(call, __LINE__)
enum { STEPS = 4, WIDTH = 3, BATCH = 3, NO = BT_NOT_BATCHED, ARGS = 4 };

static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

static void expect_close(bt_array *x, bt_array *y, const char *what) {
    double worst = 1;
    bt_shape a = bt_shape_of(x), b = bt_shape_of(y);
    assert_true(a.rank == b.rank && !memcmp(a.size, b.size, (size_t)a.rank * sizeof *a.size));
    bt_array *away = bt_max(bt_abs(bt_sub(x, y)), BT_ALL, false);
    if (bt_read(bt_cast(away, BT_F64), &worst, sizeof worst) != BT_OK) fail_msg("%s: %s", what, bt_error_text());
    if (!(worst < 1e-9)) fail_msg("%s: they differ by %g", what, worst);
}

static bt_array *some(uint64_t seed, bt_shape shape) {
    return bt_mul(bt_normal_shape(bt_key((int64_t)seed), BT_F64, shape), bt_num(0.5));
}
static bt_array *total(bt_array *x) { return bt_sum(x, BT_ALL, false); }

/* --- programs of (w [W, W], b [W], xs [T, W], h [W]), each in two ways --------------------------------------------------- */

typedef struct step_data {
    bt_array *w, *b;
} step_data;

static bt_array *larger(bt_array *x) { return bt_lt(bt_num(0), total(x)); }
static void double_it(bt_array *const *args, bt_array **results, void *data) {
    const step_data *s = data;
    results[0] = bt_mul(bt_sin(args[0]), s->b);
    results[1] = args[0];
}
static void keep_it(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_add(args[0], bt_num(1));
    results[1] = bt_zeros_like(args[0]);
}

static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const step_data *s = data;
    carry[0] = bt_tanh(bt_add(bt_add(bt_matmul(carry[0], s->w), x[0]), s->b));
    carry[1] = bt_add(carry[1], bt_i32(1));
    carry[2] = bt_add(carry[2], carry[0]); /* gets an image from another */
    y[0] = bt_mul(carry[0], bt_mul(x[0], bt_cast(carry[1], BT_F64)));
    y[1] = bt_square(carry[2]);
}

static bt_array *scanned(bt_array *const *in, bool reverse, bool looped) {
    step_data s = {in[0], in[1]};
    bt_array *carry[3] = {in[3], bt_i32(0), bt_zeros(BT_F64, WIDTH)}, *ys[2], *rows[2][STEPS];
    if (looped) {
        OK((reverse ? bt_scan_reverse : bt_scan)(step, &s, BT_ALL_ROWS, carry, 3, &in[2], 1, ys, 2));
    } else {
        for (int t = 0; t < STEPS; t++) {
            int row = reverse ? STEPS - 1 - t : t;
            bt_array *x = bt_reshape(bt_slice_axis(in[2], 0, row, row + 1, 1), WIDTH), *y[2];
            step(carry, &x, y, &s);
            rows[0][row] = y[0], rows[1][row] = y[1];
        }
        for (int j = 0; j < 2; j++) ys[j] = bt_stack(rows[j], STEPS, 0);
    }
    bt_array *parts[4] = {carry[0], bt_mul(carry[2], bt_cast(carry[1], BT_F64)),
                          bt_sum(bt_sin(ys[0]), BT_AXES(0), false), bt_sum(ys[1], BT_AXES(0), false)};
    return bt_add_n(parts, 4);
}

static bt_array *scan_program(bt_array *const *in, bool looped) { return scanned(in, false, looped); }
static bt_array *reverse_program(bt_array *const *in, bool looped) { return scanned(in, true, looped); }

/* Until the sum of h is large, which takes another number of steps for each h. */
static bt_array *goes_on(bt_array *const *carry, void *data) {
    return bt_logical_and(bt_lt(total(bt_square(carry[0])), bt_num(4)), bt_lt(carry[1], bt_i32(6)));
}
static void grow(bt_array **carry, void *data) {
    const step_data *s = data;
    carry[0] = bt_add(bt_mul(carry[0], bt_num(1.5)), bt_sin(s->b));
    carry[1] = bt_add(carry[1], bt_i32(1));
}
static bt_array *while_program(bt_array *const *in, bool looped) {
    step_data s = {in[0], in[1]};
    bt_array *carry[2] = {bt_add(in[3], bt_num(0.1)), bt_i32(0)};
    if (looped)
        OK(bt_while(goes_on, grow, &s, 8, carry, 2));
    else
        for (int t = 0; t < 8; t++) {
            bt_array *test = goes_on(carry, NULL), *next[2] = {carry[0], carry[1]};
            grow(next, &s);
            for (int i = 0; i < 2; i++) carry[i] = bt_where(test, next[i], carry[i]);
        }
    return bt_mul(carry[0], bt_cast(carry[1], BT_F64));
}

static bt_array *cond_program(bt_array *const *in, bool looped) {
    step_data s = {in[0], in[1]};
    bt_array *predicate = larger(in[3]), *x = bt_mul(in[3], bt_sum(in[2], BT_AXES(0), false)), *yes[2], *no[2];
    if (looped) {
        OK(bt_cond(predicate, double_it, keep_it, &s, &x, 1, yes, 2));
    } else {
        double_it(&x, yes, &s);
        keep_it(&x, no, &s);
        for (int i = 0; i < 2; i++) yes[i] = bt_where(predicate, yes[i], no[i]);
    }
    return bt_add(yes[0], bt_mul(yes[1], yes[1]));
}

/* A branch, by a number that is the same for the whole batch if only h is batched, in a scan. */
static void branching_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *results[2];
    OK(bt_cond(larger(x[0]), double_it, keep_it, data, carry, 1, results, 2));
    carry[0] = bt_add(results[0], bt_mul(results[1], x[0]));
}
static void chosen_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *results[2][2], *both[2];
    double_it(carry, results[0], data);
    keep_it(carry, results[1], data);
    for (int i = 0; i < 2; i++) both[i] = bt_where(larger(x[0]), results[0][i], results[1][i]);
    carry[0] = bt_add(both[0], bt_mul(both[1], x[0]));
}
static bt_array *nested_program(bt_array *const *in, bool looped) {
    step_data s = {in[0], in[1]};
    bt_array *h = in[3];
    OK(bt_scan(looped ? branching_step : chosen_step, &s, BT_ALL_ROWS, &h, 1, &in[2], 1, NULL, 0));
    return h;
}

typedef bt_array *program(bt_array *const *in, bool looped);
static const struct {
    const char *name;
    program *run;
} programs[] = {{"scan", scan_program},
                {"reverse scan", reverse_program},
                {"while", while_program},
                {"cond", cond_program},
                {"cond in a scan", nested_program}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static bt_shape shape_of(int arg) {
    return arg == 0 ? BT_SHAPE(WIDTH, WIDTH) : arg == 2 ? BT_SHAPE(STEPS, WIDTH) : BT_SHAPE(WIDTH);
}

/* --- derivatives ------------------------------------------------------------------------------------------------------ */

static void tangents(void **state) {
    for (int p = 0; p < PROGRAMS; p++)
        for (int wanted = 1; wanted < 1 << ARGS; wanted++)
            BT_SCOPE {
                bt_array *x[ARGS], *xs[ARGS], *us[ARGS], *t[2];
                int count = 0;
                for (int i = 0; i < ARGS; i++) {
                    x[i] = some((uint64_t)(p * 100 + i), shape_of(i));
                    if (wanted >> i & 1)
                        xs[count] = x[i], us[count++] = some((uint64_t)(p * 100 + 50 + i), shape_of(i));
                }
                for (int looped = 0; looped < 2; looped++) {
                    bt_array *y = programs[p].run(x, looped);
                    OK(bt_jvp(&y, 1, xs, us, count, &t[looped]));
                }
                expect_close(t[1], t[0], programs[p].name);
            }
}

static void second_derivatives(void **state) {
    for (int p = 0; p < PROGRAMS; p++)
        BT_SCOPE {
            bt_array *x[ARGS], *us[ARGS], *products[2][ARGS], *third[2], *jacobian[2];
            for (int i = 0; i < ARGS; i++) {
                x[i] = some((uint64_t)(p * 100 + i), shape_of(i));
                us[i] = some((uint64_t)(p * 100 + 50 + i), shape_of(i));
            }
            for (int looped = 0; looped < 2; looped++) {
                bt_array *y = programs[p].run(x, looped), *loss = total(bt_sin(y)), *t;
                OK(bt_hvp(loss, x, us, ARGS, products[looped]));
                OK(bt_jvp(&y, 1, x, us, ARGS, &t));
                third[looped] = bt_grad1(total(bt_square(t)), x[1]);
                jacobian[looped] = bt_jacobian(y, x[3]);
            }
            for (int i = 0; i < ARGS; i++) expect_close(products[1][i], products[0][i], programs[p].name);
            expect_close(third[1], third[0], programs[p].name);
            expect_close(jacobian[1], jacobian[0], programs[p].name);
        }
}

/* --- batches ---------------------------------------------------------------------------------------------------------- */

static bt_function *batch_of(program *run, bool looped, const int *axes, bool gradient) {
    bt_array *in[ARGS];
    for (int i = 0; i < ARGS; i++) in[i] = bt_input_shape(BT_F64, shape_of(i));
    bt_array *y = run(in, looped);
    if (gradient) y = bt_grad1(total(bt_sin(y)), in[3]);
    bt_function *f = bt_vmap(bt_function_new(in, ARGS, &y, 1, NULL, 0), axes, NULL);
    OK(bt_function_status(f));
    return f;
}

static bt_shape with_batch(bt_shape shape) {
    bt_shape wider = {.rank = shape.rank + 1, .size = {BATCH}};
    for (int i = 0; i < shape.rank; i++) wider.size[i + 1] = shape.size[i];
    return wider;
}

static void batches(void **state) {
    for (int p = 0; p < PROGRAMS; p++)
        for (int batched = 1; batched < 1 << ARGS; batched++)
            for (int gradient = 0; gradient < 2; gradient++)
                BT_SCOPE {
                    bt_array *x[ARGS], *y[2];
                    int axes[ARGS];
                    for (int i = 0; i < ARGS; i++) {
                        axes[i] = batched >> i & 1 ? 0 : NO;
                        x[i] = some((uint64_t)(p * 100 + i), axes[i] == NO ? shape_of(i) : with_batch(shape_of(i)));
                    }
                    for (int looped = 0; looped < 2; looped++)
                        OK(bt_call(batch_of(programs[p].run, looped, axes, gradient), x, ARGS, &y[looped], 1));
                    expect_close(y[1], y[0], programs[p].name);
                }
}

static void batches_of_batches(void **state) {
    for (int p = 0; p < PROGRAMS; p++)
        BT_SCOPE {
            bt_array *x[ARGS], *y[2];
            for (int i = 0; i < ARGS; i++)
                x[i] = some((uint64_t)(p * 100 + i), i < 2 ? shape_of(i) : with_batch(shape_of(i)));
            x[3] = some(9, BT_SHAPE(2, WIDTH));
            for (int looped = 0; looped < 2; looped++) {
                bt_function *f = batch_of(programs[p].run, looped, (const int[]){NO, NO, 0, NO}, false);
                f = bt_vmap(f, (const int[]){NO, NO, NO, 0}, NULL);
                OK(bt_call(f, x, ARGS, &y[looped], 1));
            }
            expect_close(y[1], y[0], programs[p].name);
        }
}

static void empty_batches_end(void **state) {
    BT_SCOPE {
        static const int axes[ARGS] = {NO, NO, NO, 0};
        bt_array *x[ARGS] = {some(1, shape_of(0)), some(2, shape_of(1)), some(3, shape_of(2)),
                             bt_zeros(BT_F64, 0, WIDTH)};
        for (int p = 0; p < PROGRAMS; p++) {
            bt_array *y = bt_call1(batch_of(programs[p].run, true, axes, false), x, ARGS);
            OK(bt_block(y));
            assert_int_equal(bt_size(y, 0), 0);
        }
    }
}

/* --- what elements of a batch do not compute -------------------------------------------------------------------------------- */

static bt_array *is_above_half(bt_array *const *carry, void *data) { return bt_lt(bt_num(0.5), carry[0]); }
static void shrink(bt_array **carry, void *data) { carry[0] = bt_sqrt(bt_sub(carry[0], bt_num(0.3))); }
static void shrink_once(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_sqrt(bt_sub(args[0], bt_num(0.3)));
}
static void leave(bt_array *const *args, bt_array **results, void *data) { results[0] = args[0]; }

static bt_array *shrunk_by_loop(bt_array *x) {
    OK(bt_while(is_above_half, shrink, NULL, 6, &x, 1));
    return x;
}
static bt_array *shrunk_by_branch(bt_array *x) {
    bt_array *y;
    OK(bt_cond(bt_lt(bt_num(0.5), x), shrink_once, leave, NULL, &x, 1, &y, 1));
    return y;
}

/* At 0.3 the derivative of what is not done there is infinite, at 0.1 it is NaN. */
static void what_is_not_taken_gives_no_gradient(void **state) {
    static bt_array *(*const ways[])(bt_array * x) = {shrunk_by_loop, shrunk_by_branch};
    static const double starts[] = {2, 0.3, 0.1, 0.9};
    for (int w = 0; w < 2; w++)
        BT_SCOPE {
            bt_array *in = bt_input(BT_F64, ), *y = ways[w](in), *g = bt_grad1(y, in), *each[4], *got[2];
            bt_array *x = bt_from(starts, BT_F64, BT_SHAPE(4)), *ones = bt_ones_like(x), *tangent;
            for (int i = 0; i < 4; i++) {
                bt_array *one = bt_f64(starts[i]);
                each[i] = bt_grad1(ways[w](one), one);
            }
            bt_array *wanted = bt_stack(each, 4, 0);
            OK(bt_call(bt_vmap(bt_function_new(&in, 1, ((bt_array *[]){y, g}), 2, NULL, 0), NULL, NULL), &x, 1, got,
                       2));
            OK(bt_jvp(got, 1, &x, &ones, 1, &tangent));
            expect_close(got[1], wanted, "a batch of gradients");
            expect_close(bt_grad1(total(got[0]), x), wanted, "the gradient of a batch");
            expect_close(tangent, wanted, "the tangent of a batch");
        }
}

/* --- tests that are computed once per step ------------------------------------------------------------------------------- */

/* What an impure test says, by call: of element 0, of element 1, of element 0... */
static const bool said[] = {1, 1, 1, 0, 1, 1, 0, 1, 1, 1};
static int asked;

static bt_status say_next(const bt_elements *inputs, int count, const bt_elements *outputs,
                          const bt_custom_args *args) {
    *(bool *)outputs->data = asked < (int)sizeof said && said[asked];
    asked++;
    return BT_OK;
}
static bt_status a_bool(const bt_elements *inputs, int count, bt_elements *outputs, const bt_custom_args *args) {
    outputs->dtype = BT_BOOL;
    return BT_OK;
}
static bt_array *asks(bt_array *const *carry, void *data) { return bt_custom_call(data, carry, 1, NULL, 0); }
static void counts(bt_array **carry, void *data) { carry[0] = bt_add(carry[0], bt_num(1)); }

/* An element goes on as long as the one answer of each step says, and is done for good then. */
static void each_test_is_asked_once(void **state) {
    for (int most = 0; most < 4; most += 2)
        BT_SCOPE {
            bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "next", .run = say_next, .shape = a_bool, .impure = true));
            bt_array *x = bt_input(BT_F64, ), *end = x, *starts = bt_zeros(BT_F64, 2), *steps;
            double made[2];
            OK(bt_while(asks, counts, op, most, &end, 1));
            bt_function *f = bt_function_new(&x, 1, &end, 1, NULL, 0), *batch = bt_vmap(f, NULL, NULL);
            asked = 0;
            OK(bt_call(batch, &starts, 1, &steps, 1));
            OK(bt_read(steps, made, sizeof made));
            assert_true(made[0] == (most ? 2 : 3));
            assert_true(made[1] == 1);
            assert_int_equal(asked, most ? 6 : 8);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tangents),
        cmocka_unit_test(second_derivatives),
        cmocka_unit_test(batches),
        cmocka_unit_test(batches_of_batches),
        cmocka_unit_test(empty_batches_end),
        cmocka_unit_test(what_is_not_taken_gives_no_gradient),
        cmocka_unit_test(each_test_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

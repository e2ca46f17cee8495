// labels: valgrind
/* What a step of a loop costs: as much as what it reads and changes, and not as much as the arrays that this is a part of. And that it computes what the steps
 * written out do, with its derivatives. */
#include <stdlib.h>

#include "ops/ops_test.h"

enum { STEPS = 9, COUNT = 40, WIDTH = 4, MANY = 500 };

static bt_array *some(uint64_t seed, bt_shape shape) { return bt_normal_shape(bt_key(seed), BT_F32, shape); }

static void expect_close(bt_array *x, bt_array *y, const char *what) {
    double worst = 1;
    bt_array *away = bt_abs(bt_sub(bt_cast(x, BT_F64), bt_cast(y, BT_F64)));
    away = bt_max(bt_div(away, bt_add(bt_abs(bt_cast(y, BT_F64)), bt_num(1))), BT_ALL, false);
    if (bt_read(away, &worst, sizeof worst) != BT_OK) fail_msg("%s: %s", what, bt_error_text());
    if (!(worst < 2e-5)) fail_msg("%s differs by %g", what, worst);
}

static void expect_done(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}
#define DONE(status) expect_done(status, __LINE__)

/* --- programs --------------------------------------------------------------------------------------------------------- */

/* A loop over rows [steps, WIDTH] of xs. Carried: a row; and, if it is given as `carried`, the table; and the number of the step. */
typedef struct program {
    const char *name;
    bt_scan_fn *body;
    bool carries_table, loops_while;
} program;

typedef struct bodies_data {
    bt_array *table, *xs;
    bt_scan_fn *body;
    int steps;
} bodies_data;

/* carry: row, step, table where it is carried. */
static bt_array *table_of(bt_array **carry, const bodies_data *d) { return d->table ? d->table : carry[2]; }

static void next(bt_array **carry, bt_array *row) {
    carry[0] = bt_add(bt_mul(carry[0], bt_num(0.5)), bt_sin(bt_reshape(row, WIDTH)));
    carry[1] = bt_add(carry[1], bt_i32(1));
}

static void takes(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y;
    next(carry, bt_mul(x[0], bt_take(table_of(carry, data), carry[1], 0)));
}
static void multiplies(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y;
    next(carry, bt_mul(x[0], bt_sum(bt_mul(table_of(carry, data), carry[0]), BT_AXES(0), false)));
}
static void slices(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y;
    next(carry, bt_mul(bt_mul(carry[0], x[0]), bt_slice_axis(table_of(carry, data), 0, 3, 4, 1)));
}
static void slices_parts(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y;
    bt_array *table = table_of(carry, data), *column = bt_slice_axis(table, 1, 1, 2, 1);
    bt_array *corner = bt_slice_axis(bt_slice_axis(table, 0, 7, 9, 1), 1, 0, 2, 1);
    bt_array *row = bt_add(bt_slice_axis(table, 0, 3, 4, 1), bt_slice_axis(table, 0, 4, 3, -1));
    row = bt_mul(row, bt_slice_axis(bt_flip(table, BT_AXES(0)), 0, 5, 6, 1));
    row = bt_mul(row, bt_sum(bt_slice_axis(table, 0, 1, 9, 3), BT_AXES(0), false));
    row = bt_add(row, bt_take(bt_transpose(bt_slice_axis(bt_transpose(table), 1, 2, 9, 1)), bt_i32(2), 0));
    row = bt_mul(row, bt_add(bt_sum(corner, BT_ALL, false), bt_mean(column, BT_ALL, false)));
    next(carry, bt_mul(bt_mul(carry[0], x[0]), row));
}
/* The row that is carried is added up in the table, whose gradient no step changes. */
static void adds_to_table(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)y, (void)data;
    bt_array *row = bt_expand_dims(bt_mul(carry[0], x[0]), 0);
    carry[2] = bt_scatter_add(carry[2], bt_reshape(carry[1], 1), row, 0);
    next(carry, x[0]);
}

static bt_array *goes_on(bt_array *const *carry, void *data) {
    return bt_lt(carry[1], bt_i32(((const bodies_data *)data)->steps));
}
static void while_step(bt_array **carry, void *data) {
    const bodies_data *d = data;
    bt_array *x = bt_take(d->xs, carry[1], 0);
    d->body(carry, &x, NULL, data);
}

/* The sum of what is carried at the end, each part weighted. inputs: row, xs, table. */
static bt_array *loss_of(const program *p, int steps, bt_array *const *inputs, bool written_out) {
    bt_array *carry[3] = {inputs[0], bt_i32(0), inputs[2]};
    int carried = p->carries_table ? 3 : 2;
    bodies_data d = {p->carries_table ? NULL : inputs[2], inputs[1], p->body, steps};
    if (written_out)
        for (int t = 0; t < steps; t++) {
            bt_array *x = bt_reshape(bt_slice_axis(inputs[1], 0, t, t + 1, 1), WIDTH);
            p->body(carry, &x, NULL, &d);
        }
    else if (p->loops_while)
        DONE(bt_while(goes_on, while_step, &d, steps, carry, carried));
    else
        DONE(bt_scan(p->body, &d, BT_ALL_ROWS, carry, carried, &inputs[1], 1, NULL, 0));
    bt_array *loss = bt_sum(bt_mul(carry[0], bt_cos(carry[0])), BT_ALL, false);
    return bt_add(loss, bt_mul(bt_sum(bt_square(carry[2]), BT_ALL, false), bt_num(0.25)));
}

static const program programs[] = {
    {"takes, carried", takes, true, false},
    {"takes", takes, false, false},
    {"takes, carried by a while", takes, true, true},
    {"multiplies, carried", multiplies, true, false},
    {"slices, carried", slices, true, false},
    {"slices", slices, false, false},
    {"slices parts, carried", slices_parts, true, false},
    {"slices parts", slices_parts, false, false},
    {"slices parts, in a while", slices_parts, false, true},
    {"adds to the table", adds_to_table, true, false},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* --- what they compute ------------------------------------------------------------------------------------------------- */

enum { RESULTS = 8 };

/* The loss, its gradients, its tangent, and products of its Hessian. */
static void derivatives(const program *p, bt_array **inputs, bool written_out, bt_array **results) {
    bt_array *loss = loss_of(p, STEPS, inputs, written_out), *along[3];
    for (int i = 0; i < 3; i++) along[i] = some(11 + (uint64_t)i, bt_shape_of(inputs[i]));
    results[0] = loss;
    DONE(bt_grad(loss, inputs, 3, &results[1]));
    DONE(bt_jvp(&loss, 1, inputs, along, 3, &results[4]));
    DONE(bt_hvp(loss, inputs, along, 3, &results[5]));
}

static void place_inputs(bt_array **inputs) {
    inputs[0] = some(1, BT_SHAPE(WIDTH));
    inputs[1] = some(2, BT_SHAPE(STEPS, WIDTH));
    inputs[2] = some(3, BT_SHAPE(COUNT, WIDTH));
}

static void steps_as_written_out(void **state) {
    for (int n = 0; n < PROGRAMS; n++)
        BT_SCOPE {
            bt_array *inputs[3], *got[RESULTS], *wanted[RESULTS];
            place_inputs(inputs);
            derivatives(&programs[n], inputs, false, got);
            derivatives(&programs[n], inputs, true, wanted);
            for (int r = 0; r < RESULTS; r++) expect_close(got[r], wanted[r], programs[n].name);
        }
}

static void in_batches_as_one_by_one(void **state) {
    for (int n = 0; n < PROGRAMS; n++)
        BT_SCOPE {
            bt_array *symbols[3] = {bt_input(BT_F32, WIDTH), bt_input(BT_F32, STEPS, WIDTH),
                                    bt_input(BT_F32, COUNT, WIDTH)};
            bt_array *results[4], *inputs[3], *stacks[3], *got[4], *wanted[4];
            results[0] = loss_of(&programs[n], STEPS, symbols, false);
            DONE(bt_grad(results[0], symbols, 3, &results[1]));
            bt_function *f = bt_function_new(symbols, 3, results, 4, NULL, 0);
            place_inputs(inputs);
            for (int i = 0; i < 3; i++) stacks[i] = bt_stack(ALL(inputs[i], bt_mul(inputs[i], bt_num(0.5))), 2, 0);
            DONE(bt_call(bt_vmap(f, NULL, NULL), stacks, 3, got, 4));
            for (int row = 0; row < 2; row++) {
                for (int i = 0; i < 3; i++) inputs[i] = bt_take(stacks[i], bt_i32(row), 0);
                DONE(bt_call(f, inputs, 3, wanted, 4));
                for (int r = 0; r < 4; r++) expect_close(bt_take(got[r], bt_i32(row), 0), wanted[r], programs[n].name);
            }
        }
}

/* --- what they cost --------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(bt_array **inputs, bt_array *result, int64_t *memory) {
    bt_function *f = bt_function_new(inputs, 3, &result, 1, NULL, 0);
    bt_cost cost = BT_COST_INIT;
    bt_array *given[3] = {some(1, bt_shape_of(inputs[0])), some(2, bt_shape_of(inputs[1])),
                          some(3, bt_shape_of(inputs[2]))};
    DONE(bt_eval_all(given, 3));
    DONE(bt_function_cost(f, given, NULL, 3, &cost));
    *memory = cost.memory_bytes;
    return cost.bytes_read + cost.bytes_written;
}

/* Each step reads a few rows of a table of MANY: all steps together move as much as few tables, not one in each step. */
static void steps_move_what_they_change(void **state) {
    const int64_t table = MANY * WIDTH * 4;
    for (int n = 0; n < PROGRAMS; n++)
        BT_SCOPE {
            bool all = programs[n].body == multiplies || programs[n].body == slices_parts || programs[n].loops_while;
            bt_array *symbols[3] = {bt_input(BT_F32, WIDTH), bt_input(BT_F32, MANY, WIDTH),
                                    bt_input(BT_F32, MANY, WIDTH)};
            int64_t memory;
            if (all) continue;
            bt_array *loss = loss_of(&programs[n], MANY, symbols, false);
            int64_t bytes = bytes_of(symbols, loss, &memory);
            if (bytes > 20 * table) fail_msg("%s: %lld bytes", programs[n].name, (long long)bytes);
            bytes = bytes_of(symbols, bt_grad1(loss, symbols[2]), &memory);
            if (bytes > 80 * table) fail_msg("gradient of %s: %lld bytes", programs[n].name, (long long)bytes);
        }
}

static void does_nothing(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)carry, (void)x, (void)y, (void)data;
}
static bt_array *is_negative(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(bt_sum(carry[0], BT_ALL, false), bt_num(0));
}
static void stays(bt_array **carry, void *data) { (void)carry, (void)data; }

static void loops_that_change_nothing(void **state) {
    bt_array *given[2] = {vector(), matrix()}, *carry[2] = {given[0], given[1]}, *y;
    DONE(bt_scan(does_nothing, NULL, 5, carry, 2, NULL, 0, NULL, 0));
    for (int i = 0; i < 2; i++) expect_close(carry[i], given[i], "a scan that changes nothing");
    DONE(bt_while(is_negative, stays, NULL, 3, carry, 2));
    for (int i = 0; i < 2; i++) expect_close(carry[i], given[i], "a loop that changes nothing");
    bt_array *loss = bt_sum(bt_square(carry[0]), BT_ALL, false);
    DONE(bt_grad(loss, given, 1, &y));
    expect_close(y, bt_mul(given[0], bt_num(2)), "its gradient");
}

/* --- rows of views ------------------------------------------------------------------------------------------------------ */

enum { HEIGHT = 3 };

/* [steps, HEIGHT, WIDTH] made of an array, which is of `size` to begin with; a size of 0 is the number of steps, -1 twice that. */
typedef struct view {
    const char *name;
    bt_array *(*of)(bt_array *x, int steps);
    int size[3];
    bool is_copied; /* the planner makes it dense */
} view;

static bt_array *as_it_is(bt_array *x, int steps) { return x; }
static bt_array *repeated(bt_array *x, int steps) { return bt_broadcast_to(x, steps, HEIGHT, WIDTH); }
static bt_array *constant(bt_array *x, int steps) { return bt_full(2, BT_F32, steps, HEIGHT, WIDTH); }
static bt_array *numbers(bt_array *x, int steps) {
    return repeated(bt_reshape(bt_arange(0, steps, 1, BT_F32), steps, 1, 1), steps);
}
static bt_array *batch_first(bt_array *x, int steps) { return bt_permute(x, 1, 0, 2); }
static bt_array *turned(bt_array *x, int steps) { return bt_permute(x, 2, 1, 0); }
static bt_array *backwards(bt_array *x, int steps) { return bt_flip(x, BT_AXES(0)); }
static bt_array *rows_backwards(bt_array *x, int steps) { return bt_flip(x, BT_AXES(2)); }
static bt_array *every_second(bt_array *x, int steps) { return bt_slice_axis(x, 0, 1, 2 * steps, 2); }
static bt_array *left_half(bt_array *x, int steps) { return bt_slice_axis(x, 2, 1, 1 + WIDTH, 1); }
static bt_array *one_column(bt_array *x, int steps) { return repeated(bt_slice_axis(x, 2, 3, 4, 1), steps); }

static const view row_views[] = {
    {"dense", as_it_is, {0, HEIGHT, WIDTH}, false},
    {"a row", repeated, {1, HEIGHT, WIDTH}, false},
    {"a row of rows", repeated, {0, 1, WIDTH}, false},
    {"a column of rows", repeated, {0, HEIGHT, 1}, false},
    {"a constant", constant, {1, 1, 1}, false},
    {"numbers", numbers, {1, 1, 1}, false},
    {"batch first", batch_first, {HEIGHT, 0, WIDTH}, false},
    {"turned", turned, {WIDTH, HEIGHT, 0}, true},
    {"backwards", backwards, {0, HEIGHT, WIDTH}, false},
    {"rows backwards", rows_backwards, {0, HEIGHT, WIDTH}, true},
    {"every second", every_second, {-1, HEIGHT, WIDTH}, false},
    {"a part of rows", left_half, {0, HEIGHT, 2 * WIDTH}, false},
    {"a column", one_column, {0, HEIGHT, WIDTH}, false},
};
enum { ROW_VIEWS = sizeof row_views / sizeof *row_views };

static bt_shape shape_of(const view *v, int steps) {
    bt_shape shape = {.rank = 3};
    for (int i = 0; i < 3; i++) shape.size[i] = v->size[i] > 0 ? v->size[i] : v->size[i] ? 2 * steps : steps;
    return shape;
}

static void adds_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_add(bt_mul(carry[0], bt_num(0.5)), bt_sin(x[0]));
}
/* The row in an inner scan, in a product, in sums and in a branch; y is the row. */
static void goes_left(bt_array *const *args, bt_array **results, void *row) { results[0] = bt_mul(args[0], row); }
static void goes_right(bt_array *const *args, bt_array **results, void *row) { results[0] = bt_sub(args[0], row); }
static void uses_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *line = bt_sum(bt_square(x[0]), BT_AXES(1), true), *inner = bt_zeros(BT_F32, WIDTH);
    bt_array *positive = bt_gt(bt_sum(carry[0], BT_ALL, false), bt_num(0));
    DONE(bt_scan(adds_row, NULL, BT_ALL_ROWS, &inner, 1, x, 1, NULL, 0));
    bt_array *h = bt_add(bt_matmul(bt_matmul(x[0], bt_transpose(x[0])), carry[0]), bt_mul(line, inner));
    DONE(bt_cond(positive, goes_left, goes_right, x[0], &h, 1, carry, 1));
    carry[0] = bt_tanh(bt_mul(carry[0], bt_num(0.2)));
    y[0] = x[0];
}

/* What comes out of a scan both ways, and the gradient of x, as a scan or written out. */
static void of_rows(const view *v, bool reverse, bool written_out, bt_array *x, bt_array **results) {
    bt_array *xs = v->of(x, STEPS), *carry = some(5, BT_SHAPE(HEIGHT, WIDTH)), *rows[STEPS], *ys;
    for (int k = 0; k < STEPS && written_out; k++) {
        int t = reverse ? STEPS - 1 - k : k;
        bt_array *row = bt_reshape(bt_slice_axis(xs, 0, t, t + 1, 1), HEIGHT, WIDTH);
        uses_row(&carry, &row, &rows[t], NULL);
    }
    if (written_out)
        ys = bt_stack(rows, STEPS, 0);
    else if (reverse)
        DONE(bt_scan_reverse(uses_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &ys, 1));
    else
        DONE(bt_scan(uses_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, &ys, 1));
    bt_array *loss = bt_add(bt_sum(bt_square(carry), BT_ALL, false), bt_sum(bt_cos(ys), BT_ALL, false));
    results[0] = carry, results[1] = ys;
    DONE(bt_grad(loss, &x, 1, &results[2]));
}

static void rows_of_views(void **state) {
    for (int n = 0; n < 2 * ROW_VIEWS; n++)
        BT_SCOPE {
            const view *v = &row_views[n / 2];
            bt_array *x = some(4, shape_of(v, STEPS)), *got[3], *wanted[3];
            of_rows(v, n % 2, false, x, got);
            of_rows(v, n % 2, true, x, wanted);
            for (int r = 0; r < 3; r++) expect_close(got[r], wanted[r], v->name);
        }
}

/* They are read where they lie. */
static void rows_of_views_take_no_memory(void **state) {
    for (int n = 0; n < ROW_VIEWS; n++)
        BT_SCOPE {
            const view *v = &row_views[n];
            bt_array *x = bt_input_shape(BT_F32, shape_of(v, MANY)), *xs = v->of(x, MANY), *none = NULL;
            bt_array *carry = bt_zeros(BT_F32, HEIGHT, WIDTH);
            bt_shape shape = shape_of(v, MANY);
            bt_cost cost = BT_COST_INIT;
            if (v->is_copied) continue;
            DONE(bt_scan(adds_row, NULL, BT_ALL_ROWS, &carry, 1, &xs, 1, NULL, 0));
            bt_function *f = bt_function_new(&x, 1, &carry, 1, NULL, 0);
            DONE(bt_function_cost(f, &none, &shape, 1, &cost));
            if (cost.memory_bytes >= MANY * HEIGHT * WIDTH * 4)
                fail_msg("%s: %lld bytes", v->name, (long long)cost.memory_bytes);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_as_written_out),
        cmocka_unit_test(in_batches_as_one_by_one),
        cmocka_unit_test(steps_move_what_they_change),
        cmocka_unit_test(loops_that_change_nothing),
        cmocka_unit_test(rows_of_views),
        cmocka_unit_test(rows_of_views_take_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

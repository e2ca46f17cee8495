/* Gradients of scans in scans: what they cost, whatever the depth, and that they are those of the same work written out. */
#include "support/support.h"

#include <math.h>

enum { STEPS = 3, ROWS = 32, DEEPEST = 4, INPUTS = 3 };
#define STATE_BYTES ((size_t)ROWS * ROWS * sizeof(float))

typedef enum nesting { WRITTEN_OUT, LOOPS, STEP_IN_BLOCK, SCAN_IN_BLOCK, ALL_IN_BLOCK, WITH_CALLBACK, FORMS } nesting;
static const char *const names[FORMS] = {"written out",          "loops",
                                         "each step in a block", "each innermost scan in a block",
                                         "all in a block",       "with a callback"};

typedef struct level {
    bt_array *w;
    int depth; /* scans in the body */
    nesting form;
} level;

/* --- the program ------------------------------------------------------------------------------------------------------- */

static bt_array *cell(bt_array *const *args, int count, void *w) {
    return bt_tanh(bt_add(bt_matmul(args[0], w), args[1]));
}
static int told;
static void count_call(const bt_elements *value, void *data) { told++; }

static void step_of(bt_array **carry, bt_array *const *x, bt_array **y, void *data);

/* args: what is carried, then rows for the steps, each with rows for those of the scan in its body. Returns the sum of what is carried at the end and of the rows. */
static bt_array *scan_of(bt_array *const *args, int count, void *data) {
    level *l = data;
    bt_array *carry = args[0], *ys = NULL, *y;
    bool reverse = l->depth & 1;
    if (l->form != WRITTEN_OUT) {
        OK((reverse ? bt_scan_reverse : bt_scan)(step_of, l, BT_ALL_ROWS, &carry, 1, &args[1], 1, &ys, 1));
        return bt_add(carry, bt_sum(ys, BT_AXES(0), false));
    }
    for (int t = 0; t < STEPS; t++) {
        int row = reverse ? STEPS - 1 - t : t;
        bt_array *x = bt_squeeze(bt_slice_axis(args[1], 0, row, row + 1, 1), 0);
        step_of(&carry, &x, &y, l);
        ys = ys ? bt_add(ys, y) : y;
    }
    return bt_add(carry, ys);
}

static void step_of(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const level *l = data;
    bt_array *args[2] = {carry[0], x[0]}, *h;
    level inner = {l->w, l->depth - 1, l->form};
    if (!l->depth)
        h = l->form == STEP_IN_BLOCK ? bt_checkpoint(cell, l->w, args, 2) : cell(args, 2, l->w);
    else if (l->depth == 1 && l->form == SCAN_IN_BLOCK)
        h = bt_checkpoint(scan_of, &inner, args, 2);
    else
        h = scan_of(args, 2, &inner);
    if (!l->depth && l->form == WITH_CALLBACK) h = bt_debug_callback(count_call, NULL, h);
    carry[0] = bt_mul(h, bt_num(0.5));
    y[0] = bt_mul(carry[0], l->depth ? bt_num(0.2) : x[0]);
}

/* in: what is carried first, w, rows */
static bt_array *program(nesting form, int depth, bt_array *const *in) {
    level l = {in[1], depth - 1, form};
    bt_array *args[2] = {in[0], in[2]};
    bt_array *h = form == ALL_IN_BLOCK ? bt_checkpoint(scan_of, &l, args, 2) : scan_of(args, 2, &l);
    return bt_mean(bt_mul(h, h), BT_ALL, false);
}

static bt_shape shape_of_rows(int depth, int rows) {
    bt_shape shape = {.rank = depth + 2};
    for (int i = 0; i < depth; i++) shape.size[i] = STEPS;
    shape.size[depth] = shape.size[depth + 1] = rows;
    return shape;
}

static void make_arguments(int depth, int rows, bt_array **args) {
    args[0] = bt_normal(bt_key(1), BT_F32, rows, rows);
    args[1] = bt_mul(bt_normal(bt_key(2), BT_F32, rows, rows), bt_num(1 / sqrt(rows)));
    args[2] = bt_normal_shape(bt_key(3), BT_F32, shape_of_rows(depth, rows));
    OK(bt_eval_all(args, INPUTS));
}

/* --- what it costs ----------------------------------------------------------------------------------------------------- */

/* The gradients by what is carried first and by w as a function: products in those of a forward pass, of which the gradient itself takes two, and memory in states. */
typedef struct figures {
    double passes, states;
} figures;

static figures figures_of(nesting form, int depth) {
    bt_array *in[INPUTS], *args[INPUTS], *grads[2];
    make_arguments(depth, ROWS, args);
    in[0] = bt_input(BT_F32, ROWS, ROWS);
    in[1] = bt_input(BT_F32, ROWS, ROWS);
    in[2] = bt_input_shape(BT_F32, shape_of_rows(depth, ROWS));
    OK(bt_grad(program(form, depth, in), in, 2, grads));
    bt_function *f = bt_function_new(in, INPUTS, grads, 2, NULL, 0);
    bt_cost cost = BT_COST_INIT;
    OK(bt_function_cost(f, args, NULL, INPUTS, &cost));
    told = 0;
    OK(bt_call(f, args, INPUTS, grads, 2));
    OK(bt_block(grads[0]));
    bt_synchronize();
    assert_int_equal(told, form == WITH_CALLBACK ? (int)pow(STEPS, depth) : 0); /* not where it is computed again */
    double states = (double)cost.memory_bytes / STATE_BYTES;
    return (figures){cost.operations / (2. * ROWS * ROWS * ROWS * pow(STEPS, depth)), states};
}

static void expect_passes(nesting form, int depth, int passes) {
    BT_SCOPE {
        figures f = figures_of(form, depth);
        print_message("%d scans, %s: %.2f passes, memory for %.0f states\n", depth, names[form], f.passes, f.states);
        if (fabs(f.passes - passes) > 0.5) fail_msg("%d scans, %s: %d passes expected", depth, names[form], passes);
    }
}

/* A gradient computes the forward pass once more, not once for each scan around the steps; blocks in the bodies add theirs. */
static void one_more_forward_pass(void **state) {
    fresh("");
    expect_passes(LOOPS, 1, 3);
    for (int depth = 2; depth <= DEEPEST; depth++) {
        expect_passes(LOOPS, depth, 4);
        expect_passes(STEP_IN_BLOCK, depth, 5);
        expect_passes(SCAN_IN_BLOCK, depth, depth == 2 ? 4 : 5);
        expect_passes(ALL_IN_BLOCK, depth, 4);
        expect_passes(WITH_CALLBACK, depth, 4);
    }
}

/* The memory is not that of all steps together: what the outermost steps store, and what the scan in one of them does. */
static void memory_of_some_steps(void **state) {
    fresh("");
    BT_SCOPE {
        double loops = figures_of(LOOPS, DEEPEST).states, written_out = figures_of(WRITTEN_OUT, DEEPEST).states;
        double most = 4 * (STEPS + pow(STEPS, DEEPEST - 1)) + 16;
        if (loops > most || loops > written_out) fail_msg("%g states, %g written out", loops, written_out);
    }
}

/* --- that it is right ---------------------------------------------------------------------------------------------------- */

static void expect_near(bt_array *got, bt_array *wanted, const char *what) {
    double difference, largest;
    OK(bt_read(bt_cast(bt_max(bt_abs(bt_sub(got, wanted)), BT_ALL, false), BT_F64), &difference, sizeof difference));
    OK(bt_read(bt_cast(bt_max(bt_abs(wanted), BT_ALL, false), BT_F64), &largest, sizeof largest));
    if (!(difference <= 2e-4 * largest)) fail_msg("%s: differs by %g of %g", what, difference, largest);
}

enum { SIDE = 5, RESULTS = INPUTS + 1 };
typedef enum manner { PENDING, COMPUTED_FIRST, IN_FUNCTION, MANNERS } manner;

/* The gradients by all inputs; and that of the squares of the one by w, by w. */
static void gradients(nesting form, int depth, manner how, bt_array **args, bt_array **results) {
    bt_array *in[INPUTS] = {args[0], args[1], args[2]};
    if (how == IN_FUNCTION) {
        in[0] = bt_input(BT_F32, -1, -1);
        in[1] = bt_input(BT_F32, SIDE, SIDE);
        bt_shape unknown = shape_of_rows(depth, SIDE);
        for (int i = 0; i < depth; i++) unknown.size[i] = -1;
        in[2] = bt_input_shape(BT_F32, unknown);
    }
    bt_array *loss = program(form, depth, in);
    if (how == COMPUTED_FIRST) OK(bt_block(loss));
    OK(bt_grad(loss, in, INPUTS, results));
    results[INPUTS] = bt_grad1(bt_sum(bt_mul(results[1], results[1]), BT_ALL, false), in[1]);
    if (how == IN_FUNCTION)
        OK(bt_call(bt_function_new(in, INPUTS, results, RESULTS, NULL, 0), args, INPUTS, results, RESULTS));
}

/* Whether first-order gradients have the same bits, however they came about. */
static void expect_bits(bt_array *const *got, bt_array *const *wanted, const char *what) {
    for (int i = 0; i < INPUTS; i++) {
        bt_array *same = bt_all(bt_eq(bt_bitcast(got[i], BT_I32), bt_bitcast(wanted[i], BT_I32)), BT_ALL, false);
        bool all;
        OK(bt_read(same, &all, sizeof all));
        if (!all) fail_msg("%s: gradient %d has other bits", what, i);
    }
}

static void as_written_out(const char *settings) {
    fresh(settings);
    for (int depth = 1; depth <= 3; depth++)
        BT_SCOPE {
            bt_array *args[INPUTS], *wanted[RESULTS], *got[MANNERS][RESULTS];
            make_arguments(depth, SIDE, args);
            gradients(WRITTEN_OUT, depth, PENDING, args, wanted);
            for (nesting form = LOOPS; form < FORMS; form++)
                for (manner how = PENDING; how < MANNERS; how++) {
                    gradients(form, depth, how, args, got[how]);
                    for (int i = 0; i < RESULTS; i++) expect_near(got[how][i], wanted[i], names[form]);
                    expect_bits(got[how], got[PENDING], names[form]);
                }
        }
}
static void gradients_as_written_out(void **state) { as_written_out(""); }
static void gradients_as_written_out_on_a_gpu(void **state) { as_written_out("devices=sim:gpu*1,memory_fill=on"); }
static void gradients_as_written_out_not_fused(void **state) { as_written_out("fuse=0"); }

/* A body calls one function twice with the same arguments, and uses another result of each call: two scans that differ in what they store. */
static void step_of_function(bt_array **carry, bt_array *const *x, bt_array **y, void *w) {
    y[0] = bt_sin(bt_matmul(carry[0], w));
    carry[0] = bt_tanh(bt_mul(carry[0], w));
}
static bt_function *function_of_scan(void) {
    bt_array *in[2] = {bt_input(BT_F32, SIDE, SIDE), bt_input(BT_F32, SIDE, SIDE)}, *out[2] = {in[0]};
    OK(bt_scan(step_of_function, in[1], STEPS, out, 1, NULL, 0, &out[1], 1));
    out[1] = bt_sum(out[1], BT_AXES(0), false);
    return bt_function_new(in, 2, out, 2, NULL, 0);
}
typedef struct calls {
    bt_array *w;
    bt_function *f;
    bool block; /* around the second call */
} calls;
static void step_of_calls(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const calls *c = data;
    bt_array *args[2] = {carry[0], c->w}, *one[2], *other[2];
    OK(bt_call(c->f, args, 2, one, 2));
    if (c->block)
        BT_CHECKPOINT OK(bt_call(c->f, args, 2, other, 2));
    else
        OK(bt_call(c->f, args, 2, other, 2));
    carry[0] = bt_mul(bt_add(other[1], bt_mul(one[0], bt_num(3))), bt_num(0.3));
}
static void outer_step_of_calls(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    OK(bt_scan(step_of_calls, data, STEPS, carry, 1, NULL, 0, NULL, 0));
}

static void scans_that_are_equal(void **state) {
    fresh("");
    for (int block = 0; block < 2; block++)
        BT_SCOPE {
            bt_array *args[INPUTS], *h, *got[2], *wanted[2];
            make_arguments(1, SIDE, args);
            calls c = {args[1], function_of_scan(), block};
            h = args[0];
            for (int t = 0; t < STEPS * STEPS; t++) step_of_calls(&h, NULL, NULL, &c);
            OK(bt_grad(bt_sum(h, BT_ALL, false), args, 2, wanted));
            h = args[0];
            OK(bt_scan(outer_step_of_calls, &c, STEPS, &h, 1, NULL, 0, NULL, 0));
            OK(bt_block(h));
            OK(bt_grad(bt_sum(h, BT_ALL, false), args, 2, got));
            for (int i = 0; i < 2; i++) expect_near(got[i], wanted[i], "equal scans");
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_forward_pass),
        cmocka_unit_test(memory_of_some_steps),
        cmocka_unit_test(scans_that_are_equal),
        cmocka_unit_test(gradients_as_written_out),
        cmocka_unit_test(gradients_as_written_out_on_a_gpu),
        cmocka_unit_test(gradients_as_written_out_not_fused),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

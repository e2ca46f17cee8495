/* Loops that are operations: a recurrent layer forward, and with its gradients; what one step of a scan and of a while costs. */
#include "cli/bench_loops.h"

#include "cli/bench_calls.h"
#include "cli/bench_inputs.h"

/* --- a GRU ------------------------------------------------------------------------------------------------------------ */

enum {
    GRU_STEPS = 256,
    GRU_BATCH = 64,
    GRU_INPUT = 128,
    GRU_HIDDEN = 256,
    GRU_GATES = 3 * GRU_HIDDEN,
    GRU_ARGUMENTS = 5
};

/* What each step shares. */
typedef struct gru_cell {
    bt_array *weight, *bias; /* [hidden, gates], [gates] */
} gru_cell;

/* h = n + z * (h - n) where r and z = sigmoid(x + h), n = tanh(x + r * h), each of its own third. x: [batch, gates], a row of what the inputs
 * give to all gates. */
static void gru_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const gru_cell *cell = data;
    bt_array *from_x[3], *from_h[3], *h = bt_add(bt_matmul(carry[0], cell->weight), cell->bias);
    if (bt_split_axis(x[0], 1, NULL, 3, from_x) != BT_OK || bt_split_axis(h, 1, NULL, 3, from_h) != BT_OK) return;
    bt_array *r = bt_sigmoid(bt_add(from_x[0], from_h[0])), *z = bt_sigmoid(bt_add(from_x[1], from_h[1]));
    bt_array *n = bt_tanh(bt_add(from_x[2], bt_mul(r, from_h[2])));
    carry[0] = y[0] = bt_add(n, bt_mul(z, bt_sub(carry[0], n)));
}

/* arguments: x [steps, batch, input], weight and bias of the inputs, weight and bias of what is carried. [steps, batch, hidden] */
static bt_array *gru_rows(bt_array *const *arguments) {
    bt_array *inputs = bt_reshape(arguments[0], GRU_STEPS * GRU_BATCH, GRU_INPUT), *rows;
    bt_array *gates =
        bt_reshape(bt_add(bt_matmul(inputs, arguments[1]), arguments[2]), GRU_STEPS, GRU_BATCH, GRU_GATES);
    bt_array *h = bt_zeros(BT_F32, GRU_BATCH, GRU_HIDDEN);
    gru_cell cell = {arguments[3], arguments[4]};
    (void)bt_scan(gru_step, &cell, BT_ALL_ROWS, &h, 1, &gates, 1, &rows, 1); /* rows is poisoned on an error */
    return rows;
}

/* The function's inputs, and arrays to call it with. */
static void make_gru_arguments(bench_work *work, bt_array **inputs) {
    static const int64_t sizes[2] = {GRU_INPUT, GRU_HIDDEN};
    const float range = 0.0625f; /* 1 / sqrt(hidden) */
    inputs[0] = bt_input(BT_F32, GRU_STEPS, GRU_BATCH, GRU_INPUT);
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(GRU_STEPS, GRU_BATCH, GRU_INPUT));
    for (uint32_t i = 0; i < 2; i++) {
        inputs[2 * i + 1] = bt_input(BT_F32, sizes[i], GRU_GATES);
        inputs[2 * i + 2] = bt_input(BT_F32, GRU_GATES);
        work->inputs[2 * i + 1] = bench_floats(10 + 2 * i, -range, range, BT_SHAPE(sizes[i], GRU_GATES));
        work->inputs[2 * i + 2] = bench_floats(11 + 2 * i, -range, range, BT_SHAPE(GRU_GATES));
    }
}

static bool prepare_gru_forward(bench_work *work) {
    bt_array *inputs[GRU_ARGUMENTS];
    make_gru_arguments(work, inputs);
    bt_array *rows = gru_rows(inputs);
    work->function = bt_function_new(inputs, GRU_ARGUMENTS, &rows, 1, NULL, 0);
    return work->function;
}

static bt_array *run_gru_forward(bench_work *work) { return bt_call1(work->function, work->inputs, GRU_ARGUMENTS); }

/* The sum of the squares of all rows, and its gradient with respect to each argument. */
static bool prepare_gru_step(bench_work *work) {
    bt_array *inputs[GRU_ARGUMENTS], *outputs[1 + GRU_ARGUMENTS];
    make_gru_arguments(work, inputs);
    bt_array *rows = gru_rows(inputs);
    outputs[0] = bt_sum(bt_mul(rows, rows), BT_ALL, false);
    if (bt_grad(outputs[0], inputs, GRU_ARGUMENTS, outputs + 1) != BT_OK) return false;
    work->function = bt_function_new(inputs, GRU_ARGUMENTS, outputs, 1 + GRU_ARGUMENTS, NULL, 0);
    return work->function;
}

static bt_array *run_gru_step(bench_work *work) {
    bt_array *results[1 + GRU_ARGUMENTS];
    return bench_call(work, GRU_ARGUMENTS, results, 1 + GRU_ARGUMENTS);
}

static bt_array *check_gru_step(bench_work *work) { return bench_call_joined(work, GRU_ARGUMENTS, 1 + GRU_ARGUMENTS); }

/* --- steps that do hardly anything -------------------------------------------------------------------------------------- */

enum { SCAN_STEPS = 1000000, WHILE_STEPS = 100000, SCAN_WIDTH = 16 };

static void decay(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y, (void)data;
    carry[0] = bt_add(bt_mul(carry[0], bt_num(0.999)), bt_num(1));
}

static bool prepare_scan_steps(bench_work *work) {
    bt_array *x = bt_input(BT_F32, SCAN_WIDTH), *carry = x;
    if (bt_scan(decay, NULL, SCAN_STEPS, &carry, 1, NULL, 0, NULL, 0) != BT_OK) return false;
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(SCAN_WIDTH));
    work->function = bt_function_new(&x, 1, &carry, 1, NULL, 0);
    return work->function;
}

static bt_array *is_below(bt_array *const *carry, void *data) {
    (void)data;
    return bt_lt(carry[0], bt_num(WHILE_STEPS));
}
static void count_up(bt_array **carry, void *data) {
    (void)data;
    carry[0] = bt_add(carry[0], bt_num(1));
}

static bool prepare_while_steps(bench_work *work) {
    bt_array *x = bt_input_shape(BT_F32, (bt_shape){0}), *carry = x;
    if (bt_while(is_below, count_up, NULL, 0, &carry, 1) != BT_OK) return false;
    work->inputs[0] = bt_f32(0);
    work->function = bt_function_new(&x, 1, &carry, 1, NULL, 0);
    return work->function;
}

static bt_array *run_loop(bench_work *work) { return bt_call1(work->function, work->inputs, 1); }

#define GRU_FLOPS \
    (2.0 * GRU_STEPS * GRU_BATCH * (GRU_INPUT + GRU_HIDDEN) * GRU_GATES) /* of the products of the forward half */
const bench_row bench_loop_rows[BENCH_LOOP_ROWS] = {
    {"gru_forward", "GRU 128-256, batch 64, 256 steps", prepare_gru_forward, run_gru_forward, .flops = GRU_FLOPS},
    {"gru_step", "the same and the gradients of its inputs and weights", prepare_gru_step, run_gru_step, check_gru_step,
     .flops = 3 * GRU_FLOPS},
    {"scan_steps", "a step of a scan that multiplies and adds 16, of 1M", prepare_scan_steps, run_loop,
     .steps = SCAN_STEPS},
    {"while_steps", "a step of a while that counts, of 100k", prepare_while_steps, run_loop, .steps = WHILE_STEPS},
};

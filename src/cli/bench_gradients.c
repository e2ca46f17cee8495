/* What a layer's step of training does besides its products: forward, and the gradients of the sum of its results times d. */
#include "cli/bench_gradients.h"

#include "cli/bench_calls.h"
#include "cli/bench_inputs.h"

enum { ROWS = 8192, COLUMNS = 1024, NORM_INPUTS = 4, NORM_RESULTS = 3 };

static bool make_function(bench_work *work, bt_array **inputs, int count, bt_array *result, int gradients) {
    bt_array *outputs[BENCH_RESULTS], *loss = bt_sum(bt_mul(result, inputs[count - 1]), BT_ALL, false);
    if (bt_grad(loss, inputs, gradients, outputs) != BT_OK) return false;
    work->function = bt_function_new(inputs, count, outputs, gradients, NULL, 0);
    return bt_function_status(work->function) == BT_OK;
}

static bool prepare_layer_norm(bench_work *work) {
    bt_array *inputs[NORM_INPUTS] = {bt_input(BT_F32, ROWS, COLUMNS), bt_input(BT_F32, COLUMNS),
                                     bt_input(BT_F32, COLUMNS), bt_input(BT_F32, ROWS, COLUMNS)};
    work->inputs[0] = bench_floats(1, -4, 4, BT_SHAPE(ROWS, COLUMNS));
    work->inputs[1] = bench_floats(2, 0.5f, 1.5f, BT_SHAPE(COLUMNS));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(COLUMNS));
    work->inputs[3] = bench_floats(4, -1, 1, BT_SHAPE(ROWS, COLUMNS));
    return make_function(work, inputs, NORM_INPUTS, bt_layer_norm(inputs[0], inputs[1], inputs[2], 1e-5), NORM_RESULTS);
}

static bt_array *run_layer_norm(bench_work *work) {
    bt_array *results[NORM_RESULTS];
    return bench_call(work, NORM_INPUTS, results, NORM_RESULTS);
}

static bt_array *check_layer_norm(bench_work *work) { return bench_call_joined(work, NORM_INPUTS, NORM_RESULTS); }

static bool prepare_softmax(bench_work *work) {
    bt_array *inputs[2] = {bt_input(BT_F32, ROWS, COLUMNS), bt_input(BT_F32, ROWS, COLUMNS)};
    work->inputs[0] = bench_floats(1, -4, 4, BT_SHAPE(ROWS, COLUMNS));
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(ROWS, COLUMNS));
    return make_function(work, inputs, 2, bt_softmax(inputs[0], -1), 1);
}

static bt_array *run_softmax(bench_work *work) { return bt_call1(work->function, work->inputs, 2); }
static bt_array *check_softmax(bench_work *work) { return bench_call_joined(work, 2, 1); }

#define F32S(count) (4.0 * (count))

const bench_row bench_gradient_rows[BENCH_GRADIENT_ROWS] = {
    {"layer_norm_gradient", "layer norm and the gradients of rows, scale and bias", prepare_layer_norm, run_layer_norm,
     check_layer_norm, .bytes = F32S(3.0 * ROWS * COLUMNS)},
    {"softmax_gradient", "softmax and the gradient of its rows", prepare_softmax, run_softmax, check_softmax,
     .bytes = F32S(3.0 * ROWS * COLUMNS)},
};

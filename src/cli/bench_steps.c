/* Training steps: forward, backward and update as one function. */
#include "cli/bench_steps.h"

#include <math.h>

#include "cli/bench_inputs.h"

enum { SMALL_STEPS = 200, MEDIUM_STEPS = 10, MOST_LAYERS = BENCH_PARAMETERS / 2, CHECKED_STEPS = 5 };

/* Dense layers, with relu except for the last. The loss is the cross-entropy of int32 classes, or, with `squares`, the mean squared error. */
typedef struct network {
    int64_t batch;
    int layers;
    int64_t sizes[MOST_LAYERS + 1];
    bool squares;
    double rate;
    int steps;
} network;

static const network small = {32, 2, {64, 128, 10}, false, 0.1, SMALL_STEPS};
static const network medium = {128, 3, {784, 512, 512, 10}, false, 0.1, MEDIUM_STEPS};
static const network large = {256, 3, {1024, 4096, 4096, 1024}, true, 1, 1};

/* W [in, out] in Glorot's uniform range, b [out] zeros. */
static bt_array *initial_parameter(const network *net, int parameter) {
    int64_t in = net->sizes[parameter / 2], out = net->sizes[parameter / 2 + 1];
    if (parameter % 2) return bt_zeros(BT_F32, out);
    float range = (float)sqrt(6.0 / (double)(in + out));
    return bench_floats(10 + (uint32_t)parameter, -range, range, BT_SHAPE(in, out));
}

static bt_array *loss_of(const network *net, bt_shared *const *parameters, bt_array *x, bt_array *y) {
    bt_array *h = x;
    for (int i = 0; i < net->layers; i++) {
        h = bt_add(bt_matmul(h, bt_value(parameters[2 * i])), bt_value(parameters[2 * i + 1]));
        if (i + 1 < net->layers) h = bt_relu(h);
    }
    return net->squares ? bt_mse(h, y) : bt_cross_entropy(h, y);
}

static bt_function *record_step(const network *net, bt_shared *const *parameters) {
    int count = 2 * net->layers;
    bt_array *x = bt_input(BT_F32, net->batch, net->sizes[0]);
    bt_array *y = net->squares ? bt_input(BT_F32, net->batch, net->sizes[net->layers]) : bt_input(BT_I32, net->batch);
    bt_array *loss = loss_of(net, parameters, x, y), *grads[BENCH_PARAMETERS];
    bt_update updates[BENCH_PARAMETERS];
    if (bt_grad_shared(loss, parameters, count, grads) != BT_OK) return NULL;
    for (int i = 0; i < count; i++)
        updates[i] = (bt_update){parameters[i], bt_sub(bt_value(parameters[i]), bt_mul(grads[i], bt_num(net->rate)))};
    return bt_function_new((bt_array *[]){x, y}, 2, &loss, 1, updates, count);
}

static bool prepare_network(const network *net, bench_work *work) {
    int64_t classes = net->sizes[net->layers];
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(net->batch, net->sizes[0]));
    work->inputs[1] = net->squares ? bench_floats(2, -1, 1, BT_SHAPE(net->batch, classes))
                                   : bench_integers(2, (uint32_t)classes, BT_SHAPE(net->batch));
    for (int i = 0; i < 2 * net->layers; i++)
        if (!(work->parameters[i] = bt_shared_new(initial_parameter(net, i), NULL))) return false;
    work->function = record_step(net, work->parameters);
    return work->function;
}

/* All parameters, flattened and joined. */
static bt_array *join_parameters(const network *net, bench_work *work) {
    bt_array *all[BENCH_PARAMETERS];
    for (int i = 0; i < 2 * net->layers; i++) all[i] = bt_flatten(bt_value(work->parameters[i]), 0);
    return bt_concat(all, 2 * net->layers, 0);
}

/* Waits for the parameters too. Returns the last loss, or the first array that failed; the other losses are let go of, as each holds the
 * parameters of its step, by which it has gradients. */
static bt_array *run_steps(const network *net, bench_work *work, int steps) {
    bt_array *loss = NULL;
    for (int i = 0; i < steps; i++) {
        BT_SCOPE {
            bt_array *next = bt_call1(work->function, work->inputs, 2);
            bool last = i + 1 == steps || bt_eval(next) != BT_OK;
            if (last) loss = bt_keep(next);
        }
        if (loss) break;
    }
    if (bt_block(loss) != BT_OK) return loss;
    for (int i = 0; i < 2 * net->layers; i++) {
        bt_array *parameter = bt_value(work->parameters[i]);
        if (bt_block(parameter) != BT_OK) return parameter;
    }
    return loss;
}

static bt_array *check_steps(const network *net, bench_work *work) {
    bt_array *values[BENCH_PARAMETERS];
    for (int i = 0; i < 2 * net->layers; i++) values[i] = initial_parameter(net, i);
    (void)bt_set_all(work->parameters, values, 2 * net->layers);
    bt_array *loss = run_steps(net, work, CHECKED_STEPS);
    return bt_peek_status(loss) == BT_OK ? join_parameters(net, work) : loss;
}

static bool prepare_small(bench_work *work) { return prepare_network(&small, work); }
static bt_array *run_small(bench_work *work) { return run_steps(&small, work, small.steps); }
static bt_array *check_small(bench_work *work) { return check_steps(&small, work); }
static bool prepare_medium(bench_work *work) { return prepare_network(&medium, work); }
static bt_array *run_medium(bench_work *work) { return run_steps(&medium, work, medium.steps); }
static bt_array *check_medium(bench_work *work) { return check_steps(&medium, work); }
static bool prepare_large(bench_work *work) { return prepare_network(&large, work); }
static bt_array *run_large(bench_work *work) { return run_steps(&large, work, large.steps); }
static bt_array *check_large(bench_work *work) { return check_steps(&large, work); }

const bench_row bench_step_rows[BENCH_STEP_ROWS] = {
    {"step_small", "training step 64-128-10, batch 32", prepare_small, run_small, check_small,
     .flops = 2.0 * 32 * (2 * 64 * 128 + 3 * 128 * 10), .steps = SMALL_STEPS},
    {"step_medium", "training step 784-512-512-10, batch 128", prepare_medium, run_medium, check_medium,
     .flops = 2.0 * 128 * (2 * 784 * 512 + 3 * (512 * 512 + 512 * 10)), .steps = MEDIUM_STEPS},
    {"step_large", "training step 1024-4096-4096-1024, batch 256", prepare_large, run_large, check_large,
     .flops = 2.0 * 256 * (2 * 1024 * 4096 + 3 * (4096 * 4096 + 4096 * 1024))},
};

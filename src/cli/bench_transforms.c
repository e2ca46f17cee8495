/* Functions of one example, batched by bt_vmap. Three of them do the work of other rows: matmul1024, softmax, gather. */
#include "cli/bench_transforms.h"

#include <stddef.h>

#include "cli/bench_inputs.h"

enum {
    MILLION = 1000000,
    SIDE = 1024,
    ROWS = 8192,
    TABLE = 100000,
    WIDTH = 64,
    EXAMPLES = 256,
    HIDDEN = 128,
    CLASSES = 10
};

#define LIST(...) ((bt_array *[]){__VA_ARGS__})
#define AXES(...) ((const int[]){__VA_ARGS__})
enum { NO = BT_NOT_BATCHED };

static bool batch_of(bench_work *work, bt_array **inputs, int count, bt_array *output, const int *in_axes,
                     const int *out_axes) {
    work->function = bt_vmap(bt_function_new(inputs, count, &output, 1, NULL, 0), in_axes, out_axes);
    return bt_function_status(work->function) == BT_OK;
}

static bt_array *run_one(bench_work *work) { return bt_call1(work->function, work->inputs, 1); }
static bt_array *run_two(bench_work *work) { return bt_call1(work->function, work->inputs, 2); }
static bt_array *run_three(bench_work *work) { return bt_call1(work->function, work->inputs, 3); }

/* A matrix times each row of another. */
static bool prepare_matmul_vmap(bench_work *work) {
    bt_array *a = bt_input(BT_F32, SIDE, SIDE), *x = bt_input(BT_F32, SIDE);
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(SIDE, SIDE));
    work->inputs[1] = bench_floats(2, -1, 1, BT_SHAPE(SIDE, SIDE));
    return batch_of(work, LIST(a, x), 2, bt_matmul(a, x), AXES(NO, 0), NULL);
}

static bool prepare_softmax_vmap(bench_work *work) {
    bt_array *x = bt_input(BT_F32, SIDE);
    work->inputs[0] = bench_floats(1, -4, 4, BT_SHAPE(ROWS, SIDE));
    return batch_of(work, &x, 1, bt_softmax(x, -1), NULL, NULL);
}

static bool prepare_gather_vmap(bench_work *work) {
    bt_array *table = bt_input(BT_F32, -1, -1), *index = bt_input(BT_I32);
    work->inputs[0] = bench_floats(1, -1, 1, BT_SHAPE(TABLE, WIDTH));
    work->inputs[1] = bench_integers(2, TABLE, BT_SHAPE(MILLION));
    return batch_of(work, LIST(table, index), 2, bt_take(table, index, 0), AXES(NO, 0), NULL);
}

/* x [64], hidden tanh [128], the sum of the squares of its ten outputs. */
static void make_network_inputs(bench_work *work) {
    work->inputs[0] = bench_floats(1, -0.2f, 0.2f, BT_SHAPE(WIDTH, HIDDEN));
    work->inputs[1] = bench_floats(2, -0.2f, 0.2f, BT_SHAPE(HIDDEN, CLASSES));
    work->inputs[2] = bench_floats(3, -1, 1, BT_SHAPE(EXAMPLES, WIDTH));
}

static bt_array *square_loss(bt_array *w, bt_array *v, bt_array *x) {
    return bt_sum(bt_square(bt_matmul(bt_tanh(bt_matmul(x, w)), v)), BT_ALL, false);
}

/* The squares of the gradients of each example, summed: what clipping them needs. */
static bool prepare_example_gradients(bench_work *work) {
    bt_array *w = bt_input(BT_F32, WIDTH, HIDDEN), *v = bt_input(BT_F32, HIDDEN, CLASSES), *x = bt_input(BT_F32, WIDTH);
    bt_array *grads[2];
    make_network_inputs(work);
    if (bt_grad(square_loss(w, v, x), LIST(w, v), 2, grads) != BT_OK) return false;
    bt_array *squares = bt_add(bt_sum(bt_square(grads[0]), BT_ALL, false), bt_sum(bt_square(grads[1]), BT_ALL, false));
    return batch_of(work, LIST(w, v, x), 3, squares, AXES(NO, NO, 0), NULL);
}

/* The same as one writes it for a batch. */
static bool prepare_by_hand(bench_work *work) {
    bt_array *w = bt_input(BT_F32, WIDTH, HIDDEN), *v = bt_input(BT_F32, HIDDEN, CLASSES);
    bt_array *x = bt_input(BT_F32, EXAMPLES, WIDTH), *hidden = bt_tanh(bt_matmul(x, w));
    make_network_inputs(work);
    bt_array *by_output = bt_mul(bt_matmul(hidden, v), bt_num(2));
    bt_array *slope = bt_sub(bt_num(1), bt_square(hidden));
    bt_array *by_hidden = bt_mul(bt_matmul_t(by_output, v, false, true), slope);
    bt_array *by_v = bt_mul(bt_expand_dims(hidden, 2), bt_expand_dims(by_output, 1));
    bt_array *by_w = bt_mul(bt_expand_dims(x, 2), bt_expand_dims(by_hidden, 1));
    bt_array *squares =
        bt_add(bt_sum(bt_square(by_w), BT_AXES(1, 2), false), bt_sum(bt_square(by_v), BT_AXES(1, 2), false));
    work->function = bt_function_new(LIST(w, v, x), 3, &squares, 1, NULL, 0);
    return bt_function_status(work->function) == BT_OK;
}

/* The Hessian of the batch's loss by the first weights, times these weights. */
static bool prepare_hvp(bench_work *work) {
    bt_array *w = bt_input(BT_F32, WIDTH, HIDDEN), *v = bt_input(BT_F32, HIDDEN, CLASSES);
    bt_array *x = bt_input(BT_F32, EXAMPLES, WIDTH), *product;
    make_network_inputs(work);
    if (bt_hvp(square_loss(w, v, x), &w, &w, 1, &product) != BT_OK) return false;
    work->function = bt_function_new(LIST(w, v, x), 3, &product, 1, NULL, 0);
    return bt_function_status(work->function) == BT_OK;
}

#define PRODUCTS(times) (2.0 * EXAMPLES * (times) * (WIDTH * HIDDEN + HIDDEN * CLASSES))

const bench_row bench_transform_rows[BENCH_TRANSFORM_ROWS] = {
    {"matmul_vmap", "a matrix times each of 1024 vectors, as a batch", prepare_matmul_vmap, run_two,
     .flops = 2.0 * SIDE * SIDE * SIDE},
    {"softmax_vmap", "softmax as a batch of rows", prepare_softmax_vmap, run_one, .bytes = 8.0 * ROWS * SIDE},
    {"gather_vmap", "gather as a batch of indices", prepare_gather_vmap, run_two, .bytes = MILLION * (4 + 8.0 * WIDTH)},
    {"example_gradients", "squares of the gradients of each of 256 examples, 64-128-10", prepare_example_gradients,
     run_three, .bytes = 4.0 * EXAMPLES * (WIDTH + 1)},
    {"example_gradients_by_hand", "the same written for a batch", prepare_by_hand, run_three,
     .bytes = 4.0 * EXAMPLES * (WIDTH + 1)},
    {"hvp", "Hessian-vector product, 64-128-10, batch 256", prepare_hvp, run_three, .flops = PRODUCTS(6)},
};

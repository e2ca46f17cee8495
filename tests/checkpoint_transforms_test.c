/* Checkpoint blocks in what is recorded again: batches and derivatives of functions that have them take less memory too. */
#include "support/support.h"

#include <math.h>

enum { LAYERS = 64, BLOCK = 8, ROWS = 256, WIDTH = 32 };

static bt_array *run_layers(bt_array *const *args, int count, void *data) {
    bt_array *h = args[0];
    (void)count, (void)data;
    for (int i = 0; i < BLOCK; i++) h = bt_tanh(bt_matmul(h, args[1]));
    return h;
}

static bt_array *loss_of_layers(bt_array *x, bt_array *w, bool blocks) {
    for (int i = 0; i < LAYERS / BLOCK; i++) {
        bt_array *args[2] = {x, w};
        x = blocks ? bt_checkpoint(run_layers, NULL, args, 2) : run_layers(args, 2, NULL);
    }
    return bt_mean(bt_square(x), BT_ALL, false);
}

/* The gradient of a batch of losses by the weights. */
static bt_function *gradient_of_batch(bool blocks) {
    bt_array *x = bt_input(BT_F32, ROWS, WIDTH), *w = bt_input(BT_F32, WIDTH, WIDTH),
             *loss = loss_of_layers(x, w, blocks);
    bt_function *one = bt_function_new((bt_array *[]){x, w}, 2, &loss, 1, NULL, 0);
    bt_function *batch = bt_vmap(one, (int[]){0, BT_NOT_BATCHED}, NULL);
    bt_array *in[2] = {bt_input(BT_F32, 2, ROWS, WIDTH), bt_input(BT_F32, WIDTH, WIDTH)};
    bt_array *g = bt_grad1(bt_sum(bt_call1(batch, in, 2), BT_ALL, false), in[1]);
    return bt_function_new(in, 2, &g, 1, NULL, 0);
}

/* That of the losses' derivative in a direction. */
static bt_function *gradient_of_derivative(bool blocks) {
    bt_array *in[2] = {bt_input(BT_F32, 2 * ROWS, WIDTH), bt_input(BT_F32, WIDTH, WIDTH)}, *derivative,
             *direction = bt_mul(in[1], bt_num(0.5)), *loss = loss_of_layers(in[0], in[1], blocks);
    OK(bt_jvp(&loss, 1, &in[1], &direction, 1, &derivative));
    bt_array *g = bt_grad1(derivative, in[1]);
    return bt_function_new(in, 2, &g, 1, NULL, 0);
}

static void transformed(bt_function *(*gradient)(bool blocks), bt_shape shape, double most) {
    bt_cost cost[2] = {BT_COST_INIT, BT_COST_INIT};
    float made[2][WIDTH * WIDTH];
    for (int blocks = 0; blocks < 2; blocks++)
        BT_SCOPE {
            bt_function *f = gradient(blocks);
            bt_array *args[2] = {bt_reshape_to(bt_normal(bt_key(1), BT_F32, 2 * ROWS, WIDTH), shape),
                                 bt_mul(bt_normal(bt_key(2), BT_F32, WIDTH, WIDTH), bt_num(0.2))};
            OK(bt_eval_all(args, 2));
            OK(bt_function_cost(f, args, NULL, 2, &cost[blocks]));
            OK(bt_read(bt_call1(f, args, 2), made[blocks], sizeof made[blocks]));
        }
    assert_true((double)cost[1].memory_bytes < most * (double)cost[0].memory_bytes);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        assert_true(fabsf(made[1][i] - made[0][i]) <= 1e-5f * (1 + fabsf(made[0][i])));
}

static void blocks_of_batches_and_derivatives(void **state) {
    (void)state;
    fresh("");
    transformed(gradient_of_batch, BT_SHAPE(2, ROWS, WIDTH), 0.4);
    transformed(gradient_of_derivative, BT_SHAPE(2 * ROWS, WIDTH), 0.75);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_of_batches_and_derivatives)};
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

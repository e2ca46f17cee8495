// Loops and branches that are operations: a recurrent layer that learns to remember, square roots by Newton's method, a gradient that is
// clipped only when it is too long.
#include <berth.h>
#include <stdio.h>

enum { STEPS = 6, BATCH = 16, HIDDEN = 8, PARAMETERS = 5 };

// --- a GRU by bt_scan ------------------------------------------------------------------------------------------------------------

// One step: h [BATCH, HIDDEN] is carried; x[0] is a row of the inputs, [BATCH, 1]. The weights are read from outside.
static void gru(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *const *w = data, *from_x[3], *from_h[3];
    (void)y;
    bt_split_axis(bt_add(bt_matmul(x[0], w[0]), w[1]), 1, NULL, 3, from_x);
    bt_split_axis(bt_matmul(carry[0], w[2]), 1, NULL, 3, from_h);
    bt_array *r = bt_sigmoid(bt_add(from_x[0], from_h[0])), *z = bt_sigmoid(bt_add(from_x[1], from_h[1]));
    bt_array *n = bt_tanh(bt_add(from_x[2], bt_mul(r, from_h[2])));
    carry[0] = bt_add(n, bt_mul(z, bt_sub(carry[0], n)));
}

// What the layer says after the last row of x [STEPS, BATCH, 1]: [BATCH, 1].
static bt_array *answer(bt_array *x, bt_array **w) {
    bt_array *h = bt_zeros(BT_F32, BATCH, HIDDEN);
    bt_scan(gru, w, BT_ALL_ROWS, &h, 1, &x, 1, NULL, 0);
    return bt_add(bt_matmul(h, w[3]), w[4]);
}

// The mean squared difference from the first row: all others are to be forgotten.
static bt_array *loss_of(bt_array *x, bt_array **w) {
    return bt_mse(answer(x, w), bt_reshape(bt_slice_axis(x, 0, 0, 1, 1), BATCH, 1));
}

static void learn_to_remember(void) {
    bt_shared *parameters[PARAMETERS] = {
        bt_shared_new(bt_normal(bt_key(1), BT_F32, 1, 3 * HIDDEN), NULL),
        bt_shared_new(bt_zeros(BT_F32, 3 * HIDDEN), NULL),
        bt_shared_new(bt_mul(bt_normal(bt_key(2), BT_F32, HIDDEN, 3 * HIDDEN), 0.3), NULL),
        bt_shared_new(bt_mul(bt_normal(bt_key(3), BT_F32, HIDDEN, 1), 0.3), NULL),
        bt_shared_new(bt_zeros(BT_F32, 1), NULL)};
    bt_optimizer *adam = bt_adam(0.03, 0.9, 0.999, 1e-8);
    double first = 0, last = 0;
    for (int i = 0; i < 200; i++)
        BT_SCOPE {
            bt_array *w[PARAMETERS], *grads[PARAMETERS], *x = bt_uniform(bt_key((uint64_t)i), BT_F32, STEPS, BATCH, 1);
            for (int p = 0; p < PARAMETERS; p++) w[p] = bt_value(parameters[p]);
            bt_array *loss = loss_of(x, w);
            bt_grad_shared(loss, parameters, PARAMETERS, grads); // a scan the other way
            if (bt_optimizer_step(adam, parameters, grads, PARAMETERS) != BT_OK) puts(bt_error_text());
            if (i == 0) first = bt_item(loss);
            if (i == 199) last = bt_item(loss);
        }
    printf("the layer remembers: %s\n", last < first / 20 ? "yes" : "no");
}

// --- Newton's method by bt_while ---------------------------------------------------------------------------------------------------

static bt_array *is_far(bt_array *const *carry, void *numbers) {
    return bt_gt(bt_max(bt_abs(bt_sub(bt_mul(carry[0], carry[0]), numbers)), BT_ALL, false), 1e-4);
}
static void closer(bt_array **carry, void *numbers) {
    carry[0] = bt_mul(bt_add(carry[0], bt_div(numbers, carry[0])), 0.5);
    carry[1] = bt_add(carry[1], bt_i32(1));
}

static void roots(void) {
    bt_array *numbers = BT_ARRAY(float, (4), 1, 4, 9, 100), *carry[] = {bt_ones(BT_F32, 4), bt_i32(0)};
    bt_while(is_far, closer, numbers, 20, carry, 2); // at most 20 steps, so there is a gradient
    bt_print(bt_round(carry[0]));
    printf("after %d steps; their derivative 1 / (2 x):\n", (int)bt_item(carry[1]));
    bt_print(bt_div(bt_round(bt_mul(bt_grad1(bt_sum(carry[0]), numbers), 1000)), 1000));
}

// --- a branch by bt_cond -------------------------------------------------------------------------------------------------------------

static void shorten(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_div(args[0], args[1]);
}
static void keep(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = args[0];
}

static void clip(bt_array *gradient) {
    bt_array *length = bt_sqrt(bt_sum(bt_mul(gradient, gradient))), *args[] = {gradient, length}, *clipped;
    bt_cond(bt_gt(length, 1), shorten, keep, NULL, args, 2, &clipped, 1);
    bt_print(clipped);
}

int main(void) {
    BT_SCOPE {
        learn_to_remember();
        roots();
        clip(BT_ARRAY(float, (2), 3, 4));
        clip(BT_ARRAY(float, (2), 0.5, 0.25));
    }
}

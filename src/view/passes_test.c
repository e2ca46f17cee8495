// env: BERTH_FLAGS=devices=sim:gpu*2
/* The plans of some programs after each pass, as they are stored in tests/passes/ (BERTH_RENDER_WRITE=1 writes them anew). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <berth.h>

#include "support/golden_texts.h"

static void expect_passes(const char *name, bt_array *const *arrays, int count) {
    char *explained = bt_explain_as(arrays, count, BT_EXPLAIN_PASSES);
    if (!explained) fail_msg("%s", bt_error_text());
    bti_str text = {0};
    bti_str_add(&text, explained);
    assert_stored("passes", name, &text);
    bti_str_free(&text);
    bt_free(explained);
}

static void a_chain(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 100, 30), *row = bt_ones(BT_F32, 30);
        bt_array *y = bt_tanh(bt_add(bt_mul(bt_exp(x), bt_num(2)), bt_add(row, bt_num(1))));
        expect_passes("chain.txt", &y, 1);
    }
}

static void softmax_of_rows(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *y = bt_softmax(bt_to(bt_ones(BT_F32, 64, 1000), "gpu:0"), 1);
        expect_passes("softmax.txt", &y, 1);
    }
}

/* Loss and gradients of two dense layers. */
static void a_step_of_a_network(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 32, 20), *target = bt_zeros(BT_F32, 32, 10);
        bt_array *p[4] = {bt_ones(BT_F32, 20, 40), bt_zeros(BT_F32, 40), bt_ones(BT_F32, 40, 10), bt_zeros(BT_F32, 10)};
        bt_array *hidden = bt_relu(bt_add(bt_matmul(x, p[0]), p[1]));
        bt_array *error = bt_sub(bt_add(bt_matmul(hidden, p[2]), p[3]), target);
        bt_array *loss = bt_mean(bt_square(error), BT_AXES(0, 1), false), *wanted[5] = {loss};
        assert_int_equal(bt_grad(loss, p, 4, wanted + 1), BT_OK);
        expect_passes("network.txt", wanted, 5);
    }
}

/* Gradients of rows that are normalised fold along rows and along columns. */
static void gradients_of_a_norm(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_to(bt_ones(BT_F32, 512, 256), "gpu:0"), *d = bt_to(bt_ones(BT_F32, 512, 256), "gpu:0");
        bt_array *scale = bt_to(bt_ones(BT_F32, 256), "gpu:0"), *grads[2];
        assert_int_equal(bt_eval_all((bt_array *[]){x, d, scale}, 3), BT_OK);
        bt_array *c = bt_sub(x, bt_mean(x, BT_AXES(1), true)), *v = bt_mean(bt_square(c), BT_AXES(1), true);
        bt_array *y = bt_mul(bt_mul(c, bt_rsqrt(bt_add(v, bt_num(1e-5)))), scale);
        bt_array *loss = bt_sum(bt_mul(y, d), BT_ALL, false), *by[2] = {x, scale};
        assert_int_equal(bt_grad(loss, by, 2, grads), BT_OK);
        expect_passes("norm.txt", grads, 2);
    }
}

/* Two gradients on each of two devices, the larger one last: a bucket each, since together they would outweigh what hides them. */
static void sums_over_devices(void **state) {
    (void)state;
    BT_SCOPE {
        bt_strategy *s = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
        bt_array *sums[2][2], *wanted[4];
        for (int r = 0; r < 2; r++)
            BT_REPLICA(s, r) {
                bt_array *x = bt_ones(BT_F32, 300, 300), *y = bt_matmul(x, bt_full(r + 1, BT_F32, 300, 300));
                sums[0][r] = bt_matmul(bt_tanh(y), x);
                sums[1][r] = y;
            }
        for (int k = 0; k < 2; k++) bt_all_reduce(s, sums[k]);
        for (int r = 0; r < 2; r++)
            BT_REPLICA(s, r)
                for (int k = 0; k < 2; k++) wanted[2 * k + r] = bt_mul(sums[k][r], bt_num(0.5));
        expect_passes("collectives.txt", wanted, 4);
    }
}

static void two_devices(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_to(bt_ones(BT_F32, 8, 6), "gpu:0"), *y = NULL;
        bt_array *half = bt_mul(bt_slice_axis(x, 0, 0, 4, 1), bt_num(0.5));
        BT_ON("gpu:1") y = bt_sum(bt_sqrt(bt_transpose(half)), BT_AXES(0), false);
        bt_array *all[2] = {bt_add(bt_to(y, "gpu:0"), bt_num(1)), y};
        expect_passes("two_devices.txt", all, 2);
    }
}

/* Adam's update of the parameters of two layers. */
static void an_update(void **state) {
    (void)state;
    BT_SCOPE {
        bt_optimizer *adam = bt_adam(0.001, 0.9, 0.999, 1e-8);
        bt_shared *p[4] = {bt_shared_new(bt_ones(BT_F32, 20, 40), NULL), bt_shared_new(bt_zeros(BT_F32, 40), NULL),
                           bt_shared_new(bt_ones(BT_F32, 40, 10), NULL), bt_shared_new(bt_zeros(BT_F32, 10), NULL)};
        bt_array *grads[4], *now[4];
        for (int i = 0; i < 4; i++) grads[i] = bt_ones_like(bt_value(p[i]));
        assert_int_equal(bt_eval_all(grads, 4), BT_OK);
        assert_int_equal(bt_optimizer_step(adam, p, grads, 4), BT_OK);
        for (int i = 0; i < 4; i++) now[i] = bt_value(p[i]);
        expect_passes("update.txt", now, 4);
    }
}

static void add_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    carry[0] = bt_tanh(bt_add(bt_mul(carry[0], bt_num(0.5)), x[0]));
    y[0] = bt_sum(carry[0], BT_ALL, false);
}

/* The passes over a region follow those over the plan. */
static void a_loop(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *carry = bt_zeros(BT_F32, 8), *rows = bt_ones(BT_F32, 10, 8), *sums;
        assert_int_equal(bt_scan(add_row, NULL, BT_ALL_ROWS, &carry, 1, &rows, 1, &sums, 1), BT_OK);
        sums = bt_mul(sums, bt_num(2));
        expect_passes("loop.txt", &sums, 1);
    }
}

/* An even number of words in halves, an odd one as it stands. */
static void random_numbers(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *key = bt_to(bt_key(1), "gpu:0"), *row = bt_to(bt_ones(BT_F32, 3), "gpu:0");
        bt_array *drawn[4] = {bt_uniform(key, BT_F32, 100), bt_uniform(key, BT_F32, 7), bt_uniform(key, BT_F32, 40),
                              bt_mul(bt_uniform(key, BT_F32, 4, 3), row)};
        expect_passes("random.txt", drawn, 4);
    }
}

/* An embedding with its position, normalised, and as it is for a product; a table that is looked up. */
static void gathers(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *table = bt_ones(BT_F32, 500, 64), *numbers = bt_zeros(BT_I32, 40), *places = bt_ones(BT_F32, 40, 64);
        assert_int_equal(bt_eval_all((bt_array *[]){table, numbers, places}, 3), BT_OK);
        bt_array *rows = bt_take(table, numbers, 0), *x = bt_add(rows, places);
        bt_array *all[3] = {bt_sub(x, bt_mean(x, BT_AXES(1), true)), bt_matmul(rows, bt_transpose(places)),
                            bt_mul(bt_take(bt_reshape(table, -1), numbers, 0), bt_num(3))};
        expect_passes("gathers.txt", all, 3);
    }
}

static bt_array *random_on_gpu(int number, bt_shape shape) {
    bt_array *x = bt_to(bt_uniform_shape(bt_key(number), -1, 1, BT_F32, shape), "gpu:0");
    assert_int_equal(bt_eval(x), BT_OK);
    return x;
}

/* Images lie with their channels last from the first convolution to the last; the mean reads a dense copy. */
static void convolutions(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = random_on_gpu(1, BT_SHAPE(2, 3, 12, 12)), *bias = random_on_gpu(2, BT_SHAPE(1, 32, 1, 1));
        bt_array *w[2] = {random_on_gpu(3, BT_SHAPE(32, 3, 3, 3)), random_on_gpu(4, BT_SHAPE(32, 32, 3, 3))};
        bt_array *y = bt_relu(bt_add(bt_conv(x, w[0]), bias));
        y = bt_max_pool(y, .window = {3, 3}, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1});
        y = bt_add(bt_conv(y, w[1], .pad_low = {1, 1}, .pad_high = {1, 1}), y);
        y = bt_mean(y, BT_AXES(2, 3), false);
        expect_passes("convolutions.txt", &y, 1);
    }
}

/* What two convolutions read is turned once; what one makes is dense, as it was asked for. */
static void gradients_of_a_convolution(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = random_on_gpu(1, BT_SHAPE(2, 16, 6, 6)), *d = random_on_gpu(2, BT_SHAPE(2, 32, 4, 4)), *all[3];
        bt_array *w = random_on_gpu(3, BT_SHAPE(32, 16, 3, 3)), *by[2] = {x, w};
        all[0] = bt_conv(x, w);
        assert_int_equal(bt_grad(bt_sum(bt_mul(all[0], d), BT_ALL, false), by, 2, all + 1), BT_OK);
        expect_passes("conv_gradients.txt", all, 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain),
        cmocka_unit_test(softmax_of_rows),
        cmocka_unit_test(a_step_of_a_network),
        cmocka_unit_test(gradients_of_a_norm),
        cmocka_unit_test(two_devices),
        cmocka_unit_test(sums_over_devices),
        cmocka_unit_test(an_update),
        cmocka_unit_test(a_loop),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(gathers),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(gradients_of_a_convolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

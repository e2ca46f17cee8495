// labels: threads
// timeout: 300
/* One program over unlike devices: the CPU, a simulated GPU and, where there is one, OpenCL's. Copies in every direction, policies,
 * one function over all of them, gradients through it, mirrored training. */
#include <math.h>

#include "support/support.h"

static const char *names[4];
static int count;

static void find_devices(void) {
    setenv("POCL_DEVICES", "pthread pthread", 1); /* two of one platform, where PoCL is OpenCL's */
    fresh("devices=sim:gpu*1");
    names[0] = "cpu";
    names[1] = "gpu:0";
    count = 2;
    static const char *const more[] = {"opencl0:0", "opencl0:1"};
    for (int i = 0; i < 2; i++) {
        bt_device *found;
        if (bt_device_find(more[i], &found) == BT_OK)
            names[count++] = more[i];
        else
            print_message("skipped: %s\n", bt_error_text());
    }
    bt_error_clear();
}

static void copies_go_every_way(void **state) {
    find_devices();
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            BT_SCOPE {
                bt_array *x = bt_to(bt_uniform(bt_key(from), BT_F32, 300000), names[from]),
                         *there = bt_to(x, names[to]);
                bt_array *back = bt_to(there, names[from]);
                OK(bt_block(there));
                assert_ptr_equal(bt_device_of(there), device(names[to]));
                assert_int_equal(bt_item(bt_all(bt_eq(bt_cpu(x), bt_cpu(back)), BT_ALL, false)), 1);
                assert_int_equal(bt_item(bt_all(bt_eq(bt_cpu(x), bt_cpu(there)), BT_ALL, false)), 1);
            }
}

static void policies_hold(void **state) {
    find_devices();
    for (int other = 1; other < count; other++)
        BT_SCOPE {
            bt_array *x = bt_to(BT_ARRAY(float, (4), 1, 1, 1, 1), "cpu"), *y = bt_to(x, names[other]);
            READS(bt_add(x, y), 2, 2, 2, 2);
            OK(bt_set_flag("transfers", "error"));
            POISONED(bt_add(x, y), BT_FAILED_PRECONDITION, "CPU:0", bt_device_name(device(names[other])));
            OK(bt_set_flag("transfers", "log"));
            log_forget();
            READS(bt_add(x, y), 2, 2, 2, 2);
            SAYS(log_text(), bt_device_name(device(names[other])));
            OK(bt_set_flag("transfers", "copy"));
        }
}

/* Each device has a part of the work; what they give meets on the CPU. */
static bt_function *over_all(void) {
    bt_array *x = bt_input(BT_F32, -1, 3), *w = bt_input(BT_F32, 3, 2), *parts[4], *sum = NULL;
    for (int i = 0; i < count; i++)
        BT_ON(names[i]) parts[i] = bt_tanh(bt_mul(bt_matmul(x, w), bt_num(0.1 * (i + 1))));
    BT_ON("cpu") sum = bt_sum(bt_add_n(parts, count), BT_AXES(0), false);
    bt_array *inputs[] = {x, w};
    return bt_function_new(inputs, 2, &sum, 1, NULL, 0);
}

static void expect_near(bt_array *got, bt_array *wanted) {
    bt_array *apart = bt_max(bt_abs(bt_sub(bt_cpu(got), bt_cpu(wanted))), BT_ALL, false);
    double most = bt_item(apart);
    if (!(most < 1e-5)) fail_msg("%g apart: %s", most, bt_error_text());
}

static void one_function_over_all(void **state) {
    find_devices();
    BT_SCOPE {
        bt_function *f = over_all();
        for (int rows = 5; rows < 9; rows++)
            BT_SCOPE {
                bt_array *x = bt_normal(bt_key(rows), BT_F32, rows, 3), *w = bt_normal(bt_key(1), BT_F32, 3, 2),
                         *sum = NULL;
                for (int i = 0; i < count; i++) {
                    bt_array *part = bt_tanh(bt_mul(bt_matmul(x, w), bt_num(0.1 * (i + 1))));
                    sum = sum ? bt_add(sum, part) : part;
                }
                sum = bt_sum(sum, BT_AXES(0), false);
                bt_array *got = bt_call1(f, ((bt_array *[]){x, w}), 2);
                assert_string_equal(bt_device_name(bt_device_of(got)), "CPU:0");
                expect_near(got, sum);
                bt_array *own = bt_sum(sum, BT_ALL, false),
                         *called = bt_sum(bt_call1(f, ((bt_array *[]){x, w}), 2), BT_ALL, false);
                bt_array *grads[2] = {NULL, NULL};
                OK(bt_grad(own, &w, 1, &grads[0]));
                OK(bt_grad(called, &w, 1, &grads[1]));
                expect_near(grads[1], grads[0]);
            }
        for (int i = 1; i < count; i++) assert_true(memory(names[i]).copied_in > 0);
    }
}

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mse(bt_apply(model, x), y);
}

static void train(bt_strategy *s, double *losses) {
    bt_layer *model = NULL;
    BT_STRATEGY(s) model = bt_chain(bt_dense(4, 8, bt_tanh, bt_key(1)), bt_dense(8, 1, NULL, bt_key(2)));
    bt_optimizer *optimizer = bt_sgd(0.2);
    bt_array *x = bt_normal(bt_key(3), BT_F32, 50, 4), *y = bt_sum(x, BT_AXES(1), true);
    for (int i = 0; i < 4; i++)
        BT_SCOPE
            losses[i] = bt_item(bt_train_step(s, model, optimizer, loss_of, NULL, x, y));
}

static void mirrored_training(void **state) {
    find_devices();
    BT_SCOPE {
        double one[4], all[4], shares = 0;
        bt_strategy *s = bt_mirrored(names, count);
        train(bt_mirrored(names, 1), one);
        train(s, all);
        for (int i = 0; i < 4; i++)
            if (!(fabs(one[i] - all[i]) <= 1e-5 * one[i])) fail_msg("step %d: %g on one, %g on all", i, one[i], all[i]);
        for (int i = 0; i < count; i++) shares += bt_strategy_share(s, i);
        assert_true(fabs(shares - 1) < 1e-9);
        FAILS(bt_strategy_set_exact(s, true), BT_FAILED_PRECONDITION, "devices of one make");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_go_every_way),
        cmocka_unit_test(policies_hold),
        cmocka_unit_test(one_function_over_all),
        cmocka_unit_test(mirrored_training),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

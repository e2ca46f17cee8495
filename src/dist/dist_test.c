// env: BERTH_FLAGS=devices=sim:gpu*4
// labels: threads
/* One model on several devices: the same as on one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#define F32(shape, ...) BT_ARRAY(float, shape, __VA_ARGS__)
#define OK(call) assert_int_equal(call, BT_OK)

#define READS(x, ...)                                                                                                \
    expect_elements(x, (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), \
                    __LINE__)
static void expect_elements(bt_array *x, const double *expected, int count, int line) {
    double got[64];
    if (bt_count(x) != count) fail_msg("line %d: %lld elements, not %d", line, (long long)bt_count(x), count);
    if (bt_read(bt_cast(x, BT_F64), got, (size_t)count * sizeof *got) != BT_OK)
        fail_msg("line %d: %s", line, bt_error_text());
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-6 * fmax(1, fabs(expected[i]))))
            fail_msg("line %d: element %d is %.9g, not %.9g", line, i, got[i], expected[i]);
}

static void expect_device(bt_array *x, const char *name) { assert_string_equal(bt_device_name(bt_device_of(x)), name); }

static void expect_cause(bt_status status, const char *part, int line) {
    if (bt_error_status() != status || !strstr(bt_error_text(), part))
        fail_msg("line %d: %s \"%s\" does not say \"%s\"", line, bt_status_name(bt_error_status()), bt_error_text(),
                 part);
    bt_error_clear();
}
#define CAUSE(status, part) expect_cause(status, part, __LINE__)
#define POISON(x, status, part)                \
    do {                                       \
        assert_int_equal(bt_block(x), status); \
        CAUSE(status, part);                   \
    } while (0)

/* --- strategies ------------------------------------------------------------------------------------------------------ */

static void strategies(void **state) {
    BT_SCOPE {
        bt_strategy *all = bt_mirrored(NULL, 0), *some = bt_mirrored((const char *[]){"gpu:2", "cuda0", "cpu"}, 3);
        assert_int_equal(bt_strategy_count(all), 4);
        assert_string_equal(bt_device_name(bt_strategy_device(all, 3)), "GPU:3");
        assert_int_equal(bt_strategy_count(some), 3);
        assert_string_equal(bt_device_name(bt_strategy_device(some, 0)), "GPU:2");
        assert_string_equal(bt_device_name(bt_strategy_device(some, 2)), "CPU:0");
        assert_null(bt_strategy_device(some, 3));
        assert_int_not_equal(bt_strategy_status(bt_mirrored((const char *[]){"gpu:0", "gpu:4"}, 2)), BT_OK);
        CAUSE(BT_NOT_FOUND, "gpu:4");
        assert_int_not_equal(bt_strategy_status(bt_mirrored((const char *[]){"gpu:0", "cuda0"}, 2)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "same device, GPU:0");
        assert_int_not_equal(bt_strategy_status(bt_mirrored(NULL, -1)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "-1");
        assert_int_not_equal(bt_strategy_status(bt_mirrored(NULL, 2)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "the list of 2 devices is NULL");
        assert_int_not_equal(bt_strategy_status(bt_mirrored((const char *[]){"gpu:0", NULL}, 2)), BT_OK);
        CAUSE(BT_INVALID_ARGUMENT, "device 1 is NULL");
        bt_all_reduce(all, NULL);
        CAUSE(BT_INVALID_ARGUMENT, "bt_all_reduce: the list of arrays is NULL");
        bt_strategy_release(NULL);
    }
}

static void mirrored_variables(void **state) {
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        bt_shared *w = NULL, *single = bt_shared_new(bt_f32(7), "gpu:1");
        BT_STRATEGY(s) w = bt_shared_new(F32((2), 1, 2), NULL);
        for (int i = 0; i < 4; i++)
            BT_REPLICA(s, i) {
                expect_device(bt_value(w), bt_device_name(bt_strategy_device(s, i)));
                expect_device(bt_add(bt_f32(1), bt_f32(1)), bt_device_name(bt_strategy_device(s, i)));
                READS(bt_value(w), 1, 2);
                READS(bt_value(single), 7);
            }
        expect_device(bt_value(w), "GPU:0");
        BT_REPLICA(s, 2) OK(bt_set(w, F32((2), 3, 4)));
        READS(bt_value(w), 1, 2);
        BT_REPLICA(s, 2) READS(bt_value(w), 3, 4);
        OK(bt_set(w, F32((2), 5, 6))); /* outside: all of them */
        for (int i = 0; i < 4; i++)
            BT_REPLICA(s, i) READS(bt_value(w), 5, 6);
        bt_array *nowhere = NULL;
        BT_REPLICA(s, 4) nowhere = bt_f32(1);
        POISON(nowhere, BT_INVALID_ARGUMENT, "replica 4 of a strategy over 4 devices; it must be in [0, 4)");
        BT_REPLICA(s, -9) nowhere = bt_f32(1);
        POISON(nowhere, BT_INVALID_ARGUMENT, "replica -9");
        BT_REPLICA(NULL, 0) nowhere = bt_f32(1);
        POISON(nowhere, BT_INVALID_ARGUMENT, "the strategy is NULL");
    }
}

static void all_reduce(void **state) {
    BT_SCOPE {
        bt_strategy *s = bt_mirrored((const char *[]){"gpu:3", "gpu:1", "gpu:2"}, 3);
        bt_array *parts[3];
        for (int i = 0; i < 3; i++)
            BT_REPLICA(s, i) parts[i] = F32((2), (float)i, 10);
        bt_all_reduce(s, parts);
        for (int i = 0; i < 3; i++) {
            expect_device(parts[i], bt_device_name(bt_strategy_device(s, i)));
            READS(parts[i], 3, 30);
        }
        parts[1] = F32((3), 1, 2, 3);
        bt_all_reduce(s, parts);
        for (int i = 0; i < 3; i++) POISON(parts[i], BT_INVALID_ARGUMENT, "(3,)");
    }
}

/* By hand what bt_train_step does. */
static void a_step_by_hand(void **state) {
    BT_SCOPE {
        bt_strategy *s = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
        bt_layer *model = NULL;
        BT_STRATEGY(s) model = bt_dense_from(F32((1, 1), 2), F32((1), 0), NULL);
        bt_optimizer *optimizer = bt_momentum(0.1, 0.9);
        bt_shared *p[2];
        bt_parameters(model, p, 2);
        bt_array *grads[2][2];
        for (int step = 0; step < 2; step++) {
            for (int r = 0; r < 2; r++)
                BT_REPLICA(s, r) {
                    bt_array *x = F32((1, 1), (float)r + 1);
                    OK(bt_grad_shared(bt_sum(bt_apply(model, x), BT_ALL, false), p, 2, grads[r]));
                }
            for (int i = 0; i < 2; i++) {
                bt_array *both[2] = {grads[0][i], grads[1][i]};
                bt_all_reduce(s, both);
                for (int r = 0; r < 2; r++) grads[r][i] = both[r];
            }
            for (int r = 0; r < 2; r++)
                BT_REPLICA(s, r) OK(bt_optimizer_step(optimizer, p, grads[r], 2));
        }
        for (int r = 0; r < 2; r++)
            BT_REPLICA(s, r) {
                READS(bt_value(p[0]), 2 - 0.1 * 3 - 0.1 * 1.9 * 3);
                READS(bt_value(p[1]), -0.1 * 2 - 0.1 * 1.9 * 2);
                expect_device(bt_value(p[0]), r ? "GPU:1" : "GPU:0");
            }
    }
}

/* --- training steps -------------------------------------------------------------------------------------------------- */

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    ++*(int *)data;
    return bt_cross_entropy(bt_apply(model, x), y);
}

static bt_layer *make_model(void) {
    return bt_chain(bt_dense(5, 4, bt_tanh, bt_key(1)), bt_dense(4, 3, NULL, bt_key(2)));
}

enum { STEPS = 6, PARAMETERS = 4 };

/* The losses of some steps, and the parameters after them. */
static void train(bt_strategy *s, bt_optimizer *optimizer, int64_t rows, double *losses, double *last, int *calls) {
    bt_layer *model = NULL;
    if (s)
        BT_STRATEGY(s) model = make_model();
    else
        model = make_model();
    bt_array *x = bt_normal(bt_key(3), BT_F32, rows, 5), *y = bt_randint(bt_key(4), 0, 3, BT_I32, rows);
    for (int i = 0; i < STEPS; i++)
        BT_SCOPE {
            bt_array *loss = bt_train_step(s, model, optimizer, loss_of, calls, x, y);
            assert_int_equal(bt_rank(loss), 0);
            if (s) assert_ptr_equal(bt_device_of(loss), bt_strategy_device(s, 0));
            losses[i] = bt_item(loss);
            if (isnan(losses[i])) fail_msg("%s", bt_error_text());
        }
    bt_shared *p[PARAMETERS];
    assert_int_equal(bt_parameters(model, p, PARAMETERS), PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) {
        last[i] = bt_item(bt_sum(bt_square(bt_value(p[i])), BT_ALL, false));
        for (int r = 1; s && r < bt_strategy_count(s); r++)
            BT_SCOPE { /* equal bits on all */
                bt_array *here = bt_cpu(bt_value(p[i])), *there = NULL;
                BT_REPLICA(s, r) there = bt_value(p[i]);
                expect_device(there, bt_device_name(bt_strategy_device(s, r)));
                assert_int_equal(bt_item(bt_all(bt_eq(here, bt_cpu(there)), BT_ALL, false)), 1);
            }
    }
}

static bt_optimizer *new_optimizer(int which) {
    return which == 0 ? bt_sgd(0.5) : which == 1 ? bt_momentum(0.2, 0.9) : bt_adam(0.05, 0.9, 0.999, 1e-8);
}

static void as_on_one_device(void **state) {
    static const int64_t rows[] = {8, 10, 3, 1, 4};
    for (int r = 0; r < 5; r++)
        for (int which = 0; which < 3; which++)
            BT_SCOPE {
                double one[STEPS], four[STEPS], last_one[PARAMETERS], last_four[PARAMETERS];
                int calls_one = 0, calls_four = 0;
                train(NULL, new_optimizer(which), rows[r], one, last_one, &calls_one);
                train(bt_mirrored(NULL, 0), new_optimizer(which), rows[r], four, last_four, &calls_four);
                assert_int_equal(calls_one, STEPS);
                assert_int_equal(calls_four, STEPS * (rows[r] < 4 ? rows[r] : 4)); /* who has no rows takes no part */
                for (int i = 0; i < STEPS; i++)
                    if (!(fabs(one[i] - four[i]) <= 2e-6 * fabs(one[i])))
                        fail_msg("%d rows, step %d: %.9g on one, %.9g on four", (int)rows[r], i, one[i], four[i]);
                for (int i = 0; i < PARAMETERS; i++)
                    assert_true(fabs(last_one[i] - last_four[i]) <= 1e-4 * (1 + last_one[i]));
                assert_true(one[STEPS - 1] < one[0]);
            }
}

static bt_array *not_scalar(bt_layer *model, bt_array *x, bt_array *y, void *data) { return bt_apply(model, x); }
static bt_array *mean_output(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_mean(bt_apply(model, x), BT_ALL, false);
}
static bt_array *no_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) { return NULL; }
static bt_array *of_floors(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_sum(bt_floor_div(bt_apply(model, x), bt_num(2)), BT_ALL, false);
}

static void refused_steps(void **state) {
    BT_SCOPE {
        bt_strategy *strategies_[2] = {NULL, bt_mirrored(NULL, 0)};
        for (int i = 0; i < 2; i++)
            BT_SCOPE {
                bt_strategy *s = strategies_[i];
                bt_layer *model = NULL;
                BT_STRATEGY(s) model = make_model();
                bt_optimizer *o = bt_sgd(0.1);
                bt_array *x = bt_ones(BT_F32, 6, 5), *y = bt_zeros(BT_I32, 6);
                int calls;
                bt_shared *p[PARAMETERS];
                bt_parameters(model, p, PARAMETERS);
                double before = bt_item(bt_sum(bt_value(p[0]), BT_ALL, false));
                POISON(bt_train_step(s, NULL, o, loss_of, &calls, x, y), BT_INVALID_ARGUMENT, "model is NULL");
                POISON(bt_train_step(s, model, NULL, loss_of, &calls, x, y), BT_INVALID_ARGUMENT, "optimiser is NULL");
                POISON(bt_train_step(s, model, o, NULL, &calls, x, y), BT_INVALID_ARGUMENT, "loss is NULL");
                POISON(bt_train_step(s, model, o, loss_of, &calls, NULL, y), BT_INVALID_ARGUMENT, "NULL");
                POISON(bt_train_step(s, model, o, loss_of, &calls, x, bt_reshape(y, 5)), BT_INVALID_ARGUMENT,
                       "bt_reshape");
                POISON(bt_train_step(s, model, o, loss_of, &calls, x, bt_zeros(BT_I32, 5)), BT_INVALID_ARGUMENT, "5");
                POISON(bt_train_step(s, model, o, not_scalar, NULL, x, y), BT_INVALID_ARGUMENT, "scalar");
                POISON(bt_train_step(s, model, o, no_loss, NULL, x, y), BT_INVALID_ARGUMENT, "NULL");
                POISON(bt_train_step(s, model, o, of_floors, NULL, x, y), BT_UNIMPLEMENTED, "floor_div");
                assert_true(bt_item(bt_sum(bt_value(p[0]), BT_ALL, false)) == before);
            }
        bt_array *none = bt_zeros(BT_F32, 0, 5), *scalar = bt_f32(1);
        bt_layer *model = make_model();
        POISON(bt_train_step(strategies_[1], model, bt_sgd(1), loss_of, &(int){0}, none, none), BT_INVALID_ARGUMENT,
               "0 rows");
        POISON(bt_train_step(strategies_[1], model, bt_sgd(1), loss_of, &(int){0}, scalar, scalar), BT_INVALID_ARGUMENT,
               "rows");
    }
}

/* A device that fails in the middle of a step leaves all replicas as they were. */
static void failed_steps(void **state) {
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        bt_layer *model = NULL;
        BT_STRATEGY(s) model = bt_dense_from(F32((1, 1), 2), F32((1), 0), NULL);
        bt_optimizer *optimizer = bt_momentum(0.1, 0.9);
        bt_shared *p[2];
        bt_parameters(model, p, 2);
        bt_array *x = bt_ones(BT_F32, 8, 1), *y = bt_zeros(BT_F32, 8, 1);
        static const char *const faults[] = {"gpu2/launch:1+", "gpu2/launch:2+", "gpu3/launch:3+", "gpu1/launch:4+"};
        for (int f = 0; f < 4; f++) {
            OK(bt_set_flag("sim_fault", faults[f]));
            BT_SCOPE(void) !bt_block(bt_train_step(s, model, optimizer, mean_output, NULL, x, y));
            bt_synchronize();
            OK(bt_set_flag("sim_fault", ""));
            bt_error_clear();
            for (int r = 0; r < 4; r++)
                BT_REPLICA(s, r) {
                    READS(bt_value(p[0]), 2);
                    READS(bt_value(p[1]), 0);
                }
            for (int i = 0; i < 2; i++)
                BT_SCOPE(void) !bt_set(p[i], bt_value(p[i])); /* the first set after tells */
            bt_error_clear();
        }
        BT_SCOPE
            READS(bt_train_step(s, model, optimizer, mean_output, NULL, x, y), 2);
        for (int r = 0; r < 4; r++)
            BT_REPLICA(s, r) READS(bt_value(p[0]), 1.9); /* the velocity too had stayed */
    }
}

/* A CPU and a GPU: shares by the time that each takes, the result that of one device. */
static void unlike_devices_get_shares_by_speed(void **state) {
    BT_SCOPE {
        double one[STEPS], both[STEPS], last[PARAMETERS], last_both[PARAMETERS];
        bt_strategy *s = bt_mirrored((const char *[]){"gpu:1", "cpu"}, 2);
        assert_true(bt_strategy_share(s, 0) == 0 && bt_strategy_share(s, 1) == 0);
        bt_layer *model = NULL;
        BT_STRATEGY(s) model = bt_dense_from(F32((1, 1), 2), F32((1), 0), NULL);
        OK(bt_set_flag("sim_latency_us", "200000")); /* the way to the GPU is long */
        bt_array *x = NULL;                          /* data on the CPU: constants would not travel */
        BT_ON("cpu") x = F32((8, 1), 1, 1, 1, 1, 1, 1, 1, 1);
        READS(bt_train_step(s, model, bt_sgd(0), mean_output, NULL, x, x), 2);
        OK(bt_set_flag("sim_latency_us", "0"));
        train(NULL, bt_sgd(0.5), 64, one, last, &(int){0});
        train(s, bt_sgd(0.5), 64, both, last_both, &(int){0});
        for (int i = 0; i < STEPS; i++) assert_true(fabs(one[i] - both[i]) <= 2e-6 * fabs(one[i]));
        assert_true(fabs(bt_strategy_share(s, 0) + bt_strategy_share(s, 1) - 1) < 1e-12);
        assert_true(bt_strategy_share(s, 0) > 0 && bt_strategy_share(s, 0) < bt_strategy_share(s, 1));
        OK(bt_strategy_set_shares(s, (const double[]){3, 1}, 2)); /* or as somebody says */
        assert_true(bt_strategy_share(s, 0) == 0.75);
        train(s, bt_sgd(0.5), 7, both, last_both, &(int){0});
        train(NULL, bt_sgd(0.5), 7, one, last, &(int){0});
        for (int i = 0; i < STEPS; i++) assert_true(fabs(one[i] - both[i]) <= 2e-6 * fabs(one[i]));
        assert_int_equal(bt_strategy_set_shares(s, (const double[]){1, 0}, 2), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "share 1 is 0; it must be above 0");
        assert_int_equal(bt_strategy_set_shares(s, (const double[]){1, 1, 1}, 3), BT_INVALID_ARGUMENT);
        CAUSE(BT_INVALID_ARGUMENT, "3 shares for 2 devices");
        assert_int_equal(bt_strategy_set_exact(s, true), BT_FAILED_PRECONDITION);
        CAUSE(BT_FAILED_PRECONDITION, "exact mode needs devices of one make");
        bt_strategy *three = bt_mirrored((const char *[]){"gpu:0", "gpu:1", "gpu:2"}, 3);
        assert_int_equal(bt_strategy_set_exact(three, true), BT_FAILED_PRECONDITION);
        CAUSE(BT_FAILED_PRECONDITION, "needs 1, 2, 4 or 8 devices, not 3");
    }
}

/* 1, 2, 4 and 8 devices: the same bits. */
static void exact_mode(void **state) {
    OK(bt_shutdown());
    OK(bt_set_flag("devices", "sim:gpu*8"));
    static const int64_t rows[] = {64, 50, 5};
    static const char *const names[] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:4", "gpu:5", "gpu:6", "gpu:7"};
    for (int r = 0; r < 3; r++)
        BT_SCOPE {
            double first[STEPS], losses[STEPS], last_first[PARAMETERS], last[PARAMETERS];
            for (int count = 1; count <= 8; count *= 2) {
                bt_strategy *s = bt_mirrored(names, count);
                OK(bt_strategy_set_exact(s, true));
                train(s, bt_adam(0.05, 0.9, 0.999, 1e-8), rows[r], count == 1 ? first : losses,
                      count == 1 ? last_first : last, &(int){0});
                if (count == 1) continue;
                assert_memory_equal(first, losses, sizeof first);
                assert_memory_equal(last_first, last, sizeof last);
            }
        }
}

/* Without any GPU: the CPU. */
static void without_gpus(void **state) {
    OK(bt_shutdown());
    OK(bt_set_flag("devices", "sim:gpu*0"));
    BT_SCOPE {
        bt_strategy *s = bt_mirrored(NULL, 0);
        assert_int_equal(bt_strategy_count(s), 1);
        assert_string_equal(bt_device_name(bt_strategy_device(s, 0)), "CPU:0");
        double losses[STEPS], last[PARAMETERS];
        train(s, bt_sgd(0.5), 3, losses, last, &(int){0});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strategies),       cmocka_unit_test(mirrored_variables),
        cmocka_unit_test(all_reduce),       cmocka_unit_test(a_step_by_hand),
        cmocka_unit_test(as_on_one_device), cmocka_unit_test(refused_steps),
        cmocka_unit_test(failed_steps),     cmocka_unit_test(unlike_devices_get_shares_by_speed),
        cmocka_unit_test(exact_mode),       cmocka_unit_test(without_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

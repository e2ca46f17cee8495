// labels: threads
/* Optimisers as a program uses them: several devices, groups, loss scaling, averages, threads. */
#include <math.h>
#include <pthread.h>

#include "support/optimizers.h"

/* --- several devices -------------------------------------------------------------------------------------------------- */

/* Eight steps with everything give what one device gives, with the same bits on each replica. */
static void mirrored(void **state) {
    (void)state;
    float one[VALUES], all[VALUES], other[VALUES];
    fresh("devices=sim:gpu*3");
    BT_SCOPE {
        bt_layer *model = new_model();
        train_steps(NULL, model, full_optimizer(model), 8);
        read_all(model, one);
    }
    BT_SCOPE {
        bt_strategy *three = bt_mirrored(NULL, 0);
        bt_layer *model = NULL;
        BT_STRATEGY(three) model = new_model();
        bt_optimizer *o = full_optimizer(model);
        train_steps(three, model, o, 8);
        BT_REPLICA(three, 0) read_all(model, all);
        BT_REPLICA(three, 2) read_all(model, other);
        expect_near(all, one, 1e-5f, "three devices");
        assert_memory_equal(all, other, sizeof all);
        BT_REPLICA(three, 2) OK(bt_optimizer_set_rate(o, 0)); /* of all of them */
        train_steps(three, model, o, 2);
        BT_REPLICA(three, 1) read_all(model, other);
        assert_memory_equal(all, other, sizeof all);
    }
}

/* A model in two parts: the norm is that of both, and each device has a count of its own. */
static void parts_on_two_devices(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_shared *p[2] = {bt_shared_new(F32((2), 1, 1), "gpu:0"), bt_shared_new(F32((1), 1), "gpu:1")};
        bt_shared_set_name(p[1], "there");
        bt_optimizer *o = bt_sgd(0.5, .clip_norm = 1);
        OK(bt_optimizer_schedule(o, BT_SCHEDULE_EXPONENTIAL, .gamma = 0.5));
        for (int step = 0; step < 2; step++) {
            bt_array *grads[2];
            BT_ON("gpu:0") grads[0] = F32((2), 2, 1);
            BT_ON("gpu:1") grads[1] = F32((1), 2);
            OK(bt_optimizer_step(o, p, grads, 2));
        }
        double moved = (0.5 + 0.25) / (3 + 1e-6);
        assert_true(fabs(bt_item(bt_index(bt_value(p[0]), 0, 0)) - (1 - 2 * moved)) < 1e-6);
        assert_true(fabs(bt_item(bt_index(bt_value(p[0]), 0, 1)) - (1 - moved)) < 1e-6);
        assert_true(fabs(bt_item(bt_index(bt_value(p[1]), 0, 0)) - (1 - 2 * moved)) < 1e-6);
        READS(bt_optimizer_norm(o), 3);
        READS(bt_optimizer_next_rate(o), 0.125);
        bt_shared *states[2];
        assert_int_equal(bt_optimizer_states(o, states, 2), 2);
        assert_string_equal(bt_shared_name(states[0]), "sgd.count");
        assert_string_equal(bt_shared_name(states[1]), "sgd.count.1");
        READS(bt_value(states[1]), 2);
    }
}

/* Rates and states are where the parameters are: no step copies anything, though the policy would refuse it. */
static void no_transfers(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2,transfers=error");
    BT_SCOPE {
        bt_shared *p[2] = {bt_shared_new(F32((2), 1, 1), "gpu:0"), bt_shared_new(F32((1), 1), "gpu:1")};
        bt_optimizer *o = bt_momentum(0.5, 0.5, .average = 0.5);
        for (int step = 0; step < 3; step++) {
            bt_array *grads[2] = {bt_ones_like(bt_value(p[0])), bt_ones_like(bt_value(p[1]))};
            OK(bt_optimizer_step(o, p, grads, 2));
            OK(bt_optimizer_set_rate(o, 0.25));
        }
        READS(bt_value(p[1]), 1 - 0.5 - 0.25 * (1.5 + 1.75));
    }
}

/* --- groups, frozen parameters, dtypes -------------------------------------------------------------------------------------- */

static void frozen_parameters(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_shared *p[2] = {bt_shared_new(F32((1), 1), NULL), bt_shared_new(F32((1), 1), NULL)};
        bt_array *grads[2] = {F32((1), 3), F32((1), 4)};
        bt_optimizer *o = bt_adam(0.5, .clip_norm = 2, .decay = 0.5);
        OK(bt_shared_freeze(p[0], true));
        OK(bt_optimizer_step(o, p, grads, 2));
        READS(bt_value(p[0]), 1);
        READS(bt_optimizer_norm(o), 4); /* of those that are updated */
        assert_int_equal(bt_optimizer_states(o, NULL, 0), 3);
        assert_int_equal(bt_optimizer_updates(o, p, NULL, 2, NULL, 0), 3 + 1 + 1);
        OK(bt_shared_freeze(p[0], false));
        OK(bt_optimizer_step(o, p, grads, 2));
        READS(bt_optimizer_norm(o), 5);
        assert_true(bt_item(bt_value(p[0])) < 0.6); /* its first step, though the second of the other */
        assert_int_equal(bt_optimizer_states(o, NULL, 0), 6);
    }
}

/* A group's factor multiplies the rate of now; a later group takes its place. */
static void groups(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_shared *p[2] = {bt_shared_new(F32((1), 1), NULL), bt_shared_new(BT_ARRAY(double, (1), 1), NULL)};
        bt_array *grads[2] = {F32((1), 0), BT_ARRAY(double, (1), 1)};
        bt_optimizer *o = bt_sgd(0.5, .decay = 0.5);
        OK(bt_optimizer_group(o, &p[1], 1, .rate = 0.5));
        OK(bt_optimizer_step(o, p, grads, 2));
        READS(bt_value(p[0]), 0.75);
        READS(bt_value(p[1]), 1 - 0.25 * 1.5);
        OK(bt_optimizer_group(o, p, 2, .decay = 0));
        OK(bt_optimizer_set_rate(o, 0.125));
        OK(bt_optimizer_step(o, p, grads, 2));
        READS(bt_value(p[0]), 0.75);
        READS(bt_value(p[1]), 1 - 0.25 * 1.5 - 0.125);
    }
}

/* float16 parameters: squares of 1e-5 would be 0 in float16, and the step 0 / 0. */
static void narrow_parameters(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        for (int wide = 0; wide < 2; wide++) {
            bt_dtype dtype = wide ? BT_BF16 : BT_F16;
            bt_shared *p = bt_shared_new(bt_ones(dtype, 2), NULL);
            bt_array *grad = bt_full(1e-5, dtype, 2);
            bt_optimizer *o = bt_adam(0.25);
            OK(bt_optimizer_step(o, &p, &grad, 1));
            assert_int_equal(bt_dtype_of(bt_value(p)), dtype);
            double now = bt_item(bt_cast(bt_index(bt_value(p), 0, 0), BT_F64));
            if (!(fabs(now - 0.75) < 1e-2)) fail_msg("%s: %g", bt_dtype_name(dtype), now);
            bt_shared *states[3];
            assert_int_equal(bt_optimizer_states(o, states, 3), 3);
            assert_string_equal(bt_shared_name(states[1]), "adam.square.#0");
            assert_int_equal(bt_dtype_of(bt_value(states[1])), BT_F32);
        }
    }
}

/* Parameters without elements, and no parameters at all. */
static void empty_parameters(void **state) {
    fresh("");
    BT_SCOPE {
        bt_shared *p[2] = {bt_shared_new(bt_zeros(BT_F32, 0, 3), NULL), bt_shared_new(F32((1), 1), NULL)};
        bt_array *grads[2] = {bt_zeros(BT_F32, 0, 3), F32((1), 2)};
        bt_optimizer *o = bt_lion(0.5, .clip_norm = 1, .loss_scale = 2, .accumulate = 2, .average = 0.5);
        for (int step = 0; step < 2; step++) OK(bt_optimizer_step(o, p, grads, 2));
        READS(bt_optimizer_norm(o), 1);
        READS(bt_value(p[1]), 0.5);
        assert_int_equal(bt_count(bt_optimizer_average(o, p[0])), 0);
        OK(bt_optimizer_step(o, p, grads, 1));
        OK(bt_optimizer_step(o, p, grads, 0));
        OK(bt_block(bt_value(p[0])));
        bt_update none;
        assert_int_equal(bt_optimizer_updates(o, NULL, NULL, 0, &none, 1), 0);
        OK(bt_shared_freeze(p[0], true));
        OK(bt_shared_freeze(p[1], true));
        OK(bt_optimizer_step(o, p, grads, 2));
        READS(bt_value(p[1]), 0.5);
    }
}

/* --- clipping --------------------------------------------------------------------------------------------------------- */

static void clipping(void **state) {
    (void)state;
    fresh("devices=sim:gpu*1,default_device=cpu");
    BT_SCOPE {
        bt_array *x[2] = {F32((2), 3, 0), NULL};
        BT_ON("gpu:0") x[1] = BT_ARRAY(double, (1), -4);
        READS(bt_global_norm(x, 2), 5);
        READS(bt_global_norm(NULL, 0), 0);
        READS(bt_clip_by_global_norm(x, 2, 10), 5);
        READS(x[1], -4);
        READS(bt_clip_by_global_norm(x, 2, 2.5), 5);
        double half = 2.5 / (5 + 1e-6);
        assert_true(fabs(bt_item(x[1]) + 4 * half) < 1e-15);
        assert_int_equal(bt_dtype_of(x[0]), BT_F32);
        assert_string_equal(bt_device_name(bt_device_of(x[1])), bt_device_name(device("gpu:0")));
        OK(bt_clip_by_value(x, 2, 1.75));
        READS(x[1], -1.75);
        assert_true(bt_item(bt_clip_by_global_norm(x, 2, 0)) > 0);
        READS(x[1], 0);
        bt_array *large = bt_full(300, BT_F16, 100); /* its square overflows float16 */
        READS(bt_global_norm(&large, 1), 3000);

        bt_array *integers = BT_ARRAY(int32_t, (1), 1), *bad = bt_reshape(x[0], 7);
        POISONED(bt_global_norm(&integers, 1), BT_INVALID_ARGUMENT, "bt_global_norm", "array 0 is int32");
        POISONED(bt_global_norm(&bad, 1), BT_INVALID_ARGUMENT, "bt_reshape");
        POISONED(bt_global_norm(NULL, 1), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_global_norm(x, -1), BT_INVALID_ARGUMENT, "-1");
        bt_array *pair[2] = {x[0], bad};
        POISONED(bt_clip_by_global_norm(pair, 2, 1), BT_INVALID_ARGUMENT, "bt_reshape");
        assert_ptr_equal(pair[0], x[0]);
        POISONED(bt_clip_by_global_norm(x, 2, -1), BT_INVALID_ARGUMENT, "the limit is -1");
        POISONED(bt_clip_by_global_norm(x, 2, NAN), BT_INVALID_ARGUMENT, "the limit is nan");
        FAILS(bt_clip_by_value(x, 2, -1), BT_INVALID_ARGUMENT, "bt_clip_by_value", "the limit is -1");
        FAILS(bt_clip_by_value(pair, 2, 1), BT_INVALID_ARGUMENT, "bt_reshape");
        FAILS(bt_clip_by_value(&integers, 1, 1), BT_INVALID_ARGUMENT, "int32");
        FAILS(bt_clip_by_value(NULL, 3, 1), BT_INVALID_ARGUMENT, "NULL");
    }
}

/* --- loss scaling ----------------------------------------------------------------------------------------------------- */

/* In float16 the gradient 1e-4 * 1e-4 / 4 is 0, unless the loss is scaled. */
static bt_array *tiny(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data, (void)y;
    return bt_mean(bt_cast(bt_mul(bt_mul(bt_cast(bt_apply(model, x), BT_F16), 1e-4), 1e-4), BT_F32));
}

static double trained(double scale, double *now) {
    bt_layer *model = bt_dense_from(bt_ones(BT_F32, 1, 1), NULL, NULL);
    bt_array *x = bt_full(1e-3, BT_F32, 4, 1);
    bt_optimizer *o = scale > 0 ? bt_sgd(1e10, .loss_scale = scale, .scale_interval = 2) : bt_sgd(1e10);
    for (int i = 0; i < 3; i++) OK(bt_block(bt_train_step(NULL, model, o, tiny, NULL, x, x)));
    bt_shared *w;
    bt_parameters(model, &w, 1);
    *now = bt_item(bt_optimizer_loss_scale(o));
    return bt_item(bt_value(w));
}

static void loss_scaling(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        double scale, without = trained(0, &scale);
        assert_true(scale == 1);
        double with = trained(16384, &scale);
        if (!(fabs(with - 0.7) < 1e-2) || without != 1 || scale != 32768)
            fail_msg("%g with a scale, now %g; %g without", with, scale, without);

        bt_shared *w = bt_shared_new(bt_full(1, BT_F16), NULL);
        bt_optimizer *o = bt_sgd(0.5, .loss_scale = 4096);
        POISONED(bt_optimizer_scale_loss(o, bt_f32(1)), BT_FAILED_PRECONDITION, "bt_optimizer_prepare");
        OK(bt_optimizer_prepare(o, &w, 1));
        bt_array *loss = bt_square(bt_value(w)), *scaled = bt_optimizer_scale_loss(o, loss);
        READS(scaled, 4096);
        assert_int_equal(bt_dtype_of(scaled), BT_F32);
        bt_array *grad = bt_grad1(scaled, w);
        OK(bt_optimizer_step(o, &w, &grad, 1));
        READS(bt_value(w), 0);
        grad = bt_full(NAN, BT_F16);
        OK(bt_optimizer_step(o, &w, &grad, 1));
        READS(bt_value(w), 0);
        READS(bt_optimizer_loss_scale(o), 2048);
        bt_array *same = bt_f32(3);
        assert_ptr_equal(bt_optimizer_scale_loss(bt_sgd(1), same), same);
    }
}

/* --- averages --------------------------------------------------------------------------------------------------------- */

static void averages(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_layer *dense = bt_dense_from(F32((1, 1), 2), F32((1), 1), NULL), *model = bt_chain(dense, dense);
        bt_shared *p[2];
        assert_int_equal(bt_parameters(model, p, 2), 2);
        bt_optimizer *o = bt_sgd(1, .average = 0.75);
        bt_array *grads[2] = {F32((1, 1), 4), F32((1), 0)};
        POISONED(bt_optimizer_average(o, p[0]), BT_FAILED_PRECONDITION, "bt_optimizer_prepare");
        OK(bt_optimizer_step(o, p, grads, 1)); /* the bias has no average */
        READS(bt_value(p[0]), -2);
        READS(bt_optimizer_average(o, p[0]), 0.75 * 2 - 0.25 * 2);
        bt_layer *averaged = bt_optimizer_averaged(o, model);
        OK(bt_layer_status(averaged));
        READS(bt_apply(averaged, F32((1, 1), 3)), (3 * 1 + 1) * 1 + 1);
        READS(bt_apply(model, F32((1, 1), 3)), (3 * -2 + 1) * -2 + 1);
        OK(bt_optimizer_step(o, p, grads, 1));
        READS(bt_apply(averaged, F32((1, 1), 3)), 5); /* a copy */

        bt_optimizer *none = bt_sgd(1);
        POISONED(bt_optimizer_average(none, p[0]), BT_FAILED_PRECONDITION, ".average");
        POISONED(bt_optimizer_average(o, NULL), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_layer_status(bt_optimizer_averaged(none, model)), BT_FAILED_PRECONDITION, ".average");
        FAILS(bt_layer_status(bt_optimizer_averaged(o, NULL)), BT_INVALID_ARGUMENT, "NULL");
    }
}

/* --- functions -------------------------------------------------------------------------------------------------------- */

static void functions(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_layer *one = new_model(), *two = new_model();
        bt_optimizer *eager = full_optimizer(one), *called = full_optimizer(two);
        bt_array *x = bt_input(BT_F32, ROWS, IN), *y = bt_input(BT_F32, ROWS, OUT), *grads[PARAMETERS];
        bt_shared *p[PARAMETERS];
        bt_parameters(two, p, PARAMETERS);
        bt_array *loss = squares(two, x, y, NULL);
        OK(bt_grad_shared(bt_optimizer_scale_loss(called, loss), p, PARAMETERS, grads));
        bt_update updates[MOST_STATES];
        int count = bt_optimizer_updates(called, p, grads, PARAMETERS, updates, MOST_STATES);
        assert_int_equal(count, PARAMETERS * (3 + 3) + 5);
        bt_function *step = bt_function_new((bt_array *[]){x, y}, 2, &loss, 1, updates, count);
        for (int i = 0; i < 6; i++)
            BT_SCOPE {
                if (i == 4) OK(bt_optimizer_set_rate(called, 0.01));
                if (i == 4) OK(bt_optimizer_set_rate(eager, 0.01));
                OK(bt_block(bt_call1(step, (bt_array *[]){inputs(), targets()}, 2)));
                train_steps(NULL, one, eager, 1);
            }
        float a[VALUES], b[VALUES];
        read_all(one, a);
        read_all(two, b);
        expect_near(b, a, 1e-6f, "the function");
        READS(bt_optimizer_next_rate(called), bt_item(bt_optimizer_next_rate(eager)));

        bt_error_clear();
        assert_int_equal(bt_optimizer_updates(called, p, grads, PARAMETERS, updates, 7), -1);
        FAILS(bt_error_status(), BT_INVALID_ARGUMENT, "bt_optimizer_updates", "29 updates, and room for 7");
        FAILS(bt_function_status(bt_function_new((bt_array *[]){x, y}, 2, &loss, 1, updates, -1)), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_optimizer_updates(called, p, grads, PARAMETERS, NULL, 7), -1);
        assert_int_equal(bt_optimizer_updates(NULL, p, grads, PARAMETERS, updates, 7), -1);
        assert_int_equal(bt_optimizer_updates(called, NULL, grads, PARAMETERS, updates, 7), -1);
        assert_int_equal(bt_optimizer_updates(called, p, grads, PARAMETERS, updates, -1), -1);
        bt_array *poison = bt_reshape(x, 7);
        assert_int_equal(bt_optimizer_updates(called, p, &poison, 1, updates, MOST_STATES), -1);
        SAYS(bt_error_text(), "bt_reshape");
        FAILS(bt_optimizer_step(called, p, grads, PARAMETERS), BT_FAILED_PRECONDITION, "function");
        bt_error_clear();
    }
}

/* --- schedules of the program's ------------------------------------------------------------------------------------------- */

static double ends_badly(int64_t step, void *calls) {
    ++*(int *)calls;
    return step < 2 ? 1 : NAN;
}

static void own_schedules(void **state) {
    (void)state;
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        int calls = 0;
        bt_shared *p = bt_shared_new(F32((1), 1), NULL);
        bt_array *grad = F32((1), 1);
        bt_optimizer *o = bt_sgd(0.25);
        OK(bt_optimizer_schedule(o, BT_SCHEDULE_OWN, .own = ends_badly, .data = &calls));
        for (int i = 0; i < 2; i++) {
            OK(bt_optimizer_step(o, &p, &grad, 1));
            READS(bt_value(p), 0.75 - 0.25 * i);
        }
        OK(bt_optimizer_step(o, &p, &grad, 1)); /* lazy */
        POISONED(bt_value(p), BT_INVALID_ARGUMENT, "factor at step 2 is nan");
        READS(bt_value(p), 0.5);
        FAILS(bt_optimizer_step(o, &p, &grad, 1), BT_INVALID_ARGUMENT, "factor at step 2 is nan");
        OK(bt_optimizer_schedule(o, BT_SCHEDULE_CONSTANT));
        OK(bt_optimizer_step(o, &p, &grad, 1));
        READS(bt_value(p), 0.25);
        bt_synchronize();
        assert_true(calls >= 3);
    }
}

/* --- threads ---------------------------------------------------------------------------------------------------------- */

static void *change_rates(void *optimizer) {
    for (int i = 0; i < 300; i++)
        if (bt_optimizer_set_rate(optimizer, i % 2 ? 1 : 0.5) != BT_OK) return (void *)"a rate was refused";
    return NULL;
}

static void *step_own(void *optimizer) {
    const char *failure = NULL;
    BT_SCOPE {
        bt_shared *p[3];
        bt_array *grads[3];
        for (int i = 0; i < 3; i++) p[i] = bt_shared_new(bt_zeros(BT_F64, 2), NULL), grads[i] = bt_ones(BT_F64, 2);
        for (int step = 0; step < 50 && !failure; step++)
            BT_SCOPE {
                if (bt_optimizer_step(optimizer, p, grads, 3) != BT_OK) failure = "a step failed";
                double moved = -bt_item(bt_index(bt_value(p[1]), 0, 0));
                if (!(moved >= 0.5 * (step + 1) && moved <= step + 1)) failure = "a step by no rate that was set";
            }
    }
    return (void *)failure;
}

/* Rates are set while threads step parameters of their own, whose variables of the rate are made meanwhile. */
static void threads(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_optimizer *o = bt_sgd(1);
        pthread_t running[6];
        for (int i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&running[i], NULL, i < 2 ? change_rates : step_own, o), 0);
        for (int i = 0; i < 6; i++) {
            void *failure = NULL;
            pthread_join(running[i], &failure);
            if (failure) fail_msg("thread %d: %s", i, (const char *)failure);
        }
        bt_shared *p = bt_shared_new(bt_f64(0), NULL);
        bt_array *grad = bt_f64(1);
        OK(bt_optimizer_set_rate(o, 0.25));
        OK(bt_optimizer_step(o, &p, &grad, 1));
        READS(bt_value(p), -0.25);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mirrored),         cmocka_unit_test(parts_on_two_devices),
        cmocka_unit_test(no_transfers),     cmocka_unit_test(frozen_parameters),
        cmocka_unit_test(groups),           cmocka_unit_test(narrow_parameters),
        cmocka_unit_test(empty_parameters), cmocka_unit_test(clipping),
        cmocka_unit_test(loss_scaling),     cmocka_unit_test(averages),
        cmocka_unit_test(functions),        cmocka_unit_test(own_schedules),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

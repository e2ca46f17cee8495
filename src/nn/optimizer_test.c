// labels: valgrind
/* Optimisers: their steps are PyTorch's (tools/optimizer_cases.py), eager and in functions; a rate is a value of the step. */
#include <math.h>
#include <stdio.h>

#include "array/plan_test.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
enum { STEPS = 20, KEPT = 6, RATES = 30, MOST_UPDATES = 24 };

/* --- cases ------------------------------------------------------------------------------------------------------------ */

static bt_optimizer *sgd(bt_shared *const *p) { return (void)p, bt_sgd(0.1); }
static bt_optimizer *sgd_decay(bt_shared *const *p) { return (void)p, bt_sgd(0.1, .decay = 0.2); }
static bt_optimizer *momentum(bt_shared *const *p) { return (void)p, bt_momentum(0.1, 0.9); }
static bt_optimizer *momentum_decay(bt_shared *const *p) { return (void)p, bt_momentum(0.1, 0.9, .decay = 0.2); }
static bt_optimizer *nesterov(bt_shared *const *p) { return (void)p, bt_nesterov(0.1, 0.8); }
static bt_optimizer *nesterov_decay(bt_shared *const *p) { return (void)p, bt_nesterov(0.1, 0.8, .decay = 0.2); }
static bt_optimizer *adam(bt_shared *const *p) { return (void)p, bt_adam(0.05); }
static bt_optimizer *adam_options(bt_shared *const *p) { return (void)p, bt_adam(0.05, 0.8, 0.95, 1e-3, .decay = 0.2); }
static bt_optimizer *adamw(bt_shared *const *p) { return (void)p, bt_adamw(0.05); }
static bt_optimizer *adamw_options(bt_shared *const *p) {
    return (void)p, bt_adamw(0.05, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .decay = 0.3);
}
static bt_optimizer *rmsprop(bt_shared *const *p) { return (void)p, bt_rmsprop(0.05); }
static bt_optimizer *rmsprop_momentum(bt_shared *const *p) {
    return (void)p, bt_rmsprop(0.05, .alpha = 0.9, .epsilon = 1e-3, .momentum = 0.7, .decay = 0.2);
}
static bt_optimizer *rmsprop_centered(bt_shared *const *p) { return (void)p, bt_rmsprop(0.05, .centered = true); }
static bt_optimizer *rmsprop_all(bt_shared *const *p) {
    return (void)p, bt_rmsprop(0.05, .alpha = 0.9, .momentum = 0.7, .centered = true);
}
static bt_optimizer *adagrad(bt_shared *const *p) { return (void)p, bt_adagrad(0.1); }
static bt_optimizer *adagrad_decay(bt_shared *const *p) {
    return (void)p, bt_adagrad(0.1, .epsilon = 1e-3, .decay = 0.2);
}
static bt_optimizer *lion(bt_shared *const *p) { return (void)p, bt_lion(0.02); }
static bt_optimizer *lion_options(bt_shared *const *p) {
    return (void)p, bt_lion(0.02, .beta1 = 0.8, .beta2 = 0.95, .decay = 0.3);
}
static bt_optimizer *group(bt_shared *const *p) {
    bt_optimizer *o = bt_adamw(0.05, .decay = 0.1);
    OK(bt_optimizer_group(o, &p[1], 1, .decay = 0, .rate = 0.1));
    return o;
}
static bt_optimizer *clip_value(bt_shared *const *p) { return (void)p, bt_sgd(0.1, .clip_value = 0.4); }
static bt_optimizer *clip_norm(bt_shared *const *p) { return (void)p, bt_adam(0.05, .clip_norm = 1.5); }
static bt_optimizer *accumulate(bt_shared *const *p) { return (void)p, bt_adamw(0.05, .accumulate = 3); }
static bt_optimizer *average(bt_shared *const *p) { return (void)p, bt_momentum(0.1, 0.9, .average = 0.8); }
static bt_optimizer *cosine(bt_shared *const *p) {
    (void)p;
    bt_optimizer *o = bt_adamw(0.05);
    OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 20, .last = 0.1));
    return o;
}
static bt_optimizer *accumulate_exponential(bt_shared *const *p) {
    (void)p;
    bt_optimizer *o = bt_sgd(0.1, .accumulate = 3);
    OK(bt_optimizer_schedule(o, BT_SCHEDULE_EXPONENTIAL, .gamma = 0.8));
    return o;
}
static bt_optimizer *scaled(bt_shared *const *p) {
    (void)p;
    return bt_adam(0.05, .loss_scale = 1024, .scale_backoff = 0.25, .scale_interval = 3);
}
static bt_optimizer *scaled_accumulated(bt_shared *const *p) {
    (void)p;
    return bt_adam(0.05, .loss_scale = 1024, .scale_backoff = 0.25, .scale_interval = 3, .accumulate = 2,
                   .clip_norm = 1.5);
}

typedef struct trajectory {
    const char *name;
    bt_optimizer *(*make)(bt_shared *const *p);
    int bad[3]; /* steps, from 1, with a gradient that is not finite */
} trajectory;

#define CASE(name, ...)              \
    {                                \
#name, name, { __VA_ARGS__ } \
    }
static const trajectory trajectories[] = {CASE(sgd, 0),
                                          CASE(sgd_decay, 0),
                                          CASE(momentum, 0),
                                          CASE(momentum_decay, 0),
                                          CASE(nesterov, 0),
                                          CASE(nesterov_decay, 0),
                                          CASE(adam, 0),
                                          CASE(adam_options, 0),
                                          CASE(adamw, 0),
                                          CASE(adamw_options, 0),
                                          CASE(rmsprop, 0),
                                          CASE(rmsprop_momentum, 0),
                                          CASE(rmsprop_centered, 0),
                                          CASE(rmsprop_all, 0),
                                          CASE(adagrad, 0),
                                          CASE(adagrad_decay, 0),
                                          CASE(lion, 0),
                                          CASE(lion_options, 0),
                                          CASE(group, 0),
                                          CASE(clip_value, 0),
                                          CASE(clip_norm, 0),
                                          CASE(accumulate, 0),
                                          CASE(average, 0),
                                          CASE(cosine, 0),
                                          CASE(accumulate_exponential, 0),
                                          CASE(scaled, 3, 9, 10),
                                          CASE(scaled_accumulated, 5, 12)};

/* --- trajectories ----------------------------------------------------------------------------------------------------- */

static bt_tensors *reference;

static bt_array *tensor(const char *name, const char *part, bt_dtype dtype) {
    char text[80];
    snprintf(text, sizeof text, "%s.%s", name, part);
    bt_array *x = bt_tensors_get(reference, text);
    if (bt_block(x) != BT_OK) fail_msg("%s: %s", text, bt_error_text());
    return bt_cast(x, dtype);
}

static void expect_equal(const char *name, const char *what, int step, bt_array *got, bt_array *expected,
                         double tolerance) {
    double away = bt_item(bt_max(bt_abs(bt_sub(bt_cast(got, BT_F64), expected))));
    if (!(away <= tolerance)) fail_msg("%s, %s after step %d: off by %g: %s", name, what, step, away, bt_error_text());
}

typedef struct run {
    const trajectory *t;
    bt_dtype dtype;
    bt_shared *p[2];
    bt_optimizer *o;
    bt_function *function; /* NULL: eager */
    int kept;              /* results that were compared */
} run;

static const char *const parts[] = {"w", "b"};

/* 0.3 * p + noise, times the scale of the loss. */
static void gradients(const run *r, bt_array *const *noise, bt_array **grads) {
    for (int k = 0; k < 2; k++) {
        grads[k] = bt_add(bt_mul(bt_value(r->p[k]), 0.3), noise[k]);
        grads[k] = bt_mul(grads[k], bt_cast(bt_optimizer_loss_scale(r->o), r->dtype));
    }
}

static void noise_of(const run *r, int step, bt_array **noise) {
    bool bad = false;
    for (int i = 0; i < COUNT(r->t->bad); i++) bad = bad || r->t->bad[i] == step + 1;
    for (int k = 0; k < 2; k++) {
        noise[k] = bt_squeeze(bt_slice_axis(tensor("noise", parts[k], r->dtype), 0, step, step + 1, 1), 0);
        if (bad && k) noise[k] = bt_add(noise[k], bt_cast(BT_ARRAY(double, (4), 0, INFINITY, 0, 0), r->dtype));
        OK(bt_eval(noise[k]));
    }
}

static void record_function(run *r) {
    bt_array *noise[2] = {bt_input(r->dtype, 3, 4), bt_input(r->dtype, 4)}, *grads[2];
    bt_update updates[MOST_UPDATES];
    OK(bt_optimizer_prepare(r->o, r->p, 2));
    gradients(r, noise, grads);
    int needed = bt_optimizer_updates(r->o, r->p, NULL, 2, NULL, 0);
    int count = bt_optimizer_updates(r->o, r->p, grads, 2, updates, MOST_UPDATES);
    if (count != needed || count < 2)
        fail_msg("%s: %d updates, not %d: %s", r->t->name, count, needed, bt_error_text());
    r->function = bt_function_new(noise, 2, NULL, 0, updates, count);
    OK(bt_function_status(r->function));
}

static void make_step(run *r, int step) {
    bt_array *noise[2], *grads[2];
    noise_of(r, step, noise);
    if (r->function) {
        OK(bt_call(r->function, noise, 2, NULL, 0));
        return;
    }
    gradients(r, noise, grads);
    OK(bt_optimizer_step(r->o, r->p, grads, 2));
}

static void compare_step(run *r, int step, const int32_t *kept, double tolerance) {
    const char *name = r->t->name;
    if (r->kept < KEPT && kept[r->kept] == step + 1) {
        for (int k = 0; k < 2; k++) {
            bt_array *got = r->t->make == average ? bt_optimizer_average(r->o, r->p[k]) : bt_value(r->p[k]);
            bt_array *all = tensor(name, parts[k], BT_F64);
            bt_array *expected = bt_squeeze(bt_slice_axis(all, 0, r->kept, r->kept + 1, 1), 0);
            expect_equal(name, parts[k], step + 1, got, expected, tolerance);
        }
        r->kept++;
    }
    if (*r->t->bad == 0) return;
    bt_array *scale = bt_slice_axis(tensor(name, "scales", BT_F64), 0, step, step + 1, 1);
    expect_equal(name, "the scale", step + 1, bt_optimizer_loss_scale(r->o), scale, 0);
}

static void follow(const trajectory *t, bt_dtype dtype, bool in_function, double tolerance) {
    run r = {.t = t, .dtype = dtype};
    int32_t kept[KEPT];
    OK(bt_read(bt_tensors_get(reference, "kept"), kept, sizeof kept));
    for (int k = 0; k < 2; k++) {
        r.p[k] = bt_shared_new(tensor("first", parts[k], dtype), NULL);
        bt_shared_set_name(r.p[k], parts[k]);
    }
    r.o = t->make(r.p);
    OK(bt_optimizer_status(r.o));
    if (in_function) record_function(&r);
    for (int step = 0; step < STEPS; step++)
        BT_SCOPE {
            make_step(&r, step);
            compare_step(&r, step, kept, tolerance);
        }
    assert_int_equal(r.kept, KEPT);
}

static void follow_all(bt_dtype dtype, bool in_function, double tolerance) {
    restart("");
    BT_SCOPE {
        OK(bt_tensors_open(BERTH_SOURCE_DIR "/tests/optimizers/trajectories.npz", &reference));
        for (int i = 0; i < COUNT(trajectories); i++)
            BT_SCOPE
                follow(&trajectories[i], dtype, in_function, tolerance);
        bt_tensors_close(reference);
    }
}

static void steps_are_those_of_pytorch(void **state) { (void)state, follow_all(BT_F64, false, 1e-12); }
static void functions_are_those_of_pytorch(void **state) { (void)state, follow_all(BT_F64, true, 1e-12); }
static void float32_is_near(void **state) { (void)state, follow_all(BT_F32, false, 5e-6); }

/* --- schedules -------------------------------------------------------------------------------------------------------- */

static double harmonic(int64_t step, void *data) { return 1 / (*(const double *)data + (double)step); }

static void set_schedule(bt_optimizer *o, int number) {
    static double one = 1;
    switch (number) {
    case 0: OK(bt_optimizer_schedule(o, BT_SCHEDULE_CONSTANT, .warmup = 8, .first = 0.25)); break;
    case 1: OK(bt_optimizer_schedule(o, BT_SCHEDULE_LINEAR, .steps = 24, .last = 0.1)); break;
    case 2: OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 29, .last = 0.1)); break;
    case 3: OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 30, .warmup = 5, .first = 0.2)); break;
    case 4: OK(bt_optimizer_schedule(o, BT_SCHEDULE_STEP, .every = 7)); break;
    case 5: OK(bt_optimizer_schedule(o, BT_SCHEDULE_STEP, .every = 5, .gamma = 0.7, .warmup = 4, .first = 0.5)); break;
    case 6: OK(bt_optimizer_schedule(o, BT_SCHEDULE_EXPONENTIAL, .gamma = 0.93)); break;
    case 7: OK(bt_optimizer_schedule(o, BT_SCHEDULE_ONE_CYCLE, .steps = 30)); break;
    case 8:
        OK(bt_optimizer_schedule(o, BT_SCHEDULE_ONE_CYCLE, .steps = 30, .rise = 0.45, .first = 0.1, .last = 1e-3));
        break;
    default: OK(bt_optimizer_schedule(o, BT_SCHEDULE_OWN, .own = harmonic, .data = &one)); break;
    }
}

/* With a gradient of 1 a step of sgd moves by the rate. */
static void schedules_are_those_of_pytorch(void **state) {
    (void)state;
    static const char *const names[] = {"warmup",     "linear",      "cosine",    "cosine_warmup",     "step",
                                        "step_gamma", "exponential", "one_cycle", "one_cycle_options", "own"};
    restart("");
    BT_SCOPE {
        OK(bt_tensors_open(BERTH_SOURCE_DIR "/tests/optimizers/trajectories.npz", &reference));
        for (int i = 0; i < COUNT(names); i++)
            BT_SCOPE {
                double expected[RATES];
                bt_array *rates = tensor("rates", names[i], BT_F64), *grad = bt_f64(1);
                OK(bt_read(rates, expected, sizeof expected));
                bt_shared *p = bt_shared_new(bt_f64(0), NULL);
                bt_optimizer *o = bt_sgd(0.4);
                set_schedule(o, i);
                for (int step = 0; step < RATES; step++)
                    BT_SCOPE {
                        double before = bt_item(bt_value(p)), told = bt_item(bt_optimizer_next_rate(o));
                        OK(bt_optimizer_step(o, &p, &grad, 1));
                        double moved = before - bt_item(bt_value(p));
                        if (!(fabs(told - expected[step]) <= 1e-15 && fabs(moved - expected[step]) <= 1e-14))
                            fail_msg("%s: %.17g at step %d, moved by %.17g, not %.17g: %s", names[i], told, step, moved,
                                     expected[step], bt_error_text());
                    }
            }
        bt_tensors_close(reference);
    }
}

/* --- the rate is a value of the step ------------------------------------------------------------------------------------ */

static void step_and_wait(bt_optimizer *o, bt_shared *p, bt_array *grad) {
    OK(bt_optimizer_step(o, &p, &grad, 1));
    OK(bt_block(bt_value(p)));
}

/* In each mode a set rate counts in the next step, and no plan is made. */
static void rates_make_no_plans(void **state) {
    (void)state;
    const char *settings[] = {"", "devices=sim:gpu*1", "devices=sim:gpu*1,plan_cache=8M"};
    for (int i = 0; i < COUNT(settings); i++) {
        restart(settings[i]);
        BT_SCOPE {
            bt_shared *p = bt_shared_new(bt_zeros(BT_F32, 5), NULL), *q = bt_shared_new(bt_zeros(BT_F32, 5), NULL);
            bt_array *grad = bt_ones(BT_F32, 5), *input = bt_input(BT_F32, 5);
            bt_optimizer *eager = bt_sgd(0), *called = bt_sgd(0);
            bt_update update;
            OK(bt_block(grad));
            assert_int_equal(bt_optimizer_updates(called, &q, &input, 1, &update, 1), 1);
            bt_function *f = bt_function_new(&input, 1, NULL, 0, &update, 1);
            uint64_t before = 0;
            double expected = 0;
            for (int step = 0; step < 40; step++)
                BT_SCOPE {
                    if (step == 4) before = made();
                    double rate = step < 2 ? 0 : 1.0 / (1 << step % 7);
                    OK(bt_optimizer_set_rate(eager, rate));
                    OK(bt_optimizer_set_rate(called, rate));
                    step_and_wait(eager, p, grad);
                    OK(bt_call(f, &grad, 1, NULL, 0));
                    OK(bt_block(bt_value(q)));
                    expected -= rate;
                    float got[2][5];
                    OK(bt_read(bt_value(p), got[0], sizeof got[0]));
                    OK(bt_read(bt_value(q), got[1], sizeof got[1]));
                    if (got[0][3] != (float)expected || got[1][3] != (float)expected)
                        fail_msg("step %d: %g and %g, not %g", step, (double)got[0][3], (double)got[1][3], expected);
                }
            assert_int_equal(made(), before);
            assert_true(bt_optimizer_rate(eager) == 1.0 / (1 << 39 % 7));
        }
    }
}

/* Accumulation, scaling and a schedule decide on the device: all steps have one plan. */
static void decisions_make_no_plans(void **state) {
    (void)state;
    restart("");
    BT_SCOPE {
        bt_shared *p = bt_shared_new(bt_zeros(BT_F32, 5), NULL);
        bt_array *grad = bt_ones(BT_F32, 5), *bad = bt_full(INFINITY, BT_F32, 5);
        bt_optimizer *o =
            bt_adamw(0.1, .accumulate = 3, .loss_scale = 8, .scale_interval = 2, .clip_norm = 1, .average = 0.5);
        OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 10, .warmup = 2));
        OK(bt_block(grad));
        OK(bt_block(bad));
        uint64_t before = 0;
        for (int step = 0; step < 30; step++)
            BT_SCOPE {
                if (step == 3) before = made();
                step_and_wait(o, p, step == 14 ? bad : grad);
            }
        assert_int_equal(made(), before);
        assert_true(bt_item(bt_optimizer_loss_scale(o)) > 8);
    }
}

/* Parameters of two dtypes, of which some begin later: together as each in an optimiser of its own. */
static void each_parameter_counts_its_steps(void **state) {
    (void)state;
    enum { COUNT_ALL = 5 };
    static const int begins[COUNT_ALL] = {0, 2, 0, 1, 2};
    BT_SCOPE {
        bt_optimizer *together = bt_adamw(0.1);
        bt_shared *ours[COUNT_ALL], *alone[COUNT_ALL];
        bt_optimizer *each[COUNT_ALL];
        for (int i = 0; i < COUNT_ALL; i++) {
            bt_array *x = bt_full(0.5 + i, i % 2 ? BT_F64 : BT_F32, 3);
            ours[i] = bt_shared_new(x, "cpu"), alone[i] = bt_shared_new(x, "cpu"), each[i] = bt_adamw(0.1);
        }
        for (int k = 0; k < 4; k++) {
            bt_shared *taken[COUNT_ALL];
            bt_array *grads[COUNT_ALL];
            int count = 0;
            for (int i = 0; i < COUNT_ALL; i++) {
                if (k < begins[i]) continue;
                taken[count] = ours[i];
                grads[count++] = bt_mul(bt_value(ours[i]), bt_num(0.3 * (k + 1)));
                bt_array *grad = bt_mul(bt_value(alone[i]), bt_num(0.3 * (k + 1)));
                OK(bt_optimizer_step(each[i], &alone[i], &grad, 1));
            }
            OK(bt_optimizer_step(together, taken, grads, count));
        }
        for (int i = 0; i < COUNT_ALL; i++) {
            double is[3], should[3], near = i % 2 ? 1e-14 : 1e-7;
            OK(bt_read(bt_cast(bt_value(ours[i]), BT_F64), is, sizeof is));
            OK(bt_read(bt_cast(bt_value(alone[i]), BT_F64), should, sizeof should));
            for (int j = 0; j < 3; j++) assert_true(fabs(is[j] - should[j]) <= near * fabs(should[j]));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(steps_are_those_of_pytorch, finish),
        cmocka_unit_test_teardown(functions_are_those_of_pytorch, finish),
        cmocka_unit_test_teardown(float32_is_near, finish),
        cmocka_unit_test_teardown(schedules_are_those_of_pytorch, finish),
        cmocka_unit_test_teardown(rates_make_no_plans, finish),
        cmocka_unit_test_teardown(decisions_make_no_plans, finish),
        cmocka_unit_test_teardown(each_parameter_counts_its_steps, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

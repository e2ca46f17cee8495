/* Optimisers in files, and what they refuse: options, schedules, arguments. */
#include <math.h>
#include <unistd.h>

#include "support/optimizers.h"

/* --- files ------------------------------------------------------------------------------------------------------------ */

static void files(void **state) {
    (void)state;
    fresh("");
    char path[] = "/tmp/berth-optimizers-XXXXXX", text[64];
    close(mkstemp(path));
    BT_SCOPE {
        bt_layer *model = new_model(), *again = new_model();
        bt_optimizer *o = full_optimizer(model), *other = full_optimizer(again);
        bt_shared *p[PARAMETERS], *states[MOST_STATES];
        float a[VALUES], b[VALUES];
        train_steps(NULL, model, o, 5);
        OK(bt_optimizer_set_rate(o, 0.0125));
        int count = bt_optimizer_states(o, states, MOST_STATES);
        assert_int_equal(count, PARAMETERS * 5 + 4);
        assert_string_equal(bt_shared_name(states[0]), "adamw.mean.0.bias"); /* the group came first */
        assert_string_equal(bt_shared_name(states[4]), "adamw.average.0.bias");
        assert_string_equal(bt_shared_name(states[count - 4]), "adamw.count");
        OK(bt_save_optimizer(path, o));

        bt_parameters(model, p, PARAMETERS);
        bt_array *values[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++) values[i] = bt_value(p[i]);
        bt_parameters(again, p, PARAMETERS);
        OK(bt_set_all(p, values, PARAMETERS));
        OK(bt_load_optimizer(path, other, p, PARAMETERS));
        assert_true(bt_optimizer_rate(other) == 0.0125);
        train_steps(NULL, model, o, 3);
        train_steps(NULL, again, other, 3);
        read_all(model, a);
        read_all(again, b);
        assert_memory_equal(a, b, sizeof a);

        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 5, 4), NULL), *v = bt_shared_new(bt_zeros(BT_F32, 5, 9), NULL);
        bt_shared_set_name(w, "0.weight");
        bt_shared_set_name(v, "0.weight");
        FAILS(bt_load_optimizer(path, bt_adam(1), &w, 1), BT_INVALID_ARGUMENT, "the states of \"adamw\"", "is adam");
        bt_optimizer *small = bt_adamw(0.5);
        FAILS(bt_load_optimizer(path, small, &w, 1), BT_INVALID_ARGUMENT, "does not fit the optimiser",
              "nothing was changed", "not in the optimiser: ", "adamw.count");
        FAILS(bt_load_optimizer(path, bt_adamw(1), &v, 1), BT_INVALID_ARGUMENT,
              "\"adamw.mean.0.weight\" is F32[5, 4] in the file and F32[5, 9] in the optimiser");
        assert_true(bt_optimizer_rate(small) == 0.5);
        assert_int_equal(bt_optimizer_states(small, states, MOST_STATES), 3);
        READS(bt_value(states[2]), 0);
        FAILS(bt_load_optimizer("/nowhere", other, p, PARAMETERS), BT_NOT_FOUND);
        FAILS(bt_load_optimizer(path, NULL, p, PARAMETERS), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_load_optimizer(path, other, NULL, 3), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_save_optimizer("/nowhere/x", o), BT_NOT_FOUND);
        FAILS(bt_save_optimizer(NULL, o), BT_INVALID_ARGUMENT);
        FAILS(bt_save_optimizer(path, NULL), BT_INVALID_ARGUMENT, "NULL");

        bt_optimizer *plain = bt_sgd(0.125), *twice = bt_momentum(1, 0.5);
        OK(bt_save_optimizer(path, plain)); /* no states: the rate alone */
        plain = bt_sgd(1);
        OK(bt_load_optimizer(path, plain, p, PARAMETERS));
        snprintf(text, sizeof text, "%g", bt_optimizer_rate(plain));
        assert_string_equal(text, "0.125");
        OK(bt_optimizer_prepare(twice, (bt_shared *[]){w, v}, 2));
        FAILS(bt_save_optimizer(path, twice), BT_INVALID_ARGUMENT, "momentum.velocity.0.weight");
    }
    unlink(path);
}

static double one(int64_t step, void *data) { return 1; }

/* --- misuse ----------------------------------------------------------------------------------------------------------- */

#define REFUSED(o, ...) FAILS(bt_optimizer_status(o), BT_INVALID_ARGUMENT, __VA_ARGS__)

static void options(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        REFUSED(bt_sgd(NAN), "bt_sgd", "the rate is nan");
        REFUSED(bt_adam(INFINITY), "bt_adam", "the rate is inf");
        REFUSED(bt_adam(1, 1, 0.9, 1e-8), "beta1 and beta2 must be");
        REFUSED(bt_adam(1, .beta2 = -0.1), "beta1 and beta2");
        REFUSED(bt_adamw(1, .epsilon = -1), "epsilon");
        REFUSED(bt_momentum(1, NAN), "the momentum");
        REFUSED(bt_nesterov(1, -1), "bt_nesterov", "the momentum");
        REFUSED(bt_lion(1, .decay = -1), "the decay");
        REFUSED(bt_sgd(1, .clip_value = -1), "clip_value");
        REFUSED(bt_sgd(1, .clip_norm = NAN), "clip_norm");
        REFUSED(bt_sgd(1, .accumulate = -1), "accumulate");
        REFUSED(bt_sgd(1, .accumulate = INT64_MAX), "accumulate");
        REFUSED(bt_sgd(1, .average = 1), "average");
        REFUSED(bt_sgd(1, .loss_scale = -1), "loss_scale");
        REFUSED(bt_sgd(1, .loss_scale = 1, .scale_growth = 1), "scale_growth");
        REFUSED(bt_sgd(1, .loss_scale = 1, .scale_backoff = 1), "scale_backoff");
        REFUSED(bt_sgd(1, .loss_scale = 1, .scale_interval = -1), "scale_interval");
        REFUSED(bt_sgd(1, .scale_interval = 5), "has no option scale_interval (it needs loss_scale)");
        REFUSED(bt_sgd(1, .beta1 = 0), "bt_sgd has no option beta1");
        REFUSED(bt_rmsprop(1, .beta2 = 0), "bt_rmsprop has no option beta2");
        REFUSED(bt_lion(1, .epsilon = 0), "bt_lion has no option epsilon");
        REFUSED(bt_adam(1, .alpha = 0), "no option alpha");
        REFUSED(bt_adam(1, .centered = true), "no option centered");
        REFUSED(bt_adam(1, .momentum = 0), "no option momentum");
        REFUSED(bt_momentum(1, 0.5, .momentum = 0.5), "no option momentum");
        REFUSED((bt_sgd)(1, &(bt_optimizer_options){.clip_norm = 1}), "the options have no size: use BT_OPTIMIZER(");
        OK(bt_optimizer_status((bt_sgd)(1, NULL)));
        OK(bt_optimizer_status((bt_adam)(1, BT_OPTIMIZER(.beta1 = 0, .beta2 = 0, .epsilon = 0))));
        assert_string_equal(bt_optimizer_name(bt_rmsprop(1)), "rmsprop");

        bt_optimizer *o = bt_sgd(1), *bad = bt_sgd(NAN);
        bt_shared *p = bt_shared_new(F32((1), 1), NULL), *whole = bt_shared_new(BT_ARRAY(int32_t, (1), 1), NULL);
        bt_array *grad = F32((1), 1), *ints = BT_ARRAY(int32_t, (1), 1);
        FAILS(bt_optimizer_set_rate(o, NAN), BT_INVALID_ARGUMENT, "bt_optimizer_set_rate", "the rate is nan");
        assert_true(bt_optimizer_rate(o) == 1);
        FAILS(bt_optimizer_set_rate(NULL, 1), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_optimizer_set_rate(bad, 1), BT_INVALID_ARGUMENT, "the rate is nan");
        FAILS(bt_optimizer_step(bad, &p, &grad, 1), BT_INVALID_ARGUMENT, "the rate is nan");
        FAILS(bt_optimizer_step(o, &whole, &ints, 1), BT_INVALID_ARGUMENT, "is int32; an optimiser needs floats");
        POISONED(bt_train_step(NULL, new_model(), bad, squares, NULL, inputs(), targets()), BT_INVALID_ARGUMENT, "nan");
        assert_true(isnan(bt_optimizer_rate(NULL)));
        assert_null(bt_optimizer_name(NULL));
        assert_int_equal(bt_optimizer_states(NULL, NULL, 0), 0);
        assert_int_equal(bt_optimizer_states(o, NULL, 3), 0);
        FAILS(bt_optimizer_prepare(o, NULL, 1), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_optimizer_prepare(o, (bt_shared *[]){NULL}, 1), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_optimizer_group(o, &p, 1, .decay = -1), BT_INVALID_ARGUMENT, "the decay is -1");
        FAILS(bt_optimizer_group(o, &p, 1, .rate = NAN), BT_INVALID_ARGUMENT, "factor of the rate is nan");
        FAILS(bt_optimizer_group(o, &p, -1), BT_INVALID_ARGUMENT, "-1");
        FAILS((bt_optimizer_group)(o, NULL), BT_INVALID_ARGUMENT, "options are NULL: use BT_OPTIMIZER_GROUP(");
        FAILS(bt_optimizer_group(bad, &p, 1), BT_INVALID_ARGUMENT, "the rate is nan");
        POISONED(bt_optimizer_norm(o), BT_FAILED_PRECONDITION);
        OK(bt_optimizer_prepare(o, &p, 1));
        POISONED(bt_optimizer_norm(o), BT_FAILED_PRECONDITION, ".clip_norm");
        POISONED(bt_optimizer_norm(NULL), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_optimizer_next_rate(NULL), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_optimizer_loss_scale(bad), BT_INVALID_ARGUMENT, "the rate is nan");
        POISONED(bt_optimizer_scale_loss(o, NULL), BT_INVALID_ARGUMENT, "NULL");
        READS(bt_optimizer_next_rate(o), 1);
        bt_optimizer_release(bt_optimizer_retain(o));
    }
}

static void schedules(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_optimizer *o = bt_sgd(1);
#define WRONG(schedule, text, ...) FAILS(bt_optimizer_schedule(o, schedule, __VA_ARGS__), BT_INVALID_ARGUMENT, text)
        WRONG((bt_schedule)9, "9 is no schedule", .steps = 1);
        WRONG(BT_SCHEDULE_COSINE, "steps are those of all", .warmup = 0);
        WRONG(BT_SCHEDULE_COSINE, "steps are those of all", .steps = 5, .warmup = 5);
        WRONG(BT_SCHEDULE_COSINE, "no option gamma", .steps = 5, .gamma = 0.5);
        WRONG(BT_SCHEDULE_COSINE, "no option first (it needs warmup)", .steps = 5, .first = 0.5);
        WRONG(BT_SCHEDULE_LINEAR, "finite", .steps = 5, .last = NAN);
        WRONG(BT_SCHEDULE_LINEAR, "no option every", .steps = 5, .every = 2);
        WRONG(BT_SCHEDULE_CONSTANT, "no option steps", .steps = 5);
        WRONG(BT_SCHEDULE_CONSTANT, "warmup must be", .warmup = -5);
        WRONG(BT_SCHEDULE_STEP, "every must be", .gamma = 0.5);
        WRONG(BT_SCHEDULE_STEP, "gamma must be", .every = 2, .gamma = 0);
        WRONG(BT_SCHEDULE_STEP, "no option last", .every = 2, .last = 0);
        WRONG(BT_SCHEDULE_EXPONENTIAL, "needs gamma", .warmup = 2);
        WRONG(BT_SCHEDULE_ONE_CYCLE, "no option warmup", .steps = 10, .warmup = 2);
        WRONG(BT_SCHEDULE_ONE_CYCLE, "rise must be", .steps = 10, .rise = 1);
        WRONG(BT_SCHEDULE_ONE_CYCLE, "rise * steps", .steps = 3);
        WRONG(BT_SCHEDULE_OWN, "(.own) is NULL", .warmup = 2);
        WRONG(BT_SCHEDULE_STEP, "no option own, or data", .every = 2, .own = one);
        FAILS((bt_optimizer_schedule)(o, BT_SCHEDULE_CONSTANT, &(bt_schedule_options){.warmup = 3}),
              BT_INVALID_ARGUMENT, "have no size: use BT_SCHEDULE(");
        FAILS(bt_optimizer_schedule(NULL, BT_SCHEDULE_CONSTANT), BT_INVALID_ARGUMENT, "NULL");
        READS(bt_optimizer_next_rate(o), 1); /* none of them counts */
        OK((bt_optimizer_schedule)(o, BT_SCHEDULE_CONSTANT, NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(options),
        cmocka_unit_test(schedules),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

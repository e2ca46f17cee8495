// labels: threads slow-tsan
/* Dropout, batch norm and other states in training steps: the same on any number of devices, in exact mode bit for bit; what fails changes no state. */
#include <math.h>

#include "support/support.h"

enum { ROWS = 24, IN = 6, STEPS = 3, MOST = 32, VALUES = 1024 };

static bool in_block;

static bt_array *squared(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    bt_array *made = NULL;
    (void)unused;
    if (in_block) {
        BT_CHECKPOINT made = bt_apply(model, x);
    } else
        made = bt_apply(model, x);
    return bt_mse(made, y);
}

static bt_layer *make_model(void) {
    return bt_chain(bt_dense(IN, 8, NULL, bt_key(1)), bt_batch_norm_layer(8), bt_lambda("tanh", bt_tanh),
                    bt_dropout_layer(0.4, bt_key(2)), bt_dense(8, 8, NULL, bt_key(3)),
                    bt_batch_norm_layer(8, .momentum = 0.3), bt_dropout_layer(0.2, bt_key(4)),
                    bt_dense(8, 2, NULL, bt_key(5)));
}

static bt_array *as_sequence(bt_array *x) { return bt_reshape(x, -1, 3, 2); }
static bt_array *first_two(bt_array *x) { return bt_slice_axis(bt_flatten(x, 1), 1, 0, 2, 1); }

/* Scans, attention, convolutions and pools behind statistics of the whole batch. */
static bt_layer *make_deep_model(void) {
    return bt_chain(bt_batch_norm_layer(IN), bt_lambda("sequence", as_sequence), bt_gru_layer(2, 4, bt_key(1)),
                    bt_attention_layer(4, 2, bt_key(2), .causal = true), bt_dropout_layer(0.3, bt_key(3)),
                    bt_conv_layer(3, 8, BT_SHAPE(3), bt_tanh, bt_key(4), .same = true), bt_batch_norm_layer(8),
                    bt_max_pool_layer(BT_SHAPE(2)), bt_lambda("first", first_two));
}

/* Dropout in the steps of a loop, with one mask for all places. */
static void add_dropped(bt_array **carry, bt_array *const *x, bt_array **y, void *layer) {
    carry[0] = bt_add(carry[0], bt_apply(bt_layer_child(layer, 0), x[0]));
    (void)y;
}
static bt_array *sum_of_places(bt_layer *layer, bt_array *x, void *data) {
    bt_array *sum = bt_zeros_like(bt_index(x, 1, 0)), *places = bt_permute(x, 1, 0, 2);
    (void)data;
    BT_CHECK(bt_scan(add_dropped, layer, BT_ALL_ROWS, &sum, 1, &places, 1, NULL, 0));
    return sum;
}
static bt_layer *make_loop_model(void) {
    bt_layer *steps = bt_layer_new("Steps", sum_of_places, .children = {{"drop", bt_dropout_layer(0.5, bt_key(1))}});
    return bt_chain(bt_batch_norm_layer(IN), bt_lambda("sequence", as_sequence), steps,
                    bt_dense(2, 2, NULL, bt_key(2)));
}

/* All that a run leaves: losses, then parameters, then states, as doubles. */
typedef struct result {
    double values[VALUES];
    int count;
} result;

static void add_values(result *r, bt_array *x) {
    double got[VALUES];
    x = bt_cpu(bt_cast(x, BT_F64));
    OK(bt_read(x, got, (size_t)bt_count(x) * sizeof *got));
    for (int i = 0; i < bt_count(x); i++) r->values[r->count++] = got[i];
}

static void train(result *r, bt_strategy *strategy, bt_layer *model, int64_t rows) {
    bt_optimizer *optimizer = bt_sgd(0.05);
    for (int i = 0; i < STEPS; i++)
        BT_SCOPE {
            bt_array *x = bt_normal(bt_key(10 + i), BT_F32, rows, IN), *y = bt_normal(bt_key(20 + i), BT_F32, rows, 2);
            add_values(r, BT_CHECK(bt_train_step(strategy, model, optimizer, squared, NULL, bt_add(x, 2), y)));
        }
    bt_shared *all[2 * MOST];
    int count = bt_parameters(model, all, MOST);
    count += bt_states(model, all + count, MOST);
    for (int i = 0; i < count; i++)
        for (int replica = 0; replica < bt_strategy_count(strategy); replica++) {
            result own = {.count = 0};
            if (strategy) {
                BT_REPLICA(strategy, replica) add_values(&own, bt_value(all[i]));
            } else
                add_values(&own, bt_value(all[i]));
            if (replica)
                assert_memory_equal(own.values, r->values + r->count - own.count, (size_t)own.count * sizeof(double));
            else
                for (int k = 0; k < own.count; k++) r->values[r->count++] = own.values[k];
        }
}

/* devices 0: without a strategy. */
static result run(int devices, bool exact, bt_layer *make(void), int64_t rows) {
    char settings[64];
    result r = {.count = 0};
    snprintf(settings, sizeof settings, "devices=sim:gpu*%d", devices ? devices : 1);
    fresh(settings);
    BT_SCOPE {
        bt_strategy *strategy = devices ? bt_mirrored(NULL, 0) : NULL;
        if (exact) OK(bt_strategy_set_exact(strategy, true));
        bt_layer *model = NULL;
        BT_STRATEGY(strategy) model = make();
        train(&r, strategy, model, rows);
    }
    assert_int_equal(bt_live_arrays(), 0);
    return r;
}

static void expect_close(const result *a, const result *b, double most) {
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        if (!(fabs(a->values[i] - b->values[i]) <= most * (1 + fabs(b->values[i]))))
            fail_msg("value %d of %d: %.9g and %.9g", i, a->count, a->values[i], b->values[i]);
}

static void the_same_bits_on_any_number_of_devices(void **state) {
    (void)state;
    result one = run(1, true, make_model, ROWS);
    for (int devices = 2; devices <= 8; devices *= 2) {
        result more = run(devices, true, make_model, ROWS);
        assert_int_equal(one.count, more.count);
        assert_memory_equal(one.values, more.values, (size_t)one.count * sizeof(double));
    }
    result odd = run(1, true, make_model, 13), odd_more = run(4, true, make_model, 13);
    assert_memory_equal(odd.values, odd_more.values, (size_t)odd.count * sizeof(double));
}

/* A mirrored step is the step of one device, but for rounding: the statistics are those of the whole batch, the masks those of its rows. */
static void as_on_one_device(void **state) {
    (void)state;
    result alone = run(0, false, make_model, ROWS);
    result more = run(4, false, make_model, ROWS), exact = run(2, true, make_model, ROWS);
    expect_close(&more, &alone, 2e-4);
    expect_close(&exact, &alone, 2e-4);
    result odd = run(0, false, make_model, 7), odd_more = run(3, false, make_model, 7);
    expect_close(&odd_more, &odd, 2e-4);
}

static void deep_models(void **state) {
    (void)state;
    for (int block = 0; block < 2; block++) {
        in_block = block;
        result alone = run(0, false, make_deep_model, ROWS), more = run(4, false, make_deep_model, ROWS);
        expect_close(&more, &alone, 1e-3);
        result one = run(1, true, make_deep_model, ROWS), eight = run(8, true, make_deep_model, ROWS);
        assert_int_equal(one.count, eight.count);
        assert_memory_equal(one.values, eight.values, (size_t)one.count * sizeof(double));
    }
    in_block = false;
    result alone = run(0, false, make_loop_model, ROWS), more = run(3, false, make_loop_model, ROWS);
    expect_close(&more, &alone, 1e-3);
}

/* --- dropout ------------------------------------------------------------------------------------------------------------ */

static bt_array *drop(bt_layer *layer, bt_array *x) {
    bt_array *y = NULL;
    BT_TRAINING(true) y = bt_apply(layer, x);
    return y;
}

static void dropout(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 100, 50);
        bt_layer *layer = bt_dropout_layer(0.25, bt_key(3));
        assert_false(bt_is_training());
        assert_true(bt_item(bt_all(bt_eq(bt_apply(layer, x), x))));
        bt_array *first = drop(layer, x), *second = drop(layer, x);
        double kept = bt_item(bt_mean(bt_cast(bt_gt(first, 0), BT_F32)));
        assert_true(kept > 0.73 && kept < 0.77);
        assert_true(fabs(bt_item(bt_max(first)) - 4.0 / 3) < 1e-6);
        double alike = bt_item(bt_mean(bt_cast(bt_eq(first, second), BT_F32)));
        assert_true(alike > 0.55 && alike < 0.7); /* 0.625 */
        bt_shared *states[2];
        assert_int_equal(bt_states(layer, states, 2), 2);
        assert_string_equal(bt_shared_name(states[1]), "steps");
        READS(bt_value(states[1]), 2);
        bt_layer *again = bt_dropout_layer(0.25, bt_key(3));
        assert_true(bt_item(bt_all(bt_eq(drop(again, x), first))));
        /* a row's mask does not depend on which rows follow */
        bt_layer *fewer = bt_dropout_layer(0.25, bt_key(3));
        bt_array *part = bt_slice_axis(x, 0, 0, 7, 1);
        assert_true(bt_item(bt_all(bt_eq(drop(fewer, part), bt_slice_axis(first, 0, 0, 7, 1)))));
        assert_true(bt_item(bt_all(bt_eq(drop(bt_dropout_layer(0, bt_key(3)), x), x))));
        assert_true(bt_item(bt_sum(drop(bt_dropout_layer(1, bt_key(3)), x))) == 0);
        bt_array *gradient = bt_grad1(bt_sum(drop(bt_dropout_layer(0.25, bt_key(3)), x)), x);
        assert_true(bt_item(bt_all(bt_eq(gradient, first))));
        BT_TRAINING(true) {
            BT_TRAINING(false) assert_false(bt_is_training());
            assert_true(bt_is_training());
        }
        assert_false(bt_is_training());
    }
}

/* In a function with a batch of unknown size, whose updates count the steps. */
static void in_functions(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_layer *model = bt_chain(bt_batch_norm_layer(3), bt_dropout_layer(0.5, bt_key(1)));
        bt_array *x = bt_input(BT_F32, -1, 3), *y = NULL;
        BT_TRAINING(true) {
            POISONED(bt_apply(model, x), BT_FAILED_PRECONDITION, "BT_STATE_UPDATES");
            POISONED(bt_apply(bt_layer_child(model, 1), x), BT_FAILED_PRECONDITION, "BT_STATE_UPDATES");
        }
        bt_update list[8];
        bt_state_updates updates = {list, 8, 0};
        BT_TRAINING(true) BT_STATE_UPDATES(&updates) y = bt_apply(model, x);
        assert_int_equal(updates.count, 4);
        bt_function *f = BT_CHECK(bt_function_new(&x, 1, &y, 1, updates.list, updates.count));
        bt_array *argument = bt_normal(bt_key(2), BT_F32, 40, 3), *first = NULL, *second = NULL;
        first = bt_call1(f, &argument, 1);
        second = bt_call1(f, &argument, 1);
        assert_false(bt_item(bt_all(bt_eq(first, second))));
        bt_shared *states[5];
        assert_int_equal(bt_states(model, states, 5), 5);
        READS(bt_value(states[2]), 2);
        READS(bt_value(states[4]), 2);
        /* as by hand */
        bt_layer *same = bt_chain(bt_batch_norm_layer(3), bt_dropout_layer(0.5, bt_key(1)));
        bt_array *expected = drop(same, argument);
        assert_true(bt_item(bt_max(bt_abs(bt_sub(expected, first)))) < 1e-6);
        bt_state_updates none = {list, 3, 0};
        bt_error_clear();
        BT_TRAINING(true) BT_STATE_UPDATES(&none) y = bt_apply(model, x);
        assert_int_equal(none.count, 4);
        FAILS(bt_error_status(), BT_OUT_OF_RANGE, "4 states were set, the list has room for 3");
    }
}

/* --- what fails ------------------------------------------------------------------------------------------------------------ */

static bt_array *poisoned(bt_layer *layer, const char *name, bt_array *gradient, void *data) {
    (void)layer;
    (void)gradient;
    return strcmp(name, data) ? NULL : bt_reshape(bt_f32(1), 7);
}

static bt_array *fails_for_some(bt_layer *model, bt_array *x, bt_array *y, void *calls) {
    bt_array *loss = squared(model, x, y, NULL);
    return ++*(int *)calls == 2 ? bt_reshape(loss, 5) : loss;
}

static bt_array *reads(bt_layer *model, bt_array *x, bt_array *y, void *got) {
    bt_array *loss = squared(model, x, y, NULL);
    *(double *)got = bt_item(loss);
    return loss;
}

static void expect_first_state(bt_layer *model) {
    bt_shared *states[MOST];
    int count = bt_states(model, states, MOST);
    assert_int_equal(count, 10);
    for (int i = 0; i < count; i++) {
        const char *name = bt_shared_name(states[i]);
        if (strstr(name, "steps") || strstr(name, "tracked")) READS(bt_value(states[i]), 0);
        if (strstr(name, "running_var")) READS(bt_value(states[i]), 1, 1, 1, 1, 1, 1, 1, 1);
    }
}

static void a_failed_step_changes_no_state(void **state) {
    (void)state;
    for (int devices = 1; devices <= 4; devices += 3) {
        fresh(devices == 1 ? "" : "devices=sim:gpu*4");
        BT_SCOPE {
            bt_strategy *strategy = devices == 1 ? NULL : bt_mirrored(NULL, 0);
            bt_layer *model = NULL;
            BT_STRATEGY(strategy) model = make_model();
            bt_array *x = bt_ones(BT_F32, ROWS, IN), *y = bt_ones(BT_F32, ROWS, 2);
            bt_optimizer *optimizer = bt_sgd(0.1);
            OK(bt_layer_gradient_hook(model, poisoned, "4.bias"));
            POISONED(bt_train_step(strategy, model, optimizer, squared, NULL, x, y), BT_INVALID_ARGUMENT, "bt_reshape");
            OK(bt_layer_gradient_hook(model, NULL, NULL));
            int calls = strategy ? 0 : 1;
            POISONED(bt_train_step(strategy, model, optimizer, fails_for_some, &calls, x, y), BT_INVALID_ARGUMENT,
                     "bt_reshape");
            expect_first_state(model);
            OK(bt_block(bt_train_step(strategy, model, optimizer, squared, NULL, x, y)));
            bt_shared *states[MOST];
            bt_states(model, states, MOST);
            READS(bt_value(states[2]), 1);
            /* means over several parts are not known while the loss is recorded */
            double got = 0;
            bt_error_clear();
            bt_array *loss = bt_train_step(strategy, model, optimizer, reads, &got, x, y);
            if (strategy) FAILS(bt_error_status(), BT_FAILED_PRECONDITION, "bt_item");
            assert_int_equal(isnan(got), strategy != NULL);
            OK(bt_block(loss));
        }
        assert_int_equal(bt_live_arrays(), 0);
    }
}

static bt_array *mean_of_some(bt_layer *model, bt_array *x, bt_array *y, void *calls) {
    if (++*(int *)calls == 1) x = bt_batch_mean(x);
    return squared(model, bt_broadcast_to(bt_mean(x, BT_AXES(0), true), 6, IN), y, NULL);
}

static void means_must_be_alike(void **state) {
    (void)state;
    fresh("devices=sim:gpu*4");
    BT_SCOPE {
        bt_strategy *strategy = bt_mirrored(NULL, 0);
        bt_layer *model = NULL;
        int calls = 0;
        BT_STRATEGY(strategy) model = bt_dense(IN, 2, NULL, bt_key(1));
        bt_array *x = bt_ones(BT_F32, ROWS, IN), *y = bt_ones(BT_F32, ROWS, 2);
        POISONED(bt_train_step(strategy, model, bt_sgd(1), mean_of_some, &calls, x, y), BT_INVALID_ARGUMENT,
                 "bt_batch_mean was called with other arrays");
        READS(bt_batch_mean(bt_f32(3)), 3);
    }
}

/* --- files, hooks, fit -------------------------------------------------------------------------------------------------------- */

static void saved_and_gone_on_with(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    const char *path = BERTH_BUILD_DIR "/tests/layers_training.safetensors";
    BT_SCOPE {
        bt_strategy *strategy = bt_mirrored(NULL, 0);
        bt_layer *model = NULL, *other = NULL;
        BT_STRATEGY(strategy) model = make_model(), other = make_model();
        result r = {.count = 0}, a = {.count = 0}, b = {.count = 0};
        train(&r, strategy, model, ROWS);
        OK(bt_save_model(path, model));
        OK(bt_load_model(path, other));
        train(&a, strategy, model, ROWS);
        train(&b, strategy, other, ROWS);
        assert_int_equal(a.count, b.count);
        assert_memory_equal(a.values, b.values, (size_t)a.count * sizeof(double));
        bt_layer *there = bt_layer_cpu(model);
        bt_shared *states[MOST];
        assert_int_equal(bt_states(there, states, MOST), 10);
        assert_string_equal(bt_shared_name(states[0]), "1.running_mean");
        assert_string_equal(bt_device_name(bt_device_of(bt_value(states[0]))), "CPU:0");
        READS(bt_value(states[2]), 6);
    }
    assert_int_equal(remove(path), 0);
}

/* A file without states of integers can be loaded, one without floats cannot. */
static void files_may_lack_counts(void **state) {
    (void)state;
    fresh("");
    const char *path = BERTH_BUILD_DIR "/tests/layers_lacking.safetensors";
    BT_SCOPE {
        bt_layer *model = bt_chain(bt_batch_norm_layer(1), bt_dropout_layer(0.5, bt_key(7)));
        bt_array *values[4];
        const char *names[] = {"0.weight", "0.bias", "0.running_mean", "0.running_var"};
        for (int i = 0; i < 4; i++) values[i] = bt_full(i + 2, BT_F32, 1);
        OK(bt_save(path, names, values, 4, NULL));
        OK(bt_load_model(path, model));
        bt_shared *states[5];
        bt_states(model, states, 5);
        READS(bt_value(states[1]), 5);
        READS(bt_value(states[2]), 0);
        OK(bt_save(path, names, values, 3, NULL));
        FAILS(bt_load_model(path, model), BT_INVALID_ARGUMENT, "missing in the file: \"0.running_var\"");
    }
    assert_int_equal(remove(path), 0);
}

static bt_array *doubled(bt_layer *layer, bt_array *output, void *seen) {
    (void)layer;
    ++*(int *)seen;
    return bt_mul(output, 2);
}
static bt_array *clipped(bt_layer *layer, const char *name, bt_array *gradient, void *names) {
    (void)layer;
    strcat(strcat(names, name), " ");
    return bt_zeros_like(gradient);
}

static void hooks(void **state) {
    (void)state;
    fresh("");
    BT_SCOPE {
        bt_layer *first = bt_dense_from(bt_ones(BT_F32, 1, 1), NULL, NULL), *second = bt_dense(1, 1, NULL, bt_key(1));
        bt_layer *model = bt_chain(first, second);
        int seen = 0;
        char names[64] = "";
        OK(bt_layer_hook(first, doubled, &seen));
        READS(bt_apply(first, bt_ones(BT_F32, 1, 1)), 2);
        READS(bt_apply(bt_layer_cpu(first), bt_ones(BT_F32, 1, 1)), 2);
        assert_int_equal(seen, 2);
        OK(bt_layer_gradient_hook(second, clipped, names));
        bt_shared *p[3];
        assert_int_equal(bt_parameters(model, p, 3), 3);
        double before = bt_item(bt_value(p[1]));
        bt_array *x = bt_ones(BT_F32, 4, 1);
        OK(bt_block(bt_train_step(NULL, model, bt_sgd(0.5), squared, NULL, x, bt_mul(x, 9))));
        assert_string_equal(names, "1.weight 1.bias ");
        assert_true(bt_item(bt_value(p[1])) == before);
        assert_true(bt_item(bt_value(p[0])) != 1);
        OK(bt_layer_hook(first, NULL, NULL));
        bt_shared *w;
        bt_parameters(first, &w, 1);
        OK(bt_set(w, bt_ones(BT_F32, 1, 1)));
        READS(bt_apply(first, bt_ones(BT_F32, 1, 1)), 1);
    }
}

static void fitted(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_strategy *strategy = bt_mirrored(NULL, 0);
        bt_layer *model = NULL;
        BT_STRATEGY(strategy)
            model = bt_chain(bt_dense(2, 16, NULL, bt_key(1)), bt_batch_norm_layer(16), bt_lambda(NULL, bt_relu),
                             bt_dropout_layer(0.1, bt_key(3)), bt_dense(16, 2, NULL, bt_key(2)));
        bt_array *x = bt_uniform_in(bt_key(0), -1, 1, BT_F32, 512, 2);
        bt_array *y = bt_cast(bt_gt(bt_prod(x, .axes = BT_AXES(1)), 0), BT_I32);
        bt_fit_report report;
        OK(bt_fit(model, bt_adam(0.02, 0.9, 0.999, 1e-8), x, y,
                  BT_FIT_OPTIONS(.epochs = 20, .batch = 64, .strategy = strategy, .quiet = true), &report));
        assert_true(report.last_loss < 0.5 * report.first_loss);
        assert_true(bt_accuracy(model, x, y) > 0.9);
        assert_false(bt_is_training());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_on_any_number_of_devices),
        cmocka_unit_test(as_on_one_device),
        cmocka_unit_test(deep_models),
        cmocka_unit_test(dropout),
        cmocka_unit_test(in_functions),
        cmocka_unit_test(a_failed_step_changes_no_state),
        cmocka_unit_test(means_must_be_alike),
        cmocka_unit_test(saved_and_gone_on_with),
        cmocka_unit_test(files_may_lack_counts),
        cmocka_unit_test(hooks),
        cmocka_unit_test(fitted),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}

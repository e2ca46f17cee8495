// labels: threads slow-tsan
// timeout: 300
/* Training: the reference runs of golden/training.safetensors on one device and mirrored over four; the fit loop. */
#include <math.h>

#include "support/support.h"

enum { TRAIN = 1437, TEST = 360, PIXELS = 64, STEPS = 300, MOST_LAYERS = 3 };

/* --- reference runs --------------------------------------------------------------------------------------------------- */

typedef struct run {
    const char *name;
    int layers;
    bt_activation *activation;
    bt_optimizer *(*optimizer)(void);
} run;

static bt_optimizer *sgd(void) { return bt_sgd(0.1); }
static bt_optimizer *momentum(void) { return bt_momentum(0.05, 0.9); }
static bt_optimizer *adam(void) { return bt_adam(0.01, 0.9, 0.999, 1e-8); }

static const run runs[] = {
    {"sgd_relu", 2, bt_relu, sgd}, {"momentum_tanh", 3, bt_tanh, momentum}, {"adam_sigmoid", 2, bt_sigmoid, adam}};

static bt_array *digits_x, *digits_y; /* [1797, 64], [1797] */

static void load_digits(void) {
    bt_array *table = bt_load_csv(BERTH_SOURCE_DIR "/examples/data/digits.csv", BT_F32);
    digits_x = bt_div(bt_slice_axis(table, 1, 0, PIXELS, 1), bt_num(16));
    digits_y = bt_cast(bt_flatten(bt_slice_axis(table, 1, PIXELS, PIXELS + 1, 1), 0), BT_I32);
    OK(bt_eval(digits_x));
    OK(bt_eval(digits_y));
}

static bt_array *tensor(bt_tensors *file, const run *r, const char *format, int number) {
    char part[32], name[64];
    snprintf(part, sizeof part, format, number);
    snprintf(name, sizeof name, "%s.%s", r->name, part);
    return bt_tensors_get(file, name);
}

static bt_layer *initial_model(bt_tensors *file, const run *r) {
    bt_layer *layers[MOST_LAYERS];
    for (int i = 0; i < r->layers; i++)
        layers[i] = bt_dense_from(tensor(file, r, "w%d", i), tensor(file, r, "b%d", i),
                                  i + 1 < r->layers ? r->activation : NULL);
    return bt_chain_of(layers, r->layers);
}

static bt_array *mean_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    return bt_cross_entropy(bt_apply(model, x), y);
}

/* The losses before each update, recorded in a row and read at the end of every tenth. */
static void train(bt_tensors *file, const run *r, bt_strategy *strategy, bt_layer *model) {
    bt_optimizer *optimizer = r->optimizer();
    bt_array *order = tensor(file, r, "order", 0), *reference = tensor(file, r, "loss", 0), *losses[10] = {NULL};
    float theirs[STEPS], ours;
    OK(bt_read(reference, theirs, sizeof theirs));
    for (int step = 0; step < STEPS; step++) {
        BT_SCOPE {
            bt_array *rows = bt_flatten(bt_slice_axis(order, 0, step, step + 1, 1), 0);
            bt_array *loss = bt_train_step(strategy, model, optimizer, mean_loss, NULL, bt_take(digits_x, rows, 0),
                                           bt_take(digits_y, rows, 0));
            OK(bt_eval(loss));
            bt_assign(&losses[step % 10], loss);
        }
        for (int i = 0; i < 10 && step % 10 == 9; i++) {
            OK(bt_read(losses[i], &ours, sizeof ours));
            float expected = theirs[step - 9 + i];
            if (!(fabsf(ours - expected) <= 1e-4f * fabsf(expected)))
                fail_msg("%s, loss %d: %.9g, not %.9g", r->name, step - 9 + i, (double)ours, (double)expected);
        }
    }
    for (int i = 0; i < 10; i++) bt_assign(&losses[i], NULL);
}

static void check_model(bt_tensors *file, const run *r, bt_layer *model) {
    bt_shared *p[2 * MOST_LAYERS];
    assert_int_equal(bt_parameters(model, p, COUNT(p)), 2 * r->layers);
    for (int i = 0; i < 2 * r->layers; i++) {
        bt_array *theirs = tensor(file, r, i % 2 ? "final.b%d" : "final.w%d", i / 2);
        double away = bt_item(bt_max(bt_abs(bt_sub(bt_value(p[i]), theirs)), BT_ALL, false));
        if (!(away <= 1e-3)) fail_msg("%s: %s is off by %g: %s", r->name, bt_shared_name(p[i]), away, bt_error_text());
    }
    bt_array *x = bt_slice_axis(digits_x, 0, -TEST, INT64_MAX, 1), *y = bt_slice_axis(digits_y, 0, -TEST, INT64_MAX, 1);
    double expected = TEST * bt_item(tensor(file, r, "accuracy", 0)), right = TEST * bt_accuracy(model, x, y);
    if (lround(right) != lround(expected)) fail_msg("%s: %ld right, not %ld", r->name, lround(right), lround(expected));
}

static void as_the_reference(const run *r, const char *settings) {
    fresh(settings);
    BT_SCOPE {
        bt_tensors *file = NULL;
        OK(bt_tensors_open(BERTH_SOURCE_DIR "/tests/golden/training.safetensors", &file));
        load_digits();
        bt_strategy *strategy = *settings ? bt_mirrored(NULL, 0) : NULL;
        assert_int_equal(bt_strategy_count(strategy), *settings ? 4 : 1);
        bt_layer *model = NULL;
        BT_STRATEGY(strategy) model = initial_model(file, r);
        assert_non_null(model);
        train(file, r, strategy, model);
        check_model(file, r, model);
        bt_tensors_close(file);
    }
}

static void sgd_relu(void **state) { as_the_reference(&runs[0], ""); }
static void momentum_tanh(void **state) { as_the_reference(&runs[1], ""); }
static void adam_sigmoid(void **state) { as_the_reference(&runs[2], ""); }
static void sgd_relu_mirrored(void **state) { as_the_reference(&runs[0], "devices=sim:gpu*4"); }
static void momentum_tanh_mirrored(void **state) { as_the_reference(&runs[1], "devices=sim:gpu*4"); }
static void adam_sigmoid_mirrored(void **state) { as_the_reference(&runs[2], "devices=sim:gpu*4"); }

/* --- the fit loop ----------------------------------------------------------------------------------------------------- */

static bt_layer *new_model(void) {
    return bt_chain(bt_dense(PIXELS, 32, bt_relu, bt_key(1)), bt_dense(32, 10, NULL, bt_key(2)));
}

static bt_array *train_x(void) { return bt_slice_axis(digits_x, 0, 0, TRAIN, 1); }
static bt_array *train_y(void) { return bt_slice_axis(digits_y, 0, 0, TRAIN, 1); }

static double fitted(bt_fit_options options, bt_fit_report *report, double *accuracy) {
    bt_layer *model = NULL;
    BT_STRATEGY(options.strategy) model = new_model();
    OK(bt_fit(model, bt_momentum(0.1, 0.9), train_x(), train_y(), &options, report));
    bt_shared *p[4];
    bt_parameters(model, p, 4);
    if (accuracy)
        *accuracy = bt_accuracy(model, bt_slice_axis(digits_x, 0, -TEST, INT64_MAX, 1),
                                bt_slice_axis(digits_y, 0, -TEST, INT64_MAX, 1));
    return bt_item(bt_sum(bt_abs(bt_value(p[0])), BT_ALL, false));
}

static void learns_the_digits(void **state) {
    fresh("");
    BT_SCOPE {
        load_digits();
        bt_fit_report report, mirrored;
        double accuracy = 0, accuracy_mirrored = 0;
        fitted((bt_fit_options){BT_FIT_INIT, .epochs = 8, .batch = 64, .quiet = true}, &report, &accuracy);
        assert_int_equal(report.steps, 8 * 23);
        if (!(report.first_loss < 2 && report.last_loss < 0.1))
            fail_msg("%g to %g", report.first_loss, report.last_loss);
        assert_true(accuracy > 0.9);
        assert_true(report.seconds > 0);

        fresh_end(state);
        fresh("devices=sim:gpu*4");
        load_digits();
        bt_strategy *four = bt_mirrored(NULL, 0);
        fitted((bt_fit_options){BT_FIT_INIT, .epochs = 8, .batch = 64, .strategy = four}, &mirrored,
               &accuracy_mirrored);
        assert_true(fabs(mirrored.first_loss - report.first_loss) < 1e-4 * report.first_loss);
        assert_true(fabs(mirrored.last_loss - report.last_loss) < 0.05 * report.last_loss);
        assert_true(fabs(accuracy - accuracy_mirrored) < 0.02);
    }
}

/* The same seed, the same rows in the same order; without shuffling the rows as they are. */
static void order_of_rows(void **state) {
    fresh("");
    BT_SCOPE {
        load_digits();
        bt_fit_options options = {BT_FIT_INIT, .epochs = 1, .batch = 500, .quiet = true};
        double first = fitted(options, NULL, NULL), again = fitted(options, NULL, NULL);
        assert_true(first == again);
        options.seed = 1;
        assert_true(fitted(options, NULL, NULL) != first);
        options.in_order = true;
        double in_order = fitted(options, NULL, NULL);

        bt_layer *model = new_model();
        bt_optimizer *optimizer = bt_momentum(0.1, 0.9);
        for (int64_t start = 0; start < TRAIN; start += 500)
            BT_SCOPE {
                int64_t stop = start + 500 < TRAIN ? start + 500 : TRAIN;
                OK(bt_block(bt_train_step(NULL, model, optimizer, mean_loss, NULL,
                                          bt_slice_axis(digits_x, 0, start, stop, 1),
                                          bt_slice_axis(digits_y, 0, start, stop, 1))));
            }
        bt_shared *p[4];
        bt_parameters(model, p, 4);
        assert_true(bt_item(bt_sum(bt_abs(bt_value(p[0])), BT_ALL, false)) == in_order);
    }
}

static size_t peak_of_fit(bt_layer *model, bt_optimizer *optimizer, bt_array *x, bt_array *y, int epochs) {
    bt_fit_options options = {BT_FIT_INIT, .epochs = epochs, .batch = 8, .quiet = true};
    bt_memory_reset_peak(device("gpu:0"));
    OK(bt_fit(model, optimizer, x, y, &options, NULL));
    return memory("gpu:0").peak;
}

/* Memory does not grow with the steps: nothing of earlier ones is kept. */
static void memory_stays(void **state) {
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(0), BT_F32, 1024, 256), *y = bt_zeros(BT_I32, 1024);
        bt_layer *model = bt_dense(256, 64, NULL, bt_key(1));
        bt_optimizer *optimizer = bt_sgd(0.01);
        bt_array *few = bt_slice_axis(x, 0, 0, 256, 1), *few_y = bt_slice_axis(y, 0, 0, 256, 1);
        OK(bt_block(few));
        OK(bt_block(few_y));
        peak_of_fit(model, optimizer, x, y, 1);
        size_t short_fit = peak_of_fit(model, optimizer, few, few_y, 1),
               long_fit = peak_of_fit(model, optimizer, x, y, 2);
        if (long_fit > short_fit + 2 * MIB) /* some steps run ahead; 256 versions of the weights are 16 MiB */
            fail_msg("%zu bytes in 32 steps, %zu in 256", short_fit, long_fit);
    }
}

static bt_array *poison_later(bt_layer *model, bt_array *x, bt_array *y, void *calls) {
    return ++*(int *)calls > 2 ? bt_reshape(x, 999) : mean_loss(model, x, y, NULL);
}

static void refusals(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 10, 4), *y = bt_zeros(BT_I32, 10);
        bt_layer *model = bt_dense(4, 3, NULL, bt_key(0));
        bt_optimizer *optimizer = bt_sgd(0.1);
        bt_fit_report report;
        FAILS(bt_fit(NULL, optimizer, x, y, NULL, NULL), BT_INVALID_ARGUMENT, "bt_fit: the model is NULL");
        FAILS(bt_fit(model, NULL, x, y, NULL, NULL), BT_INVALID_ARGUMENT, "optimiser is NULL");
        FAILS(bt_fit(model, optimizer, NULL, y, NULL, NULL), BT_INVALID_ARGUMENT, "x is NULL");
        FAILS(bt_fit(model, optimizer, x, bt_reshape(y, 3), NULL, NULL), BT_INVALID_ARGUMENT, "bt_reshape");
        FAILS(bt_fit(model, optimizer, x, bt_zeros(BT_I32, 9), NULL, NULL), BT_INVALID_ARGUMENT, "10 rows", "9");
        FAILS(bt_fit(model, optimizer, bt_zeros(BT_F32, 0, 4), bt_zeros(BT_I32, 0), NULL, NULL), BT_INVALID_ARGUMENT,
              "0 rows");
        bt_fit_options options = {BT_FIT_INIT, .epochs = -1};
        FAILS(bt_fit(model, optimizer, x, y, &options, NULL), BT_INVALID_ARGUMENT, "epochs");
        options = (bt_fit_options){BT_FIT_INIT, .batch = 2, .loss = poison_later, .loss_data = &(int){0},
                                   .record_each = true};
        FAILS(bt_fit(model, optimizer, x, y, &options, &report), BT_INVALID_ARGUMENT,
              "training_test.c:", "bt_reshape: (2, 4)");
        assert_int_equal(report.steps, 2);
        OK(bt_fit(model, optimizer, x, y, NULL, &report));
        assert_int_equal(report.steps, 1);

        assert_true(isnan(bt_accuracy(NULL, x, y)));
        SAYS(bt_error_text(), "the model is NULL");
        assert_true(isnan(bt_accuracy(model, x, NULL)));
        SAYS(bt_error_text(), "y is NULL");
        assert_true(isnan(bt_accuracy(model, x, bt_zeros(BT_I32, 10, 1))));
        SAYS(bt_error_text(), "[N, C] and [N]");
        assert_true(isnan(bt_accuracy(model, bt_ones(BT_F32, 10, 5), y)));
        SAYS(bt_error_text(), "(10, 5) and the weight (4, 3) do not fit");
        assert_true(
            bt_accuracy(bt_lambda("x", bt_identity), bt_eye(4, 4, BT_F32), BT_ARRAY(int32_t, (4), 0, 1, 3, 3)) == 0.75);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_relu),
        cmocka_unit_test(momentum_tanh),
        cmocka_unit_test(adam_sigmoid),
        cmocka_unit_test(sgd_relu_mirrored),
        cmocka_unit_test(momentum_tanh_mirrored),
        cmocka_unit_test(adam_sigmoid_mirrored),
        cmocka_unit_test(learns_the_digits),
        cmocka_unit_test(order_of_rows),
        cmocka_unit_test(memory_stays),
        cmocka_unit_test(refusals),
    };
    enum { REFERENCE_RUNS = 6, LAST_RUN = REFERENCE_RUNS - 1 };
    int first = getenv("BERTH_TEST_SHORT") ? LAST_RUN : 0; /* of the reference runs the last one */
    return _cmocka_run_group_tests("training", tests + first, sizeof tests / sizeof *tests - (size_t)first, NULL,
                                   fresh_end);
}

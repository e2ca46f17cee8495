// labels: valgrind
// timeout: 600
/* The training loop: metrics, validation, early stop, callbacks, checkpoints and exact resume, reports, failures. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/powercap.h"
#include "support/support.h"

enum { ROWS = 96, INPUTS = 6, CLASSES = 3 };

static char folder[64];

static int start(void **state) {
    fresh("devices=sim:gpu*4");
    snprintf(folder, sizeof folder, "/tmp/berth-fit-test-XXXXXX");
    return !mkdtemp(folder);
}
static int end(void **state) {
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

static const char *path_of(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* --- a small problem ----------------------------------------------------------------------------------------------------- */

static bt_array *rows_x(int64_t rows) { return bt_normal(bt_key(1), BT_F32, rows, INPUTS); }
static bt_array *rows_y(bt_array *x) {
    return bt_cast(bt_argmax(bt_matmul(x, bt_normal(bt_key(2), BT_F32, INPUTS, CLASSES)), 1), BT_I32);
}

/* With states, and with randomness that must go on. */
static bt_layer *make_model(void) {
    bt_array *keys = bt_split(bt_key(3), 3);
    return bt_chain(bt_dense(INPUTS, 8, bt_relu, bt_split_at(keys, 0)), bt_batch_norm_layer(8),
                    bt_dropout_layer(0.25, bt_split_at(keys, 1)), bt_dense(8, CLASSES, NULL, bt_split_at(keys, 2)));
}

static bt_optimizer *make_optimizer(void) {
    bt_optimizer *o = bt_adamw(0.02, .clip_norm = 1);
    OK(bt_optimizer_schedule(o, BT_SCHEDULE_COSINE, .steps = 40, .warmup = 4));
    return o;
}

typedef struct trail {
    int epochs, steps;
    double losses[64], judged[64], metrics[64];
    int64_t stop_at; /* steps; 0: never */
} trail;

static bt_status follow(bt_fit_event *event, void *data) {
    trail *t = data;
    assert_int_equal(event->size, sizeof *event);
    if (event->kind == BT_FIT_STEP) {
        t->steps++;
        if (event->steps == t->stop_at) event->stop = true;
        return BT_OK;
    }
    t->losses[event->epoch] = event->loss;
    t->judged[event->epoch] = event->validation_loss;
    t->metrics[event->epoch] = event->metric_count ? event->metrics[0] : NAN;
    t->epochs++;
    return BT_OK;
}

/* The numbers that a run comes to: what the model gives. */
static double outcome(bt_layer *model, bt_array *x) { return bt_item(bt_sum(bt_square(bt_apply(model, x)))); }

/* --- metrics ------------------------------------------------------------------------------------------------------------- */

static bt_array *same(bt_layer *layer, bt_array *x, void *unused) { return x; }

static bt_array *bias_sums(bt_array *output, bt_array *y, void *data) {
    ++*(int *)data;
    return bt_reshape(bt_sum(bt_sub(output, y)), 1);
}
static double bias_value(const double *sums, int64_t count, void *data) { return sums[0]; }
static bt_array *no_sums(bt_array *output, bt_array *y, void *data) { return NULL; }
static bt_array *wrong_sums(bt_array *output, bt_array *y, void *data) { return bt_matmul(output, output); }

static void metrics_by_hand(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *identity = bt_layer_new("Same", same);
        bt_array *x = BT_ARRAY(float, (5, 3), 3, 1, 0, 0, 2, 1, 0, 1, 5, 4, 1, 0, 1, 2, 0);
        bt_array *y = BT_ARRAY(int32_t, (5), 0, 2, 2, 1, 1);
        bt_metric metrics[] = {bt_metric_accuracy(), bt_metric_top_k(2), bt_metric_f1(), bt_metric_perplexity()};
        double values[4];
        for (int64_t batch = 1; batch <= 6; batch++) { /* the same however rows are cut */
            OK(bt_evaluate(identity, x, y, metrics, 4, values, batch));
            assert_true(fabs(values[0] - 0.6) < 1e-12);
            assert_true(fabs(values[1] - 1) < 1e-12);
            assert_true(fabs(values[2] - (2. / 3 + 0.5 + 2. / 3) / 3) < 1e-6);
            double entropy = bt_item(bt_cast(bt_cross_entropy(x, y), BT_F64));
            assert_true(fabs(values[3] - exp(entropy)) < 1e-4);
        }
        bt_array *a = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *b = BT_ARRAY(float, (2, 2), 0, 2, 5, 4);
        bt_metric errors[] = {bt_metric_mse(), bt_metric_mae()};
        OK(bt_evaluate(identity, a, b, errors, 2, values, 0));
        assert_true(fabs(values[0] - 1.25) < 1e-6 && fabs(values[1] - 0.75) < 1e-6);
        int calls = 0;
        bt_metric own = {.name = "bias", .sums = bias_sums, .value = bias_value, .data = &calls};
        OK(bt_evaluate(identity, a, b, &own, 1, values, 1));
        assert_true(values[0] == -1 && calls == 2);
        assert_string_equal(bt_metric_top_k(5).name, "top-5");
        assert_string_equal(bt_metric_top_k(77).name, "top-k");
    }
}

static void metrics_that_cannot_be(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *identity = bt_layer_new("Same", same);
        bt_array *x = bt_ones(BT_F32, 4, 2);
        bt_metric nameless = {.sums = bias_sums, .value = bias_value}, half = {.name = "half", .sums = bias_sums},
                  none = {.name = "none", .sums = no_sums, .value = bias_value},
                  wrong = {.name = "wrong", .sums = wrong_sums, .value = bias_value}, good = bt_metric_mse();
        double values[40];
        FAILS(bt_evaluate(identity, x, x, &nameless, 1, values, 0), BT_INVALID_ARGUMENT, "metric 0 has no name");
        FAILS(bt_evaluate(identity, x, x, &half, 1, values, 0), BT_INVALID_ARGUMENT, "value");
        FAILS(bt_evaluate(identity, x, x, &none, 1, values, 0), BT_INVALID_ARGUMENT, "\"none\" gave NULL");
        FAILS(bt_evaluate(identity, x, x, &wrong, 1, values, 0), BT_INVALID_ARGUMENT, "\"wrong\"");
        assert_true(isnan(values[0]));
        bt_array *column = bt_zeros(BT_I32, 4, 1), *row = bt_zeros(BT_F32, 4);
        bt_metric classes[] = {bt_metric_accuracy(), bt_metric_top_k(1), bt_metric_f1(), bt_metric_perplexity()};
        for (int m = 0; m < 4; m++) /* which would broadcast to [4, 4] */
            FAILS(bt_evaluate(identity, x, column, &classes[m], 1, values, 0), BT_INVALID_ARGUMENT, "(4, 1)");
        FAILS(bt_evaluate(identity, bt_ones(BT_F32, 4, 1), row, &good, 1, values, 0), BT_INVALID_ARGUMENT, "one shape");
        FAILS(bt_evaluate(identity, x, x, &good, 33, values, 0), BT_INVALID_ARGUMENT, "up to 32");
        FAILS(bt_evaluate(identity, x, x, NULL, 1, values, 0), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_evaluate(identity, x, x, &good, 1, NULL, 0), BT_INVALID_ARGUMENT, "figures");
        FAILS(bt_evaluate(identity, x, x, &good, 1, values, -1), BT_INVALID_ARGUMENT, "-1 rows");
        FAILS(bt_evaluate(identity, x, bt_ones(BT_F32, 3, 2), &good, 1, values, 0), BT_INVALID_ARGUMENT,
              "4 rows and y 3");
        FAILS(bt_evaluate(NULL, x, x, &good, 1, values, 0), BT_INVALID_ARGUMENT, "model is NULL");
        FAILS(bt_evaluate(identity, x, bt_ones(BT_F32, 4, 3), &good, 1, values, 0), BT_INVALID_ARGUMENT, "\"mse\"",
              "(4, 3)");
        FAILS(bt_evaluate(bt_dense(3, 3, NULL, bt_key(0)), x, x, &good, 1, values, 0), BT_INVALID_ARGUMENT,
              "do not fit");
    }
}

/* --- steps --------------------------------------------------------------------------------------------------------------- */

static int recorded;
static bt_array *counted_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    recorded++;
    return bt_cross_entropy(bt_apply(model, x), y);
}
static bt_array *reading_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    bt_array *loss = counted_loss(model, x, y, data);
    float first;
    return bt_read(bt_reshape(bt_slice_axis(bt_flatten(x, 0), 0, 0, 1, 1), 1), &first, sizeof first) == BT_OK &&
                   first > 1e9f
               ? NULL
               : loss;
}

/* The same bits, whether each step is recorded or the loss once. */
static void recorded_once(void **state) {
    fresh("");
    double outcomes[3];
    for (int way = 0; way < 3; way++) {
        BT_SCOPE {
            bt_layer *model = make_model();
            bt_array *x = rows_x(ROWS + 5), *y = rows_y(x);
            bt_fit_report report;
            recorded = 0;
            OK(bt_fit(model, make_optimizer(), x, y,
                      BT_FIT_OPTIONS(.epochs = 3, .batch = 16, .quiet = true, .record_each = way == 1,
                                     .loss = way == 2 ? reading_loss : counted_loss),
                      &report));
            assert_int_equal(report.steps, 21);
            if (way == 0) assert_int_equal(recorded, 2); /* the last batch of an epoch is smaller */
            if (way == 1) assert_int_equal(recorded, 21);
            outcomes[way] = outcome(model, x);
        }
    }
    assert_true(outcomes[0] == outcomes[1] && outcomes[0] == outcomes[2]);
}

static void steps_that_fail(void **state) {
    int failed = 0;
    for (int n = 1; n <= 60; n++) {
        char fault[64];
        snprintf(fault, sizeof fault, "devices=sim:gpu*1,sim_fault=launch:%d", n);
        fresh(fault);
        BT_SCOPE {
            bt_layer *model = NULL;
            bt_array *x = NULL, *y = NULL;
            BT_ON("cpu") x = rows_x(32), y = rows_y(x);
            BT_ON("cpu") model = make_model();
            bt_layer *there = bt_layer_gpu(model);
            if (bt_layer_status(there) == BT_OK) {
                bt_status status =
                    bt_fit(there, make_optimizer(), x, y, BT_FIT_OPTIONS(.batch = 8, .quiet = true), NULL);
                failed += status != BT_OK;
                if (status != BT_OK) SAYS(bt_error_text(), "sim_fault");
            }
        }
        fresh("");
    }
    assert_true(failed > 20);
}

/* --- validation, early stop ---------------------------------------------------------------------------------------------- */

static void validation_is_inference(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *model = make_model();
        bt_array *x = rows_x(ROWS), *y = rows_y(x), *vx = bt_mul(rows_x(40), -1), *vy = rows_y(vx);
        bt_metric metrics[] = {bt_metric_accuracy()};
        trail t = {0};
        OK(bt_fit(model, make_optimizer(), x, y,
                  BT_FIT_OPTIONS(.epochs = 4, .batch = 16, .quiet = true, .validation_x = vx, .validation_y = vy,
                                 .metrics = metrics, .metric_count = 1, .callback = follow, .callback_data = &t),
                  NULL));
        double accuracy, loss = bt_item(bt_cross_entropy(bt_apply(model, vx), vy));
        OK(bt_evaluate(model, vx, vy, metrics, 1, &accuracy, 0));
        assert_true(fabs(t.judged[3] - loss) < 1e-6);
        assert_true(t.metrics[3] == accuracy && t.metrics[3] == bt_accuracy(model, vx, vy));
        assert_int_equal(t.epochs, 4);
    }
}

/* The loss of a validation on other labels grows: the run ends, with the model of the best epoch. */
static void early_stop(void **state) {
    fresh("");
    for (int saved = 0; saved < 2; saved++) {
        BT_SCOPE {
            bt_layer *model = make_model();
            bt_array *x = rows_x(ROWS), *y = rows_y(x), *other = bt_cast(bt_mod(bt_add(y, 1), CLASSES), BT_I32);
            trail t = {0};
            bt_fit_report report;
            OK(bt_fit(model, bt_adam(0.05), x, y,
                      BT_FIT_OPTIONS(.epochs = 50, .batch = 16, .quiet = true, .validation_x = x, .validation_y = other,
                                     .patience = 3, .keep_best = true, .callback = follow, .callback_data = &t,
                                     .checkpoints = saved ? path_of("early") : NULL),
                      &report));
            int best = 0;
            for (int e = 1; e < t.epochs; e++)
                if (t.judged[e] < t.judged[best]) best = e;
            assert_int_equal(t.epochs, best + 4);
            assert_int_equal(report.steps, 6 * t.epochs);
            assert_true(fabs(bt_item(bt_cross_entropy(bt_apply(model, x), other)) - t.judged[best]) < 1e-6);
            if (!saved) continue;
            trail again = {0}; /* it is over */
            OK(bt_fit(model, bt_adam(0.05), x, y,
                      BT_FIT_OPTIONS(.epochs = 50, .batch = 16, .quiet = true, .validation_x = x, .validation_y = other,
                                     .patience = 3, .keep_best = true, .callback = follow, .callback_data = &again,
                                     .checkpoints = path_of("early")),
                      &report));
            assert_int_equal(again.epochs, 0);
            assert_true(fabs(bt_item(bt_cross_entropy(bt_apply(model, x), other)) - t.judged[best]) < 1e-6);
        }
    }
}

/* --- checkpoints --------------------------------------------------------------------------------------------------------- */

typedef struct run_options {
    const char *folder;
    int64_t every, stop_at;
    bt_strategy *strategy;
    bool fresh, workers;
} run_options;

/* What a whole run comes to; follows it in *t. */
static double train(const run_options *o, trail *t) {
    double result = NAN;
    BT_SCOPE {
        bt_layer *model = NULL;
        if (o->strategy) {
            BT_STRATEGY(o->strategy) model = make_model();
        } else
            model = make_model();
        bt_array *x = rows_x(ROWS + 5), *y = rows_y(x);
        bt_dataset *data = bt_dataset_arrays((const char *[]){"x", "y"}, (bt_array *[]){x, y}, 2);
        bt_loader *loader = bt_loader_new(data, .batch = 16, .shuffle = bt_key(5), .workers = o->workers ? 2 : 0);
        t->stop_at = o->stop_at;
        OK(bt_fit_loader(model, make_optimizer(), loader,
                         BT_FIT_OPTIONS(.epochs = 4, .quiet = true, .checkpoints = o->folder, .strategy = o->strategy,
                                        .checkpoint_steps = o->every, .callback = follow, .callback_data = t,
                                        .each_step = true, .validation_x = x, .validation_y = y, .fresh = o->fresh),
                         NULL));
        result = outcome(model, x);
    }
    return result;
}

/* Stopped after any step, and gone on with. */
static void resumed_exactly(void **state) {
    for (int way = 0; way < 3; way++) {
        fresh("devices=sim:gpu*2");
        BT_SCOPE {
            bt_strategy *both = way == 1 ? bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2) : NULL;
            trail whole = {0};
            double expected = train(&(run_options){.strategy = both, .workers = way == 2}, &whole);
            for (int64_t stop = 1; stop < 28; stop += way ? 9 : 4) {
                trail first = {0}, second = {0};
                char name[32];
                snprintf(name, sizeof name, "resume-%d-%d", way, (int)stop);
                run_options options = {path_of(name), 3, stop, both, false, way == 2};
                (void)train(&options, &first);
                options.stop_at = 0;
                double got = train(&options, &second);
                assert_int_equal(first.steps, stop);
                assert_int_equal(second.steps, 28 - stop);
                if (got != expected)
                    fail_msg("way %d, stopped after %d: %.17g, not %.17g", way, (int)stop, got, expected);
                for (int e = first.epochs; e < 4; e++)
                    assert_true(second.losses[e] == whole.losses[e] && second.judged[e] == whole.judged[e]);
                trail third = {0}; /* it is over */
                assert_true(train(&options, &third) == expected);
                assert_int_equal(third.steps + third.epochs, 0);
            }
        }
    }
}

/* The rows that a validation draws, and what a callback freezes, belong to the run. */
typedef struct frozen_run {
    bt_layer *model;
    int64_t stop_at;
    int epochs;
    double losses[6], judged[6];
} frozen_run;

static bt_status freeze_first(bt_fit_event *event, void *data) {
    frozen_run *r = data;
    if (event->kind == BT_FIT_EPOCH) {
        r->losses[event->epoch] = event->loss;
        r->judged[event->epoch] = event->validation_loss;
        r->epochs++;
        if (event->epoch == 1) return bt_freeze(bt_layer_child(r->model, 0));
    }
    event->stop = r->stop_at && event->steps >= r->stop_at;
    return BT_OK;
}

static void train_frozen(frozen_run *r, const char *into) {
    BT_SCOPED;
    bt_array *x = rows_x(ROWS), *y = rows_y(x);
    bt_dataset *data = bt_dataset_arrays((const char *[]){"x", "y"}, (bt_array *[]){x, y}, 2);
    bt_loader *loader = bt_loader_new(data, .batch = 16, .shuffle = bt_key(5));
    r->model = make_model();
    OK(bt_fit_loader(
        r->model, make_optimizer(), loader,
        BT_FIT_OPTIONS(.epochs = 6, .quiet = true, .checkpoints = into, .callback = freeze_first, .callback_data = r,
                       .each_step = true,
                       .validation = bt_loader_new(data, .batch = 40, .shuffle = bt_key(6), .drop_last = true)),
        NULL));
}

static void the_rest_is_resumed(void **state) {
    (void)state;
    fresh("");
    frozen_run whole = {0};
    train_frozen(&whole, NULL);
    for (int64_t stop = 5; stop < 36; stop += 13) {
        char name[32];
        snprintf(name, sizeof name, "rest-%d", (int)stop);
        frozen_run run = {.stop_at = stop};
        train_frozen(&run, path_of(name));
        int done = run.epochs;
        run.stop_at = 0;
        train_frozen(&run, path_of(name));
        assert_int_equal(run.epochs, 6);
        for (int e = done; e < 6; e++)
            assert_true(run.losses[e] == whole.losses[e] && run.judged[e] == whole.judged[e]);
    }
}

/* As of the rows that are trained on. */
static void labels_of_the_validation(void **state) {
    (void)state;
    fresh("");
    BT_SCOPED;
    bt_layer *model = make_model();
    bt_array *x = rows_x(ROWS), *y = rows_y(x), *wrong = bt_set_at(y, "7", CLASSES);
    FAILS(bt_fit(model, bt_sgd(0.1), x, y,
                 BT_FIT_OPTIONS(.quiet = true, .validation_x = x, .validation_y = wrong, .patience = 2), NULL),
          BT_OUT_OF_RANGE, "in validation batch 1 of epoch 1");
}

static int count_files(const char *inside) {
    char line[160];
    snprintf(line, sizeof line, "ls %s | grep -c step-", inside);
    FILE *out = popen(line, "r");
    int count = -1;
    assert_int_equal(fscanf(out, "%d", &count), 1);
    pclose(out);
    return count;
}

static void which_are_kept(void **state) {
    fresh("");
    trail t = {0};
    (void)train(&(run_options){.folder = path_of("kept"), .every = 2}, &t);
    assert_int_equal(count_files(path_of("kept")), 3);
    assert_int_equal(access(path_of("kept/step-0000000028.safetensors"), F_OK), 0);
    assert_int_equal(access(path_of("kept/best.safetensors"), F_OK), 0);
    (void)train(&(run_options){.folder = path_of("kept"), .fresh = true}, &t); /* begins again */
    assert_int_equal(t.steps, 2 * 28);
}

static bt_status fit_into(const char *checkpoints, bt_layer *model, bt_optimizer *optimizer, int64_t rows,
                          uint64_t seed) {
    bt_array *x = rows_x(rows), *y = rows_y(x);
    return bt_fit(model, optimizer, x, y,
                  BT_FIT_OPTIONS(.batch = 16, .epochs = 2, .quiet = true, .seed = seed, .checkpoints = checkpoints),
                  NULL);
}

static void of_another_run(void **state) {
    fresh("");
    BT_SCOPE {
        const char *there = path_of("other");
        OK(fit_into(there, make_model(), bt_adam(0.01), ROWS, 1));
        bt_layer *model = make_model(), *wide = bt_dense(INPUTS, 5, NULL, bt_key(1));
        double before = outcome(model, rows_x(8));
        FAILS(fit_into(there, model, bt_sgd(0.01), ROWS, 1), BT_INVALID_ARGUMENT, "\"adam\"", "this one has sgd");
        FAILS(fit_into(there, model, bt_adam(0.01), ROWS - 1, 1), BT_FAILED_PRECONDITION, "examples");
        FAILS(fit_into(there, model, bt_adam(0.01), ROWS, 2), BT_FAILED_PRECONDITION, "another key");
        FAILS(fit_into(there, wide, bt_adam(0.01), ROWS, 1), BT_INVALID_ARGUMENT, "does not fit the model");
        assert_true(outcome(model, rows_x(8)) == before);
        FILE *file = fopen(path_of("other/step-0000009999.safetensors"), "w"); /* newer, and damaged */
        fputs("nothing", file);
        fclose(file);
        FAILS(fit_into(there, model, bt_adam(0.01), ROWS, 1), BT_DATA_LOSS, "step-0000009999");
        FAILS(fit_into("/proc/none/here", model, bt_adam(0.01), ROWS, 1), BT_NOT_FOUND, "cannot be made");
        fclose(fopen(path_of("file"), "w"));
        FAILS(fit_into(path_of("file"), model, bt_adam(0.01), ROWS, 1), BT_INVALID_ARGUMENT, "is no folder");
    }
}

/* --- options ------------------------------------------------------------------------------------------------------------- */

static bt_status stops_with_a_status(bt_fit_event *event, void *data) { return BT_CANCELLED; }

#define REFUSES(part, ...) \
    FAILS(bt_fit(model, optimizer, x, y, BT_FIT_OPTIONS(.quiet = true, __VA_ARGS__), NULL), BT_INVALID_ARGUMENT, part)

static void options_that_cannot_be(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *model = make_model();
        bt_optimizer *optimizer = bt_sgd(0.01);
        bt_array *x = rows_x(8), *y = rows_y(x);
        bt_metric metric = bt_metric_accuracy();
        bt_loader *loader = bt_loader_new(bt_dataset_arrays(NULL, &x, 1), .batch = 4);
        REFUSES("metrics are judged by validation rows", .metrics = &metric, .metric_count = 1);
        REFUSES("the validation array y is NULL", .validation_x = x);
        REFUSES("but not both", .validation_x = x, .validation_y = y, .validation = loader);
        REFUSES("the validation loader has 1 columns", .validation = loader);
        REFUSES("watch is \"F1\"", .watch = "F1");
        REFUSES("patience", .patience = -1);
        REFUSES("least_gain", .least_gain = NAN);
        REFUSES("checkpoints need a folder", .checkpoint_steps = 2);
        REFUSES("negative", .checkpoint_keep = -1);
        REFUSES("that name", .report = path_of("run.csv"));
        REFUSES("a folder", .report = folder);
        REFUSES("no name", .report = "");
        FAILS(bt_fit(model, optimizer, x, y, BT_FIT_OPTIONS(.quiet = true, .callback = stops_with_a_status), NULL),
              BT_CANCELLED, "the callback ended the run");
    }
}

/* --- reports ------------------------------------------------------------------------------------------------------------- */

static char *text_of(const char *path) {
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void page_and_numbers(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *model = make_model();
        bt_array *x = rows_x(ROWS), *y = rows_y(x);
        bt_metric metrics[] = {bt_metric_accuracy(), bt_metric_perplexity()};
        metrics[1].name = "a<b,\"c\"";
        OK(bt_fit(model, bt_adam(0.02), x, y,
                  BT_FIT_OPTIONS(.epochs = 3, .batch = 16, .quiet = true, .validation_x = x, .validation_y = y,
                                 .metrics = metrics, .metric_count = 2, .report = path_of("run.html")),
                  NULL));
        const char *page = text_of(path_of("run.html"));
        SAYS(page, "<!DOCTYPE html>");
        SAYS(page, "<polyline");
        SAYS(page, "Confusion matrix");
        SAYS(page, "BatchNorm(8)");
        SAYS(page, "a&lt;b");
        SAYS(page, "CPU:0");
        SAYS(page, "</html>");
        assert_null(strstr(page, "http"));
        const char *numbers = text_of(path_of("run.csv"));
        SAYS(numbers, "epoch,steps,seconds,rate,joules,loss,validation loss,accuracy,\"a<b,\"\"c\"\"\"\n");
        SAYS(numbers, "\n2,18,");
        bt_fit_report report = {.steps = -1}; /* before the first step */
        FAILS(
            bt_fit(model, bt_adam(0.02), x, y, BT_FIT_OPTIONS(.quiet = true, .report = "/proc/none/run.html"), &report),
            BT_NOT_FOUND, "/proc/none");
        assert_int_equal(report.steps, -1);
        bt_optimizer *falling = bt_adam(0.02);
        OK(bt_optimizer_schedule(falling, BT_SCHEDULE_STEP, .every = 6));
        OK(bt_fit(model, falling, x, y,
                  BT_FIT_OPTIONS(.epochs = 2, .batch = 16, .quiet = true, .report = path_of("falling.html")), NULL));
        char *csv = strstr(text_of(path_of("falling.csv")), "\n1,12,");
        double rate = NAN;
        assert_int_equal(csv ? sscanf(csv, " 1,12,%*[^,],%lf", &rate) : 0, 1);
        assert_true(fabs(rate - 0.02 * 0.01) < 1e-9);
    }
}

/* --- energy -------------------------------------------------------------------------------------------------------------- */

typedef struct spender {
    int epochs, steps, stop_at; /* stop_at: a step; 0: none */
    double joules[8];
} spender;

/* Each step uses half a joule, each epoch, after it was told, a hundred. */
static bt_status spend(bt_fit_event *event, void *data) {
    static double counter;
    spender *s = data;
    bool epoch = event->kind == BT_FIT_EPOCH;
    if (epoch) s->joules[s->epochs++] = event->joules;
    assert_true(epoch || isnan(event->joules));
    counter += epoch ? 100 : 0.5;
    put_joules("intel-rapl:0", counter);
    if (!epoch && ++s->steps == s->stop_at) event->stop = true;
    return BT_OK;
}

static void fit_and_spend(spender *s, const char *checkpoints, bt_fit_report *report) {
    BT_SCOPE {
        bt_array *x = rows_x(ROWS);
        OK(bt_fit(make_model(), bt_adam(0.02), x, rows_y(x),
                  BT_FIT_OPTIONS(.epochs = 3, .batch = 16, .quiet = true, .callback = spend, .callback_data = s,
                                 .each_step = true, .checkpoints = checkpoints, .report = path_of("energy.html")),
                  report));
    }
}

static bool is_about(double x, double expected) { return fabs(x - expected) < 1e-6; }

static void joules_by_epoch(void **state) {
    fresh("");
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 262143, 0);
    OK(bt_set_flag("powercap", powercap));
    spender s = {0};
    bt_fit_report report;
    fit_and_spend(&s, NULL, &report);
    assert_int_equal(s.epochs, 3);
    for (int e = 0; e < 3; e++) assert_true(is_about(s.joules[e], e ? 103 : 3)); /* six steps */
    assert_true(is_about(report.joules, 209));
    const char *page = text_of(path_of("energy.html"));
    SAYS(page, "<h2>Energy</h2>");
    SAYS(page, "<td>CPU:0</td><td>209</td><td>11.61</td><td>0.7257</td>"); /* 18 steps, 288 rows */
    double epoch, steps, seconds, rate, joules;
    const char *second = strstr(text_of(path_of("energy.csv")), "\n1,12,");
    assert_non_null(second);
    assert_int_equal(sscanf(second, "%lf,%lf,%lf,%lf,%lf", &epoch, &steps, &seconds, &rate, &joules), 5);
    assert_true(is_about(joules, 103));
    drop_powercap();
}

/* What the epoch had used before the run was stopped in it is in the checkpoint. */
static void joules_over_a_resumption(void **state) {
    fresh("");
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 262143, 0);
    OK(bt_set_flag("powercap", powercap));
    spender before = {.stop_at = 10}, after = {0};
    bt_fit_report report;
    fit_and_spend(&before, path_of("energy"), &report);
    assert_int_equal(before.epochs, 1);
    fit_and_spend(&after, path_of("energy"), &report);
    assert_int_equal(after.epochs, 2);
    assert_true(is_about(after.joules[0], 103) && is_about(after.joules[1], 103));
    drop_powercap();
}

static bt_status lose(bt_fit_event *event, void *data) {
    spender *s = data;
    if (event->kind == BT_FIT_EPOCH) s->joules[s->epochs++] = event->joules;
    if (s->epochs == 1) put_text("intel-rapl:0", "energy_uj", "<nonsense>");
    return BT_OK;
}

static void joules_that_are_not_known(void **state) {
    fresh("");
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 262143, 0);
    OK(bt_set_flag("powercap", powercap));
    BT_SCOPE {
        spender s = {0};
        bt_fit_report report;
        bt_array *x = rows_x(ROWS);
        OK(bt_fit(make_model(), bt_adam(0.02), x, rows_y(x),
                  BT_FIT_OPTIONS(.epochs = 3, .quiet = true, .callback = lose, .callback_data = &s,
                                 .report = path_of("unknown.html")),
                  &report));
        assert_true(s.joules[0] == 0 && isnan(s.joules[1]) && isnan(s.joules[2]) && isnan(report.joules));
        const char *page = text_of(path_of("unknown.html"));
        SAYS(page, "<td>CPU:0</td><td colspan=\"4\">unknown: ");
        SAYS(page, "&lt;nonsense&gt;");
        fresh("devices=sim:gpu*2"); /* a card that no counter counts */
        OK(bt_set_flag("powercap", "/tmp/berth-there-is-none"));
    }
    BT_SCOPE {
        bt_fit_report report;
        bt_layer *model = bt_layer_to(make_model(), "GPU:1");
        bt_array *x = rows_x(ROWS);
        OK(bt_fit(model, bt_adam(0.02), x, rows_y(x), BT_FIT_OPTIONS(.quiet = true, .report = path_of("unknown.html")),
                  &report));
        const char *page = text_of(path_of("unknown.html"));
        SAYS(page, "<td>GPU:1</td><td colspan=\"4\">unknown: GPU:1 is simulated");
        SAYS(page, "<td>CPU:0</td><td colspan=\"4\">unknown: /tmp/berth-there-is-none cannot be read");
        assert_true(isnan(report.joules));
    }
    drop_powercap();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(metrics_by_hand),
                                       cmocka_unit_test(metrics_that_cannot_be),
                                       cmocka_unit_test(recorded_once),
                                       cmocka_unit_test(steps_that_fail),
                                       cmocka_unit_test(validation_is_inference),
                                       cmocka_unit_test(early_stop),
                                       cmocka_unit_test(resumed_exactly),
                                       cmocka_unit_test(the_rest_is_resumed),
                                       cmocka_unit_test(labels_of_the_validation),
                                       cmocka_unit_test(which_are_kept),
                                       cmocka_unit_test(of_another_run),
                                       cmocka_unit_test(options_that_cannot_be),
                                       cmocka_unit_test(page_and_numbers),
                                       cmocka_unit_test(joules_by_epoch),
                                       cmocka_unit_test(joules_over_a_resumption),
                                       cmocka_unit_test(joules_that_are_not_known)};
    int failed = cmocka_run_group_tests(tests, start, end);
    return failed;
}

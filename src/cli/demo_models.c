/* Models of several kinds, each trained by bt_fit on the digits: a convolutional network, an LSTM that reads them row by row, an autoencoder that draws new ones. */
#include "cli/demo_models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, BATCH = 64, CODE = 8, DRAWN = 4 };

void demo_print_pictures(const float *pixels, int count) {
    static const char shades[] = " .:-=+*#%@";
    for (int row = 0; row < SIDE; row++) {
        for (int i = 0; i < count; i++) {
            printf("  ");
            for (int column = 0; column < SIDE; column++) { /* twice, because characters are taller than wide */
                int level = (int)(pixels[i * PIXELS + row * SIDE + column] * 9.0f + 0.5f);
                char shade = shades[level < 0 ? 0 : level > 9 ? 9 : level];
                printf("%c%c", shade, shade);
            }
        }
        printf("\n");
    }
}

/* --- the models ----------------------------------------------------------------------------------------------------- */

static bt_array *as_image(bt_array *x) { return bt_reshape(x, -1, 1, SIDE, SIDE); }
static bt_array *as_rows(bt_array *x) { return bt_reshape(x, -1, SIDE, SIDE); }
static bt_array *last_place(bt_array *x) { return bt_index(x, 1, -1); }

static bt_layer *make_conv(bt_array *keys) {
    return bt_chain(bt_lambda("image", as_image),
                    bt_conv_layer(1, 32, BT_SHAPE(3, 3), NULL, bt_split_at(keys, 0), .pad = {1, 1}, .no_bias = true),
                    bt_batch_norm_layer(32), bt_lambda("relu", bt_relu),
                    bt_conv_layer(32, 32, BT_SHAPE(3, 3), NULL, bt_split_at(keys, 1), .pad = {1, 1}, .no_bias = true),
                    bt_batch_norm_layer(32), bt_lambda("relu", bt_relu), bt_max_pool_layer(BT_SHAPE(2, 2)),
                    bt_conv_layer(32, 64, BT_SHAPE(3, 3), NULL, bt_split_at(keys, 2), .pad = {1, 1}, .no_bias = true),
                    bt_batch_norm_layer(64), bt_lambda("relu", bt_relu), bt_flatten_layer(),
                    bt_dropout_layer(0.3, bt_split_at(keys, 3)),
                    bt_dense(64 * SIDE * SIDE / 4, CLASSES, NULL, bt_split_at(keys, 4)));
}

/* Each row of pixels is a place of the sequence. */
static bt_layer *make_lstm(bt_array *keys) {
    return bt_chain(bt_lambda("rows", as_rows), bt_lstm_layer(SIDE, 64, bt_split_at(keys, 0)),
                    bt_lambda("last", last_place), bt_dense(64, CLASSES, NULL, bt_split_at(keys, 1)));
}

/* [B, 64] -> means and logarithms of variances [B, 2 * CODE]; [B, CODE] -> logits of pixels [B, 64]. */
static bt_layer *make_vae(bt_array *keys) {
    bt_layer *encoder = bt_chain(bt_dense(PIXELS, 128, bt_relu, bt_split_at(keys, 0)),
                                 bt_dense(128, 2 * CODE, NULL, bt_split_at(keys, 1)));
    bt_layer *decoder =
        bt_chain(bt_dense(CODE, 128, bt_relu, bt_split_at(keys, 2)), bt_dense(128, PIXELS, NULL, bt_split_at(keys, 3)));
    return bt_chain(encoder, decoder);
}

/* --- the losses ----------------------------------------------------------------------------------------------------- */

static bt_array *smoothed_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y, .label_smoothing = 0.1);
}

/* The negative evidence lower bound of an example (Kingma & Welling 2014). The noise is new in each step, which the program counts. */
static bt_array *evidence_loss(bt_layer *model, bt_array *x, bt_array *y, void *steps) {
    (void)y;
    bt_array *code = bt_apply(bt_layer_child(model, 0), x);
    bt_array *mean = bt_slice_axis(code, 1, 0, CODE, 1), *log_variance = bt_slice_axis(code, 1, CODE, 2 * CODE, 1);
    bt_array *noise = bt_normal(bt_fold_in(bt_key(7), ++*(uint32_t *)steps), BT_F32, bt_size(x, 0), CODE);
    bt_array *z = bt_add(mean, bt_mul(noise, bt_exp(bt_mul(log_variance, 0.5))));
    bt_array *entropy = bt_binary_cross_entropy(bt_apply(bt_layer_child(model, 1), z), x, .reduction = BT_REDUCE_NONE);
    bt_array *gap = bt_sub(bt_add(bt_square(mean), bt_exp(log_variance)), bt_add(log_variance, 1));
    return bt_mean(bt_add(bt_sum(entropy, .axes = BT_AXES(1)), bt_mul(bt_sum(gap, .axes = BT_AXES(1)), 0.5)));
}

/* --- what each is judged by ------------------------------------------------------------------------------------------- */

typedef struct demo_model {
    const char *name;
    bt_layer *(*make)(bt_array *keys);
    bt_model_loss *loss;
    double rate, least; /* least: of the accuracy; 0: it is not judged by that */
    int epochs;
    bool draws; /* pictures, after training */
} demo_model;

static const demo_model models[] = {{"conv", make_conv, smoothed_loss, 3e-3, 0.985, 20, false},
                                    {"lstm", make_lstm, smoothed_loss, 1e-2, 0.95, 20, false},
                                    {"vae", make_vae, evidence_loss, 3e-3, 0, 60, true}};

static const demo_model *find_model(const char *name) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

/* Digits that nobody wrote. */
static int draw_new(char **argv, bt_layer *model) {
    bt_array *z = bt_normal(bt_key(3), BT_F32, DRAWN, CODE);
    const float *pixels = bt_map(bt_sigmoid(bt_apply(bt_layer_child(model, 1), z)));
    if (!pixels) return cli_error(argv, "no digits can be drawn");
    printf("digits that nobody wrote:\n\n");
    demo_print_pictures(pixels, DRAWN);
    return CLI_OK;
}

static int judge_accuracy(char **argv, const demo_model *m, bt_layer *model, const demo_digits *digits) {
    double accuracy = bt_accuracy(bt_fold_norms(model), digits->test_x, digits->test_y);
    if (isnan(accuracy)) return cli_error(argv, "the accuracy cannot be computed");
    bool good = accuracy >= m->least;
    printf("accuracy on %lld held-out digits: %s%.1f %%%s\n", (long long)digits->test_count,
           cli_begin(stdout, good ? CLI_GOOD : CLI_BAD), 100 * accuracy, cli_end(stdout));
    if (good) return CLI_OK;
    fflush(stdout);
    fprintf(stderr, "%s: the accuracy is below %.1f %%; more --epochs may help\n", argv[0], 100 * m->least);
    return CLI_FAILED;
}

static bt_status fit_model(const demo_model *m, bt_layer *model, const demo_options *chosen, const demo_digits *digits,
                           bt_fit_report *report) {
    int epochs = chosen->epochs ? chosen->epochs : m->epochs;
    int64_t steps = epochs * ((digits->train_count + BATCH - 1) / BATCH);
    uint32_t noise = 0;
    bt_metric metrics[] = {bt_metric_accuracy(), bt_metric_f1()};
    bt_optimizer *optimizer = bt_adamw(m->rate, .decay = 0.01);
    bt_status status =
        bt_optimizer_schedule(optimizer, BT_SCHEDULE_COSINE, .steps = steps, .warmup = steps < 40 ? 0 : 20);
    bt_fit_options fit = {BT_FIT_INIT,
                          .epochs = epochs,
                          .batch = BATCH,
                          .loss = m->loss,
                          .loss_data = &noise,
                          .record_each = m->draws,
                          .validation_x = digits->test_x,
                          .validation_y = digits->test_y,
                          .metrics = metrics,
                          .metric_count = m->draws ? 0 : 2,
                          .report = chosen->report,
                          .quiet = chosen->quiet};
    return status == BT_OK ? bt_fit(model, optimizer, digits->train_x, digits->train_y, &fit, report) : status;
}

int demo_run_model(char **argv, const demo_options *chosen, const demo_digits *digits) {
    const demo_model *m = find_model(chosen->model);
    bt_layer *model = m->make(bt_split(bt_key(0), 5));
    bt_fit_report report;
    char *summary = bt_summary(model);
    if (!summary) return cli_error(argv, "the model cannot be made");
    if (!chosen->quiet)
        printf("%lld digits for training, %lld held out\n%s\n", (long long)digits->train_count,
               (long long)digits->test_count, summary);
    bt_free(summary);
    fflush(stdout);
    if (fit_model(m, model, chosen, digits, &report) != BT_OK) return cli_error(argv, "training failed");
    printf("%lld steps, loss %.4f, %.1f s\n", (long long)report.steps, report.last_loss, report.seconds);
    if (chosen->save && bt_save_model(chosen->save, model) != BT_OK)
        return cli_error(argv, "the model could not be saved");
    if (chosen->save) printf("saved in %s\n", chosen->save);
    if (chosen->report) printf("report in %s\n", chosen->report);
    return m->draws ? draw_new(argv, model) : judge_accuracy(argv, m, model, digits);
}

#include <berth/losses.h>
#include <berth/random.h>
#include <berth/train.h>
#include <berth/view.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/clock.h"
#include "base/sized.h"
#include "data/loader.h"
#include "nn/layer.h"
#include "train/progress.h"

#define STEPS_BETWEEN_READS 16 /* the loss shown is this many steps old, so reading it does not wait */

static bt_array *default_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y, NULL);
}

typedef struct fit {
    const char *name; /* of the public function */
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_loader *loader;
    bt_fit_options options;
    int64_t steps_per_epoch;
    int64_t steps; /* steps done */
    bti_progress progress;
    bt_array *late_loss; /* retained; the next to be shown */
    double shown_loss;
} fit;

static bt_status check_fit(const fit *f) {
    BTI_CALL(f->name);
    if (!f->model || !f->optimizer)
        return bti_fail(BT_INVALID_ARGUMENT, "the %s is NULL", f->model ? "optimiser" : "model");
    BTI_TRY(bt_layer_status(f->model));
    BTI_TRY(bt_optimizer_status(f->optimizer));
    if (f->options.strategy) BTI_TRY(bt_strategy_status(f->options.strategy));
    if (f->options.epochs < 0 || f->options.batch < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "epochs and batch must be positive");
    return BT_OK;
}

static bt_status check_fit_arrays(bt_array *x, bt_array *y) {
    BTI_CALL("bt_fit");
    if (!x || !y) return bti_fail(BT_INVALID_ARGUMENT, "the array %s is NULL", x ? "y" : "x");
    if (bt_peek_status(x) != BT_OK || bt_peek_status(y) != BT_OK)
        return bt_block(bt_peek_status(x) != BT_OK ? x : y); /* the first cause */
    if (bt_rank(x) >= 1 && bt_rank(y) >= 1 && bt_size(x, 0) == bt_size(y, 0) && bt_size(x, 0) >= 1) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "x has %lld rows and y %lld; they must be as many, and at least one",
                    (long long)bt_size(x, 0), (long long)bt_size(y, 0));
}

static bt_status show_late_loss(fit *f, bt_array *loss) {
    bt_status status = f->late_loss ? bt_block(f->late_loss) : BT_OK;
    if (f->late_loss && status == BT_OK) f->shown_loss = bt_item(f->late_loss);
    bt_assign(&f->late_loss, loss);
    return status;
}

/* One step. Adds its loss, times its rows, to *sum, which is read at the end of the epoch. */
static bt_status fit_step(fit *f, int64_t number, const bt_batch *batch, bt_array **sum) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *loss = bt_train_step(f->options.strategy, f->model, f->optimizer, f->options.loss,
                                       f->options.loss_data, batch->arrays[0], batch->arrays[1]);
        bt_array *weighted = bt_mul(loss, bt_num((double)batch->rows));
        bt_assign(sum, *sum ? bt_add(*sum, weighted) : weighted);
        status = bt_eval(*sum); /* evaluated with the update: later the forward pass would run a second time */
        if (status == BT_OK && number % STEPS_BETWEEN_READS == 0) status = show_late_loss(f, loss);
    }
    if (status != BT_OK) return status;
    f->steps++;
    bti_progress_step(&f->progress, number, f->shown_loss);
    return BT_OK;
}

/* The batches up to the end of an epoch, which may have begun before. */
static bt_status fit_epoch(fit *f, int number, double *mean) {
    bt_status status = BT_OK;
    bt_array *sum = NULL;
    bt_batch batch = BT_BATCH_INIT;
    int64_t rows = 0;
    BT_SCOPE {
        while (status == BT_OK && bt_loader_next(f->loader, &batch)) {
            rows += batch.rows;
            status = fit_step(f, number * f->steps_per_epoch + batch.number, &batch, &sum);
        }
        if (status == BT_OK) status = bt_loader_status(f->loader);
        if (status == BT_OK && sum) status = bt_block(sum);
        if (status == BT_OK && sum) {
            f->shown_loss = *mean = bt_item(sum) / (double)rows;
            bti_progress_step(&f->progress, (number + 1) * f->steps_per_epoch - 1, *mean);
        }
    }
    bt_assign(&sum, NULL);
    return status;
}

#define MEMBER(name) BTI_MEMBER(bt_fit_options, name)
static const bti_member fit_option_members[] = {MEMBER(size),     MEMBER(epochs),   MEMBER(batch),
                                                MEMBER(strategy), MEMBER(loss),     MEMBER(loss_data),
                                                MEMBER(seed),     MEMBER(in_order), MEMBER(quiet)};
#undef MEMBER
static const bti_sized_type fit_options_layout =
    BTI_SIZED_TYPE(bt_fit_options, "options", "BT_FIT_OPTIONS(.epochs = 5)", fit_option_members, NULL);

static bt_status take_fit_options(fit *f, const bt_fit_options *options) {
    if (options) BTI_TRY(bti_options_take(&fit_options_layout, f->name, options, &f->options));
    if (!f->options.loss) f->options.loss = default_loss;
    if (!f->options.epochs) f->options.epochs = 1;
    return check_fit(f);
}

static bt_status run_fit(fit *f, bt_fit_report *report) {
    f->steps_per_epoch = bt_loader_batches(f->loader);
    bti_progress_begin(&f->progress, f->options.epochs, f->steps_per_epoch, f->options.quiet);
    double mean = NAN, first = NAN;
    bt_status status = BT_OK;
    for (int e = 0; e < f->options.epochs && status == BT_OK; e++) {
        status = fit_epoch(f, e, &mean);
        if (e == 0) first = mean;
    }
    bti_progress_end(&f->progress);
    bt_assign(&f->late_loss, NULL);
    if (report)
        *report = (bt_fit_report){.steps = f->steps,
                                  .first_loss = first,
                                  .last_loss = mean,
                                  .seconds = bti_now_seconds() - f->progress.start};
    return status;
}

bt_status bt_fit(bt_layer *model, bt_optimizer *optimizer, bt_array *x, bt_array *y, const bt_fit_options *options,
                 bt_fit_report *report) {
    fit f = {.name = "bt_fit", .model = model, .optimizer = optimizer, .shown_loss = NAN};
    BTI_TRY(take_fit_options(&f, options));
    BTI_TRY(check_fit_arrays(x, y));
    bt_status status = BT_OK;
    BT_SCOPE {
        const uint32_t key[2] = {(uint32_t)(f.options.seed >> 32), (uint32_t)f.options.seed}; /* bt_key(seed) */
        bt_dataset *data = bt_dataset_arrays((const char *const[]){"x", "y"}, (bt_array *const[]){x, y}, 2);
        f.loader = bti_loader_new_by_words(data, BT_LOADER(.batch = f.options.batch), f.options.in_order ? NULL : key);
        status = bt_loader_status(f.loader);
        if (status == BT_OK) status = run_fit(&f, report);
    }
    return status;
}

static bt_status check_loader(const fit *f) {
    BTI_CALL("bt_fit_loader");
    if (!f->loader) return bti_fail(BT_INVALID_ARGUMENT, "the loader is NULL");
    BTI_TRY(bt_loader_status(f->loader));
    if (f->options.batch || f->options.seed || f->options.in_order)
        return bti_fail(BT_INVALID_ARGUMENT, "batch, seed and in_order are not options here: the loader has its own");
    int columns = bti_loader_columns(f->loader);
    if (columns == 2) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "the loader has %d columns; training takes two, x and y", columns);
}

bt_status bt_fit_loader(bt_layer *model, bt_optimizer *optimizer, bt_loader *loader, const bt_fit_options *options,
                        bt_fit_report *report) {
    fit f = {.name = "bt_fit_loader", .model = model, .optimizer = optimizer, .loader = loader, .shown_loss = NAN};
    BTI_TRY(take_fit_options(&f, options));
    BTI_TRY(check_loader(&f));
    return run_fit(&f, report);
}

static bt_status check_classes(bt_array *logits, bt_array *y) {
    if (!logits || !y)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_accuracy: the %s is NULL", logits ? "array y" : "model");
    if (bt_peek_status(logits) != BT_OK || bt_peek_status(y) != BT_OK)
        return bt_block(bt_peek_status(logits) != BT_OK ? logits : y); /* the first cause */
    if (bt_size(logits, 0) == 0) return bti_fail(BT_INVALID_ARGUMENT, "bt_accuracy: there are no rows to judge");
    if (bt_rank(logits) == 2 && bt_rank(y) == 1 && bt_size(logits, 0) == bt_size(y, 0)) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT,
                    "bt_accuracy: the model gives %lld rows of %d axes, y has %lld of %d; they must be [N, C] and [N]",
                    (long long)bt_size(logits, 0), bt_rank(logits), (long long)bt_size(y, 0), bt_rank(y));
}

double bt_accuracy(bt_layer *model, bt_array *x, bt_array *y) {
    double part = NAN;
    BT_SCOPE {
        bt_array *logits = model ? bt_apply(model, bti_bring_batch(x, model)) : NULL;
        if (check_classes(logits, y) == BT_OK) {
            y = bti_bring_beside(y, logits);
            part = bt_item(bt_mean(bt_cast(bt_eq(bt_argmax(logits, -1), y), BT_F64), BT_ALL, false));
        }
    }
    return part;
}

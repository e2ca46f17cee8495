#include <berth/losses.h>
#include <berth/random.h>
#include <berth/train.h>
#include <berth/view.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/clock.h"
#include "base/sized.h"
#include "nn/layer.h"
#include "train/progress.h"

#define STEPS_BETWEEN_READS 16 /* the loss shown is this many steps old, so reading it does not wait */

static bt_array *default_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y, NULL);
}

typedef struct fit {
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
    bt_fit_options options;
    int64_t rows, steps_per_epoch;
    int64_t steps; /* steps done */
    bti_progress progress;
    bt_array *late_loss; /* retained; the next to be shown */
    double shown_loss;
} fit;

static bt_status check_fit_objects(const fit *f) {
    BTI_CALL("bt_fit");
    BTI_TRY(bt_layer_status(f->model));
    BTI_TRY(bt_optimizer_status(f->optimizer));
    return f->options.strategy ? bt_strategy_status(f->options.strategy) : BT_OK;
}

static bt_status check_fit(const fit *f) {
    if (!f->model || !f->optimizer || !f->x || !f->y)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_fit: the %s is NULL",
                        !f->model       ? "model"
                        : !f->optimizer ? "optimiser"
                        : !f->x         ? "array x"
                                        : "array y");
    BTI_TRY(check_fit_objects(f));
    if (bt_peek_status(f->x) != BT_OK || bt_peek_status(f->y) != BT_OK)
        return bt_block(bt_peek_status(f->x) != BT_OK ? f->x : f->y); /* the first cause */
    if (bt_rank(f->x) < 1 || bt_rank(f->y) < 1 || bt_size(f->x, 0) != bt_size(f->y, 0) || bt_size(f->x, 0) < 1)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "bt_fit: x has %lld rows and y %lld; they must be as many, and at least one",
                        (long long)bt_size(f->x, 0), (long long)bt_size(f->y, 0));
    if (f->options.epochs < 0 || f->options.batch < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_fit: epochs and batch must be positive");
    return BT_OK;
}

static bt_status show_late_loss(fit *f, bt_array *loss) {
    bt_status status = f->late_loss ? bt_block(f->late_loss) : BT_OK;
    if (f->late_loss && status == BT_OK) f->shown_loss = bt_item(f->late_loss);
    bt_assign(&f->late_loss, loss);
    return status;
}

/* Rows of x, taken on the device of x, so that only the batch is moved. */
static bt_array *rows_of(bt_array *x, bt_array *order, int64_t start, int64_t stop) {
    bt_array *rows = NULL;
    BT_ON(bt_device_long_name(bt_device_of(x)))
        rows = order ? bt_take(x, bt_slice_axis(order, 0, start, stop, 1), 0) : bt_slice_axis(x, 0, start, stop, 1);
    return rows;
}

/* One step. Adds its loss, times its rows, to *sum, which is read at the end of the epoch. */
static bt_status fit_step(fit *f, int64_t number, bt_array *const order[2], int64_t start, bt_array **sum) {
    bt_status status = BT_OK;
    int64_t stop = start + f->options.batch < f->rows ? start + f->options.batch : f->rows;
    BT_SCOPE {
        bt_array *x = rows_of(f->x, order[0], start, stop), *y = rows_of(f->y, order[1], start, stop);
        bt_array *loss =
            bt_train_step(f->options.strategy, f->model, f->optimizer, f->options.loss, f->options.loss_data, x, y);
        bt_array *weighted = bt_mul(loss, bt_num((double)(stop - start)));
        bt_assign(sum, *sum ? bt_add(*sum, weighted) : weighted);
        status = bt_eval(*sum); /* evaluated with the update: later the forward pass would run a second time */
        if (status == BT_OK && number % STEPS_BETWEEN_READS == 0) status = show_late_loss(f, loss);
    }
    if (status != BT_OK) return status;
    f->steps++;
    bti_progress_step(&f->progress, number, f->shown_loss);
    return BT_OK;
}

static bt_status fit_epoch(fit *f, int number, double *mean) {
    bt_status status = BT_OK;
    bt_array *sum = NULL;
    BT_SCOPE {
        bt_array *order[2] = {NULL, NULL}; /* the order of the rows, on the devices of x and of y */
        const char *at_x = bt_device_long_name(bt_device_of(f->x)), *at_y = bt_device_long_name(bt_device_of(f->y));
        if (!f->options.in_order) {
            BT_ON(at_x)
                order[0] = bt_permutation(bt_fold_in(bt_key((int64_t)f->options.seed), (uint32_t)number), f->rows);
            order[1] = bt_to(order[0], at_y);
        }
        for (int64_t i = 0; i < f->steps_per_epoch && status == BT_OK; i++)
            status = fit_step(f, number * f->steps_per_epoch + i, order, i * f->options.batch, &sum);
        if (status == BT_OK) status = bt_block(sum);
        if (status == BT_OK) f->shown_loss = *mean = bt_item(sum) / (double)f->rows;
        if (status == BT_OK) bti_progress_step(&f->progress, f->steps - 1, *mean);
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

bt_status bt_fit(bt_layer *model, bt_optimizer *optimizer, bt_array *x, bt_array *y, const bt_fit_options *options,
                 bt_fit_report *report) {
    fit f = {model, optimizer, x, y, .shown_loss = NAN};
    if (options) BTI_TRY(bti_options_take(&fit_options_layout, "bt_fit", options, &f.options));
    if (!f.options.loss) f.options.loss = default_loss;
    if (!f.options.epochs) f.options.epochs = 1;
    if (!f.options.batch) f.options.batch = 32;
    BTI_TRY(check_fit(&f));
    f.rows = bt_size(x, 0);
    if (f.options.batch > f.rows) f.options.batch = f.rows;
    f.steps_per_epoch = (f.rows + f.options.batch - 1) / f.options.batch;
    bti_progress_begin(&f.progress, f.options.epochs, f.steps_per_epoch, f.options.quiet);
    double mean = NAN, first = NAN;
    bt_status status = BT_OK;
    for (int e = 0; e < f.options.epochs && status == BT_OK; e++) {
        status = fit_epoch(&f, e, &mean);
        if (e == 0) first = mean;
    }
    bti_progress_end(&f.progress);
    bt_assign(&f.late_loss, NULL);
    if (report)
        *report = (bt_fit_report){
            .steps = f.steps, .first_loss = first, .last_loss = mean, .seconds = bti_now_seconds() - f.progress.start};
    return status;
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

/* bt_fit and bt_fit_loader: options are checked and the loop is run. */
#include <berth/losses.h>
#include <berth/random.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "data/loader.h"
#include "train/loop.h"
#include "train/rows.h"

static bt_array *default_loss(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y, NULL);
}

/* --- checking ----------------------------------------------------------------------------------------------------------- */

static bt_status check_columns(const char *what, const bt_loader *loader) {
    BTI_TRY(bt_loader_status(loader));
    int columns = bti_loader_columns(loader);
    if (columns == 2) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "the %sloader has %d columns; it must have two, x and y", what, columns);
}

static bt_status check_validation(const bt_fit_options *o) {
    bool arrays = o->validation_x || o->validation_y;
    if (arrays && o->validation)
        return bti_fail(BT_INVALID_ARGUMENT, "validation_x and validation_y, or a validation loader, but not both");
    if (arrays) BTI_TRY(bti_rows_check("validation ", o->validation_x, o->validation_y));
    if (o->validation) BTI_TRY(check_columns("validation ", o->validation));
    BTI_TRY(bti_metrics_check(o->metrics, o->metric_count));
    if (o->metric_count && !arrays && !o->validation)
        return bti_fail(
            BT_INVALID_ARGUMENT,
            "metrics are judged by validation rows: give validation_x and validation_y, or a validation loader");
    return BT_OK;
}

static bt_status find_watched(bti_fit *f) {
    const bt_fit_options *o = &f->options;
    bool validated = o->validation_x || o->validation;
    f->watched = validated ? BTI_VALIDATION_LOSS : BTI_LOSS;
    if (!o->watch || !strcmp(o->watch, "loss")) return BT_OK;
    for (int m = 0; m < o->metric_count; m++) {
        f->watched = BTI_COLUMNS + m;
        if (!strcmp(o->watch, o->metrics[m].name)) return BT_OK;
    }
    return bti_fail(BT_INVALID_ARGUMENT,
                    "watch is \"%s\", which is neither \"loss\" nor the name of one of the %d metrics", o->watch,
                    o->metric_count);
}

static bt_status check_numbers(const bt_fit_options *o) {
    if (o->epochs < 0 || o->batch < 0) return bti_fail(BT_INVALID_ARGUMENT, "epochs and batch must be positive");
    if (o->patience < 0 || !(o->least_gain >= 0))
        return bti_fail(BT_INVALID_ARGUMENT, "patience and least_gain must not be negative");
    if (o->checkpoint_steps < 0 || !(o->checkpoint_seconds >= 0) || o->checkpoint_keep < 0)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "checkpoint_steps, checkpoint_seconds and checkpoint_keep must not be negative");
    if (!o->checkpoints && (o->checkpoint_steps || o->checkpoint_seconds > 0 || o->checkpoint_keep))
        return bti_fail(BT_INVALID_ARGUMENT, "checkpoints need a folder: .checkpoints = \"runs/first\"");
    return BT_OK;
}

static bt_status check_fit(bti_fit *f) {
    BTI_CALL(f->name);
    if (!f->model || !f->optimizer)
        return bti_fail(BT_INVALID_ARGUMENT, "the %s is NULL", f->model ? "optimiser" : "model");
    BTI_TRY(bt_layer_status(f->model));
    BTI_TRY(bt_optimizer_status(f->optimizer));
    if (f->options.strategy) BTI_TRY(bt_strategy_status(f->options.strategy));
    BTI_TRY(check_numbers(&f->options));
    BTI_TRY(check_validation(&f->options));
    if (f->options.report) BTI_TRY(bti_report_check(f->options.report));
    return find_watched(f);
}

/* --- options ------------------------------------------------------------------------------------------------------------ */

#define MEMBER(name) BTI_MEMBER(bt_fit_options, name)
static const bti_member fit_option_members[] = {MEMBER(size),
                                                MEMBER(epochs),
                                                MEMBER(batch),
                                                MEMBER(strategy),
                                                MEMBER(loss),
                                                MEMBER(loss_data),
                                                MEMBER(seed),
                                                MEMBER(in_order),
                                                MEMBER(quiet),
                                                MEMBER(record_each),
                                                MEMBER(all_gradients),
                                                MEMBER(validation_x),
                                                MEMBER(validation_y),
                                                MEMBER(validation),
                                                MEMBER(metrics),
                                                MEMBER(metric_count),
                                                MEMBER(watch),
                                                MEMBER(patience),
                                                MEMBER(least_gain),
                                                MEMBER(keep_best),
                                                MEMBER(checkpoints),
                                                MEMBER(checkpoint_steps),
                                                MEMBER(checkpoint_seconds),
                                                MEMBER(checkpoint_keep),
                                                MEMBER(fresh),
                                                MEMBER(callback),
                                                MEMBER(callback_data),
                                                MEMBER(each_step),
                                                MEMBER(report)};
#undef MEMBER
static const bti_sized_type fit_options_layout =
    BTI_SIZED_TYPE(bt_fit_options, "options", "BT_FIT_OPTIONS(.epochs = 5)", fit_option_members, NULL);

static bt_status take_fit_options(bti_fit *f, const bt_fit_options *options) {
    if (options) BTI_TRY(bti_options_take(&fit_options_layout, f->name, options, &f->options));
    if (!f->options.loss) f->options.loss = default_loss;
    if (!f->options.epochs) f->options.epochs = 1;
    return check_fit(f);
}

enum { VALIDATION_BATCH = 256 };

/* Rows that are on a device of the strategy move to the host, from where all devices get theirs: each may fail. */
static bt_status take_to_host(const bti_fit *f, bt_array **rows) {
    const bti_steps steps = {.strategy = f->options.strategy, .survives = bt_strategy_count(f->options.strategy) > 1};
    for (int i = 0; i < 2; i++) {
        if (!bti_steps_may_lose(&steps, rows[i])) continue;
        rows[i] = bt_to(rows[i], "cpu");
        BTI_TRY(bt_block(rows[i]));
    }
    return BT_OK;
}

static bt_status run_loader(bti_fit *f, bt_fit_report *report) {
    bt_array *rows[] = {f->options.validation_x, f->options.validation_y};
    f->validation = f->options.validation;
    if (rows[0]) {
        BTI_TRY(take_to_host(f, rows));
        f->validation = bti_rows_loader(rows[0], rows[1], VALIDATION_BATCH, NULL);
    }
    if (f->validation) BTI_TRY(bt_loader_status(f->validation));
    return bti_fit_run(f, report);
}

/* --- the public calls --------------------------------------------------------------------------------------------------- */

static bt_status check_fit_rows(bt_array *x, bt_array *y) {
    BTI_CALL("bt_fit");
    return bti_rows_check("", x, y);
}

bt_status bt_fit(bt_layer *model, bt_optimizer *optimizer, bt_array *x, bt_array *y, const bt_fit_options *options,
                 bt_fit_report *report) {
    bti_fit f = {.name = "bt_fit", .model = model, .optimizer = optimizer};
    BTI_TRY(take_fit_options(&f, options));
    BTI_TRY(check_fit_rows(x, y));
    bt_status status = BT_OK;
    BT_SCOPE {
        const uint32_t key[2] = {(uint32_t)(f.options.seed >> 32), (uint32_t)f.options.seed}; /* bt_key(seed) */
        bt_array *rows[] = {x, y};
        status = take_to_host(&f, rows);
        f.loader = bti_rows_loader(rows[0], rows[1], f.options.batch, f.options.in_order ? NULL : key);
        if (status == BT_OK) status = bt_loader_status(f.loader);
        if (status == BT_OK) status = run_loader(&f, report);
    }
    return status;
}

static bt_status check_loader(const bti_fit *f) {
    BTI_CALL("bt_fit_loader");
    if (!f->loader) return bti_fail(BT_INVALID_ARGUMENT, "the loader is NULL");
    if (f->options.batch || f->options.seed || f->options.in_order)
        return bti_fail(BT_INVALID_ARGUMENT, "batch, seed and in_order are not options here: the loader has its own");
    return check_columns("", f->loader);
}

bt_status bt_fit_loader(bt_layer *model, bt_optimizer *optimizer, bt_loader *loader, const bt_fit_options *options,
                        bt_fit_report *report) {
    bti_fit f = {.name = "bt_fit_loader", .model = model, .optimizer = optimizer, .loader = loader};
    BTI_TRY(take_fit_options(&f, options));
    BTI_TRY(check_loader(&f));
    bt_status status = BT_OK;
    BT_SCOPE
        status = run_loader(&f, report);
    return status;
}

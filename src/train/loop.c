#include "train/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/str.h"
#include "nn/optimizer.h"

enum { STEPS_BETWEEN_READS = 16 }; /* the loss shown is this many steps old, so reading it does not wait */

/* --- time --------------------------------------------------------------------------------------------------------------- */

static double seconds_of_run(const bti_fit *f) { return f->before + bti_now_seconds() - f->began; }

/* Adds the time since `start` to a phase; the time now. */
static double end_phase(bti_fit *f, bti_phase phase, double start) {
    double now = bti_now_seconds();
    f->phases[phase] += now - start;
    return now;
}

/* --- the callback ------------------------------------------------------------------------------------------------------- */

static bt_status tell(bti_fit *f, bt_fit_event_kind kind, const double *row) {
    if (!f->options.callback || (kind == BT_FIT_STEP && !f->options.each_step)) return BT_OK;
    bt_fit_event event = {.size = sizeof event,
                          .kind = kind,
                          .epoch = (int64_t)f->now.epoch,
                          .steps = (int64_t)f->now.steps,
                          .loss = row ? row[BTI_LOSS] : f->losses.shown,
                          .validation_loss = row ? row[BTI_VALIDATION_LOSS] : NAN,
                          .metrics = row ? row + BTI_COLUMNS : NULL,
                          .metric_count = f->history.count,
                          .seconds = seconds_of_run(f),
                          .joules = row ? row[BTI_JOULES] : NAN};
    bt_status status = f->options.callback(&event, f->options.callback_data);
    f->stopped = f->stopped || event.stop;
    if (status == BT_OK) return BT_OK;
    return bt_error_status() == status ? status : bti_fail(status, "%s: the callback ended the run", f->name);
}

/* --- checkpoints -------------------------------------------------------------------------------------------------------- */

static bt_status save_checkpoint(bti_fit *f) {
    double start = bti_now_seconds();
    f->now.seconds = seconds_of_run(f);
    bti_meters_read(&f->meters);
    f->now.joules = f->meters.epoch;
    bt_status status = bti_checkpoints_save(f->checkpoints, &f->now, f->losses.sum, &f->history);
    f->saved = end_phase(f, BTI_PHASE_CHECKPOINTS, start);
    f->saved_epoch = f->now.epoch;
    f->saved_steps = f->now.steps;
    return status;
}

static bool wants_checkpoint(const bti_fit *f, bool epoch_ended) {
    const bt_fit_options *o = &f->options;
    if (!f->checkpoints) return false;
    if (!o->checkpoint_steps && o->checkpoint_seconds <= 0) return epoch_ended;
    if (o->checkpoint_steps && !epoch_ended && (int64_t)f->now.steps % o->checkpoint_steps == 0) return true;
    return o->checkpoint_seconds > 0 && bti_now_seconds() - f->saved >= o->checkpoint_seconds;
}

/* A folder that was forgotten is a usual surprise. */
static void tell_of_resume(const bti_fit *f) {
    bool over = f->stopped || f->now.epoch >= f->options.epochs;
    if (f->options.quiet) return;
    bti_log("%s: goes on from the checkpoints in \"%s\", after %lld steps and %lld of %d epochs%s", f->name,
            bti_quote(f->options.checkpoints).text, (long long)f->now.steps, (long long)f->now.epoch, f->options.epochs,
            over ? ": nothing is left to do (more epochs, another folder, or .fresh = true)" : "");
}

static bt_status resume(bti_fit *f) {
    BTI_CALL(f->name);
    bool found = false;
    if (!f->checkpoints || f->options.fresh) return BT_OK;
    BTI_TRY(bti_checkpoints_load(f->checkpoints, &f->now, &f->losses.sum, &f->history, &found));
    if (!found) return BT_OK;
    f->before = f->now.seconds;
    f->meters.epoch = f->now.joules;
    f->stopped = f->options.patience && f->now.stale >= f->options.patience; /* it had ended early */
    tell_of_resume(f);
    f->saved_epoch = f->now.epoch;
    f->saved_steps = f->now.steps;
    return BT_OK;
}

/* Where the loaders are: up to there losses are numbers. */
static void know_places(bti_fit *f, bool known) {
    bt_free(f->losses.known_state);
    bt_free(f->validated.known_state);
    f->losses.known_state = known ? bt_loader_state(f->loader) : NULL;
    f->validated.known_state = known && f->validation ? bt_loader_state(f->validation) : NULL;
}

/* --- devices that fail ------------------------------------------------------------------------------------------------- */

/* From the newest checkpoint, in the middle of the run. */
static bt_status go_back(bti_fit *f, int64_t failed_step) {
    bool found = false;
    BTI_CALL(f->name);
    bti_steps_forget(&f->steps);
    f->history.cells.count = 0;
    bt_assign(&f->losses.sum, NULL);
    bt_status status = f->checkpoints ? bti_steps_prepare(&f->steps) : BT_OK;
    if (status == BT_OK && f->checkpoints)
        status = bti_checkpoints_load(f->checkpoints, &f->now, &f->losses.sum, &f->history, &found);
    if (status == BT_OK && !found)
        status = bti_fail(BT_FAILED_PRECONDITION,
                          "a device failed in step %lld, its part of the optimiser's states is lost, and there is no "
                          "checkpoint to go on from; %s",
                          (long long)failed_step,
                          f->checkpoints ? "the first one had not been written"
                                         : ".checkpoints = \"runs/first\" keeps some");
    know_places(f, status == BT_OK);
    f->saved_epoch = f->now.epoch;
    f->saved_steps = f->now.steps;
    f->rewound = true;
    return status;
}

/* A file that was being written is incomplete, and is not there, if it was of a step that failed. */
static void forget_failed_file(bti_fit *f) {
    bti_errors_aside aside = bti_errors_aside_begin();
    if (f->checkpoints && bti_checkpoints_wait(f->checkpoints) != BT_OK) f->saved_steps = -1;
    bti_errors_aside_end(aside);
}

/* Other devices may fail while steps are made again. */
static bt_status go_on(bti_fit *f, bt_status status) {
    while (status != BT_OK && bti_survival_is_possible(&f->steps, status)) {
        bti_failed_run run = {.call = f->name,
                              .steps = &f->steps,
                              .sum = &f->losses.sum,
                              .step = (int64_t)f->now.steps,
                              .has_checkpoint = f->checkpoints && bti_checkpoints_any(f->checkpoints)};
        bt_assign(&f->losses.late_loss, NULL);
        bti_losses_drop_late(&f->losses);
        BTI_TRY(bti_survive(&f->survival, &run));
        forget_failed_file(f);
        status = run.states_lost ? go_back(f, run.failed_step) : bti_steps_repeat(&f->steps, &f->losses.sum);
    }
    return status;
}

/* Does it, again if a device fails. f->rewound afterwards: the run goes on from a checkpoint, and it was not done. */
static bt_status attempt(bti_fit *f, bt_status (*what)(bti_fit *f)) {
    f->rewound = false;
    bt_status status = what(f);
    while (status != BT_OK && bti_survival_is_possible(&f->steps, status)) {
        BTI_TRY(go_on(f, status));
        if (f->rewound) return BT_OK;
        status = what(f);
    }
    return status;
}

/* --- the best epoch ----------------------------------------------------------------------------------------------------- */

static void drop_best(bti_fit *f) {
    for (size_t i = 0; i < f->best.count; i++) bt_assign(&f->best.items[i], NULL);
    f->best.count = 0;
}

/* Values are kept as they are: arrays never change. */
static bt_status keep_best(bti_fit *f) {
    if (f->checkpoints) return bti_checkpoints_save_best(f->checkpoints);
    if (!f->options.keep_best) return BT_OK;
    drop_best(f);
    int parameters = bt_parameters(f->model, NULL, 0), states = bt_states(f->model, NULL, 0);
    size_t count = (size_t)parameters + (size_t)states;
    if (!bti_vec_reserve(&f->variables, count) || !bti_vec_reserve(&f->best, count)) return bti_no_memory();
    f->variables.count = count;
    (void)bt_parameters(f->model, f->variables.items, parameters);
    (void)bt_states(f->model, f->variables.items + parameters, states);
    BT_SCOPE
        for (size_t i = 0; i < count; i++) {
            bt_array *value = bt_value(f->variables.items[i]);
            f->best.items[f->best.count++] =
                bt_retain(bti_steps_may_lose(&f->steps, value) ? bt_to(value, "cpu") : value);
        }
    return f->steps.survives ? bt_eval_all(f->best.items, (int)count) : BT_OK;
}

static bt_status restore_best(bti_fit *f) {
    if (!f->options.keep_best || isnan(f->now.best)) return BT_OK;
    if (f->checkpoints) return bti_checkpoints_load_best(f->checkpoints);
    return bt_set_all(f->variables.items, f->best.items, (int)f->best.count);
}

static bool is_gain(const bti_fit *f, double value) {
    if (isnan(f->now.best)) return !isnan(value);
    bool lower = f->watched < BTI_COLUMNS || f->history.metrics[f->watched - BTI_COLUMNS].lower_is_better;
    double gain = lower ? f->now.best - value : value - f->now.best;
    return gain > f->options.least_gain;
}

static bt_status watch(bti_fit *f, const double *row) {
    double value = row[f->watched];
    if (is_gain(f, value)) {
        f->now.best = value;
        f->now.best_epoch = f->now.epoch;
        f->now.stale = 0;
        return f->checkpoints || f->options.keep_best ? attempt(f, keep_best) : BT_OK;
    }
    f->now.stale++;
    if (f->options.patience && f->now.stale >= f->options.patience) f->stopped = true;
    return BT_OK;
}

/* --- validation --------------------------------------------------------------------------------------------------------- */

/* At its start, also when it is tried again. */
static bt_status place_validation(bti_fit *f) {
    if (f->validation_state) return bt_loader_restore(f->validation, f->validation_state);
    if (f->steps.survives) f->validation_state = bt_loader_state(f->validation);
    return !f->steps.survives || f->validation_state ? BT_OK : bt_error_status();
}

static bt_status validate(bti_fit *f) {
    double *row = f->row;
    if (!f->validation) return BT_OK;
    double start = bti_now_seconds();
    bti_judge_clear(f->judge);
    BTI_TRY(place_validation(f));
    bt_status status = bti_judge_add(f->judge, f->validation);
    if (status == BT_OK) row[BTI_VALIDATION_LOSS] = bti_judge_loss(f->judge);
    if (status == BT_OK)
        status = bti_losses_check(&f->validated, row[BTI_VALIDATION_LOSS], bt_loader_state(f->validation),
                                  (int64_t)f->now.steps);
    for (int m = 0; m < f->history.count && status == BT_OK; m++) row[BTI_COLUMNS + m] = bti_judge_value(f->judge, m);
    (void)end_phase(f, BTI_PHASE_VALIDATION, start);
    return status;
}

static void show_epoch(bti_fit *f, const double *row) {
    char judged[sizeof f->progress.judged] = "";
    size_t length = 0;
    if (f->validation)
        length = (size_t)snprintf(judged, sizeof judged, "  validation loss %.4f", row[BTI_VALIDATION_LOSS]);
    for (int m = 0; m < f->history.count && length < sizeof judged; m++)
        length += (size_t)snprintf(judged + length, sizeof judged - length, "  %s %.4f", f->history.metrics[m].name,
                                   row[BTI_COLUMNS + m]);
    bti_progress_epoch(&f->progress, (int64_t)f->now.epoch, row[BTI_LOSS], judged);
}

/* --- steps -------------------------------------------------------------------------------------------------------------- */

/* Where a check is made of each step, the error is of this one: says which it was, and whether its loss is known. */
static bt_status name_step(const bti_fit *f, const bt_batch *batch, bt_status status, bt_array *loss) {
    if (bti_flag_choice(BTI_FLAG_check_nan) == BTI_CHECK_OFF || status != BT_OUT_OF_RANGE) return status;
    bti_error *cause = bti_error_last();
    bti_errors_aside aside = bti_errors_aside_begin();
    double value = loss ? bt_item(loss) : NAN; /* computed again: only the update may have failed */
    bti_errors_aside_end(aside);
    BTI_CALL(f->name);
    bti_str text = {0};
    if (isfinite(value))
        bti_str_addf(&text, "the loss, %g, is a number, but its gradients are not", value);
    else
        bti_str_add(&text, "the loss is no number");
    status = bti_fail(status, "in step %lld (epoch %lld, batch %lld) %s: %s", (long long)f->now.steps + !f->taken,
                      (long long)f->now.epoch + 1, (long long)batch->number + 1, bti_str_text(&text),
                      bti_error_message(cause));
    bti_str_free(&text);
    bti_error_release(cause);
    return status;
}

static void count_rows(bti_fit *f, double rows) {
    f->now.steps++;
    f->now.rows += rows;
    bti_meters_step(&f->meters, rows);
}

/* The batch is taken once, also if what follows is tried again. */
static bt_status make_step(bti_fit *f) {
    bt_status status = BT_OK;
    if (f->taken) return BT_OK;
    int64_t wanted = f->steps.wanted;
    BT_SCOPE {
        bt_array *loss = NULL, *const *xy = f->batch->arrays;
        status = bti_steps_run(&f->steps, xy[0], xy[1], &loss, &f->losses.sum);
        f->taken = status == BT_OK || f->steps.wanted > wanted;
        bool shows = status == BT_OK && (int64_t)f->now.steps % STEPS_BETWEEN_READS == 0;
        if (f->taken) count_rows(f, (double)f->batch->rows);
        if (shows) status = bti_losses_show_late(&f->losses, loss, (int64_t)f->now.steps);
        if (status != BT_OK) status = name_step(f, f->batch, status, loss);
    }
    return status;
}

static bt_status run_step(bti_fit *f, const bt_batch *batch) {
    f->batch = batch;
    f->taken = false;
    BTI_TRY(attempt(f, make_step));
    if (!f->rewound)
        bti_progress_step(&f->progress, (int64_t)f->now.epoch * f->steps_per_epoch + batch->number, f->losses.shown);
    return BT_OK;
}

/* The batches up to the end of an epoch, which may have begun before. */
static bt_status run_batches(bti_fit *f) {
    bt_status status = BT_OK;
    bt_batch batch = {.size = sizeof batch};
    double time = bti_now_seconds();
    while (status == BT_OK && !f->stopped) {
        bool more = bt_loader_next(f->loader, &batch);
        time = end_phase(f, BTI_PHASE_DATA, time);
        if (!more) return bt_loader_status(f->loader);
        status = run_step(f, &batch);
        time = end_phase(f, BTI_PHASE_STEPS, time);
        if (status == BT_OK && !f->rewound && wants_checkpoint(f, false)) status = attempt(f, save_checkpoint);
        if (status == BT_OK && !f->rewound) status = tell(f, BT_FIT_STEP, NULL);
        time = bti_now_seconds();
    }
    return status;
}

/* Waits for the steps: none that failed goes unreported. */
static bt_status settle(bti_fit *f) {
    double start = bti_now_seconds();
    bt_status status = f->losses.sum ? bt_block(f->losses.sum) : BT_OK;
    if (status == BT_OK && f->losses.sum) {
        double sum = bt_item(f->losses.sum);
        f->epoch_loss = f->losses.shown = sum / f->now.rows;
        status = bti_losses_check(&f->losses, sum, bt_loader_state(f->loader), (int64_t)f->now.steps);
    }
    bti_losses_drop_late(&f->losses);
    if (status == BT_OK) status = bti_steps_settle(&f->steps);
    (void)end_phase(f, BTI_PHASE_STEPS, start);
    return status;
}

/* With the schedule, of the step that comes next. Without one nothing is computed, nor moved to a device. */
static double rate_now(const bti_fit *f) {
    double rate = NAN;
    if (!atomic_load(&f->optimizer->schedule)) return bt_optimizer_rate(f->optimizer);
    bti_errors_aside aside = bti_errors_aside_begin();
    BT_SCOPE
        rate = bt_item(bt_optimizer_next_rate(f->optimizer));
    bti_errors_aside_end(aside);
    return rate;
}

static bt_status end_epoch(bti_fit *f) {
    double *row = f->row;
    for (int c = 0; c < bti_history_width(&f->history); c++) row[c] = NAN;
    BTI_TRY(attempt(f, settle));
    if (f->rewound) return BT_OK;
    row[BTI_LOSS] = f->epoch_loss;
    bt_status status = attempt(f, validate);
    bt_free(f->validation_state);
    f->validation_state = NULL;
    if (status != BT_OK || f->rewound) return status;
    row[BTI_EPOCH] = f->now.epoch;
    row[BTI_STEPS] = f->now.steps;
    row[BTI_SECONDS] = seconds_of_run(f);
    row[BTI_RATE] = rate_now(f);
    row[BTI_JOULES] = bti_meters_end_epoch(&f->meters);
    BTI_TRY(bti_history_add(&f->history, row));
    show_epoch(f, row);
    BTI_TRY(watch(f, row));
    if (f->rewound) return BT_OK;
    BTI_TRY(tell(f, BT_FIT_EPOCH, row));
    if (f->options.callback) bti_steps_end(&f->steps); /* it may have changed what they hold */
    f->rows = (int64_t)f->now.rows;
    f->now.epoch++;
    f->now.rows = 0;
    bt_assign(&f->losses.sum, NULL);
    return wants_checkpoint(f, true) ? attempt(f, save_checkpoint) : BT_OK;
}

static bt_status run_epochs(bti_fit *f) {
    while (f->now.epoch < f->options.epochs && !f->stopped) {
        BTI_TRY(run_batches(f));
        if (f->stopped) return attempt(f, settle); /* by the callback, within the epoch */
        BTI_TRY(end_epoch(f));
    }
    return BT_OK;
}

static bool is_saved(const bti_fit *f) { return f->saved_epoch == f->now.epoch && f->saved_steps == f->now.steps; }

static bt_status finish_file(bti_fit *f) {
    bt_status status = bti_checkpoints_wait(f->checkpoints);
    if (status != BT_OK) f->saved_steps = -1;
    return status;
}

/* The last file is of the end of the run. */
static bt_status run_and_save(bti_fit *f) {
    do {
        BTI_TRY(run_epochs(f));
        f->rewound = false;
        if (f->checkpoints && !is_saved(f)) BTI_TRY(attempt(f, save_checkpoint));
        if (f->checkpoints && !f->rewound) BTI_TRY(attempt(f, finish_file));
    } while (f->rewound || (f->checkpoints && !is_saved(f)));
    return BT_OK;
}

/* --- the run ------------------------------------------------------------------------------------------------------------ */

static bt_status write_report(const bti_fit *f) {
    if (!f->options.report) return BT_OK;
    const bti_tally *confusion = f->judge ? &f->judge->sums[BTI_METRICS_MOST] : NULL;
    bool confused = confusion && confusion->list.count;
    bti_report report = {.model = f->model,
                         .optimizer = f->optimizer,
                         .history = &f->history,
                         .confusion = confused ? confusion->list.items : NULL,
                         .classes = confused ? (int64_t)(sqrt((double)confusion->list.count) + 0.5) : 0,
                         .rows = f->rows,
                         .steps = (int64_t)f->now.steps,
                         .best_epoch = isnan(f->now.best) ? -1 : (int64_t)f->now.best_epoch,
                         .meters = &f->meters,
                         .story = bti_str_text(&f->survival.story)};
    memcpy(report.seconds, f->phases, sizeof report.seconds);
    return bti_report_write(&report, f->options.report);
}

/* The first failure stays the thread's error. */
static bt_status and_then(bt_status status, bt_status (*next)(bti_fit *f), bti_fit *f) {
    if (status == BT_OK) return next(f);
    bti_error *cause = bti_error_last();
    (void)!next(f);
    bti_error_put_back(cause);
    return status;
}

static bt_status end_checkpoints(bti_fit *f) {
    bti_checkpoints *ended = f->checkpoints;
    f->checkpoints = NULL;
    return bti_checkpoints_end(ended);
}
static bt_status report_run(bti_fit *f) { return write_report(f); }

static bt_status begin_validation(bti_fit *f) {
    if (!f->validation) return BT_OK;
    if (!(f->judge = bti_calloc(1, sizeof *f->judge))) return bti_no_memory();
    *f->judge = (bti_judge){.model = f->model,
                            .loss = f->options.loss,
                            .loss_data = f->options.loss_data,
                            .metrics = f->options.metrics,
                            .count = f->options.metric_count,
                            .confuses = f->options.report &&
                                        f->options.metric_count}; /* else a loss may be all that a model has */
    return BT_OK;
}

static bt_status begin_checkpoints(bti_fit *f) {
    if (!f->options.checkpoints) return BT_OK;
    int keep = f->options.checkpoint_keep ? f->options.checkpoint_keep : 3;
    const bti_checkpoint_subject of = {f->model, f->optimizer, f->loader, f->validation};
    f->checkpoints = bti_checkpoints_new(f->options.checkpoints, keep, &of);
    if (!f->checkpoints) return bt_error_status();
    BTI_TRY(bti_steps_prepare(&f->steps));
    return resume(f);
}

static bt_status begin_run(bti_fit *f) {
    f->steps_per_epoch = bt_loader_batches(f->loader);
    f->began = f->saved = bti_now_seconds();
    bti_meters_begin(&f->meters, f->model, f->options.strategy);
    f->now.best = NAN;
    f->saved_steps = -1;
    bti_steps_begin(&f->steps);
    atomic_store(&f->optimizer->trained_by, f->name);
    atomic_store(&f->optimizer->gradients, f->options.all_gradients ? BTI_GRADIENTS_NEEDED : BTI_GRADIENTS_WARN);
    BTI_TRY(begin_validation(f));
    BTI_TRY(begin_checkpoints(f));
    know_places(f, true);
    return f->losses.known_state && (f->validated.known_state || !f->validation) ? BT_OK : bt_error_status();
}

static void end_run(bti_fit *f) {
    bti_steps_end(&f->steps);
    atomic_store(&f->optimizer->trained_by, NULL);
    bti_steps_forget(&f->steps);
    bti_survival_end(&f->survival);
    if (f->judge) bti_judge_clear(f->judge);
    bti_free(f->judge);
    bti_history_free(&f->history);
    drop_best(f);
    bti_vec_free(&f->best);
    bti_vec_free(&f->variables);
    bti_losses_end(&f->losses);
    bti_losses_end(&f->validated);
}

static void fill_report(const bti_fit *f, bt_fit_report *report) {
    int64_t epochs = bti_history_rows(&f->history);
    *report = (bt_fit_report){.steps = (int64_t)f->now.steps,
                              .first_loss = epochs ? bti_history_at(&f->history, 0, BTI_LOSS) : NAN,
                              .last_loss = epochs ? bti_history_at(&f->history, epochs - 1, BTI_LOSS) : NAN,
                              .seconds = bti_now_seconds() - f->began,
                              .joules = bti_meters_joules(&f->meters),
                              .devices_lost = f->survival.lost};
}

bt_status bti_fit_run(bti_fit *f, bt_fit_report *report) {
    f->history.metrics = f->options.metrics;
    f->history.count = f->options.metric_count;
    f->losses = (bti_losses){f->name, "the loss", "", f->loader, &f->steps, .shown = NAN};
    f->validated = (bti_losses){f->name, "the validation loss", "validation ", f->validation, &f->steps, .shown = NAN};
    f->steps = (bti_steps){f->options.strategy,  f->model,
                           f->optimizer,         f->options.loss,
                           f->options.loss_data, .record_each = f->options.record_each};
    bt_status status = begin_run(f);
    bti_progress_begin(&f->progress, f->options.epochs, f->steps_per_epoch, (int64_t)f->now.steps, f->options.quiet);
    if (status == BT_OK) status = run_and_save(f);
    bti_progress_end(&f->progress);
    if (status == BT_OK) status = restore_best(f);
    status = and_then(status, end_checkpoints, f);
    status = and_then(status, report_run, f);
    if (report) fill_report(f, report);
    end_run(f);
    return status;
}

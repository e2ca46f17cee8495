#include "train/survive.h"

#include "array/handle.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "dist/strategy.h"
#include "nn/optimizer.h"

/* --- which devices failed --------------------------------------------------------------------------------------------- */

bool bti_survival_is_possible(const bti_steps *steps, bt_status status) {
    bool by_device = status == BT_INTERNAL || status == BT_UNAVAILABLE || status == BT_DEADLINE_EXCEEDED ||
                     status == BT_DATA_LOSS || status == BT_ABORTED || status == BT_UNKNOWN;
    return steps->survives && by_device;
}

/* The least that uses all of a device: an upload, a kernel, a download. */
static bool is_well(const bt_device *device) {
    float three[3] = {1, 2, 3};
    bt_status status = BT_OK;
    BT_SCOPE
        BT_ON(bt_device_long_name(device)) {
            bt_array *x = bt_from(three, BT_F32, BT_SHAPE(3));
            status = bt_read(bt_add(x, x), three, sizeof three);
        }
    return status == BT_OK && three[2] == 6;
}

static bool gets_from(const bt_device *to, const bt_device *from) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *x = NULL;
        BT_ON(bt_device_long_name(from)) x = bt_from((float[]){1, 2, 3}, BT_F32, BT_SHAPE(3));
        status = bt_block(bt_to(x, bt_device_long_name(to)));
    }
    return status == BT_OK;
}

/* Of devices that work, the one with the most copies to and from the others that fail; -1: none fails. */
static int find_unreachable(const bt_strategy *strategy) {
    int failures[BTI_MAX_REPLICAS] = {0}, worst = 0;
    for (int to = 0; to < strategy->count; to++)
        for (int from = 0; from < strategy->count; from++) {
            if (to == from || gets_from(strategy->devices[to], strategy->devices[from])) continue;
            failures[to]++;
            failures[from]++;
        }
    for (int r = 1; r < strategy->count; r++)
        if (failures[r] > failures[worst]) worst = r;
    return failures[worst] ? worst : -1;
}

static int find_failed(const bt_strategy *strategy, int *failed) {
    int count = 0;
    bti_errors_aside aside = bti_errors_aside_begin();
    for (int r = 0; r < strategy->count; r++)
        if (!is_well(strategy->devices[r])) failed[count++] = r;
    int unreachable = count ? -1 : find_unreachable(strategy);
    if (unreachable >= 0) failed[count++] = unreachable;
    bti_errors_aside_end(aside);
    return count;
}

/* --- telling ---------------------------------------------------------------------------------------------------------- */

static void list_failed(const bt_strategy *strategy, const int *failed, int count, bti_str *names) {
    for (int i = 0; i < count; i++) {
        const char *between = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        bti_str_addf(names, "%s%s", between, bt_device_name(strategy->devices[failed[i]]));
    }
}

static void tell_failure(bti_survival *s, const char *call, const char *line) {
    bti_log("berth: %s: %s", call, line);
    bti_str_addf(&s->story, "%s\n", line);
}

/* The status of the failure, with what it means for the run in front. */
static bt_status give_up(const bti_error *cause, const char *line) {
    return bti_fail(bti_error_code(cause), "%s; %s", line, bti_error_message(cause));
}

/* --- going on --------------------------------------------------------------------------------------------------------- */

/* The thread's default device may be one that failed. */
static void choose_default(bti_survival *s, const bt_strategy *strategy) {
    if (s->has_default) bti_default_end(&s->default_device);
    s->default_device = bti_default_begin(bt_device_long_name(strategy->devices[0]));
    s->has_default = true;
}

static bt_status drop_failed(bti_survival *s, bti_failed_run *run, const int *failed, int count,
                             const bti_error *cause) {
    bti_steps *steps = run->steps;
    bti_str names = {0}, line = {0};
    list_failed(steps->strategy, failed, count, &names);
    bti_str_addf(&line, "%s failed in step %lld", bti_str_text(&names), (long long)run->failed_step);
    bti_without_site without_site = bti_without_site_begin(); /* the line is in front already */
    bt_status status = bt_strategy_drop(steps->strategy, failed, count, steps->model, steps->optimizer);
    bti_without_site_end(without_site);
    if (status == BT_OK) {
        run->states_lost = bti_optimizer_has_lost(steps->optimizer);
        s->lost += count;
        choose_default(s, steps->strategy);
        int left = steps->strategy->count;
        if (run->states_lost && !run->has_checkpoint)
            bti_str_add(&line, "; its part of the optimiser's states is lost");
        else
            bti_str_addf(&line, "; the run goes on over %d device%s from %s", left, left == 1 ? "" : "s",
                         run->states_lost ? "the last checkpoint" : "the step before it");
        bti_str_addf(&line, " (%s)", bti_error_message(cause));
        tell_failure(s, run->call, bti_str_text(&line));
    } else {
        bti_error *why = bti_error_last();
        bti_str_addf(&line, "; the run cannot go on: %s", bti_error_message(why));
        bti_error_release(why);
        status = give_up(cause, bti_str_text(&line));
    }
    bti_str_free(&names);
    bti_str_free(&line);
    return status;
}

/* What fails once may have been an accident; twice in the same step it is not. */
static bt_status repeat_once(bti_survival *s, const bti_failed_run *run, bti_error *cause) {
    if (s->repeated == run->failed_step) return bti_fail_with(cause);
    s->repeated = run->failed_step;
    bti_str line = {0};
    bti_str_addf(&line, "step %lld failed, and all devices work; it is made again (%s)", (long long)run->failed_step,
                 bti_error_message(cause));
    tell_failure(s, run->call, bti_str_text(&line));
    bti_str_free(&line);
    return BT_OK;
}

bt_status bti_survive(bti_survival *s, bti_failed_run *run) {
    BTI_CALL(run->call);
    bti_error *cause = bti_error_last();
    int failed[BTI_MAX_REPLICAS];
    int64_t missing = 0;
    run->states_lost = false;
    (void)!bti_steps_settle(run->steps); /* what depends on the failure is taken back */
    int count = find_failed(run->steps->strategy, failed);
    bt_status status = bti_steps_missing(run->steps, &missing, run->sum);
    run->failed_step = run->step - missing + 1;
    if (status == BT_OK) status = count ? drop_failed(s, run, failed, count, cause) : repeat_once(s, run, cause);
    bti_error_release(cause);
    return status;
}

void bti_survival_end(bti_survival *s) {
    if (s->has_default) bti_default_end(&s->default_device);
    bti_str_free(&s->story);
}

/* The rate: its variables, and schedules, the factor as an expression of the count of updates. */
#include <math.h>

#include <berth/custom.h>

#include "array/place.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "nn/optimizer.h"

/* --- variables -------------------------------------------------------------------------------------------------- */

bt_status bti_rate_check(double rate) {
    if (!isfinite(rate))
        return bti_fail(BT_INVALID_ARGUMENT, "the rate is %s; it must be a finite number",
                        isnan(rate) ? "nan"
                        : rate < 0  ? "-inf"
                                    : "inf");
    if (rate < 0)
        return bti_fail(
            BT_INVALID_ARGUMENT,
            "the rate is %g; it must not be negative: what is to grow has its negative as the loss (bt_neg)", rate);
    return BT_OK;
}

bt_array *bti_rate_array(double rate, bt_dtype dtype, bt_device *device) {
    bt_array *made = NULL;
    float narrow = (float)rate;
    const void *elements = dtype == BT_F64 ? (const void *)&rate : &narrow;
    BT_ON(bt_device_long_name(device)) made = bt_from(elements, dtype, (bt_shape){.rank = 0});
    return made;
}

bt_status bti_rate_set(bt_shared *variable, double rate) {
    bt_status status = BT_OK;
    int replica = bti_in_replica() ? bti_replica() : -1;
    (void)bti_set_replica(-1); /* of all replicas */
    BT_SCOPE {
        bt_array *now = bt_value(variable);
        status = bt_set(variable, bti_rate_array(rate, bt_dtype_of(now), bt_device_of(now)));
    }
    (void)bti_set_replica(replica);
    return status;
}

/* --- factors ---------------------------------------------------------------------------------------------------------- */

static const double pi = 3.14159265358979323846;

static bt_array *scale_array(bt_array *x, double factor) { return bt_mul(x, bt_num(factor)); }

/* from + (to - from) * x */
static bt_array *on_a_line(bt_array *x, double from, double to) {
    return bt_add(scale_array(x, to - from), bt_num(from));
}
/* to + (from - to) * (1 + cos(pi * x)) / 2 */
static bt_array *on_a_cosine(bt_array *x, double from, double to) {
    return bt_add(scale_array(bt_add(bt_cos(scale_array(x, pi)), bt_num(1)), (from - to) / 2), bt_num(to));
}
/* x / length, at most 1 */
static bt_array *part_of(bt_array *x, double length) { return bt_minimum(bt_div(x, bt_num(length)), bt_num(1)); }

/* The last steps of both parts are among them, as PyTorch counts. */
static bt_array *one_cycle(const bt_schedule_options *o, bt_array *count) {
    double top = o->rise * (double)o->steps - 1, end = (double)o->steps - 1;
    bt_array *up = on_a_cosine(part_of(count, top), o->first, 1);
    bt_array *down = on_a_cosine(part_of(bt_sub(count, bt_num(top)), end - top), 1, o->last);
    return bt_where(bt_le(count, bt_num(top)), up, down);
}

static bt_array *call_own(bt_custom *own, bt_array *count) { return bt_custom_call(own, &count, 1, NULL, 0); }

/* Behind the warm-up. */
static bt_array *factor_after(const bti_schedule_made *s, bt_array *u) {
    const bt_schedule_options *o = &s->numbers;
    double length = (double)(o->steps - o->warmup);
    switch (s->kind) {
    case BT_SCHEDULE_LINEAR: return on_a_line(part_of(u, length), 1, o->last);
    case BT_SCHEDULE_COSINE: return on_a_cosine(part_of(u, length), 1, o->last);
    case BT_SCHEDULE_STEP: return bt_pow(bt_num(o->gamma), bt_floor(bt_div(u, bt_num((double)o->every))));
    case BT_SCHEDULE_EXPONENTIAL: return bt_pow(bt_num(o->gamma), u);
    case BT_SCHEDULE_ONE_CYCLE: return one_cycle(o, u);
    case BT_SCHEDULE_OWN: return call_own(s->own, u);
    case BT_SCHEDULE_CONSTANT: break;
    }
    return bt_ones_like(u);
}

bt_array *bti_schedule_factor(const bti_schedule_made *s, bt_array *count) {
    double warmup = (double)s->numbers.warmup;
    if (!s->numbers.warmup) return factor_after(s, count);
    bt_array *u = bt_maximum(bt_sub(count, bt_num(warmup)), bt_num(0));
    bt_array *rising = on_a_line(bt_div(count, bt_num(warmup)), s->numbers.first, 1);
    return bt_where(bt_lt(count, bt_num(warmup)), rising, factor_after(s, u));
}

/* --- schedules of the program's ----------------------------------------------------------------------------------------- */

typedef struct own_schedule {
    bt_schedule_fn *factor;
    void *data;
} own_schedule;

static bt_status run_own(const bt_elements *inputs, int count, const bt_elements *outputs, const bt_custom_args *args) {
    (void)count;
    const own_schedule *own = args->data;
    double step = *(const double *)inputs->data, factor = own->factor((int64_t)step, own->data);
    if (!isfinite(factor))
        return bti_fail(BT_INVALID_ARGUMENT, "the schedule's factor at step %.0f is %g; it must be a finite number",
                        step, factor);
    *(double *)outputs->data = factor;
    return BT_OK;
}

static bt_status scalar_shape(const bt_elements *inputs, int count, bt_elements *outputs, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)outputs, (void)args; /* outputs begin as the first input */
    return BT_OK;
}

static bt_status make_own(bti_schedule_made *s) {
    own_schedule *own = bti_alloc(sizeof *own);
    if (!own) return bti_no_memory();
    *own = (own_schedule){s->numbers.own, s->numbers.data};
    BT_SCOPE
        s->own = bt_custom_retain(bt_custom_new(&(bt_custom_options){.size = sizeof(bt_custom_options),
                                                                     .name = "schedule",
                                                                     .run = run_own,
                                                                     .shape = scalar_shape,
                                                                     .data = own,
                                                                     .release = bti_free}));
    return bt_custom_status(s->own);
}

/* --- setting ---------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_schedule_options, name)
static const bti_member schedule_members[] = {MEMBER(size),  MEMBER(by_name), MEMBER(steps), MEMBER(warmup),
                                              MEMBER(first), MEMBER(last),    MEMBER(every), MEMBER(gamma),
                                              MEMBER(rise),  MEMBER(own),     MEMBER(data)};
#undef MEMBER
static const bt_schedule_options unsaid = {
    .first = BTI_UNSET_REAL, .last = BTI_UNSET_REAL, .gamma = BTI_UNSET_REAL, .rise = BTI_UNSET_REAL};
static const bti_sized_type schedule_layout =
    BTI_SIZED_TYPE(bt_schedule_options, "options", "BT_SCHEDULE(.steps = 1000)", schedule_members, &unsaid);

static void set_default(double *option, double value) {
    if (*option == BTI_UNSET_REAL) *option = value;
}

static const int64_t most_steps = INT64_C(1) << 53; /* counts are float64 */

/* The option that the schedule does not have, or NULL. */
static const char *unknown_option(bt_schedule kind, const bt_schedule_options *o) {
    bool cycles = kind == BT_SCHEDULE_ONE_CYCLE,
         ends = cycles || kind == BT_SCHEDULE_LINEAR || kind == BT_SCHEDULE_COSINE;
    if (o->steps && !ends) return "steps";
    if (o->warmup && cycles) return "warmup (its rise is one)";
    if (o->first != BTI_UNSET_REAL && !cycles && !o->warmup) return "first (it needs warmup)";
    if (o->last != BTI_UNSET_REAL && !ends) return "last";
    if (o->every && kind != BT_SCHEDULE_STEP) return "every";
    if (o->gamma != BTI_UNSET_REAL && kind != BT_SCHEDULE_STEP && kind != BT_SCHEDULE_EXPONENTIAL) return "gamma";
    if (o->rise != BTI_UNSET_REAL && !cycles) return "rise";
    return (o->own || o->data) && kind != BT_SCHEDULE_OWN ? "own, or data" : NULL;
}

/* Why it cannot be, or NULL. Defaults are set. */
static const char *why_not(bt_schedule kind, const bt_schedule_options *o) {
    bool ends = kind == BT_SCHEDULE_ONE_CYCLE || kind == BT_SCHEDULE_LINEAR || kind == BT_SCHEDULE_COSINE;
    if (o->warmup < 0 || o->warmup > most_steps) return "warmup must be 0 or more, at most 2**53";
    if (ends && (o->steps <= o->warmup || o->steps > most_steps))
        return "steps are those of all, and must be more than warmup, at most 2**53";
    if (!isfinite(o->first) || !isfinite(o->last)) return "first and last must be finite numbers";
    if (kind == BT_SCHEDULE_STEP && (o->every < 1 || o->every > most_steps))
        return "every must be 1 or more, at most 2**53";
    if (!(isfinite(o->gamma) && o->gamma > 0)) return "gamma must be a finite number above 0";
    if (!(o->rise > 0 && o->rise < 1)) return "rise must be above 0 and below 1";
    if (kind == BT_SCHEDULE_ONE_CYCLE && o->rise * (double)o->steps <= 1)
        return "rise * steps must be above 1, so that there is a step on the way up";
    if (kind == BT_SCHEDULE_OWN && !o->own) return "the function (.own) is NULL";
    return NULL;
}

static bt_status take_schedule_options(bt_schedule kind, const bt_schedule_options *given,
                                       bt_schedule_options *numbers) {
    *numbers = unsaid;
    if ((unsigned)kind > BT_SCHEDULE_OWN)
        return bti_fail(BT_INVALID_ARGUMENT, "%d is no schedule (bt_schedule)", (int)kind);
    if (given) BTI_TRY(bti_options_take(&schedule_layout, "bt_optimizer_schedule", given, numbers));
    const char *unknown = unknown_option(kind, numbers);
    if (unknown) return bti_fail(BT_INVALID_ARGUMENT, "this schedule has no option %s", unknown);
    if (kind == BT_SCHEDULE_EXPONENTIAL && numbers->gamma == BTI_UNSET_REAL)
        return bti_fail(BT_INVALID_ARGUMENT, "an exponential schedule needs gamma, the factor of one step");
    bool cycles = kind == BT_SCHEDULE_ONE_CYCLE;
    set_default(&numbers->first, cycles ? 1.0 / 25 : 0);
    set_default(&numbers->last, cycles ? numbers->first / 1e4 : 0);
    set_default(&numbers->gamma, 0.1);
    set_default(&numbers->rise, 0.3);
    const char *why = why_not(kind, numbers);
    return why ? bti_fail(BT_INVALID_ARGUMENT, "%s", why) : BT_OK;
}

void bti_schedule_free(bti_schedule_made *schedule) {
    while (schedule) {
        bti_schedule_made *previous = schedule->previous;
        bt_custom_release(schedule->own);
        bti_free(schedule);
        schedule = previous;
    }
}

bt_status bt_optimizer_schedule(bt_optimizer *optimizer, bt_schedule kind, const bt_schedule_options *options) {
    BTI_CALL("bt_optimizer_schedule");
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_schedule"));
    bt_schedule_options numbers;
    BTI_TRY(take_schedule_options(kind, options, &numbers));
    bti_schedule_made *made = bti_calloc(1, sizeof *made);
    if (!made) return bti_no_memory();
    made->kind = kind;
    made->numbers = numbers;
    bt_status status = kind == BT_SCHEDULE_OWN ? make_own(made) : BT_OK;
    if (status != BT_OK) {
        bti_schedule_free(made);
        return status;
    }
    made->previous = atomic_load(&optimizer->schedule);
    while (!atomic_compare_exchange_weak(&optimizer->schedule, &made->previous, made)) {
    }
    return BT_OK;
}

/* Optimisers: made, checked, released; their rates. */
#include "nn/optimizer.h"

#include <math.h>

#include "array/place.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "function/shared.h"

static void clear_optimizer(void *object) {
    bt_optimizer *optimizer = object;
    bti_optimizer_clear_states(optimizer);
    bti_schedule_free(atomic_load(&optimizer->schedule));
}

static bt_optimizer optimizer_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class optimizer_class = {BTI_OWNED_OPTIMIZER, sizeof(bt_optimizer), clear_optimizer,
                                                 &optimizer_without_memory};

bt_optimizer *bt_optimizer_retain(bt_optimizer *optimizer) {
    return bti_handle_retain(&optimizer_class, optimizer, "bt_optimizer_retain");
}
void bt_optimizer_release(bt_optimizer *optimizer) {
    bti_handle_release(&optimizer_class, optimizer, "bt_optimizer_release");
}
bt_status bt_optimizer_status(const bt_optimizer *optimizer) {
    return bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_status");
}

/* --- options ---------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_optimizer_options, name)
static const bti_member option_members[] = {
    MEMBER(size),          MEMBER(beta1),         MEMBER(beta2),    MEMBER(epsilon),    MEMBER(by_name),
    MEMBER(alpha),         MEMBER(momentum),      MEMBER(centered), MEMBER(decay),      MEMBER(clip_value),
    MEMBER(clip_norm),     MEMBER(accumulate),    MEMBER(average),  MEMBER(loss_scale), MEMBER(scale_growth),
    MEMBER(scale_backoff), MEMBER(scale_interval)};
#undef MEMBER
static const bt_optimizer_options unsaid = {.beta1 = BTI_UNSET_REAL,
                                            .beta2 = BTI_UNSET_REAL,
                                            .epsilon = BTI_UNSET_REAL,
                                            .alpha = BTI_UNSET_REAL,
                                            .momentum = BTI_UNSET_REAL,
                                            .decay = BTI_UNSET_REAL};
static const bti_sized_type options_layout =
    BTI_SIZED_TYPE(bt_optimizer_options, "options", "BT_OPTIMIZER(.decay = 0.01)", option_members, &unsaid);

/* The option that a rule is given and does not have, or NULL. */
static const char *unknown_option(unsigned known, const bt_optimizer_options *o) {
    if (!(known & BTI_KNOWS_BETAS) && o->beta1 != BTI_UNSET_REAL) return "beta1";
    if (!(known & BTI_KNOWS_BETAS) && o->beta2 != BTI_UNSET_REAL) return "beta2";
    if (!(known & BTI_KNOWS_EPSILON) && o->epsilon != BTI_UNSET_REAL) return "epsilon";
    if (!(known & BTI_KNOWS_RMSPROP) && o->alpha != BTI_UNSET_REAL) return "alpha";
    if (!(known & BTI_KNOWS_RMSPROP) && o->centered) return "centered";
    if (!(known & BTI_KNOWS_MOMENTUM) && o->momentum != BTI_UNSET_REAL) return "momentum";
    if (o->loss_scale != 0) return NULL;
    if (o->scale_growth != 0) return "scale_growth (it needs loss_scale)";
    if (o->scale_backoff != 0) return "scale_backoff (it needs loss_scale)";
    return o->scale_interval ? "scale_interval (it needs loss_scale)" : NULL;
}

static void set_default(double *option, double value) {
    if (*option == BTI_UNSET_REAL) *option = value;
}
static void set_defaults(const bti_optimizer_rule *rule, bt_optimizer_options *o) {
    set_default(&o->beta1, 0.9);
    set_default(&o->beta2, rule->beta2);
    set_default(&o->epsilon, rule->epsilon);
    set_default(&o->alpha, 0.99);
    set_default(&o->momentum, 0);
    set_default(&o->decay, rule->decay);
    if (o->accumulate == 0) o->accumulate = 1;
    if (o->scale_growth == 0) o->scale_growth = 2;
    if (o->scale_backoff == 0) o->scale_backoff = 0.5;
    if (o->scale_interval == 0) o->scale_interval = 2000;
}

static bool at_least_0(double x) { return isfinite(x) && x >= 0; }
static bool is_factor(double x) { return x >= 0 && x < 1; }

/* Of options that are all set: why they cannot be, or NULL. */
static const char *why_not(const bt_optimizer_options *o) {
    if (!is_factor(o->beta1) || !is_factor(o->beta2)) return "beta1 and beta2 must be at least 0 and below 1";
    if (!at_least_0(o->epsilon)) return "epsilon must be a finite number, 0 or more";
    if (!is_factor(o->alpha)) return "alpha must be at least 0 and below 1";
    if (!at_least_0(o->momentum)) return "the momentum must be a finite number, 0 or more";
    if (!at_least_0(o->decay)) return "the decay must be a finite number, 0 or more";
    if (!at_least_0(o->clip_value)) return "clip_value must be a finite number, 0 or more";
    if (!at_least_0(o->clip_norm)) return "clip_norm must be a finite number, 0 or more";
    if (o->accumulate < 1 || o->accumulate > INT32_MAX) return "accumulate must be 1 or more, below 2**31";
    if (!is_factor(o->average)) return "average must be at least 0 and below 1";
    if (!at_least_0(o->loss_scale)) return "loss_scale must be a finite number, 0 or more";
    if (!(isfinite(o->scale_growth) && o->scale_growth > 1)) return "scale_growth must be a finite number above 1";
    if (!(o->scale_backoff > 0 && o->scale_backoff < 1)) return "scale_backoff must be above 0 and below 1";
    return o->scale_interval < 1 || o->scale_interval > INT32_MAX ? "scale_interval must be 1 or more, below 2**31"
                                                                  : NULL;
}

static bt_status take_options(const bti_optimizer_rule *rule, const bt_optimizer_options *given, double momentum,
                              bt_optimizer_options *numbers) {
    *numbers = unsaid;
    if (given) BTI_TRY(bti_options_take(&options_layout, rule->call, given, numbers));
    bool by_position = momentum != BTI_UNSET_REAL;
    const char *unknown = unknown_option(by_position ? rule->options & ~BTI_KNOWS_MOMENTUM : rule->options, numbers);
    if (unknown) return bti_fail(BT_INVALID_ARGUMENT, "%s has no option %s", rule->call, unknown);
    if (by_position) numbers->momentum = momentum;
    set_defaults(rule, numbers);
    const char *why = why_not(numbers);
    return why ? bti_fail(BT_INVALID_ARGUMENT, "%s", why) : BT_OK;
}

/* --- making ----------------------------------------------------------------------------------------------------------- */

static bt_status check_rate(double rate) {
    return isfinite(rate) ? BT_OK : bti_fail(BT_INVALID_ARGUMENT, "the rate is %g; it must be a finite number", rate);
}

static bt_optimizer *make_optimizer(bti_rule_kind kind, double rate, double momentum,
                                    const bt_optimizer_options *options) {
    const bti_optimizer_rule *rule = &bti_optimizer_rules[kind];
    BTI_CALL(rule->call);
    bt_optimizer_options numbers;
    bt_optimizer *o = NULL;
    if (check_rate(rate) == BT_OK && take_options(rule, options, momentum, &numbers) == BT_OK) {
        o = bti_owned_new(BTI_OWNED_OPTIMIZER, sizeof *o);
        if (!o) (void)!bti_no_memory();
    }
    if (o) {
        o->rule = rule;
        o->numbers = numbers;
        atomic_store(&o->rate, rate);
    }
    return bti_scope_own(&optimizer_class, o);
}

bt_optimizer *bt_sgd(double rate, const bt_optimizer_options *options) {
    return make_optimizer(BTI_SGD, rate, BTI_UNSET_REAL, options);
}
bt_optimizer *bt_momentum(double rate, double momentum, const bt_optimizer_options *options) {
    return make_optimizer(BTI_MOMENTUM_RULE, rate, momentum, options);
}
bt_optimizer *bt_nesterov(double rate, double momentum, const bt_optimizer_options *options) {
    return make_optimizer(BTI_NESTEROV, rate, momentum, options);
}
bt_optimizer *bt_adam(double rate, const bt_optimizer_options *options) {
    return make_optimizer(BTI_ADAM_RULE, rate, BTI_UNSET_REAL, options);
}
bt_optimizer *bt_adamw(double rate, const bt_optimizer_options *options) {
    return make_optimizer(BTI_ADAMW, rate, BTI_UNSET_REAL, options);
}
bt_optimizer *bt_rmsprop(double rate, const bt_optimizer_options *options) {
    return make_optimizer(BTI_RMSPROP, rate, BTI_UNSET_REAL, options);
}
bt_optimizer *bt_adagrad(double rate, const bt_optimizer_options *options) {
    return make_optimizer(BTI_ADAGRAD, rate, BTI_UNSET_REAL, options);
}
bt_optimizer *bt_lion(double rate, const bt_optimizer_options *options) {
    return make_optimizer(BTI_LION, rate, BTI_UNSET_REAL, options);
}

const char *bt_optimizer_name(const bt_optimizer *optimizer) {
    bool usable = bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_name") == BT_OK;
    return usable ? optimizer->rule->name : NULL;
}

/* --- the rate --------------------------------------------------------------------------------------------------------- */

double bt_optimizer_rate(const bt_optimizer *optimizer) {
    if (bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_rate") != BT_OK) return NAN;
    return atomic_load(&optimizer->rate);
}

/* Elements, not a constant: a constant is a part of the plan. */
static bt_array *rate_array(double rate, bt_dtype dtype, bt_device *device) {
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
        status = bt_set(variable, rate_array(rate, bt_dtype_of(now), bt_device_of(now)));
    }
    (void)bti_set_replica(replica);
    return status;
}

static bt_status set_rates(const bt_optimizer *optimizer, double rate) {
    for (bti_common *c = atomic_load(&optimizer->commons); c; c = c->next)
        for (int k = BTI_RATE_F32; k <= BTI_RATE_F64; k++) {
            bt_shared *variable = atomic_load(&c->values[k]);
            if (variable) BTI_TRY(bti_rate_set(variable, rate));
        }
    return BT_OK;
}

/* All variables, or none. */
bt_status bti_optimizer_restore(bt_optimizer *optimizer, bt_shared *const *states, bt_array *const *values, int count,
                                double rate) {
    double before = atomic_exchange(&optimizer->rate, rate);
    bti_sets_begin();
    bt_status status = bt_set_all(states, values, count);
    if (status == BT_OK) status = set_rates(optimizer, rate);
    bt_status committed = bti_sets_end(status == BT_OK);
    if (status == BT_OK) status = committed;
    if (status != BT_OK) atomic_store(&optimizer->rate, before);
    return status;
}

bt_status bt_optimizer_set_rate(bt_optimizer *optimizer, double rate) {
    BTI_CALL("bt_optimizer_set_rate");
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_set_rate"));
    BTI_TRY(check_rate(rate));
    return bti_optimizer_restore(optimizer, NULL, NULL, 0, rate);
}

bt_array *bt_optimizer_next_rate(const bt_optimizer *optimizer) {
    BTI_PUBLIC("bt_optimizer_next_rate");
    bti_error *error = bti_handle_error(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_next_rate");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    const bti_schedule_made *schedule = atomic_load(&optimizer->schedule);
    bti_common *common = bti_common_first(optimizer);
    bt_shared *counter = common ? atomic_load(&common->values[BTI_COUNT]) : NULL;
    bt_array *count = counter ? bt_value(counter) : bt_zeros(BT_F64);
    if (bti_array_error(count)) BTI_RETURN(count);
    bt_array *rate = rate_array(atomic_load(&optimizer->rate), BT_F64, bt_device_of(count));
    BTI_RETURN(schedule ? bt_mul(rate, bti_schedule_factor(schedule, count)) : rate);
}

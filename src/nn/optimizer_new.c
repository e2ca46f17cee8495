/* Optimisers: made, checked, released. */
#include "nn/optimizer.h"

#include <math.h>

#include "base/error.h"
#include "base/sized.h"

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
static const bti_member rule_option_members[] = {
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
static const bti_sized_type rule_options_layout =
    BTI_SIZED_TYPE(bt_optimizer_options, "options", "BT_OPTIMIZER(.decay = 0.01)", rule_option_members, &unsaid);

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

static bt_status take_rule_options(const bti_optimizer_rule *rule, const bt_optimizer_options *given, double momentum,
                                   bt_optimizer_options *numbers) {
    *numbers = unsaid;
    if (given) BTI_TRY(bti_options_take(&rule_options_layout, rule->call, given, numbers));
    bool by_position = momentum != BTI_UNSET_REAL;
    const char *unknown = unknown_option(by_position ? rule->options & ~BTI_KNOWS_MOMENTUM : rule->options, numbers);
    if (unknown) return bti_fail(BT_INVALID_ARGUMENT, "%s has no option %s", rule->call, unknown);
    if (by_position) numbers->momentum = momentum;
    set_defaults(rule, numbers);
    const char *why = why_not(numbers);
    return why ? bti_fail(BT_INVALID_ARGUMENT, "%s", why) : BT_OK;
}

/* --- making ----------------------------------------------------------------------------------------------------------- */

static bt_optimizer *make_optimizer(bti_rule_kind kind, double rate, double momentum,
                                    const bt_optimizer_options *options) {
    const bti_optimizer_rule *rule = &bti_optimizer_rules[kind];
    BTI_CALL(rule->call);
    bt_optimizer_options numbers;
    bt_optimizer *o = NULL;
    if (bti_rate_check(rate) == BT_OK && take_rule_options(rule, options, momentum, &numbers) == BT_OK) {
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

/* A step: the new values of parameters and states, recorded; set together, or handed out as the updates of a function. */
#include <string.h>

#include "array/place.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/label.h"
#include "base/vec.h"
#include "function/shared.h"
#include "nn/optimizer.h"

/* One parameter of the step. */
typedef struct live {
    bti_optimizer_entry *entry;
    int common; /* index into step.commons */
    bt_array *grad;
    bt_array *step, *corrections[2]; /* of a rule that corrects */
} live;

/* What the step knows of parameters on the same devices, whose updates are computed at the same place. */
typedef struct common_step {
    bti_common *common;
    int home;         /* of the parameters' states */
    bool leads;       /* the first one with these common values: it updates them */
    bt_array *factor; /* of the schedule, float64; NULL: 1 */
    bt_array *full;   /* bool: as many steps are accumulated as an update takes; NULL: always */
    bt_array *finite; /* bool: the gradients of all devices are; NULL: nobody asks */
    bt_array *go;     /* bool: the update happens; NULL: it does */
    bt_array *scale;  /* of the loss, float64; NULL: 1 */
    bt_array *clip;   /* by which gradients are multiplied, float64; NULL: 1 */
} common_step;

/* A rate that several parameters have. */
typedef struct group_rate {
    int common;
    bt_dtype dtype;
    double factor;
    bt_array *rate;
} group_rate;

typedef struct step {
    bt_optimizer *optimizer;
    const bti_schedule_made *schedule; /* NULL: constant */
    live *live;
    int count;
    BTI_VEC(common_step) commons;
    BTI_VEC(group_rate) rates;
    bt_shared **shared; /* the updates, all to be set at once */
    bt_array **values;
    int updates;
} step;

enum { UPDATES_OF_PARAMETER = BTI_RULE_STATES + 3, UPDATES_OF_COMMON = BTI_RATE_F32 };

static void add_update(step *s, bt_shared *shared, bt_array *value) {
    s->shared[s->updates] = shared;
    s->values[s->updates++] = value;
}

static bt_shared *common_variable(const common_step *c, bti_common_value k) {
    return atomic_load(&c->common->values[k]);
}
/* Where the update is computed. */
static bt_array *home_value(bt_shared *shared, int home) {
    return home == BTI_EVERY_REPLICA ? bt_value(shared) : bti_shared_value_at(shared, home);
}
static bt_array *common_value(const common_step *c, bti_common_value k) {
    return home_value(common_variable(c, k), c->home);
}

/* Without a condition the new one. */
static bt_array *choose(bt_array *condition, bt_array *new, bt_array *old) {
    return condition ? bt_where(condition, new, old) : new;
}

/* --- what parameters have in common ------------------------------------------------------------------------------------- */

static void begin_common(const step *s, common_step *c) {
    const bt_optimizer_options *o = &s->optimizer->numbers;
    if (s->schedule) c->factor = bti_schedule_factor(s->schedule, common_value(c, BTI_COUNT));
    if (o->accumulate > 1)
        c->go = c->full = bt_ge(common_value(c, BTI_ACCUMULATED), bt_num((double)(o->accumulate - 1)));
    if (o->loss_scale > 0) c->scale = common_value(c, BTI_SCALE);
}

/* The index of the devices' common values; -1: memory is short. */
static int common_of(step *s, bti_common *common, int home) {
    common_step made = {.common = common, .home = home, .leads = true};
    for (size_t i = 0; i < s->commons.count; i++) {
        if (s->commons.items[i].common != common) continue;
        if (s->commons.items[i].home == home) return (int)i;
        made.leads = false;
    }
    begin_common(s, &made);
    return bti_vec_push(&s->commons, made) ? (int)s->commons.count - 1 : -1;
}

/* finite, and with it go, on all devices. */
static void find_finite(step *s) {
    bt_array *all = NULL;
    for (int i = 0; i < s->count; i++) {
        bt_array *one = bt_all(bt_isfinite(s->live[i].grad), BT_ALL, false);
        all = all ? bt_logical_and(all, bti_scalar_beside(one, all)) : one;
    }
    for (size_t i = 0; i < s->commons.count; i++) {
        common_step *c = &s->commons.items[i];
        c->finite = bti_scalar_beside(all, c->scale);
        c->go = c->full ? bt_logical_and(c->full, c->finite) : c->finite;
    }
}

static bt_status find_norm(step *s) {
    bt_array **grads = bti_alloc((size_t)s->count * sizeof *grads);
    if (!grads) return bti_no_memory();
    for (int i = 0; i < s->count; i++) grads[i] = s->live[i].grad;
    bt_array *norm = bt_global_norm(grads, s->count);
    bti_free(grads);
    for (size_t i = 0; i < s->commons.count; i++) {
        common_step *c = &s->commons.items[i];
        bt_array *before = common_value(c, BTI_NORM), *here = bti_scalar_beside(norm, before);
        c->clip = bti_clip_factor(here, s->optimizer->numbers.clip_norm);
        if (c->leads) add_update(s, common_variable(c, BTI_NORM), choose(c->go, here, before));
    }
    return BT_OK;
}

/* After an update with gradients that are not finite the scale shrinks; after an interval of finite ones it grows, unless it would overflow
 * float32, in which losses are. */
static void update_scale(step *s, const common_step *c) {
    const bt_optimizer_options *o = &s->optimizer->numbers;
    bt_array *finite_steps = common_value(c, BTI_FINITE), *next = bt_add(finite_steps, bt_num(1));
    bt_array *grown = bt_mul(c->scale, bt_num(o->scale_growth));
    bt_array *due = bt_ge(next, bt_num((double)o->scale_interval));
    bt_array *may = bt_logical_and(due, bt_isfinite(bt_cast(grown, BT_F32)));
    bt_array *scale = bt_where(c->finite, bt_where(may, grown, c->scale), bt_mul(c->scale, bt_num(o->scale_backoff)));
    bt_array *steps = bt_where(bt_logical_and(c->finite, bt_logical_not(due)), next, bt_num(0));
    add_update(s, common_variable(c, BTI_SCALE), choose(c->full, scale, c->scale));
    add_update(s, common_variable(c, BTI_FINITE), choose(c->full, steps, finite_steps));
}

static void update_commons(step *s) {
    for (size_t i = 0; i < s->commons.count; i++) {
        const common_step *c = &s->commons.items[i];
        if (!c->leads) continue;
        if (s->schedule) {
            bt_array *count = common_value(c, BTI_COUNT);
            add_update(s, common_variable(c, BTI_COUNT), choose(c->go, bt_add(count, bt_num(1)), count));
        }
        if (c->full) {
            bt_array *more = bt_add(common_value(c, BTI_ACCUMULATED), bt_num(1));
            add_update(s, common_variable(c, BTI_ACCUMULATED), bt_where(c->full, bt_num(0), more));
        }
        if (c->scale) update_scale(s, c);
    }
}

/* --- gradients -------------------------------------------------------------------------------------------------------- */

/* In the dtype of the step, unscaled, and the mean of those that are accumulated. */
static void prepare_grad(step *s, live *l) {
    const bt_optimizer_options *o = &s->optimizer->numbers;
    const common_step *c = &s->commons.items[l->common];
    if (bt_dtype_of(l->grad) != l->entry->dtype) l->grad = bt_cast(l->grad, l->entry->dtype);
    if (c->scale) l->grad = bt_mul(l->grad, bt_cast(bt_reciprocal(c->scale), l->entry->dtype));
    if (!c->full) return;
    bt_array *part = bt_mul(l->grad, bt_num(1 / (double)o->accumulate));
    l->grad = bt_add(bt_value(l->entry->accumulated), part);
    add_update(s, l->entry->accumulated, bt_where(c->full, bt_zeros_like(l->grad), l->grad));
}

static bt_status clip_grads(step *s) {
    const bt_optimizer_options *o = &s->optimizer->numbers;
    for (int i = 0; i < s->count && o->clip_value > 0; i++)
        s->live[i].grad = bt_clamp(s->live[i].grad, -o->clip_value, o->clip_value);
    if (o->clip_norm <= 0 || !s->count) return BT_OK;
    BTI_TRY(find_norm(s));
    for (int i = 0; i < s->count; i++) {
        live *l = &s->live[i];
        l->grad = bt_mul(l->grad, bt_cast(s->commons.items[l->common].clip, l->entry->dtype));
    }
    return BT_OK;
}

/* --- corrections ------------------------------------------------------------------------------------------------------ */

static bool corrected_alike(const live *a, const live *b) {
    return a->common == b->common && a->entry->dtype == b->entry->dtype;
}

/* Where a whole step is one program, those of all parameters at one place come from one array of their steps: TPUs emulate powers of float64 by long programs. Elsewhere they are a launch already. */
static void correct_together(step *s, int first, bt_array **steps) {
    const bti_optimizer_rule *rule = s->optimizer->rule;
    const live *like = &s->live[first];
    int end = bti_is_in_graphs(like->step) ? s->count : first + 1, together = 0, at = 0;
    bt_array *corrections[2];
    for (int i = first; i < end; i++)
        if (corrected_alike(&s->live[i], like)) steps[together++] = s->live[i].step;
    rule->correct(&s->optimizer->numbers, together > 1 ? bt_stack(steps, together, 0) : steps[0], like->entry->dtype,
                  corrections);
    for (int i = first; i < end; i++) {
        live *l = &s->live[i];
        if (!corrected_alike(l, like)) continue;
        for (int k = 0; k < 2; k++) l->corrections[k] = together > 1 ? bt_index(corrections[k], 0, at) : corrections[k];
        at++;
    }
}

static bt_status correct_all(step *s) {
    if (!s->optimizer->rule->correct || !s->count) return BT_OK;
    bt_array **steps = bti_alloc((size_t)s->count * sizeof *steps);
    if (!steps) return bti_no_memory();
    for (int i = 0; i < s->count; i++)
        s->live[i].step = bt_add(bt_value(s->live[i].entry->states[BTI_STEP]), bt_num(1));
    for (int i = 0; i < s->count; i++)
        if (!s->live[i].corrections[0]) correct_together(s, i, steps);
    bti_free(steps);
    return BT_OK;
}

/* --- parameters ------------------------------------------------------------------------------------------------------- */

static bt_array *make_rate(const common_step *c, bt_dtype dtype, double factor) {
    bt_array *rate = common_value(c, dtype == BT_F64 ? BTI_RATE_F64 : BTI_RATE_F32);
    if (!c->factor && factor == 1) return rate;
    rate = bt_cast(rate, BT_F64);
    if (c->factor) rate = bt_mul(rate, c->factor);
    if (factor != 1) rate = bt_mul(rate, bt_num(factor));
    return bt_cast(rate, dtype);
}

/* NULL: memory is short. */
static bt_array *rate_of(step *s, const live *l) {
    double factor = atomic_load(&l->entry->rate);
    for (size_t i = 0; i < s->rates.count; i++) {
        const group_rate *g = &s->rates.items[i];
        if (g->common == l->common && g->dtype == l->entry->dtype && g->factor == factor) return g->rate;
    }
    group_rate made = {l->common, l->entry->dtype, factor,
                       make_rate(&s->commons.items[l->common], l->entry->dtype, factor)};
    return bti_vec_push(&s->rates, made) ? made.rate : NULL;
}

static bt_status update_parameter(step *s, const live *l) {
    const bt_optimizer *o = s->optimizer;
    bti_optimizer_entry *e = l->entry;
    const common_step *c = &s->commons.items[l->common];
    bt_array *go = c->go, *before = home_value(e->parameter, c->home), *old[BTI_RULE_STATES];
    bt_dtype dtype = bt_dtype_of(before);
    bool narrow = dtype != e->dtype;
    bti_rule_step r = {.parameter = narrow ? bt_cast(before, e->dtype) : before,
                       .grad = l->grad,
                       .rate = rate_of(s, l),
                       .decay = atomic_load(&e->decay)};
    if (!r.rate) return bti_no_memory();
    for (int k = 0; k < BTI_RULE_STATES; k++) r.states[k] = old[k] = e->states[k] ? bt_value(e->states[k]) : NULL;
    memcpy(r.corrections, l->corrections, sizeof r.corrections);
    if (l->step) r.states[BTI_STEP] = l->step;
    bt_array *after = o->rule->update(&o->numbers, &r);
    for (int k = 0; k < BTI_RULE_STATES; k++)
        if (old[k]) add_update(s, e->states[k], choose(go, r.states[k], old[k]));
    if (e->average) {
        bt_array *average = bt_value(e->average);
        bt_array *next =
            bt_add(bt_mul(average, bt_num(o->numbers.average)), bt_mul(after, bt_num(1 - o->numbers.average)));
        add_update(s, e->average, choose(go, next, average));
    }
    add_update(s, e->parameter, choose(go, narrow ? bt_cast(after, dtype) : after, before));
    return BT_OK;
}

/* Labels cost time; what the flag check_nan says of results names them by it. */
static bt_status update_named(step *s, const live *l) {
    if (bti_flag_choice(BTI_FLAG_check_nan) == BTI_CHECK_OFF) return update_parameter(s, l);
    const char *outer = bti_call_place().label, *name = bt_shared_name(l->entry->parameter);
    const char *before = bti_call_set_label(*name ? bti_label(outer, name) : outer);
    bt_status status = update_parameter(s, l);
    bti_call_set_label(before);
    return status;
}

/* --- the step --------------------------------------------------------------------------------------------------------- */

static bt_status collect_updates(step *s, bt_shared *const *parameters, bt_array *const *grads, int count) {
    bti_optimizer_entry *e = NULL;
    for (int i = 0; i < count; i++) {
        if (bt_shared_is_frozen(parameters[i])) continue;
        bti_optimizer_entry *found = bti_entry_find(s->optimizer, parameters[i], e);
        bti_common *common = found ? atomic_load(&found->common) : NULL;
        if (!common) continue; /* it was thawed after the step was prepared */
        live *l = &s->live[s->count++];
        *l = (live){.entry = e = found, .common = common_of(s, common, atomic_load(&found->home)), .grad = grads[i]};
        if (l->common < 0) return bti_no_memory();
        prepare_grad(s, l);
    }
    if (s->optimizer->numbers.loss_scale > 0) find_finite(s);
    BTI_TRY(clip_grads(s));
    BTI_TRY(correct_all(s));
    for (int i = 0; i < s->count; i++) BTI_TRY(update_named(s, &s->live[i]));
    update_commons(s);
    return BT_OK;
}

static bt_status prepare_states(bt_optimizer *optimizer, bt_shared *const *parameters, int count, const char *call) {
    BTI_CALL(call);
    return bti_in_replica() ? bti_optimizer_place(optimizer, parameters, NULL, count)
                            : bti_optimizer_prepare(optimizer, parameters, count);
}

static bt_status begin_step(step *s, bt_optimizer *optimizer, bt_shared *const *parameters, int count,
                            const char *call) {
    BTI_TRY(prepare_states(optimizer, parameters, count, call));
    size_t room = (size_t)count * (UPDATES_OF_PARAMETER + UPDATES_OF_COMMON);
    *s = (step){.optimizer = optimizer, .schedule = atomic_load(&optimizer->schedule)};
    s->live = bti_alloc((size_t)count * sizeof *s->live);
    s->shared = bti_alloc(room * sizeof *s->shared);
    s->values = bti_alloc(room * sizeof(bt_array *));
    return s->live && s->shared && s->values ? BT_OK : bti_no_memory();
}

static void end_step(step *s) {
    bti_vec_free(&s->commons);
    bti_vec_free(&s->rates);
    bti_free(s->live);
    bti_free(s->shared);
    bti_free(s->values);
}

static bt_status check_step(const bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads,
                            int count, const char *call) {
    BTI_CALL(call);
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, call));
    if (count < 0) return bti_fail(BT_INVALID_ARGUMENT, "%d parameters", count);
    if (count && (!parameters || !grads))
        return bti_fail(BT_INVALID_ARGUMENT, "the list of %s is NULL", parameters ? "gradients" : "parameters");
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_handle_check(BTI_OWNED_SHARED, parameters[i], call));
        BTI_TRY(bti_shared_check_gradient(parameters[i], grads[i]));
        BTI_TRY(bti_shared_check_place(parameters[i], grads[i], "grad", "the gradient of"));
    }
    return BT_OK;
}

bt_status bt_optimizer_step(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads, int count) {
    BTI_TRY(check_step(optimizer, parameters, grads, count, "bt_optimizer_step"));
    step s = {0};
    bt_status status = begin_step(&s, optimizer, parameters, count, "bt_optimizer_step");
    BT_SCOPE {
        if (status == BT_OK) status = collect_updates(&s, parameters, grads, count);
        if (status == BT_OK) status = bt_set_all(s.shared, s.values, s.updates);
    }
    end_step(&s);
    return status;
}

/* --- as updates of a function ------------------------------------------------------------------------------------------- */

/* How many updates a step of these parameters has. They are prepared. */
static int count_updates(const bt_optimizer *o, bt_shared *const *parameters, int count) {
    int updates = 0;
    bti_optimizer_entry *e = NULL;
    for (int i = 0; i < count; i++) {
        if (bt_shared_is_frozen(parameters[i]) || !(e = bti_entry_find(o, parameters[i], e))) continue;
        for (int k = 0; k < BTI_RULE_STATES; k++) updates += e->states[k] != NULL;
        updates += 1 + (e->accumulated != NULL) + (e->average != NULL);
        bool repeated = false;
        bti_optimizer_entry *earlier = NULL;
        for (int j = 0; j < i && !repeated; j++) {
            if (bt_shared_is_frozen(parameters[j])) continue;
            earlier = bti_entry_find(o, parameters[j], earlier);
            repeated = earlier && atomic_load(&earlier->common) == atomic_load(&e->common);
        }
        if (!repeated)
            updates += (atomic_load(&o->schedule) != NULL) + (o->numbers.accumulate > 1) + (o->numbers.clip_norm > 0) +
                       2 * (o->numbers.loss_scale > 0);
    }
    return updates;
}

static bt_status write_updates(step *s, bt_update *updates) {
    for (int i = 0; i < s->updates; i++) BTI_TRY(bti_fail_with(bti_array_error(s->values[i])));
    for (int i = 0; i < s->updates; i++) updates[i] = (bt_update){s->shared[i], bt_keep(s->values[i])};
    return BT_OK;
}

static bt_status record_updates(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads,
                                int count, bt_update *updates, int capacity, int *written) {
    step s = {0};
    bt_status status = begin_step(&s, optimizer, parameters, count, "bt_optimizer_updates");
    BT_SCOPE {
        if (status == BT_OK) status = collect_updates(&s, parameters, grads, count);
        *written = s.updates;
        if (status == BT_OK && s.updates > capacity)
            status = bti_fail(BT_INVALID_ARGUMENT, "there are %d updates, and room for %d", s.updates, capacity);
        if (status == BT_OK) status = write_updates(&s, updates);
    }
    end_step(&s);
    return status;
}

int bt_optimizer_updates(bt_optimizer *optimizer, bt_shared *const *parameters, bt_array *const *grads, int count,
                         bt_update *updates, int capacity) {
    BTI_CALL("bt_optimizer_updates");
    if (!updates && capacity == 0) {
        bt_status status = bti_optimizer_check(optimizer, parameters, count, "bt_optimizer_updates");
        if (status == BT_OK) status = bti_optimizer_prepare(optimizer, parameters, count);
        return status == BT_OK ? count_updates(optimizer, parameters, count) : -1;
    }
    int written = 0;
    bt_status status = bti_check_list(updates, capacity, "updates");
    if (status == BT_OK) status = check_step(optimizer, parameters, grads, count, "bt_optimizer_updates");
    if (status == BT_OK) status = record_updates(optimizer, parameters, grads, count, updates, capacity, &written);
    return status == BT_OK ? written : -1;
}

/* The states of an optimiser: made, found, listed, read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/str.h"
#include "function/shared.h"
#include "nn/optimizer.h"

/* --- lists ------------------------------------------------------------------------------------------------------------ */

static bti_optimizer_entry *find_in_list(bti_optimizer_entry *first, const bt_shared *parameter) {
    while (first && first->parameter != parameter) first = first->next;
    return first;
}

/* Steps name their parameters in the same order each time. */
bti_optimizer_entry *bti_entry_find(const bt_optimizer *optimizer, const bt_shared *parameter,
                                    bti_optimizer_entry *previous) {
    bti_optimizer_entry *next = previous ? atomic_load(&previous->follower) : NULL;
    if (next && next->parameter == parameter) return next;
    next = find_in_list(atomic_load(&optimizer->entries), parameter);
    if (next && previous) atomic_store(&previous->follower, next);
    return next;
}

static bti_common *find_common(bti_common *first, const bt_shared *parameter) {
    while (first && !bti_shared_together(first->beside, parameter)) first = first->next;
    return first;
}

bti_common *bti_common_first(const bt_optimizer *optimizer) {
    bti_common *first = atomic_load(&optimizer->commons);
    while (first && first->next) first = first->next;
    return first;
}

static void free_entry(bti_optimizer_entry *e) {
    for (int k = 0; k < BTI_RULE_STATES; k++) bt_shared_release(e->states[k]);
    bt_shared_release(e->accumulated);
    bt_shared_release(e->average);
    bt_shared_release(e->parameter);
    bti_free(e);
}

void bti_optimizer_clear_states(bt_optimizer *optimizer) {
    for (bti_common *c = atomic_load(&optimizer->commons), *next; c; c = next) {
        next = c->next;
        for (int k = 0; k < BTI_COMMON_VALUES; k++) bt_shared_release(atomic_load(&c->values[k]));
        bti_free(c);
    }
    for (bti_optimizer_entry *e = atomic_load(&optimizer->entries), *next; e; e = next) {
        next = e->next;
        free_entry(e);
    }
}

/* --- common values ---------------------------------------------------------------------------------------------------- */

static const char *const common_names[BTI_COMMON_VALUES] = {
    [BTI_COUNT] = "count",      [BTI_ACCUMULATED] = "accumulated_steps",
    [BTI_SCALE] = "loss_scale", [BTI_FINITE] = "finite_steps",
    [BTI_NORM] = "norm",        [BTI_RATE_F32] = "rate",
    [BTI_RATE_F64] = "rate_f64"};

/* In the order of their making; NULL without memory. `parameter` is in an entry that is retained. */
static bti_common *make_common(bt_optimizer *optimizer, const bt_shared *parameter) {
    bti_common *c = bti_calloc(1, sizeof *c);
    if (!c) return (void)!bti_no_memory(), NULL;
    c->beside = parameter;
    c->next = atomic_load(&optimizer->commons);
    bti_common *other;
    while (!(other = find_common(c->next, parameter))) { /* another thread may have been faster */
        c->number = c->next ? c->next->number + 1 : 0;
        if (atomic_compare_exchange_weak(&optimizer->commons, &c->next, c)) return c;
    }
    bti_free(c);
    return other;
}

static double first_value(const bt_optimizer *optimizer, bti_common_value k) {
    if (k == BTI_SCALE) return optimizer->numbers.loss_scale;
    return k == BTI_RATE_F32 || k == BTI_RATE_F64 ? atomic_load(&optimizer->rate) : 0;
}

static void name_common(const bt_optimizer *optimizer, const bti_common *c, bti_common_value k, bt_shared *made) {
    char name[80];
    int length = snprintf(name, sizeof name, "%s.%s", optimizer->rule->name, common_names[k]);
    if (c->number) snprintf(name + length, sizeof name - (size_t)length, ".%d", c->number);
    bt_shared_set_name(made, name);
}

/* Of a later device: as it is on the first. */
static bt_array *value_to_begin_with(const bt_optimizer *optimizer, const bti_common *c, bti_common_value k,
                                     bt_dtype dtype) {
    bti_common *first = bti_common_first(optimizer);
    bt_shared *known = first != c && k < BTI_RATE_F32 ? atomic_load(&first->values[k]) : NULL;
    return known ? bt_value(known) : bt_cast(bt_f64(first_value(optimizer, k)), dtype);
}

static bt_status need_common(bt_optimizer *optimizer, bti_common *c, bti_common_value k) {
    if (atomic_load(&c->values[k])) return BT_OK;
    double rate = atomic_load(&optimizer->rate);
    bt_shared *made = NULL, *none = NULL;
    BT_SCOPE
        made = bt_shared_retain(
            bt_shared_new_beside(c->beside, value_to_begin_with(optimizer, c, k, k == BTI_RATE_F32 ? BT_F32 : BT_F64)));
    if (bt_shared_status(made) != BT_OK) {
        bt_shared_release(made);
        return bt_error_status();
    }
    name_common(optimizer, c, k, made);
    if (!atomic_compare_exchange_strong(&c->values[k], &none, made)) {
        bt_shared_release(made);
        return BT_OK;
    }
    bool changed = k >= BTI_RATE_F32 && atomic_load(&optimizer->rate) != rate; /* set before it could be found */
    return changed ? bti_rate_set(made, atomic_load(&optimizer->rate)) : BT_OK;
}

static bt_status need_commons(bt_optimizer *o, bti_common *c, bt_dtype dtype) {
    BTI_TRY(need_common(o, c, dtype == BT_F64 ? BTI_RATE_F64 : BTI_RATE_F32));
    if (atomic_load(&o->schedule)) BTI_TRY(need_common(o, c, BTI_COUNT));
    if (o->numbers.accumulate > 1) BTI_TRY(need_common(o, c, BTI_ACCUMULATED));
    if (o->numbers.clip_norm > 0) BTI_TRY(need_common(o, c, BTI_NORM));
    if (o->numbers.loss_scale == 0) return BT_OK;
    BTI_TRY(need_common(o, c, BTI_SCALE));
    return need_common(o, c, BTI_FINITE);
}

/* --- entries ---------------------------------------------------------------------------------------------------------- */

static bt_shared *make_at_home(const bti_optimizer_entry *e, int home, bt_array *value) {
    return bt_shared_retain(home == BTI_EVERY_REPLICA ? bt_shared_new_beside(e->parameter, value)
                                                      : bti_shared_new_at(e->parameter, home, value));
}

/* Where the entry's states are: a state's, or the parameter's. */
static bt_array *value_at_home(bt_shared *shared, int home) {
    return home == BTI_EVERY_REPLICA ? bt_value(shared) : bti_shared_value_at(shared, home);
}

static bt_shared *make_state(bt_optimizer *o, const bti_optimizer_entry *e, const char *name, bt_array *value) {
    bt_shared *made = make_at_home(e, atomic_load(&e->home), value);
    if (bt_shared_status(made) != BT_OK) return made;
    bti_str text = {0};
    bti_str_addf(&text, "%s.%s.", o->rule->name, name);
    const char *parameter = bt_shared_name(e->parameter);
    if (*parameter)
        bti_str_add(&text, parameter);
    else
        bti_str_addf(&text, "#%d", atomic_load(&o->names));
    bt_shared_set_name(made, bti_str_text(&text));
    bti_str_free(&text);
    return made;
}

static bool make_states(bt_optimizer *o, bti_optimizer_entry *e) {
    bool made = true;
    BT_SCOPE {
        bt_array *value = bt_cast(value_at_home(e->parameter, atomic_load(&e->home)), e->dtype);
        bt_array *zeros = bt_zeros_like(value);
        for (int k = 0; k < BTI_RULE_STATES && made; k++) {
            if (!bti_optimizer_rule_uses(o->rule, &o->numbers, k)) continue;
            const char *name = o->rule->states[k];
            e->states[k] = make_state(o, e, name, strcmp(name, "step") ? zeros : bt_zeros(BT_F64));
            made = bt_shared_status(e->states[k]) == BT_OK;
        }
        if (made && o->numbers.accumulate > 1) {
            e->accumulated = make_state(o, e, "accumulated", zeros);
            made = bt_shared_status(e->accumulated) == BT_OK;
        }
        if (made && o->numbers.average > 0) {
            e->average = make_state(o, e, "average", value);
            made = bt_shared_status(e->average) == BT_OK;
        }
    }
    return made;
}

static bt_status check_dtype(const bt_shared *parameter, bt_dtype dtype) {
    if (dtype == BT_F16 || dtype == BT_BF16 || dtype == BT_F32 || dtype == BT_F64) return BT_OK;
    const char *name = bt_shared_name(parameter);
    return bti_fail(BT_INVALID_ARGUMENT, "variable %s%sis %s; an optimiser needs floats", name, *name ? " " : "",
                    bt_dtype_name(dtype));
}

static bt_status add_states(bt_optimizer *o, bt_shared *parameter, int home) {
    bt_dtype dtype = BT_F32;
    BT_SCOPE
        dtype = bt_dtype_of(bt_value(parameter));
    BTI_TRY(check_dtype(parameter, dtype));
    bti_optimizer_entry *e = bti_calloc(1, sizeof *e);
    if (!e) return bti_no_memory();
    e->parameter = bt_shared_retain(parameter);
    e->dtype = dtype == BT_F64 ? BT_F64 : BT_F32;
    atomic_store(&e->decay, o->numbers.decay);
    atomic_store(&e->rate, 1);
    atomic_store(&e->home, home);
    bool made = make_states(o, e);
    e->next = atomic_load(&o->entries);
    while (made && !find_in_list(e->next, parameter)) /* another thread may have been faster */
        if (atomic_compare_exchange_weak(&o->entries, &e->next, e)) {
            if (!*bt_shared_name(parameter)) atomic_fetch_add(&o->names, 1);
            return BT_OK;
        }
    free_entry(e);
    return made ? BT_OK : bt_error_status();
}

/* The common values of an entry; it is in the list, so that its parameter lives as long as they do. */
static bt_status complete_entry(bt_optimizer *o, bti_optimizer_entry *e) {
    bti_common *c = atomic_load(&e->common);
    if (!c) {
        c = find_common(atomic_load(&o->commons), e->parameter);
        if (!c) c = make_common(o, e->parameter);
        if (!c) return bt_error_status();
        atomic_store(&e->common, c);
    }
    return need_commons(o, c, e->dtype);
}

static bt_status need_entries(bt_optimizer *optimizer, bt_shared *const *parameters, const int *homes, int count) {
    bti_optimizer_entry *e = NULL;
    for (int i = 0; i < count; i++) {
        if (bt_shared_is_frozen(parameters[i])) continue;
        bti_optimizer_entry *found = bti_entry_find(optimizer, parameters[i], e);
        if (!found) {
            BTI_TRY(add_states(optimizer, parameters[i], homes ? homes[i] : BTI_EVERY_REPLICA));
            found = bti_entry_find(optimizer, parameters[i], e);
        }
        if (atomic_load(&found->home) == BTI_NO_REPLICA)
            return bti_fail(
                BT_FAILED_PRECONDITION,
                "the states of variable %s were on a device that failed; bt_load_optimizer loads those of a "
                "file, bt_optimizer_prepare makes new ones",
                bt_shared_name(parameters[i]));
        BTI_TRY(complete_entry(optimizer, e = found));
    }
    return BT_OK;
}

bt_status bti_optimizer_prepare(bt_optimizer *optimizer, bt_shared *const *parameters, int count) {
    return need_entries(optimizer, parameters, NULL, count);
}

/* --- homes ------------------------------------------------------------------------------------------------------------ */

enum { STATES_OF_ENTRY = BTI_RULE_STATES + 2 };

static void list_places(bti_optimizer_entry *e, bt_shared ***places) {
    for (int k = 0; k < BTI_RULE_STATES; k++) places[k] = &e->states[k];
    places[BTI_RULE_STATES] = &e->accumulated;
    places[BTI_RULE_STATES + 1] = &e->average;
}

/* All of its states, or none. */
static bt_status move_states(bti_optimizer_entry *e, int home) {
    bt_shared **places[STATES_OF_ENTRY], *moved[STATES_OF_ENTRY] = {NULL};
    bool made = true;
    list_places(e, places);
    BT_SCOPE
        for (int k = 0; k < STATES_OF_ENTRY && made; k++) {
            if (!*places[k]) continue;
            moved[k] = make_at_home(e, home, value_at_home(*places[k], home));
            made = bt_shared_status(moved[k]) == BT_OK;
            if (made) bt_shared_set_name(moved[k], bt_shared_name(*places[k]));
        }
    for (int k = 0; k < STATES_OF_ENTRY; k++) {
        bt_shared *before = *places[k];
        if (made) *places[k] = moved[k];
        bt_shared_release(made ? before : moved[k]);
    }
    if (made) atomic_store(&e->home, home);
    return made ? BT_OK : bt_error_status();
}

bt_status bti_optimizer_place(bt_optimizer *optimizer, bt_shared *const *parameters, const int *homes, int count) {
    bti_optimizer_entry *e = NULL;
    BTI_TRY(need_entries(optimizer, parameters, homes, count));
    for (int i = 0; i < count; i++) {
        if (bt_shared_is_frozen(parameters[i])) continue;
        int home = homes ? homes[i] : BTI_EVERY_REPLICA;
        e = bti_entry_find(optimizer, parameters[i], e);
        if (atomic_load(&e->home) != home) BTI_TRY(move_states(e, home));
    }
    return BT_OK;
}

bt_status bti_optimizer_check(const bt_optimizer *optimizer, bt_shared *const *parameters, int count,
                              const char *call) {
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, call));
    BTI_TRY(bti_check_list(parameters, count, "parameters"));
    for (int i = 0; i < count; i++) BTI_TRY(bti_handle_check(BTI_OWNED_SHARED, parameters[i], call));
    return BT_OK;
}

/* --- devices that fail ------------------------------------------------------------------------------------------------- */

static void drop_replica_on(bt_shared *variable, int device) {
    int replica = variable ? bti_shared_replica_on(variable, device) : -1;
    if (replica >= 0 && bti_shared_replicas(variable) > 1) bti_shared_drop_replica(variable, replica);
}

static void drop_from_entry(bti_optimizer_entry *e, int device) {
    bt_shared **places[STATES_OF_ENTRY];
    int dropped = bti_shared_replica_on(e->parameter, device), home = atomic_load(&e->home), states = 0;
    list_places(e, places);
    for (int k = 0; k < STATES_OF_ENTRY; k++) {
        states += *places[k] != NULL;
        if (home == BTI_EVERY_REPLICA) drop_replica_on(*places[k], device);
    }
    if (home >= 0 && home == dropped)
        atomic_store(&e->home, states ? BTI_NO_REPLICA : BTI_EVERY_REPLICA);
    else if (dropped >= 0 && home > dropped)
        atomic_store(&e->home, home - 1);
    drop_replica_on(e->parameter, device);
}

bool bti_optimizer_has_lost(const bt_optimizer *optimizer) {
    for (const bti_optimizer_entry *e = atomic_load(&optimizer->entries); e; e = e->next)
        if (atomic_load(&e->home) == BTI_NO_REPLICA) return true;
    return false;
}

void bti_optimizer_drop_device(bt_optimizer *optimizer, int device) {
    for (bti_optimizer_entry *e = atomic_load(&optimizer->entries); e; e = e->next) drop_from_entry(e, device);
    for (bti_common *c = atomic_load(&optimizer->commons); c; c = c->next)
        for (int k = 0; k < BTI_COMMON_VALUES; k++) drop_replica_on(atomic_load(&c->values[k]), device);
}

/* As at the first step, under the same names. */
static bt_status make_lost_states(bt_optimizer *o, bti_optimizer_entry *e) {
    bti_optimizer_entry fresh = {.parameter = e->parameter, .dtype = e->dtype};
    bt_shared **lost[STATES_OF_ENTRY], **made[STATES_OF_ENTRY];
    atomic_store(&fresh.home, BTI_EVERY_REPLICA);
    bool all = make_states(o, &fresh);
    list_places(e, lost);
    list_places(&fresh, made);
    for (int k = 0; k < STATES_OF_ENTRY; k++) {
        if (all && *made[k]) bt_shared_set_name(*made[k], bt_shared_name(*lost[k]));
        bt_shared_release(all ? *lost[k] : *made[k]);
        if (all) *lost[k] = *made[k];
    }
    if (all) atomic_store(&e->home, BTI_EVERY_REPLICA);
    return all ? BT_OK : bt_error_status();
}

bt_status bt_optimizer_prepare(bt_optimizer *optimizer, bt_shared *const *parameters, int count) {
    BTI_CALL("bt_optimizer_prepare");
    BTI_TRY(bti_optimizer_check(optimizer, parameters, count, "bt_optimizer_prepare"));
    for (int i = 0; i < count; i++) {
        bti_optimizer_entry *e = bti_entry_find(optimizer, parameters[i], NULL);
        if (e && atomic_load(&e->home) == BTI_NO_REPLICA) BTI_TRY(make_lost_states(optimizer, e));
    }
    return bti_optimizer_prepare(optimizer, parameters, count);
}

/* --- groups ----------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_optimizer_group_options, name)
static const bti_member group_members[] = {MEMBER(size),    MEMBER(parameters), MEMBER(count),
                                           MEMBER(by_name), MEMBER(decay),      MEMBER(rate)};
#undef MEMBER
static const bt_optimizer_group_options group_unsaid = {.decay = BTI_UNSET_REAL, .rate = BTI_UNSET_REAL};
static const bti_sized_type group_layout =
    BTI_SIZED_TYPE(bt_optimizer_group_options, "options", "BT_OPTIMIZER_GROUP(.parameters = ..., .count = 2)",
                   group_members, &group_unsaid);

static bt_status take_group(const bt_optimizer *optimizer, const bt_optimizer_group_options *given,
                            bt_optimizer_group_options *group) {
    BTI_TRY(bti_options_take(&group_layout, "bt_optimizer_group", given, group));
    if (group->decay == BTI_UNSET_REAL) group->decay = optimizer->numbers.decay;
    if (group->rate == BTI_UNSET_REAL) group->rate = 1;
    if (!(isfinite(group->decay) && group->decay >= 0))
        return bti_fail(BT_INVALID_ARGUMENT, "the decay is %g; it must be a finite number, 0 or more", group->decay);
    if (!isfinite(group->rate))
        return bti_fail(BT_INVALID_ARGUMENT, "the factor of the rate is %g; it must be a finite number", group->rate);
    return BT_OK;
}

/* Frozen parameters too: they may be thawed later. */
static bt_status need_entry(bt_optimizer *o, bt_shared *parameter, bti_optimizer_entry **entry) {
    *entry = bti_entry_find(o, parameter, NULL);
    if (!*entry) {
        BTI_TRY(add_states(o, parameter, BTI_EVERY_REPLICA));
        *entry = bti_entry_find(o, parameter, NULL);
    }
    return complete_entry(o, *entry);
}

bt_status bt_optimizer_group(bt_optimizer *optimizer, const bt_optimizer_group_options *options) {
    BTI_CALL("bt_optimizer_group");
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_group"));
    bt_optimizer_group_options group;
    BTI_TRY(take_group(optimizer, options, &group));
    BTI_TRY(bti_optimizer_check(optimizer, group.parameters, group.count, "bt_optimizer_group"));
    bti_optimizer_entry *e;
    for (int i = 0; i < group.count; i++) BTI_TRY(need_entry(optimizer, group.parameters[i], &e)); /* all or none */
    for (int i = 0; i < group.count; i++) {
        BTI_TRY(need_entry(optimizer, group.parameters[i], &e));
        atomic_store(&e->decay, group.decay);
        atomic_store(&e->rate, group.rate);
    }
    return BT_OK;
}

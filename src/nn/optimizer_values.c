/* What an optimiser tells and is told: its states, norms, scales, averages and rate. */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "function/shared.h"
#include "nn/layer.h"
#include "nn/optimizer.h"

/* --- states ----------------------------------------------------------------------------------------------------------- */

/* The lists have the newest first, states are listed oldest first: backwards, from the end of all. */
typedef struct listing {
    bt_shared **states;
    int capacity, place;
} listing;

static void list_state(listing *l, bt_shared *state) {
    if (!state) return;
    l->place--;
    if (l->place >= 0 && l->place < l->capacity) l->states[l->place] = state;
}

static void list_entry(listing *l, const bti_optimizer_entry *e) {
    list_state(l, e->average);
    list_state(l, e->accumulated);
    for (int k = BTI_RULE_STATES - 1; k >= 0; k--) list_state(l, e->states[k]);
}

static void list_common(listing *l, const bti_common *c) {
    for (int k = BTI_NORM - 1; k >= 0; k--) list_state(l, atomic_load(&c->values[k]));
}

int bt_optimizer_states(const bt_optimizer *optimizer, bt_shared **states, int capacity) {
    BTI_CALL("bt_optimizer_states");
    if (bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_states") != BT_OK) return 0;
    if (!states && capacity > 0) (void)!bti_fail(BT_INVALID_ARGUMENT, "the list for %d states is NULL", capacity);
    const bti_common *commons = atomic_load(&optimizer->commons);
    const bti_optimizer_entry *entries = atomic_load(&optimizer->entries);
    listing counted = {0};
    for (const bti_common *c = commons; c; c = c->next) list_common(&counted, c);
    for (const bti_optimizer_entry *e = entries; e; e = e->next) list_entry(&counted, e);
    int count = -counted.place;
    listing l = {states, states ? capacity : 0, count};
    for (const bti_common *c = commons; c; c = c->next) list_common(&l, c);
    for (const bti_optimizer_entry *e = entries; e; e = e->next) list_entry(&l, e);
    return count;
}

/* --- common values ---------------------------------------------------------------------------------------------------- */

/* That of the first parameters; poisoned with `why` where there is none. */
static bt_array *first_common(const bt_optimizer *optimizer, bti_common_value k, const char *why) {
    bti_common *first = bti_common_first(optimizer);
    bt_shared *variable = first ? atomic_load(&first->values[k]) : NULL;
    return variable ? bt_value(variable)
                    : bti_poisonf(BT_FAILED_PRECONDITION, "%s",
                                  first ? why : "it has no states yet: bt_optimizer_prepare makes them");
}

bt_array *bt_optimizer_norm(const bt_optimizer *optimizer) {
    BTI_PUBLIC("bt_optimizer_norm");
    bti_error *error = bti_handle_error(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_norm");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    BTI_RETURN(first_common(optimizer, BTI_NORM, "only an optimiser that is made with .clip_norm finds the norm"));
}

bt_array *bt_optimizer_loss_scale(const bt_optimizer *optimizer) {
    BTI_PUBLIC("bt_optimizer_loss_scale");
    bti_error *error = bti_handle_error(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_loss_scale");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    if (optimizer->numbers.loss_scale == 0) BTI_RETURN(bt_ones(BT_F64));
    bool made = bti_common_first(optimizer);
    BTI_RETURN(made ? first_common(optimizer, BTI_SCALE, "") : bt_cast(bt_f64(optimizer->numbers.loss_scale), BT_F64));
}

bt_array *bt_optimizer_scale_loss(bt_optimizer *optimizer, bt_array *loss) {
    BTI_PUBLIC("bt_optimizer_scale_loss");
    bti_error *error = bti_handle_error(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_scale_loss");
    if (!error) error = bti_array_error(loss);
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    if (optimizer->numbers.loss_scale == 0) BTI_RETURN(loss);
    bt_array *scale = first_common(optimizer, BTI_SCALE, "");
    bt_dtype dtype = bt_dtype_of(loss);
    if (dtype == BT_F16 || dtype == BT_BF16) loss = bt_cast(loss, dtype = BT_F32); /* the scale overflows float16 */
    BTI_RETURN(bt_mul(loss, bt_cast(bti_scalar_beside(scale, loss), dtype)));
}

bt_array *bti_optimizer_scaled(bt_optimizer *optimizer, bt_shared *const *parameters, int count, bt_array *loss) {
    if (optimizer->numbers.loss_scale == 0) return loss;
    bt_status status = bti_optimizer_prepare(optimizer, parameters, count);
    return status == BT_OK ? bt_optimizer_scale_loss(optimizer, loss) : bti_poison(bti_error_last());
}

/* --- averages --------------------------------------------------------------------------------------------------------- */

static const char without_average[] = "only an optimiser that is made with .average keeps averages";

bt_array *bt_optimizer_average(const bt_optimizer *optimizer, bt_shared *parameter) {
    BTI_PUBLIC("bt_optimizer_average");
    bti_error *error = bti_handle_error(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_average");
    if (!error) error = bti_handle_error(BTI_OWNED_SHARED, parameter, "bt_optimizer_average");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    if (optimizer->numbers.average == 0) BTI_RETURN(bti_poisonf(BT_FAILED_PRECONDITION, "%s", without_average));
    const bti_optimizer_entry *e = bti_entry_find(optimizer, parameter, NULL);
    if (e) BTI_RETURN(bt_value(e->average));
    const char *name = bt_shared_name(parameter);
    BTI_RETURN(bti_poisonf(BT_FAILED_PRECONDITION, "variable %s%shas no states yet: bt_optimizer_prepare makes them",
                           name, *name ? " " : ""));
}

/* `value` is that of a parameter, whose variable is the one that reads the same node. */
static bt_array *average_of_value(bt_array *value, void *data) {
    bti_node *node = bti_node_of(value);
    for (const bti_optimizer_entry *e = data; e; e = e->next)
        if (bti_node_of(bt_value(e->parameter)) == node)
            return bt_cast(bti_scalar_beside(bt_value(e->average), value), bt_dtype_of(value));
    return value;
}

bt_layer *bt_optimizer_averaged(const bt_optimizer *optimizer, const bt_layer *model) {
    BTI_CALL("bt_optimizer_averaged");
    bt_status status = bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_averaged");
    if (status == BT_OK && optimizer->numbers.average == 0)
        status = bti_fail(BT_FAILED_PRECONDITION, "%s", without_average);
    if (status != BT_OK) return bti_layer_own(NULL);
    return bt_fmap(average_of_value, (void *)atomic_load(&optimizer->entries), model);
}

/* --- the rate --------------------------------------------------------------------------------------------------------- */

double bt_optimizer_rate(const bt_optimizer *optimizer) {
    if (bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_optimizer_rate") != BT_OK) return NAN;
    return atomic_load(&optimizer->rate);
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
    BTI_TRY(bti_rate_check(rate));
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
    bt_array *rate = bti_rate_array(atomic_load(&optimizer->rate), BT_F64, bt_device_of(count));
    BTI_RETURN(schedule ? bt_mul(rate, bti_schedule_factor(schedule, count)) : rate);
}

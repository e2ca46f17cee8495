/* Devices that failed leave a strategy, the model and the optimiser. */
#include "base/alloc.h"
#include "base/error.h"
#include "device/device.h"
#include "dist/strategy.h"
#include "function/shared.h"
#include "nn/layer.h"
#include "nn/optimizer.h"

typedef struct drop {
    const bt_strategy *strategy;
    bool gone[BTI_MAX_REPLICAS];
    int left;
    bt_shared **variables; /* of the model */
    int count;
} drop;

static bt_status mark_gone(drop *d, const int *replicas, int count) {
    BTI_TRY(bti_check_list(replicas, count, "replicas"));
    d->left = d->strategy->count;
    for (int i = 0; i < count; i++) {
        if (replicas[i] < 0 || replicas[i] >= d->strategy->count)
            return bti_fail(BT_INVALID_ARGUMENT, "replica %d of a strategy over %d devices", replicas[i],
                            d->strategy->count);
        d->left -= !d->gone[replicas[i]];
        d->gone[replicas[i]] = true;
    }
    if (!d->left) return bti_fail(BT_FAILED_PRECONDITION, "no device of the strategy is left");
    if (d->strategy->exact && BTI_EXACT_SHARDS % d->left)
        return bti_fail(BT_FAILED_PRECONDITION, "exact mode needs 1, 2, 4 or 8 devices, and %d are left", d->left);
    return BT_OK;
}

static bt_status list_model(drop *d, const bt_layer *model) {
    if (!model) return BT_OK;
    int parameters = bt_parameters(model, NULL, 0);
    d->count = parameters + bt_states(model, NULL, 0);
    d->variables = bti_calloc((size_t)d->count + 1, sizeof *d->variables);
    if (!d->variables) return bti_no_memory();
    (void)bt_parameters(model, d->variables, parameters);
    (void)bt_states(model, d->variables + parameters, d->count - parameters);
    return BT_OK;
}

/* Whether it has a replica that stays. */
static bt_status check_variable(const drop *d, const bt_shared *variable) {
    int gone = 0, last = 0;
    for (int r = 0; r < d->strategy->count; r++) {
        int on = d->gone[r] ? bti_shared_replica_on(variable, bti_device_id(d->strategy->devices[r])) : -1;
        if (on >= 0) gone++, last = r;
    }
    if (gone < bti_shared_replicas(variable)) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION, "variable %s is on %s and on no device that is left",
                    bt_shared_name(variable), bt_device_name(d->strategy->devices[last]));
}

static void drop_device(const drop *d, bt_optimizer *optimizer, int device) {
    if (optimizer) bti_optimizer_drop_device(optimizer, device);
    for (int i = 0; i < d->count; i++) {
        int replica = bti_shared_replica_on(d->variables[i], device);
        if (replica >= 0) bti_shared_drop_replica(d->variables[i], replica);
    }
}

static void keep_the_rest(bt_strategy *s, const drop *d) {
    double sum = 0;
    int kept = 0;
    for (int r = 0; r < s->count; r++) {
        if (d->gone[r]) continue;
        s->devices[kept] = s->devices[r];
        atomic_store(&s->share[kept++], atomic_load(&s->share[r]));
    }
    s->count = kept;
    for (int r = 0; r < kept; r++) sum += atomic_load(&s->share[r]);
    for (int r = 0; r < kept && sum > 0; r++) atomic_store(&s->share[r], atomic_load(&s->share[r]) / sum);
}

/* Steps that failed are taken back now: the next one would be told of them, and not be made. */
static void settle_failed_steps(const bt_layer *model) {
    bti_errors_aside aside = bti_errors_aside_begin();
    if (model) (void)!bti_layer_settle(model);
    bti_errors_aside_end(aside);
}

bt_status bt_strategy_drop(bt_strategy *strategy, const int *replicas, int count, bt_layer *model,
                           bt_optimizer *optimizer) {
    BTI_CALL("bt_strategy_drop");
    BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_strategy_drop"));
    if (model) BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, model, "bt_strategy_drop"));
    if (optimizer) BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_strategy_drop"));
    drop d = {.strategy = strategy};
    settle_failed_steps(model);
    bt_status status = mark_gone(&d, replicas, count);
    if (status == BT_OK) status = list_model(&d, model);
    for (int i = 0; i < d.count && status == BT_OK; i++) status = check_variable(&d, d.variables[i]);
    for (int r = 0; r < strategy->count && status == BT_OK; r++)
        if (d.gone[r]) drop_device(&d, optimizer, bti_device_id(strategy->devices[r]));
    if (status == BT_OK) keep_the_rest(strategy, &d);
    if (status == BT_OK) bti_strategy_refresh(strategy);
    bti_free(d.variables);
    return status;
}

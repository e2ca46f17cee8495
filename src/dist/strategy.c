#include "dist/strategy.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

static bt_status choose_replica_devices(bt_strategy *s, const char *const *names, int count) {
    if (count == 0) {
        s->count = bt_try_all_gpus(s->devices, BTI_MAX_REPLICAS);
        if (bt_device_kind(s->devices[0]) == BT_CPU) s->count = bt_device_list(BT_CPU, s->devices, BTI_MAX_REPLICAS);
        return BT_OK;
    }
    if (count < 0 || count > BTI_MAX_REPLICAS)
        return bti_fail(BT_INVALID_ARGUMENT, "%d devices; 1 to %d can be mirrored over", count, BTI_MAX_REPLICAS);
    if (!names) return bti_fail(BT_INVALID_ARGUMENT, "the list of %d devices is NULL", count);
    for (int i = 0; i < count; i++) {
        if (!names[i]) return bti_fail(BT_INVALID_ARGUMENT, "device %d is NULL", i);
        BTI_TRY(bt_device_find(names[i], &s->devices[i]));
        for (int k = 0; k < i; k++)
            if (s->devices[k] == s->devices[i])
                return bti_fail(BT_INVALID_ARGUMENT, "\"%s\" and \"%s\" are the same device, %s", names[k], names[i],
                                bt_device_name(s->devices[i]));
    }
    s->count = count;
    return BT_OK;
}

static void clear_strategy(void *strategy) { (void)strategy; }
static bt_strategy strategy_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class strategy_class = {BTI_OWNED_STRATEGY, sizeof(bt_strategy), clear_strategy,
                                                &strategy_without_memory};

static bool same_make(const bt_device *a, const bt_device *b) {
    return bt_device_kind(a) == bt_device_kind(b) && !strcmp(bt_device_driver(a), bt_device_driver(b)) &&
           !strcmp(bt_device_description(a), bt_device_description(b));
}

/* Whether its devices are of one make, so that equal work takes equally long. */
static bool is_even(const bt_strategy *strategy) {
    for (int i = 1; i < strategy->count; i++)
        if (!same_make(strategy->devices[0], strategy->devices[i])) return false;
    return true;
}

bt_strategy *bt_pipelined(int micro_batches) {
    BTI_CALL("bt_pipelined");
    if (micro_batches < 1) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "%d micro-batches; there must be one or more", micro_batches);
        return bti_scope_own(&strategy_class, NULL);
    }
    bt_strategy *s = bti_owned_new(BTI_OWNED_STRATEGY, sizeof *s);
    if (!s) (void)!bti_no_memory();
    if (s) s->micro_batches = micro_batches;
    return bti_scope_own(&strategy_class, s);
}

bt_strategy *bt_mirrored(const char *const *devices, int count) {
    BTI_CALL("bt_mirrored");
    bt_strategy *s = bti_owned_new(BTI_OWNED_STRATEGY, sizeof *s);
    if (!s) (void)!bti_no_memory();
    if (s && choose_replica_devices(s, devices, count) != BT_OK) {
        bt_strategy_release(s);
        s = NULL;
    }
    for (int i = 0; s && i < s->count && is_even(s); i++) atomic_init(&s->share[i], 1.0 / s->count);
    return bti_scope_own(&strategy_class, s);
}

bt_strategy *bt_strategy_retain(bt_strategy *strategy) {
    return bti_handle_retain(&strategy_class, strategy, "bt_strategy_retain");
}
void bt_strategy_release(bt_strategy *strategy) {
    bti_handle_release(&strategy_class, strategy, "bt_strategy_release");
}
bt_status bt_strategy_status(const bt_strategy *strategy) {
    return bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_strategy_status");
}

/* NULL is one device, without an error. */
static bool strategy_is_usable(const bt_strategy *strategy, const char *name) {
    return strategy && bti_handle_check(BTI_OWNED_STRATEGY, strategy, name) == BT_OK;
}

int bt_strategy_count(const bt_strategy *strategy) {
    if (!strategy) return 1;
    return strategy_is_usable(strategy, "bt_strategy_count") ? strategy->count : 0;
}
bt_device *bt_strategy_device(const bt_strategy *strategy, int replica) {
    bool there = strategy_is_usable(strategy, "bt_strategy_device") && replica >= 0 && replica < strategy->count;
    return there ? strategy->devices[replica] : NULL;
}

/* --- shares ----------------------------------------------------------------------------------------------------------- */

bt_status bt_strategy_set_shares(bt_strategy *strategy, const double *shares, int count) {
    BTI_CALL("bt_strategy_set_shares");
    double sum = 0;
    BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_strategy_set_shares"));
    if (!shares) return bti_fail(BT_INVALID_ARGUMENT, "the list of shares is NULL");
    if (count != strategy->count)
        return bti_fail(BT_INVALID_ARGUMENT, "%d shares for %d devices", count, strategy->count);
    for (int i = 0; i < count; i++) {
        if (!(shares[i] > 0 && shares[i] < 1e300))
            return bti_fail(BT_INVALID_ARGUMENT, "share %d is %g; it must be above 0", i, shares[i]);
        sum += shares[i];
    }
    for (int i = 0; i < count; i++) atomic_store(&strategy->share[i], shares[i] / sum);
    return BT_OK;
}

double bt_strategy_share(const bt_strategy *strategy, int replica) {
    return bt_strategy_device(strategy, replica) ? atomic_load(&strategy->share[replica]) : 0;
}

void bti_strategy_rows(const bt_strategy *strategy, int64_t rows, int64_t *counts) {
    double rest[BTI_MAX_REPLICAS];
    int64_t given = 0;
    for (int i = 0; i < strategy->count; i++) {
        double wanted = (double)rows * atomic_load(&strategy->share[i]);
        counts[i] = (int64_t)wanted;
        rest[i] = wanted - (double)counts[i];
        given += counts[i];
    }
    for (; given < rows; given++) {
        int most = 0;
        for (int i = 1; i < strategy->count; i++)
            if (rest[i] > rest[most] + 1e-9) most = i;
        counts[most]++;
        rest[most] -= 1;
    }
}

bt_status bt_strategy_set_exact(bt_strategy *strategy, bool exact) {
    BTI_CALL("bt_strategy_set_exact");
    BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_strategy_set_exact"));
    if (exact && strategy->micro_batches)
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "exact mode is of mirrored strategies; micro-batches give the same bits on any devices of one make");
    if (exact && !is_even(strategy)) {
        int other = 1;
        while (same_make(strategy->devices[0], strategy->devices[other])) other++;
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "exact mode needs devices of one make, whose kernels give the same bits; %s is %s (%s), %s is %s (%s)",
            bt_device_name(strategy->devices[0]), bt_device_description(strategy->devices[0]),
            bt_device_driver(strategy->devices[0]), bt_device_name(strategy->devices[other]),
            bt_device_description(strategy->devices[other]), bt_device_driver(strategy->devices[other]));
    }
    if (exact && BTI_EXACT_SHARDS % strategy->count)
        return bti_fail(BT_FAILED_PRECONDITION,
                        "exact mode cuts a batch into %d parts and needs 1, 2, 4 or 8 devices, not %d",
                        BTI_EXACT_SHARDS, strategy->count);
    strategy->exact = exact;
    return BT_OK;
}

bt_status bt_strategy_set_sharded(bt_strategy *strategy, bool sharded) {
    BTI_CALL("bt_strategy_set_sharded");
    BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_strategy_set_sharded"));
    if (sharded && strategy->micro_batches)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_pipelined has no replicas to share states out to");
    strategy->sharded = sharded;
    return BT_OK;
}

/* --- blocks ----------------------------------------------------------------------------------------------------------- */

static _Thread_local bt_strategy *current;

static void set_current(bt_strategy *strategy) {
    int ids[BTI_MAX_REPLICAS];
    if (!strategy_is_usable(strategy, "BT_STRATEGY")) strategy = NULL;
    int count = strategy ? strategy->count : 0;
    for (int i = 0; i < count; i++) ids[i] = bti_device_id(strategy->devices[i]);
    (void)bti_set_replica_devices(ids, count);
    current = strategy;
}

void bti_strategy_refresh(bt_strategy *strategy) {
    if (current == strategy) set_current(strategy);
}

bti_strategy_guard bti_strategy_begin(bt_strategy *strategy) {
    bti_strategy_guard guard = {.before = current};
    bti_error *error = strategy ? bti_handle_error(BTI_OWNED_STRATEGY, strategy, "BT_STRATEGY") : NULL;
    guard.refused = error;
    if (error) guard.on = bti_on_refused(bti_error_retain(error));
    set_current(strategy);
    return guard;
}

void bti_strategy_end(bti_strategy_guard *guard) {
    if (guard->refused) bti_on_end(&guard->on);
    set_current(guard->before);
}

bti_replica_guard bti_replica_begin(bt_strategy *strategy, int replica) {
    bt_device *device = bt_strategy_device(strategy, replica);
    bti_replica_guard guard = {.before = bti_set_replica(device ? replica : 0)};
    if (device)
        guard.on = bti_on_begin(bt_device_long_name(device), NULL, 0);
    else {
        bti_error *error = bti_handle_error(BTI_OWNED_STRATEGY, strategy, "BT_REPLICA");
        guard.on =
            bti_on_refused(error ? bti_error_retain(error)
                                 : bti_error_new(BT_INVALID_ARGUMENT,
                                                 "replica %d of a strategy over %d devices; it must be in [0, %d)",
                                                 replica, strategy->count, strategy->count));
    }
    return guard;
}

void bti_replica_end(bti_replica_guard *guard) {
    bti_on_end(&guard->on);
    (void)bti_set_replica(guard->before);
}

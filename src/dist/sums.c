/* Sums over the shards of a batch, on the devices of replicas. */
#include "base/error.h"
#include "device/device.h"
#include "dist/batch.h"
#include "ops/primitive.h"

bt_status bti_check_arrays(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    return BT_OK;
}

const char *bti_replica_name(const bti_train *s, int replica) {
    return bt_device_long_name(s->strategy->devices[replica]);
}

/* sums[i]: the sum of all parts, on the device of replica i. */
static void all_reduce(const bt_strategy *strategy, bt_array *const *parts, bt_array **sums) {
    BTI_CALL("bt_all_reduce");
    int devices[BTI_MAX_REPLICAS];
    for (int i = 0; i < strategy->count; i++) devices[i] = bti_device_id(strategy->devices[i]);
    bti_all_reduce(devices, strategy->count, parts, sums);
}

void bt_all_reduce(bt_strategy *strategy, bt_array **arrays) {
    if (!strategy || bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_all_reduce") != BT_OK) return;
    if (!arrays || !strategy->count) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, arrays ? "bt_all_reduce: the strategy has no replicas (bt_pipelined)"
                                                    : "bt_all_reduce: the list of arrays is NULL");
        return;
    }
    bt_array *sums[BTI_MAX_REPLICAS];
    all_reduce(strategy, arrays, sums);
    for (int i = 0; i < strategy->count; i++) arrays[i] = sums[i];
}

/* Adds pairs, each where its first part is: the same tree, whatever the number of devices. */
static bt_array *tree_sum(const bti_train *s, bt_array **parts) {
    for (int apart = 1; apart < s->shard_count; apart *= 2)
        for (int i = 0; i + apart < s->shard_count; i += 2 * apart)
            BT_ON(bti_replica_name(s, s->shards[i].replica))
                parts[i] = bt_add(parts[i], bt_to(parts[i + apart], bti_replica_name(s, s->shards[i].replica)));
    return bt_to(parts[0], bti_replica_name(s, 0));
}

bt_array *bti_sum_parts(const bti_train *s, bt_array **parts) {
    if (s->strategy->exact) return tree_sum(s, parts);
    bt_array *sum = NULL, *there[BTI_MAX_REPLICAS];
    for (int i = 0; i < s->shard_count; i++) there[i] = bt_to(parts[i], bti_replica_name(s, 0));
    BT_ON(bti_replica_name(s, 0)) sum = bt_add_n(there, s->shard_count);
    return bt_to(sum, bti_replica_name(s, 0)); /* a single part is still where it was */
}

/* Whether each device has a part of every gradient, in its order. */
static bool all_take_part(const bti_train *s) { return !s->strategy->exact && s->shard_count == s->strategy->count; }

void bti_sum_everywhere(const bti_train *s, bt_array **parts, bt_array **sums) {
    if (all_take_part(s)) {
        all_reduce(s->strategy, parts, sums);
        return;
    }
    bt_array *sum = bti_sum_parts(s, parts);
    for (int r = 0; r < s->strategy->count; r++) sums[r] = bt_to(sum, bti_replica_name(s, r));
}

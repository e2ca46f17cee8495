/* Sums over the shards of a batch, on the devices of replicas. */
#include "base/error.h"
#include "device/device.h"
#include "dist/batch.h"
#include "ops/primitive.h"

bt_status bti_check_arrays(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    return BT_OK;
}

const char *bti_replica_name(const bt_parts *b, int replica) {
    return bt_device_long_name(b->strategy->devices[replica]);
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
    if (!arrays) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, "bt_all_reduce: the list of arrays is NULL");
        return;
    }
    bt_array *sums[BTI_MAX_REPLICAS];
    all_reduce(strategy, arrays, sums);
    for (int i = 0; i < strategy->count; i++) arrays[i] = sums[i];
}

/* Adds pairs: the same tree, whatever the number of devices. A pair that has a sum of the replica's is added there, any other where its first part is. */
static bt_array *tree_sum(const bt_parts *b, bt_array *const *parts, int replica) {
    bt_array *sums[BTI_EXACT_SHARDS];
    int places[BTI_EXACT_SHARDS];
    for (int i = 0; i < b->shard_count; i++) sums[i] = parts[i], places[i] = b->shards[i].part.replica;
    for (int apart = 1; apart < b->shard_count; apart *= 2)
        for (int i = 0; i + apart < b->shard_count; i += 2 * apart) {
            if (places[i + apart] == replica) places[i] = replica;
            const char *there = bti_replica_name(b, places[i]);
            BT_ON(there) sums[i] = bt_add(bt_to(sums[i], there), bt_to(sums[i + apart], there));
        }
    return bt_to(sums[0], bti_replica_name(b, replica));
}

bt_array *bti_sum_parts(const bt_parts *b, bt_array *const *parts, int replica) {
    if (b->strategy->exact) return tree_sum(b, parts, replica);
    const char *name = bti_replica_name(b, replica);
    bt_array *sum = NULL, *there[BTI_MAX_REPLICAS];
    for (int i = 0; i < b->shard_count; i++) there[i] = bt_to(parts[i], name);
    BT_ON(name) sum = bt_add_n(there, b->shard_count);
    return bt_to(sum, name); /* a single part is still where it was */
}

/* Whether each device has a part of every gradient, in its order. */
static bool all_take_part(const bt_parts *b) { return !b->strategy->exact && b->shard_count == b->strategy->count; }

void bti_sum_everywhere(const bt_parts *b, bt_array *const *parts, bt_array **sums) {
    if (all_take_part(b)) {
        all_reduce(b->strategy, parts, sums);
        return;
    }
    bt_array *sum = bti_sum_parts(b, parts, 0);
    for (int r = 0; r < b->strategy->count; r++) sums[r] = bt_to(sum, bti_replica_name(b, r));
}

/* Sums over the shards of a batch, on the devices of replicas. */
#include "base/alloc.h"
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
    if (!arrays || !strategy->count) {
        (void)!bti_fail(BT_INVALID_ARGUMENT, arrays ? "bt_all_reduce: the strategy has no replicas (bt_pipelined)"
                                                    : "bt_all_reduce: the list of arrays is NULL");
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

static void copy_everywhere(const bt_parts *b, bt_array *sum, bt_array **sums) {
    for (int r = 0; r < b->strategy->count; r++) sums[r] = bt_to(sum, bti_replica_name(b, r));
}

void bti_sum_everywhere(const bt_parts *b, bt_array *const *parts, bt_array **sums) {
    if (all_take_part(b)) {
        all_reduce(b->strategy, parts, sums);
        return;
    }
    copy_everywhere(b, bti_sum_parts(b, parts, 0), sums);
}

/* --- many small ones ---------------------------------------------------------------------------------------------------- */

/* Outputs of fewer bytes are summed as one array where a tree does it: a launch and a copy for each of them takes longer than moving them together. */
enum { SMALL_BYTES = 4 << 20 };

typedef struct together {
    const bt_parts *parts;
    int first, count;
    const int *owners;
    bt_array **sums, **list; /* list: the arrays of one shard */
    bool *done;              /* of the outputs */
    int *members, member_count;
} together;

static bt_array *const *parts_of(const together *t, int i) {
    return &t->parts->values[(t->first + i) * t->parts->shard_count];
}

static bool is_small(const bt_array *x) { return bt_count(x) * (int64_t)bt_dtype_size(bt_dtype_of(x)) < SMALL_BYTES; }

/* Those that are not done and go with output i: of its dtype, for its owner. */
static void find_members(together *t, int i) {
    t->member_count = 0;
    for (int k = i; k < t->count; k++) {
        const bt_array *x = parts_of(t, k)[0];
        bool fits = is_small(x) && bt_dtype_of(x) == bt_dtype_of(parts_of(t, i)[0]);
        if (t->done[k] || !fits || (t->owners && t->owners[k] != t->owners[i])) continue;
        t->members[t->member_count++] = k;
        t->done[k] = true;
    }
}

static bt_array *join_shard(const together *t, int shard) {
    bt_array *joined = NULL;
    BT_ON(bti_replica_name(t->parts, t->parts->shards[shard].part.replica)) {
        for (int m = 0; m < t->member_count; m++)
            t->list[m] = bt_reshape(parts_of(t, t->members[m])[shard], bt_count(parts_of(t, t->members[m])[shard]));
        joined = bt_concat(t->list, t->member_count, 0);
    }
    return joined;
}

static bt_array *take_piece(bt_array *joined, int64_t at, const bt_array *like) {
    return bt_reshape_to(bt_slice_axis(joined, 0, at, at + bt_count(like), 1), bt_shape_of(like));
}

static void sum_members(const together *t, int i) {
    bt_array *joined[BTI_MAX_REPLICAS], *sums[BTI_MAX_REPLICAS];
    int replicas = t->owners ? 1 : t->parts->strategy->count;
    for (int s = 0; s < t->parts->shard_count; s++) joined[s] = join_shard(t, s);
    sums[0] = bti_sum_parts(t->parts, joined, t->owners ? t->owners[i] : 0);
    if (!t->owners) copy_everywhere(t->parts, sums[0], sums);
    for (int r = 0; r < replicas; r++)
        BT_ON(bti_replica_name(t->parts, t->owners ? t->owners[i] : r)) {
            int64_t at = 0;
            for (int m = 0; m < t->member_count; m++) {
                const bt_array *like = parts_of(t, t->members[m])[0];
                t->sums[t->members[m] * replicas + r] = take_piece(sums[r], at, like);
                at += bt_count(like);
            }
        }
}

static void sum_alone(const together *t, int i) {
    if (t->owners)
        t->sums[i] = bti_sum_parts(t->parts, parts_of(t, i), t->owners[i]);
    else
        bti_sum_everywhere(t->parts, parts_of(t, i), &t->sums[i * t->parts->strategy->count]);
}

bt_status bti_sum_outputs(const bt_parts *b, int first, int count, const int *owners, bt_array **sums) {
    together t = {b,
                  first,
                  count,
                  owners,
                  sums,
                  .list = bti_alloc((size_t)count * sizeof(bt_array *) + 1),
                  .done = bti_calloc((size_t)count + 1, sizeof(bool)),
                  .members = bti_alloc((size_t)count * sizeof(int) + 1)};
    bt_status status = t.list && t.done && t.members ? BT_OK : bti_no_memory();
    bool joins = (b->strategy->exact || owners) && b->shard_count > 1;
    for (int i = 0; i < count && status == BT_OK; i++) {
        if (t.done[i]) continue;
        if (joins) find_members(&t, i);
        if (joins && t.member_count > 1)
            sum_members(&t, i);
        else
            sum_alone(&t, i);
    }
    bti_free(t.list);
    bti_free(t.done);
    bti_free(t.members);
    return status == BT_OK ? bti_check_arrays(sums, count * (owners ? 1 : b->strategy->count)) : status;
}

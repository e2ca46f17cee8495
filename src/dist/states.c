/* States that layers set in a training step: those of the shards become one value, which all replicas get. */
#include "dist/batch.h"

#include "base/alloc.h"
#include "function/shared.h"
#include "ops/primitive.h"

bti_node *bti_states_find(const bti_states *states, const bt_shared *state) {
    for (size_t i = 0; i < states->shared.count; i++)
        if (states->shared.items[i] == state) return states->values.items[i];
    return NULL;
}

bt_status bti_fail_unset_state(const bt_parts *parts, const bt_shared *state) {
    return bti_fail(BT_INVALID_ARGUMENT, "%s: state %s was set in a part of the batch and not in another", parts->call,
                    bt_shared_name(state));
}

/* Floats: the mean weighted by rows, added as gradients are. Integers: the first shard's. */
static bt_array *combined_state(const bt_parts *s, const bt_shared *state) {
    bt_array *parts[BTI_MAX_REPLICAS];
    for (int i = 0; i < s->shard_count; i++) {
        bti_node *value = bti_states_find(&s->shards[i].states, state);
        if (!value) {
            (void)!bti_fail_unset_state(s, state);
            return bti_poison(bti_error_last());
        }
        parts[i] = bti_array_on(value);
        if (s->shard_count == 1 || !bti_dtype_is_float(bti_dtype(parts[i]))) return parts[i];
        double weight = bti_part_weight(&s->shards[i].part);
        BT_ON(bti_replica_name(s, s->shards[i].part.replica))
            parts[i] = bt_cast(bt_mul(parts[i], bt_num(weight)), bti_dtype(parts[i]));
    }
    return bti_sum_parts(s, parts, 0);
}

static bt_status set_state(const bt_parts *s, bt_shared *state) {
    bt_array *value = combined_state(s, state);
    BTI_TRY(bti_fail_with(bti_array_error(value)));
    if (!s->strategy) return bt_set(state, value);
    bt_status status = BT_OK;
    int replicas = bti_shared_replicas(state);
    for (int r = 0; r < replicas && r < s->strategy->count && status == BT_OK; r++)
        BT_REPLICA(s->strategy, r) status = bt_set(state, bt_to(value, bti_replica_name(s, r)));
    return status;
}

bt_status bti_set_states(const bt_parts *s) {
    const bti_states *first = &s->shards[0].states;
    for (size_t i = 0; i < first->shared.count; i++) BTI_TRY(set_state(s, first->shared.items[i]));
    return BT_OK;
}

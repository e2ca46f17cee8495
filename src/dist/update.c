/* One update of all replicas by the summed gradients of a batch's parts. */
#include "base/alloc.h"
#include "base/error.h"
#include "dist/batch.h"
#include "function/shared.h"
#include "nn/optimizer.h"

/* The arrays of one update. */
typedef struct update {
    bt_parts *parts;
    bt_optimizer *optimizer;
    bt_shared *const *parameters;
    int count, first_output;
    bt_layer *hooked;
    bt_array **sums;       /* [parameter][replica] */
    bt_array **own;        /* of one replica */
    bt_shared **backwards; /* the parameters, the last first */
} update;

static bt_array *const *gradients_of(const update *u, int p) {
    return &u->parts->values[(u->first_output + p) * u->parts->shard_count];
}

/* own[i] is of parameters[i]. */
static void hook_gradients(const update *u, bt_shared *const *parameters) {
    for (int p = 0; p < u->count && u->hooked; p++)
        u->own[p] = bti_hooked_gradient(u->hooked, parameters[p], u->own[p]);
}

static bt_status update_one_device(const update *u) {
    for (int p = 0; p < u->count; p++) u->own[p] = gradients_of(u, p)[0];
    hook_gradients(u, u->parameters);
    return bt_optimizer_step(u->optimizer, u->parameters, u->own, u->count);
}

/* The last layer's first: their sums are there first, and their updates hide those of the others. */
static bt_status update_replica(const update *u, int replica) {
    bt_status status = BT_OK;
    int replicas = u->parts->strategy->count;
    for (int p = 0; p < u->count; p++) u->own[p] = u->sums[(u->count - 1 - p) * replicas + replica];
    BT_REPLICA(u->parts->strategy, replica) {
        hook_gradients(u, u->backwards);
        status = bt_optimizer_step(u->optimizer, u->backwards, u->own, u->count);
    }
    return status;
}

/* Replicas that had no rows get the sums too. */
static bt_status update_replicas(const update *u) {
    int replicas = u->parts->strategy->count;
    for (int r = 0; r < replicas; r++) BTI_TRY(update_replica(u, r));
    return BT_OK;
}

/* --- sharded ---------------------------------------------------------------------------------------------------------- */

/* One step over all devices: each update is computed where the states are. Setting a mirrored variable outside of replicas sets all of them. */
static bt_status update_owners(const update *u) {
    const bt_parts *b = u->parts;
    int *owners = bti_alloc(2 * (size_t)u->count * sizeof *owners + 1);
    if (!owners) return bti_no_memory();
    int *homes = owners + u->count; /* of the parameters backwards */
    bt_status status = bti_strategy_owners(b->strategy, u->parameters, u->count, owners);
    if (status == BT_OK) status = bti_sum_outputs(b, u->first_output, u->count, owners, u->sums);
    for (int p = 0; p < u->count && status == BT_OK; p++) {
        int i = u->count - 1 - p;
        homes[p] = owners[i];
        u->own[p] = u->sums[i];
        if (u->hooked)
            BT_REPLICA(b->strategy, homes[p]) u->own[p] = bti_hooked_gradient(u->hooked, u->backwards[p], u->own[p]);
    }
    if (status == BT_OK) status = bti_check_arrays(u->own, u->count);
    if (status == BT_OK) status = bti_optimizer_place(u->optimizer, u->backwards, homes, u->count);
    if (status == BT_OK) status = bt_optimizer_step(u->optimizer, u->backwards, u->own, u->count);
    bti_free(owners);
    return status;
}

/* --- the update ------------------------------------------------------------------------------------------------------- */

static bt_status update_everywhere(const update *u) {
    const bt_strategy *strategy = u->parts->strategy;
    if (!strategy) return update_one_device(u);
    if (strategy->sharded) return update_owners(u);
    BTI_TRY(bti_sum_outputs(u->parts, u->first_output, u->count, NULL, u->sums));
    return update_replicas(u);
}

static bt_status update_and_set_states(const update *u) {
    bool sets_states = !u->parts->has_set_states && u->parts->shards[0].states.shared.count;
    if (!u->parts->strategy && !sets_states) return update_one_device(u);
    bti_sets_begin();
    bt_status status = update_everywhere(u);
    if (status == BT_OK && sets_states) status = bti_set_states(u->parts);
    bt_status committed = bti_sets_end(status == BT_OK);
    if (status == BT_OK) status = committed;
    if (status == BT_OK) u->parts->has_set_states = true;
    return status;
}

bt_status bti_parts_update(bt_parts *parts, bt_optimizer *optimizer, bt_shared *const *parameters, int count,
                           int first_output, bt_layer *hooked) {
    size_t replicas = parts->strategy ? (size_t)parts->strategy->count : 0;
    update u = {parts,
                optimizer,
                parameters,
                count,
                first_output,
                hooked,
                .sums = bti_calloc((size_t)count * replicas + 1, sizeof(bt_array *)),
                .own = bti_calloc((size_t)count + 1, sizeof(bt_array *)),
                .backwards = bti_calloc((size_t)count + 1, sizeof(bt_shared *))};
    bt_status status = u.sums && u.own && u.backwards ? BT_OK : bti_no_memory();
    for (int p = 0; p < count && status == BT_OK; p++) u.backwards[p] = parameters[count - 1 - p];
    if (status == BT_OK) status = update_and_set_states(&u);
    bti_free(u.sums);
    bti_free(u.own);
    bti_free(u.backwards);
    return status;
}

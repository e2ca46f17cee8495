/* One training step over mirrored replicas: each gets a share of the batch and computes gradients; every replica gets their sum and makes
 * the same update. All of it is only recorded here: one plan, in which sums of gradients begin while others are still being computed. */
#include "array/eval.h"
#include "array/move.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "device/device.h"
#include "dist/batch.h"
#include "dist/flows.h"
#include "dist/pipeline.h"
#include "function/shared.h"
#include "grad/grad.h"
#include "nn/optimizer.h"
#include "ops/primitive.h"

/* Loss and gradients of one shard's rows, scaled by their part of the batch. */
static bt_status record_shard(bti_train *s, int number, bt_array *x, bt_array *y, double weight) {
    bti_batch_shard *own = &s->shards[number];
    own->loss = bti_record_loss(s, own, x, y, weight);
    size_t means = own->means.own.count;
    bt_array **grads = bti_calloc((size_t)s->parameter_count + means, sizeof *grads);
    if (!grads) return bti_no_memory();
    bt_array *scaled = bti_optimizer_scaled(s->optimizer, s->parameters, s->parameter_count, own->loss);
    bool *flows = number == 0 ? s->flows : NULL;
    bt_status status = means ? bti_grad_through_means(s, own, scaled, grads, flows)
                             : bti_grad_both(scaled, s->parameters, s->parameter_count, NULL, 0, grads, flows);
    if (status == BT_OK && flows)
        status = bti_check_flows(s->optimizer, s->model, s->parameters, flows, s->parameter_count, own->loss);
    for (int p = 0; p < s->parameter_count; p++) s->grads[p * s->shard_count + number] = grads[p];
    bti_free(grads);
    return status;
}

/* grads[i] is of parameters[i]. */
static void hook_gradients(const bti_train *s, bt_shared *const *parameters, bt_array **grads) {
    for (int p = 0; p < s->parameter_count && s->hooks; p++)
        grads[p] = bti_hooked_gradient(s->model, parameters[p], grads[p]);
}

/* By the gradients and states of the only shard. */
static bt_status update_once(bti_train *s) {
    hook_gradients(s, s->parameters, s->grads);
    if (!s->shards[0].states.shared.count)
        return bt_optimizer_step(s->optimizer, s->parameters, s->grads, s->parameter_count);
    bti_sets_begin();
    bt_status status = bt_optimizer_step(s->optimizer, s->parameters, s->grads, s->parameter_count);
    if (status == BT_OK) status = bti_set_states(s);
    bt_status committed = bti_sets_end(status == BT_OK);
    return status == BT_OK ? committed : status;
}

static bt_status record_on_one_device(bti_train *s, bt_array *x, bt_array *y) {
    bti_layer_ends ends = bti_layer_ends_of(s->model);
    s->rows = s->shards[0].rows = !bti_array_error(x) && bt_rank(x) ? bt_size(x, 0) : 1;
    if (ends.any) {
        x = bti_bring(x, ends.first);
        y = bti_bring(y, bti_output_device(s, ends, x));
    }
    BTI_TRY(record_shard(s, 0, x, y, 1));
    return update_once(s);
}

/* --- shards ----------------------------------------------------------------------------------------------------------- */

static void cut_exactly(bti_train *s, int64_t rows) {
    s->shard_count = rows < BTI_EXACT_SHARDS ? (int)rows : BTI_EXACT_SHARDS;
    for (int i = 0; i < s->shard_count; i++) {
        s->shards[i].replica = i * s->strategy->count / BTI_EXACT_SHARDS;
        s->shards[i].rows = rows / s->shard_count + (i < rows % s->shard_count);
    }
}

static void cut_by_shares(bti_train *s, int64_t rows) {
    int64_t counts[BTI_MAX_REPLICAS];
    bti_strategy_rows(s->strategy, rows, counts);
    s->shard_count = 0;
    for (int r = 0; r < s->strategy->count; r++) {
        if (!counts[r]) continue;
        s->shards[s->shard_count].replica = r;
        s->shards[s->shard_count++].rows = counts[r];
    }
}

static bt_status run_shard(bti_train *s, int number, bt_array *x, bt_array *y, double weight) {
    bt_status status = BT_OK;
    const bti_batch_shard *own = &s->shards[number];
    const char *device = bti_replica_name(s, own->replica);
    bt_array *own_x = bti_rows_of(x, own->first_row, own->rows); /* only these rows are moved */
    bt_array *own_y = bti_rows_of(y, own->first_row, own->rows);
    BT_REPLICA(s->strategy, own->replica)
        status = record_shard(s, number, bt_to(own_x, device), bt_to(own_y, device), weight);
    return status;
}

/* --- speeds ----------------------------------------------------------------------------------------------------------- */

#define PROBE_ROWS 256

/* The seconds that a device takes for some rows, transfers to it and the gradients included. */
static bt_status time_device(bti_train *s, int replica, int64_t rows, bt_array *x, bt_array *y, double *seconds) {
    bt_status status = BT_OK;
    s->shards[0].replica = replica;
    s->shards[0].rows = rows;
    uint64_t from = bti_clock_ns();
    BT_SCOPE {
        status = run_shard(s, 0, x, y, 1);
        if (status == BT_OK) status = bt_eval_all(s->grads, s->parameter_count);
        for (int p = 0; p < s->parameter_count && status == BT_OK; p++) status = bt_block(s->grads[p]);
    }
    *seconds = 1e-9 * (double)(bti_clock_ns() - from);
    return status;
}

/* In the first step over unlike devices: each computes the same rows twice. The second time counts, since programs are compiled by then. */
static bt_status measure_speeds(bti_train *s, bt_array *x, bt_array *y) {
    double speed[BTI_MAX_REPLICAS], seconds = 0;
    int64_t rows = bt_size(x, 0) < PROBE_ROWS ? bt_size(x, 0) : PROBE_ROWS;
    s->shard_count = 1;
    s->rows = rows;
    for (int r = 0; r < s->strategy->count; r++) {
        for (int round = 0; round < 2; round++) BTI_TRY(time_device(s, r, rows, x, y, &seconds));
        speed[r] = 1 / (seconds > 1e-9 ? seconds : 1e-9);
    }
    return bt_strategy_set_shares(s->strategy, speed, s->strategy->count);
}

/* --- the step --------------------------------------------------------------------------------------------------------- */

/* sums[parameter][replica] */
static bt_status sum_gradients(const bti_train *s, bt_array **sums) {
    int count = s->strategy->count;
    for (int p = 0; p < s->parameter_count; p++) bti_sum_everywhere(s, &s->grads[p * s->shard_count], &sums[p * count]);
    return bti_check_arrays(sums, s->parameter_count * count);
}

/* The last layer's first: their sums are there first, and their updates hide those of the others. */
static bt_status update_replica(const bti_train *s, int replica, bt_array *const *sums, bt_array **own,
                                bt_shared **parameters) {
    bt_status status = BT_OK;
    for (int p = 0; p < s->parameter_count; p++) {
        int from = s->parameter_count - 1 - p;
        own[p] = sums[from * s->strategy->count + replica];
        parameters[p] = s->parameters[from];
    }
    BT_REPLICA(s->strategy, replica) {
        hook_gradients(s, parameters, own);
        status = bt_optimizer_step(s->optimizer, parameters, own, s->parameter_count);
    }
    return status;
}

static bt_status update_all(bti_train *s) {
    size_t count = (size_t)s->parameter_count * (size_t)(s->strategy->count + 1);
    bt_array **sums = bti_alloc(count * sizeof(bt_array *));
    if (!sums) return bti_no_memory();
    bt_array **own = sums + s->parameter_count * s->strategy->count;
    bt_shared **parameters = bti_alloc((size_t)s->parameter_count * sizeof *parameters);
    bt_status status = parameters ? sum_gradients(s, sums) : bti_no_memory();
    bti_sets_begin();
    /* also replicas that had no rows get the sum */
    for (int r = 0; r < s->strategy->count && status == BT_OK; r++)
        status = update_replica(s, r, sums, own, parameters);
    if (status == BT_OK) status = bti_set_states(s);
    bt_status committed = bti_sets_end(status == BT_OK);
    bti_free(sums);
    bti_free(parameters);
    return status == BT_OK ? committed : status;
}

static bt_status record_mirrored(bti_train *s, bt_array *x, bt_array *y) {
    int64_t rows = bt_size(x, 0), start = 0;
    if (!s->strategy->exact && bt_strategy_share(s->strategy, 0) == 0) BTI_TRY(measure_speeds(s, x, y));
    if (s->strategy->exact)
        cut_exactly(s, rows);
    else
        cut_by_shares(s, rows);
    s->rows = rows;
    for (int i = 0; i < s->shard_count; i++) {
        s->shards[i].first_row = start;
        BTI_TRY(run_shard(s, i, x, y, (double)s->shards[i].rows / (double)rows));
        start += s->shards[i].rows;
    }
    BTI_TRY(bti_put_means_in_place(s));
    return update_all(s);
}

/* The variables tell what became of it. */
static void submit_update(void) {
    bti_error *before = bti_error_last();
    if (bti_eval_nodes(NULL, 0, true) == BT_OK)
        bti_error_release(before);
    else
        bti_error_put_back(before);
}

/* The model is there once, wherever its layers are. */
static bt_status run_pipelined(bti_train *s, bt_array *x, bt_array *y) {
    int micro_batches = s->strategy->micro_batches;
    s->strategy = NULL;
    BTI_TRY(bti_pipeline_run(s, micro_batches, x, y));
    BTI_TRY(update_once(s));
    submit_update();
    return BT_OK;
}

static bt_status record_train_step(bti_train *s, bt_array *x, bt_array *y) {
    if (!s->strategy) return record_on_one_device(s, x, y);
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    BTI_TRY(bti_fail_with(bti_array_error(y)));
    if (bt_rank(x) < 1 || bt_rank(y) < 1 || bt_size(x, 0) != bt_size(y, 0) || bt_size(x, 0) < 1)
        return bti_fail(BT_INVALID_ARGUMENT, "x has %lld rows and y %lld; they must be as many, and at least one",
                        (long long)bt_size(x, 0), (long long)bt_size(y, 0));
    return s->strategy->micro_batches ? run_pipelined(s, x, y) : record_mirrored(s, x, y);
}

static bt_status check_step_objects(const bt_strategy *strategy, const bt_layer *model, const bt_optimizer *optimizer) {
    if (strategy) BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_train_step"));
    if (!model) return bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the model is NULL");
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, model, "bt_train_step"));
    return bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_train_step");
}

/* The parameters that a step updates. */
static void keep_thawed(bti_train *s) {
    int count = bt_parameters(s->model, s->parameters, s->parameter_count);
    s->parameter_count = 0;
    for (int p = 0; p < count; p++)
        if (!bt_shared_is_frozen(s->parameters[p])) s->parameters[s->parameter_count++] = s->parameters[p];
}

static bt_array *total_loss(const bti_train *s) {
    bt_array *losses[BTI_MAX_REPLICAS];
    for (int i = 0; i < s->shard_count; i++) losses[i] = s->shards[i].loss;
    return s->strategy ? bti_sum_parts(s, losses) : losses[0];
}

static void free_step(bti_train *s) {
    for (int i = 0; s->shards && i < s->shard_room; i++) {
        bti_states_free(&s->shards[i].states);
        bti_means_free(&s->shards[i].means);
        bti_vec_free(&s->shards[i].cotangents);
        bti_vec_free(&s->shards[i].own_cotangents);
    }
    bti_free(s->parameters);
    bti_free(s->shards);
    bti_free(s->grads);
    bti_free(s->flows);
}

bt_array *bt_train_step(bt_strategy *strategy, bt_layer *model, bt_optimizer *optimizer, bt_model_loss *loss,
                        void *data, bt_array *x, bt_array *y) {
    bt_status usable = check_step_objects(strategy, model, optimizer);
    if (usable == BT_OK && !loss) usable = bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the loss is NULL");
    if (usable != BT_OK) return bti_poison(bti_error_last());
    bti_train s = {strategy,
                   model,
                   optimizer,
                   loss,
                   data,
                   .parameter_count = bt_parameters(model, NULL, 0),
                   .shard_count = 1,
                   .shard_room = strategy ? BTI_MAX_REPLICAS : 1,
                   .hooks = bti_has_gradient_hooks(model)};
    bt_array *total = NULL;
    BT_SCOPE {
        s.parameters = bti_alloc((size_t)s.parameter_count * sizeof *s.parameters);
        s.shards = bti_calloc((size_t)s.shard_room, sizeof *s.shards);
        s.grads = bti_calloc((size_t)s.parameter_count * (size_t)s.shard_room, sizeof *s.grads);
        bool checks = atomic_load(&optimizer->gradients) != BTI_GRADIENTS_KNOWN;
        if (checks) s.flows = bti_calloc((size_t)s.parameter_count + 1, sizeof *s.flows);
        bt_status status = BT_OK;
        if (s.parameters && s.shards && s.grads && (s.flows || !checks)) {
            keep_thawed(&s);
            status = record_train_step(&s, x, y);
        } else
            status = bti_no_memory();
        total = bt_keep(status == BT_OK ? total_loss(&s) : bti_poison(bti_error_last()));
        free_step(&s);
    }
    return total;
}

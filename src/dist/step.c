/* One training step over mirrored replicas: each gets a share of the batch and computes gradients; every replica gets their sum and makes
 * the same update. All of it is only recorded here: one plan, in which sums of gradients begin while others are still being computed. */
#include <string.h>
#include <time.h>

#include "array/move.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "device/device.h"
#include "dist/strategy.h"
#include "function/shared.h"
#include "nn/layer.h"
#include "nn/optimizer.h"
#include "ops/primitive.h"

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

typedef struct step {
    bt_strategy *strategy; /* NULL: one device */
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_model_loss *loss;
    void *data;
    bt_shared **parameters;
    int parameter_count;
    int shards; /* number of parts of the batch that have rows */
    int device_of[BTI_MAX_REPLICAS];
    int64_t rows_of[BTI_MAX_REPLICAS];
    bt_array **losses; /* one per shard, weighted */
    bt_array **grads;  /* [parameter][shard], weighted */
} step;

static bt_status check_arrays(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    return BT_OK;
}

/* Loss and gradients of one shard's rows, scaled by their part of the batch. */
static bt_status record_shard(step *s, int shard, bt_array *x, bt_array *y, double weight) {
    bt_array *loss = bt_mul(s->loss(s->model, x, y, s->data), bt_num(weight));
    s->losses[shard] = loss;
    bt_array **grads = bti_alloc((size_t)s->parameter_count * sizeof *grads);
    if (!grads) return bti_no_memory();
    loss = bti_optimizer_scaled(s->optimizer, s->parameters, s->parameter_count, loss);
    bt_status status = bt_grad_shared(loss, s->parameters, s->parameter_count, grads);
    for (int p = 0; p < s->parameter_count; p++) s->grads[p * s->shards + shard] = grads[p];
    bti_free(grads);
    return status;
}

/* The device of the model's output. Functions among the layers may move it, so a forward pass is recorded, and not run. */
static int output_device(const step *s, bti_layer_ends ends, bt_array *x) {
    int device = ends.last;
    bool quiet = bti_errors_quiet(true);
    bti_error *before = bti_error_last();
    BT_SCOPE {
        bt_device *found = ends.several ? bt_device_of(bt_apply(s->model, x)) : NULL;
        if (found) device = bti_device_id(found);
    }
    bti_error_put_back(before);
    bti_errors_quiet(quiet);
    return device;
}

static bt_status record_on_one_device(step *s, bt_array *x, bt_array *y) {
    bti_layer_ends ends = bti_layer_ends_of(s->model);
    if (ends.any) {
        x = bti_bring(x, ends.first);
        y = bti_bring(y, output_device(s, ends, x));
    }
    BTI_TRY(record_shard(s, 0, x, y, 1));
    return bt_optimizer_step(s->optimizer, s->parameters, s->grads, s->parameter_count);
}

static const char *replica_device_name(const step *s, int replica) {
    return bt_device_long_name(s->strategy->devices[replica]);
}

/* --- shards ----------------------------------------------------------------------------------------------------------- */

static void cut_exactly(step *s, int64_t rows) {
    s->shards = rows < BTI_EXACT_SHARDS ? (int)rows : BTI_EXACT_SHARDS;
    for (int i = 0; i < s->shards; i++) {
        s->device_of[i] = i * s->strategy->count / BTI_EXACT_SHARDS;
        s->rows_of[i] = rows / s->shards + (i < rows % s->shards);
    }
}

static void cut_by_shares(step *s, int64_t rows) {
    int64_t counts[BTI_MAX_REPLICAS];
    bti_strategy_rows(s->strategy, rows, counts);
    s->shards = 0;
    for (int r = 0; r < s->strategy->count; r++) {
        if (!counts[r]) continue;
        s->device_of[s->shards] = r;
        s->rows_of[s->shards++] = counts[r];
    }
}

static bt_status run_shard(step *s, int shard, bt_array *x, bt_array *y, int64_t start, double weight) {
    bt_status status = BT_OK;
    const char *device = replica_device_name(s, s->device_of[shard]);
    int64_t end = start + s->rows_of[shard];
    bt_array *own_x = NULL, *own_y = NULL;
    BT_ON(bt_device_long_name(bt_device_of(x)))
        own_x = bt_slice_axis(x, 0, start, end, 1); /* only these rows are moved */
    BT_ON(bt_device_long_name(bt_device_of(y))) own_y = bt_slice_axis(y, 0, start, end, 1);
    BT_REPLICA(s->strategy, s->device_of[shard])
        status = record_shard(s, shard, bt_to(own_x, device), bt_to(own_y, device), weight);
    return status;
}

/* Adds pairs, each where its first part is: the same tree, whatever the number of devices. */
static bt_array *tree_sum(const step *s, bt_array **parts) {
    for (int apart = 1; apart < s->shards; apart *= 2)
        for (int i = 0; i + apart < s->shards; i += 2 * apart)
            BT_ON(replica_device_name(s, s->device_of[i]))
                parts[i] = bt_add(parts[i], bt_to(parts[i + apart], replica_device_name(s, s->device_of[i])));
    return bt_to(parts[0], replica_device_name(s, 0));
}

static bt_array *sum_parts(const step *s, bt_array **parts) {
    if (s->strategy->exact) return tree_sum(s, parts);
    bt_array *sum = NULL, *there[BTI_MAX_REPLICAS];
    for (int i = 0; i < s->shards; i++) there[i] = bt_to(parts[i], replica_device_name(s, 0));
    BT_ON(replica_device_name(s, 0)) sum = bt_add_n(there, s->shards);
    return bt_to(sum, replica_device_name(s, 0)); /* a single part is still where it was */
}

/* --- speeds ----------------------------------------------------------------------------------------------------------- */

#define PROBE_ROWS 256

/* The seconds that a device takes for some rows, transfers to it and the gradients included. */
static bt_status time_device(step *s, int replica, int64_t rows, bt_array *x, bt_array *y, double *seconds) {
    bt_status status = BT_OK;
    s->device_of[0] = replica;
    s->rows_of[0] = rows;
    uint64_t from = bti_clock_ns();
    BT_SCOPE {
        status = run_shard(s, 0, x, y, 0, 1);
        if (status == BT_OK) status = bt_eval_all(s->grads, s->parameter_count);
        for (int p = 0; p < s->parameter_count && status == BT_OK; p++) status = bt_block(s->grads[p]);
    }
    *seconds = 1e-9 * (double)(bti_clock_ns() - from);
    return status;
}

/* In the first step over unlike devices: each computes the same rows twice. The second time counts, since programs are compiled by then. */
static bt_status measure_speeds(step *s, bt_array *x, bt_array *y) {
    double speed[BTI_MAX_REPLICAS], seconds = 0;
    int64_t rows = bt_size(x, 0) < PROBE_ROWS ? bt_size(x, 0) : PROBE_ROWS;
    s->shards = 1;
    for (int r = 0; r < s->strategy->count; r++) {
        for (int round = 0; round < 2; round++) BTI_TRY(time_device(s, r, rows, x, y, &seconds));
        speed[r] = 1 / (seconds > 1e-9 ? seconds : 1e-9);
    }
    return bt_strategy_set_shares(s->strategy, speed, s->strategy->count);
}

/* --- the step --------------------------------------------------------------------------------------------------------- */

/* Whether each device has a part of every gradient, in its order. */
static bool all_take_part(const step *s) { return !s->strategy->exact && s->shards == s->strategy->count; }

/* sums[parameter][replica] */
static bt_status sum_gradients(const step *s, bt_array **sums) {
    int count = s->strategy->count;
    for (int p = 0; p < s->parameter_count; p++) {
        bt_array **parts = &s->grads[p * s->shards];
        if (all_take_part(s)) {
            all_reduce(s->strategy, parts, &sums[p * count]);
            continue;
        }
        bt_array *sum = sum_parts(s, parts);
        for (int r = 0; r < count; r++) sums[p * count + r] = bt_to(sum, replica_device_name(s, r));
    }
    return check_arrays(sums, s->parameter_count * count);
}

/* The last layer's first: their sums are there first, and their updates hide those of the others. */
static bt_status update_replica(const step *s, int replica, bt_array *const *sums, bt_array **own,
                                bt_shared **parameters) {
    bt_status status = BT_OK;
    for (int p = 0; p < s->parameter_count; p++) {
        int from = s->parameter_count - 1 - p;
        own[p] = sums[from * s->strategy->count + replica];
        parameters[p] = s->parameters[from];
    }
    BT_REPLICA(s->strategy, replica) status = bt_optimizer_step(s->optimizer, parameters, own, s->parameter_count);
    return status;
}

static bt_status update_all(step *s) {
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
    bt_status committed = bti_sets_end(status == BT_OK);
    bti_free(sums);
    bti_free(parameters);
    return status == BT_OK ? committed : status;
}

static bt_status record_mirrored(step *s, bt_array *x, bt_array *y) {
    int64_t rows = bt_size(x, 0), start = 0;
    if (!s->strategy->exact && bt_strategy_share(s->strategy, 0) == 0) BTI_TRY(measure_speeds(s, x, y));
    if (s->strategy->exact)
        cut_exactly(s, rows);
    else
        cut_by_shares(s, rows);
    for (int i = 0; i < s->shards; i++) {
        BTI_TRY(run_shard(s, i, x, y, start, (double)s->rows_of[i] / (double)rows));
        start += s->rows_of[i];
    }
    return update_all(s);
}

static bt_status record_train_step(step *s, bt_array *x, bt_array *y) {
    if (!s->strategy) return record_on_one_device(s, x, y);
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    BTI_TRY(bti_fail_with(bti_array_error(y)));
    if (bt_rank(x) < 1 || bt_rank(y) < 1 || bt_size(x, 0) != bt_size(y, 0) || bt_size(x, 0) < 1)
        return bti_fail(BT_INVALID_ARGUMENT, "x has %lld rows and y %lld; they must be as many, and at least one",
                        (long long)bt_size(x, 0), (long long)bt_size(y, 0));
    return record_mirrored(s, x, y);
}

static bt_status check_step_objects(const bt_strategy *strategy, const bt_layer *model, const bt_optimizer *optimizer) {
    if (strategy) BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_train_step"));
    if (!model) return bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the model is NULL");
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, model, "bt_train_step"));
    return bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_train_step");
}

/* The parameters that a step updates. */
static void keep_thawed(step *s) {
    int count = bt_parameters(s->model, s->parameters, s->parameter_count);
    s->parameter_count = 0;
    for (int p = 0; p < count; p++)
        if (!bt_shared_is_frozen(s->parameters[p])) s->parameters[s->parameter_count++] = s->parameters[p];
}

bt_array *bt_train_step(bt_strategy *strategy, bt_layer *model, bt_optimizer *optimizer, bt_model_loss *loss,
                        void *data, bt_array *x, bt_array *y) {
    bt_status usable = check_step_objects(strategy, model, optimizer);
    if (usable == BT_OK && !loss) usable = bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the loss is NULL");
    if (usable != BT_OK) return bti_poison(bti_error_last());
    step s = {strategy, model, optimizer, loss, data, .parameter_count = bt_parameters(model, NULL, 0), .shards = 1};
    bt_array *total = NULL;
    BT_SCOPE {
        s.parameters = bti_alloc((size_t)s.parameter_count * sizeof *s.parameters);
        s.losses = bti_calloc(BTI_MAX_REPLICAS, sizeof *s.losses);
        s.grads = bti_calloc((size_t)s.parameter_count * BTI_MAX_REPLICAS, sizeof *s.grads);
        bt_status status = BT_OK;
        if (s.parameters && s.losses && s.grads) {
            keep_thawed(&s);
            status = record_train_step(&s, x, y);
        } else
            status = bti_no_memory();
        if (status == BT_OK && strategy)
            total = sum_parts(&s, s.losses);
        else
            total = status == BT_OK ? s.losses[0] : bti_poison(bti_error_last());
        total = bt_keep(total);
        bti_free(s.parameters);
        bti_free(s.losses);
        bti_free(s.grads);
    }
    return total;
}

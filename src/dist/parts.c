/* A batch in parts: each replica gets a share of the rows, a function is called for each part. All of it is only recorded: one plan, in which sums begin
 * while other parts are still being computed. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "dist/batch.h"
#include "grad/grad.h"

/* What is recorded between the two belongs to a part of the batch, in training. */
typedef struct training_block {
    bti_training_guard training;
    const bti_batch_part *rows;
    bti_states *states;
    bti_batch_shard *shard;
} training_block;

static _Thread_local bti_batch_shard *shard_now; /* whose function this thread calls */

static training_block enter_part(const bti_batch_part *rows, bti_batch_shard *shard) {
    training_block before = {bti_training_begin(true), bti_part_set(rows), bti_states_collect(&shard->states),
                             shard_now};
    shard_now = shard;
    return before;
}
static void leave_part(training_block *before) {
    bti_training_end(&before->training);
    bti_part_set(before->rows);
    bti_states_collect(before->states);
    shard_now = before->shard;
}

static bt_status check_outputs(bt_array *const *outputs, int count) {
    for (int i = 0; i < count; i++) {
        if (!outputs[i]) return bti_fail(BT_INVALID_ARGUMENT, "output %d of the function is NULL", i);
        BTI_TRY(bti_fail_with(bti_array_error(outputs[i])));
    }
    return BT_OK;
}

/* What is called for each part. */
typedef struct part_call {
    bt_part_fn *fn;
    void *data;
    bt_array *const *inputs;
    int input_count;
} part_call;

bt_status bti_parts_call(bt_parts *b, int number, bt_part_fn *fn, void *data, bt_array *const *inputs) {
    bti_batch_shard *own = &b->shards[number];
    const bt_part *part = &own->part;
    bool has_all = part->rows == part->all_rows;
    bti_batch_part rows = {part->first_row, part->rows, part->all_rows, has_all ? NULL : &own->means};
    bt_array **outputs = bti_calloc((size_t)b->outputs + 1, sizeof *outputs);
    if (!outputs) return bti_no_memory();
    bti_states_free(&own->states);
    training_block block = enter_part(&rows, own);
    bt_status status = fn(part, inputs, outputs, data);
    leave_part(&block);
    if (status == BT_OK) status = bti_fail_with(own->states.error);
    if (status == BT_OK)
        status = check_outputs(outputs, b->outputs);
    else if (bt_error_status() != status)
        status = bti_fail(status, "%s: the function ended the run", b->call);
    for (int i = 0; i < b->outputs; i++) b->values[i * b->shard_count + number] = outputs[i];
    bti_free(outputs);
    return status;
}

bt_array *bti_rows_of(bt_array *batch, int64_t first, int64_t count) {
    bt_array *rows = NULL;
    BT_ON(bt_device_long_name(bt_device_of(batch))) rows = bt_slice_axis(batch, 0, first, first + count, 1);
    return rows;
}

/* Only the part's rows are moved. */
static bt_status run_shard(bt_parts *b, int number, const part_call *call) {
    const bti_batch_shard *own = &b->shards[number];
    const char *device = bti_replica_name(b, own->part.replica);
    bt_array **rows = bti_alloc((size_t)call->input_count * sizeof *rows);
    if (!rows) return bti_no_memory();
    for (int i = 0; i < call->input_count; i++)
        rows[i] = bti_rows_of(call->inputs[i], own->part.first_row, own->part.rows);
    bt_status status = BT_OK;
    BT_REPLICA(b->strategy, own->part.replica) {
        for (int i = 0; i < call->input_count; i++) rows[i] = bt_to(rows[i], device);
        status = bti_parts_call(b, number, call->fn, call->data, rows);
    }
    bti_free(rows);
    return status;
}

bt_status bti_part_gradients(bt_array *loss, bt_shared *const *parameters, int count, bt_array **grads, bool *flows) {
    bti_batch_shard *shard = shard_now;
    if (!shard || shard->part.rows == shard->part.all_rows)
        return bti_grad_both(loss, parameters, count, NULL, 0, grads, flows);
    BTI_TRY(bti_fail_with(bti_array_error(loss)));
    bt_array *weighted = bt_mul(loss, bt_num(bti_part_weight(&shard->part)));
    return shard->means.own.count ? bti_grad_through_means(shard, weighted, parameters, count, grads, flows)
                                  : bti_grad_both(weighted, parameters, count, NULL, 0, grads, flows);
}

bt_status bt_part_gradients(bt_array *loss, bt_shared *const *parameters, int count, bt_array **grads) {
    BTI_CALL("bt_part_gradients");
    BTI_TRY(bti_check_list(parameters, count, "parameters"));
    if (count && !grads) return bti_fail(BT_INVALID_ARGUMENT, "the list of gradients is NULL");
    return bti_part_gradients(loss, parameters, count, grads, NULL);
}

/* --- cutting ---------------------------------------------------------------------------------------------------------- */

static void add_shard(bt_parts *b, int replica, int64_t rows) {
    int64_t start = 0;
    if (b->shard_count) {
        const bt_part *last = &b->shards[b->shard_count - 1].part;
        start = last->first_row + last->rows;
    }
    b->shards[b->shard_count].part =
        (bt_part){.index = b->shard_count, .replica = replica, .first_row = start, .rows = rows, .all_rows = b->rows};
    b->shard_count++;
}

static void cut_exactly(bt_parts *b) {
    int count = b->rows < BTI_EXACT_SHARDS ? (int)b->rows : BTI_EXACT_SHARDS;
    for (int i = 0; i < count; i++)
        add_shard(b, i * b->strategy->count / BTI_EXACT_SHARDS, b->rows / count + (i < b->rows % count));
}

static void cut_by_shares(bt_parts *b) {
    int64_t counts[BTI_MAX_REPLICAS];
    bti_strategy_rows(b->strategy, b->rows, counts);
    for (int r = 0; r < b->strategy->count; r++)
        if (counts[r]) add_shard(b, r, counts[r]);
}

static bt_status make_shards(bt_parts *b) {
    if (shard_now)
        return bti_fail(BT_FAILED_PRECONDITION, "%s is called for a part of a batch, in the function of another run",
                        b->call);
    b->shards = bti_calloc(b->strategy ? BTI_MAX_REPLICAS : 1, sizeof *b->shards);
    return b->shards ? BT_OK : bti_no_memory();
}

static bt_status cut_batch(bt_parts *b, int64_t rows) {
    b->rows = rows;
    b->shard_count = 0;
    if (!b->strategy)
        add_shard(b, 0, rows);
    else if (b->strategy->exact)
        cut_exactly(b);
    else
        cut_by_shares(b);
    for (int i = 0; i < b->shard_count; i++) b->shards[i].part.count = b->shard_count;
    b->values = bti_calloc((size_t)b->outputs * (size_t)b->shard_count + 1, sizeof(bt_array *));
    return b->values ? BT_OK : bti_no_memory();
}

/* --- speeds ----------------------------------------------------------------------------------------------------------- */

#define PROBE_ROWS 256

/* The seconds that a device takes for some rows, transfers to it included. */
static bt_status time_device(bt_parts *b, const part_call *call, double *seconds) {
    bt_status status = BT_OK;
    uint64_t from = bti_clock_ns();
    BT_SCOPE {
        status = run_shard(b, 0, call);
        if (status == BT_OK) status = bt_eval_all(b->values, b->outputs);
        for (int p = 0; p < b->outputs && status == BT_OK; p++) status = bt_block(b->values[p]);
    }
    *seconds = 1e-9 * (double)(bti_clock_ns() - from);
    return status;
}

/* In the first step over unlike devices: each computes the same rows twice. The second time counts, since programs are compiled by then. */
static bt_status measure_speeds(bt_parts *b, const part_call *call, int64_t rows) {
    double speed[BTI_MAX_REPLICAS], seconds = 0;
    b->rows = rows < PROBE_ROWS ? rows : PROBE_ROWS;
    b->values = bti_calloc((size_t)b->outputs + 1, sizeof(bt_array *));
    bt_status status = b->values ? BT_OK : bti_no_memory();
    for (int r = 0; r < b->strategy->count && status == BT_OK; r++) {
        b->shard_count = 0;
        add_shard(b, r, b->rows);
        b->shards[0].part.count = 1;
        for (int round = 0; round < 2 && status == BT_OK; round++) status = time_device(b, call, &seconds);
        speed[r] = 1 / (seconds > 1e-9 ? seconds : 1e-9);
    }
    bti_free(b->values);
    b->values = NULL;
    return status == BT_OK ? bt_strategy_set_shares(b->strategy, speed, b->strategy->count) : status;
}

/* --- running ---------------------------------------------------------------------------------------------------------- */

static int64_t rows_of(const bt_array *x) { return !bti_array_error(x) && bt_rank(x) ? bt_size(x, 0) : 1; }

static bt_status check_inputs(const bt_parts *b, const part_call *call) {
    BTI_CALL(b->call);
    for (int i = 0; i < call->input_count; i++) {
        const bt_array *x = call->inputs[i];
        BTI_TRY(bti_fail_with(bti_array_error(x)));
        if (bt_rank(x) < 1 || bt_size(x, 0) < 1 || bt_size(x, 0) != bt_size(call->inputs[0], 0))
            return bti_fail(BT_INVALID_ARGUMENT,
                            "input %d has %lld rows and the first one %lld; all must have as many, and at least one", i,
                            (long long)bt_size(x, 0), (long long)bt_size(call->inputs[0], 0));
    }
    return BT_OK;
}

/* The number of a replica's shards before this one. */
static int turn_of(const bt_parts *b, int number) {
    int first = number;
    while (first > 0 && b->shards[first - 1].part.replica == b->shards[number].part.replica) first--;
    return number - first;
}

/* The first shard of each replica, then the second of each: what is recorded first is launched first, and no device is to wait for all the work of the others. */
static bt_status run_in_turns(bt_parts *b, const part_call *call) {
    for (int turn = 0, made = 0; made < b->shard_count; turn++)
        for (int i = 0; i < b->shard_count; i++) {
            if (turn_of(b, i) != turn) continue;
            BTI_TRY(run_shard(b, i, call));
            made++;
        }
    return BT_OK;
}

static bt_status run_on_strategy(bt_parts *b, const part_call *call) {
    BTI_TRY(check_inputs(b, call));
    int64_t rows = bt_size(call->inputs[0], 0);
    if (!b->strategy->exact && bt_strategy_share(b->strategy, 0) == 0) BTI_TRY(measure_speeds(b, call, rows));
    BTI_TRY(cut_batch(b, rows));
    BTI_TRY(run_in_turns(b, call));
    return bti_put_means_in_place(b);
}

bt_status bti_parts_run(bt_parts *b, bt_part_fn *fn, void *data, bt_array *const *inputs, int input_count) {
    const part_call call = {fn, data, inputs, input_count};
    if (!b->strategy) {
        BTI_TRY(bti_parts_begin(b, rows_of(inputs[0])));
        return bti_parts_call(b, 0, fn, data, inputs);
    }
    BTI_TRY(make_shards(b));
    return run_on_strategy(b, &call);
}

bt_status bti_parts_begin(bt_parts *b, int64_t rows) {
    BTI_TRY(make_shards(b));
    return cut_batch(b, rows);
}

static void free_shard(bti_batch_shard *shard) {
    bti_states_free(&shard->states);
    bti_means_free(&shard->means);
    for (size_t i = 0; i < shard->cotangents.count; i++) bti_node_release(shard->cotangents.items[i]);
    for (size_t i = 0; i < shard->own_cotangents.count; i++) bti_node_release(shard->own_cotangents.items[i]);
    bti_vec_free(&shard->cotangents);
    bti_vec_free(&shard->own_cotangents);
    bti_vec_free(&shard->cotangent_means);
}

void bti_parts_end(bt_parts *b) {
    for (int i = 0; b->shards && i < (b->strategy ? BTI_MAX_REPLICAS : 1); i++) free_shard(&b->shards[i]);
    bti_free(b->shards);
    bti_free(b->values);
}

/* --- reducing --------------------------------------------------------------------------------------------------------- */

bt_array *bti_parts_reduce(const bt_parts *b, int output, bt_reduction how) {
    bt_array *const *values = &b->values[output * b->shard_count], *parts[BTI_MAX_REPLICAS];
    if (!b->strategy) return values[0];
    for (int i = 0; i < b->shard_count; i++) {
        const bt_part *part = &b->shards[i].part;
        parts[i] = values[i];
        if (how == BT_REDUCE_MEAN)
            BT_ON(bti_replica_name(b, part->replica)) parts[i] = bt_mul(values[i], bt_num(bti_part_weight(part)));
    }
    return bti_sum_parts(b, parts, 0);
}

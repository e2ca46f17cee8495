/* Steps of the program's own: the public side of parts. */
#include "base/alloc.h"
#include "base/error.h"
#include "dist/batch.h"

static void clear_parts(void *object) {
    bt_parts *b = object;
    for (int i = 0; b->values && i < b->outputs * b->shard_count; i++) bt_release(b->values[i]);
    bti_parts_end(b);
    bt_strategy_release(b->strategy);
}
static bt_parts parts_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class parts_class = {BTI_OWNED_PARTS, sizeof(bt_parts), clear_parts, &parts_without_memory};

static bt_status check_run(const bt_strategy *strategy, bt_part_fn *fn, bt_array *const *inputs, int input_count,
                           int output_count) {
    if (strategy) BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_strategy_run"));
    BTI_CALL("bt_strategy_run");
    if (strategy && strategy->micro_batches)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "bt_pipelined is for bt_train_step and bt_fit; a run needs replicas (bt_mirrored)");
    if (!fn) return bti_fail(BT_INVALID_ARGUMENT, "the function is NULL");
    if (input_count < 1 || output_count < 0)
        return bti_fail(BT_INVALID_ARGUMENT, "%d inputs and %d outputs; a run has at least one input", input_count,
                        output_count);
    return bti_check_list(inputs, input_count, "inputs");
}

/* Its arrays outlive the scope of the run. */
static void own_values(bt_parts *b) {
    for (int i = 0; b->values && i < b->outputs * b->shard_count; i++)
        if (b->values[i]) bt_retain(b->values[i]);
}

bt_parts *bt_strategy_run(bt_strategy *strategy, bt_part_fn *fn, void *data, bt_array *const *inputs, int input_count,
                          int output_count) {
    if (check_run(strategy, fn, inputs, input_count, output_count) != BT_OK) return bti_scope_own(&parts_class, NULL);
    bt_parts *b = bti_owned_new(BTI_OWNED_PARTS, sizeof *b);
    if (!b) {
        (void)!bti_no_memory();
        return bti_scope_own(&parts_class, NULL);
    }
    b->call = "bt_strategy_run";
    b->strategy = bt_strategy_retain(strategy);
    b->outputs = output_count;
    bt_status status = BT_OK;
    BT_SCOPE {
        status = bti_parts_run(b, fn, data, inputs, input_count);
        own_values(b);
    }
    if (status == BT_OK) return bti_scope_own(&parts_class, b);
    bti_error *cause = bti_error_last();
    bt_parts_release(b);
    bti_error_put_back(cause);
    return bti_scope_own(&parts_class, NULL);
}

bt_parts *bt_parts_retain(bt_parts *parts) { return bti_handle_retain(&parts_class, parts, "bt_parts_retain"); }
void bt_parts_release(bt_parts *parts) { bti_handle_release(&parts_class, parts, "bt_parts_release"); }
bt_status bt_parts_status(const bt_parts *parts) { return bti_handle_check(BTI_OWNED_PARTS, parts, "bt_parts_status"); }

/* --- what a run gave -------------------------------------------------------------------------------------------------- */

int bt_parts_count(const bt_parts *parts) {
    return bti_handle_check(BTI_OWNED_PARTS, parts, "bt_parts_count") == BT_OK ? parts->shard_count : 0;
}

static bt_status check_part(const bt_parts *parts, int i, const char *call) {
    BTI_TRY(bti_handle_check(BTI_OWNED_PARTS, parts, call));
    if (i >= 0 && i < parts->shard_count) return BT_OK;
    return bti_fail(BT_OUT_OF_RANGE, "part %d of %d", i, parts->shard_count);
}

static bt_status check_output(const bt_parts *parts, int output, const char *call) {
    BTI_TRY(bti_handle_check(BTI_OWNED_PARTS, parts, call));
    if (output >= 0 && output < parts->outputs) return BT_OK;
    return bti_fail(BT_OUT_OF_RANGE, "output %d of %d", output, parts->outputs);
}

bt_part bt_parts_part(const bt_parts *parts, int i) {
    BTI_CALL("bt_parts_part");
    return check_part(parts, i, "bt_parts_part") == BT_OK ? parts->shards[i].part : (bt_part){0};
}

bt_array *bt_parts_value(const bt_parts *parts, int output, int i) {
    BTI_CALL("bt_parts_value");
    if (check_part(parts, i, "bt_parts_value") != BT_OK || check_output(parts, output, "bt_parts_value") != BT_OK)
        return bti_poison(bti_error_last());
    return bti_array_on(bti_node_of(parts->values[output * parts->shard_count + i]));
}

bt_array *bt_parts_reduce(const bt_parts *parts, bt_reduction how, int output) {
    BTI_PUBLIC("bt_parts_reduce");
    if (check_output(parts, output, "bt_parts_reduce") != BT_OK) BTI_RETURN(bti_poison(bti_error_last()));
    if (how != BT_REDUCE_SUM && how != BT_REDUCE_MEAN)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "reduction %d; parts are reduced by BT_REDUCE_SUM or "
                               "BT_REDUCE_MEAN, and bt_parts_value gives each of them",
                               (int)how));
    bt_array *reduced = bti_parts_reduce(parts, output, how);
    BTI_RETURN(parts->strategy ? reduced : bti_array_on(bti_node_of(reduced)));
}

bt_status bt_parts_update(bt_parts *parts, bt_optimizer *optimizer, bt_shared *const *parameters, int count,
                          int first_output) {
    BTI_TRY(bti_handle_check(BTI_OWNED_PARTS, parts, "bt_parts_update"));
    BTI_TRY(bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_parts_update"));
    BTI_TRY(bti_check_list(parameters, count, "parameters"));
    for (int i = 0; i < count; i++) BTI_TRY(bti_handle_check(BTI_OWNED_SHARED, parameters[i], "bt_parts_update"));
    if (first_output < 0 || first_output > parts->outputs || count > parts->outputs - first_output)
        return bti_fail(BT_OUT_OF_RANGE,
                        "bt_parts_update: %d outputs from output %d on are to be gradients, there are %d outputs",
                        count, first_output, parts->outputs);
    bt_status status = BT_OK;
    BT_SCOPE
        status = bti_parts_update(parts, optimizer, parameters, count, first_output, NULL);
    return status;
}

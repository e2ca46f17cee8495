/* One training step over mirrored replicas: each gets a share of the batch and computes gradients; every replica gets their sum and makes
 * the same update. */
#include "array/eval.h"
#include "array/move.h"
#include "base/alloc.h"
#include "device/device.h"
#include "dist/forward.h"
#include "dist/pipeline.h"
#include "nn/optimizer.h"

/* One device: that of the model. */
static void bring_to_model(const bti_train *s, bt_array **xy) {
    bti_layer_ends ends = bti_layer_ends_of(s->model);
    if (!ends.any) return;
    xy[0] = bti_bring(xy[0], ends.first);
    xy[1] = bti_bring(xy[1], bti_output_device(s, ends, xy[0]));
}

/* outputs[]: the mean loss of the part's rows, and the gradients of its share of the whole one. */
static bt_status record_part(const bt_part *part, bt_array *const *xy, bt_array **outputs, void *step) {
    const bti_train *s = step;
    outputs[0] = bti_record_loss(s, xy[0], xy[1]);
    return bti_record_gradients(s, part, outputs[0], outputs + 1);
}

static bt_status check_rows(bt_array *x, bt_array *y) {
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    BTI_TRY(bti_fail_with(bti_array_error(y)));
    if (bt_rank(x) < 1 || bt_rank(y) < 1 || bt_size(x, 0) != bt_size(y, 0) || bt_size(x, 0) < 1)
        return bti_fail(BT_INVALID_ARGUMENT, "x has %lld rows and y %lld; they must be as many, and at least one",
                        (long long)bt_size(x, 0), (long long)bt_size(y, 0));
    return BT_OK;
}

static bt_status update_model(bti_train *s, bt_parts *parts) {
    bt_layer *hooked = bti_has_gradient_hooks(s->model) ? s->model : NULL;
    return bti_parts_update(parts, s->optimizer, s->parameters, s->parameter_count, 1, hooked);
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
static bt_status run_pipelined(bti_train *s, bt_parts *parts, bt_array *x, bt_array *y, bt_array **loss) {
    int micro_batches = parts->strategy->micro_batches;
    BTI_TRY(check_rows(x, y));
    parts->strategy = NULL;
    BTI_TRY(bti_pipeline_run(s, parts, micro_batches, x, y));
    *loss = bti_parts_reduce(parts, 0, BT_REDUCE_MEAN);
    BTI_TRY(update_model(s, parts));
    submit_update();
    return BT_OK;
}

static bt_status record_train_step(bti_train *s, bt_parts *parts, bt_array *x, bt_array *y, bt_array **loss) {
    bt_array *xy[2] = {x, y};
    if (parts->strategy && parts->strategy->micro_batches) return run_pipelined(s, parts, x, y, loss);
    if (parts->strategy)
        BTI_TRY(check_rows(x, y));
    else
        bring_to_model(s, xy);
    if (s->optimizer->numbers.loss_scale > 0) /* a loss that is scaled needs states */
        BTI_TRY(bti_strategy_place(parts->strategy, s->optimizer, s->parameters, s->parameter_count));
    BTI_TRY(bti_parts_run(parts, record_part, s, xy, 2));
    *loss = bti_parts_reduce(parts, 0, BT_REDUCE_MEAN);
    BTI_TRY(bti_fail_with(bti_array_error(*loss)));
    return update_model(s, parts);
}

static bt_status check_step_objects(const bt_strategy *strategy, const bt_layer *model, const bt_optimizer *optimizer) {
    if (strategy) BTI_TRY(bti_handle_check(BTI_OWNED_STRATEGY, strategy, "bt_train_step"));
    if (!model) return bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the model is NULL");
    BTI_TRY(bti_handle_check(BTI_OWNED_LAYER, model, "bt_train_step"));
    return bti_handle_check(BTI_OWNED_OPTIMIZER, optimizer, "bt_train_step");
}

bt_array *bt_train_step(bt_strategy *strategy, bt_layer *model, bt_optimizer *optimizer, bt_model_loss *loss,
                        void *data, bt_array *x, bt_array *y) {
    bt_status usable = check_step_objects(strategy, model, optimizer);
    if (usable == BT_OK && !loss) usable = bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the loss is NULL");
    if (usable != BT_OK) return bti_poison(bti_error_last());
    bti_train s = {model, optimizer, loss, data, .parameter_count = bt_parameters(model, NULL, 0)};
    bt_array *total = NULL;
    BT_SCOPE {
        bt_parts parts = {.call = "bt_train_step", .strategy = strategy};
        s.parameters = bti_alloc((size_t)s.parameter_count * sizeof *s.parameters);
        bool checks = atomic_load(&optimizer->gradients) != BTI_GRADIENTS_KNOWN;
        if (checks) s.flows = bti_calloc((size_t)s.parameter_count + 1, sizeof *s.flows);
        bt_status status = s.parameters && (s.flows || !checks) ? BT_OK : bti_no_memory();
        if (status == BT_OK) {
            s.parameter_count = bti_thawed_parameters(model, s.parameters, s.parameter_count);
            parts.outputs = 1 + s.parameter_count;
            status = record_train_step(&s, &parts, x, y, &total);
        }
        total = bt_keep(status == BT_OK ? total : bti_poison(bti_error_last()));
        bti_parts_end(&parts);
        bti_free(s.parameters);
        bti_free(s.flows);
    }
    return total;
}

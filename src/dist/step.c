/* One training step over mirrored replicas: each gets a share of the batch and computes gradients; every replica gets their sum and makes
 * the same update. */
#include "array/move.h"
#include "base/alloc.h"
#include "device/device.h"
#include "dist/batch.h"
#include "nn/optimizer.h"

typedef struct bti_train {
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_model_loss *loss;
    void *data;
    bt_shared **parameters; /* that the step updates */
    int parameter_count;
} bti_train;

/* The device of the model's output. Functions among the layers may move it, so a forward pass is recorded, and not run. */
static int output_device(const bti_train *s, bti_layer_ends ends, bt_array *x) {
    int device = ends.last;
    bool quiet = bti_errors_quiet(true);
    bti_error *before = bti_error_last();
    bti_states states = {0}; /* which nobody sets */
    BT_SCOPE {
        bti_states *collected = bti_states_collect(&states);
        bt_device *found = NULL;
        BT_TRAINING(true) found = ends.several ? bt_device_of(bt_apply(s->model, x)) : NULL;
        bti_states_collect(collected);
        if (found) device = bti_device_id(found);
    }
    bti_states_free(&states);
    bti_error_put_back(before);
    bti_errors_quiet(quiet);
    return device;
}

/* One device: that of the model. */
static void bring_to_model(const bti_train *s, bt_array **xy) {
    bti_layer_ends ends = bti_layer_ends_of(s->model);
    if (!ends.any) return;
    xy[0] = bti_bring(xy[0], ends.first);
    xy[1] = bti_bring(xy[1], output_device(s, ends, xy[0]));
}

/* outputs[]: the mean loss of the part's rows, and the gradients of its share of the whole one. */
static bt_status record_part(const bt_part *part, bt_array *const *xy, bt_array **outputs, void *step) {
    const bti_train *s = step;
    (void)part;
    outputs[0] = s->loss(s->model, xy[0], xy[1], s->data);
    if (!outputs[0]) return bti_fail(BT_INVALID_ARGUMENT, "bt_train_step: the loss gave NULL");
    bt_array *scaled = bti_optimizer_scaled(s->optimizer, s->parameters, s->parameter_count, outputs[0]);
    return bt_part_gradients(scaled, s->parameters, s->parameter_count, outputs + 1);
}

static bt_status check_rows(bt_array *x, bt_array *y) {
    BTI_TRY(bti_fail_with(bti_array_error(x)));
    BTI_TRY(bti_fail_with(bti_array_error(y)));
    if (bt_rank(x) < 1 || bt_rank(y) < 1 || bt_size(x, 0) != bt_size(y, 0) || bt_size(x, 0) < 1)
        return bti_fail(BT_INVALID_ARGUMENT, "x has %lld rows and y %lld; they must be as many, and at least one",
                        (long long)bt_size(x, 0), (long long)bt_size(y, 0));
    return BT_OK;
}

static bt_status record_train_step(bti_train *s, bt_parts *parts, bt_array *x, bt_array *y, bt_array **loss) {
    bt_array *xy[2] = {x, y};
    if (parts->strategy)
        BTI_TRY(check_rows(x, y));
    else
        bring_to_model(s, xy);
    if (s->optimizer->numbers.loss_scale > 0) /* a loss that is scaled needs states */
        BTI_TRY(bti_strategy_place(parts->strategy, s->optimizer, s->parameters, s->parameter_count));
    BTI_TRY(bti_parts_run(parts, record_part, s, xy, 2));
    *loss = bti_parts_reduce(parts, 0, BT_REDUCE_MEAN);
    BTI_TRY(bti_fail_with(bti_array_error(*loss)));
    bt_layer *hooked = bti_has_gradient_hooks(s->model) ? s->model : NULL;
    return bti_parts_update(parts, s->optimizer, s->parameters, s->parameter_count, 1, hooked);
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
        bt_status status = s.parameters ? BT_OK : bti_no_memory();
        if (status == BT_OK) {
            keep_thawed(&s);
            parts.outputs = 1 + s.parameter_count;
            status = record_train_step(&s, &parts, x, y, &total);
        }
        total = bt_keep(status == BT_OK ? total : bti_poison(bti_error_last()));
        bti_parts_end(&parts);
        bti_free(s.parameters);
    }
    return total;
}

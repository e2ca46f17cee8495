#include "dist/forward.h"

#include "base/error.h"
#include "device/device.h"
#include "dist/flows.h"
#include "nn/optimizer.h"

/* Functions among the layers may move the output, so a forward pass is recorded, and not run. */
int bti_output_device(const bti_train *s, bti_layer_ends ends, bt_array *x) {
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

bt_array *bti_record_loss(const bti_train *s, bt_array *x, bt_array *y) {
    bt_array *loss = s->loss(s->model, x, y, s->data);
    return loss ? loss : bti_poisonf(BT_INVALID_ARGUMENT, "bt_train_step: the loss gave NULL");
}

bt_status bti_record_gradients(const bti_train *s, const bt_part *part, bt_array *loss, bt_array **grads) {
    bool *flows = part->index ? NULL : s->flows;
    bt_array *scaled = bti_optimizer_scaled(s->optimizer, s->parameters, s->parameter_count, loss);
    BTI_TRY(bti_part_gradients(scaled, s->parameters, s->parameter_count, grads, flows));
    return flows ? bti_check_flows(s->optimizer, s->model, s->parameters, flows, s->parameter_count, loss) : BT_OK;
}

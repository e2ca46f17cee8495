/* One part of a batch: its rows, and the forward pass over them. */
#include "base/error.h"
#include "device/device.h"
#include "dist/batch.h"
#include "ops/primitive.h"

/* What is recorded between the two belongs to a part of the batch, in training. */
typedef struct training_block {
    bti_training_guard training;
    const bti_batch_part *part;
    bti_states *states;
} training_block;

static training_block enter_part(const bti_batch_part *part, bti_states *states) {
    return (training_block){bti_training_begin(true), bti_part_set(part), bti_states_collect(states)};
}
static void leave_part(training_block *before) {
    bti_training_end(&before->training);
    bti_part_set(before->part);
    bti_states_collect(before->states);
}

bt_array *bti_record_loss(bti_train *s, bti_batch_shard *own, bt_array *x, bt_array *y, double weight) {
    bti_batch_part part = {own->first_row, own->rows, s->rows, own->rows < s->rows ? &own->means : NULL};
    bti_states_free(&own->states);
    __attribute__((cleanup(leave_part))) training_block block = enter_part(&part, &own->states);
    bt_array *loss = s->loss(s->model, x, y, s->data);
    return loss ? bt_mul(loss, bt_num(weight)) : bti_poisonf(BT_INVALID_ARGUMENT, "bt_train_step: the loss gave NULL");
}

/* Functions among the layers may move the output, so a forward pass is recorded, and not run. */
int bti_output_device(const bti_train *s, bti_layer_ends ends, bt_array *x) {
    int device = ends.last;
    bool quiet = bti_errors_quiet(true);
    bti_error *before = bti_error_last();
    bti_states states = {0}; /* which nobody sets */
    BT_SCOPE {
        bti_batch_part part = {0, s->rows, s->rows, NULL};
        __attribute__((cleanup(leave_part))) training_block block = enter_part(&part, &states);
        bt_device *found = ends.several ? bt_device_of(bt_apply(s->model, x)) : NULL;
        if (found) device = bti_device_id(found);
    }
    bti_states_free(&states);
    bti_error_put_back(before);
    bti_errors_quiet(quiet);
    return device;
}

bt_array *bti_rows_of(bt_array *batch, int64_t first, int64_t count) {
    bt_array *rows = NULL;
    BT_ON(bt_device_long_name(bt_device_of(batch))) rows = bt_slice_axis(batch, 0, first, first + count, 1);
    return rows;
}

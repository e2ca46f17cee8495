#include "exec/collective.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/buffer.h"
#include "exec/queue.h"

#define ALIGNED_BYTES 64 /* where an array begins among the others */

typedef struct part {
    bti_buffer *from; /* retained */
    size_t from_byte, to_byte, bytes;
} part;

typedef struct running running;
typedef struct member {
    bti_queue_entry entry;
    running *fold;
    uint64_t number; /* on its queue, of the last entry before the fold */
} member;

struct running {
    atomic_int tasks_left;
    int device_count;
    int devices[BTI_MAX_DEVICES];
    bti_op op;
    bt_dtype dtype;
    size_t elements, array_count;
    bti_place place;
    uint64_t number; /* of the fold, on the first device's queue */
    bti_buffer *outputs[BTI_MAX_DEVICES];
    part *parts; /* [array][device] */
    member members[BTI_MAX_DEVICES];
};

static void release(running *r) {
    for (int d = 0; d < r->device_count; d++) bti_buffer_release(r->outputs[d]);
    for (size_t p = 0; r->parts && p < r->array_count * (size_t)r->device_count; p++)
        bti_buffer_release(r->parts[p].from);
    bti_free(r->parts);
    bti_free(r);
}

static void task_done(running *r) {
    if (atomic_fetch_sub(&r->tasks_left, 1) == 1) release(r);
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static void fail(running *r, bti_error *error) {
    for (int d = 0; d < r->device_count; d++) bti_buffer_fail(r->outputs[d], error);
}

static bool inputs_failed(running *r) {
    for (size_t p = 0; p < r->array_count * (size_t)r->device_count; p++) {
        bti_error *error = bti_buffer_error(r->parts[p].from);
        if (error) fail(r, error);
        if (error) return true;
    }
    return false;
}

static bt_status gather(const running *r) {
    for (size_t p = 0; p < r->array_count * (size_t)r->device_count; p++) {
        const part *each = &r->parts[p];
        size_t d = p % (size_t)r->device_count;
        BTI_TRY(bti_device_copy(r->devices[d], r->outputs[d]->address + each->to_byte, r->devices[d],
                                each->from->address + each->from_byte, each->bytes));
    }
    return BT_OK;
}

static bt_status fold(const running *r) {
    uint64_t addresses[BTI_MAX_DEVICES];
    for (int d = 0; d < r->device_count; d++) addresses[d] = r->outputs[d]->address;
    BTI_TRY(gather(r));
    BTI_TRY(bti_device_all_reduce(r->devices, r->device_count, addresses, r->dtype, r->op, r->elements));
    for (int d = 0; d < r->device_count; d++) BTI_TRY(bti_device_finish(r->devices[d]));
    return BT_OK;
}

static bool run_fold(bti_queue_entry *entry, bool may_complete) {
    (void)may_complete;
    running *r = ((member *)entry)->fold;
    for (int d = 1; d < r->device_count; d++) bti_run_queue_wait(r->devices[d], r->members[d].number);
    if (!inputs_failed(r)) {
        bti_call_set_place(r->place);
        bt_status status = fold(r);
        bti_error *error = status == BT_OK ? NULL : bti_error_last();
        if (status != BT_OK) fail(r, error);
        bti_error_release(error);
    }
    task_done(r);
    return true;
}

static bool wait_for_fold(bti_queue_entry *entry, bool may_complete) {
    (void)may_complete;
    running *r = ((member *)entry)->fold;
    bti_run_queue_wait(r->devices[0], r->number);
    task_done(r);
    return true;
}

/* --- submitting ---------------------------------------------------------------------------------------------------- */

static void place_arrays(running *r, const bti_fold *wanted, int64_t *offsets) {
    size_t size = bt_dtype_size(r->dtype), step = ALIGNED_BYTES / size, at = 0;
    for (size_t a = 0; a < wanted->array_count; a++) {
        offsets[a] = (int64_t)at;
        for (int d = 0; d < wanted->device_count; d++) {
            const bti_node *node = wanted->inputs[a * (size_t)wanted->device_count + (size_t)d];
            r->parts[a * (size_t)wanted->device_count + (size_t)d] =
                (part){bti_buffer_retain(node->buffer), (size_t)node->layout.offset * size, at * size,
                       (size_t)wanted->elements[a] * size};
        }
        r->elements = at + (size_t)wanted->elements[a];
        at = (r->elements + step - 1) / step * step;
    }
}

static bt_status reserve(running *r, const bti_fold *wanted) {
    for (int d = 0; d < r->device_count; d++) {
        r->outputs[d] = bti_buffer_new(r->devices[d], r->elements * bt_dtype_size(r->dtype), wanted->inputs[(size_t)d]);
        if (!r->outputs[d]) return bti_no_memory();
        BTI_TRY(bti_buffer_reserve(r->outputs[d], false));
    }
    return BT_OK;
}

static bt_status make_ready(running *r, const bti_fold *wanted, int64_t *offsets) {
    memcpy(r->devices, wanted->devices, (size_t)wanted->device_count * sizeof *r->devices);
    r->device_count = wanted->device_count;
    r->array_count = wanted->array_count;
    r->op = wanted->op;
    r->dtype = wanted->dtype;
    r->place = wanted->inputs[0]->place;
    r->parts = bti_calloc(wanted->array_count * (size_t)wanted->device_count, sizeof *r->parts);
    if (!r->parts) return bti_no_memory();
    place_arrays(r, wanted, offsets);
    return reserve(r, wanted);
}

static void submit(running *r) {
    int count = r->device_count, devices[BTI_MAX_DEVICES]; /* it may be over and gone when the last one is submitted */
    memcpy(devices, r->devices, sizeof devices);
    atomic_init(&r->tasks_left, count);
    bti_run_queues_lock();
    for (int d = 0; d < count; d++) {
        r->members[d].fold = r;
        r->members[d].number = bti_run_queue_submitted(devices[d]);
        r->members[d].entry = (bti_queue_entry){.run = d ? wait_for_fold : run_fold, .alone = true};
        r->outputs[d]->ready = r->members[d].number + 1;
    }
    r->number = r->members[0].number + 1;
    for (int d = 0; d < count; d++) bti_run_queue_submit(devices[d], &r->members[d].entry);
    bti_run_queues_unlock();
    for (int d = 0; d < count; d++) bti_run_queue_kick(devices[d]);
}

bt_status bti_exec_fold(const bti_fold *wanted, bti_buffer **outputs, int64_t *offsets) {
    BTI_TRY(bti_device_can_all_reduce(wanted->devices, wanted->device_count, wanted->dtype, wanted->op));
    running *r = bti_calloc(1, sizeof *r);
    if (!r) return bti_no_memory();
    bt_status status = make_ready(r, wanted, offsets);
    if (status != BT_OK) {
        release(r);
        return status;
    }
    for (int d = 0; d < r->device_count; d++) {
        outputs[d] = bti_buffer_retain(r->outputs[d]);
        bti_buffer_list(outputs[d]);
    }
    submit(r);
    return BT_OK;
}

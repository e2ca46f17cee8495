/* Arrays folded over several devices by their driver, in one call for all of them.
 *
 * A fold has one participant per device, and each device its queue. How they are brought together:
 *   - One task, the fold, goes to the queue of the first device. When it runs it waits until each other queue has completed what
 *     was submitted before it, and then calls the driver for all devices at once.
 *   - Behind it, each other queue gets a task that waits for the fold. So that queue stands still while the fold runs, nothing else
 *     is launched on any of the devices, and whatever comes later on them finds the results.
 * Tasks wait only for tasks submitted before them (queue.h), so none wait in a circle; all are submitted under one lock, so two folds
 * come in the same order on all queues.
 *
 * The host waits before the call and after it, as for copies between devices: so errors are found before
 * other devices are blocked (a library's call waits for ever for a device that is lost), and a failure is the failure of all results: none keeps a sum that
 * the others lack. */
#ifndef BTI_EXEC_COLLECTIVE_H
#define BTI_EXEC_COLLECTIVE_H

#include "exec/exec.h"

typedef struct bti_fold {
    int device_count;
    const int *devices;
    bti_op op; /* sum, prod, max, min */
    bt_dtype dtype;
    size_t array_count;
    const int64_t *elements; /* [array] */
    /* [array][device]: dense, of that device. Nodes stay as they are; inputs may be freed after the call. */
    bti_node *const *inputs;
} bti_fold;

/* Enqueues it. outputs[device]: one buffer (yours) with all folded arrays; offsets[array]: where in it each begins, in elements. All
 * or nothing: UNIMPLEMENTED where the driver cannot, RESOURCE_EXHAUSTED where memory is short. Under the graph lock. */
bt_status bti_exec_fold(const bti_fold *fold, bti_buffer **outputs, int64_t *offsets);

#endif

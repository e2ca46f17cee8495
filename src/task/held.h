/* What a handle holds in both engines of this machine, the program's and the worker's: a hold of an object. */
#ifndef BTI_TASK_HELD_H
#define BTI_TASK_HELD_H

#include "task/object.h"
#include "task/options.h"
#include "task/process.h"

static inline bool bti_held_is_done(void *held) {
    return atomic_load(&bti_held_object(held)->state) != BTI_OBJECT_PENDING;
}

static inline bt_failure bti_held_failure(void *held) {
    const bti_object *object = bti_held_object(held);
    return atomic_load(&object->state) == BTI_OBJECT_FAILED ? (bt_failure)object->failure : BT_FAILURE_NONE;
}

static inline bt_status bti_held_status(void *held) {
    const bti_object *object = bti_held_object(held);
    return atomic_load(&object->state) == BTI_OBJECT_FAILED ? bti_object_failure(object) : BT_OK;
}

static inline uint64_t bti_held_id(const void *held) {
    return bti_object_id(bti_process_now.state, bti_held_object(held));
}

/* The amount of resource r. A worker reads it without the lock, so it may be a moment old. */
static inline double bti_machine_amount(const bti_state *state, int r, bool only_free) {
    int64_t units = (only_free ? state->machine.free : state->machine.total).of[r];
    return bti_amount(units > 0 ? units : 0);
}

#endif

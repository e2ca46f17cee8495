/* Handles of this process: references, actors, groups. Each holds an object of the arena, or is poisoned. */
#ifndef BTI_TASK_REF_H
#define BTI_TASK_REF_H

#include "task/process.h"

struct bt_ref {
    atomic_uint refs;
    uint64_t runtime; /* bti_process_now.runtime when it was made: another one does not know it */
    bti_hold *hold;   /* NULL: poisoned */
    bti_error *error;
};
struct bt_actor {
    bt_ref ref;
};
struct bt_group {
    bt_ref ref;
};

/* A handle of the innermost scope, that takes both over; NULL, with the cause in the error record, when host memory is short. */
void *bti_handle_new(bti_hold *hold, bti_error *error);
/* One that is poisoned with what this thread's error record says. */
void *bti_handle_poisoned(void);
/* Its object; NULL with its cause in the error record. `what`: for a NULL handle. */
bti_object *bti_handle_object(const bt_ref *handle, const char *what);
/* FAILED_PRECONDITION without a runtime. */
bt_status bti_runtime_needed(bti_state **state);

#endif

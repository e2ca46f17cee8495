/* Arrays that lie in the store: an object stays where it is as long as a process has one. */
#ifndef BTI_TASK_LOAN_H
#define BTI_TASK_LOAN_H

#include "task/state.h"

/* How this process takes another hold of an object that it may use (`pinned`: its value stays in memory), and how it gives it back. Without
 * the lock. NULL with the cause in the error record. */
typedef struct bti_lender {
    bti_hold *(*hold)(bti_object *object, bool pinned);
    void (*release)(bti_hold *hold);
} bti_lender;

/* An array on the bytes of a value of the object `owner`: in place if it is large, else a copy. owner NULL: always a copy. The owner's
 * value is in memory as long as a hold of this process has it pinned, or, for an argument, as long as the call runs. The lender is static. */
bt_array *bti_array_lend(const bti_lender *lender, void *owner, bool is_argument, const void *data, uint64_t bytes,
                         bt_dtype dtype, bt_shape shape);
/* In a worker, at the end of a call: takes holds for arrays that still lie in its arguments. */
void bti_loans_keep(const bti_task_record *task);

#endif

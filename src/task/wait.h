/* Waiting for objects, in the program. */
#ifndef BTI_TASK_WAIT_H
#define BTI_TASK_WAIT_H

#include "task/state.h"

/* The caller holds the objects. Waits until `wanted` of them are done or the time has come (0: no limit). False with the cause in the error
 * record: the runtime has ended, the wait would never end, or no record is left. */
bool bti_wait_for(bti_state *state, bti_object *const *objects, int count, int wanted, uint64_t until_ns);

#endif

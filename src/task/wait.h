/* Waiting for objects, in the program. */
#ifndef BTI_TASK_WAIT_H
#define BTI_TASK_WAIT_H

#include "task/state.h"

/* With a hold on the objects. Until `wanted` of them are done or the time has come; false with the cause in the error record: the runtime is gone,
 * waiting would never end, or no record is left. A task that waits lends its CPUs. */
bool bti_wait_for(bti_state *state, bti_object *const *objects, int count, int wanted, uint64_t until_ns);

#endif

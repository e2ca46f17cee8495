/* Deadlocks: one process, the nest, looks for them.
 *
 * Nothing goes on by itself when no process runs what a user wrote (all its threads wait for objects or for room, without a limit), none starts or
 * ends, no deadline and no wait with a limit is pending, and no GPU is being freed. Then one of those that wait is told: the one whose wait began
 * last, in a worker if there is one; what it does then may free the others. */
#ifndef BTI_TASK_DEADLOCK_H
#define BTI_TASK_DEADLOCK_H

#include "task/state.h"

/* In the nest, without the lock: a look, which tells one who waits for ever, if it was the same at the look before. `watched`: GPUs are being freed. True: it
 * told one, and others may be stuck too. */
bool bti_deadlock_look(bti_state *state, bool watched);

#endif

/* Deadlocks: one process, the nest, looks for them.
 *
 * Nothing goes on by itself when no process runs what a user wrote (all its threads wait for objects or for room, without a limit), none starts or
 * ends, no deadline and no wait with a limit is pending, and no GPU is being freed. Then one wait fails: the one that began
 * last, in a worker if there is one. What its thread does then may free the others. */
#ifndef BTI_TASK_DEADLOCK_H
#define BTI_TASK_DEADLOCK_H

#include "task/state.h"

/* In the nest, without the lock: one wait that would never end fails, if the previous look found the same state. `watched`: GPUs are being freed. True:
 * one failed, and others may be stuck too. */
bool bti_deadlock_look(bti_state *state, bool watched);

#endif

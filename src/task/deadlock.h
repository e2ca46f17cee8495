/* Deadlocks: one process, the nest, looks for them.
 *
 * Nothing goes on by itself when no process runs what a user wrote (all its threads wait for objects or for room, without a limit), none starts or
 * ends, no deadline and no wait with a limit is pending, and no GPU is being freed. Then one of those that wait is told: the one whose wait began
 * last, in a worker if there is one; what it does then may free the others. */
#ifndef BTI_TASK_DEADLOCK_H
#define BTI_TASK_DEADLOCK_H

#include "task/object.h"

/* With the lock. Nobody but the caller runs, starts or ends, so nothing will be let go of. */
bool bti_is_quiet(const bti_state *state);
/* With the lock. Who holds values that are in memory, and what of them is in use. */
const char *bti_store_holders(const bti_state *state, char *text, size_t bytes);

/* In the nest, without the lock: a look, which tells one who waits for ever, if it was the same at the look before. `watched`: GPUs are being freed. True: it
 * told one, and others may be stuck too. */
bool bti_deadlock_look(bti_state *state, bool watched);

#endif

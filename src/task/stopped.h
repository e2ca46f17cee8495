/* In the nest: processes of the runtime that were stopped (SIGSTOP) and hold up others. Those that have nothing of the user's to lose are ended
 * and replaced. */
#ifndef BTI_TASK_STOPPED_H
#define BTI_TASK_STOPPED_H

#include "task/state.h"

/* At regular times, without the lock. While the program is stopped the nest reads the mailboxes. The mover, workers that have not begun what they
 * were given, and workers that only have to exit, are ended when they are stopped. */
void bti_stopped_look(bti_state *state);
/* This process waits for the lock: a child that is stopped and has it is ended. */
void bti_stopped_owner(const bti_arena *arena);

#endif

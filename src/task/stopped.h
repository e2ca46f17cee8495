/* In the nest: processes of the runtime that were stopped (SIGSTOP) and hold up others. Those that run no user's function are ended and
 * replaced. */
#ifndef BTI_TASK_STOPPED_H
#define BTI_TASK_STOPPED_H

#include "task/state.h"

/* At regular times, without the lock. While the program is stopped, the nest reads the mailboxes. A stopped process is ended if it is the
 * mover, a worker that has not begun its calls, or a worker that only has to exit. */
void bti_stopped_check(bti_state *state);
/* While this process waits for the lock: ends the child that holds it and is stopped. */
void bti_stopped_end_owner(const bti_arena *arena);

#endif

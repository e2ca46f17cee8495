/* The nest: the parent of all workers. */
#ifndef BTI_TASK_NEST_H
#define BTI_TASK_NEST_H

#include "task/state.h"

/* The nest itself: forks workers, reports those that died, and ends with the program. Runs in a process of its own with one thread. `pipe`
 * closes with the program. Never returns. */
_Noreturn void bti_nest_run(bti_state *state, int pipe);

#endif

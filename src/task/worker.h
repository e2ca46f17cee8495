/* The life of a worker: takes calls, runs them, gives what they return. */
#ifndef BTI_TASK_WORKER_H
#define BTI_TASK_WORKER_H

#include "task/state.h"

/* In a process that the nest has forked for it. */
_Noreturn void bti_worker_run(bti_state *state, bti_client *me);

#endif

/* Gives tasks whose turn it is (fair.h) to workers. All with the lock. */
#ifndef BTI_TASK_DISPATCH_H
#define BTI_TASK_DISPATCH_H

#include "task/state.h"
#include "task/wake.h"

/* Groups that fit get their resources; tasks that can run are given to workers: idle ones, else new ones that the nest forks. */
void bti_dispatch(bti_state *state, bti_wakes *wakes);
/* What the nest does now and then: dispatches when the time for it has come (fair.h). When to call it again; 0: never. */
uint64_t bti_dispatch_due(bti_state *state, uint64_t now_ns, bti_wakes *wakes);
/* How many calls run at once, and how many processes there are, at most: `max_processes` of bt_runtime_options, what the system allows.
 * Before there is a second process. */
bt_status bti_processes_limit(bti_state *state, int max_processes);
/* Another call may run beside those that do. */
bool bti_has_turns(const bti_state *state);

/* The next call for a worker that has none: false when none fits or the first is not for it. */
bool bti_give_next(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* A worker has few calls ahead: it is given more that take what its first one takes, as long as it would be their turn. */
void bti_give_ahead(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* The call of a worker with GPUs has ended, and is its task still. If the worker may run more of that function (max_calls), and one that takes
 * the same is next, that one gets the same GPUs, and what has ended is gone. */
bool bti_give_again(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* Counts the call of a worker without GPUs that has ended: whether it was the last that the worker may run. */
bool bti_was_last_call(bti_state *state, bti_client *worker);
/* A worker without a task waits for one; no longer. */
void bti_client_rest(bti_state *state, bti_client *worker);
void bti_client_unrest(bti_state *state, bti_client *worker);

#endif

/* Gives tasks whose turn it is (fair.h) to workers. All with the lock. */
#ifndef BTI_TASK_DISPATCH_H
#define BTI_TASK_DISPATCH_H

#include "task/state.h"
#include "task/wake.h"

/* Groups that fit get their resources; tasks that can run are given to workers: idle ones, else new ones that the nest forks. */
void bti_dispatch(bti_state *state, bti_wakes *wakes);
/* Called by the nest: dispatches if a time that fair.h sets has come. Returns when to call it again; 0: never. */
uint64_t bti_dispatch_due(bti_state *state, uint64_t now_ns, bti_wakes *wakes);
/* How many calls run at once, and how many processes there are, at most: `max_processes` of bt_runtime_options, what the system allows.
 * Before there is a second process. */
bt_status bti_processes_limit(bti_state *state, int max_processes);
/* Another call may run beside those that do. */
bool bti_has_turns(const bti_state *state);

/* Gives the next call to a worker that has none. False: no call fits, or the first one needs another worker. */
bool bti_give_next(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* For a worker with few calls ahead: gives it more calls that take the same resources as its first one, as long as it is their turn. */
void bti_give_ahead(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* The call of a worker with GPUs has ended, and its record is still the worker's. If the worker may run more calls of that function (max_calls) and
 * the next call takes the same resources, the worker is given that call with the same GPUs, and the record of the old call is removed. */
bool bti_give_again(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* Counts a call of a worker without GPUs that has ended. Returns whether it was the last one that the worker may run. */
bool bti_was_last_call(bti_state *state, bti_client *worker);
/* Adds a worker that has no call to the list of idle workers; removes it from that list, if it is there. */
void bti_idle_add(bti_state *state, bti_client *worker);
void bti_idle_remove(bti_state *state, bti_client *worker);

#endif

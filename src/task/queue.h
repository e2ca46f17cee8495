/* Tasks that wait, by what they take; who runs next and where. All with the lock. */
#ifndef BTI_TASK_QUEUE_H
#define BTI_TASK_QUEUE_H

#include "task/supply.h"
#include "task/wake.h"

/* --- queue.c --- */
/* Before there is a second process. */
bt_status bti_queues_open(bti_state *state);
/* The queue of tasks that take this from a group's bundle (NULL: from the machine); NULL when there are too many. It stays until the next
 * call of this function that finds it unused. */
bti_queue *bti_queue_of(bti_state *state, const bti_amounts *amounts, bti_group_record *group, int bundle);
/* O(log n). Calls that were given ahead and come after it are queued again. */
void bti_queue_add(bti_state *state, bti_task_record *task);
/* One of those. */
void bti_queue_add_back(bti_state *state, bti_task_record *task);
/* Takes the first task of a queue that has one. */
bti_task_record *bti_queue_take(bti_state *state, bti_queue *queue);
/* Ends first tasks that are not to run: cancelled ones, all of a group that was released. True: there were some. */
bool bti_queue_clean(bti_state *state, bti_queue *queue, bti_wakes *wakes);
/* Nobody uses it. */
void bti_queue_free(bti_state *state, bti_queue *queue);

/* --- dispatch.c --- */
/* Groups that fit get their resources; tasks that can run are given to workers: idle ones, else new ones that the nest forks. */
void bti_dispatch(bti_state *state, bti_wakes *wakes);
/* The nest is to dispatch at a time. */
void bti_dispatch_at(bti_state *state, uint64_t at_ns, bti_wakes *wakes);
/* How many calls run at once, and how many processes there are, at most: `max_processes` of bt_runtime_options, what the system allows.
 * Before there is a second process. */
bt_status bti_processes_limit(bti_state *state, int max_processes);
/* Another call may run beside those that do. */
bool bti_has_turns(const bti_state *state);
/* In the nest: a worker's process could not be started. Its task waits again, and the worker is gone. */
void bti_worker_not_started(bti_state *state, bti_client *worker, int error, uint64_t now_ns, bti_wakes *wakes);
/* Calls whose arguments had no room beside those of others are queued again: some have ended. */
void bti_dispatch_crowded(bti_state *state);
/* What the nest does now and then: dispatches when the time for it has come (fair.h). When to call it again; 0: never. */
uint64_t bti_dispatch_due(bti_state *state, uint64_t now_ns, bti_wakes *wakes);
/* The next call for a worker that has none: false when none fits or the first is not for it. */
bool bti_give_next(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* A worker has few calls ahead: it is given more that take what its first one takes, as long as it would be their turn. */
void bti_give_ahead(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* The call of a worker with GPUs has ended, and is its task still. If the worker may run more of that function (max_calls), and one that takes
 * the same is next, that one gets the same GPUs, and what has ended is gone. */
bool bti_give_again(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* Counts the call of a worker without GPUs that has ended: whether it was the last that the worker may run. */
bool bti_was_last_call(bti_state *state, bti_client *worker);
/* A worker without a task. */
void bti_client_rest(bti_state *state, bti_client *worker);
void bti_client_unrest(bti_state *state, bti_client *worker);

#endif

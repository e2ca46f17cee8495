/* Tasks that wait, by what they take; who runs next and where. All with the lock. */
#ifndef BTI_TASK_QUEUE_H
#define BTI_TASK_QUEUE_H

#include "task/supply.h"

/* The queue of tasks that take this from a group's bundle (NULL: from the machine); NULL when there are too many kinds. */
bti_queue *bti_queue_of(bti_state *state, const bti_amounts *amounts, bti_group_record *group, int bundle);
void bti_queue_add(bti_state *state, bti_task_record *task); /* O(log n) */

/* Groups that fit get their resources; tasks that can run are given to workers: idle ones, else new ones that the nest forks. */
void bti_dispatch(bti_state *state, bti_wakes *wakes);
/* The next task for a worker that has just ended one: NULL when none fits or the first is not for it. */
bti_task_record *bti_take_next(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* A worker without a task. */
void bti_client_rest(bti_state *state, bti_client *worker);
void bti_client_unrest(bti_state *state, bti_client *worker);

void bti_wake_later(bti_wakes *wakes, atomic_uint *word);
/* Without the lock. */
void bti_wake(bti_state *state, bti_wakes *wakes);

#endif

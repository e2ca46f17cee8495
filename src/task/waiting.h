/* The queues of a supply that have tasks, in the order in which their first tasks run: a balanced tree in which each node knows the least
 * amounts below it, so that the first queue that fits is found without a look at each of those that do not. All with the lock. */
#ifndef BTI_TASK_WAITING_H
#define BTI_TASK_WAITING_H

#include "task/supply.h"

/* The order of tasks: higher priority, then deeper (what a running task called before what the program called), then earlier. */
static inline bool bti_task_goes_before(const bti_task_record *a, const bti_task_record *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->depth != b->depth ? a->depth > b->depth : a->sequence < b->sequence;
}

/* A queue is added once it has a first task, and removed before it has another or none. O(log n). */
void bti_waiting_add(bti_state *state, bti_queue *queue);
void bti_waiting_remove(bti_state *state, bti_queue *queue);
/* No other queue of its supply has tasks: it may have another first task without leaving. */
static inline bool bti_waiting_alone(bti_state *state, const bti_queue *queue) {
    return bti_supply_of(state, queue)->waiting == queue && !queue->left && !queue->right;
}

/* The first queue of a supply; NULL when nothing waits. */
bti_queue *bti_waiting_first(const bti_supply *supply);
/* The first queue whose amounts fit into `open`, which may be less than the supply itself; NULL. O(log n) when one resource decides. */
bti_queue *bti_waiting_fit(const bti_state *state, const bti_supply *supply, const bti_supply *open);
/* The first queues, in order, at most `most`; returns how many. */
int bti_waiting_list(const bti_supply *supply, bti_queue **queues, int most);

#endif

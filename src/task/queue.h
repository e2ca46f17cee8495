/* Tasks that wait for resources, by what they take: those of one queue all fit, or none does. The queues of a supply that have tasks stand in a balanced
 * tree, in the order in which their first tasks run; each node knows the least amounts below it, so that the first queue that fits is found without a
 * look at each of those that do not. All with the lock. */
#ifndef BTI_TASK_QUEUE_H
#define BTI_TASK_QUEUE_H

#include "task/supply.h"
#include "task/wake.h"

/* Before there is a second process. */
bt_status bti_queues_open(bti_state *state);
/* The queue of tasks that take this from a group's bundle (NULL: from the machine); NULL when there are too many. It stays until the next
 * call of this function that finds it unused. */
bti_queue *bti_queue_of(bti_state *state, const bti_amounts *amounts, bti_group_record *group, int bundle);
/* It has no users. */
void bti_queue_free(bti_state *state, bti_queue *queue);

/* The order of tasks: higher priority, then deeper (what a running task called before what the program called), then earlier. */
static inline bool bti_task_goes_before(const bti_task_record *a, const bti_task_record *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->depth != b->depth ? a->depth > b->depth : a->sequence < b->sequence;
}

/* Puts a task into its queue. O(log n). What was given ahead stays with its workers: bti_task_enqueue (given.h) is for tasks that may go before that. */
void bti_queue_add(bti_state *state, bti_task_record *task);
/* Takes the first task of a queue that has one. */
bti_task_record *bti_queue_take(bti_state *state, bti_queue *queue);
/* The first task of the queue waits for room beside the arguments of others (state->crowded); and: all such tasks are queued again. */
void bti_queue_put_aside(bti_state *state, bti_queue *queue);
void bti_queue_readmit(bti_state *state);

/* The first queue of a supply; NULL when nothing waits. */
bti_queue *bti_waiting_first(const bti_supply *supply);
/* The first queue whose amounts fit into `open`, which may be less than the supply itself; NULL. O(log n) when one resource decides. */
bti_queue *bti_waiting_fit(const bti_state *state, const bti_supply *supply, const bti_supply *open);
/* The first queues, in order, at most `most`; returns how many. */
int bti_waiting_list(const bti_supply *supply, bti_queue **queues, int most);

#endif

/* Whose turn it is: the first task in order that fits. Tasks that have waited long are passed over only with resources that they do not
 * need. So a task for four GPUs starts in spite of a stream of tasks for one.
 *
 * What a task or group that has waited for a second lacks is kept for it as it comes free: amounts, and certain GPUs. What it waits for must
 * be able to end meanwhile. So nothing is kept from deeper tasks, which running ones called; nothing is kept from tasks while an actor or
 * a group has what is lacking, which may live on for ever (other actors and groups then wait); and what is kept is open to all again
 * now and then: for 2 s after 2 s, then for 4 s after 4 s, and so on. All with the lock. */
#ifndef BTI_TASK_FAIR_H
#define BTI_TASK_FAIR_H

#include "task/supply.h"
#include "task/wake.h"

typedef struct bti_turn {
    bti_queue *queue;                /* its first task begins */
    bti_group_record *group;         /* or (queue is NULL) this group gets its bundles */
    uint64_t gpus[BTI_MOST_BUNDLES]; /* that the task gets ([0]), or each bundle */
} bti_turn;

/* False: nothing can start now. A later time at which something may start is noted in the state, and the nest is called. */
bool bti_next_turn(bti_state *state, bti_turn *turn, bti_wakes *wakes);

/* The nest dispatches at that time, or before. */
void bti_dispatch_at(bti_state *state, uint64_t at_ns, bti_wakes *wakes);

/* Whether at `now_ns` what comes free is kept for a task or group that has waited since `queued_ns`, and until when. `for_tasks`: it lacks only what
 * tasks have, which end by themselves. */
bool bti_keeps_at(uint64_t now_ns, uint64_t queued_ns, bool for_tasks, uint64_t *until_ns);

#endif

/* The calls that a worker is given, several ahead: the first has its resources, those after it take the same and get them when it ends. A worker
 * claims each before it begins; one that is not claimed can be revoked. The worker of an actor may run several methods at once (client->at_once),
 * which end in any order. All with the lock. */
#ifndef BTI_TASK_GIVEN_H
#define BTI_TASK_GIVEN_H

#include "task/mailbox.h"

static inline uint32_t bti_given_count(const bti_client *worker) { return worker->given_count; }
static inline bool bti_given_has_room(const bti_client *worker) {
    return worker->given_count < BTI_AHEAD - 1 + worker->at_once && !worker->stops && !worker->kill;
}
/* Puts a task into its queue. Calls that were given ahead and come after it are queued again. */
void bti_task_enqueue(bti_state *state, bti_task_record *task);
/* Gives a call to a worker that has room. When it is the first, its resources were taken. */
void bti_give(bti_state *state, bti_client *worker, bti_task_record *task, bti_wakes *wakes);
/* Whether a call may be given ahead: its arguments are in memory, and small. Pins them then. */
bool bti_may_be_ahead(bti_state *state, bti_task_record *task);
/* The worker ends after the calls that it has. */
void bti_give_end(bti_state *state, bti_client *worker, bti_wakes *wakes);
/* The call that this worker runs under a number that it has named; NULL: it runs none of that number. */
bti_task_record *bti_given_call(const bti_client *worker, uint32_t number);
/* How many calls it runs. */
uint32_t bti_given_running(const bti_client *worker);
/* Its calls one after the other, in no order; *at: 0 at first. NULL: there are no more. */
bti_task_record *bti_given_next(const bti_client *worker, uint32_t *at);
/* Removes the call of that number, which has ended and given its resources back; its record may be gone. If it was the first, the next one becomes the first and
 * takes its resources. */
void bti_given_shift(bti_state *state, bti_client *worker, uint32_t number);
/* Calls after the first that the worker has not claimed are queued again. Returns how many. */
int bti_given_revoke(bti_state *state, bti_client *worker);
/* Removes the last call from an actor's worker whose process is gone; NULL: it has none. */
bti_task_record *bti_given_pop(bti_state *state, bti_client *worker);

/* Removes a call from the worker's list. The first one gives back its resources. */
void bti_given_take_out(bti_state *state, bti_client *worker, bti_task_record *task);
/* The calls of a worker that has begun none of them, and will not, are queued again. */
void bti_given_take_all(bti_state *state, bti_client *worker);
/* The nest has checked the worker several times, and it has not begun what it was given, or has run its last call and has not exited. */
bool bti_given_stalls(const bti_client *worker);
/* Such a worker is ended, and its calls are queued again unless it has begun them meanwhile. */
void bti_given_give_up(bti_state *state, bti_client *worker, bti_wakes *wakes);

/* The nest, at regular times: calls that stand behind one that does not end are queued again. A worker that has run calls and does not begin the next
 * is stopped or has damaged its mailbox: it is given up. True: there are calls to dispatch. */
bool bti_given_look(bti_state *state, bti_wakes *wakes);

#endif

/* Ends: of calls, by what a worker says or because their time is over, and of processes. All with the lock. */
#ifndef BTI_TASK_ENDED_H
#define BTI_TASK_ENDED_H

#include "task/mailbox.h"

/* BTI_SAYS_DONE: the call's results are made, it is retried or ends, its worker gets others; false: the message makes no sense. */
bool bti_call_done(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes);
/* The value of an object is there, and was checked: it is done. */
void bti_settle_value(bti_state *state, bti_object *object, bti_wakes *wakes);

/* Calls whose deadline has come fail; processes that run them are marked to be ended. The next deadline; 0: none. */
uint64_t bti_deadlines(bti_state *state, uint64_t now_ns, bti_wakes *wakes);

/* A process is gone: what it held is free, what it ran fails with that text, or is queued once more. */
void bti_client_gone(bti_state *state, bti_client *client, const char *why, bti_wakes *wakes);
/* In the nest: a worker's process could not be started. Its task waits again, and the worker is gone. */
void bti_worker_not_started(bti_state *state, bti_client *worker, int error, uint64_t now_ns, bti_wakes *wakes);

#endif

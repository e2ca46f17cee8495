/* Objects that become done, and the threads that wait for them. All with the lock. Tasks that wait for an object are handed to the scheduler as a list
 * (state->arrived), which ready.c looks at under the same lock. */
#ifndef BTI_TASK_SETTLE_H
#define BTI_TASK_SETTLE_H

#include "task/state.h"
#include "task/wake.h"

/* It is done: threads that wait are woken. The value was written before. */
void bti_object_settle(bti_state *state, bti_object *object, bti_object_state as, bti_wakes *wakes);
/* The same with a failure; nothing when it has failed already. The kind of what the runtime says by itself follows from the status. */
void bti_object_fail(bti_state *state, bti_object *object, bt_status status, const char *text, bti_wakes *wakes);
void bti_object_fail_as(bti_state *state, bti_object *object, bt_failure kind, bt_status status, const char *text,
                        bti_wakes *wakes);
/* What a failure of the runtime itself is. */
bt_failure bti_failure_of(bt_status status);

/* A thread of a client that waits for some of several objects: made, given its objects one by one (false: no record is left), and armed with how many
 * of them it wants; false: that many are done already. When they are, a thread of the program is woken; a worker gets the reply, and the waiter is
 * gone. */
bti_waiter *bti_waiter_new(bti_state *state, bti_client *client, bool limited);
bool bti_waiter_add(bti_state *state, bti_waiter *waiter, bti_object *object);
bool bti_waiter_arm(bti_state *state, bti_waiter *waiter, int wanted);
/* The wait would never end: it fails. */
void bti_waiter_stuck(bti_state *state, bti_waiter *waiter, bt_status status, const char *text, bti_wakes *wakes);
void bti_waiter_free(bti_state *state, bti_waiter *waiter, bti_wakes *wakes);
/* One of those that its threads wait for without a limit; NULL. */
const bti_object *bti_awaited(const bti_client *client);
/* The same of a call that runs. */
const bti_object *bti_call_awaited(const bti_task_record *task);

#endif

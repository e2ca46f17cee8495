/* Tasks that come into their queues, and those that are refused instead. All with the lock.
 *
 * The records of objects (object.h, settle.h) know no scheduler. When an object becomes done, the links of tasks that waited for it go to state->arrived;
 * when the last handle of an actor goes, the actor goes to state->unheld_actors. Code that settles, fails or drops objects, directly or by tasks.h and
 * actor.h, then calls bti_schedule_pending under the same lock, before it looks for the next task. bti_dispatch does so by itself. */
#ifndef BTI_TASK_READY_H
#define BTI_TASK_READY_H

#include "task/state.h"
#include "task/wake.h"

/* Tasks whose last argument has come are queued, or fail with it; actors without handles and calls end. */
void bti_schedule_pending(bti_state *state, bti_wakes *wakes);

/* A new task holds the objects among its arguments, and waits for those that are not done; false: no record is left, and it holds none. */
bool bti_task_await(bti_state *state, bti_task_record *task, bti_wakes *wakes);
/* A task whose arguments are there, and that was given and not begun, waits for its turn again. */
void bti_task_ready(bti_state *state, bti_task_record *task, bti_wakes *wakes);
/* Ends first tasks of a queue that are not to run: cancelled ones, all of a group that was released. True: there were some. */
bool bti_queue_clean(bti_state *state, bti_queue *queue, bti_wakes *wakes);

#endif

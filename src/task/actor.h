/* Actors, as the scheduler sees them. All with the lock. These functions may leave work in the lists that ready.h looks at. */
#ifndef BTI_TASK_ACTOR_H
#define BTI_TASK_ACTOR_H

#include "task/state.h"
#include "task/wake.h"

/* Puts a method at the end of its line. */
void bti_actor_add(bti_state *state, bti_task_record *task, bti_wakes *wakes);
void bti_actor_line_first(bti_state *state, bti_task_record *task); /* a method that its worker has, once more */
/* Its worker is given methods, as far as they can begin; one without handles and calls is told to end. */
void bti_actor_feed(bti_state *state, bti_actor_record *actor, bti_wakes *wakes);
/* Its function has made it. */
void bti_actor_made(bti_state *state, bti_actor_record *actor, bti_wakes *wakes);
/* For callers it lives no longer: methods that wait fail. What it holds is given back when its process is gone. */
void bti_actor_die(bti_state *state, bti_actor_record *actor, bt_failure kind, bt_status status, const char *why,
                   bti_wakes *wakes);
/* Its process is gone: it is made again, or is over. */
void bti_actor_gone(bti_state *state, bti_actor_record *actor, const char *why, bti_wakes *wakes);
/* There are some in state->unheld_actors: takes the first out, and ends it unless it has calls or handles. */
void bti_actor_end_unheld(bti_state *state, bti_wakes *wakes);

#endif

/* Requests of workers that may take a while: room in a full store, values that are on disk. Done at once where possible, else by the mover: a
 * process that moves values between memory and disk for workers, forked by the nest when it is first wanted. */
#ifndef BTI_TASK_CHORES_H
#define BTI_TASK_CHORES_H

#include "task/mailbox.h"

/* With the lock. Begins what a message asks for, which was checked; `task`: the call that it is about. */
void bti_chore_begin(bti_state *state, bti_client *client, const bti_message *message, bti_task_record *task,
                     bti_wakes *wakes);
/* With the lock: forgets the chores of a client whose process is gone. */
void bti_chores_forget(bti_state *state, const bti_client *client);
/* With the lock: chores for this call, which ends, or this hold, which is released, fail. */
void bti_chores_drop(bti_state *state, bti_client *client, const bti_task_record *task, const bti_hold *hold,
                     bti_wakes *wakes);
/* With the lock: how many chores of a client wait for room. */
uint32_t bti_chores_stuck(const bti_state *state, const bti_client *client);
/* With the lock: the first chore that waits for room fails; false: there is none. */
bool bti_chores_fail(bti_state *state, const char *text, bti_wakes *wakes);

/* With the lock: there is a mover, and something for it to do. */
bool bti_mover_works(const bti_state *state);
/* With the lock: the process of the mover is gone. */
void bti_mover_gone(bti_state *state, bti_client *mover, bti_wakes *wakes);
_Noreturn void bti_mover_run(bti_state *state, bti_client *me);

#endif

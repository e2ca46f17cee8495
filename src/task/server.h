/* What schedulers do with the messages of workers. All with the lock. */
#ifndef BTI_TASK_SERVER_H
#define BTI_TASK_SERVER_H

#include "task/mailbox.h"

/* Reads the mailboxes that have something, and does it. */
void bti_serve(bti_state *state, bti_wakes *wakes);
/* All of them: a bell may have been lost. */
void bti_serve_all(bti_state *state, bti_wakes *wakes);
/* One. */
void bti_serve_client(bti_state *state, bti_client *client, bti_wakes *wakes);

/* Without the lock: what they said is done before a view is taken. */
void bti_serve_now(bti_state *state);

#endif

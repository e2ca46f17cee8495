/* What schedulers do with the messages of workers. All with the lock. */
#ifndef BTI_TASK_SERVER_H
#define BTI_TASK_SERVER_H

#include "task/mailbox.h"

/* Reads the mailboxes that have messages, and serves these. */
void bti_serve(bti_state *state, bti_wakes *wakes);
/* Reads all mailboxes: a bell may have been lost. */
void bti_serve_all(bti_state *state, bti_wakes *wakes);
/* Reads one mailbox. */
void bti_serve_client(bti_state *state, bti_client *client, bti_wakes *wakes);

/* Without the lock: the same as bti_serve, before a view is taken. */
void bti_serve_now(bti_state *state);

#endif

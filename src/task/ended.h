/* Ends of calls: a worker says that one is done; its results are made, it is retried or ends, its worker gets others. With the lock. */
#ifndef BTI_TASK_ENDED_H
#define BTI_TASK_ENDED_H

#include "task/mailbox.h"

/* BTI_SAYS_DONE; false: it makes no sense. */
bool bti_call_done(bti_state *state, bti_client *client, const bti_message *m, bti_wakes *wakes);
/* The value of an object is there, and was checked: it is done. */
void bti_settle_value(bti_state *state, bti_object *object, bti_wakes *wakes);

#endif

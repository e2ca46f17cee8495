/* The functions of a run's tasks on their queue (queue.h). */
#ifndef BTI_EXEC_LAUNCH_H
#define BTI_EXEC_LAUNCH_H

#include "exec/ready.h"

bool bti_run_task_run(bti_queue_entry *entry, bool may_complete);
void bti_run_task_settle(bti_queue_entry *entry);
bool bti_run_task_poll(bti_queue_entry *entry); /* of asynchronous devices */

#endif

/* The two functions of a run's tasks on their queue (queue.h). */
#ifndef BTI_EXEC_LAUNCH_H
#define BTI_EXEC_LAUNCH_H

#include "exec/prepared.h"

bool bti_task_run(bti_task *task, bool may);
void bti_task_settle(bti_task *task);

#endif

/* In the nest: when GPUs are free for the next task.
 *
 * After a process with GPUs has ended, its memory on them may take a while to become free. The nest opens no library, so for each such
 * process it forks another that asks the driver until the memory is free. */
#ifndef BTI_TASK_WATCH_H
#define BTI_TASK_WATCH_H

#include "task/state.h"

typedef void bti_gone(bti_client *client, const char *why);
/* A worker has ended. If it had GPUs and the driver can tell, another process looks until its memory on them is free, and then `gone` is
 * called. False: there is nothing to wait for. */
bool bti_gpus_watch(bti_state *state, bti_client *client, const char *why, bti_gone *gone);
/* A child of the nest has ended; false: it was none of those processes. */
bool bti_gpus_watched(pid_t pid);
bool bti_gpus_are_watched(void);
/* At regular times: ends those that take too long, because they are stopped. */
void bti_gpus_watch_check(void);
void bti_gpus_watch_end(void);

#endif

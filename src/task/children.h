/* In the nest: the processes that it forks, which are workers and the mover, and their ends. */
#ifndef BTI_TASK_CHILDREN_H
#define BTI_TASK_CHILDREN_H

#include "task/state.h"

/* Before the others. */
void bti_children_begin(bti_state *state);
/* Forks one for each client that is to be started. */
void bti_children_start(void);
/* Tells of those that have ended. */
void bti_children_reap(void);
/* Kills those whose end somebody asked for (bti_client.kill). */
void bti_children_kill_wanted(void);
/* Kills all. */
void bti_children_kill(void);
/* The same, and waits until they and what they left behind have ended. */
void bti_children_end(void);
/* Kills processes that workers left behind and that are children of this one now, and waits for their ends. */
void bti_strays_end(void);

#endif

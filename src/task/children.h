/* In the nest: the processes that it forks, which are workers and the mover, and their ends. */
#ifndef BTI_TASK_CHILDREN_H
#define BTI_TASK_CHILDREN_H

#include "task/state.h"

/* Comes before all other functions. */
void bti_children_begin(bti_state *state);
/* Forks one for each client that is to be started. */
void bti_children_start(void);
/* Reports the children that have ended. */
void bti_children_reap(void);
/* Kills those whose end somebody asked for (bti_client.kill). */
void bti_children_kill_wanted(void);
/* Kills all. */
void bti_children_kill(void);
/* Kills all, and waits until they and the processes that they left behind have ended. */
void bti_children_end(void);
/* Kills the processes that workers left behind, which the nest has adopted, and waits for their ends. */
void bti_strays_end(void);

#endif

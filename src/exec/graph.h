/* Tasks that run again with the same addresses, on devices that can record launches: recorded the second time, then launched in one
 * go. A few recordings are kept per task, as results take turns in memory. Used by whoever runs the task's queue. */
#ifndef BTI_EXEC_GRAPH_H
#define BTI_EXEC_GRAPH_H

#include "exec/prepared.h"

/* For a task of a plan; NULL: it is not worth recording, or cannot be. */
struct bti_task_graphs *bti_task_graphs_new(const bti_plan *plan, const bti_task_plan *task);
void bti_task_graphs_free(int device, struct bti_task_graphs *graphs); /* NULL is fine */

/* Launches the task's steps, or records and launches them; false: nothing was launched, it is up to the caller, step by step.
 * `addresses`: a hash of all that its steps use. A failure is in *status. */
bool bti_task_graphs_run(const bti_run_task *task, uint64_t addresses,
                         bt_status (*launch)(const bti_run *run, size_t step), bt_status *status);

/* For tests: how often recordings were launched so far, and made. */
void bti_task_graphs_count(uint64_t *launched, uint64_t *recorded);

#endif

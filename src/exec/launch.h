/* The two functions of a run's tasks on their queue (queue.h), and what a trace records of the steps that they launch. */
#ifndef BTI_EXEC_LAUNCH_H
#define BTI_EXEC_LAUNCH_H

#include "exec/prepared.h"

bool bti_run_task_run(bti_queue_entry *entry, bool may_complete);
void bti_run_task_settle(bti_queue_entry *entry);

void bti_trace_step_(uint64_t start, const bti_plan *plan, const bti_step *step, const bti_trace_asked *asked);
/* A kernel or a primitive ran from `start` (of bti_trace_begin; 0: nothing is recorded) until now. Elements read several times
 * (stride 0) count once. Copies are noted where they are made. */
static inline void bti_trace_step(uint64_t start, const bti_plan *plan, const bti_step *step,
                                  const bti_trace_asked *asked) {
    if (start && step->kind != BTI_STEP_COPY) bti_trace_step_(start, plan, step, asked);
}

#endif

/* The tasks of a prepared plan, and those of its collectives (collective.h). False: memory is short. */
#ifndef BTI_EXEC_COLLECTIVE_TASKS_H
#define BTI_EXEC_COLLECTIVE_TASKS_H

#include "exec/ready.h"

/* Behind all tasks so far; numbers: by device, how many it has. */
bool bti_tasks_add(bti_prepared *of, uint64_t *numbers, bti_run_task_plan task);

/* The arrivals of the step, behind all work that its devices have so far. */
bool bti_collectives_arrive(bti_prepared *of, uint64_t *numbers, size_t step);
/* The joins that a step of this device needs first, which reads these operands of its plan. */
bool bti_collectives_join(bti_prepared *of, uint64_t *numbers, int device, const int32_t *operands, int count);
/* All that are left. */
bool bti_collectives_join_all(bti_prepared *of, uint64_t *numbers);

/* Of a run that begins; that is over. */
void bti_collectives_begin(bti_run *run);
void bti_collectives_end(bti_run *run);

#endif

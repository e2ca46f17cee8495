/* The tasks of a prepared plan, and those of its collectives (collective.h) and of copies between devices (send.h). False: memory is short. */
#ifndef BTI_EXEC_TASKS_H
#define BTI_EXEC_TASKS_H

#include "exec/ready.h"

/* Behind all tasks so far; numbers: by device, how many it has. */
bool bti_tasks_add(bti_prepared *of, uint64_t *numbers, bti_run_task_plan task);

/* The arrivals of a collective, or the sending of a copy, behind all work that its devices have so far. */
bool bti_tasks_arrive(bti_prepared *of, uint64_t *numbers, size_t step);
bool bti_tasks_send(bti_prepared *of, uint64_t *numbers, size_t step);
/* What a step of this device, which reads these operands of its plan, needs first: joins of collectives, and copies received. */
bool bti_tasks_join(bti_prepared *of, uint64_t *numbers, int device, const int32_t *operands, int count);
/* All that are left. */
bool bti_tasks_join_all(bti_prepared *of, uint64_t *numbers);

/* Of a run that begins; that is over. */
void bti_joined_begin(bti_run *run);
void bti_joined_end(bti_run *run);

#endif

/* Where the operands of a run's steps lie. */
#ifndef BTI_EXEC_BOXES_H
#define BTI_EXEC_BOXES_H

#include "exec/ready.h"

/* run: NULL: before there is one, as if all memory began at 0, to which it is aligned alike. */
uint64_t bti_run_address(const bti_run *run, const bti_value *value);
/* Box `number` of a step with a kernel. */
void bti_run_box(const bti_plan *plan, const bti_run *run, const bti_step *step, int number, bti_box *box);

#endif

/* A plan made ready to run, and the runs of it. */
#ifndef BTI_EXEC_PREPARED_H
#define BTI_EXEC_PREPARED_H

#include "exec/ready.h"

bti_trace_asked bti_trace_asked_of(const bti_plan *plan, const bti_step *step);
/* It is submitted, or given up: its references are those of a run from here on. */
void bti_run_keep(bti_run *run);
/* One of its tasks, or its submitter, is done with it. */
void bti_run_done(bti_run *run);

#endif

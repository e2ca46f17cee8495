/* Launching one step of a run, and what a trace records of it. */
#ifndef BTI_EXEC_LAUNCH_STEP_H
#define BTI_EXEC_LAUNCH_STEP_H

#include "exec/ready.h"

/* Launches a step, which is no copy between devices. */
bt_status bti_launch_step(const bti_run *run, size_t step);
/* What is in a storage of the run has failed; only by the thread that runs the queue of its device. */
void bti_run_fail(bti_run *run, int32_t storage, bti_error *error);
/* The error of what is in a storage of the run, as known now; the first error of what a box of the step reads. NULL: none. */
bti_error *bti_run_error(const bti_run *run, int32_t storage);
bti_error *bti_run_box_error(const bti_run *run, const bti_step *step, int box);
/* Where a value is in this run; of an index the number that it begins with. */
uint64_t bti_run_address(const bti_run *run, const bti_value *value);

void bti_trace_step_(uint64_t start, const bti_plan *plan, const bti_step *step, const bti_trace_asked *asked,
                     bti_place place);
/* A kernel or a primitive ran from `start` (of bti_trace_begin; 0: nothing is recorded) until now. Elements read several times
 * (stride 0) count once. Copies are noted where they are made, the steps of regions one by one. */
static inline void bti_trace_step(uint64_t start, const bti_plan *plan, const bti_step *step,
                                  const bti_trace_asked *asked, bti_place place) {
    if (start && step->kind != BTI_STEP_COPY && step->kind != BTI_STEP_CONTROL)
        bti_trace_step_(start, plan, step, asked, place);
}
/* A collective began on its devices: from `start` until now, or when the ends tell by the devices' clock. */
void bti_trace_collective(uint64_t start, const bti_plan *plan, const bti_step *step, const bti_work_end *ends,
                          const bti_trace_asked *asked, bti_place place);

#endif

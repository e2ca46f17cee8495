/* Launching one step of a run, and what a trace records of it. */
#ifndef BTI_EXEC_LAUNCH_STEP_H
#define BTI_EXEC_LAUNCH_STEP_H

#include "exec/boxes.h"

/* Launches a step, which is no copy between devices. */
bt_status bti_launch_step(const bti_run *run, size_t step);
/* What is in a storage of the run has failed; only by the thread that runs the queue of its device. */
void bti_run_fail(bti_run *run, int32_t storage, bti_error *error);
/* The error of what is in a storage of the run, as known now; the first error of what a box of the step reads. NULL: none. */
bti_error *bti_run_error(const bti_run *run, int32_t storage);
bti_error *bti_run_box_error(const bti_run *run, const bti_step *step, int box);
/* Where a value is in this run; of an index the number that it begins with. */

/* Around the launch of a step. Copies are noted where they are made, the steps of regions one by one. */
static inline bti_timing_start bti_trace_step_begin(const bti_step *step) {
    bool apart = !bti_trace_on() || step->kind == BTI_STEP_COPY || step->kind == BTI_STEP_CONTROL;
    return apart ? (bti_timing_start){0} : bti_timing_begin(step->device);
}
void bti_trace_step_(const bti_timing_start *start, const bti_plan *plan, const bti_step *step,
                     const bti_trace_asked *asked, bti_place place);
/* Elements read several times (stride 0) count once. */
static inline void bti_trace_step_end(const bti_timing_start *start, const bti_plan *plan, const bti_step *step,
                                      const bti_trace_asked *asked, bti_place place) {
    if (start->ns) bti_trace_step_(start, plan, step, asked, place);
}
/* A collective began on its devices after `start`; the ends tell when, or the members' timings will. */
void bti_trace_collective(uint64_t start, const bti_plan *plan, const bti_step *step, bti_run_member *members,
                          const bti_trace_asked *asked, bti_place place);

#endif

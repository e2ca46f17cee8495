/* Notes of the steps of plans, for base/trace.h. */
#ifndef BTI_EXEC_TRACE_H
#define BTI_EXEC_TRACE_H

#include "base/trace.h"
#include "ir/plan.h"

/* Who asked for a step: kept when its nodes may be gone. */
typedef struct bti_trace_asked {
    bti_place place;                              /* of a kernel: of its last operation */
    const char *operations[BTI_TRACE_OPERATIONS]; /* public ones, each once, the last one last; then NULL */
} bti_trace_asked;

bti_trace_asked bti_trace_asked_of(const bti_plan *plan, const bti_step *step);

void bti_trace_step_(uint64_t start, const bti_plan *plan, const bti_step *step, const bti_trace_asked *asked);
/* A kernel or a primitive ran from `start` (of bti_trace_begin; 0: nothing is recorded) until now. Elements read several times
 * (stride 0) count once. Copies are noted where they are made. */
static inline void bti_trace_step(uint64_t start, const bti_plan *plan, const bti_step *step,
                                  const bti_trace_asked *asked) {
    if (start && step->kind != BTI_STEP_COPY) bti_trace_step_(start, plan, step, asked);
}

#endif

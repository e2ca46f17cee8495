/* Steps of loops that the device runs by one call (launch/series.h), in place of launches one by one. */
#ifndef BTI_EXEC_SERIES_H
#define BTI_EXEC_SERIES_H

#include "base/alloc.h"
#include "exec/ready.h"

#define BTI_SERIES_FIRST 2 /* steps that are launched one by one before */

/* A loop of which each step runs the plans of these regions, in order. From the second step on, what is carried lies in two places by turns. */
typedef struct bti_loop_steps {
    int64_t next; /* BTI_SERIES_FIRST at first; the step before which the device is asked; -1: never again */
    int device;
    int region_count;
    bti_run *regions[BTI_MAX_REGIONS];
    bool rows;                                       /* each step reads or writes rows of its own */
    bool tested;                                     /* the first region gives the test of a step: */
    uint64_t test;                                   /* where it lies */
    void (*bind)(const void *context, int64_t step); /* sets the addresses of the regions' runs */
    const void *context;
    bti_series *series; /* NULL at first */
} bti_loop_steps;

int64_t bti_loop_run_series_(bti_loop_steps *loop, int64_t step, int64_t most, bool *ended);
/* Has the device run steps from number `step` on, at most so many, if it can; how many it ran. To be called before each step that is launched. *ended: by the test of the step that
 * follows. */
static inline int64_t bti_loop_run_series(bti_loop_steps *loop, int64_t step, int64_t most, bool *ended) {
    *ended = false;
    return step == loop->next ? bti_loop_run_series_(loop, step, most, ended) : 0;
}
static inline void bti_loop_end(bti_loop_steps *loop) {
    if (loop->series) bti_free(loop->series);
}

#endif

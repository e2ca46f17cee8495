/* A series: the launches of steps of a loop, one step after the other, that a driver makes by one call (launch_series of drivers/driver.h). Each step launches the same kernels.
 * Where their operands lie comes again every second step, since what is carried lies in two places by turns, or moves evenly, as rows do. */
#ifndef BTI_LAUNCH_SERIES_H
#define BTI_LAUNCH_SERIES_H

#include "ir/kernel.h"

#define BTI_SERIES_LAUNCHES 8 /* of a step, at most */

typedef struct bti_series_launch {
    void *program; /* the driver's, of a fused kernel */
    int operand_count;
    bool moves;                               /* whether an operand does */
    bti_box box;                              /* its addresses are the driver's to set */
    uint64_t address[2][BTI_KERNEL_OPERANDS]; /* in the next step and in the one after it; the driver moves them */
    int64_t move[BTI_KERNEL_OPERANDS];        /* bytes in two steps */
} bti_series_launch;

typedef struct bti_series {
    int launch_count;             /* of a step */
    int tested;                   /* so many of them come before the test of the step; -1: no step has a test */
    uint64_t test;                /* where a bool lies: the loop ends where it is false */
    int64_t most;                 /* steps to run */
    int64_t run;                  /* steps that ran whole */
    bool ended;                   /* the step after them ended the loop at its test */
    bti_series_launch launches[]; /* in order */
} bti_series;

#endif

/* A training run goes on when a device of its strategy fails. */
#ifndef BTI_TRAIN_SURVIVE_H
#define BTI_TRAIN_SURVIVE_H

#include "base/str.h"
#include "train/step.h"

typedef struct bti_survival {
    int lost;         /* devices */
    bti_str story;    /* a line for each failure, for the report */
    int64_t repeated; /* the step, from 1, that was made again on the same devices; 0: none */
    bool has_default; /* the thread's default device is one that is left */
    bti_default_guard default_device;
} bti_survival;

/* What a failure was, and what became of it. */
typedef struct bti_failed_run {
    const char *call; /* the public function */
    bti_steps *steps;
    bt_array **sum;
    int64_t step;        /* steps that batches were given for, in the whole run */
    bool has_checkpoint; /* that the run can go on from */
    int64_t failed_step; /* found: the first one that did not complete, from 1 */
    bool states_lost;    /* found: sharded states were on a device that failed */
} bti_failed_run;

/* Whether a failure with this status may be that of a device, in a run that can go on without it. */
bool bti_survival_is_possible(const bti_steps *steps, bt_status status);
/* Behind a failure, which is in the thread's record: finds the devices that failed, takes them out of the strategy, and tells. BT_OK: the steps that are missing can be made again, or with
 * `states_lost` the run can go on from a checkpoint. Else the failure, which says why not. */
bt_status bti_survive(bti_survival *survival, bti_failed_run *run);
void bti_survival_end(bti_survival *survival);

#endif

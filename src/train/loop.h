/* The training loop. */
#ifndef BTI_TRAIN_LOOP_H
#define BTI_TRAIN_LOOP_H

#include <berth/train.h>

#include "train/checkpoint.h"
#include "train/energy.h"
#include "train/judge.h"
#include "train/losses.h"
#include "train/progress.h"
#include "train/report.h"
#include "train/step.h"
#include "train/survive.h"

typedef struct bti_fit {
    const char *name; /* of the public function */
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_loader *loader, *validation; /* validation: NULL when there is none */
    bt_fit_options options;
    int watched; /* a column of the history */

    bti_steps steps;
    bti_judge *judge;
    bti_history history;
    bti_checkpoints *checkpoints; /* NULL: none */
    bti_checkpoint_numbers now;
    bti_losses losses, validated;   /* validated: the figure of each epoch, for the checks of losses.h alone */
    BTI_VEC(bt_shared *) variables; /* with keep_best: parameters and states */
    BTI_VEC(bt_array *) best; /* their values, retained; none: the checkpoints' file has them, or there are none */
    double before;            /* seconds of runs that this one resumes */
    double began, saved;      /* by the clock: the run, its last checkpoint */
    double saved_epoch, saved_steps; /* what that is of */
    double phases[BTI_PHASES];
    bti_meters meters;
    int64_t steps_per_epoch, rows; /* of an epoch */
    char *validation_state;        /* of the validation's loader before the epoch; NULL: not needed */
    const bt_batch *batch;         /* of the step that is made */
    bool taken;                    /* the step was recorded */
    double epoch_loss, row[BTI_COLUMNS + BTI_METRICS_MOST]; /* of the epoch that ends */
    bool rewound;                                           /* a device failed, and the run goes on from a checkpoint */
    bti_survival survival;
    bti_progress progress;
    bool stopped;
} bti_fit;

/* Trains, with checked options. Blocks. */
bt_status bti_fit_run(bti_fit *fit, bt_fit_report *report);

#endif

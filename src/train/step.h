/* The steps of a training loop. */
#ifndef BTI_TRAIN_STEP_H
#define BTI_TRAIN_STEP_H

#include <berth/dist.h>
#include <berth/optimizers.h>

#include "dist/counted.h"

#define BTI_STEP_SHAPES 4 /* of batches that have functions: the usual one, the last of an epoch, and some more */

typedef struct bti_step_shape {
    bt_function *function;         /* x, y, sum -> loss, sum + rows * loss */
    bt_dtype dtypes[2], sum_dtype; /* of x and y, and of the loss */
    bt_shape shapes[2];
} bti_step_shape;

/* Batches that are kept: a device may fail in a step that was submitted some steps ago. At most 8 steps are in flight (function/versions.c), and one is being made. */
#define BTI_STEPS_KEPT 16

typedef struct bti_step_batch {
    bt_array *x, *y; /* retained */
    bool begins;     /* a new sum */
} bti_step_batch;

typedef struct bti_steps {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_model_loss *loss;
    void *data;
    bool record_each; /* every step is recorded: bt_train_step */
    bti_step_shape shapes[BTI_STEP_SHAPES];
    int count;

    bool survives; /* over several devices: what fails with one of them is made again on the others */
    bti_counted counted;
    int64_t made, wanted; /* steps that were recorded; those that batches were given for */
    bti_step_batch recent[BTI_STEPS_KEPT];
} bti_steps;

/* Whether a step can be a function that is recorded once: on one device, without hooks, which see each step. */
void bti_steps_begin(bti_steps *steps);
/* Makes the optimiser's states, where the first step would. */
bt_status bti_steps_prepare(const bti_steps *steps);
/* One step on x and y: *loss, its mean loss (lazy, of the innermost scope), and *sum, retained, becomes *sum + rows * loss; *sum may be NULL. Submits the work. */
bt_status bti_steps_run(bti_steps *steps, bt_array *x, bt_array *y, bt_array **loss, bt_array **sum);
/* OUT_OF_RANGE: the loss of x and y takes an index, or a label, that there is not (ops/check.h). Records the loss. */
bt_status bti_steps_check(const bti_steps *steps, bt_array *x, bt_array *y);
/* Waits for the steps; the failure of one of them. */
bt_status bti_steps_settle(const bti_steps *steps);
/* Behind a failure: waits for what is in flight. How many of the steps that batches were given for did not complete. *sum: as it was after the last that did. */
bt_status bti_steps_missing(bti_steps *steps, int64_t *missing, bt_array **sum);
/* Makes these again. */
bt_status bti_steps_repeat(bti_steps *steps, bt_array **sum);
/* Whether the array is on a device of the strategy, in a run that goes on without one that fails. */
bool bti_steps_may_lose(const bti_steps *steps, const bt_array *x);
/* Forgets all of them: the run goes on from elsewhere. */
void bti_steps_forget(bti_steps *steps);
void bti_steps_end(bti_steps *steps);

#endif

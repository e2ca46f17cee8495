/* Micro-batches: a batch is cut along its rows, and the parts go through the devices of a model one behind the other. */
#ifndef BTI_DIST_PIPELINE_H
#define BTI_DIST_PIPELINE_H

#include "dist/batch.h"

/* A step of a strategy with micro-batches, up to the update: the loss and the states of step->shards[0], and the gradients. */
bt_status bti_pipeline_run(bti_train *step, int micro_batches, bt_array *x, bt_array *y);

#endif

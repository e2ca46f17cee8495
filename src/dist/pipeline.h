/* Micro-batches: a batch is cut along its rows, and the parts go through the devices of a model one behind the other. */
#ifndef BTI_DIST_PIPELINE_H
#define BTI_DIST_PIPELINE_H

#include "dist/forward.h"

/* A step of a strategy with micro-batches, up to the update. `parts`, without a strategy, gets one shard with the states, and as values the loss, then the gradients. */
bt_status bti_pipeline_run(const bti_train *step, bt_parts *parts, int micro_batches, bt_array *x, bt_array *y);

#endif

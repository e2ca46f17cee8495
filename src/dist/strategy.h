/* A strategy: the devices that a model is mirrored over, and the share of the batch of each. */
#ifndef BTI_DIST_STRATEGY_H
#define BTI_DIST_STRATEGY_H

#include <berth/dist.h>

#include "array/handle.h"
#include "array/place.h"

#define BTI_EXACT_SHARDS 8 /* parts of a batch in exact mode, whatever the number of devices */

struct bt_strategy {
    bti_owned head;
    int count;         /* 0: of micro-batches */
    int micro_batches; /* 0: it mirrors */
    bool exact;
    bt_device *devices[BTI_MAX_REPLICAS];
    _Atomic(double) share[BTI_MAX_REPLICAS]; /* of a batch; sum to 1, or all 0: not measured yet */
};

/* How many of a batch's rows each device gets: by shares, with the largest remainders rounded up so that the sum is exact. */
void bti_strategy_rows(const bt_strategy *strategy, int64_t rows, int64_t *counts);

#endif

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
    bool exact, sharded;
    bt_device *devices[BTI_MAX_REPLICAS];
    _Atomic(double) share[BTI_MAX_REPLICAS]; /* of a batch; sum to 1, or all 0: not measured yet */
};

/* Its devices are others now: where this thread is in its BT_STRATEGY block, what is made there is made on these. */
void bti_strategy_refresh(bt_strategy *strategy);
/* How many of a batch's rows each device gets: by shares, with the largest remainders rounded up so that the sum is exact. */
void bti_strategy_rows(const bt_strategy *strategy, int64_t rows, int64_t *counts);

/* Makes the optimiser's states of thawed parameters where the strategy's steps keep them: beside the owner's replica if it is sharded, else beside all. NULL: one device. */
bt_status bti_strategy_place(const bt_strategy *strategy, bt_optimizer *optimizer, bt_shared *const *parameters,
                             int count);
/* owners[i]: the replica that owns parameter i. Bytes are as even as whole parameters, taken from the largest on, allow. */
bt_status bti_strategy_owners(const bt_strategy *strategy, bt_shared *const *parameters, int count, int *owners);

#endif

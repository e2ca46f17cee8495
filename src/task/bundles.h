/* Which GPUs the bundles of a group get, as its strategy wants. */
#ifndef BTI_TASK_BUNDLES_H
#define BTI_TASK_BUNDLES_H

#include "task/supply.h"

/* Of `open`, a mask for each bundle; the first one's amounts have the strategy. False: they do not fit. Pure. */
bool bti_bundles_choose(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *open,
                        uint64_t *gpus);
/* RESOURCE_EXHAUSTED when they would not fit although nobody else had anything, with the cause. */
bt_status bti_bundles_check(const bti_state *state, const bti_supply *bundles, int count);

#endif

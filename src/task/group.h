/* Groups: bundles of resources that are set aside together. All with the lock. */
#ifndef BTI_TASK_GROUP_H
#define BTI_TASK_GROUP_H

#include "task/supply.h"
#include "task/wake.h"

/* Which GPUs of `open` each bundle would get: a mask for each; the first one's amounts have the strategy. False: they do not fit. Pure. */
bool bti_bundles_choose(const bti_state *state, const bti_supply *bundles, int count, const bti_supply *open,
                        uint64_t *gpus);
/* RESOURCE_EXHAUSTED, with the cause, when they would not fit even if all resources were free. */
bt_status bti_bundles_check(const bti_state *state, const bti_supply *bundles, int count);

/* The group gets its bundles, with these GPUs, which are free. */
void bti_group_grant(bti_state *state, bti_group_record *group, const uint64_t *gpus, bti_wakes *wakes);
/* Tasks that wait for groups that were released are refused; groups that are over give back what they have. */
void bti_groups_clean(bti_state *state, bti_wakes *wakes);
/* Has one neither handles nor tasks? */
bool bti_groups_end(const bti_state *state);

#endif

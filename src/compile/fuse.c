/* Which steps are one kernel. */
#include "compile/fuser.h"

/* What is inlined is made once more where it is needed in memory. */
void bti_pass_fuse(bti_planner *planner) {
    bti_fuser *fuser = planner->fuser;
    const bti_plan *plan = planner->plan;
    for (size_t s = 0; s < plan->steps.count && !planner->failed; s++)
        if (fuser->members[s].doer != BTI_INLINED) bti_join_step(fuser, (int32_t)s);
    for (size_t s = 0; s < plan->steps.count && !planner->failed; s++)
        if (fuser->members[s].doer == BTI_INLINED && fuser->members[s].why)
            bti_begin_group(fuser, (int32_t)s, &plan->steps.items[s], BTI_WHY_NONE);
    if (!planner->failed) bti_split_groups(fuser);
    if (!planner->failed) bti_leave_lone_takes(fuser);
    if (!planner->failed && !planner->region) bti_keep_takes(fuser);
}

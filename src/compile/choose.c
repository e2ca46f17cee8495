/* What does each step: a kernel, a routine of the device or of a library that runs one primitive whole, or nobody, where its
 * readers make it themselves. */
#include "compile/fuser.h"

bool bti_is_fusable(const bti_step *step) {
    if (step->kind != BTI_STEP_WORK) return false;
    bti_op op = (bti_op)step->op;
    bti_class class = bti_op_info(op)->class;
    return class == BTI_ELEMENTWISE || op == BTI_OP_copy || op == BTI_OP_const || op == BTI_OP_iota ||
           class == BTI_REDUCE;
}

static bti_doer doer_of(const bti_planner *planner, const bti_step *step) {
    if (bti_loads_graphs(planner, step->device)) return BTI_WHOLE; /* segments.c has the last word */
    if (step->op == BTI_OP_const || step->op == BTI_OP_iota) return BTI_INLINED;
    return planner->how->fusing != BTI_PRIMITIVES && bti_is_fusable(step) ? BTI_BY_KERNEL : BTI_WHOLE;
}

void bti_pass_choose(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    bti_fuser *fuser = planner->fuser;
    fuser->members = bti_calloc(plan->steps.count, sizeof *fuser->members);
    if (!fuser->members) {
        planner->failed = true;
        return;
    }
    for (size_t s = 0; s < plan->steps.count; s++) {
        bti_group_member *member = &fuser->members[s];
        const bti_step *step = &plan->steps.items[s];
        *member = (bti_group_member){.group = -1, .next = -1, .rows = -1, .numbers = -1};
        member->doer = (uint8_t)(bti_is_take(step) && !bti_loads_graphs(planner, step->device) &&
                                         bti_choose_take(planner, step, member)
                                     ? BTI_BY_KERNEL
                                     : doer_of(planner, step));
    }
    for (size_t r = 0; r < plan->results.count; r++) {
        int32_t maker = bti_maker(fuser, plan->results.items[r].value);
        if (maker >= 0) fuser->members[maker].why = BTI_WHY_RESULT;
    }
}

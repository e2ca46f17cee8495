/* Groups that read or leave more than a kernel has operands for are cut. */
#include "compile/fuser.h"

static int real_operands(bti_fuser *fuser, int32_t number) {
    int32_t seen[BTI_KERNEL_OPERANDS];
    int loads = 0, stores = 0;
    for (int32_t m = fuser->groups.items[number].first_member; m >= 0; m = fuser->members[m].next) {
        const bti_step *step = &fuser->plan->steps.items[m];
        stores += fuser->members[m].why != BTI_WHY_NONE;
        for (int i = 0; i < step->input_count; i++) {
            int32_t value = fuser->plan->operands.items[step->first_operand + i], maker = bti_maker(fuser, value);
            bool known =
                maker >= 0 && fuser->members[maker].doer != BTI_INLINED && bti_group_of(fuser, maker) == number;
            for (int k = 0; k < loads && !known; k++) known = seen[k] == value;
            if (known) continue;
            if (loads == BTI_KERNEL_OPERANDS) return loads + 1;
            seen[loads++] = value;
        }
    }
    return loads + stores;
}

/* The second half of its members becomes a group of its own, which reads what it needs of the first from memory. */
static void halve(bti_fuser *fuser, int32_t number) {
    int32_t count = 0, m, second = (int32_t)fuser->groups.count;
    for (m = fuser->groups.items[number].first_member; m >= 0; m = fuser->members[m].next) count++;
    bti_group rest = fuser->groups.items[number];
    if (!bti_vec_push(&fuser->groups, rest)) {
        fuser->planner->failed = true;
        return;
    }
    bti_group *group = &fuser->groups.items[number], *half = &fuser->groups.items[second];
    half->parent = second;
    m = group->first_member;
    for (int32_t i = 1; i < count / 2; i++) m = fuser->members[m].next;
    half->first_member = fuser->members[m].next;
    fuser->members[m].next = -1;
    group->last_member = m;
    for (m = half->first_member; m >= 0; m = fuser->members[m].next) fuser->members[m].group = second;
    for (m = half->first_member; m >= 0; m = fuser->members[m].next) {
        const bti_step *step = &fuser->plan->steps.items[m];
        for (int i = 0; i < step->input_count; i++) {
            int32_t maker = bti_maker(fuser, fuser->plan->operands.items[step->first_operand + i]);
            if (maker >= 0 && !fuser->members[maker].why && bti_group_of(fuser, maker) == number)
                fuser->members[maker].why = BTI_WHY_FULL;
        }
    }
}

void bti_split_groups(bti_fuser *fuser) {
    for (size_t g = 0; g < fuser->groups.count && !fuser->planner->failed; g++) {
        const bti_group *group = &fuser->groups.items[g];
        if (group->parent != (int32_t)g || !group->kernel) continue;
        while (!fuser->planner->failed && fuser->groups.items[g].operands > BTI_KERNEL_OPERANDS &&
               real_operands(fuser, (int32_t)g) > BTI_KERNEL_OPERANDS)
            halve(fuser, (int32_t)g);
    }
}

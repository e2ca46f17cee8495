/* The order of the groups: at the place of its last member, after all that it reads. The plan's steps are then the ones to run. */
#include "compile/fuser.h"
#include "ir/halves.h"

/* A group whose inputs are being written first. */
typedef struct frame {
    int32_t group, member, input; /* twice the input; and 1 for what it is read after */
} frame;

/* The next group that this one reads from, or runs after, and that is not written yet; -1. */
static int32_t next_source(bti_fuser *fuser, frame *f) {
    for (; f->member >= 0; f->member = fuser->members[f->member].next, f->input = 0) {
        const bti_step *step = &fuser->plan->steps.items[f->member];
        while (f->input < 2 * step->input_count) {
            int32_t value = fuser->plan->operands.items[step->first_operand + f->input / 2];
            if (f->input++ % 2) value = bti_read_after(fuser, value);
            int32_t maker = value >= 0 ? bti_maker(fuser, value) : -1;
            int32_t group = maker >= 0 ? bti_group_of(fuser, maker) : -1;
            if (group >= 0 && group != f->group && !fuser->groups.items[group].emitted) return group;
        }
    }
    return -1;
}

static bool write_from(bti_fuser *fuser, bti_written *out, int32_t group) {
    BTI_VEC(frame) stack = {0};
    bool fine = true;
    if (fuser->groups.items[group].emitted) return true;
    fine = bti_vec_push(&stack, ((frame){group, fuser->groups.items[group].first_member, 0}));
    while (fine && stack.count) {
        frame *top = &stack.items[stack.count - 1];
        int32_t before = next_source(fuser, top);
        if (before >= 0)
            fine = bti_vec_push(&stack, ((frame){before, fuser->groups.items[before].first_member, 0}));
        else {
            fuser->groups.items[top->group].emitted = true;
            fine = bti_write_group(fuser, out, top->group);
            stack.count--;
        }
    }
    bti_vec_free(&stack);
    return fine;
}

/* Why each value is in memory, for reports. */
static void note_reasons(bti_fuser *fuser) {
    bti_plan *plan = fuser->plan;
    for (size_t s = 0; s < plan->steps.count; s++)
        for (int o = 0; o < plan->steps.items[s].output_count; o++)
            plan->storages.items[bti_plan_output(plan, &plan->steps.items[s], o)->storage].why = fuser->members[s].why;
}

/* Maps that draw random words run in halves where they can. */
static void note_halves(bti_plan *plan) {
    for (size_t s = 0; s < plan->steps.count; s++) {
        bti_step *step = &plan->steps.items[s];
        const bti_kernel *kernel = step->kind == BTI_STEP_KERNEL ? plan->kernels.items[step->kernel] : NULL;
        if (!kernel || !bti_kernel_draws(kernel)) continue;
        const int64_t *numbers = bti_plan_numbers(plan, step, 0);
        bti_box box;
        box.scalars = plan->scalars.count ? plan->scalars.items + step->first_scalar : NULL;
        for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) box.extent[axis] = *numbers++;
        for (int o = 0; o < bti_kernel_operands(kernel); o++) {
            box.address[o] = (uint64_t)bti_plan_operand(plan, step, o)->layout.offset;
            for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) box.stride[o][axis] = *numbers++;
        }
        step->halved = (uint8_t)(bti_halves_axis(kernel, &box) + 1);
    }
}

void bti_pass_schedule(bti_planner *planner) {
    bti_fuser *fuser = planner->fuser;
    bti_plan *plan = planner->plan;
    bti_written out = {0};
    for (size_t s = 0; s < plan->steps.count && !planner->failed; s++) {
        int32_t group = bti_group_of(fuser, (int32_t)s);
        if (group < 0 || fuser->groups.items[group].last_member != (int32_t)s) continue;
        if (!write_from(fuser, &out, group)) planner->failed = true;
    }
    note_reasons(fuser);
    bti_put_steps(plan, &out);
    if (!planner->failed) note_halves(plan);
}

/* Gathers in kernels: rows that are taken by number (take, gather_axis) need not be written to memory and read again, a kernel of their readers
 * takes them itself. docs/decisions/0026 says which. */
#include "compile/fuser.h"

/* Both views have the shape of the result: `rows` stands still along the axis that is taken from, and `numbers` along all axes that the
 * row numbers have not. */
typedef struct views {
    bti_layout rows, numbers;
} views;

static views views_of(const bti_value *x, const bti_value *y, const bti_value *out, int axis) {
    views v = {.rows = x->layout, .numbers = {.offset = y->layout.offset}};
    v.rows.stride[axis] = 0;
    for (int i = 0; i < out->rank; i++)
        v.numbers.stride[i] = y->rank == out->rank ? y->layout.stride[i] : i == axis ? y->layout.stride[0] : 0;
    return v;
}

/* The points of the nest's last axis, when a kernel does nothing else; whether each of them has a row number of its own. */
static int64_t line_of(const bti_value *out, const views *v, bool *scattered) {
    int64_t extent[BTI_MAX_RANK], rows[BTI_MAX_RANK], numbers[BTI_MAX_RANK], dense[BTI_MAX_RANK];
    for (int i = 0; i < out->rank; i++) {
        extent[i] = out->shape[i];
        rows[i] = v->rows.stride[i];
        numbers[i] = v->numbers.stride[i];
        dense[i] = out->layout.stride[i];
    }
    int axes = bti_axes_collapse(0, out->rank, out->rank, extent, 3, (int64_t *[]){rows, numbers, dense});
    *scattered = axes > 0 && numbers[axes - 1] != 0;
    return axes > 0 ? extent[axes - 1] : 1;
}

/* A line that is shorter than a vector is better copied whole: what reads it then has a longer one. Threads are dealt points whatever the
 * line is. */
static bool is_long_enough(const bti_target_facts *target, int64_t line, int64_t count) {
    return target->group_threads > 1 || line >= target->lanes || line == count;
}

bool bti_choose_take(bti_planner *planner, const bti_step *step, bti_group_member *member) {
    const bti_plan *plan = planner->plan;
    if (planner->how->fusing != BTI_FUSED) return false;
    const bti_value x = *bti_plan_operand(plan, step, 0), y = *bti_plan_operand(plan, step, 1);
    const bti_value out = *bti_plan_output(plan, step, 0);
    int axis = (int)step->node->attr->axis.axis;
    int64_t count;
    if (!bti_shape_count(out.rank, out.shape, &count) || count == 0 || x.shape[axis] == 0) return false;
    views v = views_of(&x, &y, &out, axis);
    int64_t line = line_of(&out, &v, &member->scattered);
    if (!is_long_enough(planner->how->target(step->device), line, count)) {
        member->scattered = false;
        return false;
    }
    const int32_t *inputs = plan->operands.items + step->first_operand;
    member->rows = bti_add_view(planner, inputs[0], out.rank, out.shape, &v.rows);
    member->numbers = bti_add_view(planner, inputs[1], out.rank, out.shape, &v.numbers);
    return true;
}

/* A step reads from memory what a kernel would have made itself. */
static void make_inlined_inputs(bti_fuser *fuser, const bti_step *step) {
    for (int i = 0; i < step->input_count && !fuser->planner->failed; i++) {
        int32_t maker = bti_maker(fuser, fuser->plan->operands.items[step->first_operand + i]);
        if (maker < 0 || fuser->members[maker].doer != BTI_INLINED || fuser->members[maker].why) continue;
        fuser->members[maker].why = BTI_WHY_WORK;
        bti_begin_group(fuser, maker, &fuser->plan->steps.items[maker], BTI_WHY_NONE);
    }
}

void bti_leave_lone_takes(bti_fuser *fuser) {
    for (size_t g = 0; g < fuser->groups.count; g++) {
        bti_group *group = &fuser->groups.items[g];
        bool lone = group->parent == (int32_t)g && group->kernel && group->first_member == group->last_member;
        int32_t member = group->first_member;
        if (!lone || fuser->members[member].rows < 0) continue;
        group->kernel = false;
        make_inlined_inputs(fuser, &fuser->plan->steps.items[member]);
    }
}

void bti_keep_takes(bti_fuser *fuser) {
    bti_plan *plan = fuser->plan;
    for (size_t s = 0; s < plan->steps.count && !fuser->planner->failed; s++) {
        const bti_step *step = &plan->steps.items[s];
        bti_group_member *member = &fuser->members[s];
        bti_node *node = (bti_node *)step->node;
        if (!bti_is_take(step) || bti_step_is_inner(fuser->planner, step)) continue;
        if (member->why == BTI_WHY_RESULT || !atomic_load(&node->handles)) continue;
        if (!member->why && fuser->groups.items[bti_group_of(fuser, (int32_t)s)].kernel) continue;
        bti_plan_result kept = {node, plan->operands.items[step->first_operand + step->input_count], -1};
        if (!bti_vec_push(&plan->results, kept)) fuser->planner->failed = true;
        member->why = BTI_WHY_RESULT;
    }
}

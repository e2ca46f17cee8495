/* Which output takes the memory of a given storage that the caller gives up. It comes after the passes: a run may also not give it up, and then
 * the plan is the same. */
#include "compile/planner.h"

static bool uses(const bti_plan *plan, const bti_step *step, int32_t storage, bool written) {
    int first = written ? step->input_count : 0;
    for (int i = first; i < step->input_count + (written ? step->output_count : 0); i++)
        if (bti_plan_operand(plan, step, i)->storage == storage) return true;
    return false;
}

/* A collective, or a copy to another device, runs beside the steps that follow it. */
static bool is_used_beside(const bti_plan *plan, int32_t storage) {
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        bool beside = step->kind == BTI_STEP_COLLECTIVE || step->kind == BTI_STEP_COPY;
        if (beside && (uses(plan, step, storage, false) || uses(plan, step, storage, true))) return true;
    }
    return false;
}

static bool is_taken(const bti_plan *plan, int32_t output) {
    for (size_t d = 0; d < plan->donations.count; d++)
        if (plan->donations.items[d].output == output) return true;
    return false;
}

static int count_writers(const bti_plan *plan, int32_t storage) {
    int writers = 0;
    for (size_t s = 0; s < plan->steps.count; s++) writers += uses(plan, &plan->steps.items[s], storage, true);
    return writers;
}

static bool can_take_over(const bti_plan *plan, const bti_storage *from, int32_t output) {
    const bti_storage *to = &plan->storages.items[output];
    return bti_plan_keeps(plan, to) && to->device == from->device && to->bytes == from->bytes &&
           !is_taken(plan, output) && !is_used_beside(plan, output) && count_writers(plan, output) == 1;
}

/* The first output that is written when the storage is read for the last time, or later; -1: none. */
static int32_t find_output(const bti_plan *plan, int32_t given) {
    const bti_storage *from = &plan->storages.items[given];
    for (size_t s = (size_t)from->last_step; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind == BTI_STEP_COPY) continue; /* what arrives from elsewhere has a block of its own */
        for (int o = 0; o < step->output_count; o++) {
            int32_t output = bti_plan_output(plan, step, o)->storage;
            if (output < 0 || !can_take_over(plan, from, output)) continue;
            if (s > (size_t)from->last_step || bti_writes_over(plan, step, o, given)) return output;
        }
    }
    return -1;
}

bool bti_passes_on(const bti_plan *plan, int32_t given, int32_t output) {
    const bti_storage *from = &plan->storages.items[given], *to = &plan->storages.items[output];
    if (from->last_step > to->first_step) return false;
    if (is_used_beside(plan, given) || !can_take_over(plan, from, output)) return false;
    const bti_step *step = &plan->steps.items[to->first_step];
    for (int o = 0; o < step->output_count && from->last_step == to->first_step; o++)
        if (bti_plan_output(plan, step, o)->storage == output) return bti_writes_over(plan, step, o, given);
    return true;
}

bool bti_plan_donate(bti_plan *plan, int32_t given) {
    const bti_storage *from = &plan->storages.items[given];
    bool ends = from->last_step >= 0 && from->last_step < (int32_t)plan->steps.count;
    if (!ends || from->bytes == 0 || is_used_beside(plan, given)) return true;
    bti_donation donation = {given, find_output(plan, given)};
    return bti_vec_push(&plan->donations, donation);
}

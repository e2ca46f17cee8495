#include "exec/tasks.h"

#include "base/alloc.h"

bool bti_tasks_add(bti_prepared *of, uint64_t *numbers, bti_run_task_plan task) {
    if (task.device >= of->devices) of->devices = task.device + 1;
    numbers[task.device]++;
    return bti_vec_push(&of->tasks, task);
}

/* --- collectives ------------------------------------------------------------------------------------------------------ */

static bool note_elements(bti_prepared *of, size_t step, bti_collective_plan *made) {
    const bti_step *s = &of->plan.steps.items[step];
    int arrays = s->input_count / s->group;
    *made = (bti_collective_plan){.step = step, .first_member = of->members.count, .group = s->group};
    made->elements = bti_alloc((size_t)arrays * sizeof *made->elements);
    for (int a = 0; a < arrays && made->elements; a++) {
        const bti_value *value = bti_plan_operand(&of->plan, s, a * s->group);
        made->elements[a] = 1;
        for (int axis = 0; axis < value->rank; axis++) made->elements[a] *= (size_t)value->shape[axis];
    }
    return made->elements && bti_vec_push(&of->collectives, *made);
}

bool bti_tasks_arrive(bti_prepared *of, uint64_t *numbers, size_t step) {
    const bti_step *s = &of->plan.steps.items[step];
    bti_collective_plan made;
    for (int m = 0; m < s->group; m++)
        if (!bti_tasks_join(of, numbers, bti_plan_device(&of->plan, s, m), of->plan.operands.items + s->first_operand,
                            s->input_count))
            return false;
    if (!note_elements(of, step, &made)) {
        bti_free(made.elements);
        return false;
    }
    for (int m = 0; m < s->group; m++) {
        int device = bti_plan_device(&of->plan, s, m);
        bti_run_task_plan task = {.kind = BTI_TASK_ARRIVE, .device = device, .member = of->members.count};
        bti_member_plan member = {of->collectives.count - 1, device, numbers[device] + 1, false};
        if (!bti_vec_push(&of->members, member) || !bti_tasks_add(of, numbers, task)) return false;
    }
    return true;
}

static bool add_join(bti_prepared *of, uint64_t *numbers, size_t number) {
    bti_member_plan *member = &of->members.items[number];
    const bti_collective_plan *collective = &of->collectives.items[member->collective];
    const bti_step *step = &of->plan.steps.items[collective->step];
    bti_run_task_plan task = {.kind = BTI_TASK_JOIN, .device = member->device, .member = number};
    if (!bti_tasks_add(of, numbers, task)) return false;
    member->joined = true;
    for (int o = (int)(number - collective->first_member); o < step->output_count; o += step->group)
        of->ready[bti_plan_output(&of->plan, step, o)->storage] = numbers[member->device];
    return true;
}

/* --- copies ----------------------------------------------------------------------------------------------------------- */

bool bti_tasks_send(bti_prepared *of, uint64_t *numbers, size_t step) {
    const bti_step *s = &of->plan.steps.items[step];
    int to = of->plan.storages.items[bti_plan_output(&of->plan, s, 0)->storage].device;
    if (!bti_tasks_join(of, numbers, s->device, of->plan.operands.items + s->first_operand, s->input_count))
        return false;
    bti_run_task_plan task = {.kind = BTI_TASK_SEND, .device = s->device, .send = of->sends.count};
    bti_send_plan send = {.step = step,
                          .from = s->device,
                          .to = to,
                          .number = numbers[s->device] + 1,
                          .to_host = bti_device_is_fetched(to, s->device)};
    send.is_fetched = send.to_host && !bti_device_fetches(s->device);
    return bti_vec_push(&of->sends, send) && bti_tasks_add(of, numbers, task);
}

static bool add_receipt(bti_prepared *of, uint64_t *numbers, size_t number) {
    bti_send_plan *send = &of->sends.items[number];
    bti_run_task_plan task = {.kind = BTI_TASK_RECEIVE, .device = send->to, .send = number, .alone = send->is_fetched};
    task.by_clock = send->to_host && bti_device_has_clock(send->from);
    if (!bti_tasks_add(of, numbers, task)) return false;
    send->received = true;
    of->ready[bti_plan_output(&of->plan, &of->plan.steps.items[send->step], 0)->storage] = numbers[send->to];
    return true;
}

/* --- what readers wait for -------------------------------------------------------------------------------------------- */

static bool makes(const bti_plan *plan, size_t number, const int32_t *operands, int count) {
    const bti_step *step = &plan->steps.items[number];
    for (int o = 0; o < step->output_count; o++) {
        int32_t made = bti_plan_output(plan, step, o)->storage;
        for (int i = 0; i < count; i++)
            if (plan->values.items[operands[i]].storage == made) return true;
    }
    return false;
}

bool bti_tasks_join(bti_prepared *of, uint64_t *numbers, int device, const int32_t *operands, int count) {
    for (size_t m = 0; m < of->members.count; m++) {
        const bti_member_plan *member = &of->members.items[m];
        if (member->joined || member->device != device) continue;
        size_t step = of->collectives.items[member->collective].step;
        if (makes(&of->plan, step, operands, count) && !add_join(of, numbers, m)) return false;
    }
    for (size_t i = 0; i < of->sends.count; i++) {
        const bti_send_plan *send = &of->sends.items[i];
        if (send->received || send->to != device || !makes(&of->plan, send->step, operands, count)) continue;
        if (!add_receipt(of, numbers, i)) return false;
    }
    return true;
}

bool bti_tasks_join_all(bti_prepared *of, uint64_t *numbers) {
    for (size_t m = 0; m < of->members.count; m++)
        if (!of->members.items[m].joined && !add_join(of, numbers, m)) return false;
    for (size_t i = 0; i < of->sends.count; i++)
        if (!of->sends.items[i].received && !add_receipt(of, numbers, i)) return false;
    return true;
}

/* --- in a run --------------------------------------------------------------------------------------------------------- */

void bti_joined_begin(bti_run *run) {
    const bti_prepared *of = run->prepared;
    for (size_t c = 0; c < of->collectives.count; c++) {
        run->collectives[c] = (bti_run_collective){0};
        atomic_store(&run->collectives[c].missing, of->collectives.items[c].group);
    }
    for (size_t i = 0; i < of->sends.count; i++) run->sends[i] = (bti_run_send){0};
}

void bti_joined_end(bti_run *run) {
    for (size_t c = 0; c < run->prepared->collectives.count; c++)
        bti_error_release(atomic_exchange(&run->collectives[c].error, NULL));
    for (size_t i = 0; i < run->prepared->sends.count; i++)
        bti_error_release(atomic_exchange(&run->sends[i].error, NULL));
}

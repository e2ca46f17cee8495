#include "exec/prepared.h"

#include <string.h>

#include "exec/recordings.h"
#include "render/render.h"
#include "base/lock.h"

/* --- making ready ------------------------------------------------------------------------------------------------------ */

void bti_prepared_release(bti_prepared *of) {
    if (!of || atomic_fetch_sub_explicit(&of->refs, 1, memory_order_acq_rel) != 1) return;
    while (of->idle) {
        bti_run *run = of->idle;
        of->idle = run->next;
        bti_free(run);
    }
    for (size_t s = 0; s < of->plan.steps.count && of->steps; s++) bti_program_release(of->steps[s].program);
    bti_plan_free(&of->plan);
    bti_free(of->steps);
    bti_free(of->operands);
    bti_free(of->attrs);
    bti_free(of->ready);
    for (size_t t = 0; t < of->tasks.count; t++) bti_recordings_free(of->tasks.items[t].recordings);
    bti_vec_free(&of->tasks);
    bti_lock_destroy(&of->lock);
    bti_free(of);
}

void bti_run_done(bti_run *run) {
    if (atomic_fetch_sub_explicit(&run->tasks_left, 1, memory_order_acq_rel) != 1) return;
    bti_prepared *of = run->prepared;
    for (size_t s = 0; s < of->plan.storages.count; s++) {
        bti_buffer_release(run->buffers[s]);
        bti_error_release(run->errors[s]);
        run->buffers[s] = NULL;
        run->errors[s] = NULL;
    }
    for (size_t d = 0; d < of->plan.arenas.count; d++) {
        bti_buffer_release(run->arenas[d]);
        run->arenas[d] = NULL;
    }
    bti_lock_take(&of->lock);
    run->next = of->idle;
    of->idle = run;
    bti_lock_give(&of->lock);
    bti_prepared_release(of);
}

const bti_plan *bti_prepared_plan(const bti_prepared *of) { return &of->plan; }

static bti_operand operand_of(const bti_value *value) {
    bti_operand operand = {.dtype = value->dtype, .rank = value->rank};
    memcpy(operand.shape, value->shape, sizeof operand.shape);
    memcpy(operand.stride, value->layout.stride, sizeof operand.stride);
    return operand;
}

static bt_status ready_work(bti_prepared *of, size_t s, size_t *operand, size_t *attr) {
    const bti_step *step = &of->plan.steps.items[s];
    bti_ready_step *ready = &of->steps[s];
    ready->first_operand = *operand;
    ready->first_attr = *attr;
    for (int o = 0; o <= step->input_count; o++)
        of->operands[(*operand)++] = operand_of(bti_plan_operand(&of->plan, step, o));
    if (step->op == BTI_OP_const) {
        of->attrs[(*attr)++] = (int64_t)of->plan.scalars.items[step->first_scalar];
        ready->attr_count = 1;
    } else if (step->op == step->node->op) {
        ready->attr_count = step->node->attr_count;
        if (ready->attr_count)
            memcpy(of->attrs + *attr, step->node->attr, (size_t)ready->attr_count * sizeof *of->attrs);
        *attr += (size_t)ready->attr_count;
    }
    bti_program_source source = {.op = (bti_op)step->op, .render = bti_render, .render_work = bti_render_work};
    for (int i = 0; i < step->input_count && i < BTI_SOURCE_DTYPES - 1; i++)
        source.dtypes[source.dtype_count++] = bti_plan_operand(&of->plan, step, i)->dtype;
    source.dtypes[source.dtype_count++] = bti_plan_output(&of->plan, step, 0)->dtype;
    return bti_device_program(step->device, &source, &ready->program);
}

static int add_operation(const char **operations, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (operations[i] == name) return count;
    if (count < BTI_TRACE_OPERATIONS) operations[count++] = name;
    return count;
}

bti_trace_asked bti_trace_asked_of(const bti_plan *plan, const bti_step *step) {
    bti_trace_asked asked = {.place = step->node->place};
    const char *last = asked.place.name;
    int count = 0;
    if (step->kind == BTI_STEP_KERNEL)
        for (int m = 0; m < step->member_count && count < BTI_TRACE_OPERATIONS - 1; m++) {
            const char *name = plan->members.items[step->first_member + m]->place.name;
            if (name && name != last) count = add_operation(asked.operations, count, name);
        }
    if (last) add_operation(asked.operations, count, last);
    return asked;
}

static bt_status ready_step(bti_prepared *of, size_t s, size_t *operand, size_t *attr) {
    const bti_step *step = &of->plan.steps.items[s];
    of->steps[s].asked = bti_trace_asked_of(&of->plan, step);
    if (step->kind == BTI_STEP_COPY) return BT_OK;
    if (step->kind == BTI_STEP_WORK) return ready_work(of, s, operand, attr);
    bti_program_source source = {.kernel = of->plan.kernels.items[step->kernel], .render = bti_render};
    return bti_device_program(step->device, &source, &of->steps[s].program);
}

static bool add_task(bti_prepared *of, uint64_t *numbers, bti_run_task_plan task) {
    if (task.device >= of->devices) of->devices = task.device + 1;
    numbers[task.device]++;
    return bti_vec_push(&of->tasks, task);
}

/* Neighbouring steps of one device are one task; who receives a copy waits for it. */
static bool plan_tasks(bti_prepared *of) {
    uint64_t numbers[BTI_MAX_DEVICES] = {0};
    bool open = false;
    of->only_device = of->plan.steps.count ? of->plan.steps.items[0].device : 0;
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        const bti_step *step = &of->plan.steps.items[s];
        if (!open || of->tasks.items[of->tasks.count - 1].device != step->device) {
            if (!add_task(of, numbers, (bti_run_task_plan){.device = step->device, .first = s, .last = s}))
                return false;
            open = true;
        }
        of->tasks.items[of->tasks.count - 1].last = s + 1;
        if (step->kind == BTI_STEP_COPY) of->tasks.items[of->tasks.count - 1].alone = true;
        if (step->device != of->only_device || step->kind == BTI_STEP_COPY) of->only_device = -1;
        if (step->kind == BTI_STEP_COPY) {
            int to = of->plan.storages.items[bti_plan_output(&of->plan, step, 0)->storage].device;
            bti_run_task_plan wait = {.device = to, .first = s, .last = s, .wait_device = step->device, .alone = true};
            wait.wait_number = numbers[step->device];
            if (!add_task(of, numbers, wait)) return false;
            open = false;
        }
        for (int o = 0; o < step->output_count; o++) {
            int32_t storage = bti_plan_output(&of->plan, step, o)->storage;
            of->ready[storage] = numbers[of->plan.storages.items[storage].device];
        }
    }
    return true;
}

#define BRIEF 200000.0 /* points times instructions: some tens of microseconds */

static bool is_brief(const bti_plan *plan) {
    double work = 0;
    for (size_t s = 0; s < plan->steps.count && work <= BRIEF; s++) {
        const bti_step *step = &plan->steps.items[s];
        double points = 1;
        if (step->kind == BTI_STEP_KERNEL) {
            const bti_kernel *kernel = plan->kernels.items[step->kernel];
            for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
                points *= (double)plan->numbers.items[step->first_number + axis];
            points *= kernel->instr_count;
        } else {
            const bti_value *first = bti_plan_operand(plan, step, 0);
            const bti_value *out = bti_plan_output(plan, step, 0);
            for (int i = 0; i < out->rank; i++) points *= (double)out->shape[i];
            if (step->op == BTI_OP_matmul) points *= (double)first->shape[first->rank - 1] / 8;
        }
        work += points + 100;
    }
    return work <= BRIEF;
}

#define LEAST_RECORDED_STEPS 3 /* fewer are launched as fast one by one */

static bool is_recordable(const bti_prepared *of, const bti_run_task_plan *task) {
    if (task->last - task->first < LEAST_RECORDED_STEPS || !bti_device_records(task->device)) return false;
    for (size_t s = task->first; s < task->last; s++)
        if (of->plan.steps.items[s].kind == BTI_STEP_COPY) return false;
    return true;
}

static bool allocate_prepared(bti_prepared *of) {
    size_t attrs = 0;
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        const bti_step *step = &of->plan.steps.items[s];
        if (step->kind != BTI_STEP_WORK) continue;
        of->operand_count += (size_t)step->input_count + 1;
        attrs += (size_t)step->node->attr_count + 1;
    }
    of->steps = bti_calloc(of->plan.steps.count, sizeof *of->steps);
    of->operands = bti_calloc(of->operand_count, sizeof *of->operands);
    of->attrs = bti_calloc(attrs, sizeof *of->attrs);
    of->ready = bti_calloc(of->plan.storages.count, sizeof *of->ready);
    if (!of->steps || !of->operands || !of->attrs || !of->ready || !plan_tasks(of)) return false;
    for (size_t t = 0; t < of->tasks.count; t++)
        if (is_recordable(of, &of->tasks.items[t]))
            of->tasks.items[t].recordings = bti_recordings_new(of->tasks.items[t].device);
    of->brief = (of->only_device >= 0 && bti_device_is_async(of->only_device)) || is_brief(&of->plan);
    return true;
}

bt_status bti_exec_prepare(bti_plan *plan, bti_prepared **prepared) {
    uint64_t start = bti_trace_begin();
    bti_prepared *of = bti_calloc(1, sizeof *of);
    if (!of) return bti_no_memory();
    atomic_init(&of->refs, 1);
    bti_lock_init(&of->lock, BTI_LOCK_prepared);
    of->plan = *plan;
    *plan = (bti_plan){0};
    bt_status status = allocate_prepared(of) ? BT_OK : bti_no_memory();
    size_t operand = 0, attr = 0;
    for (size_t s = 0; s < of->plan.steps.count && status == BT_OK; s++) status = ready_step(of, s, &operand, &attr);
    bti_trace_end(BTI_TRACE_PREPARE, "prepare", start);
    if (status == BT_OK)
        *prepared = of;
    else
        bti_prepared_release(of);
    return status;
}

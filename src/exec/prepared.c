#include "exec/prepared.h"

#include <string.h>

#include "exec/host.h"
#include "exec/recordings.h"
#include "exec/texts.h"
#include "base/lock.h"
#include "ir/halves.h"

/* --- making ready ------------------------------------------------------------------------------------------------------ */

void bti_prepared_release(bti_prepared *of) {
    if (!of || atomic_fetch_sub_explicit(&of->refs, 1, memory_order_acq_rel) != 1) return;
    while (of->idle) {
        bti_run *run = of->idle;
        of->idle = run->next;
        bti_free(run);
    }
    for (size_t s = 0; s < of->plan.steps.count && of->steps; s++) {
        bti_program_release(of->steps[s].program);
        bti_host_release(of->steps[s].host);
        bti_free(of->steps[s].numbers);
        for (int r = 0; r < BTI_MAX_REGIONS; r++) bti_prepared_release(of->steps[s].regions[r]);
    }
    if (!of->of_region) bti_plan_free(&of->plan);
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

static void name_dtype(bti_program_source *source, const bti_value *value) {
    source->dtypes[source->dtype_count++] = value->dtype;
}

/* A product and its epilogue are one program. */
static bt_status ready_product(bti_prepared *of, size_t s, size_t *operand) {
    const bti_step *step = &of->plan.steps.items[s];
    int first = bti_step_kernel_inputs(step);
    const bti_value *values[] = {bti_plan_operand(&of->plan, step, first), bti_plan_operand(&of->plan, step, first + 1),
                                 bti_plan_operand(&of->plan, step, step->made)};
    bti_program_source source = {
        .op = BTI_OP_matmul, .kernel = of->plan.kernels.items[step->kernel], .made = step->made};
    of->steps[s].first_operand = *operand;
    for (int i = 0; i < 3; i++) {
        of->operands[(*operand)++] = operand_of(values[i]);
        name_dtype(&source, values[i]);
    }
    return bti_texts_program(step->device, &source, &of->steps[s].program);
}

static bt_status ready_own_kernel(bti_prepared *of, size_t s) {
    const bti_step *step = &of->plan.steps.items[s];
    bti_ready_step *ready = &of->steps[s];
    ready->number_count = bti_host_kernel_numbers(&of->plan, step);
    ready->numbers = bti_alloc(((size_t)ready->number_count + 1) * sizeof *ready->numbers);
    if (!ready->numbers) return bti_no_memory();
    return bti_host_kernel(step->node->host, &of->plan, step, ready->numbers, &ready->grid, &ready->program);
}

static bt_status ready_work(bti_prepared *of, size_t s, size_t *operand, bti_attr **attr) {
    const bti_step *step = &of->plan.steps.items[s];
    bti_ready_step *ready = &of->steps[s];
    ready->attr = *attr;
    if (step->op == BTI_OP_const)
        (*attr)->constant.bits = of->plan.scalars.items[step->first_scalar];
    else if (step->op == step->node->op && step->node->attr)
        memcpy(*attr, step->node->attr, bti_attr_bytes((bti_op)step->op));
    (*attr)++;
    if (bti_step_is_host(step)) {
        ready->host = bti_host_retain(step->node->host);
        return bti_host_can_run_on(ready->host, step->device);
    }
    ready->first_operand = *operand;
    for (int o = 0; o < step->input_count + step->output_count; o++)
        of->operands[(*operand)++] = operand_of(bti_plan_operand(&of->plan, step, o));
    bti_program_source source = {.op = (bti_op)step->op};
    for (int i = 0; i < step->input_count && i < BTI_SOURCE_DTYPES - 1; i++)
        name_dtype(&source, bti_plan_operand(&of->plan, step, i));
    const bti_tuple *tuple = step->node->op == step->op ? step->node->tuple : NULL;
    if (tuple) /* whether or not somebody reads its first result */
        source.dtypes[source.dtype_count++] = tuple->types[0].dtype;
    else
        name_dtype(&source, bti_plan_output(&of->plan, step, 0));
    return bti_texts_program(step->device, &source, &ready->program);
}

static int add_operation(const char **operations, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (operations[i] == name) return count;
    if (count < BTI_TRACE_OPERATIONS) operations[count++] = name;
    return count;
}

bti_trace_asked bti_trace_asked_of(const bti_plan *plan, const bti_step *step) {
    bti_trace_asked asked = {.place = step->node->place};
    if (step->kind == BTI_STEP_WORK && step->op == BTI_OP_custom) asked.own = step->node->host->name;
    const char *last = asked.place.name;
    int count = 0;
    if (bti_step_has_kernel(step))
        for (int m = 0; m < step->member_count && count < BTI_TRACE_OPERATIONS - 1; m++) {
            const char *name = plan->members.items[step->first_member + m]->place.name;
            if (name && name != last) count = add_operation(asked.operations, count, name);
        }
    if (last) add_operation(asked.operations, count, last);
    return asked;
}

static bt_status prepare(bti_plan *plan, bool of_region, bti_prepared **prepared);

static bt_status ready_control(bti_prepared *of, size_t s) {
    const bti_control *control = &of->plan.controls.items[of->plan.steps.items[s].control];
    for (int p = 0; p < control->plan_count; p++) BTI_TRY(prepare(&control->plans[p], true, &of->steps[s].regions[p]));
    return BT_OK;
}

/* The kernel in halves is not on the stack: plans of regions are made ready in each other. */
static bt_status ready_kernel(bti_prepared *of, size_t s) {
    const bti_step *step = &of->plan.steps.items[s];
    bti_program_source source = {.kernel = of->plan.kernels.items[step->kernel]};
    if (!step->halved) return bti_texts_program(step->device, &source, &of->steps[s].program);
    bti_kernel *halved = bti_alloc(sizeof *halved);
    if (!halved) return bti_no_memory();
    bti_halves_kernel(source.kernel, step->halved - 1, halved);
    source.kernel = halved;
    bt_status status = bti_texts_program(step->device, &source, &of->steps[s].program);
    bti_free(halved);
    return status;
}

static bt_status ready_step(bti_prepared *of, size_t s, size_t *operand, bti_attr **attr) {
    const bti_step *step = &of->plan.steps.items[s];
    of->steps[s].asked = bti_trace_asked_of(&of->plan, step);
    if (step->kind == BTI_STEP_COPY) return BT_OK;
    if (step->kind == BTI_STEP_CONTROL) return ready_control(of, s);
    if (step->own_kernel) return ready_own_kernel(of, s);
    if (step->kind == BTI_STEP_WORK) return ready_work(of, s, operand, attr);
    if (step->kind == BTI_STEP_PRODUCT) return ready_product(of, s, operand);
    return ready_kernel(of, s);
}

static bool add_task(bti_prepared *of, uint64_t *numbers, bti_run_task_plan task) {
    if (task.device >= of->devices) of->devices = task.device + 1;
    numbers[task.device]++;
    return bti_vec_push(&of->tasks, task);
}

/* Whether the step, or one of its regions, calls a function of the program's. */
static bool calls_host(const bti_plan *plan, const bti_step *step) {
    if (step->kind != BTI_STEP_CONTROL) return bti_step_is_host(step);
    const bti_control *control = &plan->controls.items[step->control];
    for (int p = 0; p < control->plan_count; p++)
        for (size_t s = 0; s < control->plans[p].steps.count; s++)
            if (calls_host(&control->plans[p], &control->plans[p].steps.items[s])) return true;
    return false;
}

/* Neighbouring steps of one device are one task; who receives a copy waits for it. */
static bool plan_tasks(bti_prepared *of) {
    uint64_t numbers[BTI_MAX_DEVICES] = {0};
    bool open = false;
    of->only_device = of->plan.steps.count ? of->plan.steps.items[0].device : 0;
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        const bti_step *step = &of->plan.steps.items[s];
        /* The host waits for the device before it calls, and launches no more until it has called. */
        bool told = calls_host(&of->plan, step), own_task = told && !bti_device_has_host_memory(step->device);
        bool alone = own_task || step->kind == BTI_STEP_COPY;
        if (!open || own_task || of->tasks.items[of->tasks.count - 1].device != step->device) {
            if (!add_task(of, numbers, (bti_run_task_plan){.device = step->device, .first = s, .last = s}))
                return false;
            open = true;
        }
        of->tasks.items[of->tasks.count - 1].last = s + 1;
        if (alone) of->tasks.items[of->tasks.count - 1].alone = true;
        if (step->device != of->only_device || alone || told) of->only_device = -1; /* nobody may ever wait for it */
        if (own_task) open = false;
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

static double kernel_points(const bti_plan *plan, const bti_step *step) {
    double all = 0;
    for (int b = 0; b < step->box_count; b++) {
        const int64_t *extent = bti_plan_numbers(plan, step, b);
        double points = 1;
        for (int axis = 0; axis < bti_kernel_axes(plan->kernels.items[step->kernel]); axis++)
            points *= (double)extent[axis];
        all += points;
    }
    return all;
}

/* As many points as its multiplications take the time of. */
static double product_points(const bti_plan *plan, const bti_step *step) {
    const bti_value *left = bti_plan_operand(plan, step, bti_step_kernel_inputs(step));
    return kernel_points(plan, step) * (double)left->shape[left->rank - 1] / 8;
}

static bool is_brief(const bti_plan *plan) {
    double work = 0;
    for (size_t s = 0; s < plan->steps.count && work <= BRIEF; s++) {
        const bti_step *step = &plan->steps.items[s];
        double points = 1;
        if (step->kind == BTI_STEP_CONTROL) return false;
        if (bti_step_is_host(step) || step->own_kernel) return false; /* nobody knows */
        if (bti_step_has_kernel(step)) {
            points = kernel_points(plan, step) * plan->kernels.items[step->kernel]->instr_count;
            if (step->kind == BTI_STEP_PRODUCT) work += product_points(plan, step);
        } else {
            const bti_value *first = bti_plan_operand(plan, step, 0);
            bool is_order = bti_op_info((bti_op)step->op)->class == BTI_ORDER;
            const bti_value *out = is_order ? first : bti_plan_output(plan, step, 0);
            for (int i = 0; i < out->rank; i++) points *= (double)out->shape[i];
            if (step->op == BTI_OP_matmul) points *= (double)first->shape[first->rank - 1] / 8;
        }
        work += points + 100;
    }
    return work <= BRIEF;
}

#define LEAST_RECORDED_STEPS 3 /* fewer are launched as fast one by one */

/* How many launches it takes; BTI_MOST_RECORDED + 1: too many, or as many as the device tells. */
#define BTI_MOST_RECORDED 4096
static int64_t launches_of(const bti_plan *plan, size_t first, size_t last) {
    int64_t launches = 0;
    for (size_t s = first; s < last && launches <= BTI_MOST_RECORDED; s++) {
        const bti_step *step = &plan->steps.items[s];
        launches++;
        if (step->kind != BTI_STEP_CONTROL) continue;
        const bti_control *control = &plan->controls.items[step->control];
        if (control->op != BTI_OP_scan || control->steps > BTI_MOST_RECORDED) return BTI_MOST_RECORDED + 1;
        launches += control->steps * launches_of(&control->plans[0], 0, control->plans[0].steps.count);
    }
    return launches;
}

static bool is_recordable(const bti_prepared *of, const bti_run_task_plan *task) {
    if (task->last - task->first < LEAST_RECORDED_STEPS || !bti_device_records(task->device)) return false;
    for (size_t s = task->first; s < task->last; s++)
        if (of->plan.steps.items[s].kind == BTI_STEP_COPY || calls_host(&of->plan, &of->plan.steps.items[s]))
            return false;
    return launches_of(&of->plan, task->first, task->last) <= BTI_MOST_RECORDED;
}

/* Whether launching it waits for the device: a test, or a predicate, is read. */
static bool launches_wait(const bti_plan *plan) {
    for (size_t c = 0; c < plan->controls.count; c++) {
        const bti_control *control = &plan->controls.items[c];
        if (control->op != BTI_OP_scan || launches_wait(&control->plans[0])) return true;
    }
    return false;
}

static bool allocate_prepared(bti_prepared *of) {
    size_t works = 0;
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        const bti_step *step = &of->plan.steps.items[s];
        if (step->kind == BTI_STEP_PRODUCT) of->operand_count += 3;
        if (step->kind != BTI_STEP_WORK) continue;
        if (!bti_step_is_host(step) && !step->own_kernel)
            of->operand_count += (size_t)step->input_count + (size_t)step->output_count;
        works++;
    }
    of->steps = bti_calloc(of->plan.steps.count, sizeof *of->steps);
    of->operands = bti_calloc(of->operand_count, sizeof *of->operands);
    of->attrs = bti_calloc(works, sizeof *of->attrs);
    of->ready = bti_calloc(of->plan.storages.count, sizeof *of->ready);
    if (!of->steps || !of->operands || !of->attrs || !of->ready) return false;
    if (of->of_region) return true;
    if (!plan_tasks(of)) return false;
    for (size_t t = 0; t < of->tasks.count; t++)
        if (is_recordable(of, &of->tasks.items[t]))
            of->tasks.items[t].recordings = bti_recordings_new(of->tasks.items[t].device);
    /* A device with a clock computes while it is launched, whoever launches; by the caller's thread, so that a timeline repeats. */
    bool launched = of->only_device >= 0 && bti_device_is_async(of->only_device) &&
                    (bti_device_has_clock(of->only_device) || !launches_wait(&of->plan));
    of->brief = launched || is_brief(&of->plan);
    return true;
}

/* Takes the plan over; that of a region belongs to its step. */
static bt_status prepare(bti_plan *plan, bool of_region, bti_prepared **prepared) {
    bti_prepared *of = bti_calloc(1, sizeof *of);
    if (!of) {
        if (!of_region) bti_plan_free(plan);
        return bti_no_memory();
    }
    atomic_init(&of->refs, 1);
    bti_lock_init(&of->lock, BTI_LOCK_prepared);
    of->plan = *plan;
    of->of_region = of_region;
    bt_status status = allocate_prepared(of) ? BT_OK : bti_no_memory();
    size_t operand = 0;
    bti_attr *attr = of->attrs;
    for (size_t s = 0; s < of->plan.steps.count && status == BT_OK; s++) status = ready_step(of, s, &operand, &attr);
    if (status == BT_OK)
        *prepared = of;
    else
        bti_prepared_release(of);
    return status;
}

bt_status bti_exec_prepare(bti_plan *plan, bti_prepared **prepared) {
    uint64_t start = bti_trace_begin();
    bti_plan taken = *plan;
    *plan = (bti_plan){0};
    *prepared = NULL;
    bt_status status = prepare(&taken, false, prepared);
    bti_trace_end(BTI_TRACE_PREPARE, "prepare", start);
    return status;
}

/* --- runs ------------------------------------------------------------------------------------------------------------- */

static bti_run *run_new(bti_prepared *of) {
    size_t storages = of->plan.storages.count, devices = of->plan.arenas.count, tasks = of->tasks.count;
    size_t bytes = sizeof(bti_run) + storages * 4 * sizeof(uint64_t) + devices * sizeof(bti_buffer *) +
                   of->operand_count * sizeof(bti_operand) + tasks * sizeof(bti_run_task);
    bti_run *run = bti_calloc(1, bytes);
    if (!run) return NULL;
    run->addresses = (uint64_t *)(run + 1);
    run->idle = run->addresses + storages;
    run->buffers = (bti_buffer **)(run->idle + storages);
    run->errors = (bti_error **)(run->buffers + storages);
    run->arenas = (bti_buffer **)(run->errors + storages);
    run->operands = (bti_operand *)(run->arenas + devices);
    run->tasks = (bti_run_task *)(run->operands + of->operand_count);
    if (of->operand_count) memcpy(run->operands, of->operands, of->operand_count * sizeof *run->operands);
    for (size_t t = 0; t < tasks; t++) run->tasks[t] = (bti_run_task){.run = run, .plan = &of->tasks.items[t]};
    return run;
}

bti_run *bti_exec_begin(bti_prepared *of) {
    bti_lock_take(&of->lock);
    bti_run *run = of->idle;
    if (run) of->idle = run->next;
    bti_lock_give(&of->lock);
    if (!run) run = run_new(of);
    if (!run) return NULL;
    atomic_fetch_add_explicit(&of->refs, 1, memory_order_relaxed);
    run->prepared = of;
    atomic_store(&run->tasks_left, (unsigned)of->tasks.count + 1);
    return run;
}

void bti_exec_abandon(bti_run *run) {
    atomic_store(&run->tasks_left, 1);
    bti_run_done(run);
}

#include "exec/prepared.h"

#include <string.h>

#include "exec/boxes.h"
#include "exec/buffer.h"
#include "exec/host.h"
#include "exec/recordings.h"
#include "exec/segment.h"
#include "exec/turns.h"
#include "exec/tasks.h"
#include "exec/texts.h"
#include "base/lock.h"
#include "ir/attention.h"
#include "ir/halves.h"

/* --- making ready ------------------------------------------------------------------------------------------------------ */

bti_prepared *bti_prepared_retain(bti_prepared *of) {
    atomic_fetch_add_explicit(&of->refs, 1, memory_order_relaxed);
    return of;
}

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
        if (of->steps[s].given)
            bti_block_free(of->steps[s].given, bti_run_queue_submitted(of->plan.steps.items[s].device));
        bti_free(of->steps[s].types);
        bti_free(of->steps[s].packed);
        for (int r = 0; r < BTI_MAX_REGIONS; r++) bti_prepared_release(of->steps[s].regions[r]);
    }
    if (!of->of_region) bti_plan_free(&of->plan);
    bti_free(of->steps);
    bti_free(of->operands);
    bti_free(of->attrs);
    bti_free(of->ready);
    for (size_t t = 0; t < of->tasks.count; t++) bti_recordings_free(of->tasks.items[t].recordings);
    bti_turns_free(of->turns);
    bti_vec_free(&of->tasks);
    for (size_t c = 0; c < of->collectives.count; c++) bti_free(of->collectives.items[c].elements);
    bti_vec_free(&of->collectives);
    bti_vec_free(&of->members);
    for (size_t i = 0; i < of->stand_in_count; i++) bti_node_release(of->stand_ins[i]);
    bti_free(of->stand_ins);
    for (size_t r = 0; r < of->regions.count; r++) bti_region_release(of->regions.items[r]);
    bti_vec_free(&of->regions);
    bti_vec_free(&of->sends);
    pthread_cond_destroy(&of->judged);
    bti_lock_destroy(&of->lock);
    bti_free(of);
}

void bti_run_keep(bti_run *run) {
    for (size_t s = 0; s < run->prepared->plan.storages.count; s++)
        if (run->buffers[s]) bti_buffer_leave_to_run(run->buffers[s]);
}

void bti_run_done(bti_run *run) {
    if (atomic_fetch_sub_explicit(&run->tasks_left, 1, memory_order_acq_rel) != 1) return;
    bti_prepared *of = run->prepared;
    bti_joined_end(run);
    for (size_t s = 0; s < of->plan.storages.count; s++) {
        if (run->buffers[s]) bti_buffer_release_run(run->buffers[s]);
        bti_error_release(atomic_load(&run->errors[s]));
        run->buffers[s] = NULL;
        atomic_store(&run->errors[s], NULL);
    }
    for (size_t d = 0; d < of->plan.arenas.count; d++) {
        bti_buffer_release(run->arenas[d]);
        run->arenas[d] = NULL;
    }
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        bti_packed_release(run->packed[s]);
        run->packed[s] = NULL;
    }
    if (of->plan.donations.count) memset(run->donated, BTI_DONATED_NOT, of->plan.donations.count);
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
static bt_status ready_product(bti_prepared *of, size_t s, size_t *operand, bti_program_wants *wants) {
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
    return bti_texts_want(
        wants, &(bti_program_want){.device = step->device, .source = source, .program = &of->steps[s].program});
}

static bt_status ready_own_kernel(bti_prepared *of, size_t s) {
    const bti_step *step = &of->plan.steps.items[s];
    bti_ready_step *ready = &of->steps[s];
    ready->number_count = bti_host_kernel_numbers(&of->plan, step);
    ready->numbers = bti_alloc(((size_t)ready->number_count + 1) * sizeof *ready->numbers);
    if (!ready->numbers) return bti_no_memory();
    return bti_host_kernel(step->node->host, &of->plan, step, ready->numbers, &ready->grid, &ready->program);
}

static bt_status ready_packed(bti_prepared *of, size_t s) {
    const bti_step *step = &of->plan.steps.items[s];
    const bti_value *kept = bti_plan_operand(&of->plan, step, 1);
    bti_packed_key *key = bti_calloc(1, sizeof *key);
    if (!key) return bti_no_memory();
    memcpy(&key->attr, step->node->attr, bti_attr_bytes((bti_op)step->op));
    key->op = step->op;
    key->offset = kept->layout.offset * (int64_t)bt_dtype_size(kept->dtype);
    memcpy(key->stride, kept->layout.stride, (size_t)kept->rank * sizeof *key->stride);
    for (int o = 0; o < 3; o++) {
        const bti_value *value = bti_plan_operand(&of->plan, step, o);
        memcpy(key->shape[o], value->shape, (size_t)value->rank * sizeof *value->shape);
    }
    of->steps[s].packed = key;
    return BT_OK;
}

static bt_status ready_work(bti_prepared *of, size_t s, size_t *operand, bti_attr **attr, bti_program_wants *wants) {
    bti_step *step = &of->plan.steps.items[s];
    bti_ready_step *ready = &of->steps[s];
    ready->attr = *attr;
    if (step->op == BTI_OP_const)
        (*attr)->constant.bits = of->plan.scalars.items[step->first_scalar];
    else if (step->op == step->node->op && step->node->attr)
        memcpy(*attr, step->node->attr, bti_attr_bytes((bti_op)step->op));
    (*attr)++;
    if (bti_step_is_host(step)) {
        BTI_TRY(bti_host_by_library(&of->plan, step, &ready->program));
        if ((step->by_library = ready->program != NULL)) return BT_OK;
        ready->host = bti_host_retain(step->node->host);
        return bti_host_can_run_on(ready->host, step->device);
    }
    ready->first_operand = *operand;
    for (int o = 0; o < step->input_count + step->output_count; o++)
        of->operands[(*operand)++] = operand_of(bti_plan_operand(&of->plan, step, o));
    if (step->packs && bti_device_runs_side_by_side(step->device)) BTI_TRY(ready_packed(of, s));
    bti_program_source source = {.op = (bti_op)step->op};
    for (int i = 0; i < step->input_count && i < BTI_SOURCE_DTYPES - 1; i++)
        name_dtype(&source, bti_plan_operand(&of->plan, step, i));
    const bti_tuple *tuple = step->node->op == step->op ? step->node->tuple : NULL;
    if (tuple) /* whether or not somebody reads its first result */
        source.dtypes[source.dtype_count++] = bti_tuple_type(tuple, 0)->dtype;
    else
        name_dtype(&source, bti_plan_output(&of->plan, step, 0));
    return bti_texts_want(wants,
                          &(bti_program_want){.device = step->device, .source = source, .program = &ready->program});
}

static int add_operation(const char **operations, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (operations[i] == name) return count;
    if (count < BTI_TRACE_OPERATIONS) operations[count++] = name;
    return count;
}

bti_trace_asked bti_trace_asked_of(const bti_plan *plan, const bti_step *step) {
    bti_trace_asked asked = {.place = bti_step_place(plan, step, NULL)};
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

static bt_status prepare(bti_plan *plan, bool of_region, bti_program_wants *wants, bti_prepared **prepared);

static bt_status ready_control(bti_prepared *of, size_t s, bti_program_wants *wants) {
    const bti_control *control = &of->plan.controls.items[of->plan.steps.items[s].control];
    for (int p = 0; p < control->plan_count; p++)
        BTI_TRY(prepare(&control->plans[p], true, wants, &of->steps[s].regions[p]));
    return BT_OK;
}

static bt_status ready_kernel(bti_prepared *of, size_t s, bti_program_wants *wants) {
    const bti_step *step = &of->plan.steps.items[s];
    const bti_kernel *kernel = of->plan.kernels.items[step->kernel];
    bti_program_want want = {.device = step->device, .source.kernel = kernel, .program = &of->steps[s].program};
    if (step->halved) {
        if (!(want.kernel = bti_alloc(sizeof *want.kernel))) return bti_no_memory();
        bti_halves_kernel(kernel, step->halved - 1, want.kernel);
        want.source.kernel = want.kernel;
    }
    if (bti_device_compiles_early(step->device) && (want.box = bti_calloc(1, sizeof *want.box))) {
        bti_run_box(&of->plan, NULL, step, 0, want.box);
        want.box_count = bti_box_points(want.box, 0, bti_kernel_axes(kernel)) > 0 ? step->box_count : 0;
    }
    return bti_texts_want(wants, &want);
}

static bt_status ready_step(bti_prepared *of, size_t s, size_t *operand, bti_attr **attr, bti_program_wants *wants) {
    const bti_step *step = &of->plan.steps.items[s];
    of->steps[s].asked = bti_trace_asked_of(&of->plan, step);
    if (step->kind == BTI_STEP_COPY || step->kind == BTI_STEP_COLLECTIVE) return BT_OK;
    if (step->kind == BTI_STEP_CONTROL) return ready_control(of, s, wants);
    if (step->own_kernel) return ready_own_kernel(of, s);
    if (step->kind == BTI_STEP_WORK) return ready_work(of, s, operand, attr, wants);
    if (step->kind == BTI_STEP_PRODUCT) return ready_product(of, s, operand, wants);
    if (step->kind == BTI_STEP_SEGMENT)
        return bti_segment_ready(&of->plan, step, wants, &of->steps[s].given, &of->steps[s].types,
                                 &of->steps[s].program);
    return ready_kernel(of, s, wants);
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

/* The task that the step belongs to: the open one, or a new one. */
static bool add_to_task(bti_prepared *of, uint64_t *numbers, size_t s, bool *open, bool own_task) {
    const bti_step *step = &of->plan.steps.items[s];
    size_t before = of->tasks.count;
    if (!bti_tasks_join(of, numbers, step->device, of->plan.operands.items + step->first_operand, step->input_count))
        return false;
    bool fits = *open && !own_task && before == of->tasks.count && of->tasks.items[before - 1].device == step->device;
    bti_run_task_plan task = {.kind = BTI_TASK_STEPS, .device = step->device, .first = s, .last = s};
    task.alone = bti_device_has_host_memory(step->device); /* what is being copied there may be read */
    if (!fits && !bti_tasks_add(of, numbers, task)) return false;
    of->tasks.items[of->tasks.count - 1].last = s + 1;
    *open = !own_task;
    return true;
}

/* Whether the copy runs beside what is launched behind it. */
static bool is_sent(const bti_prepared *of, const bti_step *copy) {
    int to = of->plan.storages.items[bti_plan_output(&of->plan, copy, 0)->storage].device;
    return bti_device_sends(to, copy->device) || bti_device_is_fetched(to, copy->device);
}

/* Who receives a copy by the host waits for it. */
static bool add_receiver(bti_prepared *of, uint64_t *numbers, const bti_step *copy) {
    int to = of->plan.storages.items[bti_plan_output(&of->plan, copy, 0)->storage].device;
    bti_run_task_plan wait = {.kind = BTI_TASK_WAIT, .device = to, .wait_device = copy->device, .alone = true};
    wait.wait_number = numbers[copy->device];
    return bti_tasks_add(of, numbers, wait);
}

/* Neighbouring steps of one device are one task. */
static bool plan_tasks(bti_prepared *of) {
    uint64_t numbers[BTI_MAX_DEVICES] = {0};
    bool open = false;
    of->only_device = of->plan.steps.count ? of->plan.steps.items[0].device : 0;
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        const bti_step *step = &of->plan.steps.items[s];
        bool copies = step->kind == BTI_STEP_COPY, sends = copies && is_sent(of, step);
        if (sends || step->kind == BTI_STEP_COLLECTIVE) {
            if (!(sends ? bti_tasks_send : bti_tasks_arrive)(of, numbers, s)) return false;
            of->only_device = -1;
            open = false;
            continue;
        }
        /* The host waits for the device before it calls, and launches no more until it has called. */
        bool told = calls_host(&of->plan, step), own_task = told && !bti_device_has_host_memory(step->device);
        if (!add_to_task(of, numbers, s, &open, own_task)) return false;
        if (own_task || copies) of->tasks.items[of->tasks.count - 1].alone = true;
        if (step->device != of->only_device || own_task || copies || told)
            of->only_device = -1; /* nobody may ever wait for it */
        if (copies) {
            if (!add_receiver(of, numbers, step)) return false;
            open = false;
        }
        for (int o = 0; o < step->output_count; o++) {
            int32_t storage = bti_plan_output(&of->plan, step, o)->storage;
            of->ready[storage] = numbers[of->plan.storages.items[storage].device];
        }
    }
    return bti_tasks_join_all(of, numbers);
}

#define BRIEF 400000.0 /* points times instructions: some tens of microseconds */

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
        if (step->kind == BTI_STEP_CONTROL || step->kind == BTI_STEP_SEGMENT) return false;
        if (bti_step_is_host(step) || step->own_kernel) return false; /* nobody knows */
        if (bti_step_has_kernel(step)) {
            points = kernel_points(plan, step) * plan->kernels.items[step->kernel]->instr_count;
            if (step->kind == BTI_STEP_PRODUCT) work += product_points(plan, step);
        } else {
            const bti_value *first = bti_plan_operand(plan, step, 0);
            bool by_input = bti_op_makes_several((bti_op)step->op);
            const bti_value *out = by_input ? first : bti_plan_output(plan, step, 0);
            for (int i = 0; i < out->rank; i++) points *= (double)out->shape[i];
            if (step->op == BTI_OP_matmul) points *= (double)first->shape[first->rank - 1] / 8;
            if (bti_op_is_attention((bti_op)step->op))
                points *= (double)bti_plan_operand(plan, step, BTI_ATTENTION_K)->shape[2] / 4;
        }
        work += points + 100;
    }
    return work <= BRIEF;
}

#define LEAST_RECORDED_STEPS 3 /* fewer are launched as fast one by one */

/* How many launches it takes; BTI_MOST_RECORDED + 1: too many, or as many as the device tells, or what a scan carries is copied, as it takes no step. */
#define BTI_MOST_RECORDED 4096
static int64_t launches_of(const bti_plan *plan, size_t first, size_t last) {
    int64_t launches = 0;
    for (size_t s = first; s < last && launches <= BTI_MOST_RECORDED; s++) {
        const bti_step *step = &plan->steps.items[s];
        launches++;
        if (step->kind != BTI_STEP_CONTROL) continue;
        const bti_control *control = &plan->controls.items[step->control];
        bool copies = !control->steps && control->carried;
        if (control->op != BTI_OP_scan || copies || control->steps > BTI_MOST_RECORDED) return BTI_MOST_RECORDED + 1;
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

/* Whether its tasks are launched without waits, on devices with a clock. */
static bool is_by_caller(const bti_prepared *of) {
    for (size_t t = 0; t < of->tasks.count; t++)
        if (!of->tasks.items[t].by_clock &&
            (of->tasks.items[t].alone || !bti_device_has_clock(of->tasks.items[t].device)))
            return false;
    return !launches_wait(&of->plan);
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
    return true;
}

/* When every step is ready: what the host calls is known then. */
static bool arrange_tasks(bti_prepared *of) {
    if (!plan_tasks(of)) return false;
    for (size_t t = 0; t < of->tasks.count; t++)
        if (is_recordable(of, &of->tasks.items[t])) {
            if (!of->turns) of->turns = bti_turns_new(&of->plan);
            bti_run_task_plan *task = &of->tasks.items[t];
            task->recordings = bti_recordings_new(task->device, launches_of(&of->plan, task->first, task->last));
        }
    /* A device with a clock computes while it is launched, whoever launches; by the caller's thread, so that a timeline repeats. */
    bool launched = of->only_device >= 0 && bti_device_is_async(of->only_device) &&
                    (bti_device_has_clock(of->only_device) || !launches_wait(&of->plan));
    of->brief = launched || is_brief(&of->plan);
    of->by_caller = of->only_device < 0 && is_by_caller(of);
    return true;
}

/* Takes the plan over; that of a region belongs to its step. */
static bt_status prepare(bti_plan *plan, bool of_region, bti_program_wants *wants, bti_prepared **prepared) {
    bti_prepared *of = bti_calloc(1, sizeof *of);
    if (!of) {
        if (!of_region) bti_plan_free(plan);
        return bti_no_memory();
    }
    atomic_init(&of->refs, 1);
    bti_lock_init(&of->lock, BTI_LOCK_prepared);
    pthread_cond_init(&of->judged, NULL);
    of->plan = *plan;
    of->of_region = of_region;
    bt_status status = allocate_prepared(of) ? BT_OK : bti_no_memory();
    size_t operand = 0;
    bti_attr *attr = of->attrs;
    for (size_t s = 0; s < of->plan.steps.count && status == BT_OK; s++)
        status = ready_step(of, s, &operand, &attr, wants);
    if (status == BT_OK && !of_region && !arrange_tasks(of)) status = bti_no_memory();
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
    bti_program_wants wants = {0};
    bt_status status = prepare(&taken, false, &wants, prepared);
    if (status == BT_OK) bti_vec_free(&(*prepared)->plan.inner); /* texts say what they are */
    if (status == BT_OK && wants.count) status = bti_texts_programs(&wants);
    bti_texts_wants_free(&wants);
    if (status != BT_OK) {
        bti_prepared_release(*prepared);
        *prepared = NULL;
    }
    bti_trace_end(BTI_TRACE_PREPARE, "prepare", start);
    return status;
}

/* --- runs ------------------------------------------------------------------------------------------------------------- */

static bti_run *run_new(bti_prepared *of) {
    size_t storages = of->plan.storages.count, devices = of->plan.arenas.count, tasks = of->tasks.count;
    size_t bytes = sizeof(bti_run) + storages * 5 * sizeof(uint64_t) +
                   devices * (sizeof(uint64_t) + sizeof(bti_buffer *)) + of->operand_count * sizeof(bti_operand) +
                   tasks * sizeof(bti_run_task) + of->collectives.count * sizeof(bti_run_collective) +
                   of->members.count * sizeof(bti_run_member) + of->plan.steps.count * sizeof(bti_place) +
                   of->sends.count * sizeof(bti_run_send) + of->plan.steps.count * sizeof(bti_packed *) +
                   of->plan.donations.count;
    bti_run *run = bti_calloc(1, bytes);
    if (!run) return NULL;
    run->addresses = (uint64_t *)(run + 1);
    run->idle = run->addresses + storages + devices;
    run->moved = (int64_t *)(run->idle + storages);
    run->buffers = (bti_buffer **)(run->moved + storages);
    run->errors = (_Atomic(bti_error *) *)(run->buffers + storages);
    run->arenas = (bti_buffer **)(run->errors + storages);
    run->operands = (bti_operand *)(run->arenas + devices);
    run->tasks = (bti_run_task *)(run->operands + of->operand_count);
    run->collectives = (bti_run_collective *)(run->tasks + tasks);
    run->members = (bti_run_member *)(run->collectives + of->collectives.count);
    run->places = (bti_place *)(run->members + of->members.count);
    run->sends = (bti_run_send *)(run->places + of->plan.steps.count);
    run->packed = (bti_packed **)(run->sends + of->sends.count);
    run->donated = (uint8_t *)(run->packed + of->plan.steps.count);
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
    run->nodes = NULL;
    run->waited_for = run->aside = false;
    atomic_store(&run->tasks_left, (unsigned)of->tasks.count + 1);
    bti_joined_begin(run);
    return run;
}

/* What its caller gave up is the caller's again. */
static void return_donated(bti_run *run) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t d = 0; d < plan->donations.count; d++) {
        if (run->donated[d] != BTI_DONATED_TAKEN) continue;
        bti_donation donation = plan->donations.items[d];
        bti_buffer *from = run->buffers[donation.given],
                   *to = donation.output < 0 ? NULL : run->buffers[donation.output];
        if (to) bti_buffer_pass(to, from);
        bti_buffer_untake(from);
    }
}

void bti_exec_abandon(bti_run *run) {
    return_donated(run);
    bti_run_keep(run);
    atomic_store(&run->tasks_left, 1);
    bti_run_done(run);
}

/* From a plan to tasks on queues. A plan is made ready once (programs, operands, tasks); each run of it reserves all memory,
 * which is everything that can fail, and then submits the tasks. */
#include <string.h>
#include <xxhash.h>

#include "base/flags.h"
#include "exec/aside.h"
#include "exec/buffer.h"
#include "exec/graph.h"
#include "exec/queue.h"
#include "exec/trace.h"

/* --- running ------------------------------------------------------------------------------------------------------- */

static bti_error *error_of(const bti_run *run, int32_t storage) {
    if (storage < 0) return NULL;
    return run->buffers[storage] ? bti_buffer_error(run->buffers[storage]) : run->errors[storage];
}

static void fail_outputs(bti_run *run, const bti_step *step, bti_error *error) {
    for (int o = 0; o < step->output_count; o++) {
        int32_t storage = bti_plan_output(&run->of->plan, step, o)->storage;
        if (run->buffers[storage])
            bti_buffer_fail(run->buffers[storage], error);
        else if (!run->errors[storage])
            run->errors[storage] = bti_error_retain(error);
    }
}

static uint64_t address_of(const bti_run *run, const bti_value *value) {
    if (value->storage < 0) return (uint64_t)value->layout.offset;
    return run->addresses[value->storage] + (uint64_t)value->layout.offset * bt_dtype_size(value->dtype);
}

static bt_status launch_kernel(const bti_run *run, const bti_step *step, const bti_program *program) {
    const bti_plan *plan = &run->of->plan;
    int axes = bti_kernel_axes(plan->kernels.items[step->kernel]);
    const int64_t *number = plan->numbers.items + step->first_number;
    bti_box box;
    for (int axis = 0; axis < axes; axis++) box.extent[axis] = *number++;
    box.scalars = plan->scalars.count ? plan->scalars.items + step->first_scalar : NULL;
    for (int o = 0; o < step->input_count + step->output_count; o++) {
        box.address[o] = address_of(run, bti_plan_operand(plan, step, o));
        for (int axis = 0; axis < axes; axis++) box.stride[o][axis] = *number++;
    }
    return bti_program_launch_kernel(program, &box);
}

static bt_status launch_work(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    bti_operand *operands = run->operands + ready->first_operand;
    for (int o = 0; o <= step->input_count; o++)
        operands[o].address = address_of(run, bti_plan_operand(&run->of->plan, step, o));
    bti_work work = {
        (bti_op)step->op, step->input_count, operands, operands[step->input_count], run->of->attrs + ready->first_attr,
        ready->attr_count};
    return bti_program_launch(ready->program, &work);
}

static bt_status copy(const bti_run *run, const bti_step *step) {
    const bti_value *from = bti_plan_operand(&run->of->plan, step, 0), *to = bti_plan_output(&run->of->plan, step, 0);
    const bti_storage *arrived = &run->of->plan.storages.items[to->storage];
    bti_queue_wait(arrived->device, run->idle[to->storage]);
    BTI_TRY(bti_device_finish(step->device)); /* what was launched before it in this task */
    return bti_device_copy(arrived->device, address_of(run, to), step->device, address_of(run, from),
                           (size_t)arrived->bytes);
}

/* Whether an input failed; the outputs fail with it. */
static bool inputs_failed(bti_run *run, const bti_step *step) {
    for (int i = 0; i < step->input_count; i++) {
        bti_error *error = error_of(run, bti_plan_operand(&run->of->plan, step, i)->storage);
        if (!error) continue;
        fail_outputs(run, step, error);
        return true;
    }
    return false;
}

static bt_status launch_step(const bti_run *run, size_t s) {
    const bti_step *step = &run->of->plan.steps.items[s];
    const bti_ready_step *ready = &run->of->steps[s];
    return step->kind == BTI_STEP_KERNEL ? launch_kernel(run, step, ready->program) : launch_work(run, step, ready);
}

static void run_step(bti_run *run, size_t s) {
    const bti_step *step = &run->of->plan.steps.items[s];
    const bti_ready_step *ready = &run->of->steps[s];
    if (inputs_failed(run, step)) return;
    int depth = bti_call_begin(NULL); /* what goes wrong is told of who enqueued it, not of who happens to wait */
    bti_place waiting = bti_call_set_place(ready->asked.place);
    uint64_t start = bti_trace_begin();
    bt_status status = step->kind == BTI_STEP_COPY ? copy(run, step) : launch_step(run, s);
    bti_trace_step(start, &run->of->plan, step, &ready->asked);
    bti_call_set_place(waiting);
    bti_call_end(depth);
    if (status == BT_OK) return;
    bti_error *error = bti_error_last();
    if (!error) error = bti_error_at(ready->asked.place, status, "%s without a word", bt_status_name(status));
    fail_outputs(run, step, error);
    bti_error_release(error);
}

/* The device failed behind our back: nothing that it did can be trusted. */
static void fail_steps(const bti_run_task *task, bt_status status) {
    for (size_t s = task->of->first; s < task->of->last; s++) {
        bti_error *error = bti_error_at(task->run->of->steps[s].asked.place, status, "%s", bt_error_text());
        fail_outputs(task->run, &task->run->of->plan.steps.items[s], error);
        bti_error_release(error);
    }
}

/* What was in flight is done, or has failed, and what was launched after it with it. */
static void settle(const bti_run_task *task) {
    if (task->failed) return;
    bt_status status = bti_device_wait(task->of->device, task->event);
    if (status != BT_OK) fail_steps(task, status);
    for (size_t s = task->of->first; s < task->of->last && status == BT_OK; s++)
        inputs_failed(task->run, &task->run->of->plan.steps.items[s]);
}

static void settle_task(bti_task *base) {
    bti_run_task *task = (bti_run_task *)base;
    bti_aside from = bti_step_aside();
    settle(task);
    bti_come_back(from);
    bti_run_done(task->run);
}

/* All that its steps use, as one number. */
static uint64_t addresses_of(const bti_run_task *task) {
    const bti_plan *plan = &task->run->of->plan;
    uint64_t hash = 0;
    for (size_t s = task->of->first; s < task->of->last; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int o = 0; o < step->input_count + step->output_count;) {
            uint64_t addresses[BTI_KERNEL_OPERANDS];
            size_t count = 0;
            while (o < step->input_count + step->output_count && count < BTI_KERNEL_OPERANDS)
                addresses[count++] = address_of(task->run, bti_plan_operand(plan, step, o++));
            hash = XXH3_64bits_withSeed(addresses, count * sizeof *addresses, hash);
        }
    }
    return hash;
}

/* False: its steps are to be run one by one. */
static bool launch_in_one_go(bti_run_task *task, bt_status *status) {
    const bti_plan *plan = &task->run->of->plan;
    if (!task->of->graphs || bti_trace_on() || !bti_flag_bool(BTI_FLAG_graphs)) return false;
    for (size_t s = task->of->first; s < task->of->last; s++)
        for (int i = 0; i < plan->steps.items[s].input_count; i++)
            if (error_of(task->run, bti_plan_operand(plan, &plan->steps.items[s], i)->storage)) return false;
    return bti_task_graphs_run(task, addresses_of(task), launch_step, status);
}

/* Runs or launches its steps; whether they are complete. */
static bool run_steps(bti_run_task *task, bool may) {
    bool done = true;
    bt_status status = BT_OK;
    if (!launch_in_one_go(task, &status))
        for (size_t s = task->of->first; s < task->of->last; s++) run_step(task->run, s);
    if (status == BT_OK) status = bti_device_record(task->of->device, &task->event);
    if (status == BT_OK) status = bti_device_query(task->of->device, task->event, &done);
    task->failed = status != BT_OK;
    if (task->failed) fail_steps(task, status);
    if ((!done && !task->failed) || !may) return false;
    settle(task);
    return true;
}

static bool run_task(bti_task *base, bool may) {
    bti_run_task *task = (bti_run_task *)base;
    bool complete = true;
    bti_aside from = bti_step_aside();
    if (task->of->first == task->of->last)
        bti_queue_wait(task->of->wait_device, task->wait_number);
    else
        complete = run_steps(task, may);
    bti_come_back(from);
    if (complete) bti_run_done(task->run);
    return complete;
}

/* --- memory --------------------------------------------------------------------------------------------------------- */

static bt_status out_of_memory(const bti_storage *storage, int64_t bytes, bti_error **error) {
    *error = bti_out_of_memory(storage->device, bytes, storage->node, storage->reader, bt_error_text());
    return bti_fail_with(*error);
}

static bt_status reserve_buffer(bti_run *run, size_t s, bti_error **error) {
    const bti_storage *storage = &run->of->plan.storages.items[s];
    bti_buffer *buffer = bti_buffer_new(storage->device, (size_t)storage->bytes, storage->node);
    if (!buffer) return bti_no_memory();
    run->buffers[s] = buffer;
    bt_status status = bti_buffer_reserve(buffer, false);
    if (status == BT_RESOURCE_EXHAUSTED) return out_of_memory(storage, storage->bytes, error);
    if (status == BT_OK) {
        run->addresses[s] = buffer->address;
        run->idle[s] = buffer->block ? buffer->block->busy_until : 0;
    }
    return status;
}

/* The largest of a device's temporaries names what the memory was for. */
static const bti_storage *largest_temporary(const bti_plan *plan, int device) {
    const bti_storage *largest = NULL;
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (storage->offset >= 0 && storage->device == device && (!largest || storage->bytes > largest->bytes))
            largest = storage;
    }
    return largest;
}

static bt_status reserve_arena(bti_run *run, size_t device, bti_error **error) {
    const bti_plan *plan = &run->of->plan;
    if (!plan->arenas.items[device]) return BT_OK;
    const bti_storage *largest = largest_temporary(plan, (int)device);
    bti_buffer *arena = bti_buffer_new((int)device, (size_t)plan->arenas.items[device], largest->node);
    if (!arena) return bti_no_memory();
    run->arenas[device] = arena;
    bt_status status = bti_buffer_reserve(arena, false);
    if (status == BT_RESOURCE_EXHAUSTED) return out_of_memory(largest, plan->arenas.items[device], error);
    return status;
}

static bt_status reserve_all(bti_run *run, bti_error **error) {
    const bti_plan *plan = &run->of->plan;
    for (size_t d = 0; d < plan->arenas.count; d++) BTI_TRY(reserve_arena(run, d, error));
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (storage->external) {
            if (storage->last_step < 0) continue;
            if (!run->buffers[s]) run->buffers[s] = bti_buffer_retain(storage->external);
            run->addresses[s] = run->buffers[s]->address;
        } else if (storage->offset >= 0)
            run->addresses[s] = run->arenas[storage->device]->address + (uint64_t)storage->offset;
        else if (bti_plan_reserves(plan, storage))
            BTI_TRY(reserve_buffer(run, s, error));
    }
    return BT_OK;
}

static int32_t result_storage(const bti_plan *plan, size_t result) {
    return plan->values.items[plan->results.items[result].value].storage;
}

void bti_exec_give(bti_run *run, int32_t storage, bti_buffer *buffer) {
    run->buffers[storage] = bti_buffer_retain(buffer);
}

bti_buffer *bti_exec_result(bti_run *run, size_t result) {
    return run->buffers[result_storage(&run->of->plan, result)];
}

void bti_exec_abandon(bti_run *run) {
    atomic_store(&run->tasks_left, 1);
    bti_run_done(run);
}

bt_status bti_exec_reserve(bti_run *run, bti_error **error) {
    const bti_plan *plan = &run->of->plan;
    *error = NULL;
    const bti_reserve_observer *observer = bti_reserve_observer_now();
    if (observer) observer->begin_run(plan);
    bt_status status = reserve_all(run, error);
    if (observer) observer->end(status == BT_OK);
    if (status != BT_OK && !*error) *error = bti_error_last();
    if (status != BT_OK) bti_exec_abandon(run);
    for (size_t r = 0; r < plan->results.count && status == BT_OK; r++) {
        int32_t storage = result_storage(plan, r);
        if (!plan->storages.items[storage].external) bti_buffer_list(run->buffers[storage]);
    }
    return status;
}

/* Temporaries serve whoever comes next on their queues. */
static void give_back(bti_run *run, const uint64_t *numbers) {
    const bti_plan *plan = &run->of->plan;
    for (size_t d = 0; d < plan->arenas.count; d++)
        if (run->arenas[d]) bti_buffer_give_back(run->arenas[d], numbers[d]);
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (storage->arrived && storage->last_step < (int32_t)plan->steps.count && run->buffers[s])
            bti_buffer_give_back(run->buffers[s], numbers[storage->device]);
    }
}

/* --- submitting ------------------------------------------------------------------------------------------------------ */

/* What each device's queue has been given before and with this run. */
static void number_tasks(bti_run *run, uint64_t *numbers) {
    const bti_prepared *of = run->of;
    uint64_t base[BTI_MAX_DEVICES];
    for (int d = 0; d < of->devices; d++) base[d] = numbers[d] = bti_queue_submitted(d);
    for (size_t t = 0; t < of->tasks.count; t++) {
        const bti_task_plan *task = &of->tasks.items[t];
        run->tasks[t].wait_number = base[task->wait_device] + task->wait_number;
        numbers[task->device]++;
    }
    for (size_t s = 0; s < of->plan.storages.count; s++) {
        bti_buffer *buffer = run->buffers[s];
        if (buffer && !of->plan.storages.items[s].external && of->plan.storages.items[s].first_step >= 0)
            buffer->ready = base[buffer->device] + of->ready[s];
    }
}

uint64_t bti_exec_start(bti_run *run) {
    const bti_prepared *of = run->of;
    uint64_t numbers[BTI_MAX_DEVICES];
    size_t count = of->tasks.count; /* the run may be gone when the last one is submitted */
    uint64_t start = bti_trace_begin();
    bti_queues_lock();
    number_tasks(run, numbers);
    give_back(run, numbers);
    for (size_t t = 0; t < count; t++) {
        run->tasks[t].task = (bti_task){.run = run_task, .settle = settle_task, .alone = of->tasks.items[t].alone};
        bti_queue_submit(of->tasks.items[t].device, &run->tasks[t].task);
    }
    bti_queues_unlock();
    bti_trace_end(BTI_TRACE_SUBMIT, "submit", start);
    uint64_t end = count ? numbers[of->tasks.items[count - 1].device] : 0;
    bti_run_done(run);
    return end;
}

#define AHEAD 64 /* tasks */

/* Little work is done, and any launched, sooner than another thread would begin. */
void bti_exec_urge(bti_prepared *of, uint64_t end) {
    int device = of->only_device;
    if (!of->tasks.count) return;
    if (device < 0) {
        bti_exec_kick();
        return;
    }
    if (of->brief && (bti_device_is_async(device) || bti_queue_completed(device) + of->tasks.count >= end))
        bti_queue_issue(device, end);
    else
        bti_queue_kick(device);
}

void bti_exec_keep_pace(const bti_prepared *of, uint64_t end) {
    if (end > AHEAD) bti_queue_wait(of->tasks.items[of->tasks.count - 1].device, end - AHEAD);
}

bt_status bti_exec_submit(bti_plan *plan, bool behind, bti_error **error) {
    bti_prepared *prepared;
    *error = NULL;
    BTI_TRY(bti_exec_prepare(plan, &prepared));
    const bti_plan *own = bti_prepared_plan(prepared);
    bti_run *run = bti_exec_begin(prepared);
    bt_status status = run ? bti_exec_reserve(run, error) : bti_no_memory();
    for (size_t r = 0; r < own->results.count && status == BT_OK; r++) {
        bti_node *node = own->results.items[r].node;
        node->buffer = bti_buffer_retain(bti_exec_result(run, r));
        node->layout = own->values.items[own->results.items[r].value].layout;
    }
    uint64_t end = status == BT_OK ? bti_exec_start(run) : 0;
    for (size_t r = 0; r < own->results.count && status == BT_OK; r++) {
        bti_node *node = own->results.items[r].node;
        atomic_store(&node->state, BTI_DONE);
        if (node->forget) bti_node_forget(node);
    }
    if (status == BT_OK && (behind || prepared->only_device < 0)) bti_exec_urge(prepared, end);
    bti_prepared_release(prepared);
    return status;
}

void bti_exec_kick(void) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++)
        if (bti_queue_submitted(d) > bti_queue_completed(d)) bti_queue_kick(d);
}

void bti_exec_finish(void) {
    uint64_t start = bti_trace_begin();
    bti_exec_kick();
    for (int d = 0; d < BTI_MAX_DEVICES; d++) bti_queue_wait(d, bti_queue_submitted(d));
    bti_trace_end(BTI_TRACE_WAIT, "everything", start);
}

void bti_exec_shutdown(void) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++) bti_queue_stop(d);
}

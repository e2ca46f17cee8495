/* What a task does when its turn on the queue comes: it launches its steps, one by one or as a recorded graph, or copies between devices;
 * later it is settled. A kernel goes from here to the driver. */
#include "exec/launch.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include "base/flags.h"
#include "exec/buffer.h"
#include "exec/collective.h"
#include "exec/fill.h"
#include "exec/launch_step.h"
#include "exec/prepared.h"
#include "exec/recordings.h"
#include "exec/send.h"

/* --- one step ------------------------------------------------------------------------------------------------------- */

static void fail_output(bti_run *run, const bti_step *step, int output, bti_error *error) {
    bti_run_fail(run, bti_plan_output(&run->prepared->plan, step, output)->storage, error);
}

static void fail_outputs(bti_run *run, const bti_step *step, bti_error *error) {
    for (int o = 0; o < step->output_count; o++) fail_output(run, step, o, error);
}

static bt_status copy_between_devices(const bti_run *run, const bti_step *step) {
    const bti_value *from = bti_plan_operand(&run->prepared->plan, step, 0),
                    *to = bti_plan_output(&run->prepared->plan, step, 0);
    const bti_storage *arrived = &run->prepared->plan.storages.items[to->storage];
    bti_run_queue_wait(arrived->device, run->idle[to->storage]);
    BTI_TRY(bti_device_finish(step->device)); /* what was launched before it in this task */
    return bti_device_copy(arrived->device, bti_run_address(run, to), step->device, bti_run_address(run, from),
                           (size_t)arrived->bytes);
}

/* Whether inputs of all boxes failed; the outputs of each box fail with its inputs. */
static bool boxes_failed(bti_run *run, const bti_step *step) {
    bool all = true;
    for (int b = 0; b < step->box_count; b++) {
        bti_error *error = bti_run_box_error(run, step, b);
        int outputs = step->output_count / step->box_count;
        all = all && error;
        for (int o = 0; o < outputs && error; o++) fail_output(run, step, b * outputs + o, error);
    }
    return all;
}

/* Whether an input failed; the outputs fail with it. */
static bool inputs_failed(bti_run *run, const bti_step *step) {
    if (step->kind == BTI_STEP_KERNEL && step->box_count > 1) return boxes_failed(run, step);
    for (int i = 0; i < step->input_count; i++) {
        bti_error *error = bti_run_error(run, bti_plan_operand(&run->prepared->plan, step, i)->storage);
        if (!error) continue;
        fail_outputs(run, step, error);
        return true;
    }
    return false;
}

/* Whether the device is late; the outputs fail for that reason. */
static bool device_is_late(bti_run *run, const bti_step *step) {
    if (!bti_device_is_late(step->device) || bti_device_check_late(step->device) == BT_OK) return false;
    bti_error *error = bti_error_last();
    fail_outputs(run, step, error);
    bti_error_release(error);
    return true;
}

/* Before the host reads what earlier steps of the task made. A device that loads graphs tells an error of its launches once, to who waits first: then the steps that are not complete have failed, and not only the one that
 * waits. */
static bool earlier_failed(const bti_run_task *task, size_t s) {
    const bti_plan *plan = &task->run->prepared->plan;
    const bti_step *step = &plan->steps.items[s];
    bool waits = step->kind == BTI_STEP_COPY || bti_step_is_host(step);
    if (!waits || s == task->plan->first || !bti_device_target(step->device)->graphs) return false;
    bt_status status = bti_device_finish(step->device);
    if (status == BT_OK) return false;
    for (size_t earlier = task->plan->first; earlier <= s; earlier++) {
        bti_error *error = bti_error_at(task->run->places[earlier], status, "%s", bt_error_text());
        fail_outputs(task->run, &plan->steps.items[earlier], error);
        bti_error_release(error);
    }
    return true;
}

static void run_step(const bti_run_task *task, size_t s) {
    bti_run *run = task->run;
    const bti_step *step = &run->prepared->plan.steps.items[s];
    const bti_ready_step *ready = &run->prepared->steps[s];
    if (inputs_failed(run, step) || device_is_late(run, step) || earlier_failed(task, s)) return;
    int depth = bti_call_begin(NULL); /* an error names the place that enqueued it, not the one that waits */
    bti_place waiting = bti_call_set_place(run->places[s]);
    bti_timing_start start = bti_trace_step_begin(step);
    bt_status status = bti_fill_outputs(run, s);
    if (status == BT_OK)
        status = step->kind == BTI_STEP_COPY ? copy_between_devices(run, step) : bti_launch_step(run, s);
    bti_trace_step_end(&start, &run->prepared->plan, step, &ready->asked, run->places[s]);
    bti_call_set_place(waiting);
    bti_call_end(depth);
    if (status == BT_OK) return;
    bti_error *error = bti_error_last();
    if (!error) error = bti_error_at(run->places[s], status, "%s without a word", bt_status_name(status));
    fail_outputs(run, step, error);
    bti_error_release(error);
}

/* The device failed after the launches: none of the results can be trusted. Of a late device all have one error, which names the operation that it is late with. */
static void fail_steps(const bti_run_task *task, bt_status status, bool late) {
    bti_error *cause = late ? bti_error_last() : NULL;
    for (size_t s = task->plan->first; s < task->plan->last; s++) {
        bti_error *error =
            late ? bti_error_retain(cause) : bti_error_at(task->run->places[s], status, "%s", bt_error_text());
        fail_outputs(task->run, &task->run->prepared->plan.steps.items[s], error);
        bti_error_release(error);
    }
    bti_error_release(cause);
}

/* Waits for the task in flight. What was launched with an input that failed meanwhile fails too. */
static void wait_and_check(bti_run_task *task) {
    if (task->failed) {
        bti_timings_note(task->plan->device, &task->timings, task->run->traced, false);
        return;
    }
    const bti_place *first = &task->run->places[task->plan->first];
    bt_status status =
        bti_device_wait_since(task->plan->device, task->entry.event, task->entry.since_ns, first, &task->unfinished);
    if (task->timings.items.count)
        bti_timings_note(task->plan->device, &task->timings, task->run->traced, status == BT_OK);
    if (status != BT_OK) fail_steps(task, status, task->unfinished);
    for (size_t s = task->plan->first; s < task->plan->last && status == BT_OK; s++)
        inputs_failed(task->run, &task->run->prepared->plan.steps.items[s]);
}

static void finish_task(bti_run_task *task) {
    if (task->plan->kind == BTI_TASK_SEND || task->plan->kind == BTI_TASK_RECEIVE) bti_send_end(task);
    bti_run_done(task->run);
}
static void end_held_task(bti_held *held) {
    finish_task((bti_run_task *)((char *)held - offsetof(bti_run_task, held)));
}

/* The run of work that a late device may go on with keeps its memory. */
static void end_task(bti_run_task *task) {
    if (!task->unfinished) {
        finish_task(task);
        return;
    }
    task->held.release = end_held_task;
    bti_device_hold(&task->held);
}

void bti_run_task_settle(bti_queue_entry *entry) {
    bti_run_task *task = (bti_run_task *)entry;
    switch ((bti_task_kind)task->plan->kind) {
    case BTI_TASK_STEPS: wait_and_check(task); break;
    case BTI_TASK_WAIT:
    case BTI_TASK_ARRIVE: break;
    case BTI_TASK_JOIN: bti_collective_settle(task); break;
    case BTI_TASK_SEND:
    case BTI_TASK_RECEIVE: bti_send_settle(task); break;
    }
    end_task(task);
}

/* A hash of all addresses that its steps use. */
static uint64_t addresses_of(const bti_run_task *task) {
    const bti_plan *plan = &task->run->prepared->plan;
    uint64_t hash = 0;
    for (size_t s = task->plan->first; s < task->plan->last; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int o = 0; o < step->input_count + step->output_count;) {
            uint64_t addresses[BTI_KERNEL_OPERANDS];
            size_t count = 0;
            while (o < step->input_count + step->output_count && count < BTI_KERNEL_OPERANDS)
                addresses[count++] = bti_run_address(task->run, bti_plan_operand(plan, step, o++));
            hash = XXH3_64bits_withSeed(addresses, count * sizeof *addresses, hash);
        }
    }
    return hash;
}

/* Launches all its steps for a recording. */
static bt_status launch_steps(void *launched) {
    const bti_run_task *task = launched;
    for (size_t s = task->plan->first; s < task->plan->last; s++) BTI_TRY(bti_launch_step(task->run, s));
    return BT_OK;
}

/* The same, and notes what it launches by step. */
static bt_status launch_steps_timed(void *launched, bti_timings *timings) {
    const bti_run_task *task = launched;
    bti_run *run = task->run;
    for (size_t s = task->plan->first; s < task->plan->last; s++) {
        const bti_step *step = &run->prepared->plan.steps.items[s];
        size_t first = timings->items.count;
        bti_timing_start start = bti_trace_step_begin(step);
        bt_status status = bti_launch_step(run, s);
        bti_trace_step_end(&start, &run->prepared->plan, step, &run->prepared->steps[s].asked, run->places[s]);
        if (status != BT_OK) return status;
        for (size_t i = first; i < timings->items.count; i++) timings->items.items[i].step = s;
    }
    return BT_OK;
}

/* Places belong to the run; those of what a region launches are the region's. */
static void set_places(bti_run_task *task) {
    const bti_plan *plan = &task->run->prepared->plan;
    for (size_t i = 0; i < task->timings.items.count; i++) {
        bti_timing *timing = &task->timings.items.items[i];
        if (plan->steps.items[timing->step].kind == BTI_STEP_CONTROL) continue;
        timing->event.file = task->run->places[timing->step].site.file;
        timing->event.line = task->run->places[timing->step].site.line;
    }
}

/* Launches all its steps as a recorded graph. False: nothing was launched, and its steps are to be run one by one. */
static bool launch_recorded(bti_run_task *task, bool traced, bt_status *status) {
    const bti_plan *plan = &task->run->prepared->plan;
    if (!task->plan->recordings || !bti_flag_bool(BTI_FLAG_graphs)) return false;
    if (bti_flag_bool(BTI_FLAG_memory_fill)) return false;
    for (size_t s = task->plan->first; s < task->plan->last; s++)
        for (int i = 0; i < plan->steps.items[s].input_count; i++)
            if (bti_run_error(task->run, bti_plan_operand(plan, &plan->steps.items[s], i)->storage)) return false;
    const bti_recorded_launch launch = {launch_steps, launch_steps_timed, task};
    bti_timings *timings = traced ? &task->timings : NULL;
    if (!bti_recordings_run(task->plan->recordings, addresses_of(task), &launch, timings, status)) return false;
    set_places(task);
    return true;
}

/* Launches them, or its recording. While a trace is recorded their times are noted when they are complete, or right after the launch where they are known then. */
static bt_status launch_task(bti_run_task *task) {
    int device = task->plan->device;
    bt_status status = BT_OK;
    bool traced = bti_trace_on() && bti_device_marks(device);
    if (traced) bti_device_time_into(device, &task->timings);
    if (!launch_recorded(task, traced, &status))
        for (size_t s = task->plan->first; s < task->plan->last; s++) run_step(task, s);
    if (!traced) return status;
    bti_device_time_into(device, NULL);
    if (!bti_device_is_async(device) || bti_device_has_clock(device))
        bti_timings_note(device, &task->timings, task->run->traced, status == BT_OK);
    return status;
}

/* Runs or launches its steps; whether they are complete. Work of an asynchronous device, launched just now, is not. */
static bool run_steps(bti_run_task *task, bool may_complete) {
    int device = task->plan->device;
    bool late = bti_device_is_late(device); /* then nothing is launched */
    bt_status status = late ? bti_device_check_late(device) : BT_OK;
    late = status != BT_OK;
    if (!late) status = launch_task(task);
    if (!late) bti_fill_freed(task);
    if (status == BT_OK && may_complete && bti_device_runs_side_by_side(device))
        return true; /* its launches are complete */
    if (status == BT_OK) status = bti_device_record(device, &task->entry.event);
    task->failed = status != BT_OK;
    task->entry.has_event = !task->failed;
    task->unfinished = task->failed && !late && bti_device_is_late(device);
    task->held = (bti_held){.has_event = !task->failed, .event = task->entry.event, .device = device};
    if (task->failed) fail_steps(task, status, late || task->unfinished);
    if (!may_complete || (!task->failed && bti_device_is_async(device))) return false;
    wait_and_check(task);
    return true;
}

bool bti_run_task_poll(bti_queue_entry *entry) {
    const bti_run_task *task = (const bti_run_task *)entry;
    bool done = true;
    if (task->plan->kind == BTI_TASK_SEND || task->plan->kind == BTI_TASK_RECEIVE) return bti_send_poll(task);
    if (task->plan->kind != BTI_TASK_STEPS) return bti_collective_poll(task);
    if (task->failed || bti_device_query(task->plan->device, task->entry.event, &done) != BT_OK || done) return true;
    return bti_device_is_overdue(task->plan->device, entry->since_ns);
}

bool bti_run_task_run(bti_queue_entry *entry, bool may_complete) {
    bti_run_task *task = (bti_run_task *)entry;
    bool complete = true;
    task->unfinished = false;
    uint32_t before = bti_trace_in_run(task->run->traced);
    switch ((bti_task_kind)task->plan->kind) {
    case BTI_TASK_STEPS: complete = run_steps(task, may_complete); break;
    case BTI_TASK_WAIT: bti_run_queue_wait(task->plan->wait_device, task->wait_number); break;
    case BTI_TASK_ARRIVE:
    case BTI_TASK_JOIN: complete = bti_collective_run(task, may_complete); break;
    case BTI_TASK_SEND:
    case BTI_TASK_RECEIVE: complete = bti_send_run(task); break;
    }
    bti_trace_in_run(before);
    if (complete) end_task(task);
    return complete;
}

#include "exec/collective.h"

#include "base/alloc.h"
#include "exec/buffer.h"
#include "exec/launch_step.h"

void bti_collectives_number(bti_run *run, const uint64_t *base) {
    const bti_prepared *of = run->prepared;
    for (size_t m = 0; m < of->members.count; m++)
        run->members[m].number = base[of->members.items[m].device] + of->members.items[m].arrive;
}

/* What a task is about. */
typedef struct part {
    bti_run *run;
    const bti_collective_plan *plan;
    bti_run_collective *collective;
    const bti_step *step;
    const bti_member_plan *devices; /* of the group */
    bti_run_member *members;
    int own; /* which of them the task is of */
} part;

static part part_of(const bti_run_task *task) {
    const bti_prepared *of = task->run->prepared;
    size_t number = of->members.items[task->plan->member].collective;
    const bti_collective_plan *plan = &of->collectives.items[number];
    return (part){.run = task->run,
                  .plan = plan,
                  .collective = &task->run->collectives[number],
                  .step = &of->plan.steps.items[plan->step],
                  .devices = &of->members.items[plan->first_member],
                  .members = &task->run->members[plan->first_member],
                  .own = (int)(task->plan->member - plan->first_member)};
}

/* The first failure is that of all devices. */
static void fail(const part *p, bti_error *error) {
    bti_error *none = NULL;
    bti_error_retain(error);
    if (!atomic_compare_exchange_strong(&p->collective->error, &none, error)) bti_error_release(error);
}

static void fail_by_last(const part *p, bt_status status) {
    bti_error *error = bti_error_last();
    if (!error) error = bti_error_at(bti_call_place(), status, "%s without a word", bt_status_name(status));
    fail(p, error);
    bti_error_release(error);
}

/* Notes the failure of an input, of any device. */
static void check_inputs(const part *p) {
    for (int i = 0; i < p->step->input_count; i++) {
        bti_error *error = bti_run_error(p->run, bti_plan_operand(&p->run->prepared->plan, p->step, i)->storage);
        if (error) fail(p, error);
    }
}

/* The outputs on the task's own device. */
static void fail_outputs(const part *p) {
    bti_error *error = atomic_load(&p->collective->error);
    for (int o = p->own; error && o < p->step->output_count; o += p->step->group)
        bti_run_fail(p->run, bti_plan_output(&p->run->prepared->plan, p->step, o)->storage, error);
}

/* --- arriving --------------------------------------------------------------------------------------------------------- */

static bt_status reduce(const part *p, uint64_t *addresses, bti_work_end *ends) {
    const bti_plan *plan = &p->run->prepared->plan;
    int devices[BTI_MAX_DEVICES], count = p->step->input_count;
    bti_event after[BTI_MAX_DEVICES];
    for (int m = 0; m < p->plan->group; m++) devices[m] = p->devices[m].device, after[m] = p->members[m].arrived;
    for (int i = 0; i < 2 * count; i++) addresses[i] = bti_run_address(p->run, bti_plan_operand(plan, p->step, i));
    bti_reduction what = {.dtype = bti_plan_operand(plan, p->step, 0)->dtype,
                          .op = BTI_OP_sum,
                          .array_count = (size_t)(count / p->plan->group),
                          .elements = p->plan->elements,
                          .inputs = addresses,
                          .outputs = addresses + count};
    return bti_device_all_reduce(devices, p->plan->group, &what, after, ends);
}

static void start(const part *p) {
    const bti_ready_step *ready = &p->run->prepared->steps[p->plan->step];
    uint64_t *addresses = bti_alloc(2 * (size_t)p->step->input_count * sizeof *addresses), begun = bti_trace_begin();
    bti_work_end ends[BTI_MAX_DEVICES];
    bt_status status = addresses ? reduce(p, addresses, ends) : bti_no_memory();
    bti_free(addresses);
    if (status != BT_OK) {
        fail_by_last(p, status);
        return;
    }
    p->collective->started = true;
    for (int m = 0; m < p->plan->group; m++) p->members[m].end = ends[m];
    if (begun || ends[0].marked)
        bti_trace_collective(begun, &p->run->prepared->plan, p->step, p->members, &ready->asked,
                             p->run->places[p->plan->step]);
}

static void arrive(const part *p) {
    bt_status status = bti_device_record(p->devices[p->own].device, &p->members[p->own].arrived);
    if (status != BT_OK) fail_by_last(p, status);
    if (atomic_fetch_sub(&p->collective->missing, 1) != 1) return;
    check_inputs(p);
    if (!atomic_load(&p->collective->error)) start(p);
}

/* --- joining ---------------------------------------------------------------------------------------------------------- */

/* A member that is late keeps the others waiting. They are late then too: when it comes, the operation goes on in their memory. */
static bt_status wait_for_end(const part *p, int m, bool *gave_up) {
    int device = p->devices[m].device;
    bti_event end = p->members[m].end.event;
    for (int i = 0; i < p->plan->group; i++) bti_device_share_lateness(device, end, p->devices[i].device);
    return bti_device_wait_since(device, end, 0, NULL, gave_up);
}

/* What is launched on the device from now on comes after the collective. With a limit of waits, work of the others that comes before it is waited for first: the device that is
 * late with it is the one to be named. */
static void come_after(const part *p) {
    bool gave_up = false;
    for (int m = 0; m < p->plan->group; m++)
        if (m != p->own && bti_device_limit_ns())
            bti_run_queue_wait(p->devices[m].device, p->members[m].number);
        else if (m != p->own)
            bti_run_queue_issue(p->devices[m].device, p->members[m].number);
    int device = p->devices[p->own].device;
    bti_event end = p->members[p->own].end.event;
    bool limited = bti_device_limit_ns() > 0, waits = p->collective->started;
    /* It follows also where the host waits: a device that is late stays so until what was launched on it has come, and so until the collective has. */
    if (waits && (!limited || bti_device_follows(device))) waits = bti_device_follow(device, end) != BT_OK || limited;
    if (waits) {
        bt_status status = wait_for_end(p, p->own, &gave_up);
        if (status != BT_OK) fail_by_last(p, status); /* a later wait may not be told it again */
    }
    fail_outputs(p);
}

static void find_verdict(const part *p) {
    for (int m = 0; m < p->plan->group; m++)
        if (m != p->own) bti_run_queue_wait(p->devices[m].device, p->members[m].number);
    check_inputs(p);
    for (int m = 0; m < p->plan->group && p->collective->started; m++) {
        bool gave_up;
        bt_status status = wait_for_end(p, m, &gave_up);
        if (status != BT_OK) fail_by_last(p, status);
        bti_timings_note(p->devices[m].device, &p->members[m].timings, p->run->traced, status == BT_OK);
    }
}

/* Whether it failed is found once, for all devices; others wait for the thread that does. */
static void judge(const part *p) {
    bti_prepared *of = p->run->prepared;
    bti_lock_take(&of->lock);
    while (p->collective->verdict == BTI_REDUCTION_PENDING) bti_lock_wait(&of->lock, &of->judged);
    bool mine = p->collective->verdict == BTI_REDUCTION_NONE;
    if (mine) p->collective->verdict = BTI_REDUCTION_PENDING;
    bti_lock_give(&of->lock);
    if (!mine) return;
    find_verdict(p);
    bti_lock_take(&of->lock);
    p->collective->verdict = BTI_REDUCTION_KNOWN;
    pthread_cond_broadcast(&of->judged);
    bti_lock_give(&of->lock);
}

/* Errors name the place that recorded it. */
static void do_there(const part *p, void (*what)(const part *p)) {
    int depth = bti_call_begin(NULL);
    bti_place waiting = bti_call_set_place(p->run->places[p->plan->step]);
    what(p);
    bti_call_set_place(waiting);
    bti_call_end(depth);
}

bool bti_collective_run(bti_run_task *task, bool may_complete) {
    part p = part_of(task);
    bool joins = task->plan->kind == BTI_TASK_JOIN;
    do_there(&p, joins ? come_after : arrive);
    return may_complete && !joins;
}

void bti_collective_settle(bti_run_task *task) {
    part p = part_of(task);
    do_there(&p, judge);
    fail_outputs(&p);
    bti_event end = p.members[p.own].end.event;
    bool done = true;
    if (!p.collective->started || !bti_device_is_late(task->plan->device)) return;
    task->unfinished = bti_device_query(task->plan->device, end, &done) == BT_OK && !done;
    task->held = (bti_held){.has_event = true, .event = end, .device = task->plan->device};
}

bool bti_collective_poll(const bti_run_task *task) {
    part p = part_of(task);
    bool done = true;
    if (task->plan->kind == BTI_TASK_ARRIVE) return true; /* what is before it on the queue is settled */
    for (int m = 0; m < p.plan->group && done; m++) {
        done = m == p.own || bti_run_queue_completed(p.devices[m].device) >= p.members[m].number;
        if (done && p.collective->started) (void)!bti_device_query(p.devices[m].device, p.members[m].end.event, &done);
    }
    return done || bti_device_is_overdue(task->plan->device, task->entry.since_ns);
}

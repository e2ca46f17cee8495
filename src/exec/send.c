#include "exec/send.h"

#include "device/late.h"
#include "exec/buffer.h"
#include "exec/launch_step.h"

/* What a task is about. */
typedef struct transfer {
    bti_run *run;
    const bti_send_plan *plan;
    bti_run_send *send;
    const bti_value *from, *to;
    uint64_t since_ns; /* the task has been the first in flight since then; 0: unknown */
} transfer;

static transfer transfer_of(const bti_run_task *task) {
    const bti_plan *plan = &task->run->prepared->plan;
    const bti_send_plan *of = &task->run->prepared->sends.items[task->plan->send];
    const bti_step *step = &plan->steps.items[of->step];
    return (transfer){task->run,
                      of,
                      &task->run->sends[task->plan->send],
                      bti_plan_operand(plan, step, 0),
                      bti_plan_output(plan, step, 0),
                      task->entry.since_ns};
}

void bti_sends_begin(bti_run *run, const uint64_t *base) {
    const bti_prepared *of = run->prepared;
    for (size_t i = 0; i < of->sends.count; i++) {
        const bti_send_plan *plan = &of->sends.items[i];
        const bti_step *step = &of->plan.steps.items[plan->step];
        run->sends[i].number = base[plan->from] + plan->number;
        bti_buffer_hold(run->buffers[bti_plan_operand(&of->plan, step, 0)->storage]);
    }
}

static void fail_by_last(const transfer *t, bt_status status) {
    bti_error *error = bti_error_last();
    if (!error) error = bti_error_at(bti_call_place(), status, "%s without a word", bt_status_name(status));
    bti_error_stick(&t->send->error, error);
    bti_error_release(error);
}

static void check_input(const transfer *t) {
    bti_error *error = bti_run_error(t->run, t->from->storage);
    if (error) bti_error_stick(&t->send->error, error);
}

/* --- sending ---------------------------------------------------------------------------------------------------------- */

/* With a limit of waits, what the copy comes after is waited for: the device that is late with it is the one to be named. */
static bt_status wait_for_both(const transfer *t, const bti_event *made, const bti_event *idle) {
    bool gave_up;
    if (!bti_device_limit_ns()) return BT_OK;
    if (made) BTI_TRY(bti_device_wait_since(t->plan->from, *made, 0, NULL, &gave_up));
    return idle ? bti_device_wait_since(t->plan->to, *idle, 0, NULL, &gave_up) : BT_OK;
}

/* The point after which the bytes are made: in this run, now; in an earlier one, the end of the task that made them, whatever was launched since. *pending: there is one. */
static bt_status find_made(const transfer *t, bti_event *made, bool *pending) {
    const bti_storage *storage = &t->run->prepared->plan.storages.items[t->from->storage];
    *pending = true;
    if (!storage->given) return bti_device_record(t->plan->from, made);
    *pending = bti_run_queue_point(t->plan->from, t->run->buffers[t->from->storage]->ready, made);
    return BT_OK;
}

static bt_status start_copy(const transfer *t) {
    const bti_storage *arrived = &t->run->prepared->plan.storages.items[t->to->storage];
    bti_event made, idle;
    bool busy = bti_run_queue_point(t->plan->to, t->run->idle[t->to->storage], &idle);
    bool pending;
    BTI_TRY(bti_device_check_late(t->plan->from));
    BTI_TRY(bti_device_check_late(t->plan->to));
    BTI_TRY(find_made(t, &made, &pending));
    BTI_TRY(wait_for_both(t, pending ? &made : NULL, busy ? &idle : NULL));
    return bti_device_send(t->plan->to, bti_run_address(t->run, t->to), busy ? &idle : NULL, t->plan->from,
                           bti_run_address(t->run, t->from), pending ? &made : NULL, (size_t)arrived->bytes,
                           &t->send->end, &t->send->timings);
}

/* The host's memory is free when the host has done what uses it. */
static bt_status start_fetch(const transfer *t) {
    const bti_storage *arrived = &t->run->prepared->plan.storages.items[t->to->storage];
    bti_event made;
    bti_run_queue_wait(t->plan->to, t->run->idle[t->to->storage]);
    BTI_TRY(bti_device_check_late(t->plan->from));
    BTI_TRY(bti_device_record(t->plan->from, &made));
    return bti_device_fetch(t->plan->to, bti_run_address(t->run, t->to), t->plan->from,
                            bti_run_address(t->run, t->from), made, (size_t)arrived->bytes, &t->send->end,
                            &t->send->timings);
}

static void start_sending(const transfer *t) {
    check_input(t);
    if (atomic_load(&t->send->error)) return;
    bt_status status = t->plan->is_fetched ? bti_device_record(t->plan->from, &t->send->end.event)
                       : t->plan->to_host  ? start_fetch(t)
                                           : start_copy(t);
    t->send->started = status == BT_OK;
    if (status != BT_OK) fail_by_last(t, status);
}

/* Whose event the end is. */
static int device_of_end(const transfer *t) { return t->plan->to_host ? t->plan->from : t->plan->to; }

static void end_sending(const transfer *t) {
    bool started = t->send->started;
    t->send->gave_up = false;
    bt_status status =
        started ? bti_device_wait_since(device_of_end(t), t->send->end.event, t->since_ns, NULL, &t->send->gave_up)
                : BT_OK;
    bti_timings_note(device_of_end(t), &t->send->timings, t->run->traced, status == BT_OK);
    if (status != BT_OK) fail_by_last(t, status);
    check_input(t);
}

/* --- receiving -------------------------------------------------------------------------------------------------------- */

static void fail_output(const transfer *t) {
    bti_error *error = atomic_load(&t->send->error);
    if (error) bti_run_fail(t->run, t->to->storage, error);
}

/* What is launched on the device from now on comes after the copy. */
static void come_after(const transfer *t) {
    bti_run_queue_issue(t->plan->from, t->send->number);
    bt_status status = t->send->started ? bti_device_follow(t->plan->to, t->send->end.event) : BT_OK;
    if (status != BT_OK) {
        bool gave_up;
        fail_by_last(t, status);
        /* its memory may serve what comes next */
        (void)!bti_device_wait_since(t->plan->to, t->send->end.event, 0, NULL, &gave_up);
    }
    fail_output(t);
}

/* The host waits for the bytes alone: what is launched behind them goes on. */
static void fetch(const transfer *t) {
    const bti_storage *arrived = &t->run->prepared->plan.storages.items[t->to->storage];
    bti_run_queue_wait(t->plan->from, t->send->number);
    bt_status status = atomic_load(&t->send->error)
                           ? BT_OK
                           : bti_device_copy(t->plan->to, bti_run_address(t->run, t->to), t->plan->from,
                                             bti_run_address(t->run, t->from), (size_t)arrived->bytes);
    if (status != BT_OK) fail_by_last(t, status);
    fail_output(t);
}

/* The bytes are there when the sender is settled, before which nothing else of the host's queue begins. */
static void receive(const transfer *t) {
    bti_run_queue_issue(t->plan->from, t->send->number);
    fail_output(t);
}

static void end_receiving(const transfer *t) {
    bti_run_queue_wait(t->plan->from, t->send->number);
    fail_output(t);
}

/* --- tasks ------------------------------------------------------------------------------------------------------------ */

/* Errors name the place that recorded it. */
static void do_there(const bti_run_task *task, void (*what)(const transfer *t)) {
    transfer t = transfer_of(task);
    int depth = bti_call_begin(NULL);
    bti_place waiting = bti_call_set_place(task->run->places[t.plan->step]);
    what(&t);
    bti_call_set_place(waiting);
    bti_call_end(depth);
}

bool bti_send_run(bti_run_task *task) {
    bool receives = task->plan->kind == BTI_TASK_RECEIVE;
    const bti_send_plan *plan = transfer_of(task).plan;
    do_there(task, !receives ? start_sending : plan->is_fetched ? fetch : plan->to_host ? receive : come_after);
    return receives && plan->is_fetched;
}

void bti_send_settle(bti_run_task *task) {
    if (task->plan->kind == BTI_TASK_RECEIVE) {
        do_there(task, end_receiving);
        return;
    }
    do_there(task, end_sending);
    transfer t = transfer_of(task);
    task->unfinished = t.send->gave_up;
    task->held = (bti_held){.device = device_of_end(&t), .has_event = true, .event = t.send->end.event};
}

void bti_send_end(const bti_run_task *task) {
    transfer t = transfer_of(task);
    bool copied = t.plan->is_fetched == (task->plan->kind == BTI_TASK_RECEIVE);
    if (copied) bti_buffer_let_go(t.run->buffers[t.from->storage]);
}

bool bti_send_poll(const bti_run_task *task) {
    transfer t = transfer_of(task);
    bool done = true;
    if (task->plan->kind == BTI_TASK_RECEIVE) return bti_run_queue_completed(t.plan->from) >= t.send->number;
    if (t.send->started) (void)!bti_device_query(device_of_end(&t), t.send->end.event, &done);
    return done || bti_device_is_overdue(device_of_end(&t), t.since_ns);
}

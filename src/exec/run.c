/* From a plan to tasks on queues. A plan is made ready once (programs, operands, tasks); each run of it reserves all memory,
 * which is everything that can fail, and then submits the tasks. */
#include <string.h>

#include "base/clock.h"
#include "exec/buffer.h"
#include "exec/collective.h"
#include "exec/host.h"
#include "exec/launch.h"
#include "exec/prepared.h"
#include "exec/send.h"
#include "exec/turns.h"
#include "base/flags.h"
#include "base/lock.h"

/* --- memory --------------------------------------------------------------------------------------------------------- */

static const bti_node *node_of(const bti_run *run, const bti_storage *storage) {
    return bti_run_node(run->nodes, storage->node);
}

/* What the node is; a tuple has no dtype and shape of its own. */
static bti_type type_in(const bti_run *run, const bti_storage *storage) {
    const bti_plan *plan = &run->prepared->plan;
    const bti_node *node = node_of(run, storage);
    if (!node->tuple) return bti_type_of(node);
    const bti_value *value = &plan->values.items[storage->value];
    bti_type type = {.dtype = value->dtype, .rank = value->rank};
    memcpy(type.shape, value->shape, sizeof type.shape);
    return type;
}

static bt_status out_of_memory(const bti_run *run, const bti_storage *storage, int64_t bytes, bti_error **error) {
    bti_type type = type_in(run, storage);
    const bti_node *reader = storage->reader ? bti_run_node(run->nodes, storage->reader) : NULL;
    *error = bti_out_of_memory(storage->device, bytes, node_of(run, storage), &type, reader, bt_error_text());
    return bti_fail_with(*error);
}

static void describe_result(bti_buffer *buffer, const bti_run *run, const bti_storage *storage) {
    if (!node_of(run, storage)->tuple) return;
    bti_type type = type_in(run, storage);
    buffer->dtype = type.dtype;
    buffer->rank = type.rank;
    memcpy(buffer->shape, type.shape, sizeof buffer->shape);
}

static bool is_idle(const bti_buffer *buffer) {
    return !buffer->block || bti_run_queue_completed(buffer->device) >= buffer->block->busy_until;
}

static bt_status reserve_buffer(bti_run *run, size_t s, bti_error **error) {
    const bti_storage *storage = &run->prepared->plan.storages.items[s];
    bti_buffer *buffer = bti_buffer_new(storage->device, (size_t)storage->bytes, node_of(run, storage));
    if (!buffer) return bti_no_memory();
    describe_result(buffer, run, storage);
    run->buffers[s] = buffer;
    if (run->prepared->turns) buffer->address = run->addresses[s];
    bt_status status = bti_buffer_reserve(buffer, run->aside);
    if (status == BT_RESOURCE_EXHAUSTED) return out_of_memory(run, storage, storage->bytes, error);
    if (status == BT_OK) {
        run->addresses[s] = buffer->address;
        run->idle[s] = buffer->block ? buffer->block->busy_until : 0;
        if (run->aside) run->aside = is_idle(buffer);
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
    const bti_plan *plan = &run->prepared->plan;
    if (!plan->arenas.items[device]) return BT_OK;
    const bti_storage *largest = largest_temporary(plan, (int)device);
    bti_buffer *arena = bti_buffer_new((int)device, (size_t)plan->arenas.items[device], node_of(run, largest));
    if (!arena) return bti_no_memory();
    describe_result(arena, run, largest);
    run->arenas[device] = arena;
    uint64_t *address = &run->addresses[plan->storages.count + device];
    if (run->prepared->turns) arena->address = *address;
    bt_status status = bti_buffer_reserve(arena, run->aside);
    *address = arena->address;
    if (status == BT_OK && run->aside) run->aside = is_idle(arena);
    if (status == BT_RESOURCE_EXHAUSTED) return out_of_memory(run, largest, plan->arenas.items[device], error);
    return status;
}

/* A result of a tuple that was computed before has its memory there. */
static bti_buffer *memory_of(const bti_node *node) {
    return node->buffer ? node->buffer : node->inputs[0]->tuple->buffers[node->attr->result.index];
}

/* The memory of an external storage: what was given for the run, what the run's own node lies in, or what the plan was made for. */
static void bind_given(bti_run *run, size_t s) {
    const bti_storage *storage = &run->prepared->plan.storages.items[s];
    if (run->nodes) {
        const bti_node *node = node_of(run, storage);
        int64_t further = node->layout.offset - storage->node->layout.offset;
        bti_exec_give(run, (int32_t)s, memory_of(node), further * (int64_t)bt_dtype_size((bt_dtype)node->dtype));
    }
    if (!run->buffers[s]) bti_exec_give(run, (int32_t)s, storage->external, 0);
    run->addresses[s] = run->buffers[s]->address + (uint64_t)run->moved[s];
}

void bti_exec_donate(bti_run *run, int32_t storage) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t d = 0; d < plan->donations.count; d++)
        if (plan->donations.items[d].given == storage) run->donated[d] = BTI_DONATED_OFFERED;
}

#define HOLDERS_GIVEN 2 /* the caller's node, and the run */

/* Takes what is offered, where nobody else has it. An output's memory is then there. */
static void take_donated(bti_run *run) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t d = 0; d < plan->donations.count; d++) {
        if (run->donated[d] != BTI_DONATED_OFFERED) continue;
        int32_t output = plan->donations.items[d].output;
        bti_buffer *from = run->buffers[plan->donations.items[d].given], *to = NULL;
        const bti_storage *storage = output < 0 ? NULL : &plan->storages.items[output];
        bool passes =
            storage && storage->bytes == (int64_t)from->bytes; /* one given to a call may be a part of its buffer */
        if (passes && !(to = bti_buffer_new(storage->device, (size_t)storage->bytes, node_of(run, storage)))) continue;
        if (!bti_buffer_take(from, HOLDERS_GIVEN, run->aside)) {
            bti_buffer_release(to);
            continue;
        }
        run->donated[d] = BTI_DONATED_TAKEN;
        if (!passes) continue;
        describe_result(to, run, storage);
        bti_buffer_pass(from, to);
        run->buffers[output] = to;
        run->addresses[output] = to->address;
    }
}

/* Another call may have been given the memory up since this run was given it. */
static bt_status check_given(const bti_run *run, size_t s) {
    const bti_plan *plan = &run->prepared->plan;
    if (!atomic_load(&run->buffers[s]->taken)) return BT_OK;
    for (size_t d = 0; d < plan->donations.count; d++)
        if (plan->donations.items[d].given == (int32_t)s && run->donated[d] == BTI_DONATED_TAKEN) return BT_OK;
    BTI_TRY(bti_buffer_use(run->buffers[s]));
    bti_buffer_release(run->buffers[s]); /* it is free again: that call was given up */
    return BT_OK;
}

static void bind_all_given(bti_run *run) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t s = 0; s < plan->storages.count; s++)
        if (plan->storages.items[s].given && plan->storages.items[s].last_step >= 0) bind_given(run, s);
}

static bt_status check_all_given(const bti_run *run) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t s = 0; s < plan->storages.count; s++)
        if (plan->storages.items[s].given && plan->storages.items[s].last_step >= 0) BTI_TRY(check_given(run, s));
    return BT_OK;
}

/* Whether nothing that the run reads is still to be computed, and whoever submits it would wait for it, or for a thread that begins. */
static bool can_run_aside(const bti_run *run) {
    const bti_prepared *of = run->prepared;
    if (of->only_device < 0 || !bti_device_runs_side_by_side(of->only_device)) return false;
    if (!(of->brief || run->waited_for) || !bti_run_queue_has_room()) return false;
    if (bti_flag_bool(BTI_FLAG_check_kernels)) return false; /* a check is made of one launch at a time */
    for (size_t s = 0; s < of->plan.storages.count; s++)
        if (run->buffers[s] && !bti_buffer_done(run->buffers[s])) return false;
    return true;
}

/* `wished`: those that had best lie at an address, before any other takes it. */
static bt_status reserve_buffers(bti_run *run, bool wished, bti_error **error) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (storage->given || (wished && !run->addresses[s])) continue;
        if (storage->offset >= 0)
            run->addresses[s] = run->arenas[storage->device]->address + (uint64_t)storage->offset;
        else if (bti_plan_reserves(plan, storage) && !run->buffers[s])
            BTI_TRY(reserve_buffer(run, s, error));
    }
    return BT_OK;
}

static bt_status reserve_all(bti_run *run, bti_error **error) {
    const bti_plan *plan = &run->prepared->plan;
    bind_all_given(run);
    run->aside = can_run_aside(run);
    take_donated(run);
    BTI_TRY(check_all_given(run));
    int turn = run->prepared->turns ? bti_turns_find(run) : -1;
    for (size_t d = 0; d < plan->arenas.count; d++) BTI_TRY(reserve_arena(run, d, error));
    BTI_TRY(reserve_buffers(run, turn >= 0, error));
    BTI_TRY(reserve_buffers(run, false, error));
    if (turn >= 0) bti_turns_note(run, turn);
    return BT_OK;
}

/* What is given is kept by the device in a layout of its own. */
static void find_packed(bti_run *run) {
    const bti_prepared *of = run->prepared;
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        if (!of->steps[s].packed) continue;
        const bti_value *value = bti_plan_operand(&of->plan, &of->plan.steps.items[s], 1);
        bti_buffer *source = run->buffers[value->storage];
        if (!source || source->loan.end || atomic_load(&source->taken)) continue;
        bti_packed_key key = *of->steps[s].packed;
        key.offset += run->moved[value->storage];
        run->packed[s] = bti_packed_find(source, &key, (size_t)bti_value_bytes(value));
    }
}

static int32_t result_storage(const bti_plan *plan, size_t result) {
    return plan->values.items[plan->results.items[result].value].storage;
}

void bti_exec_give(bti_run *run, int32_t storage, bti_buffer *buffer, int64_t moved) {
    run->buffers[storage] = bti_buffer_retain(buffer);
    run->moved[storage] = moved;
}

bti_buffer *bti_exec_result(bti_run *run, size_t result) {
    return run->buffers[result_storage(&run->prepared->plan, result)];
}

bti_layout bti_exec_result_layout(const bti_run *run, size_t result) {
    const bti_plan *plan = &run->prepared->plan;
    const bti_value *value = &plan->values.items[plan->results.items[result].value];
    bti_layout layout = value->layout;
    if (plan->storages.items[value->storage].given)
        layout.offset += run->moved[value->storage] / (int64_t)bt_dtype_size(value->dtype);
    return layout;
}

bt_status bti_exec_reserve(bti_run *run, bti_error **error) {
    const bti_plan *plan = &run->prepared->plan;
    *error = NULL;
    const bti_reserve_observer *observer = bti_reserve_observer_now();
    if (observer) observer->begin_run(plan);
    bt_status status = reserve_all(run, error);
    if (observer) observer->end(status == BT_OK);
    if (status != BT_OK && !*error) *error = bti_error_last();
    if (status == BT_OK) find_packed(run);
    if (status != BT_OK) bti_exec_abandon(run);
    for (size_t r = 0; r < plan->results.count && status == BT_OK; r++) {
        int32_t storage = result_storage(plan, r);
        if (!plan->storages.items[storage].given) bti_buffer_list(run->buffers[storage]);
    }
    return status;
}

/* The memory of temporaries serves later work on the same queues. */
static void give_back_temporaries(bti_run *run, const uint64_t *numbers) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t d = 0; d < plan->arenas.count; d++)
        if (run->arenas[d]) bti_buffer_give_back(run->arenas[d], numbers[d]);
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (storage->own_block && !bti_buffer_is_held(run->buffers[s]) &&
            storage->last_step < (int32_t)plan->steps.count && run->buffers[s])
            bti_buffer_give_back(run->buffers[s], numbers[storage->device]);
    }
    for (size_t d = 0; d < plan->donations.count; d++)
        if (run->donated[d] == BTI_DONATED_TAKEN) {
            bti_buffer *from = run->buffers[plan->donations.items[d].given];
            bti_buffer_give_back(from, numbers[from->device]); /* unless it was passed to an output */
        }
}

/* --- submitting ------------------------------------------------------------------------------------------------------ */

static atomic_uint_fast64_t newest[BTI_MAX_DEVICES]; /* what the queue had been given before the last run */

/* What each device's queue has been given before and with this run. */
static void number_tasks(bti_run *run, uint64_t *base, uint64_t *numbers) {
    const bti_prepared *of = run->prepared;
    for (int d = 0; d < of->devices; d++) base[d] = numbers[d] = bti_run_queue_submitted(d);
    for (size_t t = 0; t < of->tasks.count; t++) {
        const bti_run_task_plan *task = &of->tasks.items[t];
        run->tasks[t].wait_number = base[task->wait_device] + task->wait_number;
        numbers[task->device]++;
    }
    bti_collectives_number(run, base);
    bti_sends_begin(run, base);
    for (size_t s = 0; s < of->plan.storages.count; s++) {
        bti_buffer *buffer = run->buffers[s];
        if (!buffer) continue;
        if (buffer->device < of->devices) buffer->used_until = numbers[buffer->device];
        if (!of->plan.storages.items[s].given && of->plan.storages.items[s].first_step >= 0)
            buffer->ready = base[buffer->device] + of->ready[s];
    }
}

/* Its memory is nobody else's until it is over. */
static void run_aside(bti_run *run) {
    const bti_prepared *of = run->prepared;
    static const uint64_t idle[BTI_MAX_DEVICES];
    bti_buffers_run_aside(1);
    for (size_t t = 0; t < of->tasks.count; t++) {
        run->tasks[t].entry = (bti_queue_entry){.run = bti_run_task_run};
        bti_run_queue_aside(&run->tasks[t].entry);
    }
    give_back_temporaries(run, idle);
    bti_run_keep(run);
    bti_run_done(run);
    bti_buffers_run_aside(-1);
}

uint64_t bti_exec_start(bti_run *run) {
    const bti_prepared *of = run->prepared;
    uint64_t before[BTI_MAX_DEVICES], numbers[BTI_MAX_DEVICES];
    size_t count = of->tasks.count; /* the run may be gone when the last one is submitted */
    bti_clock_host_works(BTI_HOST_SUBMITS);
    for (size_t s = 0; s < of->plan.steps.count; s++)
        run->places[s] = bti_step_place(&of->plan, &of->plan.steps.items[s], run->nodes);
    run->nodes = NULL;
    uint64_t start = bti_trace_begin(), hash = start ? bti_plan_hash(&of->plan) : 0;
    uint32_t traced = run->traced = start ? bti_trace_new_run() : 0;
    if (run->aside) {
        bti_trace_submission(start, traced, hash);
        run_aside(run);
        return 0;
    }
    bti_run_queues_lock();
    number_tasks(run, before, numbers);
    give_back_temporaries(run, numbers);
    for (size_t t = 0; t < count; t++) {
        int device = of->tasks.items[t].device;
        bool async = bti_device_is_async(device), by_clock = of->tasks.items[t].by_clock;
        run->tasks[t].entry = (bti_queue_entry){.run = bti_run_task_run,
                                                .settle = bti_run_task_settle,
                                                .poll = async || by_clock ? bti_run_task_poll : NULL,
                                                .watched = async && !bti_device_has_clock(device),
                                                .alone = of->tasks.items[t].alone};
        bti_run_queue_submit(device, &run->tasks[t].entry);
    }
    for (int d = 0; d < of->devices; d++)
        if (numbers[d] > before[d]) atomic_store_explicit(&newest[d], before[d], memory_order_relaxed);
    bti_run_queues_unlock();
    bti_run_keep(run);
    bti_trace_submission(start, traced, hash);
    uint64_t end = count ? numbers[of->tasks.items[count - 1].device] : 0;
    bti_run_done(run);
    return end;
}

/* In the order of the plan. Numbers may be later ones, where others submitted meanwhile. What is copied to the host arrives behind other work of the host's, which is not this thread's. */
static void launch_in_order(const bti_prepared *of) {
    uint64_t number[BTI_MAX_DEVICES];
    for (int d = 0; d < of->devices; d++) number[d] = bti_run_queue_submitted(d);
    for (size_t t = 0; t < of->tasks.count; t++) number[of->tasks.items[t].device]--;
    for (size_t t = 0; t < of->tasks.count; t++) {
        int device = of->tasks.items[t].device;
        bool is_next = bti_run_queue_issued(device) >= number[device]++;
        if (!of->tasks.items[t].by_clock || is_next)
            bti_run_queue_issue(device, number[device]);
        else
            bti_run_queue_kick(device);
    }
    for (int d = 0; d < of->devices; d++) bti_run_queue_poll(d);
}

/* Little work is done, and any launched, sooner than another thread would begin. Nobody watches devices with a clock: who submits looks. */
void bti_exec_dispatch(bti_prepared *of, uint64_t end) {
    int device = of->only_device;
    if (!of->tasks.count) return;
    if (device >= 0 && bti_device_has_clock(device)) bti_run_queue_poll(device);
    if (of->by_caller) {
        launch_in_order(of);
        return;
    }
    if (device < 0) {
        bti_exec_kick();
        return;
    }
    if (of->brief && (bti_device_is_async(device) || bti_run_queue_completed(device) + of->tasks.count >= end))
        bti_run_queue_issue(device, end);
    else
        bti_run_queue_kick(device);
}

#define AHEAD 64 /* tasks: more find their memory out of the cache */

void bti_exec_throttle(void) {
    int64_t most = bti_flag_int(BTI_FLAG_ahead_bytes);
    (void)bti_devices_release_held(true);
    for (int d = 0; d < bti_device_count(); d++) {
        uint64_t submitted = bti_run_queue_submitted(d),
                 before = atomic_load_explicit(&newest[d], memory_order_relaxed);
        if (submitted > AHEAD) bti_run_queue_wait(d, submitted - AHEAD);
        for (uint64_t next; bti_buffers_pending(d) > most && (next = bti_run_queue_completed(d) + 1) <= before;)
            bti_run_queue_wait(d, next);
    }
}

/* Tuples have room for the buffers of their results: planning makes it, and so does who runs a plan again. */
static bt_status make_room_in_tuples(const bti_plan *plan, bti_node *const *nodes) {
    for (size_t r = 0; r < plan->results.count; r++) {
        bti_tuple *tuple = bti_run_node(nodes, plan->results.items[r].node)->tuple;
        if (plan->results.items[r].of_tuple < 0 || tuple->buffers) continue;
        tuple->buffers = bti_calloc((size_t)tuple->result_count + 1, sizeof *tuple->buffers);
        if (!tuple->buffers) return bti_no_memory();
    }
    return BT_OK;
}

static void fill_results(bti_run *run) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t r = 0; r < plan->results.count; r++) {
        bti_node *node = bti_run_node(run->nodes, plan->results.items[r].node);
        int32_t of_tuple = plan->results.items[r].of_tuple;
        bti_buffer *buffer = bti_buffer_retain(bti_exec_result(run, r));
        if (of_tuple >= 0) {
            node->tuple->buffers[of_tuple] = buffer;
            continue;
        }
        node->buffer = buffer;
        node->layout = bti_exec_result_layout(run, r);
    }
}

bt_status bti_exec_submit(bti_prepared *prepared, bti_node *const *nodes, bool behind, bti_submitted *submitted,
                          bti_error **error) {
    const bti_plan *plan = &prepared->plan;
    *error = NULL;
    BTI_TRY(make_room_in_tuples(plan, nodes));
    bti_run *run = bti_exec_begin(prepared);
    if (!run) return bti_no_memory();
    run->nodes = nodes;
    run->waited_for = !behind;
    BTI_TRY(bti_exec_reserve(run, error));
    fill_results(run);
    uint64_t end = bti_exec_start(run);
    for (size_t r = 0; r < plan->results.count; r++)
        atomic_store(&bti_run_node(nodes, plan->results.items[r].node)->state, BTI_DONE);
    *submitted = (bti_submitted){bti_prepared_retain(prepared), end, end && (behind || prepared->only_device < 0)};
    return BT_OK;
}

void bti_exec_begin_submitted(bti_submitted *submitted) {
    if (submitted->begin) bti_exec_dispatch(submitted->prepared, submitted->end);
    bti_prepared_release(submitted->prepared);
    *submitted = (bti_submitted){0};
}

void bti_exec_kick(void) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++)
        if (bti_run_queue_submitted(d) > bti_run_queue_completed(d)) bti_run_queue_kick(d);
}

void bti_exec_finish(void) {
    if (bti_host_check() != BT_OK) return;
    uint64_t start = bti_trace_begin();
    bti_exec_kick();
    for (int d = 0; d < BTI_MAX_DEVICES; d++) bti_run_queue_wait(d, bti_run_queue_submitted(d));
    (void)bti_devices_release_held(true);
    bti_exec_settle();
    bti_trace_end(BTI_TRACE_WAIT, "everything", start);
}

void bti_exec_shutdown(void) { bti_run_queues_stop(); }

/* From a plan to tasks on queues. First everything that can fail: memory in the plan's order, programs; then the tasks. */
#include <string.h>

#include "exec/buffer.h"
#include "exec/queue.h"

typedef struct bound_step {
    bti_program *program; /* retained; NULL: a copy between devices */
    bti_work work;        /* operands bound to addresses */
    bti_buffer **inputs;  /* work.input_count of them */
    bti_buffer *output;
    uint64_t output_idle; /* of a copy: number on the output's queue after which its memory may be written */
    bti_place place;
} bound_step;

/* One submitted plan. Holds its buffers until all its tasks have run. */
typedef struct run {
    atomic_uint tasks;
    size_t buffer_count, step_count;
    bti_buffer **buffers; /* one per storage */
    bound_step *steps;
    bti_operand *operands;
    bti_buffer **inputs;
    int64_t *attrs;
} run;

/* Steps first..last-1 of a run on one device; or, with first == last, a wait for a copy that another device sends. */
typedef struct run_task {
    bti_task task;
    run *run;
    int device;
    size_t first, last;
    int wait_device;
    uint64_t wait_number;
} run_task;

typedef BTI_VEC(run_task *) task_list;

static void run_release(run *r) {
    if (atomic_fetch_sub_explicit(&r->tasks, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < r->buffer_count; i++) bti_buffer_release(r->buffers[i]);
    for (size_t s = 0; s < r->step_count; s++) bti_program_release(r->steps[s].program);
    bti_free(r->buffers);
    bti_free(r->steps);
    bti_free(r->operands);
    bti_free(r->inputs);
    bti_free(r->attrs);
    bti_free(r);
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static void run_step(int device, bound_step *step) {
    for (int i = 0; i < step->work.input_count; i++) {
        bti_error *error = bti_buffer_error(step->inputs[i]);
        if (error) {
            bti_buffer_fail(step->output, error);
            return;
        }
    }
    bt_status status;
    int depth = bti_call_begin(NULL); /* what goes wrong is told of who enqueued it, not of who happens to wait */
    bti_place waiting = bti_call_set_place(step->place);
    if (step->program)
        status = bti_program_launch(step->program, &step->work);
    else {
        bti_queue_wait(step->output->device, step->output_idle);
        status = bti_device_copy(step->output->device, step->output->address, device, step->work.inputs[0].address,
                                 step->output->bytes);
    }
    bti_call_set_place(waiting);
    bti_call_end(depth);
    if (status == BT_OK) return;
    bti_error *error = bti_error_last();
    if (!error) error = bti_error_at(step->place, status, "%s without a word", bt_status_name(status));
    bti_buffer_fail(step->output, error);
    bti_error_release(error);
}

/* The device failed behind our back: nothing that it did can be trusted. */
static void fail_steps(const run_task *task, bt_status status) {
    for (size_t s = task->first; s < task->last; s++) {
        const bound_step *step = &task->run->steps[s];
        bti_error *error = bti_error_at(step->place, status, "%s", bt_error_text());
        bti_buffer_fail(step->output, error);
        bti_error_release(error);
    }
}

static bt_status finish(int device) {
    int depth = bti_call_begin(NULL);
    bti_place waiting = bti_call_set_place((bti_place){0});
    bt_status status = bti_device_finish(device);
    bti_call_set_place(waiting);
    bti_call_end(depth);
    return status;
}

static void run_steps(bti_task *base) {
    run_task *task = (run_task *)base;
    bti_error *before = bti_error_last(); /* whoever runs this may be waiting for something else */
    bool quiet = bti_errors_quiet(false);
    bt_error_clear();
    if (task->first == task->last)
        bti_queue_wait(task->wait_device, task->wait_number);
    else {
        for (size_t s = task->first; s < task->last; s++) run_step(task->device, &task->run->steps[s]);
        bt_status status = finish(task->device);
        if (status != BT_OK) fail_steps(task, status);
    }
    bti_errors_quiet(quiet);
    bt_error_clear();
    (void)!bti_fail_with(before);
    bti_error_release(before);
    run_release(task->run);
    bti_free(task);
}

static void skip(bti_task *base) { bti_free((run_task *)base); }

/* --- binding ------------------------------------------------------------------------------------------------------- */

static run *run_new(const bti_plan *plan) {
    size_t attrs = 0;
    for (size_t s = 0; s < plan->steps.count; s++) attrs += (size_t)plan->steps.items[s].node->attr_count;
    run *r = bti_calloc(1, sizeof *r);
    if (!r) return NULL;
    atomic_init(&r->tasks, 1);
    r->buffer_count = plan->storages.count;
    r->step_count = plan->steps.count;
    r->buffers = bti_calloc(plan->storages.count, sizeof *r->buffers);
    r->steps = bti_calloc(plan->steps.count, sizeof *r->steps);
    r->operands = bti_calloc(plan->operands.count, sizeof *r->operands);
    r->inputs = bti_calloc(plan->operands.count, sizeof *r->inputs);
    r->attrs = bti_calloc(attrs, sizeof *r->attrs);
    if (r->buffers && r->steps && r->operands && r->inputs && r->attrs) return r;
    r->buffer_count = r->step_count = 0;
    run_release(r);
    return NULL;
}

static bti_operand bind(const run *r, const bti_value *value) {
    const bti_buffer *buffer = r->buffers[value->storage];
    bti_operand operand = {.dtype = value->dtype, .rank = value->rank};
    operand.address = buffer->address + (uint64_t)value->layout.offset * bt_dtype_size(value->dtype);
    memcpy(operand.shape, value->shape, sizeof operand.shape);
    memcpy(operand.stride, value->layout.stride, sizeof operand.stride);
    return operand;
}

static bt_status bind_step(run *r, const bti_plan *plan, size_t s, int64_t *attr) {
    const bti_step *step = &plan->steps.items[s];
    const bti_value *output = &plan->values.items[step->output];
    bound_step *bound = &r->steps[s];
    bound->place = step->node->place;
    bound->output = r->buffers[output->storage];
    bound->inputs = r->inputs + step->first_input;
    for (int i = 0; i < step->input_count; i++) {
        const bti_value *input = &plan->values.items[plan->operands.items[step->first_input + i]];
        bound->inputs[i] = r->buffers[input->storage];
        r->operands[step->first_input + i] = bind(r, input);
    }
    bool own_attr = step->op == step->node->op;
    if (own_attr) memcpy(attr, step->node->attr, (size_t)step->node->attr_count * sizeof *attr);
    bound->work = (bti_work){.op = (bti_op)step->op,
                             .input_count = step->input_count,
                             .inputs = r->operands + step->first_input,
                             .output = bind(r, output),
                             .attr = attr,
                             .attr_count = own_attr ? step->node->attr_count : 0};
    if (step->copy) return BT_OK;
    bti_program_source source = {.op = (bti_op)step->op, .dtype = output->dtype};
    return bti_device_program(step->device, &source, &bound->program);
}

/* --- memory in the plan's order, and the tasks --------------------------------------------------------------------- */

typedef struct binder {
    const bti_plan *plan;
    run *run;
    task_list tasks;
    uint64_t numbers[BTI_MAX_DEVICES]; /* that the queues will have given out by now */
    bti_error *error;
} binder;

static bt_status reserve(binder *b, int32_t storage) {
    const bti_storage *s = &b->plan->storages.items[storage];
    bti_buffer **slot = &b->run->buffers[storage];
    if (*slot) return BT_OK;
    if (s->external) {
        *slot = bti_buffer_retain(s->external);
        return BT_OK;
    }
    *slot = bti_buffer_new(s->device, (size_t)s->bytes, s->node);
    if (!*slot) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    bt_status status = bti_buffer_reserve(*slot, false);
    if (status == BT_RESOURCE_EXHAUSTED) {
        b->error = bti_out_of_memory(s->device, s->bytes, s->node, bt_error_text());
        return bti_fail_with(b->error);
    }
    return status;
}

/* Temporaries that this step reads last serve the next steps. */
static void give_back(binder *b, size_t s, int32_t storage) {
    const bti_storage *of = &b->plan->storages.items[storage];
    if (!of->external && of->last_step == (int32_t)s)
        bti_buffer_give_back(b->run->buffers[storage], b->numbers[of->device]);
}

static run_task *add_task(binder *b, int device, size_t first) {
    run_task *task = bti_calloc(1, sizeof *task);
    if (!task || !bti_vec_push(&b->tasks, task)) {
        bti_free(task);
        return NULL;
    }
    *task = (run_task){.task.run = run_steps, .run = b->run, .device = device, .first = first, .last = first};
    b->numbers[device]++;
    return task;
}

static bt_status add_step(binder *b, size_t s, int64_t *attr, run_task **open) {
    const bti_step *step = &b->plan->steps.items[s];
    int32_t out = b->plan->values.items[step->output].storage;
    BTI_TRY(reserve(b, out));
    for (int i = 0; i < step->input_count; i++)
        BTI_TRY(reserve(b, b->plan->values.items[b->plan->operands.items[step->first_input + i]].storage));
    BTI_TRY(bind_step(b->run, b->plan, s, attr));
    if (!*open || (*open)->device != step->device) *open = add_task(b, step->device, s);
    if (!*open) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    (*open)->last = s + 1;
    if (step->copy) {
        bti_buffer *arrived = b->run->buffers[out];
        b->run->steps[s].output_idle = arrived->block->busy_until;
        int sender = step->device;
        run_task *wait = add_task(b, arrived->device, s);
        if (!wait) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
        wait->wait_device = sender;
        wait->wait_number = b->numbers[sender];
        *open = NULL;
    }
    b->run->buffers[out]->ready = b->numbers[b->run->buffers[out]->device];
    for (int i = 0; i < step->input_count; i++)
        give_back(b, s, b->plan->values.items[b->plan->operands.items[step->first_input + i]].storage);
    give_back(b, s, out);
    return BT_OK;
}

static bt_status bind_all(binder *b) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++) b->numbers[d] = bti_queue_submitted(d);
    int64_t *attr = b->run->attrs;
    run_task *open = NULL;
    for (size_t s = 0; s < b->plan->steps.count; s++) {
        BTI_TRY(add_step(b, s, attr, &open));
        attr += b->plan->steps.items[s].node->attr_count;
    }
    for (size_t r = 0; r < b->plan->results.count; r++) /* results that no step makes: views, empty arrays */
        BTI_TRY(reserve(b, b->plan->values.items[b->plan->results.items[r].value].storage));
    return BT_OK;
}

static void publish(binder *b) {
    for (size_t r = 0; r < b->plan->results.count; r++) {
        const bti_plan_result *result = &b->plan->results.items[r];
        const bti_value *value = &b->plan->values.items[result->value];
        bti_buffer *buffer = b->run->buffers[value->storage];
        if (!b->plan->storages.items[value->storage].external) bti_buffer_list(buffer);
        result->node->buffer = bti_buffer_retain(buffer);
        result->node->layout = value->layout;
        atomic_store(&result->node->state, BTI_DONE);
    }
}

static bool one_device(const task_list *tasks) {
    for (size_t i = 1; i < tasks->count; i++)
        if (tasks->items[i]->device != tasks->items[0]->device) return false;
    return true;
}

bt_status bti_exec_submit(const bti_plan *plan, bool behind, bti_error **error) {
    binder b = {.plan = plan, .run = run_new(plan)};
    bt_status status = b.run ? bind_all(&b) : bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    if (status == BT_OK) {
        publish(&b);
        behind = behind || !one_device(&b.tasks);
        atomic_store(&b.run->tasks, (unsigned)b.tasks.count + 1);
        for (size_t i = 0; i < b.tasks.count; i++) bti_queue_submit(b.tasks.items[i]->device, &b.tasks.items[i]->task);
        if (behind) bti_exec_kick();
    } else {
        /* Memory given back meanwhile waits for their numbers: they come true, with nothing to do. */
        for (size_t i = 0; i < b.tasks.count; i++) {
            b.tasks.items[i]->task.run = skip;
            bti_queue_submit(b.tasks.items[i]->device, &b.tasks.items[i]->task);
        }
        *error = b.error ? b.error : bti_error_last();
    }
    if (b.run) run_release(b.run);
    bti_vec_free(&b.tasks);
    return status;
}

void bti_exec_kick(void) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++)
        if (bti_queue_submitted(d) > bti_queue_completed(d)) bti_queue_kick(d);
}

void bti_exec_finish(void) {
    bti_exec_kick();
    for (int d = 0; d < BTI_MAX_DEVICES; d++) bti_queue_wait(d, bti_queue_submitted(d));
}

void bti_exec_shutdown(void) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++) bti_queue_stop(d);
}

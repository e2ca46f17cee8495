#include "exec/fill.h"

#include "base/flags.h"
#include "exec/buffer.h"
#include "exec/prepared.h"

/* Whether the output is in the place of something given, which its kernel may read. */
static bool is_donated(const bti_run *run, int32_t output) {
    const bti_plan *plan = &run->prepared->plan;
    for (size_t d = 0; d < plan->donations.count; d++)
        if (plan->donations.items[d].output == output && run->donated[d] == BTI_DONATED_TAKEN) return true;
    return false;
}

/* What it is the first to write; the memory of what arrives from elsewhere may still be read. */
bt_status bti_fill_outputs(const bti_run *run, size_t s) {
    if (!bti_flag_bool(BTI_FLAG_memory_fill)) return BT_OK;
    const bti_plan *plan = &run->prepared->plan;
    const bti_step *step = &plan->steps.items[s];
    if (step->kind == BTI_STEP_COPY) return BT_OK;
    for (int o = 0; o < step->output_count; o++) {
        int32_t number = bti_plan_output(plan, step, o)->storage;
        const bti_storage *storage = &plan->storages.items[number];
        if (storage->in_place || storage->given || storage->first_step != (int32_t)s) continue;
        if (is_donated(run, number)) continue;
        BTI_TRY(bti_device_fill(step->device, run->addresses[number], 0xff, (size_t)storage->bytes));
    }
    return BT_OK;
}

static bool is_last_on_device(const bti_run_task *task) {
    const bti_run_task *end = task->run->tasks + task->run->prepared->tasks.count;
    for (const bti_run_task *t = task + 1; t < end; t++)
        if (t->plan->device == task->plan->device) return false;
    return true;
}

static void fill_buffer(int device, const bti_buffer *buffer) {
    if (buffer && buffer->device == device) (void)bti_device_fill(device, buffer->address, 0xff, buffer->bytes);
}

/* A copy to another device reads it beside the queue. */
static bool is_sent(const bti_prepared *prepared, size_t storage) {
    const bti_plan *plan = &prepared->plan;
    for (size_t n = 0; n < prepared->sends.count; n++) {
        const bti_step *step = &plan->steps.items[prepared->sends.items[n].step];
        if (bti_plan_operand(plan, step, 0)->storage == (int32_t)storage) return true;
    }
    return false;
}

static void fill_donated(const bti_run_task *task) {
    const bti_run *run = task->run;
    const bti_plan *plan = &run->prepared->plan;
    for (size_t d = 0; d < plan->donations.count; d++) {
        const bti_buffer *from = run->buffers[plan->donations.items[d].given];
        int32_t output = plan->donations.items[d].output;
        bool passed = output >= 0 && run->buffers[output] && run->addresses[output] == from->address;
        if (run->donated[d] == BTI_DONATED_TAKEN && !passed) fill_buffer(task->plan->device, from);
    }
}

/* As run.c gives memory back when it submits a run. */
void bti_fill_freed(const bti_run_task *task) {
    const bti_run *run = task->run;
    const bti_plan *plan = &run->prepared->plan;
    int device = task->plan->device;
    if (!bti_flag_bool(BTI_FLAG_memory_fill) || !is_last_on_device(task)) return;
    bool quiet = bti_errors_quiet(true);
    bti_error *before = bti_error_last();
    if ((size_t)device < plan->arenas.count) fill_buffer(device, run->arenas[device]);
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (storage->own_block && !storage->given && storage->last_step < (int32_t)plan->steps.count &&
            !is_sent(run->prepared, s))
            fill_buffer(device, run->buffers[s]);
    }
    fill_donated(task);
    bti_error_put_back(before);
    bti_errors_quiet(quiet);
}

#include "exec/trace.h"

#include <stdio.h>

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

/* --- what was read and written -------------------------------------------------------------------------------------- */

static void count_kernel(bti_trace_event *event, const bti_plan *plan, const bti_step *step) {
    const bti_kernel *kernel = plan->kernels.items[step->kernel];
    const int64_t *extent = plan->numbers.items + step->first_number;
    bti_kernel_name(event->name, sizeof event->name, kernel);
    event->elements = 1;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) event->elements *= (uint64_t)extent[axis];
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        if (kernel->operands[o].index) continue;
        uint64_t bytes = bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
            if (kernel->operands[o].moves >> axis & 1) bytes *= (uint64_t)extent[axis];
        *(o < kernel->input_count ? &event->read_bytes : &event->written_bytes) += bytes;
    }
}

static uint64_t bytes_of(const bti_value *value) {
    uint64_t bytes = bt_dtype_size(value->dtype);
    for (int axis = 0; axis < value->rank; axis++)
        if (value->layout.stride[axis] || !value->shape[axis]) bytes *= (uint64_t)value->shape[axis];
    return bytes;
}

static void count_work(bti_trace_event *event, const bti_plan *plan, const bti_step *step) {
    const bti_value *output = bti_plan_output(plan, step, 0);
    snprintf(event->name, sizeof event->name, "%s", bti_op_info((bti_op)step->op)->name);
    for (int i = 0; i < step->input_count; i++) event->read_bytes += bytes_of(bti_plan_operand(plan, step, i));
    event->written_bytes = bytes_of(output);
    event->elements = 1;
    for (int axis = 0; axis < output->rank; axis++) event->elements *= (uint64_t)output->shape[axis];
}

void bti_trace_step_(uint64_t start, const bti_plan *plan, const bti_step *step, const bti_trace_asked *asked) {
    bti_trace_event event = {.kind = BTI_TRACE_KERNEL,
                             .device = (int16_t)step->device,
                             .to = (int16_t)step->device,
                             .start_ns = start,
                             .end_ns = bti_trace_now(),
                             .file = asked->place.site.file,
                             .line = asked->place.site.line};
    memcpy(event.operations, asked->operations, sizeof event.operations);
    if (step->kind == BTI_STEP_KERNEL)
        count_kernel(&event, plan, step);
    else
        count_work(&event, plan, step);
    bti_trace_add(&event);
}

#include "drivers/cpu/ranges.h"

#include "base/cores.h"
#include "base/error.h"
#include "drivers/cpu/copy.h"
#include "reference/operand.h"

enum { OUTPUT = BTI_RANGE_INPUTS };

static void run_range(void *context, int64_t begin, int64_t end) {
    bti_ranges *r = context;
    bti_work work = *r->work;
    bti_operand inputs[BTI_RANGE_INPUTS];
    for (int i = 0; i < work.input_count; i++)
        inputs[i] = r->axis[i] < 0 ? work.inputs[i] : bti_operand_part(&work.inputs[i], r->axis[i], begin, end - begin);
    work.inputs = inputs;
    work.output = bti_operand_part(&work.output, r->axis[OUTPUT], begin, end - begin);
    bt_status status = r->run(&work);
    if (status != BT_OK) atomic_store(&r->status, (int)status);
}

bt_status bti_run_ranges(bti_ranges *r) {
    const bti_work *work = r->work;
    int axis = r->axis[OUTPUT];
    if (axis < 0 || work->output.shape[axis] < 2) return r->run(work);
    int64_t elements = bti_operand_count(&work->output), extent = work->output.shape[axis];
    for (int i = 0; i < work->input_count; i++)
        if (r->axis[i] >= 0 && bti_operand_count(&work->inputs[i]) > elements)
            elements = bti_operand_count(&work->inputs[i]);
    int64_t each = elements / extent * (int64_t)bt_dtype_size(work->inputs[0].dtype);
    bti_parallel(extent, bti_copy_grain(each), run_range, r);
    bt_status status = (bt_status)atomic_load(&r->status);
    return status == BT_OK ? BT_OK : bti_fail(status, "no memory for a part of %s", bti_op_info(work->op)->name);
}

static int longest_axis(const bti_operand *operand, int but) {
    int longest = -1;
    for (int axis = 0; axis < operand->rank; axis++)
        if (axis != but && (longest < 0 || operand->shape[axis] > operand->shape[longest])) longest = axis;
    return longest;
}

bt_status bti_run_lines(const bti_work *work, bt_status (*run)(const bti_work *work), int axis, unsigned same) {
    int across = longest_axis(&work->output, axis);
    bti_ranges ranges = {.work = work, .run = run, .axis = {-1, -1, -1, across}};
    for (int i = 0; i < work->input_count && i < BTI_RANGE_INPUTS; i++)
        if (same >> i & 1) ranges.axis[i] = across;
    return bti_run_ranges(&ranges);
}

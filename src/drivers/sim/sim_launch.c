/* What launches do: the CPU's kernels on the memory of the device, and folds over devices. What they would take on a card is counted beside (sim_estimate.h). */
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "drivers/sim/sim_device.h"
#include "drivers/sim/sim_events.h"
#include "reference/operand.h"

/* --- addresses -------------------------------------------------------------------------------------------------------- */

/* The operand with a pointer instead of its address; everything that its strides reach is checked. */
static bt_status translate_operand(bti_sim_device *device, const char *what, const bti_operand *operand, bool written,
                                   bti_operand *out) {
    int64_t low = 0, high = 0, size = (int64_t)bt_dtype_size(operand->dtype), reach;
    *out = *operand;
    for (int i = 0; i < operand->rank; i++) {
        if (operand->shape[i] == 0) return BT_OK; /* no element is touched */
        if (__builtin_mul_overflow(operand->shape[i] - 1, operand->stride[i], &reach) ||
            __builtin_add_overflow(*(reach < 0 ? &low : &high), reach, reach < 0 ? &low : &high))
            return bti_fail(BT_INTERNAL, "%s: an operand's strides overflow", what);
    }
    int64_t bytes;
    if (__builtin_sub_overflow(high, low, &bytes) || __builtin_add_overflow(bytes, 1, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || __builtin_mul_overflow(low, size, &low))
        return bti_fail(BT_INTERNAL, "%s: an operand's extent overflows", what);
    char *host;
    BTI_TRY(bti_sim_memory_translate(&device->memory, what, operand->address + (uint64_t)low, (uint64_t)bytes, &host));
    out->address = (uint64_t)(uintptr_t)host - (uint64_t)low;
    BTI_TRY(bti_sim_uses(&device->engines, operand->address + (uint64_t)low, (uint64_t)bytes, written));
    return BT_OK;
}

/* made: the operand that a product makes, which has no address; -1: none. */
static bt_status translate_box(bti_sim_device *device, const bti_kernel *kernel, int made, const bti_box *box,
                               bti_box *local) {
    int axes = bti_kernel_axes(kernel);
    memcpy(local->extent, box->extent, sizeof local->extent);
    local->scalars = box->scalars;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        memcpy(local->stride[o], box->stride[o], sizeof local->stride[o]);
        local->address[o] = box->address[o];
        if (kernel->operands[o].index || o == made) continue;
        int64_t low = 0, high = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        for (int axis = 0; axis < axes; axis++) {
            int64_t reach;
            if (__builtin_mul_overflow(box->extent[axis] - 1, box->stride[o][axis], &reach) ||
                __builtin_add_overflow(*(reach < 0 ? &low : &high), reach, reach < 0 ? &low : &high))
                return bti_fail(BT_INTERNAL, "a kernel: an operand's strides overflow");
        }
        int64_t rows = bti_kernel_rows_reach(kernel, box, o);
        *(rows < 0 ? &low : &high) += rows;
        char *host;
        BTI_TRY(bti_sim_memory_translate(&device->memory, "a kernel", box->address[o] + (uint64_t)low,
                                         (uint64_t)(high - low), &host));
        local->address[o] = (uint64_t)(uintptr_t)host - (uint64_t)low;
        BTI_TRY(bti_sim_uses(&device->engines, box->address[o] + (uint64_t)low, (uint64_t)(high - low),
                             o >= kernel->input_count));
    }
    return BT_OK;
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

bt_status bti_sim_run_work(bti_sim_device *device, const bti_work *work, bti_sim_demand *demand) {
    BTI_SIM_FAULT("launch");
    const char *what = bti_op_info(work->op)->name;
    bti_operand few[8];
    bti_operand *inputs = few; /* and the others behind them */
    int operands = work->input_count + work->other_count;
    if (operands > 8) inputs = bti_calloc((size_t)operands, sizeof *inputs);
    if (!inputs) return bti_no_memory();
    bti_work local = *work;
    bt_status status = translate_operand(device, what, &work->output, true, &local.output);
    for (int i = 0; status == BT_OK && i < work->input_count; i++)
        status = translate_operand(device, what, &work->inputs[i], false, &inputs[i]);
    for (int i = 0; status == BT_OK && i < work->other_count; i++)
        status = translate_operand(device, what, &work->others[i], true, &inputs[work->input_count + i]);
    local.inputs = inputs;
    local.others = inputs + work->input_count;
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    if (status == BT_OK && bti_sim_has_data(device)) status = bti_cpu_launch(NULL, NULL, &local);
    bti_cores_limit(before);
    if (inputs != few) bti_free(inputs);
    if (bti_sim_has_clock(&device->engines))
        *demand = bti_sim_demand_of_work(&device->engines.model, work, bti_flag_choice(BTI_FLAG_matmul_precision));
    return status;
}

static bt_status run_kernel(bti_sim_device *device, void *program, const bti_box *box) {
    BTI_SIM_FAULT("launch");
    bti_box local;
    BTI_TRY(translate_box(device, bti_cpu_program_kernel(program), -1, box, &local));
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    bt_status status = bti_sim_has_data(device) ? bti_cpu_run_kernel(program, &local) : BT_OK;
    bti_cores_limit(before);
    return status;
}

bt_status bti_sim_run_boxes(bti_sim_device *device, void *program, const bti_box *boxes, int count,
                            bti_sim_demand *demand) {
    for (int b = 0; b < count; b++) {
        BTI_TRY(run_kernel(device, program, &boxes[b]));
        if (!bti_sim_has_clock(&device->engines)) continue;
        bti_sim_demand one =
            bti_sim_demand_of_kernel(&device->engines.model, bti_cpu_program_kernel(program), -1, &boxes[b]);
        if (b)
            bti_sim_demand_add(demand, &one);
        else
            *demand = one;
    }
    return BT_OK;
}

/* --- products with an epilogue ---------------------------------------------------------------------------------------------- */

bool bti_sim_place_product(const void *program, const bti_box *box, bti_box *placed) {
    int made = bti_cpu_program_made(program);
    int place = bti_kernel_output_like(bti_cpu_program_kernel(program), made, box);
    *placed = *box;
    placed->address[made] = place < 0 ? 0 : box->address[place];
    return place >= 0;
}

/* The product where an output will be, or in memory of its own; then its epilogue. */
static bt_status run_whole_product(const bti_work *whole, void *program, const bti_box *box) {
    int made = bti_cpu_program_made(program);
    bti_box placed;
    bti_work product = *whole;
    void *scratch = NULL;
    if (!bti_sim_place_product(program, box, &placed)) {
        scratch = bti_alloc_aligned(64, (size_t)bti_operand_count(&whole->output) * bt_dtype_size(whole->output.dtype));
        if (!scratch) return bti_no_memory();
        placed.address[made] = (uint64_t)(uintptr_t)scratch;
    }
    product.output.address = placed.address[made];
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    bt_status status = bti_cpu_launch(NULL, NULL, &product);
    if (status == BT_OK) status = bti_cpu_run_kernel(program, &placed);
    bti_cores_limit(before);
    bti_free(scratch);
    return status;
}

bt_status bti_sim_run_product(bti_sim_device *device, void *program, const bti_work *product, const bti_box *box,
                              bti_sim_demand *demand) {
    BTI_SIM_FAULT("launch");
    int made = bti_cpu_program_made(program);
    const bti_kernel *epilogue = bti_cpu_program_kernel(program);
    bti_operand inputs[2];
    bti_work local = *product;
    bti_box local_box;
    for (int i = 0; i < 2; i++) BTI_TRY(translate_operand(device, "a product", &product->inputs[i], false, &inputs[i]));
    BTI_TRY(translate_box(device, epilogue, made, box, &local_box));
    local.inputs = inputs;
    if (bti_sim_has_data(device)) BTI_TRY(run_whole_product(&local, program, &local_box));
    if (!bti_sim_has_clock(&device->engines)) return BT_OK;
    *demand = bti_sim_demand_of_product(product, bti_flag_choice(BTI_FLAG_matmul_precision));
    bti_sim_demand more = bti_sim_demand_of_kernel(&device->engines.model, epilogue, made, box);
    bti_sim_demand_add(demand, &more);
    return BT_OK;
}

/* --- folds over devices ---------------------------------------------------------------------------------------------------- */

static bti_op elementwise_op(bti_op fold) {
    switch (fold) {
    case BTI_OP_sum: return BTI_OP_add;
    case BTI_OP_prod: return BTI_OP_mul;
    case BTI_OP_max: return BTI_OP_maximum;
    case BTI_OP_min: return BTI_OP_minimum;
    default: return BTI_OP_COUNT;
    }
}

enum { MOST = BT_KIND_COUNT * BTI_SIM_MAX };

/* Device by device into the first one's output, and from there to the others. */
static bt_status fold_array(char *const *inputs, char *const *outputs, int count, bt_dtype dtype, bti_op op,
                            size_t elements) {
    size_t bytes = elements * bt_dtype_size(dtype);
    if (count == 1) memmove(outputs[0], inputs[0], bytes);
    for (int i = 1; i < count; i++) {
        const char *const from[2] = {i == 1 ? inputs[0] : outputs[0], inputs[i]};
        bti_operand operands[3];
        for (int k = 0; k < 3; k++)
            operands[k] = (bti_operand){.address = (uint64_t)(uintptr_t)(k < 2 ? from[k] : outputs[0]),
                                        .dtype = dtype,
                                        .rank = 1,
                                        .shape = {(int64_t)elements},
                                        .stride = {1}};
        const bti_work work = {.op = elementwise_op(op), .input_count = 2, .inputs = operands, .output = operands[2]};
        BTI_TRY(bti_cpu_launch(NULL, NULL, &work));
    }
    for (int i = 1; i < count; i++) memcpy(outputs[i], outputs[0], bytes);
    return BT_OK;
}

static bt_status reduce_array(void *const *devices, int count, const bti_reduction *what, size_t array) {
    char *inputs[MOST], *outputs[MOST];
    size_t elements = what->elements[array], bytes = elements * bt_dtype_size(what->dtype);
    for (int i = 0; i < count && elements; i++) {
        bti_sim_memory *memory = &((bti_sim_device *)devices[i])->memory;
        size_t at = array * (size_t)count + (size_t)i;
        BTI_TRY(bti_sim_memory_translate(memory, "a reduction", what->inputs[at], bytes, &inputs[i]));
        BTI_TRY(bti_sim_memory_translate(memory, "a reduction", what->outputs[at], bytes, &outputs[i]));
    }
    return elements && bti_sim_has_data(devices[0])
               ? fold_array(inputs, outputs, count, what->dtype, what->op, elements)
               : BT_OK;
}

/* What is used from the call on, until the end that the clock tells. */
static void note_uses(void *const *devices, int count, const bti_reduction *what, const bti_work_end *ends) {
    for (size_t at = 0; at < what->array_count * (size_t)count; at++) {
        bti_sim_engines *engines = &((bti_sim_device *)devices[at % (size_t)count])->engines;
        uint64_t bytes = what->elements[at / (size_t)count] * bt_dtype_size(what->dtype);
        bti_sim_link_uses(engines, what->inputs[at], bytes, false, ends[at % (size_t)count].end_ns);
        bti_sim_link_uses(engines, what->outputs[at], bytes, true, ends[at % (size_t)count].end_ns);
    }
}

bt_status bti_sim_all_reduce(void *const *devices, int count, const bti_reduction *what, const bti_event *after,
                             bti_work_end *ends) {
    bti_sim_engines *engines[MOST];
    bti_event arrived[MOST];
    uint64_t hung = 0;
    size_t elements = 0;
    if (elementwise_op(what->op) == BTI_OP_COUNT || what->dtype == BT_BOOL)
        return bti_fail(BT_UNIMPLEMENTED, "simulated devices do not fold %s by %s", bt_dtype_name(what->dtype),
                        bti_op_info(what->op)->name);
    if (!what->array_count) return BT_OK;
    for (int i = 0; i < count; i++) {
        bti_sim_device *device = devices[i];
        BTI_SIM_FAULT("all_reduce");
        engines[i] = &device->engines;
        if (bti_sim_event_hangs(after[i])) hung = BTI_SIM_HUNG;
        arrived[i].value = after[i].value & ~BTI_SIM_HUNG;
    }
    for (size_t a = 0; a < what->array_count; a++) {
        BTI_TRY(reduce_array(devices, count, what, a));
        elements += what->elements[a];
    }
    bti_sim_took_reduction(engines, count, elements * bt_dtype_size(what->dtype), arrived, ends);
    note_uses(devices, count, what, ends);
    for (int i = 0; i < count; i++) {
        if (!bti_sim_has_clock(engines[i]))
            ends[i].event.value = atomic_fetch_add(&((bti_sim_device *)devices[i])->recorded, 1) + 1;
        ends[i].event.value |= hung;
    }
    return BT_OK;
}

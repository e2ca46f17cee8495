/* Steps of host functions that the device can do: which program a step needs, and which grid, asked once when its plan is made ready. */
#include <string.h>

#include "base/alloc.h"
#include "exec/host.h"
#include "exec/texts.h"

bt_status bti_host_can_run_on(const bti_host_function *host, int device) {
    static const char *const options[] = {[BTI_LANGUAGE_CUDA] = ".cuda", [BTI_LANGUAGE_OPENCL] = ".opencl"};
    bti_language language = bti_device_target(device)->language;
    if (host->run || bti_host_has_kernel(host, language)) return BT_OK;
    const char *name = bt_device_name(bti_device_at(device));
    if (language == BTI_NO_LANGUAGE)
        return bti_fail(
            BT_UNIMPLEMENTED,
            "the operation \"%s\" cannot run on %s: the program's kernels do not run there, and it has no C function "
            "(.run of its options)",
            host->name, name);
    return bti_fail(
        BT_UNIMPLEMENTED,
        "the operation \"%s\" cannot run on %s: it has neither a kernel for it (%s of its options) nor a C function "
        "(.run)",
        host->name, name, options[language]);
}

static bt_status describe(bti_custom_source *source, const bti_plan *plan, const bti_step *step) {
    if (step->input_count + step->output_count > BTI_CUSTOM_OPERANDS)
        return bti_fail(BT_UNIMPLEMENTED, "the kernel of the operation \"%s\" is given %d arrays; it can have %d",
                        source->name, step->input_count + step->output_count, BTI_CUSTOM_OPERANDS);
    source->input_count = step->input_count;
    source->output_count = step->output_count;
    for (int o = 0; o < step->input_count + step->output_count; o++) {
        const bti_value *value = bti_plan_operand(plan, step, o);
        source->dtypes[o] = value->dtype;
        source->ranks[o] = (uint8_t)value->rank;
    }
    return BT_OK;
}

int bti_host_kernel_numbers(const bti_plan *plan, const bti_step *step) {
    int count = (int)step->node->attr->custom.count;
    for (int o = 0; o < step->input_count + step->output_count; o++) count += bti_plan_operand(plan, step, o)->rank;
    return count;
}

static void list_numbers(const bti_plan *plan, const bti_step *step, int64_t *numbers) {
    for (int o = 0; o < step->input_count + step->output_count; o++) {
        const bti_value *value = bti_plan_operand(plan, step, o);
        for (int d = 0; d < value->rank; d++) *numbers++ = value->shape[d];
    }
    for (int i = 0; i < step->node->attr->custom.count; i++) *numbers++ = step->node->attr->custom.number[i];
}

static bt_status ask_grid(bti_host_function *host, const bti_plan *plan, const bti_step *step, bt_custom_grid *grid) {
    bt_elements elements[BTI_CUSTOM_OPERANDS];
    for (int o = 0; o < step->input_count + step->output_count; o++) {
        const bti_value *value = bti_plan_operand(plan, step, o);
        elements[o] = (bt_elements){.dtype = value->dtype, .shape = bti_shape_of(value->shape, (size_t)value->rank)};
    }
    return host->grid(host, elements, step->input_count, elements + step->input_count, step->node->attr, grid);
}

static bool has_elements(const bti_plan *plan, const bti_step *step) {
    bool any = false;
    for (int o = 0; o < step->output_count; o++) any = any || bti_value_bytes(bti_plan_output(plan, step, o));
    return any;
}

bt_status bti_host_kernel(bti_host_function *host, const bti_plan *plan, const bti_step *step, int64_t *numbers,
                          bt_custom_grid *grid, bti_program **program) {
    bti_custom_source custom = {.name = host->name,
                                .entry = host->entry,
                                .text = host->texts[bti_device_target(step->device)->language],
                                .attr_count = (int)step->node->attr->custom.count};
    *grid = (bt_custom_grid){0};
    BTI_TRY(describe(&custom, plan, step));
    list_numbers(plan, step, numbers);
    if (has_elements(plan, step)) BTI_TRY(ask_grid(host, plan, step, grid));
    bti_program_source source = {.op = BTI_OP_custom, .custom = &custom};
    return bti_texts_program(step->device, &source, NULL, 0, program);
}

static bool has_all_elements(const bti_plan *plan, const bti_step *step) {
    bool all = true;
    for (int o = 0; o < step->input_count + step->output_count; o++)
        all = all && bti_value_bytes(bti_plan_operand(plan, step, o));
    return all;
}

static void describe_library_work(const bti_plan *plan, const bti_step *step, bti_program_source *source) {
    bti_host_function *host = step->node->host;
    bt_elements elements[BTI_LIBRARY_OPERANDS];
    for (int o = 0; o < step->input_count; o++) {
        const bti_value *x = bti_plan_operand(plan, step, o);
        elements[o] = (bt_elements){.dtype = x->dtype, .shape = bti_shape_of(x->shape, (size_t)x->rank)};
    }
    if (host->lines)
        host->lines(elements, step->node->attr, &source->fft);
    else
        host->factor(host, elements, step->input_count, step->node->attr, &source->factor);
}

bt_status bti_host_by_library(const bti_plan *plan, const bti_step *step, bti_program **program) {
    const bti_host_function *host = step->node->host;
    bti_program_source source = {.op = BTI_OP_custom};
    *program = NULL;
    if ((!host->lines && !host->factor) || !bti_device_runs_libraries(step->device)) return BT_OK;
    if (!has_all_elements(plan, step)) return BT_OK;
    describe_library_work(plan, step, &source);
    bti_error *before = bti_error_last();
    bool quiet = bti_errors_quiet(true);
    bt_status status = bti_texts_program(step->device, &source, NULL, 0, program);
    bti_errors_quiet(quiet);
    if (status == BT_OK || status == BT_UNIMPLEMENTED) return bti_error_put_back(before), BT_OK;
    bti_error_release(before);
    return status;
}

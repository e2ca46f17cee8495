#include "exec/boxes.h"

#include "ir/halves.h"

void bti_run_box(const bti_plan *plan, const bti_run *run, const bti_step *step, int number, bti_box *box) {
    const bti_kernel *kernel = plan->kernels.items[step->kernel];
    int axes = bti_kernel_axes(kernel);
    const int64_t *next = bti_plan_numbers(plan, step, number);
    for (int axis = 0; axis < axes; axis++) box->extent[axis] = *next++;
    box->scalars =
        plan->scalars.count ? plan->scalars.items + step->first_scalar + number * kernel->scalar_count : NULL;
    int inputs = kernel->input_count, operands = bti_kernel_operands(kernel);
    for (int o = 0; o < operands; o++) { /* bti_step_operand, without its divisions */
        int place = o < inputs ? number * inputs + o : step->input_count + number * kernel->output_count + o - inputs;
        box->address[o] = bti_run_address(run, bti_plan_operand(plan, step, place));
        for (int axis = 0; axis < axes; axis++) box->stride[o][axis] = *next++;
    }
    if (step->halved) bti_halves_box(kernel, step->halved - 1, box);
}

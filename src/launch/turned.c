#include "launch/turned.h"

#include <string.h>

static bool has_turned_form(const bti_kernel *kernel) {
    return kernel->reduced ? kernel->reduced == 1 && !kernel->inner && kernel->outer > 0 : kernel->outer > 0;
}

static unsigned swap_bits(unsigned mask, int a, int b) {
    unsigned differ = (mask >> a ^ mask >> b) & 1;
    return mask ^ (differ << a | differ << b);
}

void bti_kernel_turn(const bti_kernel *kernel, bti_kernel *turned) {
    int line = bti_kernel_line(kernel);
    *turned = *kernel;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        turned->operands[o].moves = (uint8_t)swap_bits(kernel->operands[o].moves, line - 1, line);
        turned->operands[o].unit = 0;
    }
    if (!kernel->reduced) return;
    turned->outer--;
    turned->inner = 1;
}

bool bti_box_turns(const bti_kernel *kernel, const bti_box *box) {
    if (!has_turned_form(kernel)) return false;
    int line = bti_kernel_line(kernel);
    return box->extent[line] <= (kernel->reduced ? BTI_TURNED_MOST : BTI_TURNED_MAP_MOST) &&
           box->extent[line - 1] >= BTI_TURNED_LEAST;
}

static void swap_numbers(int64_t *a, int64_t *b) {
    int64_t kept = *a;
    *a = *b;
    *b = kept;
}

void bti_box_turn(const bti_kernel *kernel, const bti_box *box, bti_box *turned) {
    int line = bti_kernel_line(kernel), operands = bti_kernel_operands(kernel);
    memcpy(turned->extent, box->extent, sizeof turned->extent);
    turned->scalars = box->scalars;
    memcpy(turned->address, box->address, (size_t)operands * sizeof *turned->address);
    memcpy(turned->stride, box->stride, (size_t)operands * sizeof *turned->stride);
    swap_numbers(&turned->extent[line - 1], &turned->extent[line]);
    for (int o = 0; o < operands; o++) swap_numbers(&turned->stride[o][line - 1], &turned->stride[o][line]);
}

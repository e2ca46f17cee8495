#include "launch/narrow.h"

/* Whether there is such a text of the kernel. */
static bool has_narrow_form(const bti_kernel *kernel) {
    int reductions = 0;
    for (int i = 0; i < kernel->instr_count; i++) reductions += bti_instr_reduces(&kernel->instrs[i]);
    return kernel->inner && kernel->reduced == 1 && !kernel->outer && reductions && reductions <= BTI_NARROW_REDUCTIONS;
}

bool bti_box_is_narrow(const bti_kernel *kernel, const bti_box *box) {
    return has_narrow_form(kernel) && box->extent[1] <= BTI_NARROW_MOST &&
           box->extent[0] >= 2 * BTI_NARROW_CHUNKS * BTI_COLUMN_CHUNK;
}

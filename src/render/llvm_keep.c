/* Rows of several sweeps compute their POINT values again in each. One that costs more than memory (it calls a function) is
 * left by its first sweep where an output of its dtype will be stored later, and read back from there: exp of a softmax.
 * That output may lie where an input lies, so the sweeps that follow must load nothing along the line. */
#include "ir/dtype.h"
#include "render/llvm_parts.h"

static bool costs(const bti_instr *instr) {
    if (!bti_dtype_is_float((bt_dtype)instr->dtype)) return false;
    switch (instr->op) {
#define BTI_VECTOR_FUNCTION(name, arity) case BTI_OP_##name:
#define BTI_SCALAR_FUNCTION(name, ...)
#include "launch/functions.def"
    case BTI_OP_sigmoid:
    case BTI_OP_erfinv:
    case BTI_OP_mod:
    case BTI_OP_floor_div: return true;
    default: return false;
    }
}

static bool loads_along(const bti_llvm *w) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->wanted[i] && w->along[i] && w->kernel->instrs[i].op == BTI_OP_leaf) return true;
    return false;
}

/* With the value kept in the output from its first sweep on: whether that serves, and nothing that is needed is lost. */
static bool keeps(bti_llvm *w, int instr, int output, int sweeps) {
    int stored = w->kernel->instrs[w->kernel->operands[output].value].stage;
    bool again = false;
    w->kept = instr;
    w->kept_in = output;
    w->kept_sweep = sweeps; /* not known yet: nothing is cut off */
    for (int sweep = 0; sweep < sweeps; sweep++) {
        bti_llvm_mark(w, sweep);
        bool after = sweep > w->kept_sweep;
        if (after && (loads_along(w) || (w->wanted[instr] && sweep > stored))) return false;
        again = again || (after && w->wanted[instr]);
        if (!after && w->wanted[instr]) w->kept_sweep = sweep;
    }
    return again && stored > w->kept_sweep;
}

void bti_llvm_keep(bti_llvm *w) {
    const bti_kernel *kernel = w->kernel;
    int sweeps = w->mode == BTI_LLVM_RUN && !kernel->inner ? bti_kernel_sweeps(kernel) : 1;
    for (int i = kernel->instr_count - 1; i >= 0 && sweeps > 1; i--) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->level == BTI_ROW || !w->along[i] || !costs(instr)) continue;
        for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
            const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
            if (stored->level == BTI_POINT && stored->dtype == instr->dtype && keeps(w, i, o, sweeps)) return;
        }
    }
    w->kept = -1;
}

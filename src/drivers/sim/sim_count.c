#include "drivers/sim/sim_count.h"

#include <math.h>

#include "base/flags.h"
#include "ir/dtype.h"
#include "launch/entry.h"
#include "launch/functions.h"
#include "launch/turned.h"

/* --- instructions ------------------------------------------------------------------------------------------------------- */

static bool is_wide(bt_dtype dtype) { return dtype == BT_F64 || dtype == BT_I64 || dtype == BT_U64; }

/* A thread of a card loads 16 bytes at once where elements are side by side. A core loads a vector while it computes with two; elements that lie apart it loads one
 * by one and puts them together. */
static double loads_of(const bti_sim_model *model, const bti_kernel *kernel, const bti_kernel_operand *operand) {
    double size = (double)bt_dtype_size((bt_dtype)operand->dtype);
    bool apart = !operand->unit && operand->moves >> bti_kernel_line(kernel) & 1;
    if (bti_sim_is_cpu(model)) return operand->unit ? size / 8 : apart ? BTI_SIM_APART * model->lanes : 0;
    return operand->unit ? size / 8 : operand->moves ? 3 : 0;
}

/* Adds an instruction for so many points. */
static void count_instr(bti_sim_demand *d, const bti_sim_model *model, const bti_kernel *kernel, const bti_instr *instr,
                        double points) {
    bt_dtype dtype = (bt_dtype)instr->dtype;
    if (instr->op == BTI_OP_leaf) {
        d->instructions += points * loads_of(model, kernel, &kernel->operands[instr->arg[0]]);
        return;
    }
    bool other_word = instr->op == BTI_OP_threefry && instr->again; /* of the same block of random bits */
    double count = points * (other_word ? 2 : bti_op_instructions((bti_op)instr->op, bti_sim_is_cpu(model)));
    if (instr->op == BTI_OP_iota && bti_sim_is_cpu(model) && !bti_dtype_is_float(dtype)) count = points;
    if (bti_instr_reduces(instr) && (instr->op == BTI_OP_sum || instr->op == BTI_OP_prod) &&
        bti_dtype_is_float(dtype)) {
        d->instructions += 2 * count; /* converted, then added, in float64 */
        d->doubles += 2 * count;
        if (bti_sim_is_cpu(model) && kernel->inner)
            d->doubles += 2 * count; /* the sums of a column are loaded and stored */
        return;
    }
    d->instructions += is_wide(dtype) && dtype != BT_F64 ? 2 * count : count;
    if (dtype == BT_F64) d->doubles += count;
    if (dtype == BT_F16 || dtype == BT_BF16) d->instructions += points; /* rounded */
}

/* Of rows of several sweeps: a value that calls a function is computed once, if an output that a later sweep stores has room for it (render/llvm_nest.c). */
static bool is_kept_from(const bti_kernel *kernel, int number, int sweep) {
    const bti_instr *instr = &kernel->instrs[number];
    if (instr->level != BTI_POINT || !bti_dtype_is_float((bt_dtype)instr->dtype) || !bti_op_calls_function(instr->op))
        return false;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
        if (stored->level == BTI_POINT && stored->stage > sweep && stored->dtype == instr->dtype) return true;
    }
    return false;
}

/* Points of the axis that vectors run along. */
static double vector_line(const bti_sim_nest *nest) {
    return (double)nest->box->extent[bti_kernel_line(nest->kernel) - bti_box_turns(nest->kernel, nest->box)];
}

/* On a core: how much longer than a line the vectors are that it fills; how many of a vector's elements a value of a row stands for. */
static void count_vectors(const bti_sim_model *model, const bti_sim_nest *nest, double *filled, double *alone) {
    double line = vector_line(nest);
    *filled = *alone = 1;
    if (!bti_sim_is_cpu(model)) return;
    *filled = BTI_SIM_VECTOR * bti_sim_ceiling(line, BTI_SIM_VECTOR) / line;
    if (nest->kernel->reduced && !nest->kernel->inner && !bti_box_turns(nest->kernel, nest->box))
        *alone = BTI_SIM_VECTOR;
}

/* What is loaded again in a later sweep comes from local memory, or the first cache, if the row has room there. */
void bti_sim_count_sweeps(bti_sim_demand *d, const bti_sim_model *model, const bti_sim_nest *nest, double *again) {
    const bti_kernel *kernel = nest->kernel;
    int sweeps = bti_kernel_sweeps(kernel);
    bool needed[BTI_KERNEL_INSTRS], loaded[BTI_KERNEL_INSTRS] = {false};
    size_t row = sweeps > 1 && bti_entry_exists(kernel, BTI_ENTRY_KEPT) ? bti_entry_local(kernel, nest->box) : 0;
    bool kept = row && row <= 48 << 10;
    int computed = -1; /* before, and kept */
    double filled, alone;
    count_vectors(model, nest, &filled, &alone);
    *again = 0;
    for (int sweep = 0; sweep < sweeps; sweep++) {
        int before = computed;
        double first = d->instructions + d->doubles * (model->f64_slowdown - 1);
        if (before >= 0) loaded[before] = true;
        bti_kernel_needs(kernel, sweep, loaded, needed);
        for (int i = 0; i < kernel->instr_count; i++) {
            const bti_instr *instr = &kernel->instrs[i];
            bool folds = bti_instr_reduces(instr);
            if (folds ? instr->stage != sweep + 1 : !needed[i]) continue;
            double count = instr->level == BTI_POINT || folds ? nest->points * filled : nest->rows * alone;
            if (i == before) {
                d->instructions += count;
                continue;
            }
            if (bti_sim_is_cpu(model) && computed < 0 && is_kept_from(kernel, i, sweep)) computed = i;
            count_instr(d, model, kernel, instr, count);
            if (sweep && instr->op == BTI_OP_leaf && instr->level == BTI_POINT && !kept)
                *again += (double)bti_kernel_operand_bytes(kernel, instr->arg[0], nest->box->extent);
        }
        if (!bti_sim_is_cpu(model)) continue;
        d->instructions += nest->points / vector_line(nest) * BTI_SIM_LINE * model->lanes;
        if (sweep) d->later += d->instructions + d->doubles * (model->f64_slowdown - 1) - first;
    }
}

/* --- operands ------------------------------------------------------------------------------------------------------------ */

bti_sim_nest bti_sim_nest_of(const bti_kernel *kernel, const bti_box *box) {
    bti_sim_nest nest = {kernel, box, (double)bti_box_points(box, 0, bti_kernel_axes(kernel)), 0};
    nest.rows = nest.points;
    for (int axis = kernel->outer; axis < kernel->outer + kernel->reduced; axis++)
        nest.rows /= (double)box->extent[axis];
    return nest;
}

/* Where no axis has elements side by side, an element takes a whole line, or what is up to the next one. */
double bti_sim_operand_bytes(const bti_sim_nest *nest, int o, double line) {
    const bti_kernel_operand *operand = &nest->kernel->operands[o];
    int64_t size = (int64_t)bt_dtype_size((bt_dtype)operand->dtype), least = 0;
    double bytes = (double)bti_kernel_operand_bytes(nest->kernel, o, nest->box->extent);
    for (int axis = 0; axis < bti_kernel_axes(nest->kernel); axis++) {
        int64_t stride = nest->box->stride[o][axis], step = stride < 0 ? -stride : stride;
        if (operand->moves >> axis & 1 && nest->box->extent[axis] > 1 && (!least || step < least)) least = step;
    }
    if (operand->taken && !operand->unit) return bytes * line / (double)size; /* rows lie apart */
    return least <= size ? bytes : bytes * fmin(line, (double)least) / (double)size;
}

double bti_sim_elements_of(const bti_operand *operand) {
    double count = 1;
    for (int axis = 0; axis < operand->rank; axis++) count *= (double)operand->shape[axis];
    return count;
}

double bti_sim_bytes_of(const bti_operand *operand) {
    double bytes = (double)bt_dtype_size(operand->dtype);
    for (int axis = 0; axis < operand->rank; axis++)
        if (operand->stride[axis]) bytes *= (double)operand->shape[axis];
    return bytes;
}

double bti_sim_length_of_axis(const bti_work *work, const bti_operand *operand) {
    int axis = work->attr ? bti_attr_axis(work->op, work->attr) : 0;
    return axis < operand->rank ? (double)operand->shape[axis] : 1;
}

bti_sim_rate bti_sim_rate_of(bt_dtype dtype, int precision) {
    switch (dtype) {
    case BT_F64: return BTI_SIM_F64;
    case BT_F16:
    case BT_BF16: return BTI_SIM_BF16;
    case BT_F32:
        return precision == BTI_MATMUL_TF32 ? BTI_SIM_TF32 : precision == BTI_MATMUL_BF16 ? BTI_SIM_BF16 : BTI_SIM_F32;
    default: return BTI_SIM_NO_LIBRARY;
    }
}

/* The loops around the line, and the line itself; where and in which sweeps values are computed. */
#include <string.h>

#include "ir/dtype.h"
#include "render/llvm_writer.h"

static bool reads_operand(const bti_instr *instr) { return bti_instr_operand(instr) >= 0; }

void bti_llvm_place(bti_llvm *w) {
    const bti_kernel *kernel = w->kernel;
    int line = bti_kernel_line(kernel);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        unsigned moves = reads_operand(instr) ? kernel->operands[bti_instr_operand(instr)].moves : 0;
        int depth = 0;
        bool along = moves >> line & 1;
        if (moves) depth = 32 - __builtin_clz(moves);
        for (int a = 0; a < bti_instr_arguments(instr); a++) {
            along = along || w->along[instr->arg[a]];
            if (w->depth[instr->arg[a]] > depth) depth = w->depth[instr->arg[a]];
        }
        /* made of what a row has, but stored along it: the sweep that stores it makes it */
        if (kernel->reduced && !w->asked->inner && instr->level == BTI_POINT && depth <= kernel->outer)
            along = along || !reads_operand(instr);
        if (bti_instr_reduces(instr)) {
            along = kernel->inner;
            depth = kernel->outer;
        }
        w->along[i] = along;
        w->depth[i] = (uint8_t)depth;
        for (int a = 0; a < bti_instr_arguments(instr) && instr->op != BTI_OP_take; a++)
            if ((along || bti_instr_reduces(instr)) && !w->along[instr->arg[a]]) w->splat[instr->arg[a]] = true;
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        if (kernel->operands[o].moves >> line & 1 && !w->along[kernel->operands[o].value])
            w->splat[kernel->operands[o].value] = true;
}

void bti_llvm_mark(bti_llvm *w, int sweep) {
    bool loaded[BTI_KERNEL_INSTRS];
    for (int i = 0; i < w->kernel->instr_count; i++)
        loaded[i] = (i == w->kept && sweep > w->kept_sweep) || bti_llvm_in_slot(w, i, sweep);
    bti_kernel_needs(w->asked, sweep, loaded, w->wanted);
    w->sweep = sweep;
}

static void write_scalar(bti_llvm *w, int number) {
    const bti_instr *instr = &w->kernel->instrs[number];
    bt_dtype dtype = (bt_dtype)instr->dtype;
    bool real = bti_llvm_is_float(bti_llvm_wide(dtype));
    bti_temp bits = bti_llvm_parameter(w, "scalars", real ? BTI_LLVM_F64 : BTI_LLVM_I64, instr->arg[0]);
    bti_llvm_set(w, number, real ? bti_llvm_rounded(w, bits, dtype) : bti_llvm_cast(w, BT_I64, bits, dtype));
}

void bti_llvm_value_of(bti_llvm *w, int instr) {
    switch (w->kernel->instrs[instr].op) {
    case BTI_OP_leaf: bti_llvm_leaf(w, instr); break;
    case BTI_OP_iota: bti_llvm_iota(w, instr); break;
    case BTI_OP_const: write_scalar(w, instr); break;
    case BTI_OP_take: bti_llvm_take(w, instr); break;
    default: bti_llvm_elementwise(w, instr);
    }
}

void bti_llvm_values_at(bti_llvm *w, int depth) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (w->along[i] || w->depth[i] != depth || bti_instr_reduces(instr)) continue;
        bool swept = w->kernel->reduced && instr->level == BTI_POINT;
        if (swept ? w->wanted[i] : instr->stage == 0) bti_llvm_value_of(w, i);
    }
}

void bti_llvm_row_values(bti_llvm *w, int stage) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->level == BTI_ROW && instr->stage == stage && !w->along[i] && !bti_instr_reduces(instr))
            bti_llvm_value_of(w, i);
    }
}

void bti_llvm_values(bti_llvm *w) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->along[i] && w->wanted[i] && !bti_instr_reduces(&w->kernel->instrs[i])) {
            if (i == w->kept && w->sweep > w->kept_sweep)
                bti_llvm_read_back(w, w->kept_in, i);
            else
                bti_llvm_value_of(w, i);
        }
}

void bti_llvm_outputs(bti_llvm *w, bti_level level) {
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) {
        const bti_instr *stored = &w->kernel->instrs[w->kernel->operands[o].value];
        if (stored->level == level && (level == BTI_ROW || stored->stage == w->sweep))
            bti_llvm_output(w, o, w->kernel->operands[o].value);
    }
    if (level == BTI_POINT && w->kept >= 0 && w->sweep == w->kept_sweep) bti_llvm_output(w, w->kept_in, w->kept);
}

/* --- loops -------------------------------------------------------------------------------------------------------- */

static void move_operands(bti_llvm *w, int axis, bti_temp coordinate) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        if (!(w->kernel->operands[o].moves >> axis & 1)) continue;
        bti_temp offset = bti_llvm_op(w, "mul", i64, coordinate, w->stride[o][axis]);
        w->at[o] = w->kernel->operands[o].index ? bti_llvm_op(w, "add", i64, w->at[o], offset)
                                                : bti_llvm_element(w, BTI_LLVM_I8, w->at[o], offset);
    }
}

void bti_llvm_axis_begin(bti_llvm *w, bti_llvm_axis *axis, int number, bti_llvm_carry *carry) {
    bti_llvm_axis_from(w, axis, number, bti_llvm_int(w, BTI_LLVM_I64, 0), w->extent[number], carry);
}

void bti_llvm_axis_from(bti_llvm *w, bti_llvm_axis *axis, int number, bti_temp from, bti_temp to,
                        bti_llvm_carry *carry) {
    memcpy(axis->at, w->at, sizeof axis->at);
    axis->point = w->point;
    bti_llvm_loop_begin(w, &axis->loop, from, to, 1, carry);
    move_operands(w, number, axis->loop.index);
    if (w->point != BTI_NO_TEMP && number < w->kernel->outer)
        w->point = bti_llvm_op(w, "add", BTI_LLVM_I64, bti_llvm_op(w, "mul", BTI_LLVM_I64, w->point, w->extent[number]),
                               axis->loop.index);
    bti_llvm_values_at(w, number + 1);
}

void bti_llvm_axis_end(bti_llvm *w, bti_llvm_axis *axis) {
    bti_llvm_loop_end(w, &axis->loop);
    memcpy(w->at, axis->at, sizeof axis->at);
    w->point = axis->point;
}

bti_temp bti_llvm_least(bti_llvm *w, bti_temp x, bti_temp y) {
    return bti_llvm_select(w, BTI_LLVM_I64, bti_llvm_op(w, "icmp slt", BTI_LLVM_I64, x, y), x, y);
}

void bti_llvm_along(bti_llvm *w, bti_temp from, bti_temp to, bti_llvm_carry *carry, bti_llvm_body *body,
                    void *context) {
    const bti_llvm_type i64 = BTI_LLVM_I64, i8 = BTI_LLVM_I8;
    bti_llvm_if branch;
    bti_llvm_loop loop;
    bti_temp full = bti_llvm_op_int(w, "and", i64, bti_llvm_op(w, "sub", i64, to, from), -w->vector);
    bti_temp full_end = bti_llvm_op(w, "add", i64, from, full);
    bti_llvm_if_begin(w, &branch, bti_llvm_op(w, "icmp slt", i64, from, full_end), carry);
    bti_llvm_loop_begin(w, &loop, from, full_end, w->vector, carry);
    w->index = loop.index;
    w->lanes = w->vector;
    body(w, context);
    w->lanes = 1;
    bti_llvm_loop_end(w, &loop);
    bti_llvm_if_end(w, &branch);
    bti_llvm_if_begin(w, &branch, bti_llvm_op(w, "icmp slt", i64, full_end, to), carry);
    w->index = full_end;
    w->rest = bti_llvm_op(w, "sub", i64, to, full_end);
    bti_temp count = bti_llvm_resize(w, i64, w->rest, i8, false);
    w->lanes = w->vector;
    w->mask = bti_llvm_op(w, "icmp ult", i8, bti_llvm_count(w, i8), bti_llvm_splat(w, i8, count, w->vector));
    body(w, context);
    w->lanes = 1;
    w->mask = w->rest = BTI_NO_TEMP;
    bti_llvm_if_end(w, &branch);
}

/* --- values kept between sweeps --------------------------------------------------------------------------------------- */

/* Rows of several sweeps compute their POINT values again in each sweep. A value that costs more than memory (it calls a function)
 * is stored by its first sweep in an output of its dtype that a later sweep stores, and is loaded from there in between: exp of a
 * softmax. That output may be in the place of an input, so the later sweeps must load nothing along the line. */

static bool loads_along_line(const bti_llvm *w) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->wanted[i] && w->along[i] && reads_operand(&w->kernel->instrs[i]) &&
            w->kernel->instrs[i].op != BTI_OP_iota)
            return true;
    return false;
}

/* Sets the value to be kept in the output from its first sweep on. Returns whether a later sweep reads it there and nothing that is
 * still needed is overwritten. */
static bool serves_as_kept(bti_llvm *w, int instr, int output, int sweeps) {
    int stored = w->kernel->instrs[w->kernel->operands[output].value].stage;
    bool again = false;
    w->kept = instr;
    w->kept_in = output;
    w->kept_sweep = sweeps; /* not known yet: every sweep computes the value */
    for (int sweep = 0; sweep < sweeps; sweep++) {
        bti_llvm_mark(w, sweep);
        bool after = sweep > w->kept_sweep;
        if (after && (loads_along_line(w) || (w->wanted[instr] && sweep > stored))) return false;
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
        if (instr->level == BTI_ROW || !w->along[i] || !bti_llvm_calls_function(instr)) continue;
        for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
            const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
            if (stored->level == BTI_POINT && stored->dtype == instr->dtype && serves_as_kept(w, i, o, sweeps)) return;
        }
    }
    w->kept = -1;
}

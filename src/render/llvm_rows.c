/* Rows: the line is reduced. BTI_LANES accumulators for each reduction of the sweep, a chunk at a time. */
#include "render/llvm_parts.h"

typedef struct sweep {
    int reductions[BTI_KERNEL_INSTRS]; /* folded in it */
    bti_llvm_carry totals, lanes;
} sweep;

static const bti_instr *reduction_of(const bti_llvm *w, const sweep *s, int r) {
    return &w->kernel->instrs[s->reductions[r]];
}

static void start(bti_llvm *w, const sweep *s, bti_llvm_carry *carry, int lanes) {
    w->lanes = carry->lanes = lanes;
    for (int r = 0; r < carry->count; r++) {
        carry->value[r] = bti_llvm_start(w, reduction_of(w, s, r));
        carry->type[r] = (uint8_t)bti_llvm_accumulator(reduction_of(w, s, r));
    }
    w->lanes = 1;
}

static void prepare(bti_llvm *w, sweep *s, int number) {
    int count = 0;
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_llvm_reduces(&w->kernel->instrs[i]) && w->kernel->instrs[i].stage == number + 1)
            s->reductions[count++] = i;
    s->totals.count = s->lanes.count = count;
    start(w, s, &s->totals, 1);
}

static void row_body(bti_llvm *w, void *context) {
    sweep *s = context;
    bti_llvm_values(w);
    for (int r = 0; r < s->lanes.count; r++) {
        const bti_instr *reduction = reduction_of(w, s, r);
        bti_temp before = s->lanes.value[r], after = bti_llvm_fold(w, reduction, before, bti_llvm_folded(w, reduction));
        if (w->mask != BTI_NO_TEMP) after = bti_llvm_select(w, bti_llvm_accumulator(reduction), w->mask, after, before);
        s->lanes.value[r] = after;
    }
    bti_llvm_outputs(w, BTI_POINT);
}

static void chunk(bti_llvm *w, sweep *s, bti_temp from, bti_temp to) {
    start(w, s, &s->lanes, w->vector);
    bti_llvm_along(w, from, to, &s->lanes, row_body, s);
    for (int r = 0; r < s->lanes.count; r++) {
        const bti_instr *reduction = reduction_of(w, s, r);
        w->lanes = w->vector;
        bti_temp part = bti_llvm_tree(w, reduction, s->lanes.value[r]);
        w->lanes = 1;
        if (w->mode == BTI_LLVM_PART) {
            bti_temp bits = bti_llvm_part_bits(w, reduction, part);
            bti_llvm_store(w, BTI_LLVM_I64, bits, bti_llvm_part_address(w, r, BTI_NO_TEMP, w->point), 8);
        } else
            s->totals.value[r] = bti_llvm_fold(w, reduction, s->totals.value[r], part);
    }
}

static void reduced(bti_llvm *w, sweep *s, int depth) {
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0), extent = w->extent[depth];
    if (depth < bti_kernel_axes(w->kernel) - 1) {
        bti_llvm_axis axis;
        bti_llvm_axis_begin(w, &axis, depth, &s->totals);
        reduced(w, s, depth + 1);
        bti_llvm_axis_end(w, &axis);
    } else if (s->totals.count == 0)
        bti_llvm_along(w, zero, extent, NULL, row_body, s);
    else {
        bti_llvm_loop loop;
        bti_llvm_loop_begin(w, &loop, zero, extent, BTI_ROW_CHUNK, &s->totals);
        bti_temp end = bti_llvm_op_int(w, "add", BTI_LLVM_I64, loop.index, BTI_ROW_CHUNK);
        chunk(w, s, loop.index, bti_llvm_least(w, end, extent));
        bti_llvm_loop_end(w, &loop);
    }
}

static void set_totals(bti_llvm *w, const sweep *s) {
    for (int r = 0; r < s->totals.count; r++) bti_llvm_set_total(w, s->reductions[r], s->totals.value[r]);
}

static void finish(bti_llvm *w, sweep *s) {
    bti_llvm_fold_sets(w, s->reductions, &s->totals, w->point);
    set_totals(w, s);
    bti_llvm_row_values(w, 1);
}

void bti_llvm_rows(bti_llvm *w) {
    int sweeps = w->mode == BTI_LLVM_RUN ? bti_kernel_sweeps(w->kernel) : 1;
    for (int number = 0; number < sweeps; number++) {
        sweep s;
        prepare(w, &s, number);
        if (w->mode == BTI_LLVM_FINISH) {
            finish(w, &s);
            break;
        }
        bti_llvm_mark(w, number);
        reduced(w, &s, w->kernel->outer);
        if (w->mode == BTI_LLVM_PART) return;
        set_totals(w, &s);
        bti_llvm_row_values(w, number + 1);
    }
    bti_llvm_outputs(w, BTI_ROW);
}

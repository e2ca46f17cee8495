/* Rows of a turned kernel (launch/turned.h): each lane has a row of its own. The points of a row are folded into slots, one for each point, which are
 * folded by halving: what ir/kernel.h says of the first lanes of a chunk; the lanes behind them hold start values, which change nothing. */
#include "launch/turned.h"
#include "render/llvm_writer.h"

static int count_reductions(const bti_llvm *w) {
    int count = 0;
    for (int i = 0; i < w->kernel->instr_count; i++) count += bti_instr_reduces(&w->kernel->instrs[i]);
    return count;
}

/* --- values that later sweeps need again -------------------------------------------------------------------------------- */

static bool is_along(const bti_llvm *w, int i, bti_level level) {
    const bti_instr *instr = &w->kernel->instrs[i];
    return w->along[i] && instr->level == level && !bti_instr_reduces(instr);
}

enum { KEPT_MOST = 8, SLOT_BYTES = 8 /* of an element */ }; /* all slots stay in the nearest cache */

/* Each costs more than a vector of memory. */
static bool is_worth_keeping(const bti_llvm *w, int i) {
    const bti_instr *instr = &w->kernel->instrs[i];
    if (!is_along(w, i, BTI_POINT) || bt_dtype_size((bt_dtype)instr->dtype) > SLOT_BYTES) return false;
    return instr->op == BTI_OP_leaf || instr->op == BTI_OP_take || bti_llvm_calls_function(instr);
}

/* The last that the sweep computes again: what it is made of may not be needed then. */
static int find_again(const bti_llvm *w, const uint8_t *first, int number) {
    for (int i = w->kernel->instr_count - 1; i >= 0; i--)
        if (w->wanted[i] && !w->slot[i] && first[i] < number && is_worth_keeping(w, i)) return i;
    return -1;
}

static int choose_kept(bti_llvm *w) {
    uint8_t first[BTI_KERNEL_INSTRS]; /* the sweep that computes a value first */
    int kept = 0;
    for (int i = 0; i < w->kernel->instr_count; i++) first[i] = UINT8_MAX;
    for (int number = 0; number < bti_kernel_sweeps(w->asked); number++) {
        bti_llvm_mark(w, number);
        for (int i; kept < KEPT_MOST && (i = find_again(w, first, number)) >= 0; bti_llvm_mark(w, number)) {
            w->slot[i] = (uint8_t)++kept;
            w->slot_sweep[i] = first[i];
        }
        for (int i = 0; i < w->kernel->instr_count; i++)
            if (w->wanted[i] && first[i] == UINT8_MAX) first[i] = (uint8_t)number;
    }
    bti_llvm_mark(w, 0);
    return kept;
}

void bti_llvm_turned_memory(bti_llvm *w) {
    if (!bti_llvm_is_turned(w)) return;
    int slots = count_reductions(w) + choose_kept(w);
    bti_llvm_line(w, "%%slots = alloca [%d x i64], align 64", BTI_TURNED_MOST * slots * w->vector);
}

/* --- slots: by reduction or kept value, then by point; each a vector ------------------------------------------------------------------- */

static bti_temp slot_address(bti_llvm *w, int r, bti_temp point) {
    int lanes = w->lanes;
    w->lanes = 1;
    bti_temp result = bti_llvm_new(w), slot = bti_llvm_op_int(w, "add", BTI_LLVM_I64, point, r * BTI_TURNED_MOST);
    bti_temp word = bti_llvm_op_int(w, "mul", BTI_LLVM_I64, slot, w->vector);
    bti_llvm_line(w, "%%t%d = getelementptr i64, ptr %%slots, i64 %%t%d", result, word);
    w->lanes = lanes;
    return result;
}

static void store_slot(bti_llvm *w, const bti_instr *reduction, int r, bti_temp point, bti_temp value) {
    value = bti_llvm_resize(w, bti_llvm_accumulator(reduction), value, bti_llvm_accumulator_stored(reduction), false);
    bti_llvm_store(w, bti_llvm_accumulator_stored(reduction), value, slot_address(w, r, point), 8);
}

static bti_temp load_slot(bti_llvm *w, const bti_instr *reduction, int r, bti_temp point) {
    bti_llvm_type type = bti_llvm_accumulator_stored(reduction);
    bti_temp value = bti_llvm_load(w, type, slot_address(w, r, point), 8);
    return bti_llvm_accumulator(reduction) == BTI_LLVM_I1 ? bti_llvm_op_int(w, "icmp ne", type, value, 0) : value;
}

static bti_temp kept_address(bti_llvm *w, int instr) {
    return slot_address(w, count_reductions(w) + w->slot[instr] - 1, w->slot_point);
}

static void keep_value(bti_llvm *w, int instr) {
    bt_dtype dtype = (bt_dtype)w->kernel->instrs[instr].dtype;
    bti_temp value = bti_llvm_resize(w, bti_llvm_own(dtype), bti_llvm_held(w, instr), bti_llvm_stored(dtype), false);
    bti_llvm_store(w, bti_llvm_stored(dtype), value, kept_address(w, instr), 8);
}

static void load_kept(bti_llvm *w, int instr) {
    bt_dtype dtype = (bt_dtype)w->kernel->instrs[instr].dtype;
    bti_temp value = bti_llvm_load(w, bti_llvm_stored(dtype), kept_address(w, instr), 8);
    bti_llvm_set(w, instr, dtype == BT_BOOL ? bti_llvm_op_int(w, "icmp ne", BTI_LLVM_I8, value, 0) : value);
}

/* --- sweeps ----------------------------------------------------------------------------------------------------------- */

typedef struct sweep {
    int reductions[BTI_KERNEL_INSTRS], count; /* folded in it */
} sweep;

static sweep sweep_of(const bti_llvm *w, int number) {
    sweep s = {.count = 0};
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_instr_reduces(&w->kernel->instrs[i]) && w->kernel->instrs[i].stage == number + 1)
            s.reductions[s.count++] = i;
    return s;
}

static void write_point_values(bti_llvm *w) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        if (!is_along(w, i, BTI_POINT) || !w->wanted[i]) continue;
        if (bti_llvm_in_slot(w, i, w->sweep)) {
            load_kept(w, i);
            continue;
        }
        bti_llvm_value_of(w, i);
        if (w->slot[i]) keep_value(w, i);
    }
}

static void write_row_values(bti_llvm *w, int stage) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (is_along(w, i, BTI_ROW) && w->kernel->instrs[i].stage == stage) bti_llvm_value_of(w, i);
}

/* The points of the rows, one after the other. */
static void write_points(bti_llvm *w, const sweep *s) {
    bti_llvm_axis axis;
    w->lanes = 1;
    bti_llvm_axis_begin(w, &axis, w->kernel->outer, NULL);
    w->lanes = w->vector;
    w->slot_point = axis.loop.index;
    write_point_values(w);
    for (int r = 0; r < s->count; r++) {
        const bti_instr *reduction = &w->kernel->instrs[s->reductions[r]];
        bti_temp first = bti_llvm_fold(w, reduction, bti_llvm_start(w, reduction), bti_llvm_folded(w, reduction));
        store_slot(w, reduction, r, axis.loop.index, first);
    }
    bti_llvm_outputs(w, BTI_POINT);
    w->lanes = 1;
    bti_llvm_axis_end(w, &axis);
}

/* Folds slot k + half into slot k, where there is one. */
static void fold_half(bti_llvm *w, const sweep *s, int half) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    bti_llvm_if branch;
    bti_llvm_loop loop;
    bti_temp points = w->extent[w->kernel->outer], most = bti_llvm_int(w, i64, half);
    bti_llvm_if_begin(w, &branch, bti_llvm_op(w, "icmp sgt", i64, points, most), NULL);
    bti_temp bound = bti_llvm_least(w, bti_llvm_op(w, "sub", i64, points, most), most);
    bti_llvm_loop_begin(w, &loop, bti_llvm_int(w, i64, 0), bound, 1, NULL);
    bti_temp other = bti_llvm_op_int(w, "add", i64, loop.index, half);
    w->lanes = w->vector;
    for (int r = 0; r < s->count; r++) {
        const bti_instr *reduction = &w->kernel->instrs[s->reductions[r]];
        bti_temp low = load_slot(w, reduction, r, loop.index), high = load_slot(w, reduction, r, other);
        store_slot(w, reduction, r, loop.index, bti_llvm_fold(w, reduction, low, high));
    }
    w->lanes = 1;
    bti_llvm_loop_end(w, &loop);
    bti_llvm_if_end(w, &branch);
}

static void set_totals(bti_llvm *w, const sweep *s) {
    w->lanes = 1;
    bti_temp first = bti_llvm_int(w, BTI_LLVM_I64, 0);
    w->lanes = w->vector;
    for (int r = 0; r < s->count; r++) {
        const bti_instr *reduction = &w->kernel->instrs[s->reductions[r]];
        bti_temp part = load_slot(w, reduction, r, first);
        bti_llvm_set_total(w, s->reductions[r], bti_llvm_fold(w, reduction, bti_llvm_start(w, reduction), part));
    }
}

static void write_sweep(bti_llvm *w, int number) {
    sweep s = sweep_of(w, number);
    bti_llvm_mark(w, number);
    write_points(w, &s);
    for (int half = BTI_TURNED_MOST / 2; half && s.count; half /= 2) fold_half(w, &s, half);
    set_totals(w, &s);
    write_row_values(w, number + 1);
}

static void rows_body(bti_llvm *w, void *context) {
    (void)context;
    write_row_values(w, 0);
    for (int number = 0; number < bti_kernel_sweeps(w->asked); number++) write_sweep(w, number);
    bti_llvm_outputs(w, BTI_ROW);
}

void bti_llvm_turned(bti_llvm *w) {
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0);
    bti_llvm_along(w, zero, w->extent[bti_kernel_line(w->kernel)], NULL, rows_body, NULL);
}

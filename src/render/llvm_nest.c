/* The loops around the line, and the line itself; the order in which values are computed. */
#include <string.h>

#include "render/llvm_parts.h"

static bool reads(const bti_instr *instr) { return instr->op == BTI_OP_leaf || instr->op == BTI_OP_iota; }

static int line_of(const bti_kernel *kernel) { return bti_kernel_axes(kernel) - 1; }

static int arity(const bti_instr *instr) {
    return reads(instr) || instr->op == BTI_OP_const ? 0 : bti_op_info((bti_op)instr->op)->arity;
}

/* Where every instruction is computed: for each point of the line, or inside so many loops. */
static void place_instructions(bti_llvm *w) {
    const bti_kernel *kernel = w->kernel;
    int line = line_of(kernel);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        unsigned moves = reads(instr) ? kernel->operands[instr->arg[0]].moves : 0;
        int depth = 0;
        bool along = moves >> line & 1;
        if (moves) depth = 32 - __builtin_clz(moves);
        for (int a = 0; a < arity(instr); a++) {
            along = along || w->along[instr->arg[a]];
            if (w->depth[instr->arg[a]] > depth) depth = w->depth[instr->arg[a]];
        }
        if (bti_llvm_reduces(instr)) {
            along = kernel->inner;
            depth = kernel->outer;
        }
        w->along[i] = along;
        w->depth[i] = (uint8_t)depth;
        for (int a = 0; a < arity(instr); a++)
            if ((along || bti_llvm_reduces(instr)) && !w->along[instr->arg[a]]) w->splat[instr->arg[a]] = true;
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        if (kernel->operands[o].moves >> line & 1 && !w->along[kernel->operands[o].value])
            w->splat[kernel->operands[o].value] = true;
}

void bti_llvm_mark(bti_llvm *w, int sweep) {
    const bti_kernel *kernel = w->kernel;
    memset(w->wanted, 0, sizeof w->wanted);
    w->sweep = sweep;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        const bti_instr *stored = &kernel->instrs[kernel->operands[o].value];
        bool row = stored->level == BTI_ROW;
        if (row ? kernel->inner && sweep == 1 : stored->stage == sweep) w->wanted[kernel->operands[o].value] = true;
    }
    for (int i = kernel->instr_count - 1; i >= 0; i--) {
        const bti_instr *instr = &kernel->instrs[i];
        if (i == w->kept && sweep > w->kept_sweep) continue;
        bool folded = bti_llvm_reduces(instr) && instr->stage == sweep + 1;
        for (int a = 0; a < arity(instr); a++)
            if (folded || (w->wanted[i] && !bti_llvm_reduces(instr))) w->wanted[instr->arg[a]] = true;
    }
}

static void scalar_of_launch(bti_llvm *w, int number) {
    const bti_instr *instr = &w->kernel->instrs[number];
    bt_dtype dtype = (bt_dtype)instr->dtype;
    bool real = bti_llvm_is_float(bti_llvm_wide(dtype));
    bti_temp bits = bti_llvm_parameter(w, "scalars", real ? BTI_LLVM_F64 : BTI_LLVM_I64, instr->arg[0]);
    bti_llvm_set(w, number, real ? bti_llvm_rounded(w, bits, dtype) : bti_llvm_cast(w, BT_I64, bits, dtype));
}

static void compute(bti_llvm *w, int instr) {
    switch (w->kernel->instrs[instr].op) {
    case BTI_OP_leaf: bti_llvm_leaf(w, instr); break;
    case BTI_OP_iota: bti_llvm_iota(w, instr); break;
    case BTI_OP_const: scalar_of_launch(w, instr); break;
    default: bti_llvm_elementwise(w, instr);
    }
}

void bti_llvm_values_at(bti_llvm *w, int depth) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (w->along[i] || w->depth[i] != depth || bti_llvm_reduces(instr)) continue;
        bool swept = w->kernel->reduced && instr->level == BTI_POINT;
        if (swept ? w->wanted[i] : instr->stage == 0) compute(w, i);
    }
}

void bti_llvm_row_values(bti_llvm *w, int stage) {
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->level == BTI_ROW && instr->stage == stage && !w->along[i] && !bti_llvm_reduces(instr)) compute(w, i);
    }
}

void bti_llvm_values(bti_llvm *w) {
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->along[i] && w->wanted[i] && !bti_llvm_reduces(&w->kernel->instrs[i])) {
            if (i == w->kept && w->sweep > w->kept_sweep)
                bti_llvm_read_back(w, w->kept_in, i);
            else
                compute(w, i);
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

static void move(bti_llvm *w, int axis, bti_temp coordinate) {
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
    move(w, number, axis->loop.index);
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

static void map_body(bti_llvm *w, void *context) {
    (void)context;
    bti_llvm_values(w);
    bti_llvm_outputs(w, BTI_POINT);
}

/* The same for the elements half a line further on as well; what is stored is known before anything is. */
static void pair_body(bti_llvm *w, void *context) {
    const bti_temp *further = context;
    bti_temp at[BTI_KERNEL_OPERANDS];
    bti_llvm_value first[BTI_KERNEL_INSTRS], last[BTI_KERNEL_INSTRS];
    memcpy(at, w->at, sizeof at);
    bti_llvm_values(w);
    memcpy(first, w->value, sizeof first);
    memcpy(w->at, further, sizeof w->at);
    w->second = true;
    bti_llvm_values(w);
    w->second = false;
    memcpy(last, w->value, sizeof last);
    memcpy(w->value, first, sizeof first);
    memcpy(w->at, at, sizeof at);
    bti_llvm_outputs(w, BTI_POINT);
    memcpy(w->value, last, sizeof last);
    memcpy(w->at, further, sizeof w->at);
    bti_llvm_outputs(w, BTI_POINT);
    memcpy(w->at, at, sizeof at);
}

static void pair(bti_llvm *w) {
    bti_temp further[BTI_KERNEL_OPERANDS], half = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = add i64 %%half, 0", half);
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        const bti_kernel_operand *operand = &w->kernel->operands[o];
        further[o] = w->at[o];
        if (!operand->moves) continue;
        further[o] = operand->index ? bti_llvm_op(w, "add", BTI_LLVM_I64, w->at[o], half)
                                    : bti_llvm_element(w, bti_llvm_stored((bt_dtype)operand->dtype), w->at[o], half);
    }
    bti_llvm_along(w, bti_llvm_int(w, BTI_LLVM_I64, 0), w->extent[0], NULL, pair_body, further);
}

/* Tiles: what steps through memory along the line touches a line of the cache for every element, which the next rows may
 * want too. So a few rows go by inside, vector by vector. */
enum { TILE_ROWS = 256 };

static bool wants_tiles(const bti_kernel *kernel) {
    int line = line_of(kernel);
    for (int o = 0; o < bti_kernel_operands(kernel) && !kernel->reduced && kernel->outer; o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        if (operand->moves >> line & 1 && operand->moves >> (line - 1) & 1 && !operand->unit && !operand->index)
            return true;
    }
    return false;
}

static void tile_body(bti_llvm *w, void *context) {
    const bti_temp *rows = context;
    bti_llvm_axis axis;
    w->lanes = 1;
    bti_llvm_axis_from(w, &axis, w->kernel->outer - 1, rows[0], rows[1], NULL);
    w->lanes = w->vector;
    map_body(w, NULL);
    w->lanes = 1;
    bti_llvm_axis_end(w, &axis);
    w->lanes = w->vector;
}

static void tiles(bti_llvm *w, int depth) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    bti_llvm_loop loop;
    bti_temp zero = bti_llvm_int(w, i64, 0);
    bti_llvm_loop_begin(w, &loop, zero, w->extent[depth], TILE_ROWS, NULL);
    bti_temp end = bti_llvm_least(w, bti_llvm_op_int(w, "add", i64, loop.index, TILE_ROWS), w->extent[depth]);
    bti_llvm_along(w, zero, w->extent[depth + 1], NULL, tile_body, (bti_temp[]){loop.index, end});
    bti_llvm_loop_end(w, &loop);
}

static void nest(bti_llvm *w, int depth) {
    if (depth == w->kernel->outer - 1 && wants_tiles(w->kernel))
        tiles(w, depth);
    else if (depth < w->kernel->outer) {
        bti_llvm_axis axis;
        bti_llvm_axis_begin(w, &axis, depth, NULL);
        nest(w, depth + 1);
        bti_llvm_axis_end(w, &axis);
    } else if (w->mode == BTI_LLVM_PAIR)
        pair(w);
    else if (!w->kernel->reduced)
        bti_llvm_along(w, bti_llvm_int(w, BTI_LLVM_I64, 0), w->extent[depth], NULL, map_body, NULL);
    else if (w->kernel->inner)
        bti_llvm_columns(w);
    else
        bti_llvm_rows(w);
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static void load_launch(bti_llvm *w) {
    const bti_kernel *kernel = w->kernel;
    int line = line_of(kernel);
    for (int axis = 0; axis <= line; axis++) w->extent[axis] = bti_llvm_parameter(w, "extent", BTI_LLVM_I64, axis);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        w->at[o] = bti_llvm_parameter(w, "address", operand->index ? BTI_LLVM_I64 : BTI_LLVM_PTR, o);
        for (int axis = 0; axis <= line; axis++) {
            bool told = operand->moves >> axis & 1 && !(axis == line && operand->unit);
            w->stride[o][axis] =
                told ? bti_llvm_parameter(w, "stride", BTI_LLVM_I64, o * BTI_MAX_RANK + axis) : BTI_NO_TEMP;
        }
    }
}

void bti_llvm_function(bti_llvm *w, bti_llvm_mode mode) {
    static const char *const heads[] = {"bti_run(", "bti_run_pair(", "bti_part(", "bti_finish("};
    static const char *const more[] = {"", ", i64 %half", ", ptr %parts", ", ptr %parts, i64 %sets"};
    w->mode = mode;
    w->temps = w->labels = 0;
    w->block = w->labels++;
    w->lanes = 1;
    w->mask = w->rest = w->point = BTI_NO_TEMP;
    place_instructions(w);
    bti_llvm_keep(w);
    bti_llvm_mark(w, 0);
    bti_str_addf(w->text,
                 "\ndefine void @%sptr noalias %%extent, ptr noalias %%scalars, ptr noalias %%address, ptr noalias "
                 "%%stride, ptr noalias %%functions%s) #0 {\nb0:\n",
                 heads[mode], more[mode]);
    bti_llvm_line(w, "%%scratch = alloca [256 x i8], align 64");
    bti_llvm_columns_memory(w);
    load_launch(w);
    if (mode == BTI_LLVM_PART || mode == BTI_LLVM_FINISH) {
        w->point = bti_llvm_int(w, BTI_LLVM_I64, 0);
        w->points = bti_llvm_int(w, BTI_LLVM_I64, 1);
        for (int axis = 0; axis <= line_of(w->kernel); axis++)
            if (axis < w->kernel->outer || axis >= w->kernel->outer + w->kernel->reduced)
                w->points = bti_llvm_op(w, "mul", BTI_LLVM_I64, w->points, w->extent[axis]);
    }
    bti_llvm_values_at(w, 0);
    nest(w, 0);
    bti_str_add(w->text, "  ret void\n}\n");
}

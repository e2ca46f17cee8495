/* Reductions: folding as ir/kernel.h defines it, of rows and of columns. */
#include "ir/dtype.h"
#include "launch/narrow.h"
#include "render/llvm_writer.h"

static bool is_sum_or_product(const bti_instr *reduction) {
    return reduction->op == BTI_OP_sum || reduction->op == BTI_OP_prod;
}

bti_llvm_type bti_llvm_accumulator(const bti_instr *reduction) {
    bt_dtype dtype = (bt_dtype)reduction->dtype;
    return is_sum_or_product(reduction) && bti_dtype_is_float(dtype) ? BTI_LLVM_F64 : bti_llvm_wide(dtype);
}

bti_temp bti_llvm_start(bti_llvm *w, const bti_instr *reduction) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    bool is_signed = bti_dtype_is_signed((bt_dtype)reduction->dtype), one = reduction->op == BTI_OP_prod;
    if (is_sum_or_product(reduction))
        return bti_llvm_is_float(type) ? bti_llvm_real(w, type, one) : bti_llvm_int(w, type, one);
    bool most = reduction->op == BTI_OP_max;
    if (bti_llvm_is_float(type)) return bti_llvm_real(w, type, most ? -__builtin_inf() : __builtin_inf());
    uint64_t greatest = UINT64_MAX >> (64 - bti_llvm_bits(type) + is_signed);
    return bti_llvm_int(w, type, (int64_t)(!most ? greatest : is_signed ? ~greatest : 0));
}

bti_temp bti_llvm_fold(bti_llvm *w, const bti_instr *reduction, bti_temp total, bti_temp x) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    bool real = bti_llvm_is_float(type), is_signed = bti_dtype_is_signed((bt_dtype)reduction->dtype);
    bool most = reduction->op == BTI_OP_max;
    if (reduction->op == BTI_OP_sum) return bti_llvm_op(w, real ? "fadd" : "add", type, total, x);
    if (reduction->op == BTI_OP_prod) return bti_llvm_op(w, real ? "fmul" : "mul", type, total, x);
    if (type == BTI_LLVM_I1) return bti_llvm_op(w, most ? "or" : "and", type, total, x);
    const char *comparison = real        ? (most ? "fcmp ogt" : "fcmp olt")
                             : is_signed ? (most ? "icmp sgt" : "icmp slt")
                                         : (most ? "icmp ugt" : "icmp ult");
    bti_temp better = bti_llvm_select(w, type, bti_llvm_op(w, comparison, type, total, x), total, x);
    if (!real) return better;
    return bti_llvm_select(w, type, bti_llvm_op(w, "fcmp uno", type, total, total), total, better);
}

/* The argument of a reduction as its accumulator's type. */
bti_temp bti_llvm_folded(bti_llvm *w, const bti_instr *reduction) {
    bti_temp x = bti_llvm_operand(w, reduction->arg[0]);
    bti_llvm_type from = bti_llvm_wide((bt_dtype)reduction->dtype), to = bti_llvm_accumulator(reduction);
    return from == to ? x : bti_llvm_convert(w, "fpext", from, x, to);
}

/* Folds a vector of BTI_LANES accumulators into one, by halving. */
static bti_temp fold_lanes(bti_llvm *w, const bti_instr *reduction, bti_temp lanes) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    int count = w->lanes;
    while (w->lanes > 1) {
        bti_temp low = bti_llvm_slice(w, type, lanes, w->lanes, 0, w->lanes / 2);
        bti_temp high = bti_llvm_slice(w, type, lanes, w->lanes, w->lanes / 2, w->lanes / 2);
        w->lanes /= 2;
        lanes = bti_llvm_fold(w, reduction, low, high);
    }
    w->lanes = count;
    return lanes;
}

/* A part as 64 bits of memory. */
static bti_temp bits_of_part(bti_llvm *w, const bti_instr *reduction, bti_temp part) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    static const bti_llvm_type whole[] = {[BTI_LLVM_F32] = BTI_LLVM_I32, [BTI_LLVM_F64] = BTI_LLVM_I64};
    if (bti_llvm_is_small((bt_dtype)reduction->dtype) && type == BTI_LLVM_F32) {
        part = bti_llvm_small_of(w, (bt_dtype)reduction->dtype, type, part);
        type = BTI_LLVM_I16;
    } else if (bti_llvm_is_float(type)) {
        part = bti_llvm_convert(w, "bitcast", type, part, whole[type]);
        type = whole[type];
    }
    return bti_llvm_resize(w, type, part, BTI_LLVM_I64, false);
}

static bti_temp part_of_bits(bti_llvm *w, const bti_instr *reduction, bti_temp bits) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    const bti_llvm_type i64 = BTI_LLVM_I64;
    if (bti_llvm_is_small((bt_dtype)reduction->dtype) && type == BTI_LLVM_F32)
        return bti_llvm_f32_of(w, (bt_dtype)reduction->dtype, bti_llvm_resize(w, i64, bits, BTI_LLVM_I16, false));
    if (type == BTI_LLVM_F64) return bti_llvm_convert(w, "bitcast", i64, bits, type);
    if (type == BTI_LLVM_F32)
        return bti_llvm_convert(w, "bitcast", BTI_LLVM_I32, bti_llvm_resize(w, i64, bits, BTI_LLVM_I32, false), type);
    return bti_llvm_resize(w, i64, bits, type, false);
}

/* Sets the reduction's value from the total. */
void bti_llvm_set_total(bti_llvm *w, int instr, bti_temp total) {
    const bti_instr *reduction = &w->kernel->instrs[instr];
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    if (type == BTI_LLVM_F64 && is_sum_or_product(reduction))
        bti_llvm_set(w, instr, bti_llvm_rounded(w, total, (bt_dtype)reduction->dtype));
    else
        bti_llvm_set_wide(w, instr, total);
}

/* The address of the part of reduction number r of a point, in a set (BTI_NO_TEMP: the only set). */
static bti_temp part_address(bti_llvm *w, int r, bti_temp set, bti_temp point) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    int lanes = w->lanes, reductions = 0;
    for (int i = 0; i < w->kernel->instr_count; i++) reductions += bti_instr_reduces(&w->kernel->instrs[i]);
    w->lanes = 1;
    bti_temp row = bti_llvm_int(w, i64, r), result = bti_llvm_new(w);
    if (set != BTI_NO_TEMP) row = bti_llvm_op(w, "add", i64, bti_llvm_op_int(w, "mul", i64, set, reductions), row);
    bti_temp index = bti_llvm_op(w, "add", i64, bti_llvm_op(w, "mul", i64, row, w->points), point);
    bti_llvm_line(w, "%%t%d = getelementptr i64, ptr %%parts, i64 %%t%d", result, index);
    w->lanes = lanes;
    return result;
}

/* Folds the sets of parts that bti_finish was given into totals, of points from `point` on. */
static void fold_sets(bti_llvm *w, const int *reductions, bti_llvm_carry *totals, bti_temp point) {
    int lanes = w->lanes;
    bti_llvm_if branch;
    bti_llvm_loop loop;
    w->lanes = 1;
    bti_temp count = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = add i64 %%sets, 0", count);
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0);
    bti_llvm_if_begin(w, &branch, bti_llvm_op(w, "icmp sgt", BTI_LLVM_I64, count, zero), totals);
    bti_llvm_loop_begin(w, &loop, zero, count, 1, totals);
    w->lanes = lanes;
    for (int r = 0; r < totals->count; r++) {
        const bti_instr *reduction = &w->kernel->instrs[reductions[r]];
        bti_temp bits = bti_llvm_load_row(w, BTI_LLVM_I64, part_address(w, r, loop.index, point));
        totals->value[r] = bti_llvm_fold(w, reduction, totals->value[r], part_of_bits(w, reduction, bits));
    }
    bti_llvm_loop_end(w, &loop);
    bti_llvm_if_end(w, &branch);
}

/* --- rows ------------------------------------------------------------------------------------------------------------- */

/* The line is reduced: BTI_LANES accumulators for each reduction of the sweep, one chunk after the other. */

typedef struct row_sweep {
    int reductions[BTI_KERNEL_INSTRS]; /* folded in it */
    bti_llvm_carry totals, lanes;
} row_sweep;

static const bti_instr *row_reduction(const bti_llvm *w, const row_sweep *s, int r) {
    return &w->kernel->instrs[s->reductions[r]];
}

static void start_accumulators(bti_llvm *w, const row_sweep *s, bti_llvm_carry *carry, int lanes) {
    w->lanes = carry->lanes = lanes;
    for (int r = 0; r < carry->count; r++) {
        carry->value[r] = bti_llvm_start(w, row_reduction(w, s, r));
        carry->type[r] = (uint8_t)bti_llvm_accumulator(row_reduction(w, s, r));
    }
    w->lanes = 1;
}

static void begin_row_sweep(bti_llvm *w, row_sweep *s, int number) {
    int count = 0;
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (bti_instr_reduces(&w->kernel->instrs[i]) && w->kernel->instrs[i].stage == number + 1)
            s->reductions[count++] = i;
    s->totals.count = s->lanes.count = count;
    start_accumulators(w, s, &s->totals, 1);
}

static void row_body(bti_llvm *w, void *context) {
    row_sweep *s = context;
    bti_llvm_values(w);
    for (int r = 0; r < s->lanes.count; r++) {
        const bti_instr *reduction = row_reduction(w, s, r);
        bti_temp before = s->lanes.value[r], after = bti_llvm_fold(w, reduction, before, bti_llvm_folded(w, reduction));
        if (w->mask != BTI_NO_TEMP) after = bti_llvm_select(w, bti_llvm_accumulator(reduction), w->mask, after, before);
        s->lanes.value[r] = after;
    }
    bti_llvm_outputs(w, BTI_POINT);
}

static void write_row_chunk(bti_llvm *w, row_sweep *s, bti_temp from, bti_temp to) {
    start_accumulators(w, s, &s->lanes, w->vector);
    bti_llvm_along(w, from, to, &s->lanes, row_body, s);
    for (int r = 0; r < s->lanes.count; r++) {
        const bti_instr *reduction = row_reduction(w, s, r);
        w->lanes = w->vector;
        bti_temp part = fold_lanes(w, reduction, s->lanes.value[r]);
        w->lanes = 1;
        if (w->mode == BTI_LLVM_PART) {
            bti_temp bits = bits_of_part(w, reduction, part);
            bti_llvm_store(w, BTI_LLVM_I64, bits, part_address(w, r, BTI_NO_TEMP, w->point), 8);
        } else
            s->totals.value[r] = bti_llvm_fold(w, reduction, s->totals.value[r], part);
    }
}

static void write_row_loops(bti_llvm *w, row_sweep *s, int depth) {
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0), extent = w->extent[depth];
    if (depth < bti_kernel_axes(w->kernel) - 1) {
        bti_llvm_axis axis;
        bti_llvm_axis_begin(w, &axis, depth, &s->totals);
        write_row_loops(w, s, depth + 1);
        bti_llvm_axis_end(w, &axis);
    } else if (s->totals.count == 0)
        bti_llvm_along(w, zero, extent, NULL, row_body, s);
    else {
        bti_llvm_loop loop;
        bti_llvm_loop_begin(w, &loop, zero, extent, BTI_ROW_CHUNK, &s->totals);
        bti_temp end = bti_llvm_op_int(w, "add", BTI_LLVM_I64, loop.index, BTI_ROW_CHUNK);
        write_row_chunk(w, s, loop.index, bti_llvm_least(w, end, extent));
        bti_llvm_loop_end(w, &loop);
    }
}

static void set_row_totals(bti_llvm *w, const row_sweep *s) {
    for (int r = 0; r < s->totals.count; r++) bti_llvm_set_total(w, s->reductions[r], s->totals.value[r]);
}

static void finish_row(bti_llvm *w, row_sweep *s) {
    fold_sets(w, s->reductions, &s->totals, w->point);
    set_row_totals(w, s);
    bti_llvm_row_values(w, 1);
}

void bti_llvm_rows(bti_llvm *w) {
    int sweeps = w->mode == BTI_LLVM_RUN ? bti_kernel_sweeps(w->kernel) : 1;
    for (int number = 0; number < sweeps; number++) {
        row_sweep s;
        begin_row_sweep(w, &s, number);
        if (w->mode == BTI_LLVM_FINISH) {
            finish_row(w, &s);
            break;
        }
        bti_llvm_mark(w, number);
        write_row_loops(w, &s, w->kernel->outer);
        if (w->mode == BTI_LLVM_PART) return;
        set_row_totals(w, &s);
        bti_llvm_row_values(w, number + 1);
    }
    bti_llvm_outputs(w, BTI_ROW);
}

/* --- columns ---------------------------------------------------------------------------------------------------------- */

/* The line is kept. The accumulators of a block of columns are in memory that stays in the nearest cache, and the loops over the
 * reduced axes are outside: memory is read row by row. */

enum { MOST_COLUMNS = 4096 };

typedef struct columns {
    int reductions[BTI_KERNEL_INSTRS], count;
    int width; /* columns of a block */
    bti_temp from, to;
    bti_temp set; /* of the parts of a chunk; BTI_NO_TEMP: the only one */
} columns;

static columns block_of_columns(const bti_kernel *kernel) {
    columns c = {.width = MOST_COLUMNS, .set = BTI_NO_TEMP};
    for (int i = 0; i < kernel->instr_count; i++)
        if (bti_instr_reduces(&kernel->instrs[i])) c.reductions[c.count++] = i;
    while (c.width * c.count > MOST_COLUMNS) c.width /= 2;
    return c;
}

void bti_llvm_columns_memory(bti_llvm *w) {
    if (!w->kernel->reduced || !w->kernel->inner || w->mode == BTI_LLVM_FINISH || bti_llvm_is_turned(w)) return;
    columns c = block_of_columns(w->kernel);
    bti_llvm_line(w, "%%block_totals = alloca [%d x i64], align 64", c.width * c.count);
    bti_llvm_line(w, "%%block_parts = alloca [%d x i64], align 64", c.width * c.count);
}

static const bti_instr *column_reduction(const bti_llvm *w, const columns *c, int r) {
    return &w->kernel->instrs[c->reductions[r]];
}

/* --- accumulators of the block: by reduction, then by column ------------------------------------------------------ */

bti_llvm_type bti_llvm_accumulator_stored(const bti_instr *reduction) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    return type == BTI_LLVM_I1 ? BTI_LLVM_I8 : type;
}

static bti_temp accumulator_address(bti_llvm *w, const columns *c, const char *memory, int r, bti_temp column) {
    bti_temp first = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = getelementptr i64, ptr %%%s, i64 %d", first, memory, r * c->width);
    return bti_llvm_element(w, bti_llvm_accumulator_stored(column_reduction(w, c, r)), first, column);
}

static bti_temp load_accumulator(bti_llvm *w, const columns *c, const char *memory, int r, bti_temp column) {
    const bti_instr *reduction = column_reduction(w, c, r);
    bti_llvm_type type = bti_llvm_accumulator_stored(reduction);
    bti_temp value = bti_llvm_load(w, type, accumulator_address(w, c, memory, r, column), bti_llvm_bits(type) / 8);
    return bti_llvm_accumulator(reduction) == BTI_LLVM_I1 ? bti_llvm_op_int(w, "icmp ne", type, value, 0) : value;
}

static void store_accumulator(bti_llvm *w, const columns *c, const char *memory, int r, bti_temp column,
                              bti_temp value) {
    const bti_instr *reduction = column_reduction(w, c, r);
    bti_llvm_type type = bti_llvm_accumulator_stored(reduction);
    value = bti_llvm_resize(w, bti_llvm_accumulator(reduction), value, type, false);
    bti_llvm_store(w, type, value, accumulator_address(w, c, memory, r, column), bti_llvm_bits(type) / 8);
}

static bti_temp column_in_block(bti_llvm *w, const columns *c) {
    int lanes = w->lanes;
    w->lanes = 1;
    bti_temp column = bti_llvm_op(w, "sub", BTI_LLVM_I64, w->index, c->from);
    w->lanes = lanes;
    return column;
}

/* Goes over all columns of the block in whole vectors. Columns past its end exist in the block and are not read. */
static void for_each_vector(bti_llvm *w, const columns *c,
                            void (*body)(bti_llvm *w, const columns *c, bti_temp column)) {
    bti_llvm_loop loop;
    bti_temp count = bti_llvm_op(w, "sub", BTI_LLVM_I64, c->to, c->from);
    bti_llvm_loop_begin(w, &loop, bti_llvm_int(w, BTI_LLVM_I64, 0), count, w->vector, NULL);
    w->lanes = w->vector;
    body(w, c, loop.index);
    w->lanes = 1;
    bti_llvm_loop_end(w, &loop);
}

static void start_block_totals(bti_llvm *w, const columns *c, bti_temp column) {
    for (int r = 0; r < c->count; r++)
        store_accumulator(w, c, "block_totals", r, column, bti_llvm_start(w, column_reduction(w, c, r)));
}

static void start_block_parts(bti_llvm *w, const columns *c, bti_temp column) {
    for (int r = 0; r < c->count; r++)
        store_accumulator(w, c, "block_parts", r, column, bti_llvm_start(w, column_reduction(w, c, r)));
}

static void fold_block_parts(bti_llvm *w, const columns *c, bti_temp column) {
    for (int r = 0; r < c->count; r++) {
        bti_temp total = load_accumulator(w, c, "block_totals", r, column),
                 part = load_accumulator(w, c, "block_parts", r, column);
        store_accumulator(w, c, "block_totals", r, column, bti_llvm_fold(w, column_reduction(w, c, r), total, part));
    }
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

static void column_fold_body(bti_llvm *w, void *context) {
    const columns *c = context;
    bti_temp column = column_in_block(w, c);
    bti_llvm_values(w);
    for (int r = 0; r < c->count; r++) {
        const bti_instr *reduction = column_reduction(w, c, r);
        bti_temp part = load_accumulator(w, c, "block_parts", r, column);
        store_accumulator(w, c, "block_parts", r, column,
                          bti_llvm_fold(w, reduction, part, bti_llvm_folded(w, reduction)));
    }
    bti_llvm_outputs(w, BTI_POINT);
}

static bti_temp point_of_column(bti_llvm *w) {
    int lanes = w->lanes;
    w->lanes = 1;
    bti_temp extent = w->extent[bti_kernel_axes(w->kernel) - 1];
    bti_temp point =
        bti_llvm_op(w, "add", BTI_LLVM_I64, bti_llvm_op(w, "mul", BTI_LLVM_I64, w->point, extent), w->index);
    w->lanes = lanes;
    return point;
}

static void column_part_body(bti_llvm *w, void *context) {
    const columns *c = context;
    bti_temp column = column_in_block(w, c), point = point_of_column(w);
    for (int r = 0; r < c->count; r++) {
        bti_temp part = load_accumulator(w, c, "block_parts", r, column);
        bti_llvm_store_row(w, BTI_LLVM_I64, bits_of_part(w, column_reduction(w, c, r), part),
                           part_address(w, r, c->set, point), false);
    }
}

static void column_end_body(bti_llvm *w, void *context) {
    columns *c = context;
    if (w->mode == BTI_LLVM_FINISH) {
        bti_llvm_carry totals = {.count = c->count, .lanes = w->lanes};
        for (int r = 0; r < c->count; r++) {
            totals.value[r] = bti_llvm_start(w, column_reduction(w, c, r));
            totals.type[r] = (uint8_t)bti_llvm_accumulator(column_reduction(w, c, r));
        }
        fold_sets(w, c->reductions, &totals, point_of_column(w));
        for (int r = 0; r < c->count; r++) bti_llvm_set_total(w, c->reductions[r], totals.value[r]);
    } else {
        bti_temp column = column_in_block(w, c);
        for (int r = 0; r < c->count; r++)
            bti_llvm_set_total(w, c->reductions[r], load_accumulator(w, c, "block_totals", r, column));
    }
    bti_llvm_values(w);
    bti_llvm_outputs(w, BTI_ROW);
}

/* --- the nest ----------------------------------------------------------------------------------------------------- */

static void write_column_chunk(bti_llvm *w, columns *c, int axis, bti_temp from, bti_temp to) {
    bti_llvm_axis points;
    for_each_vector(w, c, start_block_parts);
    bti_llvm_axis_from(w, &points, axis, from, to, NULL);
    bti_llvm_along(w, c->from, c->to, NULL, column_fold_body, c);
    bti_llvm_axis_end(w, &points);
    if (w->mode == BTI_LLVM_PART)
        bti_llvm_along(w, c->from, c->to, NULL, column_part_body, c);
    else
        for_each_vector(w, c, fold_block_parts);
}

static void write_column_loops(bti_llvm *w, columns *c, int depth) {
    if (depth < w->kernel->outer + w->kernel->reduced - 1) {
        bti_llvm_axis axis;
        bti_llvm_axis_begin(w, &axis, depth, NULL);
        write_column_loops(w, c, depth + 1);
        bti_llvm_axis_end(w, &axis);
        return;
    }
    bti_llvm_loop loop;
    bti_llvm_loop_begin(w, &loop, bti_llvm_int(w, BTI_LLVM_I64, 0), w->extent[depth], BTI_COLUMN_CHUNK, NULL);
    bti_temp end = bti_llvm_op_int(w, "add", BTI_LLVM_I64, loop.index, BTI_COLUMN_CHUNK);
    write_column_chunk(w, c, depth, loop.index, bti_llvm_least(w, end, w->extent[depth]));
    bti_llvm_loop_end(w, &loop);
}

/* --- chunks side by side (launch/narrow.h) ------------------------------------------------------------------------ */

static void next_chunk(bti_llvm *w, int axis) {
    for (int o = 0; o < bti_kernel_operands(w->kernel); o++) {
        if (!(w->kernel->operands[o].moves >> axis & 1)) continue;
        bti_temp offset = bti_llvm_op_int(w, "mul", BTI_LLVM_I64, w->stride[o][axis], BTI_COLUMN_CHUNK);
        w->at[o] = w->kernel->operands[o].index ? bti_llvm_op(w, "add", BTI_LLVM_I64, w->at[o], offset)
                                                : bti_llvm_element(w, BTI_LLVM_I8, w->at[o], offset);
    }
    bti_llvm_values_at(w, axis + 1);
}

static void fold_point(bti_llvm *w, const columns *c, bti_temp *parts) {
    w->lanes = w->vector;
    bti_llvm_values(w);
    for (int r = 0; r < c->count; r++) {
        const bti_instr *reduction = column_reduction(w, c, r);
        parts[r] = bti_llvm_fold(w, reduction, parts[r], bti_llvm_folded(w, reduction));
    }
    bti_llvm_outputs(w, BTI_POINT);
    w->lanes = 1;
}

static void store_parts(bti_llvm *w, const columns *c, bti_temp set, const bti_temp *parts) {
    bti_temp point = point_of_column(w);
    w->lanes = w->vector;
    for (int r = 0; r < c->count; r++)
        bti_llvm_store_row(w, BTI_LLVM_I64, bits_of_part(w, column_reduction(w, c, r), parts[r]),
                           part_address(w, r, set, point), false);
    w->lanes = 1;
}

/* All columns are one vector, and accumulators stay in registers. */
static void write_chunks_together(bti_llvm *w, const columns *c, int axis) {
    bti_llvm_carry parts = {.count = BTI_NARROW_CHUNKS * c->count, .lanes = w->vector};
    bti_llvm_axis points;
    w->index = bti_llvm_int(w, BTI_LLVM_I64, 0);
    w->rest = w->extent[axis + 1];
    bti_temp columns_there = bti_llvm_resize(w, BTI_LLVM_I64, w->rest, BTI_LLVM_I8, false);
    w->lanes = w->vector;
    w->mask = bti_llvm_op(w, "icmp ult", BTI_LLVM_I8, bti_llvm_count(w, BTI_LLVM_I8),
                          bti_llvm_splat(w, BTI_LLVM_I8, columns_there, w->vector));
    for (int p = 0; p < parts.count; p++) {
        parts.value[p] = bti_llvm_start(w, column_reduction(w, c, p % c->count));
        parts.type[p] = (uint8_t)bti_llvm_accumulator(column_reduction(w, c, p % c->count));
    }
    w->lanes = 1;
    bti_llvm_axis_from(w, &points, axis, w->index, bti_llvm_int(w, BTI_LLVM_I64, BTI_COLUMN_CHUNK), &parts);
    for (int chunk = 0; chunk < BTI_NARROW_CHUNKS; chunk++) {
        if (chunk) next_chunk(w, axis);
        fold_point(w, c, parts.value + chunk * c->count);
    }
    bti_llvm_axis_end(w, &points);
    for (int chunk = 0; chunk < BTI_NARROW_CHUNKS; chunk++)
        store_parts(w, c, bti_llvm_int(w, BTI_LLVM_I64, chunk), parts.value + chunk * c->count);
    w->mask = w->rest = BTI_NO_TEMP;
}

/* BTI_NARROW_CHUNKS whole chunks together; fewer, of which the last may be shorter, one after the other. */
static void write_narrow_part(bti_llvm *w, columns *c, int axis) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    const int64_t together = (int64_t)BTI_NARROW_CHUNKS * BTI_COLUMN_CHUNK;
    bti_llvm_if branch;
    bti_llvm_loop loop;
    bti_temp all = bti_llvm_op_int(w, "icmp eq", i64, w->extent[axis], together);
    bti_llvm_if_begin(w, &branch, all, NULL);
    write_chunks_together(w, c, axis);
    bti_llvm_if_end(w, &branch);
    bti_llvm_if_begin(w, &branch, bti_llvm_op_int(w, "icmp ne", i64, w->extent[axis], together), NULL);
    bti_llvm_loop_begin(w, &loop, bti_llvm_int(w, i64, 0), w->extent[axis], BTI_COLUMN_CHUNK, NULL);
    c->set = bti_llvm_op_int(w, "sdiv", i64, loop.index, BTI_COLUMN_CHUNK);
    bti_temp end = bti_llvm_op_int(w, "add", i64, loop.index, BTI_COLUMN_CHUNK);
    write_column_chunk(w, c, axis, loop.index, bti_llvm_least(w, end, w->extent[axis]));
    bti_llvm_loop_end(w, &loop);
    bti_llvm_if_end(w, &branch);
}

void bti_llvm_columns(bti_llvm *w) {
    columns c = block_of_columns(w->kernel);
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0), extent = w->extent[bti_kernel_axes(w->kernel) - 1];
    if (w->mode == BTI_LLVM_FINISH) {
        bti_llvm_mark(w, 1);
        bti_llvm_along(w, zero, extent, NULL, column_end_body, &c);
        return;
    }
    bti_llvm_loop blocks;
    bti_llvm_loop_begin(w, &blocks, zero, extent, c.width, NULL);
    c.from = blocks.index;
    c.to = bti_llvm_least(w, bti_llvm_op_int(w, "add", BTI_LLVM_I64, c.from, c.width), extent);
    if (w->mode == BTI_LLVM_RUN) for_each_vector(w, &c, start_block_totals);
    bti_llvm_mark(w, 0);
    if (w->narrow && w->mode == BTI_LLVM_PART)
        write_narrow_part(w, &c, w->kernel->outer);
    else
        write_column_loops(w, &c, w->kernel->outer);
    if (w->mode == BTI_LLVM_RUN) {
        bti_llvm_mark(w, 1);
        bti_llvm_along(w, c.from, c.to, NULL, column_end_body, &c);
    }
    bti_llvm_loop_end(w, &blocks);
}

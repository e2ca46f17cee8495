/* Columns: the line is kept. Accumulators of a block of columns lie in memory that stays in the nearest cache, while the
 * reduced axes go by outside: memory is read row by row. */
#include "render/llvm_parts.h"

enum { MOST_COLUMNS = 4096 };

typedef struct columns {
    int reductions[BTI_KERNEL_INSTRS], count;
    int width; /* columns of a block */
    bti_temp from, to;
} columns;

static columns columns_of(const bti_kernel *kernel) {
    columns c = {.width = MOST_COLUMNS};
    for (int i = 0; i < kernel->instr_count; i++)
        if (bti_llvm_reduces(&kernel->instrs[i])) c.reductions[c.count++] = i;
    while (c.width * c.count > MOST_COLUMNS) c.width /= 2;
    return c;
}

void bti_llvm_columns_memory(bti_llvm *w) {
    if (!w->kernel->reduced || !w->kernel->inner || w->mode == BTI_LLVM_FINISH) return;
    columns c = columns_of(w->kernel);
    bti_llvm_line(w, "%%block_totals = alloca [%d x i64], align 64", c.width * c.count);
    bti_llvm_line(w, "%%block_parts = alloca [%d x i64], align 64", c.width * c.count);
}

static const bti_instr *reduction_of(const bti_llvm *w, const columns *c, int r) {
    return &w->kernel->instrs[c->reductions[r]];
}

/* --- accumulators of the block: by reduction, then by column ------------------------------------------------------ */

static bti_llvm_type kept_as(const bti_instr *reduction) {
    bti_llvm_type type = bti_llvm_accumulator(reduction);
    return type == BTI_LLVM_I1 ? BTI_LLVM_I8 : type;
}

static bti_temp address(bti_llvm *w, const columns *c, const char *memory, int r, bti_temp column) {
    bti_temp first = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = getelementptr i64, ptr %%%s, i64 %d", first, memory, r * c->width);
    return bti_llvm_element(w, kept_as(reduction_of(w, c, r)), first, column);
}

static bti_temp load(bti_llvm *w, const columns *c, const char *memory, int r, bti_temp column) {
    const bti_instr *reduction = reduction_of(w, c, r);
    bti_llvm_type type = kept_as(reduction);
    bti_temp value = bti_llvm_load(w, type, address(w, c, memory, r, column), bti_llvm_bits(type) / 8);
    return bti_llvm_accumulator(reduction) == BTI_LLVM_I1 ? bti_llvm_op_int(w, "icmp ne", type, value, 0) : value;
}

static void store(bti_llvm *w, const columns *c, const char *memory, int r, bti_temp column, bti_temp value) {
    const bti_instr *reduction = reduction_of(w, c, r);
    bti_llvm_type type = kept_as(reduction);
    value = bti_llvm_resize(w, bti_llvm_accumulator(reduction), value, type, false);
    bti_llvm_store(w, type, value, address(w, c, memory, r, column), bti_llvm_bits(type) / 8);
}

static bti_temp column_in_block(bti_llvm *w, const columns *c) {
    int lanes = w->lanes;
    w->lanes = 1;
    bti_temp column = bti_llvm_op(w, "sub", BTI_LLVM_I64, w->index, c->from);
    w->lanes = lanes;
    return column;
}

/* All columns of the block in whole vectors: those past its end are there, and not looked at. */
static void over_block(bti_llvm *w, const columns *c, void (*body)(bti_llvm *w, const columns *c, bti_temp column)) {
    bti_llvm_loop loop;
    bti_temp count = bti_llvm_op(w, "sub", BTI_LLVM_I64, c->to, c->from);
    bti_llvm_loop_begin(w, &loop, bti_llvm_int(w, BTI_LLVM_I64, 0), count, w->vector, NULL);
    w->lanes = w->vector;
    body(w, c, loop.index);
    w->lanes = 1;
    bti_llvm_loop_end(w, &loop);
}

static void start_totals(bti_llvm *w, const columns *c, bti_temp column) {
    for (int r = 0; r < c->count; r++) store(w, c, "block_totals", r, column, bti_llvm_start(w, reduction_of(w, c, r)));
}

static void start_parts(bti_llvm *w, const columns *c, bti_temp column) {
    for (int r = 0; r < c->count; r++) store(w, c, "block_parts", r, column, bti_llvm_start(w, reduction_of(w, c, r)));
}

static void fold_parts(bti_llvm *w, const columns *c, bti_temp column) {
    for (int r = 0; r < c->count; r++) {
        bti_temp total = load(w, c, "block_totals", r, column), part = load(w, c, "block_parts", r, column);
        store(w, c, "block_totals", r, column, bti_llvm_fold(w, reduction_of(w, c, r), total, part));
    }
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

static void fold_body(bti_llvm *w, void *context) {
    const columns *c = context;
    bti_temp column = column_in_block(w, c);
    bti_llvm_values(w);
    for (int r = 0; r < c->count; r++) {
        const bti_instr *reduction = reduction_of(w, c, r);
        bti_temp part = load(w, c, "block_parts", r, column);
        store(w, c, "block_parts", r, column, bti_llvm_fold(w, reduction, part, bti_llvm_folded(w, reduction)));
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

static void part_body(bti_llvm *w, void *context) {
    const columns *c = context;
    bti_temp column = column_in_block(w, c), point = point_of_column(w);
    for (int r = 0; r < c->count; r++) {
        bti_temp part = load(w, c, "block_parts", r, column);
        bti_llvm_store_row(w, BTI_LLVM_I64, bti_llvm_part_bits(w, reduction_of(w, c, r), part),
                           bti_llvm_part_address(w, r, BTI_NO_TEMP, point), false);
    }
}

static void end_body(bti_llvm *w, void *context) {
    columns *c = context;
    if (w->mode == BTI_LLVM_FINISH) {
        bti_llvm_carry totals = {.count = c->count, .lanes = w->lanes};
        for (int r = 0; r < c->count; r++) {
            totals.value[r] = bti_llvm_start(w, reduction_of(w, c, r));
            totals.type[r] = (uint8_t)bti_llvm_accumulator(reduction_of(w, c, r));
        }
        bti_llvm_fold_sets(w, c->reductions, &totals, point_of_column(w));
        for (int r = 0; r < c->count; r++) bti_llvm_set_total(w, c->reductions[r], totals.value[r]);
    } else {
        bti_temp column = column_in_block(w, c);
        for (int r = 0; r < c->count; r++)
            bti_llvm_set_total(w, c->reductions[r], load(w, c, "block_totals", r, column));
    }
    bti_llvm_values(w);
    bti_llvm_outputs(w, BTI_ROW);
}

/* --- the nest ----------------------------------------------------------------------------------------------------- */

static void chunk(bti_llvm *w, columns *c, int axis, bti_temp from, bti_temp to) {
    bti_llvm_axis points;
    over_block(w, c, start_parts);
    bti_llvm_axis_from(w, &points, axis, from, to, NULL);
    bti_llvm_along(w, c->from, c->to, NULL, fold_body, c);
    bti_llvm_axis_end(w, &points);
    if (w->mode == BTI_LLVM_PART)
        bti_llvm_along(w, c->from, c->to, NULL, part_body, c);
    else
        over_block(w, c, fold_parts);
}

static void reduced(bti_llvm *w, columns *c, int depth) {
    if (depth < w->kernel->outer + w->kernel->reduced - 1) {
        bti_llvm_axis axis;
        bti_llvm_axis_begin(w, &axis, depth, NULL);
        reduced(w, c, depth + 1);
        bti_llvm_axis_end(w, &axis);
        return;
    }
    bti_llvm_loop loop;
    bti_llvm_loop_begin(w, &loop, bti_llvm_int(w, BTI_LLVM_I64, 0), w->extent[depth], BTI_COLUMN_CHUNK, NULL);
    bti_temp end = bti_llvm_op_int(w, "add", BTI_LLVM_I64, loop.index, BTI_COLUMN_CHUNK);
    chunk(w, c, depth, loop.index, bti_llvm_least(w, end, w->extent[depth]));
    bti_llvm_loop_end(w, &loop);
}

void bti_llvm_columns(bti_llvm *w) {
    columns c = columns_of(w->kernel);
    bti_temp zero = bti_llvm_int(w, BTI_LLVM_I64, 0), extent = w->extent[bti_kernel_axes(w->kernel) - 1];
    if (w->mode == BTI_LLVM_FINISH) {
        bti_llvm_mark(w, 1);
        bti_llvm_along(w, zero, extent, NULL, end_body, &c);
        return;
    }
    bti_llvm_loop blocks;
    bti_llvm_loop_begin(w, &blocks, zero, extent, c.width, NULL);
    c.from = blocks.index;
    c.to = bti_llvm_least(w, bti_llvm_op_int(w, "add", BTI_LLVM_I64, c.from, c.width), extent);
    if (w->mode == BTI_LLVM_RUN) over_block(w, &c, start_totals);
    bti_llvm_mark(w, 0);
    reduced(w, &c, w->kernel->outer);
    if (w->mode == BTI_LLVM_RUN) {
        bti_llvm_mark(w, 1);
        bti_llvm_along(w, c.from, c.to, NULL, end_body, &c);
    }
    bti_llvm_loop_end(w, &blocks);
}

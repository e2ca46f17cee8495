/* The block interpreter: runs the steps of a kernel (block_program.h) over its box. */
#include "drivers/cpu/blocks.h"

#include <string.h>

#include "drivers/cpu/block_program.h"
#include "ir/dtype.h"

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Values of a dtype as the loops take them: in place, or converted into the block. */
static const void *widen_values(const bti_vector_code *code, bti_lane_block *block, bt_dtype dtype, const void *values,
                                int count) {
    if (dtype == BT_F16 || dtype == BT_BF16) {
        code->widen[dtype == BT_BF16](count, 0, block, values, values, values, values);
        return block;
    }
    return bti_lane_block_read(block, dtype, values, (int64_t)bt_dtype_size(dtype), count);
}

static void narrow_values(const bti_vector_code *code, void *out, bt_dtype dtype, const void *values, int count) {
    if (dtype == BT_F16 || dtype == BT_BF16)
        code->narrow[dtype == BT_BF16](count, 0, out, values, values, values, values);
    else
        bti_lane_block_write(bti_lane_of(dtype), values, dtype, out, (int64_t)bt_dtype_size(dtype), count);
}

static __attribute__((noinline)) void run_widened(bti_block_machine *m, const bti_block_step *step, char *out,
                                                  int count) {
    const bti_vector_code *code = m->blocks->code;
    bti_lane_block block[2], result;
    const void *x[2];
    for (int a = 0; a < 2; a++) {
        x[a] = x[0];
        if (a < step->argument_count)
            x[a] = widen_values(code, &block[a], (bt_dtype)step->from, m->value[step->arg[a]], count);
    }
    if (bti_plain_is((bt_dtype)step->dtype)) { /* a comparison */
        step->loop(count, step->number, out, x[0], x[1], x[0], x[0]);
        return;
    }
    step->loop(count, step->number, &result, x[0], x[1], x[0], x[0]);
    narrow_values(code, out, (bt_dtype)step->dtype, &result, count);
}

static __attribute__((noinline)) void run_recast(bti_block_machine *m, const bti_block_step *step, char *out,
                                                 int count) {
    bti_lane_block block;
    bt_dtype from = (bt_dtype)step->from;
    const void *values = bti_lane_block_read(&block, from, m->value[step->arg[0]], (int64_t)bt_dtype_size(from), count);
    bti_lane_block_write(bti_lane_of(from), values, (bt_dtype)step->dtype, out, 1 << step->size_log, count);
}

static __attribute__((noinline)) void run_iota(bti_block_machine *m, const bti_block_step *step, char *out,
                                               int64_t start, int count) {
    uint64_t numbers[BTI_BLOCK], along = (uint64_t)m->step[step->operand];
    uint64_t first = m->at[step->operand] + (uint64_t)start * along;
    bool own = step->dtype == BT_I64;
    m->blocks->code->count(count, 0, own ? (void *)out : numbers, &first, &along, NULL, NULL);
    if (own) return;
    if (step->loop)
        step->loop(count, 0, out, numbers, numbers, numbers, numbers);
    else
        bti_lane_block_write(BTI_LANE_I64, numbers, (bt_dtype)step->dtype, out, 1 << step->size_log, count);
}

/* `at`: where the operand is at the line's first point. */
static const void *load_block(bti_block_machine *m, const bti_block_step *step, const char *at, char *slot,
                              int64_t start, int count) {
    int64_t along = m->step[step->operand];
    at += start * along;
    bool dense = along == 1 << step->size_log || count == 1;
    if (dense && !(step->stored && m->in_place)) return at;
    const bti_vector_code *code = m->blocks->code;
    if (dense)
        memcpy(slot, at, (size_t)count << step->size_log);
    else if (along == 0)
        code->fill[step->size_log](count, 0, slot, at, at, at, at);
    else
        code->gather[step->size_log](count, 0, slot, at, &along, at, at);
    return slot;
}

/* The row of point i of a block, or -1. */
static inline int64_t row_of(const bti_block_step *step, const void *numbers, int64_t rows, int i) {
    int64_t row = step->from == BT_I32 ? ((const int32_t *)numbers)[i] : ((const int64_t *)numbers)[i];
    if (row < 0) row += rows;
    return row < rows ? row : -1;
}

static inline __attribute__((always_inline)) void take_each(const bti_block_step *step, const void *numbers,
                                                            int64_t rows, int64_t bytes, const char *at, int64_t along,
                                                            char *slot, int count, size_t size) {
    const uint64_t missing = bti_missing((bt_dtype)step->dtype);
    for (int i = 0; i < count; i++) {
        int64_t row = row_of(step, numbers, rows, i);
        memcpy(slot + (size_t)i * size, row < 0 ? (const char *)&missing : at + i * along + row * bytes, size);
    }
}

static const void *take_block(bti_block_machine *m, const bti_block_step *step, char *slot, int64_t start, int count) {
    const void *numbers = m->value[step->arg[0]];
    int64_t along = m->step[step->operand], rows = *(const int64_t *)m->value[step->arg[1]];
    int64_t bytes = *(const int64_t *)m->value[step->arg[2]];
    const char *at = (const char *)(uintptr_t)m->at[step->operand];
    if (!step->each || count == 1) {
        int64_t row = row_of(step, numbers, rows, 0);
        const uint64_t missing = bti_missing((bt_dtype)step->dtype);
        if (row >= 0) return load_block(m, step, at + row * bytes, slot, start, count);
        m->blocks->code->fill[step->size_log](count, 0, slot, &missing, &missing, &missing, &missing);
        return slot;
    }
    at += start * along;
    switch (step->size_log) {
    case 0: take_each(step, numbers, rows, bytes, at, along, slot, count, 1); break;
    case 1: take_each(step, numbers, rows, bytes, at, along, slot, count, 2); break;
    case 2: take_each(step, numbers, rows, bytes, at, along, slot, count, 4); break;
    default: take_each(step, numbers, rows, bytes, at, along, slot, count, 8);
    }
    return slot;
}

static void store_block(bti_block_machine *m, const bti_block_step *step, int64_t start, int count) {
    int64_t along = m->step[step->operand];
    char *at = (char *)(uintptr_t)m->at[step->operand] + start * along;
    const void *value = m->value[step->value];
    if (along == 1 << step->size_log || count == 1) {
        if (at != value) memmove(at, value, (size_t)count << step->size_log);
    } else
        m->blocks->code->scatter[step->size_log](count, 0, at, value, &along, value, value);
}

static void fold_block(bti_block_machine *m, const bti_block_step *step, int count) {
    const bti_blocks *blocks = m->blocks;
    const bti_block_reduction *r = &blocks->reductions[step->reduction];
    const void *values = m->value[step->value];
    bti_lane_block block;
    if (!bti_plain_is((bt_dtype)step->from))
        values = widen_values(blocks->code, &block, (bt_dtype)step->from, values, count);
    (blocks->kernel.inner ? r->fold->each : r->fold->line)(count, m->scratch + r->lanes, values);
}

/* The total, rounded to the dtype. */
static const void *reduction_value(bti_block_machine *m, const bti_block_step *step, char *slot, int count) {
    const bti_blocks *blocks = m->blocks;
    const bti_block_reduction *r = &blocks->reductions[step->reduction];
    const char *totals = m->scratch + r->total;
    bt_dtype dtype = (bt_dtype)step->dtype;
    if (bti_plain_is(dtype) && bti_plain_of(dtype) == r->accumulator) return totals;
    bti_lane lane = r->accumulator == BTI_PLAIN_F64 ? BTI_LANE_F64 : bti_lane_of(dtype);
    bti_lane_block_write(lane, totals, dtype, slot, 1 << step->size_log, count);
    return slot;
}

static void take_parts(bti_block_machine *m, const bti_block_step *step, char *out, int count) {
    const char *from = (const char *)m->value[step->arg[0]] + step->number;
    const int64_t along = 2 << step->size_log;
    m->blocks->code->gather[step->size_log](count, 0, out, from, &along, from, from);
}

static void join_parts(bti_block_machine *m, const bti_block_step *step, char *out, int count) {
    const int64_t along = 1 << step->size_log, part = along / 2;
    for (int i = 0; i < 2; i++) {
        const void *from = m->value[step->arg[i]];
        m->blocks->code->scatter[step->size_log - 1](count, 0, out + i * part, from, &along, from, from);
    }
}

/* Runs steps for `count` points of the line, from point `start` on. */
static void run_steps(bti_block_machine *m, bti_block_range range, int64_t start, int count) {
    const bti_block_step *steps = m->blocks->steps;
    const void **value = m->value;
    for (const bti_block_step *step = steps + range.begin; step < steps + range.end; step++) {
        char *out = m->scratch + step->slot;
        if (step->stored && m->direct[step->operand]) /* never a LOAD or TAKE: its operand is an input */
            out = (char *)(uintptr_t)m->at[step->operand] + (start << step->size_log);
        const void *result = out;
        switch ((bti_block_kind)step->kind) {
        case BTI_BLOCK_LOOP:
            step->loop(count, step->number, out, value[step->arg[0]], value[step->arg[1]], value[step->arg[2]],
                       value[step->arg[3]]);
            break;
        case BTI_BLOCK_LOAD:
            result = load_block(m, step, (const char *)(uintptr_t)m->at[step->operand], out, start, count);
            break;
        case BTI_BLOCK_TAKE: result = take_block(m, step, out, start, count); break;
        case BTI_BLOCK_STORE: store_block(m, step, start, count); continue;
        case BTI_BLOCK_FOLD: fold_block(m, step, count); continue;
        case BTI_BLOCK_SPREAD: {
            int64_t length = m->box->extent[m->line];
            int most = length < m->blocks->block ? (int)length : m->blocks->block;
            uint64_t one[2] = {0};
            memcpy(one, value[step->value], (size_t)1 << step->size_log);
            m->blocks->code->fill[step->size_log](most, 0, out, one, one, one, one);
            break;
        }
        case BTI_BLOCK_TOTAL: result = reduction_value(m, step, out, count); break;
        case BTI_BLOCK_COPY: memcpy(out, value[step->arg[0]], (size_t)count << step->size_log); break;
        case BTI_BLOCK_PART: take_parts(m, step, out, count); break;
        case BTI_BLOCK_JOIN: join_parts(m, step, out, count); break;
        case BTI_BLOCK_WIDENED: run_widened(m, step, out, count); break;
        case BTI_BLOCK_RECAST: run_recast(m, step, out, count); break;
        case BTI_BLOCK_IOTA: run_iota(m, step, out, start, count); break;
        }
        value[step->value] = result;
    }
}

/* --- walking over axes -------------------------------------------------------------------------------------------- */

typedef struct axis_walk {
    int first, end; /* axes */
    int64_t index[BTI_MAX_RANK];
} axis_walk;

static axis_walk walk_axes(int first, int end) { return (axis_walk){.first = first, .end = end}; }

static void move_operands(bti_block_machine *m, int axis, int64_t by) {
    int operands = bti_kernel_operands(&m->blocks->kernel);
    for (int o = 0; o < operands; o++) m->at[o] += (uint64_t)by * (uint64_t)m->box->stride[o][axis];
}

/* Moves to the next position; false after the last one, when the operands are back where they began. */
static bool next_position(bti_block_machine *m, axis_walk *w) {
    for (int axis = w->end - 1; axis >= w->first; axis--) {
        int64_t extent = m->box->extent[axis];
        if (++w->index[axis] < extent) {
            move_operands(m, axis, 1);
            return true;
        }
        w->index[axis] = 0;
        if (extent > 1) move_operands(m, axis, 1 - extent);
    }
    return false;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static bool aliases_no_input(const bti_block_machine *m, int output) {
    for (int o = 0; o < m->blocks->kernel.input_count; o++)
        if (m->at[o] == m->at[output] && !m->blocks->kernel.operands[o].index) return false;
    return true;
}

static void spread_constants(bti_block_machine *m) {
    const bti_blocks *blocks = m->blocks;
    int64_t length = m->box->extent[m->line];
    int count = length < 1 ? 1 : length < blocks->block ? (int)length : blocks->block;
    for (int i = 0; i < blocks->constant_count; i++) {
        const bti_block_constant *c = &blocks->constants[i];
        char *slot = m->scratch + c->slot;
        bt_dtype dtype = (bt_dtype)c->dtype;
        bti_lane lane = bti_dtype_is_float(dtype) ? BTI_LANE_F64 : dtype == BT_BOOL ? BTI_LANE_I64 : bti_lane_of(dtype);
        uint64_t one = 0;
        bti_lane_block_write(lane, &m->box->scalars[c->scalar], dtype, (char *)&one, 0, 1);
        blocks->code->fill[c->size_log](count, 0, slot, &one, &one, &one, &one);
        m->value[c->value] = slot;
    }
}

static void begin_run(bti_block_machine *m, const bti_blocks *blocks, const bti_box *box) {
    const bti_kernel *kernel = &blocks->kernel;
    m->blocks = blocks;
    m->box = box;
    m->line = bti_kernel_axes(kernel) - 1;
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        m->at[o] = box->address[o], m->step[o] = box->stride[o][m->line];
    m->in_place = false;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        m->direct[o] = o >= kernel->input_count && aliases_no_input(m, o);
        if (o >= kernel->input_count && !m->direct[o]) m->in_place = true;
        if (m->step[o] != (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype)) m->direct[o] = false;
    }
    spread_constants(m);
}

static int block_length(const bti_block_machine *m, int64_t left) {
    return left < m->blocks->block ? (int)left : m->blocks->block;
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static void reset_accumulators(bti_block_machine *m, const bti_block_reduction *r, uint32_t slot, int count) {
    const uint64_t *s = &r->start;
    m->blocks->code->fill[r->size_log](count, 0, m->scratch + slot, s, s, s, s);
}

#define FOR_REDUCTIONS(r, m, sweep)                                       \
    for (const bti_block_reduction *r = (m)->blocks->reductions;          \
         r < (m)->blocks->reductions + (m)->blocks->reduction_count; r++) \
        if (r->stage == (sweep) + 1)

/* Folds one chunk of a row, from point `first` on, into lane 0. */
static void fold_row_chunk(bti_block_machine *m, int sweep, int64_t first, int64_t count) {
    const bti_block_sweep *s = &m->blocks->sweep[sweep];
    FOR_REDUCTIONS(r, m, sweep) reset_accumulators(m, r, r->lanes, BTI_LANES);
    for (int64_t i = 0; i < count; i += m->blocks->block)
        run_steps(m, s->points, first + i, block_length(m, count - i));
    FOR_REDUCTIONS(r, m, sweep) r->fold->tree(m->scratch + r->lanes);
}

/* Folds one chunk of `count` columns from `first` on: `points` positions of the last reduced axis, from the operands' current
 * position, to which they return. */
static void fold_column_chunk(bti_block_machine *m, int sweep, int64_t first, int count, int64_t points) {
    int axis = m->line - 1;
    FOR_REDUCTIONS(r, m, sweep) reset_accumulators(m, r, r->lanes, count);
    for (int64_t i = 0; i < points; i++) {
        run_steps(m, m->blocks->sweep[sweep].points, first, count);
        move_operands(m, axis, 1);
    }
    move_operands(m, axis, -points);
}

static void merge_chunk(bti_block_machine *m, int sweep, int count) {
    FOR_REDUCTIONS(r, m, sweep) r->merge->each(count, m->scratch + r->total, m->scratch + r->lanes);
}

/* --- one row, or one block of columns ----------------------------------------------------------------------------- */

static void sweep_row(bti_block_machine *m, int sweep) {
    int64_t length = m->box->extent[m->line];
    axis_walk lines = walk_axes(m->blocks->kernel.outer, m->line);
    do
        for (int64_t i = 0; i < length; i += BTI_ROW_CHUNK) {
            fold_row_chunk(m, sweep, i, length - i < BTI_ROW_CHUNK ? length - i : BTI_ROW_CHUNK);
            merge_chunk(m, sweep, 1);
        }
    while (next_position(m, &lines));
}

static void sweep_columns(bti_block_machine *m, int sweep, int64_t first, int count) {
    int axis = m->line - 1;
    int64_t length = m->box->extent[axis];
    axis_walk lines = walk_axes(m->blocks->kernel.outer, axis);
    do {
        for (int64_t i = 0; i < length; i += BTI_COLUMN_CHUNK) {
            int64_t points = length - i < BTI_COLUMN_CHUNK ? length - i : BTI_COLUMN_CHUNK;
            fold_column_chunk(m, sweep, first, count, points);
            merge_chunk(m, sweep, count);
            move_operands(m, axis, points);
        }
        move_operands(m, axis, -length);
    } while (next_position(m, &lines));
}

/* Computes `count` kept points from `first` of the line on (a row has one). */
static void run_kept_points(bti_block_machine *m, int64_t first, int count) {
    const bti_blocks *blocks = m->blocks;
    for (int s = 0; s < blocks->sweeps; s++) {
        run_steps(m, blocks->sweep[s].rows, first, count);
        FOR_REDUCTIONS(r, m, s) reset_accumulators(m, r, r->total, count);
        if (blocks->kernel.inner)
            sweep_columns(m, s, first, count);
        else
            sweep_row(m, s);
    }
    run_steps(m, blocks->sweep[blocks->sweeps].rows, first, count);
    run_steps(m, blocks->row_stores, first, count);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

typedef struct part_set {
    uint64_t *written;     /* of bti_blocks_part */
    const uint64_t *given; /* of bti_blocks_finish */
    int64_t points, sets;
} part_set;

/* Copies accumulators from the lanes to `parts` (8 bytes each) or back. Parts have the dtype; accumulators of narrow dtypes are wider. */
static void move_parts(bti_block_machine *m, const bti_block_reduction *r, char *parts, int count, bool write) {
    const int64_t apart = sizeof(uint64_t);
    char *lanes = m->scratch + r->lanes;
    bt_dtype dtype = (bt_dtype)r->dtype;
    bool as_they_are = bti_plain_is(dtype) || r->accumulator == BTI_PLAIN_F64;
    if (write) memset(parts, 0, (size_t)count * sizeof(uint64_t));
    if (as_they_are && write)
        m->blocks->code->scatter[r->size_log](count, 0, parts, lanes, &apart, lanes, lanes);
    else if (as_they_are)
        m->blocks->code->gather[r->size_log](count, 0, lanes, parts, &apart, parts, parts);
    else if (write)
        bti_lane_block_write(bti_lane_of(dtype), lanes, dtype, parts, apart, count);
    else
        bti_lane_block_read((bti_lane_block *)(void *)lanes, dtype, parts, apart, count);
}

static void write_parts(bti_block_machine *m, const part_set *set, int64_t point, int64_t first, int count) {
    const bti_blocks *blocks = m->blocks;
    run_steps(m, blocks->sweep[0].rows, first, count);
    if (blocks->kernel.inner)
        fold_column_chunk(m, 0, first, count, m->box->extent[m->line - 1]);
    else
        fold_row_chunk(m, 0, 0, m->box->extent[m->line]);
    FOR_REDUCTIONS(r, m, 0)
    move_parts(m, r, (char *)(set->written + (r - blocks->reductions) * set->points + point), count, true);
}

static void finish_parts(bti_block_machine *m, const part_set *set, int64_t point, int64_t first, int count) {
    const bti_blocks *blocks = m->blocks;
    run_steps(m, blocks->sweep[0].rows, first, count);
    FOR_REDUCTIONS(r, m, 0) reset_accumulators(m, r, r->total, count);
    for (int64_t c = 0; c < set->sets; c++) {
        FOR_REDUCTIONS(r, m, 0) {
            int64_t row = c * blocks->reduction_count + (r - blocks->reductions);
            move_parts(m, r, (char *)(uintptr_t)(set->given + row * set->points + point), count, false);
        }
        merge_chunk(m, 0, count);
    }
    run_steps(m, blocks->sweep[1].rows, first, count);
    run_steps(m, blocks->row_stores, first, count);
}

/* --- the runs ----------------------------------------------------------------------------------------------------- */

static int64_t kept_points(const bti_kernel *kernel, const bti_box *box) {
    int64_t points = kernel->inner ? box->extent[bti_kernel_axes(kernel) - 1] : 1;
    for (int axis = 0; axis < kernel->outer; axis++) points *= box->extent[axis];
    return points;
}

/* Visits the kept points in row-major order, a block of a line at a time. */
static void run_box(const bti_blocks *blocks, const bti_box *box, const part_set *set) {
    const bti_kernel *kernel = &blocks->kernel;
    bti_block_machine m;
    begin_run(&m, blocks, box);
    int64_t length = kernel->inner ? box->extent[m.line] : 1, point = 0;
    axis_walk outer = walk_axes(0, kernel->outer);
    do
        for (int64_t i = 0; i < length; i += blocks->block) {
            int count = block_length(&m, length - i);
            if (!kernel->reduced)
                run_steps(&m, blocks->sweep[0].points, i, count);
            else if (set->written)
                write_parts(&m, set, point, i, count);
            else if (set->given)
                finish_parts(&m, set, point, i, count);
            else
                run_kept_points(&m, i, count);
            point += count;
        }
    while (next_position(&m, &outer));
}

void bti_blocks_run(const bti_blocks *blocks, const bti_box *box) { run_box(blocks, box, &(part_set){0}); }

void bti_blocks_part(const bti_blocks *blocks, const bti_box *box, uint64_t *parts) {
    run_box(blocks, box, &(part_set){.written = parts, .points = kept_points(&blocks->kernel, box)});
}

void bti_blocks_finish(const bti_blocks *blocks, const bti_box *box, const uint64_t *parts, int64_t count) {
    run_box(blocks, box, &(part_set){.given = parts, .points = kept_points(&blocks->kernel, box), .sets = count});
}

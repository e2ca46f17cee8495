/* The nests: which steps run when, and for which points. */
#include <string.h>

#include "drivers/cpu/block_program.h"
#include "ir/dtype.h"

/* --- walking over axes -------------------------------------------------------------------------------------------- */

typedef struct walk {
    int first, end; /* axes */
    int64_t index[BTI_MAX_RANK];
} walk;

static walk over(int first, int end) { return (walk){.first = first, .end = end}; }

static void move(bti_block_machine *m, int axis, int64_t by) {
    int operands = bti_kernel_operands(&m->blocks->kernel);
    for (int o = 0; o < operands; o++) m->at[o] += (uint64_t)by * (uint64_t)m->box->stride[o][axis];
}

/* To the next position; false after the last, when all is where it began. */
static bool advance(bti_block_machine *m, walk *w) {
    for (int axis = w->end - 1; axis >= w->first; axis--) {
        int64_t extent = m->box->extent[axis];
        if (++w->index[axis] < extent) {
            move(m, axis, 1);
            return true;
        }
        w->index[axis] = 0;
        if (extent > 1) move(m, axis, 1 - extent);
    }
    return false;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static bool alone(const bti_block_machine *m, int output) {
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
        bti_block_write(lane, &m->box->scalars[c->scalar], dtype, (char *)&one, 0, 1);
        blocks->code->fill[c->size_log](count, 0, slot, &one, &one, &one, &one);
        m->value[c->value] = slot;
    }
}

static void start(bti_block_machine *m, const bti_blocks *blocks, const bti_box *box) {
    const bti_kernel *kernel = &blocks->kernel;
    m->blocks = blocks;
    m->box = box;
    m->line = bti_kernel_axes(kernel) - 1;
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        m->at[o] = box->address[o], m->step[o] = box->stride[o][m->line];
    m->in_place = false;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        m->direct[o] = o >= kernel->input_count && alone(m, o);
        if (o >= kernel->input_count && !m->direct[o]) m->in_place = true;
        if (m->step[o] != (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype)) m->direct[o] = false;
    }
    spread_constants(m);
}

static int count_of(const bti_block_machine *m, int64_t left) {
    return left < m->blocks->block ? (int)left : m->blocks->block;
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static void restart(bti_block_machine *m, const bti_block_reduction *r, uint32_t slot, int count) {
    const uint64_t *s = &r->start;
    m->blocks->code->fill[r->size_log](count, 0, m->scratch + slot, s, s, s, s);
}

#define FOR_REDUCTIONS(r, m, sweep)                                       \
    for (const bti_block_reduction *r = (m)->blocks->reductions;          \
         r < (m)->blocks->reductions + (m)->blocks->reduction_count; r++) \
        if (r->stage == (sweep) + 1)

/* One chunk of a line of a row, from point `first` on: lane 0 holds its parts. */
static void row_chunk(bti_block_machine *m, int sweep, int64_t first, int64_t count) {
    const bti_block_sweep *s = &m->blocks->sweep[sweep];
    FOR_REDUCTIONS(r, m, sweep) restart(m, r, r->lanes, BTI_LANES);
    for (int64_t i = 0; i < count; i += m->blocks->block)
        bti_block_steps(m, s->points, first + i, count_of(m, count - i));
    FOR_REDUCTIONS(r, m, sweep) r->fold->tree(m->scratch + r->lanes);
}

/* One chunk of columns, `count` points of the line from `first` on: `points` along the last reduced axis from where the
 * operands stand. Leaves them there. */
static void column_chunk(bti_block_machine *m, int sweep, int64_t first, int count, int64_t points) {
    int axis = m->line - 1;
    FOR_REDUCTIONS(r, m, sweep) restart(m, r, r->lanes, count);
    for (int64_t i = 0; i < points; i++) {
        bti_block_steps(m, m->blocks->sweep[sweep].points, first, count);
        move(m, axis, 1);
    }
    move(m, axis, -points);
}

static void merge(bti_block_machine *m, int sweep, int count) {
    FOR_REDUCTIONS(r, m, sweep) r->merge->each(count, m->scratch + r->total, m->scratch + r->lanes);
}

/* --- one row, or one block of columns ------------------------------------------------------------------------------ */

static void row_sweep(bti_block_machine *m, int sweep) {
    int64_t length = m->box->extent[m->line];
    walk lines = over(m->blocks->kernel.outer, m->line);
    do
        for (int64_t i = 0; i < length; i += BTI_ROW_CHUNK) {
            row_chunk(m, sweep, i, length - i < BTI_ROW_CHUNK ? length - i : BTI_ROW_CHUNK);
            merge(m, sweep, 1);
        }
    while (advance(m, &lines));
}

static void column_sweep(bti_block_machine *m, int sweep, int64_t first, int count) {
    int axis = m->line - 1;
    int64_t length = m->box->extent[axis];
    walk lines = over(m->blocks->kernel.outer, axis);
    do {
        for (int64_t i = 0; i < length; i += BTI_COLUMN_CHUNK) {
            int64_t points = length - i < BTI_COLUMN_CHUNK ? length - i : BTI_COLUMN_CHUNK;
            column_chunk(m, sweep, first, count, points);
            merge(m, sweep, count);
            move(m, axis, points);
        }
        move(m, axis, -length);
    } while (advance(m, &lines));
}

/* `count` kept points from `first` of the line on (of a row: the one). */
static void run_kept(bti_block_machine *m, int64_t first, int count) {
    const bti_blocks *blocks = m->blocks;
    for (int s = 0; s < blocks->sweeps; s++) {
        bti_block_steps(m, blocks->sweep[s].rows, first, count);
        FOR_REDUCTIONS(r, m, s) restart(m, r, r->total, count);
        if (blocks->kernel.inner)
            column_sweep(m, s, first, count);
        else
            row_sweep(m, s);
    }
    bti_block_steps(m, blocks->sweep[blocks->sweeps].rows, first, count);
    bti_block_steps(m, blocks->row_stores, first, count);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

typedef struct part_set {
    uint64_t *written;     /* of bti_blocks_part */
    const uint64_t *given; /* of bti_blocks_finish */
    int64_t points, sets;
} part_set;

/* The accumulators in lanes, to or from 8 bytes each. In the dtype, which a narrow one's accumulator is not. */
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
        bti_block_write(bti_lane_of(dtype), lanes, dtype, parts, apart, count);
    else
        bti_block_read((bti_block *)(void *)lanes, dtype, parts, apart, count);
}

static void part_of_kept(bti_block_machine *m, const part_set *set, int64_t point, int64_t first, int count) {
    const bti_blocks *blocks = m->blocks;
    bti_block_steps(m, blocks->sweep[0].rows, first, count);
    if (blocks->kernel.inner)
        column_chunk(m, 0, first, count, m->box->extent[m->line - 1]);
    else
        row_chunk(m, 0, 0, m->box->extent[m->line]);
    FOR_REDUCTIONS(r, m, 0)
    move_parts(m, r, (char *)(set->written + (r - blocks->reductions) * set->points + point), count, true);
}

static void finish_kept(bti_block_machine *m, const part_set *set, int64_t point, int64_t first, int count) {
    const bti_blocks *blocks = m->blocks;
    bti_block_steps(m, blocks->sweep[0].rows, first, count);
    FOR_REDUCTIONS(r, m, 0) restart(m, r, r->total, count);
    for (int64_t c = 0; c < set->sets; c++) {
        FOR_REDUCTIONS(r, m, 0) {
            int64_t row = c * blocks->reduction_count + (r - blocks->reductions);
            move_parts(m, r, (char *)(uintptr_t)(set->given + row * set->points + point), count, false);
        }
        merge(m, 0, count);
    }
    bti_block_steps(m, blocks->sweep[1].rows, first, count);
    bti_block_steps(m, blocks->row_stores, first, count);
}

/* --- the runs ------------------------------------------------------------------------------------------------------ */

static int64_t kept_points(const bti_kernel *kernel, const bti_box *box) {
    int64_t points = kernel->inner ? box->extent[bti_kernel_axes(kernel) - 1] : 1;
    for (int axis = 0; axis < kernel->outer; axis++) points *= box->extent[axis];
    return points;
}

/* Visits the kept points in row-major order, in blocks where there are several in a line. */
static void visit(const bti_blocks *blocks, const bti_box *box, const part_set *set) {
    const bti_kernel *kernel = &blocks->kernel;
    bti_block_machine m;
    start(&m, blocks, box);
    int64_t length = kernel->inner ? box->extent[m.line] : 1, point = 0;
    walk outer = over(0, kernel->outer);
    do
        for (int64_t i = 0; i < length; i += blocks->block) {
            int count = count_of(&m, length - i);
            if (!kernel->reduced)
                bti_block_steps(&m, blocks->sweep[0].points, i, count);
            else if (set->written)
                part_of_kept(&m, set, point, i, count);
            else if (set->given)
                finish_kept(&m, set, point, i, count);
            else
                run_kept(&m, i, count);
            point += count;
        }
    while (advance(&m, &outer));
}

void bti_blocks_run(const bti_blocks *blocks, const bti_box *box) { visit(blocks, box, &(part_set){0}); }

void bti_blocks_part(const bti_blocks *blocks, const bti_box *box, uint64_t *parts) {
    visit(blocks, box, &(part_set){.written = parts, .points = kept_points(&blocks->kernel, box)});
}

void bti_blocks_finish(const bti_blocks *blocks, const bti_box *box, const uint64_t *parts, int64_t count) {
    visit(blocks, box, &(part_set){.given = parts, .points = kept_points(&blocks->kernel, box), .sets = count});
}

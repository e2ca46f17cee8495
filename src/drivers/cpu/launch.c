/* A kernel's box is cut into pieces that the cores run: at once if it is small, rows and columns in parts if there are few. */
#include "drivers/cpu/launch.h"

#include "base/alloc.h"
#include "base/compare.h"
#include "base/cores.h"
#include "base/error.h"
#include "ir/dtype.h"
#include "launch/entry.h"
#include "launch/narrow.h"
#include "launch/turned.h"

enum {
    PIECE_WORK = 1 << 20, /* instructions times points of a piece: some 100 us of blocks, less of compiled code */
    PIECE_MOST = 1 << 17, /* points */
    PIECE_LEAST = 1 << 13,
    TILE_LINE =
        64, /* a tile of a transpose, in points: the tile of the source and that of the result fit into the caches */
    TILE_LINES = 256,
    COLUMNS_MOST = 1024, /* of a piece */
    COLUMNS_LEAST = 256,
    COLUMNS_STEP = 16,
    PIECES_ENOUGH = 8, /* of whole rows or columns; with fewer, rows and columns are cut into parts */
    PARTS_ENOUGH = 4,
    PART_POINTS_LEAST = 64,
    PARTS_ON_STACK = 512,   /* words */
    STREAM_BYTES = 8 << 20, /* of an output: more than a core's share of the caches */
    STREAM_INSTRUCTIONS =
        32 /* for a point of all outputs, of ir/instructions.def: of more, they take longer than memory does */
};
static const int64_t parts_most = 1 << 21; /* words */

double bti_launch_points(const bti_kernel *kernel, const bti_box *box) {
    double points = 1;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) points *= (double)box->extent[axis];
    return points;
}

/* The points of a piece: a multiple of the vector length, so that pieces of aligned lines start aligned. */
static int64_t piece_points(const bti_kernel *kernel) {
    return bti_larger_of(PIECE_LEAST,
                         bti_smaller_of(PIECE_MOST, PIECE_WORK / bti_larger_of(kernel->instr_count, 1) / 64 * 64));
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

typedef struct piece_grid {
    const bti_runner *runner;
    const bti_box *box;
    int64_t tile[BTI_MAX_RANK];
    int64_t pieces, grain; /* in all; taken by a core at a time */
} piece_grid;

/* A piece with the strides, scalars and extents of the box; the caller sets its addresses. */
static void copy_box_shape(const bti_kernel *kernel, const bti_box *box, bti_box *piece) {
    piece->scalars = box->scalars;
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) piece->stride[o][axis] = box->stride[o][axis];
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) piece->extent[axis] = box->extent[axis];
}

static void set_addresses(const bti_kernel *kernel, const bti_box *box, const int64_t *first, bti_box *piece) {
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        piece->address[o] = box->address[o];
        for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
            piece->address[o] += (uint64_t)first[axis] * (uint64_t)box->stride[o][axis];
    }
}

static void run_pieces(void *context, int64_t begin, int64_t end) {
    const piece_grid *g = context;
    const bti_kernel *kernel = g->runner->kernel;
    bti_box piece;
    copy_box_shape(kernel, g->box, &piece);
    for (int64_t p = begin; p < end; p++) {
        int64_t first[BTI_MAX_RANK], rest = p;
        for (int axis = bti_kernel_line(kernel); axis >= 0; axis--) {
            int64_t extent = g->box->extent[axis], count = bti_pieces_of(extent, g->tile[axis]);
            first[axis] = rest % count * g->tile[axis];
            piece.extent[axis] = bti_smaller_of(g->tile[axis], extent - first[axis]);
            rest /= count;
        }
        set_addresses(kernel, g->box, first, &piece);
        g->runner->run(g->runner->code, &piece);
    }
}

/* Cuts axes into tiles, from the innermost one outwards, such that a tile has about `points` points. */
static void cut_axes(piece_grid *g, int first, int end, int64_t points) {
    for (int axis = end - 1; axis >= first; axis--) {
        int64_t extent = g->box->extent[axis];
        g->tile[axis] = bti_larger_of(1, bti_smaller_of(points, extent));
        points = g->tile[axis] < extent ? 1 : points / extent;
    }
}

static void count_pieces(piece_grid *g) {
    int axes = bti_kernel_axes(g->runner->kernel);
    g->pieces = 1;
    for (int axis = 0; axis < axes; axis++) g->pieces *= bti_pieces_of(g->box->extent[axis], g->tile[axis]);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

static void cut_map(piece_grid *g, int64_t points) {
    const bti_kernel *kernel = g->runner->kernel;
    int line = bti_kernel_line(kernel);
    int crossed = g->box->extent[line] > TILE_LINES ? bti_kernel_crossing_axis(kernel, g->box) : -1;
    if (crossed < 0) {
        g->tile[line] = bti_smaller_of(g->box->extent[line], points);
        cut_axes(g, 0, line, points / g->tile[line]);
        return;
    }
    cut_axes(g, 0, line, 1);
    g->tile[line] = bti_smaller_of(g->box->extent[line], TILE_LINE);
    g->tile[crossed] = bti_smaller_of(g->box->extent[crossed], TILE_LINES);
    g->grain = bti_larger_of(1, points / (g->tile[line] * g->tile[crossed]));
}

/* --- rows and columns --------------------------------------------------------------------------------------------- */

static void cut_reduction(piece_grid *g, int64_t points) {
    const bti_kernel *kernel = g->runner->kernel;
    int line = bti_kernel_line(kernel), end = kernel->outer + kernel->reduced;
    int64_t folded = bti_box_points(g->box, kernel->outer, end), room = bti_larger_of(1, points / folded);
    for (int axis = kernel->outer; axis < end; axis++) g->tile[axis] = g->box->extent[axis];
    if (kernel->inner) {
        int64_t columns =
            bti_larger_of(COLUMNS_LEAST, bti_smaller_of(COLUMNS_MOST, room)) / COLUMNS_STEP * COLUMNS_STEP;
        g->tile[line] = bti_smaller_of(g->box->extent[line], columns);
        room = bti_larger_of(1, room / g->tile[line]);
    }
    cut_axes(g, 0, kernel->outer, room);
}

typedef struct part_job {
    const bti_runner *runner;
    const bti_box *box;
    int axis; /* the last reduced one */
    int64_t chunk, per_line, count, words;
    int64_t at_once; /* chunks; several of one line alone */
    uint64_t *parts;
} part_job;

static void run_parts(void *context, int64_t begin, int64_t end) {
    const part_job *job = context;
    const bti_kernel *kernel = job->runner->kernel;
    bti_box piece;
    copy_box_shape(kernel, job->box, &piece);
    for (int64_t group = begin; group < end; group++) {
        int64_t p = group * job->at_once, first[BTI_MAX_RANK] = {0}, rest = p / job->per_line;
        int64_t most = job->chunk * job->at_once;
        first[job->axis] = p % job->per_line * job->chunk;
        piece.extent[job->axis] = bti_smaller_of(most, job->box->extent[job->axis] - first[job->axis]);
        for (int axis = job->axis - 1; axis >= kernel->outer; axis--) {
            first[axis] = rest % job->box->extent[axis];
            piece.extent[axis] = 1;
            rest /= job->box->extent[axis];
        }
        set_addresses(kernel, job->box, first, &piece);
        job->runner->part(job->runner->code, &piece, job->parts + p * job->words);
    }
}

/* Whether the rows or columns can be cut into parts that are long enough; fills in the job. */
static bool plan_parts(const bti_runner *runner, const bti_box *box, part_job *job) {
    const bti_kernel *kernel = runner->kernel;
    int reductions = bti_entry_reductions(kernel);
    if (!runner->part || !reductions || bti_kernel_sweeps(kernel) > 1) return false;
    int axis = kernel->outer + kernel->reduced - 1;
    int64_t chunk = bti_kernel_chunk(kernel), length = box->extent[axis];
    *job = (part_job){runner,
                      box,
                      axis,
                      chunk,
                      bti_pieces_of(length, chunk),
                      bti_entry_sets(kernel, box, bti_kernel_chunk(kernel)),
                      bti_entry_points(kernel, box) * reductions,
                      bti_larger_of(1, runner->chunks),
                      NULL};
    return job->count > 1 && bti_smaller_of(length, chunk) >= PART_POINTS_LEAST &&
           job->count <= parts_most / job->words;
}

static bt_status launch_parts(part_job *job) {
    uint64_t on_stack[PARTS_ON_STACK];
    int64_t words = job->count * job->words;
    job->parts = words <= PARTS_ON_STACK ? on_stack : bti_alloc((size_t)words * sizeof *on_stack);
    if (!job->parts) return bti_no_memory();
    int64_t points = job->at_once * job->chunk * job->words / bti_entry_reductions(job->runner->kernel);
    bti_parallel(bti_pieces_of(job->count, job->at_once), bti_larger_of(1, piece_points(job->runner->kernel) / points),
                 run_parts, job);
    job->runner->finish(job->runner->code, job->box, job->parts, job->count);
    if (job->parts != on_stack) bti_free(job->parts);
    return BT_OK;
}

/* Parts are better where there are few pieces, and where pieces would read columns in narrow strips: parts read whole lines. */
static bool prefers_parts(const piece_grid *g, part_job *job) {
    const bti_kernel *kernel = g->runner->kernel;
    int line = bti_kernel_line(kernel);
    bool few = g->pieces < PIECES_ENOUGH, strips = kernel->inner && g->tile[line] < g->box->extent[line];
    return (few || strips) && plan_parts(g->runner, g->box, job) && (few || job->count >= PARTS_ENOUGH);
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

_Static_assert(PIECE_MOST < STREAM_BYTES / 8, "outputs of a whole box do not bypass the cache");
static inline bool is_whole(const bti_kernel *kernel, const bti_box *box) {
    return bti_launch_points(kernel, box) <= (double)piece_points(kernel);
}
bool bti_launch_is_whole(const bti_kernel *kernel, const bti_box *box) { return is_whole(kernel, box); }

bt_status bti_launch(const bti_runner *runner, const bti_box *box) {
    const bti_kernel *kernel = runner->kernel;
    if (is_whole(kernel, box)) {
        runner->run(runner->code, box);
        return BT_OK;
    }
    int64_t points = piece_points(kernel);
    piece_grid g = {.runner = runner, .box = box, .grain = 1};
    part_job job;
    if (kernel->reduced)
        cut_reduction(&g, points);
    else
        cut_map(&g, points);
    count_pieces(&g);
    if (kernel->reduced && prefers_parts(&g, &job)) return launch_parts(&job);
    bti_parallel(g.pieces, g.grain, run_pieces, &g);
    return BT_OK;
}

/* --- blocks and compiled code ------------------------------------------------------------------------------------- */

static void run_compiled(const void *code, const bti_box *box) {
    const bti_code *c = code;
    c->compiled->run(box->extent, box->scalars, box->address, *box->stride, c->functions);
#if defined(__x86_64__)
    if (c->variant == BTI_TEXT_STREAM) __builtin_ia32_sfence(); /* before another thread learns that it is done */
#endif
}
static void part_compiled(const void *code, const bti_box *box, uint64_t *parts) {
    const bti_code *c = code;
    c->compiled->part(box->extent, box->scalars, box->address, *box->stride, c->functions, parts);
}
static void finish_compiled(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    const bti_code *c = code;
    c->compiled->finish(box->extent, box->scalars, box->address, *box->stride, c->functions, parts, count);
}

static void run_blocks(const void *code, const bti_box *box) { bti_blocks_run(code, box); }
static void part_blocks(const void *code, const bti_box *box, uint64_t *parts) { bti_blocks_part(code, box, parts); }
static void finish_blocks(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    bti_blocks_finish(code, box, parts, count);
}

bti_runner bti_blocks_runner(const bti_kernel *kernel, const bti_blocks *blocks) {
    return (bti_runner){kernel, blocks, run_blocks, part_blocks, finish_blocks, 0};
}

bti_runner bti_compiled_runner(const bti_kernel *kernel, const bti_code *code) {
    bool parts = code->compiled->part && code->compiled->finish;
    int64_t chunks = code->variant == BTI_TEXT_NARROW ? BTI_NARROW_CHUNKS : 0;
    return (bti_runner){kernel, code, run_compiled, parts ? part_compiled : NULL, parts ? finish_compiled : NULL,
                        chunks};
}

bt_status bti_launch_blocks(const bti_kernel *kernel, const bti_blocks *blocks, const bti_box *box) {
    bti_runner runner = bti_blocks_runner(kernel, blocks);
    return bti_launch(&runner, box);
}

/* --- turned ------------------------------------------------------------------------------------------------------- */

bool bti_launch_turns(const bti_kernel *kernel, const bti_box *box) {
    return bti_box_turns(kernel, box) && !is_whole(kernel, box);
}

bool bti_launch_is_narrow(const bti_kernel *kernel, const bti_box *box) {
    return bti_box_is_narrow(kernel, box) && !is_whole(kernel, box);
}

/* A piece has whole lines of the box, which now lie across. */
static bt_status launch_turned(const bti_kernel *kernel, const bti_code *code, const bti_box *box) {
    bti_kernel turned;
    bti_box across;
    bti_kernel_turn(kernel, &turned);
    bti_box_turn(kernel, box, &across);
    bti_runner runner = bti_compiled_runner(&turned, code);
    piece_grid g = {.runner = &runner, .box = &across, .grain = 1};
    int line = bti_kernel_line(&turned);
    int64_t lines = bti_larger_of(BTI_TURNED_LEAST, piece_points(kernel) / across.extent[line - 1] / 64 * 64);
    g.tile[line - 1] = across.extent[line - 1];
    g.tile[line] = bti_smaller_of(across.extent[line], lines);
    cut_axes(&g, 0, line - 1, lines / g.tile[line]);
    count_pieces(&g);
    bti_parallel(g.pieces, g.grain, run_pieces, &g);
    return BT_OK;
}

bt_status bti_launch_compiled(const bti_kernel *kernel, const bti_code *code, const bti_box *box) {
    if (code->variant == BTI_TEXT_TURNED) return launch_turned(kernel, code, box);
    bti_runner runner = bti_compiled_runner(kernel, code);
    return bti_launch(&runner, box);
}

/* --- streaming ---------------------------------------------------------------------------------------------------- */

bool bti_launch_can_stream(const bti_kernel *kernel, const bti_box *box) {
    int line = bti_kernel_line(kernel);
    if (kernel->reduced) return false;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        int64_t size = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        if (box->address[o] % 64 || box->stride[o][line] != size) return false;
        for (int axis = 0; axis < line; axis++)
            if (box->extent[axis] > 1 && box->stride[o][axis] % 64) return false;
        for (int i = 0; i < kernel->input_count; i++) /* an output in place of an input is in the cache already */
            if (!kernel->operands[i].index && box->address[i] == box->address[o]) return false;
    }
    return true;
}

/* Where the operations take longer, memory is hidden behind them: stores that bypass the cache then only wait for each other. Measured on AVX2: an addition
 * takes half of the time with them, exp and sigmoid 1.1 times, sigmoid and a product of it, both stored, 1.6 to 1.8 times. */
static bool is_hidden(const bti_kernel *kernel) {
    int instructions = 0;
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        bool is_number = instr->op == BTI_OP_iota && !bti_dtype_is_float((bt_dtype)instr->dtype);
        instructions += is_number ? 1 : bti_op_instructions((bti_op)instr->op, true);
    }
    return instructions > STREAM_INSTRUCTIONS;
}

bool bti_launch_streams(const bti_kernel *kernel, const bti_box *box) {
    double points = bti_launch_points(kernel, box);
    if (points < STREAM_BYTES / 8.0) return false;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        if (points * (double)bt_dtype_size((bt_dtype)kernel->operands[o].dtype) < STREAM_BYTES) return false;
    return bti_launch_can_stream(kernel, box) && !is_hidden(kernel);
}

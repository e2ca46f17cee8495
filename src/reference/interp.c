/* The interpreter: sources, movements and matrix products; the other classes of operations have files of their own. */
#include "reference/interp.h"

#include <string.h>

#include "base/error.h"
#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/dtype.h"
#include "reference/classes.h"
#include "reference/operand.h"

/* Writes a number into the output's only element: an int64, a uint64 or the bits of a double, by its dtype. */
static void write_number(const bti_operand *out, int64_t bits) {
    bti_lane lane = bti_dtype_is_float(out->dtype) ? BTI_LANE_F64 : bti_lane_of(out->dtype);
    bti_lane_block_write(lane == BTI_LANE_BOOL ? BTI_LANE_I64 : lane, &bits, out->dtype, bti_address(out), 0, 1);
}

static void write_iota(const bti_operand *out) {
    int64_t step = bti_axis_step(out, 0);
    for (int64_t i = 0; i < out->shape[0]; i += BTI_BLOCK) {
        bti_lane_block block;
        int n = bti_lane_block_count(out->shape[0] - i);
        for (int k = 0; k < n; k++) block.i64[k] = i + k;
        bti_lane_block_write(BTI_LANE_I64, &block, out->dtype, bti_address(out) + i * step, step, n);
    }
}

static bt_status write_source(const bti_work *work) {
    switch (work->op) {
    case BTI_OP_const: write_number(&work->output, work->attr->constant.bits); break;
    case BTI_OP_size:
        bti_lane_block_write(BTI_LANE_I64, &work->attr->size.size, work->output.dtype, bti_address(&work->output), 0,
                             1);
        break;
    case BTI_OP_iota: write_iota(&work->output); break;
    default: return bti_fail(BT_INTERNAL, "%s is given, not computed", bti_op_info(work->op)->name);
    }
    return BT_OK;
}

/* Copies the elements of one shape to another shape with as many, both in row-major order. */
static void copy_reshaped(const bti_operand *out, const bti_operand *in) {
    bti_walk to, from;
    int64_t i = 0, j = 0; /* in the lines */
    bti_walk_start(&to, out->rank, out->shape, 1, &out);
    bti_walk_start(&from, in->rank, in->shape, 1, &in);
    while (to.more && from.more) {
        int64_t count = to.length - i < from.length - j ? to.length - i : from.length - j;
        bti_copy_line(to.at[0] + i * to.step[0], to.step[0], from.at[0] + j * from.step[0], from.step[0], count,
                      bt_dtype_size(out->dtype));
        i += count, j += count;
        if (i == to.length) bti_walk_next(&to), i = 0;
        if (j == from.length) bti_walk_next(&from), j = 0;
    }
}

/* --- matrix products ----------------------------------------------------------------------------------------------- */

/* [M, K] x [K, N] in tiles: a tile of the output is held while K goes by, ROWS x DEPTH of A and DEPTH x BTI_BLOCK of B at
 * a time. Within a tile: for i, for k, a row of B times a[i][k] is added to a row of partial sums, which then goes to the
 * output's row; so an element's error grows with DEPTH + K / DEPTH instead of K. */
enum { ROWS = 16, DEPTH = 32 };

#define ADD_ROW(function, type)                                                                                    \
    static inline __attribute__((always_inline)) void function##_loop(type *restrict to, const type *restrict row, \
                                                                      type by, int count) {                        \
        for (int j = 0; j < count; j++) to[j] += row[j] * by;                                                      \
    }                                                                                                              \
    static void function(type *to, const type *row, type by, int count) {                                          \
        if (count == BTI_BLOCK)                                                                                    \
            function##_loop(to, row, by, BTI_BLOCK);                                                               \
        else                                                                                                       \
            function##_loop(to, row, by, count);                                                                   \
    }

#define TILE(function, type)                                                                             \
    ADD_ROW(function##_row, type)                                                                        \
    static void function(void *totals, const void *a, const void *b, int rows, int depth, int columns) { \
        const type(*as)[DEPTH] = a, (*bs)[BTI_BLOCK] = b;                                                \
        type(*out)[BTI_BLOCK] = totals;                                                                  \
        for (int i = 0; i < rows; i++) {                                                                 \
            type partial[BTI_BLOCK] = {0};                                                               \
            for (int k = 0; k < depth; k++) function##_row(partial, bs[k], as[i][k], columns);           \
            function##_row(out[i], partial, 1, columns);                                                 \
        }                                                                                                \
    }

TILE(tile_f32, float)
TILE(tile_f64, double)
TILE(tile_whole, uint64_t) /* signed too: products and sums wrap alike */

typedef union tile {
    float f32[DEPTH * BTI_BLOCK];
    double f64[DEPTH * BTI_BLOCK];
    uint64_t whole[DEPTH * BTI_BLOCK];
} tile;

typedef struct product {
    bt_dtype a, b, out;
    size_t lane_size;
    void (*multiply)(void *totals, const void *a, const void *b, int rows, int depth, int columns);
    int64_t m, k, n, a_row, a_column, b_row, b_column, out_row, out_column; /* steps in bytes */
} product;

static int smaller(int64_t a, int b) { return a < b ? (int)a : b; }

/* A part of a matrix into rows of `width` lanes each. */
static void read_matrix_tile(const product *p, bt_dtype dtype, void *rows_of, int width, const char *at,
                             int64_t row_step, int64_t step, int rows, int columns) {
    for (int i = 0; i < rows; i++) {
        bti_lane_block block;
        const void *values = bti_lane_block_read(&block, dtype, at + i * row_step, step, columns);
        memcpy((char *)rows_of + (size_t)i * (size_t)width * p->lane_size, values, (size_t)columns * p->lane_size);
    }
}

static void multiply_tile(const product *p, char *out, const char *a, const char *b, int rows, int columns) {
    tile totals, b_tile;
    union {
        float f32[ROWS * DEPTH];
        double f64[ROWS * DEPTH];
        uint64_t whole[ROWS * DEPTH];
    } a_tile;
    memset(&totals, 0, (size_t)(rows * BTI_BLOCK) * p->lane_size);
    for (int64_t k = 0; k < p->k; k += DEPTH) {
        int depth = smaller(p->k - k, DEPTH);
        read_matrix_tile(p, p->a, &a_tile, DEPTH, a + k * p->a_column, p->a_row, p->a_column, rows, depth);
        read_matrix_tile(p, p->b, &b_tile, BTI_BLOCK, b + k * p->b_row, p->b_row, p->b_column, depth, columns);
        p->multiply(&totals, &a_tile, &b_tile, rows, depth, columns);
    }
    for (int i = 0; i < rows; i++)
        bti_lane_block_write(bti_lane_of(p->out), (char *)&totals + (size_t)(i * BTI_BLOCK) * p->lane_size, p->out,
                             out + i * p->out_row, p->out_column, columns);
}

static void multiply_matrix(const product *p, char *out, const char *a, const char *b) {
    for (int64_t j = 0; j < p->n; j += BTI_BLOCK)
        for (int64_t i = 0; i < p->m; i += ROWS)
            multiply_tile(p, out + i * p->out_row + j * p->out_column, a + i * p->a_row, b + j * p->b_column,
                          smaller(p->m - i, ROWS), smaller(p->n - j, BTI_BLOCK));
}

static void multiply_matrices(const bti_work *work) {
    const bti_operand *a = work->inputs, *b = a + 1, *out = &work->output;
    int row = out->rank - 2, column = out->rank - 1;
    product p = {a->dtype,
                 b->dtype,
                 out->dtype,
                 8,
                 tile_whole,
                 out->shape[row],
                 a->shape[column],
                 out->shape[column],
                 bti_axis_step(a, row),
                 bti_axis_step(a, column),
                 bti_axis_step(b, row),
                 bti_axis_step(b, column),
                 bti_axis_step(out, row),
                 bti_axis_step(out, column)};
    if (bti_lane_of(p.out) == BTI_LANE_F32) p.multiply = tile_f32, p.lane_size = sizeof(float);
    if (bti_lane_of(p.out) == BTI_LANE_F64) p.multiply = tile_f64;
    bti_walk walk;
    for (bti_walk_start(&walk, row, out->shape, 3, (const bti_operand *[]){out, a, b}); walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < walk.length; i++)
            multiply_matrix(&p, walk.at[0] + i * walk.step[0], walk.at[1] + i * walk.step[1],
                            walk.at[2] + i * walk.step[2]);
}

/* --- all operations ------------------------------------------------------------------------------------------------ */

bt_status bti_interpret(const bti_work *work) {
    switch (bti_op_info(work->op)->class) {
    case BTI_SOURCE: return write_source(work);
    case BTI_ELEMENTWISE: return bti_interpret_elementwise(work);
    case BTI_REDUCE: bti_interpret_reduce(work); return BT_OK;
    case BTI_SCAN: bti_interpret_running(work); return BT_OK;
    case BTI_GATHER: bti_interpret_gather(work); return BT_OK;
    case BTI_ORDER: return bti_interpret_order(work);
    case BTI_HEAVY:
        if (bti_op_is_attention(work->op)) return bti_interpret_attention(work);
        bti_op_is_conv(work->op) ? bti_interpret_conv(work) : multiply_matrices(work);
        return BT_OK;
    case BTI_MOVEMENT:
    case BTI_EFFECT: copy_reshaped(&work->output, work->inputs); return BT_OK;
    case BTI_CONTROL: break;    /* exec runs its regions */
    case BTI_COLLECTIVE: break; /* no work of one device */
    case BTI_HOST: return bti_fail(BT_INTERNAL, "%s is not a device's work", bti_op_info(work->op)->name);
    }
    return bti_fail(BT_INTERNAL, "operation %d is not one", (int)work->op);
}

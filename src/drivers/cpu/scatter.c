#include "drivers/cpu/scatter.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/ranges.h"
#include "drivers/cpu/target.h"
#include "drivers/cpu/vector/vector.h"
#include "reference/operand.h"

/* --- rows --------------------------------------------------------------------------------------------------------- */

enum { LOOKED_UP = 256 }; /* indices that are looked up before their rows are added */
/* Bytes of a row. Parts of rows are at least PART_OF_ROW long. Rows that are not cut are divided between threads, each of which looks at
 * all indices: one thread more for each FOR_A_THREAD. */
enum { PART_OF_ROW = 256, FOR_A_THREAD = 32, CACHE_LINE = 64, CACHE = 256 << 10 };

static bti_scatter_loops loops_of(const bti_work *work) {
    bti_scatter_kind kind = work->op == BTI_OP_scatter_set   ? BTI_SCATTER_SET
                            : work->op == BTI_OP_scatter_max ? BTI_SCATTER_MAX
                            : work->op == BTI_OP_scatter_min ? BTI_SCATTER_MIN
                                                             : BTI_SCATTER_ADD;
    return bti_vector_code_of(bti_cpu_target())->scatters[kind][work->output.dtype];
}

/* A scatter whose rows are contiguous in the output and in what is added. A unit is a part of the rows and a part of the columns at one
 * position of the axes before. */
typedef struct row_scatter {
    bti_walk outer; /* of the output and what is added: the axes before the axis of the scatter */
    const bti_operand *y;
    void (*combine)(const bti_row_scatter *rows);
    int64_t rows, width, size; /* rows of the output, their elements, bytes of an element */
    int64_t out_step, from_step;
    int64_t row_parts, rows_each, column_parts, columns_each;
} row_scatter;

/* The columns of `part`, for the rows from `first` to before `last`. */
static void combine_rows(const row_scatter *s, bti_row_scatter part, int64_t first, int64_t last) {
    int64_t to[LOOKED_UP], of[LOOKED_UP], step = bti_axis_step(s->y, 0), count = s->y->shape[0];
    const char *y = bti_address(s->y);
    part.to = to, part.of = of;
    for (int64_t i = 0; i < count;) {
        int64_t end = bti_smaller_of(i + LOOKED_UP, count), found = 0;
        for (; i < end; i++) {
            int64_t row = bti_index_in(s->y, y + i * step, s->rows);
            to[found] = row * s->out_step, of[found] = i * s->from_step;
            found += row >= first && row < last;
        }
        part.count = found;
        s->combine(&part);
    }
}

static void combine_units(void *context, int64_t begin, int64_t end) {
    const row_scatter *s = context;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t part = unit % (s->row_parts * s->column_parts), column = part % s->column_parts * s->columns_each,
                first = part / s->column_parts * s->rows_each;
        char *at[2];
        bti_walk_at(&s->outer, unit / (s->row_parts * s->column_parts), at);
        bti_row_scatter columns = {.out = at[0] + column * s->size,
                                   .from = at[1] + column * s->size,
                                   .width = bti_smaller_of(s->width - column, s->columns_each)};
        combine_rows(s, columns, first, bti_smaller_of(first + s->rows_each, s->rows));
    }
}

static int64_t pieces_of(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

/* Cuts rows where they are long, else between rows, into as many parts as there is work for cores. Where the output stays in a core's cache,
 * only reading what is added takes time, and half of the cores read as much as memory gives. Measured with 2 cores, 100,000 rows of 512 bytes added
 * to 100: 3.3 ms by one, 4.4 to 6 ms by both. */
static void cut_rows(row_scatter *s, int64_t positions, int64_t bytes) {
    int64_t row = s->width * s->size, unit = CACHE_LINE / s->size;
    int64_t cores = s->rows * row <= CACHE ? bti_cores() / 2 : bti_cores();
    int64_t wanted = pieces_of(bti_smaller_of(cores, bytes / BTI_COPY_PIECE), positions);
    s->row_parts = s->column_parts = 1, s->rows_each = s->rows, s->columns_each = s->width;
    if (wanted < 2) return;
    if (row >= 2 * PART_OF_ROW) {
        s->columns_each = pieces_of(s->width, bti_smaller_of(wanted, row / PART_OF_ROW));
        s->columns_each = pieces_of(s->columns_each, unit) * unit;
        s->column_parts = pieces_of(s->width, s->columns_each);
    } else {
        s->rows_each = pieces_of(s->rows, bti_smaller_of(wanted, 1 + row / FOR_A_THREAD));
        s->row_parts = pieces_of(s->rows, s->rows_each);
    }
}

static void scatter_rows(const bti_work *work, const bti_operand *y, const bti_operand *z, int64_t width) {
    const bti_operand *out = &work->output;
    int axis = work->attr->axis.axis;
    row_scatter s = {.y = y,
                     .combine = loops_of(work).rows,
                     .rows = out->shape[axis],
                     .width = width,
                     .size = (int64_t)bt_dtype_size(out->dtype),
                     .out_step = bti_axis_step(out, axis),
                     .from_step = bti_axis_step(z, axis)};
    bti_walk_start(&s.outer, axis, out->shape, 2, (const bti_operand *[]){out, z});
    int64_t positions = bti_walk_positions(&s.outer), bytes = positions * y->shape[0] * width * s.size;
    cut_rows(&s, positions, bytes);
    int64_t units = positions * s.row_parts * s.column_parts;
    bti_parallel(units, bti_copy_grain(bytes / units), combine_units, &s);
}

/* What is added with rows that are contiguous: as it is, or as a copy of what does not repeat. False without memory for it. */
static bool find_rows(const bti_operand *z, int axis, bti_operand *rows, void **scratch) {
    *rows = *z;
    if (bti_operand_is_dense_after(z, axis)) return true;
    bti_operand from = *z;
    int64_t count = 1;
    for (int a = z->rank - 1; a >= 0; a--) {
        bool repeats = a <= axis && z->stride[a] == 0;
        if (repeats) from.shape[a] = 1;
        rows->stride[a] = repeats ? 0 : count;
        count *= from.shape[a];
    }
    size_t bytes;
    if (!bti_mul_size((size_t)count, bt_dtype_size(z->dtype), &bytes) ||
        !(*scratch = bti_alloc_aligned(CACHE_LINE, bytes)))
        return false;
    bti_operand to = *rows;
    memcpy(to.shape, from.shape, sizeof to.shape);
    to.address = rows->address = (uint64_t)(uintptr_t)*scratch;
    bti_cpu_copy(&to, &from);
    return true;
}

/* --- places ------------------------------------------------------------------------------------------------------- */

/* Element by element, for any strides: each of z has an index of its own. Of the two loops, along the axis and along a line of the other
 * axes, the inner one is that which goes by smaller steps through z. */
static bt_status scatter_places(const bti_work *work) {
    const bti_operand *y = work->inputs + 1, *z = y + 1, *out = &work->output;
    int axis = work->attr->axis.axis;
    int64_t shape[BTI_MAX_RANK], steps[3] = {bti_axis_step(out, axis), bti_axis_step(y, axis), bti_axis_step(z, axis)};
    bti_scatter_loops loops = loops_of(work);
    bti_place_scatter line = {.places = out->shape[axis], .place_step = steps[0], .wide = y->dtype == BT_I64};
    bti_walk walk;
    bti_shape_without(z, UINT64_C(1) << axis, shape);
    bti_walk_start(&walk, out->rank, shape, 3, (const bti_operand *[]){out, y, z});
    bool along = walk.length == 1 || llabs(steps[2]) < llabs(walk.step[2]);
    line.out_step = along ? 0 : walk.step[0];
    line.y_step = along ? steps[1] : walk.step[1];
    line.from_step = along ? steps[2] : walk.step[2];
    line.count = along ? z->shape[axis] : walk.length;
    for (; walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < (along ? walk.length : z->shape[axis]); i++) {
            line.out = walk.at[0] + (along ? i * walk.step[0] : 0);
            line.y = walk.at[1] + i * (along ? walk.step[1] : steps[1]);
            line.from = walk.at[2] + i * (along ? walk.step[2] : steps[2]);
            loops.places(&line);
        }
    return BT_OK;
}

/* Indices of rows as indices of all their elements. */
static bti_operand repeat_indices(const bti_operand *y, const bti_operand *z, int axis) {
    bti_operand all = *y;
    all.rank = z->rank;
    memcpy(all.shape, z->shape, sizeof all.shape);
    memset(all.stride, 0, sizeof all.stride);
    all.stride[axis] = y->stride[0];
    return all;
}

/* The other way: indices of all elements as those of rows, where they repeat on all axes but the scatter's. */
static bool find_row_indices(const bti_work *work, int axis, bti_operand *rows) {
    const bti_operand *y = work->inputs + 1;
    *rows = *y;
    if (!bti_op_scatters_along(work->op)) return true;
    for (int a = 0; a < y->rank; a++)
        if (a != axis && y->shape[a] > 1 && y->stride[a] != 0) return false;
    rows->rank = 1, rows->shape[0] = y->shape[axis], rows->stride[0] = y->stride[axis];
    return true;
}

bt_status bti_cpu_scatter(const bti_work *work) {
    const bti_operand *z = work->inputs + 2, *out = &work->output;
    int axis = work->attr->axis.axis;
    int64_t width = 1;
    for (int a = axis + 1; a < out->rank; a++) width *= out->shape[a];
    if (!bti_work_is_in_place(work)) bti_cpu_copy(out, work->inputs);
    if (!bti_operand_count(z) || !bti_operand_count(out)) return BT_OK;
    bti_operand indices, rows;
    if (!find_row_indices(work, axis, &indices)) return bti_run_lines(work, scatter_places, axis, 7);
    void *scratch = NULL;
    if (width > 1 && bti_operand_is_dense_after(out, axis) && find_rows(z, axis, &rows, &scratch)) {
        scatter_rows(work, &indices, &rows, width);
        bti_free(scratch);
        return BT_OK;
    }
    bti_operand inputs[] = {work->inputs[0], repeat_indices(&indices, z, axis), *z};
    bti_work by_places = *work;
    by_places.inputs = inputs;
    return bti_run_lines(&by_places, scatter_places, axis, 7);
}

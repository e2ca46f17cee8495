#include "drivers/cpu/gather.h"

#include <string.h>

#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/ranges.h"
#include "drivers/cpu/scatter.h"
#include "reference/interp.h"
#include "reference/operand.h"

/* --- copies ------------------------------------------------------------------------------------------------------- */

static bti_operand shaped_as(const bti_operand *dense, const bti_operand *like) {
    bti_operand shaped = *dense;
    shaped.rank = like->rank;
    memcpy(shaped.shape, like->shape, sizeof shaped.shape);
    bti_operand_make_dense(&shaped);
    return shaped;
}

static bt_status run_reshape(const bti_work *work) {
    const bti_operand *to = &work->output, *from = work->inputs;
    bti_operand shaped;
    if (bti_shape_equal(to->rank, to->shape, from->rank, from->shape)) {
        bti_cpu_copy(to, from);
    } else if (bti_operand_is_dense(to)) {
        shaped = shaped_as(to, from);
        bti_cpu_copy(&shaped, from);
    } else if (bti_operand_is_dense(from)) {
        shaped = shaped_as(from, to);
        bti_cpu_copy(to, &shaped);
    } else {
        return bti_interpret(work);
    }
    return BT_OK;
}

static bt_status run_concat(const bti_work *work) {
    int axis = work->attr->axis.axis;
    int64_t from = 0;
    for (int i = 0; i < work->input_count; i++) {
        bti_operand to = bti_operand_part(&work->output, axis, from, work->inputs[i].shape[axis]);
        bti_cpu_copy(&to, &work->inputs[i]);
        from += work->inputs[i].shape[axis];
    }
    return BT_OK;
}

static bt_status run_pad(const bti_work *work) {
    const bti_operand *x = work->inputs, *value = x + 1;
    bti_operand inner = work->output, fill = work->output;
    fill.address = value->address;
    memset(fill.stride, 0, sizeof fill.stride);
    bti_cpu_copy(&work->output, &fill);
    for (int axis = 0; axis < inner.rank; axis++)
        inner = bti_operand_part(&inner, axis, work->attr->pad.before[axis], x->shape[axis]);
    bti_cpu_copy(&inner, x);
    return BT_OK;
}

static bt_status run_update(const bti_work *work) {
    const bti_operand *x = work->inputs, *index = x + 1, *update = x + 2, *out = &work->output;
    int axis = work->attr->axis.axis;
    bti_operand to = bti_operand_part_at(out, axis, index, update->shape[axis]);
    if (!bti_work_is_in_place(work)) bti_cpu_copy(out, x);
    bti_cpu_copy(&to, update);
    return BT_OK;
}

/* --- take --------------------------------------------------------------------------------------------------------- */

/* A take whose rows are contiguous in input and output. */
typedef struct row_take {
    bti_walk outer; /* of out and x: the axes before the axis of the take */
    const bti_operand *y;
    int64_t rows, choices; /* rows taken at each outer position; rows of the input */
    int64_t out_step, x_step;
    size_t run_bytes, size; /* of a row; of an element */
    uint64_t missing;       /* the element for an index out of range */
} row_take;

/* Rows of up to a line of an input that does not stay in a core's cache are fetched so many rows ahead: a load that waits for memory lets only a few of those behind it
 * begin. */
enum { LINE = 64, ROWS_AHEAD = 32, FAR_BYTES = 1 << 20 };

static inline __attribute__((always_inline)) void take_rows(const row_take *t, char *out, const char *x, int64_t begin,
                                                            int64_t end, size_t bytes) {
    const char *index = bti_address(t->y);
    int64_t index_step = bti_axis_step(t->y, 0), size = (int64_t)t->size;
    bool is_far = bytes <= LINE && t->choices * t->x_step > FAR_BYTES;
    int64_t fetched = is_far ? end - ROWS_AHEAD : begin;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = bti_index_in(t->y, index + i * index_step, t->choices);
        char *to = out + i * t->out_step;
        if (i < fetched) {
            int64_t next = bti_index_in(t->y, index + (i + ROWS_AHEAD) * index_step, t->choices);
            __builtin_prefetch(x + (next < 0 ? 0 : next) * t->x_step);
        }
        if (row >= 0)
            memcpy(to, x + row * t->x_step, bytes);
        else
            bti_copy_line(to, size, (const char *)&t->missing, 0, (int64_t)bytes / size, t->size);
    }
}

static void take_units(void *context, int64_t begin, int64_t end) {
    const row_take *t = context;
    while (begin < end) {
        int64_t position = begin / t->rows, from = begin % t->rows, to = from + (end - begin);
        char *at[2];
        if (to > t->rows) to = t->rows;
        bti_walk_at(&t->outer, position, at);
        switch (t->run_bytes) {
        case 4: take_rows(t, at[0], at[1], from, to, 4); break;
        case 8: take_rows(t, at[0], at[1], from, to, 8); break;
        default: take_rows(t, at[0], at[1], from, to, t->run_bytes); break;
        }
        begin += to - from;
    }
}

static bt_status run_take(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *out = &work->output;
    int axis = work->attr->axis.axis;
    if (!bti_operand_is_dense_after(x, axis) || !bti_operand_is_dense_after(out, axis)) {
        return bti_run_ranges(&(bti_ranges){.work = work, .run = bti_interpret, .axis = {-1, 0, -1, axis}});
    }
    row_take t = {.y = y,
                  .rows = y->shape[0],
                  .choices = x->shape[axis],
                  .out_step = bti_axis_step(out, axis),
                  .x_step = bti_axis_step(x, axis),
                  .size = bt_dtype_size(x->dtype),
                  .missing = bti_missing(x->dtype)};
    t.run_bytes = t.size;
    for (int a = axis + 1; a < out->rank; a++) t.run_bytes *= (size_t)out->shape[a];
    bti_walk_start(&t.outer, axis, out->shape, 2, (const bti_operand *[]){out, x});
    int64_t units = t.rows * bti_walk_positions(&t.outer);
    if (t.run_bytes) bti_parallel(units, bti_copy_grain((int64_t)t.run_bytes), take_units, &t);
    return BT_OK;
}

bt_status bti_cpu_gather(const bti_work *work) {
    for (int axis = 0; axis < work->output.rank; axis++)
        if (work->output.shape[axis] == 0) return BT_OK;
    int axis = work->attr ? bti_attr_axis(work->op, work->attr) : 0;
    switch (work->op) {
    case BTI_OP_reshape:
    case BTI_OP_copy: return run_reshape(work);
    case BTI_OP_concat: return run_concat(work);
    case BTI_OP_pad: return run_pad(work);
    case BTI_OP_update_slice: return run_update(work);
    case BTI_OP_take: return run_take(work);
    case BTI_OP_cumsum:
    case BTI_OP_cumprod:
    case BTI_OP_cummax:
    case BTI_OP_cummin: return bti_run_lines(work, bti_interpret, axis, 1);
    case BTI_OP_gather_axis: return bti_run_lines(work, bti_interpret, axis, 3);
    case BTI_OP_scatter_add:
    case BTI_OP_scatter_axis:
    case BTI_OP_scatter_set:
    case BTI_OP_scatter_max:
    case BTI_OP_scatter_min: return bti_cpu_scatter(work);
    default: return bti_interpret(work);
    }
}

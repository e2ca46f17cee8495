/* Operations that move elements by rule or by index: pad, concat, take, scatters. */
#include "base/error.h"
#include "reference/classes.h"
#include "reference/operand.h"

/* One element as an operand of any shape: all strides 0. */
static bti_operand spread_element(const bti_operand *like, const void *element) {
    bti_operand s = *like;
    s.address = (uint64_t)(uintptr_t)element;
    for (int axis = 0; axis < s.rank; axis++) s.stride[axis] = 0;
    return s;
}

static void pad(const bti_work *work) {
    const bti_operand *x = work->inputs, *value = x + 1;
    bti_operand inner = work->output, fill = spread_element(&work->output, bti_address(value));
    bti_copy_operand(&work->output, &fill);
    for (int axis = 0; axis < inner.rank; axis++)
        inner = bti_operand_part(&inner, axis, work->attr->pad.before[axis], x->shape[axis]);
    bti_copy_operand(&inner, x);
}

static void concat(const bti_work *work) {
    int axis = work->attr->axis.axis;
    int64_t from = 0;
    for (int i = 0; i < work->input_count; i++) {
        const bti_operand *x = &work->inputs[i];
        bti_operand to = bti_operand_part(&work->output, axis, from, x->shape[axis]);
        bti_copy_operand(&to, x);
        from += x->shape[axis];
    }
}

static void take_rows(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *out = &work->output;
    int axis = work->attr->axis.axis;
    uint64_t nothing = bti_missing(x->dtype);
    for (int64_t i = 0; i < y->shape[0]; i++) {
        int64_t row = bti_index_in(y, bti_address(y) + i * bti_axis_step(y, 0), x->shape[axis]);
        bti_operand to = bti_operand_part(out, axis, i, 1),
                    from = row < 0 ? spread_element(&to, &nothing) : bti_operand_part(x, axis, row, 1);
        bti_copy_operand(&to, &from);
    }
}

static void add_operand(const bti_operand *to, const bti_operand *from) {
    bti_walk walk;
    for (bti_walk_start(&walk, to->rank, to->shape, 2, (const bti_operand *[]){to, from}); walk.more;
         bti_walk_next(&walk))
        bti_add_line(to->dtype, walk.at[0], walk.step[0], walk.at[1], walk.step[1], walk.length);
}

static void scatter_add(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *z = x + 2, *out = &work->output;
    int axis = work->attr->axis.axis;
    if (!bti_work_is_in_place(work)) bti_copy_operand(out, x);
    for (int64_t i = 0; i < y->shape[0]; i++) {
        int64_t row = bti_index_in(y, bti_address(y) + i * bti_axis_step(y, 0), out->shape[axis]);
        if (row < 0) continue;
        bti_operand to = bti_operand_part(out, axis, row, 1), from = bti_operand_part(z, axis, i, 1);
        add_operand(&to, &from);
    }
}

static void update_slice(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *z = x + 2, *out = &work->output;
    int axis = work->attr->axis.axis;
    bti_operand to = bti_operand_part_at(out, axis, y, z->shape[axis]);
    if (!bti_work_is_in_place(work)) bti_copy_operand(out, x);
    bti_copy_operand(&to, z);
}

static void gather_axis(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *out = &work->output;
    int axis = work->attr->axis.axis;
    uint64_t nothing = bti_missing(x->dtype);
    size_t size = bt_dtype_size(x->dtype);
    int64_t shape[BTI_MAX_RANK];
    bti_walk walk;
    bti_shape_without(out, UINT64_C(1) << axis, shape);
    for (bti_walk_start(&walk, out->rank, shape, 3, (const bti_operand *[]){out, x, y}); walk.more;
         bti_walk_next(&walk))
        for (int64_t k = 0; k < walk.length * out->shape[axis]; k++) {
            int64_t line = k / out->shape[axis], i = k % out->shape[axis];
            const char *index = walk.at[2] + line * walk.step[2] + i * bti_axis_step(y, axis);
            const char *from = walk.at[1] + line * walk.step[1];
            int64_t row = bti_index_in(y, index, x->shape[axis]);
            bti_copy_line(walk.at[0] + line * walk.step[0] + i * bti_axis_step(out, axis), 0,
                          row < 0 ? (const char *)&nothing : from + row * bti_axis_step(x, axis), 0, 1, size);
        }
}

/* What a scatter makes of an element of x and one of z. */
static void scatter_element(bti_op op, bt_dtype dtype, char *to, const char *from) {
    switch (op) {
    case BTI_OP_scatter_set: bti_copy_line(to, 0, from, 0, 1, bt_dtype_size(dtype)); break;
    case BTI_OP_scatter_max: bti_combine_line(BTI_OP_maximum, dtype, to, 0, from, 0, 1); break;
    case BTI_OP_scatter_min: bti_combine_line(BTI_OP_minimum, dtype, to, 0, from, 0, 1); break;
    default: bti_add_line(dtype, to, 0, from, 0, 1); break;
    }
}

static void scatter_axis(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *z = x + 2, *out = &work->output;
    int axis = work->attr->axis.axis;
    int64_t shape[BTI_MAX_RANK], count = y->shape[axis];
    bti_walk walk;
    if (!bti_work_is_in_place(work)) bti_copy_operand(out, x);
    bti_shape_without(y, UINT64_C(1) << axis, shape);
    for (bti_walk_start(&walk, out->rank, shape, 3, (const bti_operand *[]){out, y, z}); walk.more;
         bti_walk_next(&walk))
        for (int64_t k = 0; k < walk.length * count; k++) {
            int64_t line = k / count, i = k % count;
            const char *index = walk.at[1] + line * walk.step[1] + i * bti_axis_step(y, axis);
            int64_t row = bti_index_in(y, index, out->shape[axis]);
            if (row < 0) continue;
            scatter_element(work->op, out->dtype, walk.at[0] + line * walk.step[0] + row * bti_axis_step(out, axis),
                            walk.at[2] + line * walk.step[2] + i * bti_axis_step(z, axis));
        }
}

void bti_interpret_gather(const bti_work *work) {
    switch (work->op) {
    case BTI_OP_pad: pad(work); break;
    case BTI_OP_concat: concat(work); break;
    case BTI_OP_take: take_rows(work); break;
    case BTI_OP_scatter_add: scatter_add(work); break;
    case BTI_OP_update_slice: update_slice(work); break;
    case BTI_OP_gather_axis: gather_axis(work); break;
    default: scatter_axis(work); break;
    }
}

/* Operations that move elements by rule or by index: pad, concat, take, scatters, and argsort. */
#include "base/alloc.h"
#include "base/error.h"
#include "ir/half.h"
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
    bti_copy_operand(out, x);
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
    bti_copy_operand(out, x);
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

static void scatter_axis(const bti_work *work) {
    const bti_operand *x = work->inputs, *y = x + 1, *z = x + 2, *out = &work->output;
    int axis = work->attr->axis.axis;
    int64_t shape[BTI_MAX_RANK], count = y->shape[axis];
    bti_walk walk;
    bti_copy_operand(out, x);
    bti_shape_without(y, UINT64_C(1) << axis, shape);
    for (bti_walk_start(&walk, out->rank, shape, 3, (const bti_operand *[]){out, y, z}); walk.more;
         bti_walk_next(&walk))
        for (int64_t k = 0; k < walk.length * count; k++) {
            int64_t line = k / count, i = k % count;
            const char *index = walk.at[1] + line * walk.step[1] + i * bti_axis_step(y, axis);
            int64_t row = bti_index_in(y, index, out->shape[axis]);
            if (row < 0) continue;
            bti_add_line(out->dtype, walk.at[0] + line * walk.step[0] + row * bti_axis_step(out, axis), 0,
                         walk.at[2] + line * walk.step[2] + i * bti_axis_step(z, axis), 0, 1);
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

/* --- argsort ------------------------------------------------------------------------------------------------------- */

#define SIGN (UINT64_C(1) << 63)

/* Keys are unsigned numbers in the order of the elements: NaN is the last, -0 equals 0. */
static uint64_t key_of_float(double x) {
    if (x != x) return UINT64_MAX;
    uint64_t bits = bti_f64_bits(x == 0 ? 0 : x);
    return bits & SIGN ? ~bits : bits | SIGN;
}

static void make_sort_keys(uint64_t *keys, bt_dtype dtype, const char *at, int64_t step, int64_t length) {
    bti_lane lane = bti_lane_of(dtype);
    for (int64_t start = 0; start < length; start += BTI_BLOCK) {
        bti_lane_block block;
        int n = bti_lane_block_count(length - start);
        const void *xs = bti_lane_block_read(&block, dtype, at + start * step, step, n);
        for (int i = 0; i < n; i++)
            keys[start + i] = lane == BTI_LANE_F32    ? key_of_float(((const float *)xs)[i])
                              : lane == BTI_LANE_F64  ? key_of_float(((const double *)xs)[i])
                              : lane == BTI_LANE_BOOL ? ((const uint8_t *)xs)[i]
                              : lane == BTI_LANE_I64  ? (uint64_t)((const int64_t *)xs)[i] ^ SIGN
                                                      : ((const uint64_t *)xs)[i];
    }
}

/* Two sorted runs, [a, middle) and [middle, end) of `from`, into `to`; of equals, the first run's go first. */
static void merge_runs(const uint64_t *keys, const int32_t *from, int32_t *to, int64_t a, int64_t middle, int64_t end) {
    int64_t b = middle;
    for (int64_t i = a; i < end; i++)
        to[i] = a < middle && (b == end || keys[from[a]] <= keys[from[b]]) ? from[a++] : from[b++];
}

/* Sorts by merging longer and longer runs between the two arrays; returns the one that holds the order. */
static int32_t *sort_keys(const uint64_t *keys, int32_t *order, int32_t *spare, int64_t length) {
    for (int64_t i = 0; i < length; i++) order[i] = (int32_t)i;
    for (int64_t run = 1; run < length; run *= 2) {
        for (int64_t a = 0; a < length; a += 2 * run) {
            int64_t middle = a + run < length ? a + run : length, end = middle + run < length ? middle + run : length;
            merge_runs(keys, order, spare, a, middle, end);
        }
        int32_t *sorted = spare;
        spare = order;
        order = sorted;
    }
    return order;
}

bt_status bti_interpret_argsort(const bti_work *work) {
    const bti_operand *in = work->inputs, *out = &work->output;
    int axis = work->attr->axis.axis;
    int64_t shape[BTI_MAX_RANK], length = in->shape[axis];
    bti_walk walk;
    bti_shape_without(in, UINT64_C(1) << axis, shape);
    if (length == 0) return BT_OK;
    size_t bytes;
    uint64_t *keys = bti_mul_size((size_t)length, 16, &bytes) ? bti_alloc(bytes) : NULL;
    if (!keys) return bti_no_memory();
    int32_t *order = (int32_t *)(keys + length), *spare = order + length;
    for (bti_walk_start(&walk, in->rank, shape, 2, (const bti_operand *[]){out, in}); walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < walk.length; i++) {
            make_sort_keys(keys, in->dtype, walk.at[1] + i * walk.step[1], bti_axis_step(in, axis), length);
            bti_copy_line(walk.at[0] + i * walk.step[0], bti_axis_step(out, axis),
                          (const char *)sort_keys(keys, order, spare, length), sizeof *order, length, sizeof *order);
        }
    bti_free(keys);
    return BT_OK;
}

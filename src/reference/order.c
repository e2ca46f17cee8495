/* Sorts and selections: lines are put in order by merging, and as many of each as are wanted are written. */
#include "base/alloc.h"
#include "ir/dtype.h"
#include "ir/half.h"
#include "reference/classes.h"
#include "reference/operand.h"

#define SIGN (UINT64_C(1) << 63)

/* Keys are unsigned numbers in the order of the elements: NaN is the last, -0 equals 0. */
static uint64_t key_of_float(double x) {
    if (x != x) return UINT64_MAX;
    uint64_t bits = bti_f64_bits(x == 0 ? 0 : x);
    return bits & SIGN ? ~bits : bits | SIGN;
}

/* `flip`: of all keys, for a descending order. */
static void make_sort_keys(uint64_t *keys, bt_dtype dtype, const char *at, int64_t step, int64_t length,
                           uint64_t flip) {
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
        for (int i = 0; i < n; i++) keys[start + i] ^= flip;
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

/* The first elements of a line in its order. */
static void write_values(const bti_operand *out, char *to, const bti_operand *in, const char *from, int axis,
                         const int32_t *order) {
    size_t size = bt_dtype_size(in->dtype);
    for (int64_t i = 0; i < out->shape[axis]; i++)
        memcpy(to + i * bti_axis_step(out, axis), from + order[i] * bti_axis_step(in, axis), size);
}

bt_status bti_interpret_order(const bti_work *work) {
    const bti_operand *in = work->inputs, *values = &work->output, *indices = work->others;
    int axis = bti_attr_axis(work->op, work->attr);
    bool reads_values = bti_operand_count(values) > 0, reads_indices = bti_operand_count(indices) > 0;
    int64_t shape[BTI_MAX_RANK], length = in->shape[axis];
    uint64_t flip = work->op == BTI_OP_top_k ? UINT64_MAX : 0;
    bti_walk walk;
    bti_shape_without(in, UINT64_C(1) << axis, shape);
    if (length == 0 || (!reads_values && !reads_indices)) return BT_OK;
    size_t bytes;
    uint64_t *keys = bti_mul_size((size_t)length, 16, &bytes) ? bti_alloc(bytes) : NULL;
    if (!keys) return bti_no_memory();
    int32_t *first = (int32_t *)(keys + length), *spare = first + length;
    const bti_operand *walked[] = {reads_values ? values : in, reads_indices ? indices : in, in};
    for (bti_walk_start(&walk, in->rank, shape, 3, walked); walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < walk.length; i++) {
            char *at[3];
            for (int o = 0; o < 3; o++) at[o] = walk.at[o] + i * walk.step[o];
            make_sort_keys(keys, in->dtype, at[2], bti_axis_step(in, axis), length, flip);
            const int32_t *order = sort_keys(keys, first, spare, length);
            if (reads_values) write_values(values, at[0], in, at[2], axis, order);
            if (reads_indices)
                bti_copy_line(at[1], bti_axis_step(indices, axis), (const char *)order, sizeof *order,
                              indices->shape[axis], sizeof *order);
        }
    bti_free(keys);
    return BT_OK;
}

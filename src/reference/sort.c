#include "base/alloc.h"
#include "base/error.h"
#include "ir/half.h"
#include "reference/interp_parts.h"

#define SIGN (UINT64_C(1) << 63)

/* Keys order as the elements do, as unsigned numbers: NaN last, -0 equal to 0. */
static uint64_t key_of_float(double x) {
    if (x != x) return UINT64_MAX;
    uint64_t bits = bti_f64_bits(x == 0 ? 0 : x);
    return bits & SIGN ? ~bits : bits | SIGN;
}

static void make_keys(uint64_t *keys, bt_dtype dtype, const char *at, int64_t step, int64_t length) {
    bti_lane lane = bti_lane_of(dtype);
    for (int64_t start = 0; start < length; start += BTI_BLOCK) {
        bti_block block;
        int n = bti_block_count(length - start);
        const void *xs = bti_block_read(&block, dtype, at + start * step, step, n);
        for (int i = 0; i < n; i++)
            keys[start + i] = lane == BTI_LANE_F32    ? key_of_float(((const float *)xs)[i])
                              : lane == BTI_LANE_F64  ? key_of_float(((const double *)xs)[i])
                              : lane == BTI_LANE_BOOL ? ((const uint8_t *)xs)[i]
                              : lane == BTI_LANE_I64  ? (uint64_t)((const int64_t *)xs)[i] ^ SIGN
                                                      : ((const uint64_t *)xs)[i];
    }
}

/* Two sorted runs, [a, middle) and [middle, end) of `from`, into `to`; of equals, the first run's go first. */
static void merge(const uint64_t *keys, const int32_t *from, int32_t *to, int64_t a, int64_t middle, int64_t end) {
    int64_t b = middle;
    for (int64_t i = a; i < end; i++)
        to[i] = a < middle && (b == end || keys[from[a]] <= keys[from[b]]) ? from[a++] : from[b++];
}

/* Sorts by merging ever longer runs to and fro; returns which of the two holds the order. */
static int32_t *sort(const uint64_t *keys, int32_t *order, int32_t *spare, int64_t length) {
    for (int64_t i = 0; i < length; i++) order[i] = (int32_t)i;
    for (int64_t run = 1; run < length; run *= 2) {
        for (int64_t a = 0; a < length; a += 2 * run) {
            int64_t middle = a + run < length ? a + run : length, end = middle + run < length ? middle + run : length;
            merge(keys, order, spare, a, middle, end);
        }
        int32_t *sorted = spare;
        spare = order;
        order = sorted;
    }
    return order;
}

bt_status bti_interpret_argsort(const bti_work *work) {
    const bti_operand *in = work->inputs, *out = &work->output;
    int axis = (int)work->attr[0];
    int64_t shape[BTI_MAX_RANK], length = in->shape[axis];
    bti_walk walk;
    bti_shape_without(in, UINT64_C(1) << axis, shape);
    if (length == 0) return BT_OK;
    size_t bytes;
    uint64_t *keys = bti_mul_size((size_t)length, 16, &bytes) ? bti_alloc(bytes) : NULL;
    if (!keys) return bti_fail(BT_RESOURCE_EXHAUSTED, "no memory to sort %lld elements", (long long)length);
    int32_t *order = (int32_t *)(keys + length), *spare = order + length;
    for (bti_walk_start(&walk, in->rank, shape, 2, (const bti_operand *[]){out, in}); walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < walk.length; i++) {
            make_keys(keys, in->dtype, walk.at[1] + i * walk.step[1], bti_step(in, axis), length);
            bti_copy_line(walk.at[0] + i * walk.step[0], bti_step(out, axis),
                          (const char *)sort(keys, order, spare, length), sizeof *order, length, sizeof *order);
        }
    bti_free(keys);
    return BT_OK;
}

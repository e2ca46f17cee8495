#include "reference/interp.h"

#include "base/error.h"
#include "ir/dtype.h"
#include "reference/interp_parts.h"

/* A number in the output's one element: an int64, a uint64 or a double's bits, by its dtype. */
static void write_number(const bti_operand *out, int64_t bits) {
    bti_lane lane = bti_dtype_is_float(out->dtype) ? BTI_LANE_F64 : bti_lane_of(out->dtype);
    bti_block_write(lane == BTI_LANE_BOOL ? BTI_LANE_I64 : lane, &bits, out->dtype, bti_address(out), 0, 1);
}

static void iota(const bti_operand *out) {
    int64_t step = bti_step(out, 0);
    for (int64_t i = 0; i < out->shape[0]; i += BTI_BLOCK) {
        bti_block block;
        int n = bti_block_count(out->shape[0] - i);
        for (int k = 0; k < n; k++) block.i64[k] = i + k;
        bti_block_write(BTI_LANE_I64, &block, out->dtype, bti_address(out) + i * step, step, n);
    }
}

static bt_status source(const bti_work *work) {
    switch (work->op) {
    case BTI_OP_const: write_number(&work->output, work->attr[0]); break;
    case BTI_OP_size:
        bti_block_write(BTI_LANE_I64, work->attr, work->output.dtype, bti_address(&work->output), 0, 1);
        break;
    case BTI_OP_iota: iota(&work->output); break;
    default: return bti_fail(BT_INTERNAL, "%s is given, not computed", bti_op_info(work->op)->name);
    }
    return BT_OK;
}

/* The elements of one shape into another's of as many, both in row-major order. */
static void reshape(const bti_operand *out, const bti_operand *in) {
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

bt_status bti_interpret(const bti_work *work) {
    switch (bti_op_info(work->op)->class) {
    case BTI_SOURCE: return source(work);
    case BTI_ELEMENTWISE: return bti_interpret_elementwise(work);
    case BTI_REDUCE:
        if (work->op == BTI_OP_argmax || work->op == BTI_OP_argmin)
            bti_interpret_argreduce(work);
        else
            bti_interpret_reduce(work);
        return BT_OK;
    case BTI_SCAN: bti_interpret_cumsum(work); return BT_OK;
    case BTI_GATHER:
        if (work->op == BTI_OP_argsort) return bti_interpret_argsort(work);
        bti_interpret_gather(work);
        return BT_OK;
    case BTI_HEAVY: bti_interpret_matmul(work); return BT_OK;
    case BTI_MOVEMENT:
    case BTI_EFFECT: reshape(&work->output, work->inputs); return BT_OK;
    }
    return bti_fail(BT_INTERNAL, "operation %d is not one", (int)work->op);
}

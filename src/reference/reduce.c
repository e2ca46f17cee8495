#include <math.h>

#include "ir/dtype.h"
#include "reference/classes.h"
#include "reference/operand.h"

/* Accumulators are wider than the elements: float16 to float32 in double, float64 in long double; integers wrap in 64
 * bits; max and min stay in the lane's type. Elements are folded in row-major order whatever the strides: same bits. */
typedef union fold_totals {
    double f64[BTI_BLOCK];
    long double wide[BTI_BLOCK];
    bti_lane_block lane;
} fold_totals;

/* Folds a block: as rows, element i into total i; else all of it into total 0. */
typedef void fold_function(void *total, bool rows, const void *xs, int count);

#define FOLD(name, type, total_type, expression)                                            \
    static void name(void *restrict total, bool rows, const void *restrict xs, int count) { \
        total_type *totals = total, a = totals[0];                                          \
        for (int i = 0; rows && i < count; i++) {                                           \
            type x = ((const type *)xs)[i];                                                 \
            a = totals[i];                                                                  \
            totals[i] = expression;                                                         \
        }                                                                                   \
        for (int i = 0; !rows && i < count; i++) {                                          \
            type x = ((const type *)xs)[i];                                                 \
            a = expression;                                                                 \
        }                                                                                   \
        if (!rows) totals[0] = a;                                                           \
    }

/* clang-format off */
FOLD(sum_f32, float, double, a + x)
FOLD(sum_f64, double, long double, a + x)
FOLD(sum_whole, uint64_t, uint64_t, a + x)
FOLD(prod_f32, float, double, a * x)
FOLD(prod_f64, double, long double, a * x)
FOLD(prod_whole, uint64_t, uint64_t, a * x)
FOLD(max_f32, float, float, x > a || x != x ? x : a)
FOLD(max_f64, double, double, x > a || x != x ? x : a)
FOLD(max_i64, int64_t, int64_t, x > a ? x : a)
FOLD(max_u64, uint64_t, uint64_t, x > a ? x : a)
FOLD(max_bool, uint8_t, uint8_t, x | a)
FOLD(min_f32, float, float, x < a || x != x ? x : a)
FOLD(min_f64, double, double, x < a || x != x ? x : a)
FOLD(min_i64, int64_t, int64_t, x < a ? x : a)
FOLD(min_u64, uint64_t, uint64_t, x < a ? x : a)
FOLD(min_bool, uint8_t, uint8_t, x & a)
/* clang-format on */

static fold_function *fold_of(bti_op op, bti_lane lane) {
    static fold_function *const sums[] = {sum_f32, sum_f64, sum_whole, sum_whole};
    static fold_function *const prods[] = {prod_f32, prod_f64, prod_whole, prod_whole};
    static fold_function *const maxima[] = {max_f32, max_f64, max_i64, max_u64, max_bool};
    static fold_function *const minima[] = {min_f32, min_f64, min_i64, min_u64, min_bool};
    switch (op) {
    case BTI_OP_sum: return sums[lane];
    case BTI_OP_prod: return prods[lane];
    case BTI_OP_max: return maxima[lane];
    default: return minima[lane];
    }
}

/* The start values of a fold, which are the result of a fold of nothing. */
static void fill_totals(fold_totals *totals, bti_op op, bt_dtype dtype, int count) {
    bool sums = op == BTI_OP_sum || op == BTI_OP_prod;
    int one = op == BTI_OP_prod, sign = op == BTI_OP_max ? -1 : 1, bits = bti_dtype_bits(dtype);
    uint64_t greatest = UINT64_MAX >> (64 - bits);
    for (int i = 0; i < count; i++) switch (bti_lane_of(dtype)) {
        case BTI_LANE_F32:
            if (sums)
                totals->f64[i] = one;
            else
                totals->lane.f32[i] = (float)sign * INFINITY;
            break;
        case BTI_LANE_F64:
            if (sums)
                totals->wide[i] = one;
            else
                totals->lane.f64[i] = sign * (double)INFINITY;
            break;
        case BTI_LANE_I64:
            totals->lane.i64[i] = sums ? one : sign < 0 ? -(int64_t)(greatest >> 1) - 1 : (int64_t)(greatest >> 1);
            break;
        case BTI_LANE_U64: totals->lane.u64[i] = sums ? (uint64_t)one : sign < 0 ? 0 : greatest; break;
        case BTI_LANE_BOOL: totals->lane.boolean[i] = sign > 0; break;
        }
}

static void write_totals(fold_totals *totals, bti_op op, bt_dtype dtype, char *at, int64_t step, int count) {
    bti_lane lane = bti_lane_of(dtype);
    bool sums = op == BTI_OP_sum || op == BTI_OP_prod;
    if (sums && lane == BTI_LANE_F64)
        for (int i = 0; i < count; i++) totals->f64[i] = (double)totals->wide[i];
    if (sums && lane == BTI_LANE_F32) lane = BTI_LANE_F64;
    bti_lane_block_write(lane, totals, dtype, at, step, count);
}

typedef struct reduction {
    bti_op op;
    bt_dtype dtype;
    fold_function *fold;
    bti_walk folded; /* over the reduced axes, one operand */
} reduction;

/* The innermost axis is reduced: one output at a time, from lines. */
static void reduce_one(reduction *r, char *out, char *in) {
    fold_totals totals;
    bti_lane_block block;
    bti_walk *walk = &r->folded;
    fill_totals(&totals, r->op, r->dtype, 1);
    for (bti_walk_restart(walk, &in); walk->more; bti_walk_next(walk))
        for (int64_t i = 0; i < walk->length; i += BTI_BLOCK) {
            int n = bti_lane_block_count(walk->length - i);
            const char *at = walk->at[0] + i * walk->step[0];
            r->fold(&totals, false, bti_lane_block_read(&block, r->dtype, at, walk->step[0], n), n);
        }
    write_totals(&totals, r->op, r->dtype, out, 0, 1);
}

/* The innermost axis is kept: a block of outputs at a time, from rows. */
static void reduce_rows(reduction *r, char *out, int64_t out_step, char *in, int64_t in_step, int count) {
    fold_totals totals;
    bti_lane_block block;
    bti_walk *walk = &r->folded;
    fill_totals(&totals, r->op, r->dtype, count);
    for (bti_walk_restart(walk, &in); walk->more; bti_walk_next(walk))
        for (int64_t i = 0; i < walk->length; i++) {
            const char *at = walk->at[0] + i * walk->step[0];
            r->fold(&totals, true, bti_lane_block_read(&block, r->dtype, at, in_step, count), count);
        }
    write_totals(&totals, r->op, r->dtype, out, out_step, count);
}

static bool innermost_goes(const bti_operand *in, uint64_t axes) {
    for (int axis = in->rank - 1; axis >= 0; axis--)
        if (in->shape[axis] != 1) return axes >> axis & 1;
    return true;
}

void bti_interpret_reduce(const bti_work *work) {
    const bti_operand *in = work->inputs, *out = &work->output;
    uint32_t axes = work->attr->fold.axes;
    reduction r = {.op = work->op, .dtype = in->dtype, .fold = fold_of(work->op, bti_lane_of(in->dtype))};
    int64_t kept[BTI_MAX_RANK], folded[BTI_MAX_RANK];
    bti_walk walk;
    bti_shape_without(in, axes, kept);
    bti_shape_without(in, ~axes, folded);
    bti_walk_start(&r.folded, in->rank, folded, 1, &in);
    bool single = innermost_goes(in, axes);
    for (bti_walk_start(&walk, in->rank, kept, 2, (const bti_operand *[]){out, in}); walk.more; bti_walk_next(&walk)) {
        int n = 1;
        for (int64_t i = 0; i < walk.length; i += n) {
            char *to = walk.at[0] + i * walk.step[0], *from = walk.at[1] + i * walk.step[1];
            if (!single) n = bti_lane_block_count(walk.length - i);
            if (single)
                reduce_one(&r, to, from);
            else
                reduce_rows(&r, to, walk.step[0], from, walk.step[1], n);
        }
    }
}

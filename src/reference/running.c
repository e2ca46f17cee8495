/* Running sums, products and extremes. Totals are wider than the elements: float16 to float32 in double, float64 in long double; integers wrap
 * in 64 bits; extremes stay in the lane's type. */
#include <string.h>

#include "ir/dtype.h"
#include "reference/classes.h"
#include "reference/operand.h"

/* A total of the type `kept`, so far of the elements before, goes on over a block; `made` is the lane that comes out. */
#define RUN(name, type, kept, made, expression)                           \
    static void name(void *total, const void *xs, void *out, int count) { \
        kept a = *(kept *)total;                                          \
        for (int i = 0; i < count; i++) {                                 \
            const type x = ((const type *)xs)[i];                         \
            a = (kept)(expression);                                       \
            ((made *)out)[i] = (made)a;                                   \
        }                                                                 \
        *(kept *)total = a;                                               \
    }
RUN(sum_f32, float, double, double, a + x)
RUN(sum_f64, double, long double, double, a + x)
RUN(sum_whole, uint64_t, uint64_t, uint64_t, a + x)
RUN(prod_f32, float, double, double, a *x)
RUN(prod_f64, double, long double, double, a *x)
RUN(prod_whole, uint64_t, uint64_t, uint64_t, a *x)
RUN(max_f32, float, float, float, a > x || a != a ? a : x)
RUN(max_f64, double, double, double, a > x || a != a ? a : x)
RUN(max_i64, int64_t, int64_t, int64_t, a > x ? a : x)
RUN(max_u64, uint64_t, uint64_t, uint64_t, a > x ? a : x)
RUN(max_bool, uint8_t, uint8_t, uint8_t, a | x)
RUN(min_f32, float, float, float, a < x || a != a ? a : x)
RUN(min_f64, double, double, double, a < x || a != a ? a : x)
RUN(min_i64, int64_t, int64_t, int64_t, a < x ? a : x)
RUN(min_u64, uint64_t, uint64_t, uint64_t, a < x ? a : x)
RUN(min_bool, uint8_t, uint8_t, uint8_t, a &x)

typedef void run_function(void *total, const void *xs, void *out, int count);
/* By lane. */
static run_function *const run_sum[] = {sum_f32, sum_f64, sum_whole, sum_whole},
                           *const run_prod[] = {prod_f32, prod_f64, prod_whole, prod_whole},
                           *const run_max[] = {max_f32, max_f64, max_i64, max_u64, max_bool},
                           *const run_min[] = {min_f32, min_f64, min_i64, min_u64, min_bool};

/* One line, in order. */
typedef struct running {
    bt_dtype dtype;
    run_function *run;
    bti_lane made; /* what `run` writes */
    bti_op op;
} running;

static running running_of(bti_op op, bt_dtype dtype) {
    bti_lane lane = bti_lane_of(dtype);
    bool folds = op == BTI_OP_cumsum || op == BTI_OP_cumprod;
    run_function *const *runs = op == BTI_OP_cumsum    ? run_sum
                                : op == BTI_OP_cumprod ? run_prod
                                : op == BTI_OP_cummax  ? run_max
                                                       : run_min;
    return (running){dtype, runs[lane], folds && lane == BTI_LANE_F32 ? BTI_LANE_F64 : lane, op};
}

/* The total before the first element: for extremes that element itself, which stays what it is. */
static void start_total(const running *r, void *total, const void *first) {
    static const size_t bytes[] = {sizeof(float), sizeof(double), sizeof(int64_t), sizeof(uint64_t), sizeof(uint8_t)};
    bti_lane lane = bti_lane_of(r->dtype);
    double start = r->op == BTI_OP_cumprod;
    if (r->op == BTI_OP_cummax || r->op == BTI_OP_cummin)
        memcpy(total, first, bytes[lane]);
    else if (lane == BTI_LANE_F32)
        *(double *)total = start;
    else if (lane == BTI_LANE_F64)
        *(long double *)total = (long double)start;
    else
        *(uint64_t *)total = (uint64_t)start;
}

static void run_line(const running *r, char *out, int64_t out_step, const char *in, int64_t in_step, int64_t length) {
    bti_lane_block block, made;
    union {
        double f64;
        long double wide;
        uint64_t whole;
    } total;
    for (int64_t i = 0; i < length; i += BTI_BLOCK) {
        int n = bti_lane_block_count(length - i);
        const void *xs = bti_lane_block_read(&block, r->dtype, in + i * in_step, in_step, n);
        if (i == 0) start_total(r, &total, xs);
        r->run(&total, xs, &made, n);
        bti_lane_block_write(r->made, &made, r->dtype, out + i * out_step, out_step, n);
    }
}

void bti_interpret_running(const bti_work *work) {
    const bti_operand *in = work->inputs, *out = &work->output;
    int axis = work->attr->running.axis;
    int64_t shape[BTI_MAX_RANK], length = in->shape[axis], in_step = bti_axis_step(in, axis),
                                 out_step = bti_axis_step(out, axis);
    int64_t in_first = 0, out_first = 0;
    running r = running_of(work->op, in->dtype);
    if (length == 0) return;
    if (work->attr->running.reverse) { /* from the end */
        in_first = (length - 1) * in_step, out_first = (length - 1) * out_step;
        in_step = -in_step, out_step = -out_step;
    }
    bti_walk walk;
    bti_shape_without(in, UINT64_C(1) << axis, shape);
    for (bti_walk_start(&walk, in->rank, shape, 2, (const bti_operand *[]){out, in}); walk.more; bti_walk_next(&walk))
        for (int64_t i = 0; i < walk.length; i++)
            run_line(&r, walk.at[0] + i * walk.step[0] + out_first, out_step, walk.at[1] + i * walk.step[1] + in_first,
                     in_step, length);
}

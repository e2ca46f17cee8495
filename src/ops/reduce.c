/* Reductions over axes and running ones, and what undoes them: broadcasts. The gradient of each is the other. */
#include <math.h>

#include "ops/complex.h"
#include "ops/gradient.h"

/* Reduces the axes and drops them unless they are to stay. */
static bt_array *reduce_axes(bti_op op, bt_array *x, uint32_t mask, bool keepdims) {
    if (mask) x = bti_reduce(op, x, mask);
    return keepdims ? x : bti_drop_axes(x, mask);
}

/* The axes of a public call as `mask`, or its poison. */
#define MASK(x, axes) \
    BTI_NEED(x);      \
    uint32_t mask;    \
    bt_array *poison; \
    if (!bti_axes_mask(x, axes, &mask, &poison)) BTI_RETURN(poison)

static bt_dtype sum_dtype(bt_dtype dtype) {
    if (bti_dtype_has_gradient(dtype)) return dtype;
    return bti_dtype_is_signed(dtype) || dtype == BT_BOOL ? BT_I64 : BT_U64;
}

#define SUM(name, op)                                                                      \
    bt_array *bt_##name(bt_array *x, bt_axes axes, bool keepdims) {                        \
        BTI_PUBLIC("bt_" #name);                                                           \
        MASK(x, axes);                                                                     \
        BTI_RETURN(reduce_axes(op, bti_cast(x, sum_dtype(bti_dtype(x))), mask, keepdims)); \
    }                                                                                      \
    bt_array *bt_##name##_as(bt_array *x, bt_axes axes, bool keepdims, bt_dtype dtype) {   \
        BTI_PUBLIC("bt_" #name "_as");                                                     \
        MASK(x, axes);                                                                     \
        if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);                           \
        BTI_RETURN(reduce_axes(op, bti_cast(x, dtype), mask, keepdims));                   \
    }

SUM(sum, BTI_OP_sum)
SUM(prod, BTI_OP_prod)

static bt_axes axes_of(int64_t mask) {
    bt_axes axes = {0};
    for (int i = 0; i < BT_MAX_RANK; i++)
        if (mask >> i & 1) axes.axis[axes.count++] = i;
    if (!mask) axes.count = BTI_NO_AXES;
    return axes;
}

void bti_gradient_sum(bti_backward *b) { b->gx[0] = bt_broadcast_shape(b->g, bt_shape_of(b->x[0])); }

/* x moved `by` places along the axis, ones moving in; a negative `by` moves it toward the beginning. */
static bt_array *shift_along(bt_array *x, int axis, int64_t by) {
    int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0}, size = bt_size(x, axis);
    low[axis] = by > 0 ? by : 0;
    high[axis] = by < 0 ? -by : 0;
    return bt_pad(bt_slice_axis(x, axis, high[axis], size - low[axis], 1), low, high, 1);
}

/* Of each element, the product of the others of its row, without a division: zeros may be among them. */
static bt_array *product_of_others(bt_array *x, int axis) {
    int64_t size = bt_size(x, axis);
    if (size < 1) return size ? bt_div(bt_prod(x, axes_of(1 << axis), true), x) : x;
    bt_array *before = shift_along(x, axis, 1), *after = shift_along(x, axis, -1);
    for (int64_t by = 1; by < size; by *= 2) {
        before = bt_mul(before, shift_along(before, axis, by));
        after = bt_mul(after, shift_along(after, axis, -by));
    }
    return bt_mul(before, after);
}

/* Axis by axis: the gradient of the product over the other axes, times the others along this one. */
static bt_array *product_gradient(bt_array *g, bt_array *x, int64_t mask) {
    if (!mask) return g;
    int axis = __builtin_ctzll((unsigned long long)mask);
    bt_array *inner = bt_prod(x, axes_of(1 << axis), true);
    return bt_mul(product_gradient(g, inner, mask & (mask - 1)), product_of_others(x, axis));
}

void bti_gradient_prod(bti_backward *b) { b->gx[0] = product_gradient(b->g, b->x[0], b->attr->fold.axes); }

bt_array *bti_mean(bt_array *x, uint32_t mask) {
    if (!mask) return x;
    bt_array *count = bti_size_scalar(bti_size_of_axes(x, mask), bti_dtype_of_part(bti_dtype(x)));
    return bti_binary(BTI_OP_div, bti_reduce(BTI_OP_sum, x, mask), count);
}

bt_array *bt_mean(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_mean");
    MASK(x, axes);
    x = bti_inexact(x);
    bt_array *mean = bti_narrow(bti_mean(bti_widen(x), mask), bti_dtype(x));
    BTI_RETURN(keepdims ? mean : bti_drop_axes(mean, mask));
}

#define CHOICE(name, op)                                            \
    bt_array *bt_##name(bt_array *x, bt_axes axes, bool keepdims) { \
        BTI_PUBLIC("bt_" #name);                                    \
        MASK(x, axes);                                              \
        BTI_RETURN(reduce_axes(op, x, mask, keepdims));             \
    }

CHOICE(max, BTI_OP_max)
CHOICE(min, BTI_OP_min)

/* All that equal the greatest (or least) share alike. */
void bti_gradient_max(bti_backward *b) {
    bt_array *hit = bt_cast(bt_eq(b->x[0], b->y), bt_dtype_of(b->g));
    b->gx[0] = bt_div(bt_mul(b->g, hit), bt_sum(hit, axes_of(b->attr->fold.axes), true));
}
void bti_gradient_min(bti_backward *b) { bti_gradient_max(b); }

/* The least index among the elements that equal the greatest (or least) one; where that is NaN, among those that are NaN. bt_max of the same
 * axis is the same node, and both are one kernel. */
bt_array *bti_index_of(bti_op op, bt_array *x, int axis) {
    bt_array *best = bti_reduce(op, x, UINT32_C(1) << axis), *hit = bti_binary(BTI_OP_eq, x, best);
    if (bti_array_error(best)) return best;
    if (bti_dtype_is_float(bti_dtype(x))) hit = bti_binary(BTI_OP_or, hit, bti_binary(BTI_OP_ne, x, x));
    int64_t along[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) along[i] = i == axis ? bti_shape(x)[i] : 1;
    bt_array *index = bti_iota(bti_shape(x)[axis], BT_I32);
    if (bti_array_error(index)) return index;
    index = bti_where(hit, bti_reshape(index, bti_rank(x), along), bti_scalar(INT32_MAX, BT_I32));
    return reduce_axes(BTI_OP_min, index, UINT32_C(1) << axis, false);
}

#define INDEX_OF(name, op)                                          \
    bt_array *bt_##name(bt_array *x, int axis) {                    \
        BTI_PUBLIC("bt_" #name);                                    \
        BTI_NEED(x);                                                \
        bt_array *poison;                                           \
        if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison); \
        BTI_RETURN(bti_index_of(op, x, axis));                      \
    }

INDEX_OF(argmax, BTI_OP_max)
INDEX_OF(argmin, BTI_OP_min)

/* Of bool, the least is "all" and the greatest "any"; of nothing, true and false. */
#define TRUTH(name, op)                                                         \
    bt_array *bt_##name(bt_array *x, bt_axes axes, bool keepdims) {             \
        BTI_PUBLIC("bt_" #name);                                                \
        MASK(x, axes);                                                          \
        bt_array *result = bti_reduce_or_start(op, bti_cast(x, BT_BOOL), mask); \
        BTI_RETURN(keepdims ? result : bti_drop_axes(result, mask));            \
    }

TRUTH(all, BTI_OP_min)
TRUTH(any, BTI_OP_max)

bt_array *bt_logsumexp(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_logsumexp");
    MASK(x, axes);
    x = bti_float(x);
    bt_dtype dtype = bti_dtype(x);
    x = bti_widen(x);
    /* An infinite maximum must not meet itself: inf - inf. */
    bt_array *top = bti_reduce_or_start(BTI_OP_max, x, mask);
    bt_array *finite = bti_binary(BTI_OP_lt, bti_unary(BTI_OP_abs, top), bti_scalar_like(INFINITY, x));
    top = bti_stop(bti_where(finite, top, bti_scalar_like(0, x)));
    bt_array *sum = reduce_axes(BTI_OP_sum, bti_unary(BTI_OP_exp, bti_binary(BTI_OP_sub, x, top)), mask, true);
    bt_array *result = bti_narrow(bti_binary(BTI_OP_add, bti_unary(BTI_OP_log, sum), top), dtype);
    BTI_RETURN(keepdims ? result : bti_drop_axes(result, mask));
}

/* x**2; of complex numbers |x|**2. */
static bt_array *squares(bt_array *x) {
    if (bti_array_error(x)) return x;
    return bti_is_complex(x) ? bti_square_size(x) : bti_binary(BTI_OP_mul, x, x);
}

/* sum((x - mean)**2) / (n - ddof), the axes kept; x is a float and not small, or complex. */
static bt_array *variance(bt_array *x, uint32_t mask, int ddof) {
    bt_array *d = bti_binary(BTI_OP_sub, x, bti_mean(x, mask));
    bt_array *sum = reduce_axes(BTI_OP_sum, squares(d), mask, true);
    bt_dtype dtype = bti_dtype_of_part(bti_dtype(x));
    bt_array *count = bti_size_scalar(bti_size_of_axes(x, mask), dtype);
    if (ddof) {
        count = bti_binary(BTI_OP_sub, count, bti_scalar(ddof, dtype));
        count = bti_binary(BTI_OP_maximum, count, bti_scalar(0, dtype));
    }
    return bti_binary(BTI_OP_div, sum, count);
}

static bt_array *variance_or_root(bt_array *x, uint32_t mask, bool keepdims, int ddof, bool root) {
    x = bti_inexact(x);
    if (bti_array_error(x)) return x;
    bt_array *result = variance(bti_widen(x), mask, ddof);
    if (root) result = bti_unary(BTI_OP_sqrt, result);
    result = bti_narrow(result, bti_dtype(x));
    return keepdims ? result : bti_drop_axes(result, mask);
}

bt_array *bt_var(bt_array *x, bt_axes axes, bool keepdims, int ddof) {
    BTI_PUBLIC("bt_var");
    MASK(x, axes);
    BTI_RETURN(variance_or_root(x, mask, keepdims, ddof, false));
}

bt_array *bt_std(bt_array *x, bt_axes axes, bool keepdims, int ddof) {
    BTI_PUBLIC("bt_std");
    MASK(x, axes);
    BTI_RETURN(variance_or_root(x, mask, keepdims, ddof, true));
}

bt_array *bt_norm(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_norm");
    MASK(x, axes);
    x = bti_inexact(x);
    if (bti_array_error(x)) BTI_RETURN(x);
    bt_array *sum = reduce_axes(BTI_OP_sum, squares(bti_widen(x)), mask, keepdims);
    BTI_RETURN(bti_narrow(bti_unary(BTI_OP_sqrt, sum), bti_dtype(x)));
}

typedef struct run {
    int axis;
    bool reverse;
} run;

static bt_array *cumsum_of_part(bt_array *const *part, const void *context) {
    const run *of = context;
    return bti_cumsum(part[0], of->axis, of->reverse);
}

bt_array *bti_cumsum(bt_array *x, int axis, bool reverse) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (!poison && bti_is_complex(x)) return bti_by_parts(&x, 1, cumsum_of_part, &(run){axis, reverse});
    return poison ? poison : bti_record_by_rules(BTI_OP_cumsum, &x, 1, &(bti_attr){.running = {axis, reverse}});
}

bt_array *bt_cumsum(bt_array *x, int axis, bool reverse) {
    BTI_PUBLIC("bt_cumsum");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_cumsum(x, axis, reverse));
}

void bti_gradient_cumsum(bti_backward *b) {
    b->gx[0] = bt_cumsum(b->g, b->attr->running.axis, !b->attr->running.reverse);
}

/* --- broadcasts --------------------------------------------------------------------------------------------------- */

bt_array *bt_broadcast_shape(bt_array *x, bt_shape shape) {
    BTI_PUBLIC("bt_broadcast_to");
    BTI_NEED(x);
    bt_array *poison = bti_check_shape(bti_dtype(x), shape, false);
    if (poison) BTI_RETURN(poison);
    BTI_RETURN(bti_expand(x, shape.rank, shape.size));
}

/* An axis that is as long as `size` says, or whose elements are repeats of one: [A, N, B] -> [A, size, B]. */
static bt_array *sum_repeats(bt_array *g, int axis, int64_t size) {
    bt_shape to = bt_shape_of(g);
    int64_t before = 1, after = 1, repeats = bti_size_repeats(size, to.size[axis]);
    for (int i = 0; i < axis; i++) before = bti_size_mul(before, to.size[i]);
    for (int i = axis + 1; i < to.rank; i++) after = bti_size_mul(after, to.size[i]);
    to.size[axis] = size;
    return bt_reshape_to(bt_sum(bt_reshape(g, before, repeats, size, after), BT_AXES(1), false), to);
}

void bti_gradient_expand(bti_backward *b) {
    bt_shape from = bt_shape_of(b->x[0]), to = bt_shape_of(b->y);
    int64_t mask = 0;
    for (int i = 0; i < to.rank; i++)
        if (from.size[i] == 1 && to.size[i] != 1) mask |= 1 << i;
    bt_array *g = bt_sum(b->g, axes_of(mask), true);
    for (int i = 0; i < to.rank; i++)
        if (from.size[i] != 1 && from.size[i] != to.size[i]) g = sum_repeats(g, i, from.size[i]);
    b->gx[0] = g;
}

/* Reductions over axes. */
#include <math.h>

#include "ops/compose.h"

/* Reduces the axes and drops them unless they are to stay. */
static bt_array *reduced(bti_op op, bt_array *x, uint32_t mask, bool keepdims) {
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
    if (bti_dtype_is_float(dtype)) return dtype;
    return bti_dtype_is_signed(dtype) || dtype == BT_BOOL ? BT_I64 : BT_U64;
}

#define SUM(name, op)                                                                    \
    bt_array *bt_##name(bt_array *x, bt_axes axes, bool keepdims) {                      \
        BTI_PUBLIC("bt_" #name);                                                         \
        MASK(x, axes);                                                                   \
        BTI_RETURN(reduced(op, bti_cast(x, sum_dtype(bti_dtype(x))), mask, keepdims));   \
    }                                                                                    \
    bt_array *bt_##name##_as(bt_array *x, bt_axes axes, bool keepdims, bt_dtype dtype) { \
        BTI_PUBLIC("bt_" #name "_as");                                                   \
        MASK(x, axes);                                                                   \
        if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);                         \
        BTI_RETURN(reduced(op, bti_cast(x, dtype), mask, keepdims));                     \
    }

SUM(sum, BTI_OP_sum)
SUM(prod, BTI_OP_prod)

bt_array *bti_mean(bt_array *x, uint32_t mask) {
    if (!mask) return x;
    bt_array *count = bti_size_scalar(bti_size_of_axes(x, mask), bti_dtype(x));
    return bti_binary(BTI_OP_div, bti_reduce(BTI_OP_sum, x, mask), count);
}

bt_array *bt_mean(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_mean");
    MASK(x, axes);
    x = bti_float(x);
    bt_array *mean = bti_narrow(bti_mean(bti_widen(x), mask), bti_dtype(x));
    BTI_RETURN(keepdims ? mean : bti_drop_axes(mean, mask));
}

#define CHOICE(name, op)                                            \
    bt_array *bt_##name(bt_array *x, bt_axes axes, bool keepdims) { \
        BTI_PUBLIC("bt_" #name);                                    \
        MASK(x, axes);                                              \
        BTI_RETURN(reduced(op, x, mask, keepdims));                 \
    }

CHOICE(max, BTI_OP_max)
CHOICE(min, BTI_OP_min)

#define INDEX_OF(name, op)                                          \
    bt_array *bt_##name(bt_array *x, int axis) {                    \
        BTI_PUBLIC("bt_" #name);                                    \
        BTI_NEED(x);                                                \
        bt_array *poison;                                           \
        if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison); \
        BTI_RETURN(reduced(op, x, UINT32_C(1) << axis, false));     \
    }

INDEX_OF(argmax, BTI_OP_argmax)
INDEX_OF(argmin, BTI_OP_argmin)

bt_array *bti_reduce_or(bti_op op, bt_array *x, uint32_t mask, double nothing) {
    int64_t low[BTI_MAX_RANK] = {0}, high[BTI_MAX_RANK] = {0};
    for (int i = 0; i < bti_rank(x); i++) high[i] = mask >> i & 1 && bti_size_is_symbolic(bti_shape(x)[i]);
    return reduced(op, bti_pad(x, low, high, bti_scalar(nothing, bti_dtype(x))), mask, true);
}

/* bti_reduce, but what stands for nothing where there are no elements to choose from. The axes stay. */
static bt_array *chosen(bti_op op, bt_array *x, uint32_t mask, double nothing) {
    bool none = false;
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) {
        bool folded = mask >> i & 1;
        none |= folded && bti_shape(x)[i] == 0;
        shape[i] = folded ? 1 : bti_shape(x)[i];
    }
    if (!none) return bti_reduce_or(op, x, mask, nothing);
    return bti_expand(bti_scalar(nothing, bti_dtype(x)), bti_rank(x), shape);
}

/* Of bool, the least is "all" and the greatest "any"; of nothing, true and false. */
#define TRUTH(name, op, nothing)                                            \
    bt_array *bt_##name(bt_array *x, bt_axes axes, bool keepdims) {         \
        BTI_PUBLIC("bt_" #name);                                            \
        MASK(x, axes);                                                      \
        bt_array *result = chosen(op, bti_cast(x, BT_BOOL), mask, nothing); \
        BTI_RETURN(keepdims ? result : bti_drop_axes(result, mask));        \
    }

TRUTH(all, BTI_OP_min, true)
TRUTH(any, BTI_OP_max, false)

bt_array *bt_logsumexp(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_logsumexp");
    MASK(x, axes);
    x = bti_float(x);
    bt_dtype dtype = bti_dtype(x);
    x = bti_widen(x);
    /* An infinite maximum must not meet itself: inf - inf. */
    bt_array *top = chosen(BTI_OP_max, x, mask, -INFINITY);
    bt_array *finite = bti_binary(BTI_OP_lt, bti_unary(BTI_OP_abs, top), bti_scalar_like(INFINITY, x));
    top = bti_stop(bti_where(finite, top, bti_scalar_like(0, x)));
    bt_array *sum = reduced(BTI_OP_sum, bti_unary(BTI_OP_exp, bti_binary(BTI_OP_sub, x, top)), mask, true);
    bt_array *result = bti_narrow(bti_binary(BTI_OP_add, bti_unary(BTI_OP_log, sum), top), dtype);
    BTI_RETURN(keepdims ? result : bti_drop_axes(result, mask));
}

/* sum((x - mean)**2) / (n - ddof), the axes kept; x is a float and not small. */
static bt_array *variance(bt_array *x, uint32_t mask, int ddof) {
    bt_array *d = bti_binary(BTI_OP_sub, x, bti_mean(x, mask));
    bt_array *sum = reduced(BTI_OP_sum, bti_binary(BTI_OP_mul, d, d), mask, true);
    bt_array *count = bti_size_scalar(bti_size_of_axes(x, mask), bti_dtype(x));
    if (ddof) {
        count = bti_binary(BTI_OP_sub, count, bti_scalar(ddof, bti_dtype(x)));
        count = bti_binary(BTI_OP_maximum, count, bti_scalar(0, bti_dtype(x)));
    }
    return bti_binary(BTI_OP_div, sum, count);
}

static bt_array *spread(bt_array *x, uint32_t mask, bool keepdims, int ddof, bool root) {
    x = bti_float(x);
    bt_array *result = variance(bti_widen(x), mask, ddof);
    if (root) result = bti_unary(BTI_OP_sqrt, result);
    result = bti_narrow(result, bti_dtype(x));
    return keepdims ? result : bti_drop_axes(result, mask);
}

bt_array *bt_var(bt_array *x, bt_axes axes, bool keepdims, int ddof) {
    BTI_PUBLIC("bt_var");
    MASK(x, axes);
    BTI_RETURN(spread(x, mask, keepdims, ddof, false));
}

bt_array *bt_std(bt_array *x, bt_axes axes, bool keepdims, int ddof) {
    BTI_PUBLIC("bt_std");
    MASK(x, axes);
    BTI_RETURN(spread(x, mask, keepdims, ddof, true));
}

bt_array *bt_norm(bt_array *x, bt_axes axes, bool keepdims) {
    BTI_PUBLIC("bt_norm");
    MASK(x, axes);
    x = bti_float(x);
    bt_array *wide = bti_widen(x), *sum = reduced(BTI_OP_sum, bti_binary(BTI_OP_mul, wide, wide), mask, keepdims);
    BTI_RETURN(bti_narrow(bti_unary(BTI_OP_sqrt, sum), bti_dtype(x)));
}

bt_array *bt_cumsum(bt_array *x, int axis, bool reverse) {
    BTI_PUBLIC("bt_cumsum");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_axis(x, axis, &axis, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_cumsum(x, axis, reverse));
}

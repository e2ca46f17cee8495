/* Pooling: sums and maxima of slices, one for each element of the window, along one axis after the other; so gradients come by themselves. */
#include <math.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "ops/primitive.h"

enum { AXES = 3 }; /* of places, at most, behind images and channels */

typedef struct pool {
    int axes;
    int64_t window[AXES], stride[AXES], dilation[AXES], low[AXES], high[AXES];
    bool exclude_pads;
} pool;

static bt_array *refuse_axis(const bt_array *x, int axis, const pool *p, const char *why) {
    int i = axis - 2;
    return bti_poisonf(BT_INVALID_ARGUMENT, "window %lld by stride %lld on axis %d of shape %s; %s",
                       (long long)p->window[i], (long long)p->stride[i], axis, bti_shape_string(x).text, why);
}

/* The window's length along an axis, with what a dilation leaves out; false: too great. */
static bool span_of(const pool *p, int i, int64_t *span) {
    return !__builtin_mul_overflow(p->window[i] - 1, p->dilation[i], span) && !__builtin_add_overflow(*span, 1, span);
}

static bool axis_fits(const bt_array *x, const pool *p, int i, bt_array **poison) {
    int64_t size = bti_shape(x)[2 + i], padded, span;
    const char *why = NULL;
    if (bti_size_is_symbolic(size)) {
        *poison = bti_poisonf(BT_UNIMPLEMENTED, "axis %d of shape %s has no known size here", 2 + i,
                              bti_shape_string(x).text);
        return false;
    }
    if (p->window[i] < 1 || p->stride[i] < 1 || p->dilation[i] < 1)
        why = "the window, the stride and the dilation must be 1 or more";
    else if (p->low[i] < 0 || p->high[i] < 0 || p->low[i] >= p->window[i] || p->high[i] >= p->window[i])
        why = "pads must be 0 or more, and less than the window";
    else if (p->window[i] > BTI_FARTHEST || __builtin_add_overflow(size, p->low[i] + p->high[i], &padded) ||
             !span_of(p, i, &span) || span > padded)
        why = "the window must be no larger than the axis with its pads";
    if (why) *poison = refuse_axis(x, 2 + i, p, why);
    return !why;
}

static bool pool_fits(const bt_array *x, const pool *p, bt_array **poison) {
    if (p->axes < 1 || p->axes > AXES) {
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "x has shape %s; it needs three to five axes, [N, C, ...]",
                              bti_shape_string(x).text);
        return false;
    }
    for (int i = 0; i < p->axes; i++)
        if (!axis_fits(x, p, i, poison)) return false;
    return true;
}

/* Windows along one axis, which has its pads. Elements of the window that meet nothing but pads add nothing. */
static bt_array *pool_axis(bti_op op, bt_array *x, const pool *p, int i) {
    int64_t by = p->dilation[i], span = (p->window[i] - 1) * by + 1, padded = bti_shape(x)[2 + i];
    int64_t count = (padded - span) / p->stride[i] + 1, reach = (count - 1) * p->stride[i];
    int64_t first = p->low[i] > reach ? (p->low[i] - reach + by - 1) / by : 0,
            end = (padded - p->high[i] - 1) / by + 1 < p->window[i] ? (padded - p->high[i] - 1) / by + 1 : p->window[i];
    if (first >= end) first = 0, end = 1;
    bt_array *result = NULL;
    for (int64_t k = first; k < end; k++) {
        bt_array *part = bti_slice_part(x, 2 + i, k * by, p->stride[i], count);
        if (bti_array_error(part)) return part;
        result = result ? bti_binary(op, result, part) : part;
    }
    return result;
}

/* What lies beside x is `beside`. */
static bt_array *pool_windows(bti_op op, bt_array *x, const pool *p, double beside) {
    int64_t low[2 + AXES] = {0}, high[2 + AXES] = {0};
    for (int i = 0; i < p->axes; i++) low[2 + i] = p->low[i], high[2 + i] = p->high[i];
    x = bti_pad(x, low, high, bti_scalar_cast(beside, bti_dtype(x)));
    for (int i = 0; i < p->axes && !bti_array_error(x); i++) x = pool_axis(op, x, p, i);
    return x;
}

static bt_array *pool_max(bt_array *x, const pool *p) { return pool_windows(BTI_OP_maximum, x, p, -INFINITY); }

/* How many elements of x each window has, of shape [1, 1, ...]. */
static bt_array *counts(bt_array *x, const pool *p) {
    int64_t shape[2 + AXES] = {1, 1};
    for (int i = 0; i < p->axes; i++) shape[2 + i] = bti_shape(x)[2 + i];
    return pool_windows(BTI_OP_add, bti_expand(bti_scalar_like(1, x), 2 + p->axes, shape), p, 0);
}

static bt_array *pool_avg(bt_array *x, const pool *p) {
    x = bti_float(x);
    bt_array *wide = bti_widen(x), *sum = pool_windows(BTI_OP_add, wide, p, 0);
    if (bti_array_error(sum)) return sum;
    double elements = 1;
    for (int i = 0; i < p->axes; i++) elements *= (double)p->window[i];
    bt_array *by = p->exclude_pads ? counts(wide, p) : bti_scalar_like(elements, sum);
    return bti_array_error(by) ? by : bti_narrow(bti_binary(BTI_OP_div, sum, by), bti_dtype(x));
}

/* --- windows by options ----------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_pool_options, name)
static const bti_member option_members[] = {MEMBER(size),    MEMBER(by_name),  MEMBER(window),   MEMBER(stride),
                                            MEMBER(pad_low), MEMBER(pad_high), MEMBER(dilation), MEMBER(exclude_pads)};
#undef MEMBER
static const bti_sized_type options_layout =
    BTI_SIZED_TYPE(bt_pool_options, "options", "BT_POOL(.window = {2, 2})", option_members, NULL);

static bool take_pool(const bt_array *x, const char *name, const bt_pool_options *given, pool *p, bt_array **poison) {
    bt_pool_options known;
    if (bti_options_take(&options_layout, name, given, &known) != BT_OK) {
        *poison = bti_poison(bti_error_last());
        return false;
    }
    *p = (pool){.axes = bti_rank(x) - 2, .exclude_pads = known.exclude_pads};
    for (int i = 0; i < AXES; i++) {
        p->window[i] = known.window[i];
        p->stride[i] = known.stride[i] ? known.stride[i] : known.window[i];
        p->dilation[i] = known.dilation[i] ? known.dilation[i] : 1;
        p->low[i] = known.pad_low[i], p->high[i] = known.pad_high[i];
        bool said = known.window[i] || known.stride[i] || known.dilation[i] || known.pad_low[i] || known.pad_high[i];
        if (i < p->axes || !said) continue;
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "the options speak of axis %d, which x of shape %s does not have",
                              2 + i, bti_shape_string(x).text);
        return false;
    }
    return pool_fits(x, p, poison);
}

bt_array *bt_max_pool(bt_array *x, const bt_pool_options *options) {
    BTI_PUBLIC("bt_max_pool");
    BTI_NEED(x);
    pool p;
    bt_array *poison;
    if (!take_pool(x, "bt_max_pool", options, &p, &poison)) BTI_RETURN(poison);
    BTI_RETURN(pool_max(x, &p));
}

bt_array *bt_avg_pool(bt_array *x, const bt_pool_options *options) {
    BTI_PUBLIC("bt_avg_pool");
    BTI_NEED(x);
    pool p;
    bt_array *poison;
    if (!take_pool(x, "bt_avg_pool", options, &p, &poison)) BTI_RETURN(poison);
    BTI_RETURN(pool_avg(x, &p));
}

/* --- along two axes ---------------------------------------------------------------------------------------------------- */

static bool pool_2d_fits(const bt_array *x, const int64_t window[2], const int64_t stride[2], pool *p,
                         bt_array **poison) {
    if (bti_rank(x) != 4 || !window) {
        *poison = bti_poisonf(BT_INVALID_ARGUMENT,
                              "x has shape %s; it needs four axes [N, C, H, W], and a window [rows, columns]",
                              bti_shape_string(x).text);
        return false;
    }
    *p = (pool){.axes = 2};
    for (int i = 0; i < 2; i++) {
        p->window[i] = window[i];
        p->stride[i] = stride ? stride[i] : window[i];
        p->dilation[i] = 1;
    }
    return pool_fits(x, p, poison);
}

bt_array *bt_max_pool2d(bt_array *x, const int64_t window[2], const int64_t stride[2]) {
    BTI_PUBLIC("bt_max_pool2d");
    BTI_NEED(x);
    pool p;
    bt_array *poison;
    if (!pool_2d_fits(x, window, stride, &p, &poison)) BTI_RETURN(poison);
    BTI_RETURN(pool_max(x, &p));
}

bt_array *bt_avg_pool2d(bt_array *x, const int64_t window[2], const int64_t stride[2]) {
    BTI_PUBLIC("bt_avg_pool2d");
    BTI_NEED(x);
    pool p;
    bt_array *poison;
    if (!pool_2d_fits(x, window, stride, &p, &poison)) BTI_RETURN(poison);
    BTI_RETURN(pool_avg(x, &p));
}

/* --- to given sizes ---------------------------------------------------------------------------------------------------- */

static bool part_count_fits(const bt_array *x, int axis, int64_t parts, bt_array **poison) {
    int64_t size = bti_shape(x)[axis];
    if (parts < 1 || parts > INT32_MAX)
        *poison = bti_poisonf(BT_INVALID_ARGUMENT, "size %d is %lld; it must be 1 to %d", axis - 2, (long long)parts,
                              INT32_MAX);
    else if (bti_size_is_symbolic(size))
        *poison =
            bti_poisonf(BT_UNIMPLEMENTED, "axis %d of shape %s has no known size here", axis, bti_shape_string(x).text);
    else if (size == 0)
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT, "axis %d of shape %s has no elements", axis, bti_shape_string(x).text);
    return !*poison;
}

static bool sizes_fit(const bt_array *x, const bt_shape *sizes, bt_array **poison) {
    *poison = NULL;
    if (sizes->rank < 1 || sizes->rank > AXES || bti_rank(x) != 2 + sizes->rank)
        *poison = bti_poisonf(BT_INVALID_ARGUMENT,
                              "x has shape %s, and there are %d sizes; x needs two axes more than there are sizes, of "
                              "which there can be one to three",
                              bti_shape_string(x).text, sizes->rank);
    for (int i = 0; i < sizes->rank && !*poison; i++) (void)part_count_fits(x, 2 + i, sizes->size[i], poison);
    return !*poison;
}

/* Part i of `parts` has the elements from floor(i * size / parts) on, up to ceil((i + 1) * size / parts). */
static bt_array *fold_parts(bti_op op, bt_array *x, int axis, int64_t parts) {
    int64_t size = bti_shape(x)[axis];
    bt_array **folded = bti_calloc((size_t)parts, sizeof *folded);
    if (!folded) return bti_array_new(NULL);
    for (int64_t i = 0; i < parts; i++) {
        int64_t first = i * size / parts, count = ((i + 1) * size + parts - 1) / parts - first;
        folded[i] = bti_reduce(op, bti_part_of_axis(x, axis, first, count), UINT32_C(1) << axis);
        if (op == BTI_OP_sum && !bti_array_error(folded[i]))
            folded[i] = bti_binary(BTI_OP_div, folded[i], bti_scalar_like((double)count, folded[i]));
    }
    bt_array *joined = bti_concat(folded, (int)parts, axis);
    bti_free(folded);
    return joined;
}

/* The same of more parts than there are elements, which makes each one or two of them. */
static bt_array *spread_parts(bti_op op, bt_array *x, int axis, int64_t parts) {
    bt_array *size = bti_scalar_bits((uint64_t)bti_shape(x)[axis], BT_I64), *one = bti_scalar(1, BT_I64);
    bt_array *count = bti_scalar_bits((uint64_t)parts, BT_I64), *part = bti_iota(parts, BT_I64);
    bt_array *end = bti_binary(BTI_OP_mul, bti_binary(BTI_OP_add, part, one), size);
    bt_array *first = bti_binary(BTI_OP_floor_div, bti_binary(BTI_OP_mul, part, size), count);
    bt_array *last = bti_binary(BTI_OP_floor_div, bti_binary(BTI_OP_sub, end, one), count);
    bt_array *low = bti_take(x, first, axis), *high = bti_take(x, last, axis);
    if (bti_array_error(low)) return low;
    if (op == BTI_OP_max) return bti_binary(BTI_OP_maximum, low, high);
    bt_array *half = bti_scalar_like(0.5, x); /* of each: a sum of great numbers could be infinite */
    return bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, low, half), bti_binary(BTI_OP_mul, high, half));
}

/* As windows where they divide the axis. */
static bt_array *fold_axis(bti_op op, bt_array *x, int i, int64_t parts) {
    int64_t size = bti_shape(x)[2 + i], each = size / parts;
    int64_t shape[BTI_MAX_RANK];
    if (parts > size) return spread_parts(op, x, 2 + i, parts);
    if (size % parts) return fold_parts(op, x, 2 + i, parts);
    for (int axis = 0; axis < bti_rank(x); axis++) shape[axis < 2 + i ? axis : axis + 1] = bti_shape(x)[axis];
    shape[2 + i] = parts, shape[3 + i] = each;
    bt_array *folded = bti_reduce(op, bti_reshape(x, bti_rank(x) + 1, shape), UINT32_C(1) << (3 + i));
    if (bti_array_error(folded)) return folded;
    folded = bti_drop_axes(folded, UINT32_C(1) << (3 + i));
    return op == BTI_OP_sum ? bti_binary(BTI_OP_div, folded, bti_scalar_like((double)each, folded)) : folded;
}

static bt_array *fold_to(bti_op op, bt_array *x, const bt_shape *sizes) {
    for (int i = 0; i < sizes->rank && !bti_array_error(x); i++) x = fold_axis(op, x, i, sizes->size[i]);
    return x;
}

bt_array *bt_adaptive_max_pool(bt_array *x, bt_shape sizes) {
    BTI_PUBLIC("bt_adaptive_max_pool");
    BTI_NEED(x);
    bt_array *poison;
    if (!sizes_fit(x, &sizes, &poison)) BTI_RETURN(poison);
    BTI_RETURN(fold_to(BTI_OP_max, x, &sizes));
}

bt_array *bt_adaptive_avg_pool(bt_array *x, bt_shape sizes) {
    BTI_PUBLIC("bt_adaptive_avg_pool");
    BTI_NEED(x);
    bt_array *poison;
    if (!sizes_fit(x, &sizes, &poison)) BTI_RETURN(poison);
    x = bti_float(x);
    BTI_RETURN(bti_narrow(fold_to(BTI_OP_sum, bti_widen(x), &sizes), bti_dtype(x)));
}

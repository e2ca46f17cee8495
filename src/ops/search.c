/* Places in sorted lines, counts by place, distinct elements: composed. */
#include <math.h>

#include "ops/complex.h"
#include "ops/primitive.h"

static bt_array *is_before(bt_array *x, bt_array *y);

/* By the real parts; where neither is before the other, by the imaginary parts. */
static bt_array *is_complex_before(bti_parts x, bti_parts y) {
    bt_array *not_after = bti_unary(BTI_OP_not, is_before(y.re, x.re));
    bt_array *by_imaginary = bti_binary(BTI_OP_and, not_after, is_before(x.im, y.im));
    return bti_binary(BTI_OP_or, is_before(x.re, y.re), by_imaginary);
}

/* As sorts order elements: NaN is the greatest. x and y have one dtype and are not poisoned. */
static bt_array *is_before(bt_array *x, bt_array *y) {
    if (bti_is_complex(x)) return is_complex_before(bti_own_parts(x), bti_own_parts(y));
    bt_array *less = bti_binary(BTI_OP_lt, x, y);
    if (!bti_dtype_is_float(bti_dtype(x))) return less;
    bt_array *to_nan = bti_binary(BTI_OP_and, bti_binary(BTI_OP_eq, x, x), bti_binary(BTI_OP_ne, y, y));
    return bti_binary(BTI_OP_or, less, to_nan);
}

static bt_array *flat(bt_array *x) {
    int64_t count = bti_size_of(x);
    return bti_reshape(x, 1, &count);
}

/* line [n], values [m] of its dtype. The count is made bit by bit, from the highest: each bit stays that leaves an element before the value last of so many. */
static bt_array *count_before(bt_array *line, bt_array *values, bool right) {
    bt_array *poison = bti_poisoned_by((bt_array *[]){line, values}, 2);
    if (poison) return poison;
    int64_t n = bti_shape(line)[0], m = bti_shape(values)[0];
    bt_array *size = bti_size_scalar(n, BT_I32), *zero = bti_scalar(0, BT_I32), *count = bti_expand(zero, 1, &m);
    int bits = 31;
    while (!bti_size_is_symbolic(n) && bits > 0 && n >> (bits - 1) == 0) bits--;
    for (int64_t bit = INT64_C(1) << bits >> 1; bit > 0; bit >>= 1) {
        bt_array *more = bti_binary(BTI_OP_add, count, bti_scalar((double)bit, BT_I32));
        bt_array *within = bti_binary(BTI_OP_le, more, size);
        bt_array *last = bti_where(within, bti_binary(BTI_OP_sub, more, bti_scalar(1, BT_I32)), zero);
        bt_array *element = bti_take(line, last, 0);
        bt_array *stays = right ? bti_unary(BTI_OP_not, is_before(values, element)) : is_before(element, values);
        count = bti_where(bti_binary(BTI_OP_and, within, stays), more, count);
    }
    return count;
}

static bt_array *check_line(bt_array *line) {
    int64_t n = bti_rank(line) == 1 ? bti_shape(line)[0] : 0;
    if (bti_rank(line) != 1)
        return bti_poisonf(BT_INVALID_ARGUMENT, "the line has shape %s; it must have one axis (of many lines: bt_vmap)",
                           bti_shape_string(line).text);
    if (bti_size_is_symbolic(n) || n <= INT32_MAX) return NULL;
    return bti_poisonf(BT_INVALID_ARGUMENT, "the line has %lld elements; places are int32, so it can have %d",
                       (long long)n, INT32_MAX);
}

bt_array *bt_searchsorted(bt_array *line, bt_array *values, bool right) {
    BTI_PUBLIC("bt_searchsorted");
    BTI_NEED(line, values);
    bt_array *poison = check_line(line);
    if (poison) BTI_RETURN(poison);
    bool weak;
    bt_dtype dtype = bti_meet((bt_array *[]){line, values}, 2, &weak);
    bt_shape shape = bt_shape_of(values);
    line = bti_cast(line, dtype), values = bti_cast(values, dtype);
    if ((poison = bti_poisoned_by((bt_array *[]){line, values}, 2))) BTI_RETURN(poison);
    bt_array *places = count_before(line, flat(values), right);
    BTI_RETURN(bti_reshape(places, shape.rank, shape.size));
}

/* --- counts --------------------------------------------------------------------------------------------------------- */

/* indices [m], int32 or int64; a place below 0 does not count from the end. */
static bt_array *count_places(bt_array *indices, int64_t length) {
    bt_dtype dtype = bti_dtype(indices);
    int64_t m = bti_shape(indices)[0];
    bt_array *past = bti_scalar_bits((uint64_t)length, dtype), *zero = bti_scalar(0, dtype);
    indices = bti_where(bti_binary(BTI_OP_lt, indices, zero), past, indices);
    bt_array *none = bti_expand(bti_scalar(0, BT_I32), 1, &length), *ones = bti_expand(bti_scalar(1, BT_I32), 1, &m);
    return bti_scatter_add(none, indices, ones, 0);
}

bt_array *bt_bincount(bt_array *x, int64_t length) {
    BTI_PUBLIC("bt_bincount");
    BTI_NEED(x);
    if (length < 0 || length > INT32_MAX)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "length is %lld; it can be 0 to %d", (long long)length, INT32_MAX));
    bt_array *indices = bti_indices(x);
    if (bti_array_error(indices)) BTI_RETURN(indices);
    BTI_RETURN(count_places(flat(indices), length));
}

/* Floats, in which the ends of parts are numbers apart: of integers float64, as by NumPy. */
static bt_array *to_count(bt_array *x) {
    bool whole = bti_dtype_is_int(bti_dtype(x)) || bti_dtype(x) == BT_BOOL;
    x = whole ? x : bti_widen(bti_float(x));
    return bti_array_error(x) ? x : bti_cast(x, whole ? BT_F64 : bti_dtype(x));
}

bt_array *bt_histogram(bt_array *x, int64_t bins, double low, double high) {
    BTI_PUBLIC("bt_histogram");
    BTI_NEED(x);
    if (bins < 1 || bins >= INT32_MAX)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "bins is %lld; it can be 1 to %d", (long long)bins, INT32_MAX - 1));
    if (!isfinite(low) || !isfinite(high) || !(low < high))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "from %g to %g; the ends must be finite, the first below the last",
                               low, high));
    x = to_count(x);
    if (bti_array_error(x)) BTI_RETURN(x);
    x = flat(x);
    bt_dtype dtype = bti_dtype(x);
    bt_array *count = count_before(bt_linspace(low, high, bins + 1, dtype), x, true);
    bt_array *bin = bti_binary(BTI_OP_sub, count, bti_scalar(1, BT_I32));
    bt_array *at_end = bti_binary(BTI_OP_eq, x, bti_scalar(high, dtype));
    bin = bti_where(at_end, bti_scalar((double)(bins - 1), BT_I32), bin);
    BTI_RETURN(count_places(bin, bins));
}

/* --- distinct elements ---------------------------------------------------------------------------------------------- */

/* How many distinct elements there are up to each of a sorted line [n], n > 0: int32. All NaN are one. */
static bt_array *count_distinct(bt_array *sorted) {
    int64_t rest = bti_size_add(bti_shape(sorted)[0], -1), one = 1;
    bt_array *next = bti_part_of_axis(sorted, 0, 1, rest), *before = bti_part_of_axis(sorted, 0, 0, rest);
    bt_array *first[2] = {bti_expand(bti_scalar(1, BT_I32), 1, &one), bti_cast(is_before(before, next), BT_I32)};
    return bti_cumsum(bti_concat(first, 2, 0), 0, false);
}

bt_array *bt_unique(bt_array *x, int64_t size) {
    BTI_PUBLIC("bt_unique");
    BTI_NEED(x);
    if (size < 0 || size > INT32_MAX)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "size is %lld; it can be 0 to %d", (long long)size, INT32_MAX));
    bt_array *sorted = bt_sort(flat(x), 0), *one = bti_scalar(1, BT_I32);
    if (bti_array_error(sorted)) BTI_RETURN(sorted);
    int64_t n = bti_shape(sorted)[0];
    if (n == 0) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "x has no elements, of which none is the least"));
    bt_array *least = bti_slice_part(sorted, 0, 0, 1, 1); /* a call of a function without elements ends here */
    bt_array *wanted = bti_binary(BTI_OP_add, bti_iota(size, BT_I32), one);
    bt_array *place = count_before(count_distinct(sorted), wanted, false);
    bt_array *last = bti_size_scalar(bti_size_add(n, -1), BT_I32), *there = bti_binary(BTI_OP_le, place, last);
    BTI_RETURN(bti_where(there, bti_take(sorted, bti_binary(BTI_OP_minimum, place, last), 0), least));
}

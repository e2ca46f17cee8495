/* Arrays from a rule: constant, counted, diagonal. */
#include <math.h>

#include "ops/primitive.h"

/* --- filled -------------------------------------------------------------------------------------------------------- */

bt_array *bt_full_shape(double value, bt_dtype dtype, bt_shape shape) {
    return bti_full_as("bt_full", value, dtype, shape);
}

/* The name lives as long as the program: a literal of the header's macros. */
bt_array *bti_full_as(const char *name, double value, bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC(name);
    bt_array *poison = bti_check_shape(dtype, shape, false);
    if (poison) BTI_RETURN(poison);
    BTI_RETURN(bti_expand(bti_scalar_cast(value, dtype), shape.rank, shape.size));
}

static bt_array *filled_like(double value, bt_array *x) {
    return bti_expand(bti_scalar(value, bti_dtype(x)), bti_rank(x), bti_shape(x));
}

bt_array *bt_zeros_like(bt_array *x) {
    BTI_PUBLIC("bt_zeros_like");
    BTI_NEED(x);
    BTI_RETURN(filled_like(0, x));
}

bt_array *bt_ones_like(bt_array *x) {
    BTI_PUBLIC("bt_ones_like");
    BTI_NEED(x);
    BTI_RETURN(filled_like(1, x));
}

/* --- counting ------------------------------------------------------------------------------------------------------- */

/* start + step * i, in a dtype that holds them. */
static bt_array *count_up(bt_array *i, bt_array *start, bt_array *step) {
    return bti_binary(BTI_OP_add, bti_binary(BTI_OP_mul, i, step), start);
}

/* Numbers that float32 holds whole: it counts without rounding. */
static bool is_whole_float(double value) { return value == rint(value) && fabs(value) <= 0x1p24; }
static bool is_whole_int(double value) { return value == rint(value) && fabs(value) <= 0x1p62; }

static bt_array *count_floats(double start, double last, double step, int64_t count, bt_dtype dtype) {
    bool whole = is_whole_float(start) && is_whole_float(last) && is_whole_float(step) && count <= 1 << 24;
    bt_dtype in = dtype != BT_F64 && whole ? BT_F32 : BT_F64;
    return bti_cast(count_up(bti_iota(count, in), bti_scalar(start, in), bti_scalar(step, in)), dtype);
}

static bt_array *count_integers(double start, double last, double step, int64_t count, bt_dtype dtype) {
    int bits = bti_dtype_bits(dtype), sign = bti_dtype_is_signed(dtype);
    double above = ldexp(1, bits - sign), least = sign ? -above : 0, low = fmin(start, last), high = fmax(start, last);
    if (low <= least - 1 || high >= above)
        return bti_poisonf(BT_INVALID_ARGUMENT, "%g to %g do not fit %s", start, last, bt_dtype_name(dtype));
    if (!is_whole_int(start) || !is_whole_int(step)) return count_floats(start, last, step, count, dtype);
    bt_dtype in = fabs(start) < 0x1p31 && fabs(last) < 0x1p31 && fabs(step) < 0x1p31 ? BT_I32 : BT_I64;
    return bti_cast(count_up(bti_iota(count, in), bti_scalar(start, in), bti_scalar(step, in)), dtype);
}

bt_array *bt_arange(double start, double stop, double step, bt_dtype dtype) {
    BTI_PUBLIC("bt_arange");
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    if (bti_dtype_is_complex(dtype))
        BTI_RETURN(bti_cast(bt_arange(start, stop, step, bti_dtype_of_part(dtype)), dtype));
    double steps = ceil((stop - start) / step);
    if (step != 0 && isfinite(start) && isfinite(stop) && isfinite(step) && steps >= 0x1p62)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "from %g to %g by %g are %g elements; an array has less than 2^62",
                               start, stop, step, steps));
    if (step == 0 || !isfinite(start) || !isfinite(step) || !(steps < 0x1p62))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                               "from %g to %g by %g is no range; the step must not be 0, and all finite", start, stop,
                               step));
    int64_t count = steps > 0 ? (int64_t)steps : 0;
    if ((poison = bti_check_shape(dtype, BT_SHAPE(count), false))) BTI_RETURN(poison);
    if (count == 0) BTI_RETURN(bti_iota(0, dtype));
    double last = start + step * (double)(count - 1);
    BTI_RETURN(bti_dtype_is_float(dtype) ? count_floats(start, last, step, count, dtype)
                                         : count_integers(start, last, step, count, dtype));
}

bt_array *bt_linspace(double start, double stop, int64_t count, bt_dtype dtype) {
    BTI_PUBLIC("bt_linspace");
    bt_array *poison = bti_check_shape(dtype, BT_SHAPE(count), false);
    if (poison) BTI_RETURN(poison);
    if (!bti_dtype_is_float(dtype))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%s; only floats are spaced evenly: bt_cast the result",
                               bt_dtype_name(dtype)));
    if (bti_size_is_symbolic(count)) BTI_RETURN(bti_poisonf(BT_UNIMPLEMENTED, "the count has no known size here"));
    bt_dtype in = dtype == BT_F64 ? BT_F64 : BT_F32;
    bt_array *i = bti_iota(count, in), *first = bti_scalar(start, in), *last = bti_scalar((double)(count - 1), in);
    bt_array *values = count_up(i, first, bti_scalar(count > 1 ? (stop - start) / (double)(count - 1) : 0, in));
    if (count > 1) values = bti_where(bti_binary(BTI_OP_lt, i, last), values, bti_scalar(stop, in)); /* `stop` itself */
    BTI_RETURN(bti_cast(values, dtype));
}

bt_array *bt_eye(int64_t rows, int64_t columns, bt_dtype dtype) {
    BTI_PUBLIC("bt_eye");
    bt_array *poison = bti_check_shape(dtype, BT_SHAPE(rows, columns), false);
    if (poison) BTI_RETURN(poison);
    bt_array *row = bti_new_axis(bti_iota(rows, BT_I64), 1);
    BTI_RETURN(bti_cast(bti_binary(BTI_OP_eq, row, bti_iota(columns, BT_I64)), dtype));
}

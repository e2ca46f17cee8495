#include "ops/primitive.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/float8.h"

/* --- what public operations ask ----------------------------------------------------------------------------------- */

bti_shape_words bti_sizes_string(int rank, const int64_t *shape) {
    bti_str text = {0};
    bti_shape_text(&text, rank, shape);
    bti_shape_words words;
    snprintf(words.text, sizeof words.text, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return words;
}

bool bti_dtype_fits(bt_dtype dtype, bt_array **poison) {
    *poison = bti_check_shape(dtype, (bt_shape){0}, false);
    return !*poison;
}

int64_t bti_size_of_axes(const bt_array *x, uint32_t mask) {
    int64_t size = 1;
    for (int i = 0; i < bti_rank(x); i++)
        if (mask >> i & 1) size = bti_size_mul(size, bti_shape(x)[i]);
    return size;
}

bool bti_axis(bt_array *x, int64_t axis, int *normal, bt_array **poison) {
    int rank = bti_node_of(x)->rank;
    if (axis >= -rank && axis < rank) {
        *normal = (int)(axis < 0 ? axis + rank : axis);
        return true;
    }
    *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %lld of an array of %d dimensions; it must be in [%d, %d)",
                          (long long)axis, rank, -rank, rank);
    return false;
}

bool bti_axes_mask(bt_array *x, bt_axes axes, uint32_t *mask, bt_array **poison) {
    int rank = bti_node_of(x)->rank;
    *mask = 0;
    if (!axes.count) *mask = (1u << rank) - 1;
    if (!axes.count || axes.count == BTI_NO_AXES) return true;
    for (int i = 0; i < axes.count || axes.count < 0; i++) {
        int axis;
        if (i >= BT_MAX_RANK || axes.count < 0) {
            *poison = bti_poisonf(BT_INVALID_ARGUMENT, "%d axes; an array has at most %d", axes.count, BT_MAX_RANK);
            return false;
        }
        if (!bti_axis(x, axes.axis[i], &axis, poison)) return false;
        if (*mask >> axis & 1) {
            *poison = bti_poisonf(BT_INVALID_ARGUMENT, "axis %lld is given twice", (long long)axes.axis[i]);
            return false;
        }
        *mask |= 1u << axis;
    }
    return true;
}

/* --- scalars ------------------------------------------------------------------------------------------------------ */

bt_array *bti_scalar_bits(uint64_t bits, bt_dtype dtype) {
    return bti_record(BTI_OP_const, dtype, false, NULL, 0, &(bti_attr){.constant = {bits}});
}

static bt_array *record_scalar(double value, bt_dtype dtype, bool weak) {
    uint64_t bits;
    if (bti_dtype_is_float(dtype))
        memcpy(&bits, &value, sizeof bits);
    else if (bti_dtype_is_storage(dtype))
        bits = bti_f8_from_f32(dtype, (float)value);
    else if (dtype == BT_BOOL)
        bits = value != 0;
    else if (value >= 9223372036854775808.0)
        bits = dtype != BT_U64 ? INT64_MAX : value >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)value;
    else
        bits = value != value ? 0 : (uint64_t)(value <= -9223372036854775808.0 ? INT64_MIN : (int64_t)value);
    return bti_record(BTI_OP_const, dtype, weak, NULL, 0, &(bti_attr){.constant = {bits}});
}

static const bti_complex_recorders *complex_recorders;
const bti_complex_recorders *bti_complex_record(void) { return complex_recorders; }
void bti_complex_set_recorders(const bti_complex_recorders *recorders) { complex_recorders = recorders; }

/* A complex one is made of two. */
static bt_array *scalar_of(double value, bt_dtype dtype, bool weak) {
    if (!bti_dtype_is_complex(dtype)) return record_scalar(value, dtype, weak);
    return complex_recorders->of_real(record_scalar(value, bti_dtype_of_part(dtype), false), weak);
}

bt_array *bti_scalar(double value, bt_dtype dtype) { return scalar_of(value, dtype, false); }

bt_array *bti_scalar_like(double value, bt_array *x) {
    if (bti_array_error(x)) return bti_poisoned_by(&x, 1);
    return scalar_of(value, (bt_dtype)bti_node_of(x)->dtype, bti_node_of(x)->weak);
}

bt_array *bti_size_scalar(int64_t size, bt_dtype dtype) {
    if (!bti_size_is_symbolic(size)) return record_scalar((double)size, dtype, false);
    return bti_record(BTI_OP_size, dtype, false, NULL, 0, &(bti_attr){.size = {size}});
}

bt_array *bti_iota(int64_t count, bt_dtype dtype) {
    return bti_record_shaped(BTI_OP_iota, dtype, false, 1, &count, NULL, 0, NULL);
}

bt_array *bt_num(double value) {
    BTI_PUBLIC("bt_num");
    BTI_RETURN(record_scalar(value, BT_F64, true));
}
bt_array *bti_num_of_real(double value) {
    BTI_PUBLIC("a number");
    BTI_RETURN(record_scalar(value, BT_F64, true));
}
bt_array *bti_num_of_integer(int64_t value) {
    BTI_PUBLIC("a number");
    BTI_RETURN(bti_record(BTI_OP_const, BT_I64, true, NULL, 0, &(bti_attr){.constant = {(uint64_t)value}}));
}
bt_array *bti_num_of_unsigned(uint64_t value) {
    if (value <= INT64_MAX) return bti_num_of_integer((int64_t)value);
    BTI_PUBLIC("a number");
    BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT,
                           "%" PRIu64 " does not fit int64; write BT_ARRAY(uint64_t, (), %" PRIu64 "U)", value, value));
}
bt_array *bti_num_of_bool(bool value) {
    BTI_PUBLIC("a number");
    BTI_RETURN(bti_scalar_bits(value, BT_BOOL));
}
bt_array *bt_f32(float value) {
    BTI_PUBLIC("bt_f32");
    BTI_RETURN(record_scalar((double)value, BT_F32, false));
}
bt_array *bt_f64(double value) {
    BTI_PUBLIC("bt_f64");
    BTI_RETURN(record_scalar(value, BT_F64, false));
}
bt_array *bt_i32(int32_t value) {
    BTI_PUBLIC("bt_i32");
    BTI_RETURN(bti_scalar_bits((uint64_t)(int64_t)value, BT_I32));
}
bt_array *bt_i64(int64_t value) {
    BTI_PUBLIC("bt_i64");
    BTI_RETURN(bti_scalar_bits((uint64_t)value, BT_I64));
}

bt_array *bti_scalar_cast(double value, bt_dtype dtype) {
    if (!bti_dtype_is_int(dtype)) return bti_scalar(value, dtype);
    int bits = bti_dtype_bits(dtype), sign = bti_dtype_is_signed(dtype);
    double above = ldexp(1, bits - sign), least = sign ? -above : 0;
    if (isnan(value)) value = 0;
    if (value >= above) return bti_scalar_bits(UINT64_MAX >> (64 - bits + sign), dtype);
    if (value < least) value = least;
    return bti_scalar_bits(sign ? (uint64_t)(int64_t)value : (uint64_t)value, dtype);
}

/* --- complex numbers ------------------------------------------------------------------------------------------------ */

bt_array *bti_complex_part(bti_op op, bt_array *x) {
    return bti_record(op, bti_dtype_of_part(bti_dtype(x)), bti_node_of(x)->weak, &x, 1, NULL);
}

bt_array *bti_refuse_complex(bt_dtype dtype) {
    bti_str why = {0};
    bti_complex_refusal(&why, dtype);
    return bti_poison_why(&why);
}

/* --- other dtypes ------------------------------------------------------------------------------------------------- */

bool bti_number_fits(bt_array *x, bt_dtype dtype) {
    const bti_node *node = bti_node_of(x);
    if (!node->weak || node->op != BTI_OP_const || node->dtype != BT_I64 || !bti_dtype_is_int(dtype)) return true;
    int64_t value = (int64_t)node->attr->constant.bits;
    int bits = bti_dtype_bits(dtype);
    if (bti_dtype_is_signed(dtype)) return value >= INT64_MIN >> (64 - bits) && value <= INT64_MAX >> (64 - bits);
    return value >= 0 && (bits == 64 || value >> bits == 0);
}

bt_array *bti_cast(bt_array *x, bt_dtype dtype) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if (node->dtype == dtype && !node->weak) return x;
    if ((unsigned)dtype >= BT_DTYPE_COUNT || bti_dtype_is_storage(dtype) ||
        bti_dtype_is_storage((bt_dtype)node->dtype)) {
        bt_dtype storage = bti_dtype_is_storage(dtype) ? dtype : (bt_dtype)node->dtype;
        return bti_poisonf(
            BT_INVALID_ARGUMENT,
            "%s is a storage type, which meets no other dtype; bt_cast it to a wider float first, or that to it",
            bt_dtype_name(storage));
    }
    if (bti_dtype_is_complex(dtype) || bti_dtype_is_complex((bt_dtype)node->dtype))
        return complex_recorders->cast(x, dtype);
    if (!bti_number_fits(x, dtype))
        return bti_poisonf(BT_INVALID_ARGUMENT,
                           "the number %" PRId64 " does not fit %s; cast the array to a wider dtype first (bt_cast)",
                           (int64_t)node->attr->constant.bits, bt_dtype_name(dtype));
    return bti_record(BTI_OP_cast, dtype, false, &x, 1, NULL);
}

bt_array *bti_bitcast(bt_array *x, bt_dtype dtype) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bool is_complex = bti_dtype_is_complex(dtype) || bti_dtype_is_complex((bt_dtype)node->dtype);
    if (dtype == (bt_dtype)node->dtype) return x;
    if ((unsigned)dtype >= BT_DTYPE_COUNT || bt_dtype_size(dtype) != bt_dtype_size((bt_dtype)node->dtype) ||
        is_complex || (dtype == BT_BOOL) != (node->dtype == BT_BOOL))
        return bti_poisonf(
            BT_INVALID_ARGUMENT,
            "%s and %s have no bits in common: sizes must be equal, bool goes with bool, complex numbers with none",
            bt_dtype_name((bt_dtype)node->dtype), bt_dtype_name(dtype));
    return bti_record(BTI_OP_bitcast, dtype, false, &x, 1, NULL);
}

bt_array *bti_stop(bt_array *x) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    return poison ? poison : bti_record_by_rules(BTI_OP_stop, &x, 1, NULL);
}

bt_array *bti_to_float(bt_array *x) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    bt_dtype dtype = bti_float_of((bt_dtype)node->dtype);
    return node->weak ? bti_record(BTI_OP_cast, dtype, true, &x, 1, NULL) : bti_cast(x, dtype);
}

/* --- other shapes ------------------------------------------------------------------------------------------------- */

bt_array *bti_record_by_rules(bti_op op, bt_array *const *inputs, int count, const bti_attr *attr) {
    const bti_node *x = bti_node_of(inputs[0]);
    bt_dtype in, out;
    bti_str why = {0};
    if (!bti_op_dtypes(op, (bt_dtype)x->dtype, &in, &out, &why)) return bti_poison_why(&why);
    return bti_record(op, out, x->weak, inputs, count, attr);
}

bt_array *bti_reshape(bt_array *x, int rank, const int64_t *shape) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if (bti_shape_equal(node->rank, node->shape, rank, shape)) return x;
    return bti_record_shaped(BTI_OP_reshape, (bt_dtype)node->dtype, node->weak, rank, shape, &x, 1, NULL);
}

/* First the axes that are new, then the sizes. */
bt_array *bti_expand(bt_array *x, int rank, const int64_t *shape) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    if (bti_shape_equal(node->rank, node->shape, rank, shape)) return x;
    int front = rank - node->rank;
    if (front) {
        bti_str why = {0};
        if (!bti_expand_fits(node, rank, shape, &why)) return bti_poison_why(&why);
        int64_t aligned[BTI_MAX_RANK];
        for (int i = 0; i < rank; i++) aligned[i] = i < front ? 1 : node->shape[i - front];
        x = bti_reshape(x, rank, aligned);
        if (bti_shape_equal(rank, aligned, rank, shape) || bti_array_error(x)) return x;
    }
    return bti_record_shaped(BTI_OP_expand, bti_dtype(x), bti_node_of(x)->weak, rank, shape, &x, 1, NULL);
}

bt_array *bti_drop_axes(bt_array *x, uint32_t mask) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    const bti_node *node = bti_node_of(x);
    int64_t shape[BTI_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < node->rank; i++)
        if (!(mask >> i & 1)) shape[rank++] = node->shape[i];
    return bti_reshape(x, rank, shape);
}

bt_array *bti_new_axis(bt_array *x, int axis) {
    int rank = bti_rank(x);
    if (rank == BTI_MAX_RANK)
        return bti_poisonf(BT_INVALID_ARGUMENT, "shape %s has %d axes already, the most there are",
                           bti_shape_string(x).text, rank);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i <= rank; i++) shape[i] = i < axis ? bti_shape(x)[i] : i == axis ? 1 : bti_shape(x)[i - 1];
    return bti_reshape(x, rank + 1, shape);
}

static bt_array *reduce(bti_op op, bt_array *x, uint32_t mask, bool or_start) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison || !mask) return poison ? poison : x;
    bool has_form = op == BTI_OP_sum || op == BTI_OP_prod;
    if (has_form && bti_is_complex(x)) return complex_recorders->reduce(op, x, mask);
    return bti_record_by_rules(op, &x, 1, &(bti_attr){.fold = {mask, or_start}});
}

bt_array *bti_reduce(bti_op op, bt_array *x, uint32_t mask) { return reduce(op, x, mask, false); }
bt_array *bti_reduce_or_start(bti_op op, bt_array *x, uint32_t mask) { return reduce(op, x, mask, true); }

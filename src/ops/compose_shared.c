#include <math.h>
#include <stdio.h>

#include "ops/compose.h"

bti_words bti_words_shape(int rank, const int64_t *shape) {
    bti_str text = {0};
    bti_shape_text(&text, rank, shape);
    bti_words words;
    snprintf(words.text, sizeof words.text, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return words;
}

bool bti_shapes_may_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
    if (rank_a != rank_b) return false;
    for (int i = 0; i < rank_a; i++)
        if (!bti_may_equal(a[i], b[i])) return false;
    return true;
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

bt_array *bti_scalar_cast(double value, bt_dtype dtype) {
    if (!bti_dtype_is_int(dtype)) return bti_scalar(value, dtype);
    int bits = bti_dtype_bits(dtype), sign = bti_dtype_is_signed(dtype);
    double above = ldexp(1, bits - sign), least = sign ? -above : 0;
    if (isnan(value)) value = 0;
    if (value >= above) return bti_scalar_bits(UINT64_MAX >> (64 - bits + sign), dtype);
    if (value < least) value = least;
    return bti_scalar_bits(sign ? (uint64_t)(int64_t)value : (uint64_t)value, dtype);
}

bt_array *bti_slice_part(bt_array *x, int axis, int64_t start, int64_t step, int64_t count) {
    int64_t starts[BTI_MAX_RANK] = {0}, steps[BTI_MAX_RANK], counts[BTI_MAX_RANK];
    for (int i = 0; i < bti_rank(x); i++) {
        steps[i] = 1;
        counts[i] = bti_shape(x)[i];
    }
    starts[axis] = start;
    steps[axis] = step;
    counts[axis] = count;
    return bti_slice(x, starts, steps, counts);
}

bt_array *bti_new_axis(bt_array *x, int axis) {
    int rank = bti_rank(x);
    if (rank == BTI_MAX_RANK)
        return bti_poisonf(BT_INVALID_ARGUMENT, "shape %s has %d axes already, the most there are",
                           bti_words_of(x).text, rank);
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i <= rank; i++) shape[i] = i < axis ? bti_shape(x)[i] : i == axis ? 1 : bti_shape(x)[i - 1];
    return bti_reshape(x, rank + 1, shape);
}

bt_array *bti_indices(bt_array *indices) {
    if (bti_array_error(indices)) return bti_poisoned_by(&indices, 1);
    bt_dtype dtype = bti_dtype(indices);
    if (dtype == BT_BOOL)
        return bti_poisonf(
            BT_INVALID_ARGUMENT,
            "indices are bool, and must be the integers of places; by a mask choose with bt_where(mask, x, y)");
    if (!bti_dtype_is_int(dtype))
        return bti_poisonf(BT_INVALID_ARGUMENT, "indices are %s; they must be integers: bt_cast(indices, BT_I32)",
                           bt_dtype_name(dtype));
    if (dtype == BT_U64) /* what int64 cannot hold is out of range anyway, but must not turn negative */
        indices = bti_binary(BTI_OP_minimum, indices, bti_scalar_bits(INT64_MAX, BT_U64));
    bool wide = dtype == BT_I64 || dtype == BT_U64 || dtype == BT_U32;
    return bti_cast(indices, wide ? BT_I64 : BT_I32);
}

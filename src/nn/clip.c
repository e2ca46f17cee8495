/* Clipping: gradients limited by value, and by the norm of all of them. */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "nn/optimizer.h"

bt_array *bti_scalar_beside(bt_array *scalar, bt_array *beside) {
    if (bti_array_error(scalar) || bti_array_error(beside)) return scalar;
    if (bti_node_of(scalar)->device == bti_node_of(beside)->device) return scalar;
    return bt_to(scalar, bt_device_long_name(bt_device_of(beside)));
}

/* Narrow floats are squared in float32: their squares overflow early. */
static bt_array *sum_of_squares(bt_array *x) {
    if (bt_dtype_of(x) != BT_F64) x = bt_cast(x, BT_F32);
    return bt_cast(bt_sum(bt_square(x), BT_ALL, false), BT_F64);
}

static bt_array *norm_of(bt_array *const *arrays, int count) {
    bt_array **parts = bti_alloc((size_t)count * sizeof *parts);
    if (!parts) return (void)!bti_no_memory(), bti_poison(bti_error_last());
    for (int i = 0; i < count; i++) parts[i] = bti_scalar_beside(sum_of_squares(arrays[i]), i ? parts[0] : arrays[0]);
    bt_array *norm = count ? bt_sqrt(bt_add_n(parts, count)) : bt_zeros(BT_F64);
    bti_free(parts);
    return norm;
}

bt_array *bti_clip_factor(bt_array *norm, double limit) {
    return bt_minimum(bt_div(bt_num(limit), bt_add(norm, bt_num(1e-6))), bt_num(1));
}

static bool is_float(bt_dtype dtype) {
    return dtype == BT_F16 || dtype == BT_BF16 || dtype == BT_F32 || dtype == BT_F64;
}

/* NULL: they can be clipped. */
static bt_array *refuse_arrays(bt_array *const *arrays, int count) {
    if (bti_check_list(arrays, count, "arrays") != BT_OK) return bti_poison(bti_error_last());
    for (int i = 0; i < count; i++) {
        bti_error *error = bti_array_error(arrays[i]);
        if (error) return (void)!bti_fail_with(error), bti_poison(bti_error_retain(error));
        if (!is_float(bt_dtype_of(arrays[i])))
            return bti_poisonf(BT_INVALID_ARGUMENT, "array %d is %s; it must be of floats", i,
                               bt_dtype_name(bt_dtype_of(arrays[i])));
    }
    return NULL;
}

static bt_array *refuse_limit(double limit) {
    return limit >= 0 ? NULL : bti_poisonf(BT_INVALID_ARGUMENT, "the limit is %g; it must be 0 or more", limit);
}

bt_array *bt_global_norm(bt_array *const *arrays, int count) {
    BTI_PUBLIC("bt_global_norm");
    bt_array *refused = refuse_arrays(arrays, count);
    BTI_RETURN(refused ? refused : norm_of(arrays, count));
}

/* Replaces each of them by what `clip` makes of it; arrays of the innermost scope. */
static void replace_arrays(bt_array **arrays, int count, bt_array *(*clip)(bt_array *x, const void *with),
                           const void *with) {
    for (int i = 0; i < count; i++)
        BT_SCOPE
            arrays[i] = bt_keep(clip(arrays[i], with));
}

static bt_array *clip_by_factor(bt_array *x, const void *factor) {
    bt_array *here = bti_scalar_beside((bt_array *)(uintptr_t)factor, x);
    return bt_mul(x, bt_cast(here, bt_dtype_of(x)));
}
static bt_array *clip_by_limit(bt_array *x, const void *limit) {
    double most = *(const double *)limit;
    return bt_clamp(x, -most, most);
}

bt_array *bt_clip_by_global_norm(bt_array **arrays, int count, double limit) {
    BTI_CALL("bt_clip_by_global_norm");
    bt_array *norm = refuse_limit(limit);
    if (!norm) norm = refuse_arrays(arrays, count);
    if (norm) return norm;
    bt_array *factor = NULL;
    BT_SCOPE {
        norm = bt_keep(norm_of(arrays, count));
        factor = bt_keep(bti_clip_factor(norm, limit));
    }
    if (!bti_array_error(norm)) replace_arrays(arrays, count, clip_by_factor, factor);
    bt_release(factor);
    return norm;
}

bt_status bt_clip_by_value(bt_array **arrays, int count, double limit) {
    BTI_CALL("bt_clip_by_value");
    bt_array *refused = refuse_limit(limit);
    if (!refused) refused = refuse_arrays(arrays, count);
    if (refused) return bti_fail_with(bti_array_error(refused));
    replace_arrays(arrays, count, clip_by_limit, &limit);
    return BT_OK;
}

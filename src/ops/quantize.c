/* Scales: floats stored in 8 bits, as 8-bit floats or integers, each of which counts a multiple of its scale. */
#include <berth/precision.h>

#include "ops/primitive.h"

/* The greatest number of a dtype; 0: it is no dtype of 8 bits. */
static double greatest_of(bt_dtype dtype) {
    switch (dtype) {
    case BT_F8E4M3: return 448;
    case BT_F8E5M2: return 57344;
    case BT_I8: return 127;
    case BT_U8: return 255;
    default: return 0;
    }
}

static bool is_stored(bt_dtype dtype, bt_array **poison) {
    if (greatest_of(dtype) > 0) return true;
    *poison =
        bti_poisonf(BT_INVALID_ARGUMENT, "stores BT_F8E4M3, BT_F8E5M2, BT_I8 or BT_U8, not %s", bt_dtype_name(dtype));
    return false;
}

/* Scales are floats, or numbers without a dtype; x is a real number of any kind; both in float32. */
static bool take(bt_array **x, bt_array **scale, bt_array **poison) {
    *poison = bti_is_complex(*x) ? bti_refuse_complex(bti_dtype(*x)) : NULL;
    if (*poison) return false;
    if (*scale && !bti_dtype_is_float(bti_dtype(*scale)) && !bti_node_of(*scale)->weak)
        *poison =
            bti_poisonf(BT_INVALID_ARGUMENT, "the scale is %s; it must be a float", bt_dtype_name(bti_dtype(*scale)));
    if (*poison) return false;
    *x = bt_cast(*x, BT_F32);
    if (*scale) *scale = bti_cast(*scale, BT_F32);
    return true;
}

bt_array *bt_quantize_scale(bt_array *x, bt_axes axes, bt_dtype dtype) {
    BTI_PUBLIC("bt_quantize_scale");
    BTI_NEED(x);
    uint32_t mask;
    bt_array *poison, *none = NULL;
    if (!bti_axes_mask(x, axes, &mask, &poison) || !is_stored(dtype, &poison) || !take(&x, &none, &poison))
        BTI_RETURN(poison);
    bt_array *greatest = bti_reduce_or_start(BTI_OP_max, bti_unary(BTI_OP_abs, x), mask);
    if (bti_array_error(greatest)) BTI_RETURN(greatest);
    bt_array *scale = bti_binary(BTI_OP_div, greatest, bti_scalar_like(greatest_of(dtype), greatest));
    bt_array *is_none = bti_binary(BTI_OP_le, scale, bti_scalar_like(0, scale)); /* -inf: no elements; NaN stays */
    BTI_RETURN(bti_where(is_none, bti_scalar_like(1, scale), scale));
}

bt_array *bt_quantize(bt_array *x, bt_array *scale, bt_dtype dtype) {
    BTI_PUBLIC("bt_quantize");
    BTI_NEED(x, scale);
    bt_array *poison;
    if (!is_stored(dtype, &poison) || !take(&x, &scale, &poison)) BTI_RETURN(poison);
    bool whole = !bti_dtype_is_storage(dtype);
    double most = greatest_of(dtype), least = dtype == BT_U8 ? 0 : whole ? -most - 1 : -most;
    bt_array *counted = bti_binary(BTI_OP_div, x, scale);
    if (bti_array_error(counted)) BTI_RETURN(counted);
    if (whole) counted = bti_unary(BTI_OP_round, counted);
    counted = bti_binary(BTI_OP_minimum, counted, bti_scalar_like(most, counted));
    BTI_RETURN(bt_cast(bti_binary(BTI_OP_maximum, counted, bti_scalar_like(least, counted)), dtype));
}

bt_array *bt_dequantize(bt_array *x, bt_array *scale) {
    BTI_PUBLIC("bt_dequantize");
    BTI_NEED(x, scale);
    bt_array *poison;
    if (!take(&x, &scale, &poison)) BTI_RETURN(poison);
    BTI_RETURN(bti_binary(BTI_OP_mul, x, scale));
}

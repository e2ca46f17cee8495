/* Pooling: sums and maxima of slices, one per place of the window; so gradients come by themselves. */
#include "ops/primitive.h"

static bool pool_fits(const bt_array *x, const int64_t window[2], const int64_t stride[2], bt_array **poison) {
    if (bti_rank(x) != 4 || !window) {
        *poison = bti_poisonf(BT_INVALID_ARGUMENT,
                              "x has shape %s; it needs four axes [N, C, H, W], and a window [rows, columns]",
                              bti_shape_string(x).text);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        int64_t size = bti_shape(x)[2 + i];
        bool symbolic = bti_size_is_symbolic(size);
        if (!symbolic && window[i] >= 1 && window[i] <= size && (!stride || stride[i] >= 1)) continue;
        *poison =
            symbolic
                ? bti_poisonf(BT_UNIMPLEMENTED, "axis %d of shape %s has no known size here", 2 + i,
                              bti_shape_string(x).text)
                : bti_poisonf(BT_INVALID_ARGUMENT,
                              "window %lld by stride %lld on axis %d of shape %s; the window must be 1 to %lld, the "
                              "stride 1 or more",
                              (long long)window[i], (long long)(stride ? stride[i] : window[i]), 2 + i,
                              bti_shape_string(x).text, (long long)size);
        return false;
    }
    return true;
}

/* Windows along one axis: op over slices that begin at 0, 1, ... */
static bt_array *pool_axis(bti_op op, bt_array *x, int axis, int64_t window, int64_t stride) {
    int64_t count = (bti_shape(x)[axis] - window) / stride + 1;
    bt_array *result = NULL;
    for (int64_t i = 0; i < window; i++) {
        bt_array *part = bti_slice_part(x, axis, i, stride, count);
        if (bti_array_error(part)) return part;
        result = result ? bti_binary(op, result, part) : part;
    }
    return result;
}

/* First the rows of the window, then its columns. */
static bt_array *pool_windows(bti_op op, bt_array *x, const int64_t window[2], const int64_t stride[2]) {
    if (!stride) stride = window;
    x = pool_axis(op, x, 2, window[0], stride[0]);
    return bti_array_error(x) ? x : pool_axis(op, x, 3, window[1], stride[1]);
}

bt_array *bt_max_pool2d(bt_array *x, const int64_t window[2], const int64_t stride[2]) {
    BTI_PUBLIC("bt_max_pool2d");
    BTI_NEED(x);
    bt_array *poison;
    if (!pool_fits(x, window, stride, &poison)) BTI_RETURN(poison);
    BTI_RETURN(pool_windows(BTI_OP_maximum, x, window, stride));
}

bt_array *bt_avg_pool2d(bt_array *x, const int64_t window[2], const int64_t stride[2]) {
    BTI_PUBLIC("bt_avg_pool2d");
    BTI_NEED(x);
    bt_array *poison;
    if (!pool_fits(x, window, stride, &poison)) BTI_RETURN(poison);
    x = bti_float(x);
    bt_array *sum = pool_windows(BTI_OP_add, bti_widen(x), window, stride);
    if (bti_array_error(sum)) BTI_RETURN(sum);
    double elements = (double)window[0] * (double)window[1];
    BTI_RETURN(bti_narrow(bti_binary(BTI_OP_div, sum, bti_scalar_like(elements, sum)), bti_dtype(x)));
}

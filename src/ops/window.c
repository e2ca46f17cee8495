/* Convolution and pooling: sums, products and maxima of slices, one per place of the window; so gradients come by
 * themselves. */
#include "ops/primitive.h"

/* --- convolution ---------------------------------------------------------------------------------------------------- */

/* x [N, C, H, W] and w [O, C/groups, KH, KW], checked: rows and columns (0 and 1) of the window and the result. */
typedef struct conv {
    int64_t n, c, o, groups;
    int64_t kernel[2], out[2], stride[2];
} conv;

static bt_array *conv_refused(const bt_array *x, const bt_array *w, const char *why) {
    return bti_poisonf(BT_INVALID_ARGUMENT, "x %s and w %s: %s", bti_shape_string(x).text, bti_shape_string(w).text,
                       why);
}

static bool sizes_known(const bt_array *x, int from) {
    for (int i = from; i < bti_rank(x); i++)
        if (bti_size_is_symbolic(bti_shape(x)[i])) return false;
    return true;
}

static bool conv_fits(const bt_array *x, const bt_array *w, int64_t groups, conv *c, bt_array **poison) {
    const char *why = NULL;
    if (bti_rank(x) != 4 || bti_rank(w) != 4)
        why = "both need four axes: x [N, C, H, W], w [O, C/groups, KH, KW]";
    else if (!sizes_known(x, 1) || !sizes_known(w, 0))
        why = "only the first axis of x may have an unknown size";
    else if (groups < 1)
        why = "groups must be 1 or more";
    else if (bti_shape(x)[1] % groups || bti_shape(w)[0] % groups)
        why = "groups must divide the channels of x (axis 1) and the outputs of w (axis 0)";
    else if (bti_shape(x)[1] / groups != bti_shape(w)[1])
        why = "axis 1 of w must be the channels of x (axis 1), divided by groups";
    if (why) {
        *poison = conv_refused(x, w, why);
        return false;
    }
    *c = (conv){.n = bti_shape(x)[0],
                .c = bti_shape(x)[1],
                .o = bti_shape(w)[0],
                .groups = groups,
                .kernel = {bti_shape(w)[2], bti_shape(w)[3]}};
    return true;
}

/* One way (0: rows, 1: columns): the size of the result. */
static bool conv_way_fits(const bt_array *x, const bt_array *w, conv *c, int way, int64_t stride, int64_t low,
                          int64_t high, bt_array **poison) {
    const char *why = NULL;
    int64_t padded;
    if (stride < 1)
        why = "strides must be 1 or more";
    else if (low < 0 || high < 0)
        why = "pads must be 0 or more";
    else if (__builtin_add_overflow(bti_shape(x)[2 + way], low, &padded) ||
             __builtin_add_overflow(padded, high, &padded))
        why = "pads are too great";
    else if (c->kernel[way] < 1 || c->kernel[way] > padded)
        why = "the kernel must have 1 or more rows and columns and no more than the padded x";
    if (why) {
        *poison = conv_refused(x, w, why);
        return false;
    }
    c->stride[way] = stride;
    c->out[way] = (padded - c->kernel[way]) / stride + 1;
    return true;
}

/* What one place (row, column) of the kernel gives: [N, groups, O/groups, OH*OW]. x is padded. */
static bt_array *conv_place(bt_array *x, bt_array *w, const conv *c, int64_t row, int64_t column) {
    int64_t g = c->groups, spots = bti_size_mul(c->out[0], c->out[1]);
    x = bti_slice(x, (int64_t[]){0, 0, row, column}, (int64_t[]){1, 1, c->stride[0], c->stride[1]},
                  (int64_t[]){c->n, c->c, c->out[0], c->out[1]});
    x = bti_reshape(x, 4, (int64_t[]){c->n, g, c->c / g, spots});
    w = bti_slice(w, (int64_t[]){0, 0, row, column}, (int64_t[]){1, 1, 1, 1}, (int64_t[]){c->o, c->c / g, 1, 1});
    w = bti_reshape(w, 4, (int64_t[]){1, g, c->o / g, c->c / g});
    w = bti_expand(w, 4, (int64_t[]){c->n, g, c->o / g, c->c / g});
    return bti_record_matmul(w, x);
}

bt_array *bt_conv2d(bt_array *x, bt_array *w, const int64_t stride[2], const int64_t pad_low[2],
                    const int64_t pad_high[2], int64_t groups) {
    BTI_PUBLIC("bt_conv2d");
    BTI_NEED(x, w);
    conv c;
    bt_array *poison;
    if (!conv_fits(x, w, groups, &c, &poison)) BTI_RETURN(poison);
    int64_t low[4] = {0}, high[4] = {0};
    for (int i = 0; i < 2; i++) {
        low[2 + i] = pad_low ? pad_low[i] : 0;
        high[2 + i] = pad_high ? pad_high[i] : 0;
        if (!conv_way_fits(x, w, &c, i, stride ? stride[i] : 1, low[2 + i], high[2 + i], &poison)) BTI_RETURN(poison);
    }
    bool weak;
    bt_dtype dtype = bti_meet((bt_array *[]){x, w}, 2, &weak);
    x = bti_cast(x, dtype); /* small floats are added up in float32 */
    x = bti_pad(bti_widen(x), low, high, bti_scalar(0, bti_dtype(bti_widen(x))));
    w = bti_widen(bti_cast(w, dtype));
    bt_array *sum = NULL;
    for (int64_t row = 0; row < c.kernel[0]; row++)
        for (int64_t column = 0; column < c.kernel[1]; column++) {
            bt_array *part = conv_place(x, w, &c, row, column);
            if (bti_array_error(part)) BTI_RETURN(part);
            sum = sum ? bti_binary(BTI_OP_add, sum, part) : part;
        }
    BTI_RETURN(bti_narrow(bti_reshape(sum, 4, (int64_t[]){c.n, c.o, c.out[0], c.out[1]}), dtype));
}

/* --- pooling -------------------------------------------------------------------------------------------------------- */

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

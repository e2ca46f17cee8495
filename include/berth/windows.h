/* berth/windows.h: convolution and pooling. */
#ifndef BERTH_WINDOWS_H
#define BERTH_WINDOWS_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- images [N, C, H, W], and other numbers of axes ----------------------------------------------------------------------------------- */

/* Cross-correlation: x [N, C, H, W], w [O, C/groups, KH, KW] -> [N, O, OH, OW]: bt_conv along two axes. stride, pad_low and pad_high are of
 * height and width; NULL: stride 1, no padding. */
BT_API bt_array *bt_conv2d(bt_array *x, bt_array *w, const int64_t stride[2], const int64_t pad_low[2],
                           const int64_t pad_high[2], int64_t groups);
#define bt_conv2d(...) BTI_AT(bt_array *, bt_conv2d(__VA_ARGS__))

/* Options of convolutions; by axis behind the first two. 0 means the default in brackets. By name: `bt_conv(x, w, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1})`; an axis that a list does not reach has the default. */
typedef struct bt_conv_options {
    size_t size BTI_INITIALLY(sizeof(bt_conv_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t stride[3] BTI_INITIALLY({});     /* [1] */
    int64_t pad_low[3] BTI_INITIALLY({});    /* zeros before x [0] */
    int64_t pad_high[3] BTI_INITIALLY({});   /* zeros behind x [0] */
    int64_t dilation[3] BTI_INITIALLY({});   /* from one element of the kernel to the next [1] */
    int64_t groups BTI_INITIALLY(0);         /* [1] */
    int64_t output_pad[3] BTI_INITIALLY({}); /* of bt_conv_transposed: so much longer at the end [0] */
} bt_conv_options;
#define BT_CONV(...) BTI_OPTIONS(bt_conv_options, __VA_ARGS__)

/* Cross-correlation along one, two or three axes: x [N, C, L], w [O, C/groups, K] -> [N, O, OL]; [N, C, H, W]; [N, C, D, H, W]. With as many groups as channels
 * it is depthwise. An axis of y has (L + pads - dilation * (K - 1) - 1) / stride + 1 places, rounded down. Of the function itself NULL means the defaults. Floats and integers; float16
 * and bfloat16 are summed in float32. The batch (axis 0) alone may have an unknown size. */
BT_API bt_array *bt_conv(bt_array *x, bt_array *w, const bt_conv_options *options);
/* The transposed convolution: y [N, O, ...], w [O, C/groups, ...] -> x [N, C, ...], to which each element of y is added, times w, where bt_conv with the same options
 * reads (PyTorch's ConvTranspose). An axis of x has (L - 1) * stride - pads + dilation * (K - 1) + 1 + output_pad places. */
BT_API bt_array *bt_conv_transposed(bt_array *y, bt_array *w, const bt_conv_options *options);
/* Options of pooling, by axis behind the first two; 0 means the default in brackets. By name: `bt_max_pool(x, .window = {3, 3}, .stride = {2, 2})`. */
typedef struct bt_pool_options {
    size_t size BTI_INITIALLY(sizeof(bt_pool_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t window[3] BTI_INITIALLY({});    /* needed */
    int64_t stride[3] BTI_INITIALLY({});    /* [the window] */
    int64_t pad_low[3] BTI_INITIALLY({});   /* places before x [0]; less than the window */
    int64_t pad_high[3] BTI_INITIALLY({});  /* behind it [0] */
    int64_t dilation[3] BTI_INITIALLY({});  /* from one element of the window to the next [1] */
    bool exclude_pads BTI_INITIALLY(false); /* averages are of elements of x alone; else pads count as zeros */
} bt_pool_options;
#define BT_POOL(...) BTI_OPTIONS(bt_pool_options, __VA_ARGS__)

/* The greatest element of each window along one, two or three axes: [N, C, L], [N, C, H, W], [N, C, D, H, W]; an axis becomes (L + pads - dilation * (window - 1) - 1) / stride + 1 places, rounded
 * down. The axes behind the first two have known sizes. Pads are never the greatest. */
BT_API bt_array *bt_max_pool(bt_array *x, const bt_pool_options *options);
/* The mean of each window, of floats; float16 and bfloat16 are summed in float32. Otherwise as bt_max_pool. */
BT_API bt_array *bt_avg_pool(bt_array *x, const bt_pool_options *options);
#ifndef BERTH_BUILDING
#define BTI_CONV(function, x, w, ...) function(x, w, BT_CONV(__VA_ARGS__))
#define BTI_POOL(function, x, ...) function(x, BT_POOL(__VA_ARGS__))
#define bt_conv(...) BTI_AT(bt_array *, BTI_CONV(bt_conv, __VA_ARGS__, ))
#define bt_conv_transposed(...) BTI_AT(bt_array *, BTI_CONV(bt_conv_transposed, __VA_ARGS__, ))
#define bt_max_pool(...) BTI_AT(bt_array *, BTI_POOL(bt_max_pool, __VA_ARGS__, ))
#define bt_avg_pool(...) BTI_AT(bt_array *, BTI_POOL(bt_avg_pool, __VA_ARGS__, ))
#endif
/* The greatest elements of windows by the sizes of the result, [N, C, ...] -> [N, C, sizes...]: place i of an axis is the greatest of its elements from floor(i * L / size) up to
 * ceil((i + 1) * L / size). There may be more places than elements. The axes behind the first two have known sizes (UNIMPLEMENTED). */
BT_API bt_array *bt_adaptive_max_pool(bt_array *x, bt_shape sizes);
#define bt_adaptive_max_pool(...) BTI_AT(bt_array *, bt_adaptive_max_pool(__VA_ARGS__))
/* The mean in the place of the greatest element: `bt_adaptive_avg_pool(x, BT_SHAPE(1, 1))` is the mean of each channel. Otherwise as
 * bt_adaptive_max_pool. */
BT_API bt_array *bt_adaptive_avg_pool(bt_array *x, bt_shape sizes);
#define bt_adaptive_avg_pool(...) BTI_AT(bt_array *, bt_adaptive_avg_pool(__VA_ARGS__))
/* bt_max_pool of images, [N, C, H, W] -> [N, C, OH, OW], without padding. stride NULL: the window. */
BT_API bt_array *bt_max_pool2d(bt_array *x, const int64_t window[2], const int64_t stride[2]);
#define bt_max_pool2d(...) BTI_AT(bt_array *, bt_max_pool2d(__VA_ARGS__))
/* The mean of each window. Otherwise as bt_max_pool2d. */
BT_API bt_array *bt_avg_pool2d(bt_array *x, const int64_t window[2], const int64_t stride[2]);
#define bt_avg_pool2d(...) BTI_AT(bt_array *, bt_avg_pool2d(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif

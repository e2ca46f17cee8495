/* Convolutions, and the two operations that are their gradients, against loops over indices. */
#include <stdio.h>
#include <string.h>

#include "support/conformance.h"

typedef struct window {
    int axes;
    int64_t images, channels, outputs, groups; /* channels and outputs of a group */
    int64_t size[3], kernel[3], stride[3], low[3], high[3], dilation[3];
} window;

static const window windows[] = {
    {1, 2, 1, 1, 1, {5}, {3}, {1}, {0}, {0}, {1}},
    {1, 1, 2, 3, 1, {7}, {2}, {3}, {1}, {2}, {2}},
    {1, 2, 1, 2, 3, {4}, {2}, {1}, {0}, {1}, {1}}, /* groups */
    {1, 1, 1, 1, 1, {2}, {1}, {1}, {3}, {2}, {1}}, /* places that meet nothing */
    {1, 0, 2, 2, 1, {4}, {2}, {1}, {0}, {0}, {1}}, /* no images */
    {1, 2, 0, 2, 1, {4}, {2}, {1}, {0}, {0}, {1}}, /* no channels: zeros */
    {2, 1, 2, 2, 1, {4, 3}, {3, 2}, {1, 1}, {1, 0}, {1, 1}, {1, 1}},
    {2, 2, 1, 1, 2, {5, 4}, {2, 3}, {2, 1}, {0, 1}, {0, 1}, {2, 1}}, /* depthwise */
    {2, 1, 2, 2, 1, {3, 3}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
    {3, 1, 1, 2, 1, {3, 2, 3}, {2, 2, 1}, {1, 1, 2}, {0, 1, 0}, {0, 0, 1}, {1, 1, 1}},
};
enum { X, W, Y, ARRAYS };

static void shapes_of(const window *of, bt_shape *shape) {
    shape[X] = (bt_shape){2 + of->axes, {of->images, of->groups * of->channels}};
    shape[W] = (bt_shape){2 + of->axes, {of->groups * of->outputs, of->channels}};
    shape[Y] = (bt_shape){2 + of->axes, {of->images, of->groups * of->outputs}};
    for (int i = 0; i < of->axes; i++) {
        shape[X].size[2 + i] = of->size[i];
        shape[W].size[2 + i] = of->kernel[i];
        shape[Y].size[2 + i] =
            (of->size[i] + of->low[i] + of->high[i] - of->dilation[i] * (of->kernel[i] - 1) - 1) / of->stride[i] + 1;
    }
}

/* Each product of an element of y, one of w and one of x that the kernel meets is added to the one that is made. */
static void add_products(const window *of, const bt_shape *shape, const double *const *from, int made, double *to) {
    int64_t at[ARRAYS][BT_MAX_RANK] = {{0}};
    for (int64_t c = 0; c < of->channels; c++) {
        memset(at[Y], 0, sizeof at[Y]);
        do {
            int64_t group = at[Y][1] / of->outputs;
            memset(at[W], 0, sizeof at[W]);
            at[X][0] = at[Y][0], at[X][1] = group * of->channels + c;
            do {
                if (at[W][0] != at[Y][1] || at[W][1] != c) continue;
                bool meets = true;
                for (int i = 0; i < of->axes; i++) {
                    at[X][2 + i] = at[Y][2 + i] * of->stride[i] - of->low[i] + at[W][2 + i] * of->dilation[i];
                    meets = meets && at[X][2 + i] >= 0 && at[X][2 + i] < of->size[i];
                }
                if (!meets) continue;
                double product = 1;
                for (int a = 0; a < ARRAYS; a++)
                    if (a != made) product *= from[a][host_offset(shape[a], at[a])];
                to[host_offset(shape[made], at[made])] += product;
            } while (host_next(shape[W], at[W]));
        } while (host_next(shape[Y], at[Y]));
    }
}

static bt_array *made_of(const window *of, bt_array *x, bt_array *w, bt_array *y, bt_shape shape_of_w) {
    bt_conv_options options = *BT_CONV(.groups = of->groups);
    memcpy(options.stride, of->stride, sizeof options.stride);
    memcpy(options.pad_low, of->low, sizeof options.pad_low);
    memcpy(options.pad_high, of->high, sizeof options.pad_high);
    memcpy(options.dilation, of->dilation, sizeof options.dilation);
    if (!y) return (bt_conv)(x, w, &options);
    if (!x) { /* so long as x was: what the strides leave over */
        for (int i = 0; i < of->axes; i++)
            options.output_pad[i] =
                (of->size[i] + of->low[i] + of->high[i] - of->dilation[i] * (of->kernel[i] - 1) - 1) % of->stride[i];
        return (bt_conv_transposed)(y, w, &options);
    }
    bt_array *made;
    w = bt_full_shape(0, bt_dtype_of(x), shape_of_w);
    bt_array *loss = bt_sum(bt_mul((bt_conv)(x, w, &options), y), BT_ALL, false);
    return bt_grad(loss, &w, 1, &made) == BT_OK ? made : NULL;
}

static void run_conv(const row *of) {
    int made = !strcmp(of->name, "conv") ? Y : !strcmp(of->name, "conv_data") ? X : W;
    unsigned seed = 21;
    static host arrays[ARRAYS], want;
    EACH_DTYPE(dtype, of)
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) EACH_LAYOUT(lies) {
            const window *here = &windows[i];
            bt_shape shape[ARRAYS];
            if (made == W && !dtype_is_float(dtype)) continue; /* a gradient */
            if (!case_begin("%s/%s/%s %zu", of->name, bt_dtype_name(dtype), layout_names[lies], i)) continue;
            shapes_of(here, shape);
            bt_array *placed[ARRAYS] = {NULL};
            const double *from[ARRAYS] = {NULL};
            BT_SCOPE {
                for (int a = 0; a < ARRAYS; a++) {
                    if (a == made) continue;
                    arrays[a] = host_draw(dtype, shape[a], of->low / 2, of->high / 2, (layout)lies, &seed);
                    from[a] = arrays[a].at;
                    placed[a] = host_place(&arrays[a], (layout)lies);
                }
                want = host_new(dtype, shape[made]);
                add_products(here, shape, from, made, want.at);
                bt_array *got = made_of(here, placed[X], placed[W], placed[Y], shape[W]);
                if (made == W && !got) got = bt_zeros(dtype, 0);
                case_end(got, &want, 1e-5);
            }
        }
}

const cases conv_cases[] = {{"conv", run_conv}, {"conv_data", run_conv}, {"conv_weights", run_conv}, {NULL, NULL}};

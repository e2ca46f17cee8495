#include "reference/conv.h"

#include "ir/dtype.h"
#include "reference/classes.h"
#include "reference/operand.h"

static bti_operand with_three_axes(const bti_operand *of) {
    bti_operand wide = *of;
    int lacking = 2 + BTI_CONV_AXES - of->rank;
    wide.rank = 2 + BTI_CONV_AXES;
    for (int i = 0; i < BTI_CONV_AXES; i++) {
        bool is_there = i >= lacking;
        wide.shape[2 + i] = is_there ? of->shape[2 + i - lacking] : 1;
        wide.stride[2 + i] = is_there ? of->stride[2 + i - lacking] : 0;
    }
    return wide;
}

bti_conv bti_conv_of(const bti_work *work) {
    bti_conv c = {.made = bti_conv_made(work->op), .groups = work->attr->window.groups};
    if (!c.groups) c.groups = 1; /* there are no elements */
    for (int i = 0; i < 2; i++) c.array[bti_conv_input(work->op, i)] = with_three_axes(&work->inputs[i]);
    c.array[c.made] = with_three_axes(&work->output);
    c.images = c.array[BTI_CONV_X].shape[0];
    c.outputs = c.array[BTI_CONV_W].shape[0] / c.groups;
    c.channels = c.array[BTI_CONV_W].shape[1];
    for (int i = 0, lacking = 2 + BTI_CONV_AXES - work->output.rank; i < BTI_CONV_AXES; i++) {
        int from = i - lacking;
        c.x[i] = c.array[BTI_CONV_X].shape[2 + i];
        c.w[i] = c.array[BTI_CONV_W].shape[2 + i];
        c.y[i] = c.array[BTI_CONV_Y].shape[2 + i];
        c.stride[i] = from < 0 ? 1 : work->attr->window.stride[from];
        c.before[i] = from < 0 ? 0 : work->attr->window.before[from];
        c.dilation[i] = from < 0 ? 1 : work->attr->window.dilation[from];
    }
    return c;
}

void bti_conv_lay_last(bti_operand *image) {
    int64_t step = image->shape[1];
    for (int i = image->rank - 1; i > 1; step *= image->shape[i--]) image->stride[i] = step;
    image->stride[1] = 1;
    image->stride[0] = step;
}

bool bti_conv_lies_last(const bti_operand *image) {
    bti_operand last = *image;
    bti_conv_lay_last(&last);
    for (int i = 0; i < image->rank; i++)
        if (image->shape[i] > 1 && image->stride[i] != last.stride[i]) return false;
    return true;
}

bti_conv_product bti_conv_product_of(const bti_conv *c) {
    int64_t kernel = bti_conv_count(c->w), spots = c->images * bti_conv_count(c->y), taps = c->channels * kernel;
    if (c->made == BTI_CONV_X)
        return (bti_conv_product){c->channels, c->images * bti_conv_count(c->x), c->outputs * kernel};
    return c->made == BTI_CONV_Y ? (bti_conv_product){c->outputs, spots, taps}
                                 : (bti_conv_product){c->outputs, taps, spots};
}

/* --- sums of products ------------------------------------------------------------------------------------------------ */

/* An element is where a number of images (or outputs), one of channels (or outputs) and places say. */
static char *element(const bti_operand *of, int64_t first, int64_t second, const int64_t *place) {
    int64_t at = first * of->stride[0] + second * of->stride[1];
    for (int i = 0; i < BTI_CONV_AXES; i++) at += place[i] * of->stride[2 + i];
    return bti_address(of) + at * (int64_t)bt_dtype_size(of->dtype);
}

/* Floats are added up in float64, integers wrap. */
typedef struct total {
    double real;
    uint64_t whole;
} total;

static double real_at(bt_dtype dtype, const char *at) {
    bti_lane_block block;
    const void *value = bti_lane_block_read(&block, dtype, at, 0, 1);
    return bti_lane_of(dtype) == BTI_LANE_F32 ? (double)*(const float *)value : *(const double *)value;
}

static uint64_t whole_at(bt_dtype dtype, const char *at) {
    bti_lane_block block;
    return *(const uint64_t *)bti_lane_block_read(&block, dtype, at, 0, 1);
}

static void add_product(total *sum, bt_dtype dtype, const char *a, const char *b) {
    if (bti_dtype_is_float(dtype))
        sum->real += real_at(dtype, a) * real_at(dtype, b);
    else
        sum->whole += whole_at(dtype, a) * whole_at(dtype, b);
}

static void store(const total *sum, bt_dtype dtype, char *at) {
    if (bti_dtype_is_float(dtype))
        bti_lane_block_write(BTI_LANE_F64, &sum->real, dtype, at, 0, 1);
    else
        bti_lane_block_write(bti_lane_of(dtype), &sum->whole, dtype, at, 0, 1);
}

/* --- the three operations --------------------------------------------------------------------------------------------- */

/* The place after this one; false: it was the last. */
static bool next(int64_t *place, const int64_t *places) {
    for (int i = BTI_CONV_AXES - 1; i >= 0; i--) {
        if (++place[i] < places[i]) return true;
        place[i] = 0;
    }
    return false;
}

static bool all_met(const bti_conv *c, const int64_t *p, const int64_t *k, int64_t *met) {
    bool inside = true;
    for (int i = 0; i < BTI_CONV_AXES; i++) inside = (met[i] = bti_conv_met(c, i, p[i], k[i])) >= 0 && inside;
    return inside;
}

static bool all_meeting(const bti_conv *c, const int64_t *x, const int64_t *k, int64_t *meeting) {
    bool inside = true;
    for (int i = 0; i < BTI_CONV_AXES; i++) inside = (meeting[i] = bti_conv_meeting(c, i, x[i], k[i])) >= 0 && inside;
    return inside;
}

/* One element of y: over the channels of its group and the kernel. */
static total sum_of_y(const bti_conv *c, int64_t image, int64_t output, const int64_t *p) {
    const bti_operand *x = &c->array[BTI_CONV_X], *w = &c->array[BTI_CONV_W];
    int64_t first = output / c->outputs * c->channels, met[BTI_CONV_AXES];
    total sum = {0};
    for (int64_t channel = 0; channel < c->channels; channel++) {
        int64_t k[BTI_CONV_AXES] = {0};
        do
            if (all_met(c, p, k, met))
                add_product(&sum, x->dtype, element(x, image, first + channel, met), element(w, output, channel, k));
        while (next(k, c->w));
    }
    return sum;
}

/* Of x: over the outputs of its group and the kernel. */
static total sum_of_x(const bti_conv *c, int64_t image, int64_t channel, const int64_t *place) {
    const bti_operand *y = &c->array[BTI_CONV_Y], *w = &c->array[BTI_CONV_W];
    int64_t first = channel / c->channels * c->outputs, meeting[BTI_CONV_AXES];
    total sum = {0};
    for (int64_t output = first; output < first + c->outputs; output++) {
        int64_t k[BTI_CONV_AXES] = {0};
        do
            if (all_meeting(c, place, k, meeting))
                add_product(&sum, y->dtype, element(y, image, output, meeting),
                            element(w, output, channel % c->channels, k));
        while (next(k, c->w));
    }
    return sum;
}

/* Of w: over images and places of y. */
static total sum_of_w(const bti_conv *c, int64_t output, int64_t channel, const int64_t *k) {
    const bti_operand *x = &c->array[BTI_CONV_X], *y = &c->array[BTI_CONV_Y];
    int64_t from = output / c->outputs * c->channels + channel, met[BTI_CONV_AXES];
    total sum = {0};
    for (int64_t image = 0; image < c->images && bti_conv_count(c->y); image++) {
        int64_t p[BTI_CONV_AXES] = {0};
        do
            if (all_met(c, p, k, met))
                add_product(&sum, x->dtype, element(x, image, from, met), element(y, image, output, p));
        while (next(p, c->y));
    }
    return sum;
}

void bti_interpret_conv(const bti_work *work) {
    static total (*const sums[])(const bti_conv *, int64_t, int64_t, const int64_t *) = {
        [BTI_CONV_X] = sum_of_x, [BTI_CONV_W] = sum_of_w, [BTI_CONV_Y] = sum_of_y};
    bti_conv c = bti_conv_of(work);
    const bti_operand *out = &c.array[c.made];
    if (!bti_operand_count(out)) return;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++) {
            int64_t place[BTI_CONV_AXES] = {0};
            do {
                total sum = sums[c.made](&c, i, j, place);
                store(&sum, out->dtype, element(out, i, j, place));
            } while (next(place, out->shape + 2));
        }
}

/* --- kernels of one element ------------------------------------------------------------------------------------------- */

bool bti_conv_is_product(const bti_conv *c) {
    bool whole = true;
    for (int i = 0; i < BTI_CONV_AXES; i++)
        whole = whole && c->w[i] == 1 && c->stride[i] == 1 && c->before[i] == 0 && c->x[i] == c->y[i];
    return whole && c->made != BTI_CONV_W;
}

/* [images, groups, rows, columns]; kernels are the same for all images. */
static bti_operand stack(const bti_conv *c, bti_conv_array array, int64_t rows, int64_t columns) {
    int64_t each = rows * columns;
    const bti_operand *of = &c->array[array];
    return (bti_operand){of->address,
                         of->dtype,
                         4,
                         {c->images, c->groups, rows, columns},
                         {array == BTI_CONV_W ? 0 : c->groups * each, each, columns, 1}};
}

void bti_conv_product_operands(const bti_conv *c, bti_operand operands[3]) {
    int64_t places = bti_conv_count(c->x);
    bti_operand x = stack(c, BTI_CONV_X, c->channels, places), y = stack(c, BTI_CONV_Y, c->outputs, places),
                w = stack(c, BTI_CONV_W, c->outputs, c->channels), turned = w;
    turned.shape[2] = w.shape[3], turned.shape[3] = w.shape[2];
    turned.stride[2] = 1, turned.stride[3] = c->channels;
    bool makes_y = c->made == BTI_CONV_Y;
    operands[0] = makes_y ? w : turned;
    operands[1] = makes_y ? x : y;
    operands[2] = makes_y ? y : x;
}

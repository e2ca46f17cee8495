/* What work of a convolution (ir/conv.h) is about, with three axes of places whatever its arrays have: those that they lack come first, of one place. */
#ifndef BTI_REFERENCE_CONV_H
#define BTI_REFERENCE_CONV_H

#include "ir/conv.h"
#include "ir/work.h"

typedef struct bti_conv {
    int64_t images, groups, outputs, channels;                    /* outputs and channels: of a group */
    int64_t x[BTI_CONV_AXES], w[BTI_CONV_AXES], y[BTI_CONV_AXES]; /* places */
    int64_t stride[BTI_CONV_AXES], before[BTI_CONV_AXES], dilation[BTI_CONV_AXES];
    bti_operand array[BTI_CONV_ARRAYS]; /* of five axes: [N, C, ...], [O, C/groups, ...], [N, O, ...] */
    bti_conv_array made;
} bti_conv;

bti_conv bti_conv_of(const bti_work *work);
/* The elements of the kernel at one output and channel; the places of x, and of y, in one image and channel. */
static inline int64_t bti_conv_count(const int64_t places[BTI_CONV_AXES]) { return places[0] * places[1] * places[2]; }

/* Whether the channels of x or y (one of `array`) lie last, behind its places; one without gaps. Its strides when they do. */
bool bti_conv_lies_last(const bti_operand *image);
void bti_conv_lay_last(bti_operand *image);

/* The product of matrices that it is in each group: [rows, depth] times [depth, columns]. */
typedef struct bti_conv_product {
    int64_t rows, columns, depth;
} bti_conv_product;
bti_conv_product bti_conv_product_of(const bti_conv *c);

/* Whether y, or x, is one product for each image and group, of memory as it lies: the kernel has one element, which meets each place. */
bool bti_conv_is_product(const bti_conv *c);
/* The left and the right operand of that product and what it makes, [images, groups, rows, columns]; the arrays are dense. */
void bti_conv_product_operands(const bti_conv *c, bti_operand operands[3]);

/* Along an axis: the place of x that element k of the kernel meets at place p of y; -1: it is beside x. */
static inline int64_t bti_conv_met(const bti_conv *c, int axis, int64_t p, int64_t k) {
    int64_t at = p * c->stride[axis] - c->before[axis] + k * c->dilation[axis];
    return at < c->x[axis] ? (at < 0 ? -1 : at) : -1;
}
/* The place of y at which element k of the kernel meets place i of x; -1: none. */
static inline int64_t bti_conv_meeting(const bti_conv *c, int axis, int64_t i, int64_t k) {
    int64_t at = i + c->before[axis] - k * c->dilation[axis];
    if (at < 0 || at % c->stride[axis]) return -1;
    return at / c->stride[axis] < c->y[axis] ? at / c->stride[axis] : -1;
}

#endif

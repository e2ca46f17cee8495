/* Convolutions: y [N, O, ...] of x [N, C, ...] and w [O, C/groups, ...], with one to three axes of places behind the first two.
 *
 *     y[n, o, p] = sum over c of o's group and k of x[n, c, p * stride - before + k * dilation] * w[o, c, k]
 *
 * where x is 0 beside its places; a cross-correlation, as everywhere in the field. Each of three operations makes one of these arrays of the others: `conv` makes y of
 * x and w, `conv_data` x of y and w, `conv_weights` w of x and y. Each product of the sum has a factor in all three, so an operation is linear in both of its
 * inputs, and the gradient of an input is what the operation that makes it gives. */
#ifndef BTI_IR_CONV_H
#define BTI_IR_CONV_H

#include "ir/op.h"

typedef enum bti_conv_array { BTI_CONV_X, BTI_CONV_W, BTI_CONV_Y, BTI_CONV_ARRAYS } bti_conv_array;

static inline bool bti_op_is_conv(bti_op op) {
    return op == BTI_OP_conv || op == BTI_OP_conv_data || op == BTI_OP_conv_weights;
}
/* Which array input 0 or 1 is; which one it makes. */
static inline bti_conv_array bti_conv_input(bti_op op, int input) {
    if (input == 0) return op == BTI_OP_conv_data ? BTI_CONV_Y : BTI_CONV_X;
    return op == BTI_OP_conv_weights ? BTI_CONV_Y : BTI_CONV_W;
}
static inline bti_conv_array bti_conv_made(bti_op op) {
    return op == BTI_OP_conv ? BTI_CONV_Y : op == BTI_OP_conv_data ? BTI_CONV_X : BTI_CONV_W;
}
/* The operation that makes the array. */
static inline bti_op bti_conv_maker(bti_conv_array array) {
    return array == BTI_CONV_Y ? BTI_OP_conv : array == BTI_CONV_X ? BTI_OP_conv_data : BTI_OP_conv_weights;
}

#endif

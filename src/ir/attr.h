/* What an operation knows besides its inputs. A row of ops.def names the kind of its attributes: a member of this union. A node has room for
 * that member alone. No member has padding, so that equal ones have equal bytes. */
#ifndef BTI_IR_ATTR_H
#define BTI_IR_ATTR_H

#include "ir/op.h"
#include "ir/shape.h"
#include "ir/size.h"

#define BTI_CONV_AXES 3    /* beside images and channels */
#define BTI_MAX_NUMBERS 16 /* BT_MAX_CUSTOM_ATTRIBUTES */

typedef union bti_attr {
    struct {
        uint64_t bits; /* an int64, uint64 or double by dtype */
    } constant;
    struct {
        int64_t size; /* may be symbolic */
    } size;
    struct {
        int index; /* 0 or 1 */
    } word;
    struct {
        uint32_t axes;     /* a mask: bit i is axis i */
        uint32_t or_start; /* 1: of no elements it is the value that folding starts from */
    } fold;
    struct {
        int axis;
    } axis;
    struct {
        int axis;
        int reverse; /* 1: from the end */
    } running;
    struct {
        int axis;
        int k;
    } top;
    struct {
        int axis[BTI_MAX_RANK]; /* output axis i is input axis axis[i]; unused ones 0 */
    } permute;
    struct {
        int64_t start[BTI_MAX_RANK], step[BTI_MAX_RANK]; /* starts may be symbolic; unused ones 0 */
    } slice;
    struct {
        int64_t before[BTI_MAX_RANK]; /* may be symbolic; unused ones 0 */
    } pad;
    struct {
        int64_t groups; /* 1 or more, 0 of a batch of none; may be symbolic */
        /* By axis of x behind the first two: steps of the window, at least 1; elements before x that count as 0; steps between the window's elements, at least
         * 1. Unused ones 1, 0, 1. */
        int64_t stride[BTI_CONV_AXES], before[BTI_CONV_AXES], dilation[BTI_CONV_AXES];
        int64_t narrow; /* 1: the inputs are small floats that were widened, so products of eleven digits are exact */
    } window;
    struct {
        double scale;
        int64_t
            reads; /* BTI_READS_ALL, or up to the query's place, counted from the first key or from the last (ir/attention.h) */
    } attention;
    struct {
        int64_t length;      /* steps; may be symbolic */
        int64_t reverse;     /* 1: rows from the last */
        int carried, by_row; /* how many inputs are carried on; how many after them are given by their rows */
    } scan;
    struct {
        int64_t most;    /* steps; 0: any number; may be symbolic */
        int64_t carried; /* how many inputs the second region gives anew */
    } loop;
    struct {
        int index;
    } result;
    struct {
        int64_t replica, variable; /* the number of the shared variable */
    } value;
    struct {
        int64_t count, number[BTI_MAX_NUMBERS]; /* unused ones 0 */
    } custom;
} bti_attr;

/* The axis along which an operation of kind axis, running, top or fold (of one axis) works. */
static inline int bti_attr_axis(bti_op op, const bti_attr *attr) {
    switch (bti_op_info(op)->attr) {
    case BTI_ATTR_fold: return __builtin_ctz(attr->fold.axes);
    case BTI_ATTR_running: return attr->running.axis;
    case BTI_ATTR_top: return attr->top.axis;
    default: return attr->axis.axis;
    }
}

/* The same along the next axis: of kind axis, running or top. */
static inline bti_attr bti_attr_next_axis(bti_op op, const bti_attr *attr) {
    switch (bti_op_info(op)->attr) {
    case BTI_ATTR_running: return (bti_attr){.running = {attr->running.axis + 1, attr->running.reverse}};
    case BTI_ATTR_top: return (bti_attr){.top = {attr->top.axis + 1, attr->top.k}};
    default: return (bti_attr){.axis = {attr->axis.axis + 1}};
    }
}

/* The bytes of an operation's attributes; 0: it has none. */
size_t bti_attr_bytes(bti_op op);
bool bti_attr_equal(bti_op op, const bti_attr *a, const bti_attr *b);
uint64_t bti_attr_hash(bti_op op, const bti_attr *attr);
/* Those that may be symbolic: whether one is; and all of them under a binding, false where one has no number. */
bool bti_attr_is_unknown(bti_op op, const bti_attr *attr);
bool bti_attr_bind(bti_op op, const bti_binding *binding, bti_attr *attr);

#endif

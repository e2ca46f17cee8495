/* How a gradient passes through an operation: one rule per name in the gradient column of ir/ops.def, defined in the file of the
 * operation's family. */
#ifndef BTI_OPS_GRADIENT_H
#define BTI_OPS_GRADIENT_H

#include <berth/ops.h>

#include "array/handle.h"
#include "ir/op.h"

/* A gradient of x[0] that is zero but in a part of it: in a slice, or in rows by index. */
typedef struct bti_part {
    bt_array *g;       /* of the part; NULL: there is none */
    bt_array *indices; /* of the rows along `axis`; NULL: a slice, with a start and a step for each axis */
    int axis;
    int64_t start[BT_MAX_RANK], step[BT_MAX_RANK];
} bti_part;

/* The gradients of several arrays, given those that flow into them; NULL: zero. ys and xs may be nodes of a region. grads[] are arrays of the innermost
 * scope, NULL where they are zero. onto (or NULL), by x: an array that gradients of parts of x may be added to, one by one, instead of to zeros; NULL after the call
 * if they were: then it is in the gradient. */
typedef bt_status bti_differentiator(bt_array *const *ys, bt_array *const *cotangents, int y_count, bt_array *const *xs,
                                     int x_count, bt_array **onto, bt_array **grads);

/* One operation, y = op(x[0], x[1], ...), of whose result the gradient is known. All arrays live for the call; what the rule
 * makes belongs to the innermost scope. */
typedef struct bti_backward {
    bt_array *g; /* of y: its shape and dtype */
    bt_array *y;
    bt_array **x;
    int count;
    const bool *wanted; /* which gradients matter; the others need not be made */
    const bti_attr *attr;
    const struct bti_node *node; /* the operation as it was recorded: what it has besides inputs */
    /* Of a tuple: itself (retained by the caller); instead of g and y, the gradient of each result, NULL where it is zero. */
    struct bti_node *tuple;
    bt_array **results;
    int result_count;
    struct bti_node *const
        *known; /* by result: the node that stands for it, NULL where none is known; NULL: none are */
    bti_differentiator *differentiate;
    bt_array **gx; /* out: of the inputs' shapes; NULL (as before the call) where it is zero */
    bti_part part; /* out, instead of gx[0] */
} bti_backward;

typedef void bti_gradient_rule(bti_backward *b);

/* A rule that failed: what is wanted is poisoned by what the error record says. */
static inline void bti_poison_gradients_of(bti_backward *b) {
    for (int i = 0; i < b->count; i++)
        if (b->wanted[i]) b->gx[i] = bti_poison(bti_error_last());
}

/* The sum of gradients of parts of x, which have its dtype, and of `onto` (NULL: of nothing): an array of x's shape. Few parts are added to `onto` one by
 * one, each where it is. Changes `parts`. */
bt_array *bti_join_parts(bt_array *x, bt_array *onto, bti_part *parts, int count);

/* Makes a gradient of a part of y, which is a movement of x, that of a part of x; false: the part is none of x, and is unchanged. */
bool bti_part_of_input(const struct bti_node *y, const struct bti_node *x, bti_part *part);

#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, ...) \
    bti_gradient_rule bti_gradient_##gradient;
#include "ir/ops.def"
#undef BTI_OP

/* A rule that is an expression of g, y and the input x. */
#define BTI_GRADIENT_1(name, of_x)                   \
    void bti_gradient_##name(bti_backward *b) {      \
        bt_array *g = b->g, *x = b->x[0], *y = b->y; \
        (void)g, (void)x, (void)y;                   \
        b->gx[0] = of_x;                             \
    }
/* Two, of g, y and the inputs x0 and x1. */
#define BTI_GRADIENT_2(name, of_first, of_second)                    \
    void bti_gradient_##name(bti_backward *b) {                      \
        bt_array *g = b->g, *x0 = b->x[0], *x1 = b->x[1], *y = b->y; \
        (void)g, (void)x0, (void)x1, (void)y;                        \
        if (b->wanted[0]) b->gx[0] = of_first;                       \
        if (b->wanted[1]) b->gx[1] = of_second;                      \
    }

#endif

/* How a gradient passes through an operation: one rule per name in the gradient column of ir/ops.def. */
#ifndef BTI_OPS_GRADIENT_H
#define BTI_OPS_GRADIENT_H

#include <berth/ops.h>

#include "ir/op.h"

/* One operation, y = op(x[0], x[1], ...), of whose result the gradient is known. All arrays live for the call; what the rule
 * makes belongs to the innermost scope. */
typedef struct bti_backward {
    bt_array *g; /* of y: its shape and dtype */
    bt_array *y;
    bt_array **x;
    int count;
    const bool *wanted; /* which gradients matter; the others need not be made */
    const int64_t *attr;
    bt_array **gx; /* out: of the inputs' shapes; NULL (as before the call) where it is zero */
} bti_backward;

typedef void bti_gradient_rule(bti_backward *b);

/* NULL: the operation has no gradient. */
bti_gradient_rule *bti_gradient_of(bti_op op);

#endif

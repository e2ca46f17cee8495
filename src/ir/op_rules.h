/* The dtype and shape rules of the rows of ops.def. Recording asks them before it makes a node; a call of a function asks the shape rules
 * again once it has numbers for unknown sizes. */
#ifndef BTI_IR_OP_RULES_H
#define BTI_IR_OP_RULES_H

#include "base/str.h"
#include "ir/node.h"

/* floats stay, integers and bool become float32 (64-bit ones float64): the BTI_FLOAT rule. */
bt_dtype bti_float_of(bt_dtype dtype);
/* Inputs have been promoted to `met`: the dtype that they are cast to, and that of the result. False when the row does not take such
 * inputs, with the reason in *why. */
bool bti_op_dtypes(bti_op op, bt_dtype met, bt_dtype *in, bt_dtype *out, bti_str *why);

/* Equal, or one is not known yet: then the call of the function tells. */
static inline bool bti_may_equal(int64_t a, int64_t b) {
    return a == b || bti_size_is_symbolic(a) || bti_size_is_symbolic(b);
}
bool bti_shapes_may_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);

/* Whether the operation makes a result of that shape from such inputs; unknown sizes may turn out to fit.
 * False: with the reason in *why, which may be NULL. */
bool bti_op_shape_fits(bti_op op, int count, bti_node *const *inputs, int rank, const int64_t *shape,
                       const bti_attr *attr, bti_str *why);
/* The same for the operations that broadcasting records. */
bool bti_iota_fits(bt_dtype dtype, int64_t count, bti_str *why);
bool bti_reshape_fits(const bti_node *x, int rank, const int64_t *shape, bti_str *why);
bool bti_expand_fits(const bti_node *x, int rank, const int64_t *shape, bti_str *why);

#endif

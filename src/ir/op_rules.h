/* The dtype and shape rules of the rows of ops.def. Recording takes dtype and shape of a node from them; a call of a function asks the
 * shape rules again once it has numbers for unknown sizes. */
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

/* The shape of what the operation makes of such inputs; of a tuple (sort), that of each result. False when they do not fit, with the reason
 * in *why, which may be NULL; unknown sizes may turn out to fit.
 * In *result stand the dtype and, where the shape is the caller's to choose (the rules given, iota, reshape, expand, slice and pad), rank and shape,
 * which are checked. Other rules fill in rank and shape. Tuples of the rule `given` have bti_node_fits (ir/region.h) instead. */
bool bti_op_shape(bti_op op, int count, bti_node *const *inputs, const bti_attr *attr, bti_type *result, bti_str *why);
/* Whether x can be broadcast to the shape, aligned at the right: a recorded `expand` has the rank of its result, x may have a smaller one. */
bool bti_expand_fits(const bti_node *x, int rank, const int64_t *shape, bti_str *why);

/* Why an operation refuses complex numbers; and whether it does: those that move elements, and make them of parts, do not. */
void bti_complex_refusal(bti_str *why, bt_dtype dtype);
bool bti_op_takes_complex(bti_op op);

#endif

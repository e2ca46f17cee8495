#include "ops/table.h"

#include "array/handle.h"
#include "array/move.h"

/* Gradients of operations of no family: those that are constant everywhere, and copies. */
void bti_gradient_zero(bti_backward *b) { (void)b; }
BTI_GRADIENT_1(copy, bti_move(g, bti_node_of(x)->device, false))

#define bti_gradient_none NULL
static bti_gradient_rule *const gradient_rules[] = {
#define BTI_OP(name, class, arity, dtype_rule, gradient, ...) [BTI_OP_##name] = bti_gradient_##gradient,
#include "ir/ops.def"
#undef BTI_OP
};

bti_gradient_rule *bti_gradient_of(bti_op op) { return gradient_rules[op]; }

#include "ir/op.h"

const bti_op_row bti_op_rows[BTI_OP_COUNT] = {
#define BTI_OP(name, class, arity, dtype_rule, gradient, low, high, tolerance, doc) \
    {#name, class, arity, dtype_rule, #gradient, low, high, tolerance, doc},
#include "ir/ops.def"
#undef BTI_OP
};

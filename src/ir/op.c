#include "ir/op.h"

const bti_op_row bti_op_rows[BTI_OP_COUNT] = {
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, tangent, batch, low, high, tolerance, doc) \
    {#name, class, arity, BTI_ATTR_##attr, dtype_rule, #gradient, #tangent, #batch, low, high, tolerance, doc},
#include "ir/ops.def"
#undef BTI_OP
};

bool bti_op_is_transcendental(bti_op op) {
    static const bool is[BTI_OP_COUNT] = {
#define BTI_SCALAR_MATH(name, ...) [BTI_OP_##name] = true,
#define BTI_SCALAR_MATH_NUMBER(name, ...) [BTI_OP_##name] = true,
#include "ir/scalar.def"
        [BTI_OP_erfinv] = true};
    return is[op];
}

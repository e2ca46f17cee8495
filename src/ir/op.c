#include "ir/op.h"

#include <stdint.h>

const bti_op_row bti_op_rows[BTI_OP_COUNT] = {
#define BTI_OP(name, class, arity, attr, dtype_rule, shape_rule, gradient, tangent, batch, low, high, tolerance, doc) \
    {#name, class, arity, BTI_ATTR_##attr, dtype_rule, #gradient, #tangent, #batch, low, high, tolerance, doc},
#include "ir/ops.def"
#undef BTI_OP
};

static const struct instructions {
    uint16_t card, core; /* 0 and 0: one each */
} instructions[BTI_OP_COUNT] = {
#define BTI_INSTRUCTIONS(name, card, core) [BTI_OP_##name] = {card, core},
#include "ir/instructions.def"
};

int bti_op_instructions(bti_op op, bool on_core) {
    if (op == BTI_OP_const) return 0;
    int count = on_core ? instructions[op].core : instructions[op].card;
    return count ? count : 1;
}

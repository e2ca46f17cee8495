/* The rules that the columns of ir/ops.def name, by operation; NULL: it has none. */
#ifndef BTI_OPS_RULES_H
#define BTI_OPS_RULES_H

#include "ops/application.h"

bti_gradient_rule *bti_gradient_rule_of(bti_op op);
bti_transform_rule *bti_tangent_rule_of(bti_op op);
bti_transform_rule *bti_batch_rule_of(bti_op op);

#endif

/* The columns of ir/ops.def that name functions of the families, as tables. */
#ifndef BTI_OPS_TABLE_H
#define BTI_OPS_TABLE_H

#include "ops/gradient.h"

/* NULL: the operation has no gradient. */
bti_gradient_rule *bti_gradient_of(bti_op op);

#endif

/* What one result of an operation is. */
#ifndef BTI_IR_TYPE_H
#define BTI_IR_TYPE_H

#include "ir/dtype.h"
#include "ir/shape.h"

typedef struct bti_type {
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
} bti_type;

#endif

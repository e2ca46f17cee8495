/* One operation over operands in memory, as drivers and the interpreter are given it. */
#ifndef BTI_IR_WORK_H
#define BTI_IR_WORK_H

#include <stdatomic.h>

#include "ir/attr.h"

/* One operand at a launch. The address is the driver's (for cpu: a pointer) of element [0, 0, ...]; strides
 * count elements and may be 0 or negative. */
typedef struct bti_operand {
    uint64_t address;
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
    int64_t stride[BTI_MAX_RANK];
} bti_operand;

/* Memory for an input in a layout of the driver's own, which stays with the input: a later launch of the same work on the same elements finds it as it was left. */
#define BTI_PACKED_REFUSED 2 /* the driver does not need it, or needs more */
typedef struct bti_work_packed {
    uint64_t address;
    size_t bytes;
    /* 0: nothing was left yet; 1: a launch, maybe this one, is about to leave something; BTI_PACKED_REFUSED; greater: what was left, by a number of the driver's. */
    atomic_uint_fast64_t *form;
} bti_work_packed;

typedef struct bti_work {
    bti_op op;
    int input_count;
    const bti_operand *inputs;
    /* Never overlaps an input, unless elementwise and the same element for element, or an update (bti_op_updates) over its first input, element for
     * element. Of a tuple its first result; `others` are those behind it. A result that nobody reads has no elements. */
    bti_operand output;
    const bti_operand *others;
    int other_count;
    const bti_attr *attr;          /* NULL: the operation has none */
    const bti_work_packed *packed; /* for the second input; NULL: none */
} bti_work;

/* An update that is written over what it changes: the rest is there. */
static inline bool bti_work_is_in_place(const bti_work *work) {
    return work->inputs[0].address == work->output.address;
}

#endif

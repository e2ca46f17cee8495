/* Where the operands of a run's steps lie. */
#ifndef BTI_EXEC_BOXES_H
#define BTI_EXEC_BOXES_H

#include "exec/ready.h"

/* run: NULL: before there is one, as if all memory began at 0, to which it is aligned alike. */
static inline uint64_t bti_run_address(const bti_run *run, const bti_value *value) {
    if (value->storage < 0) return (uint64_t)value->layout.offset;
    uint64_t address = run ? run->addresses[value->storage] : 0;
    return value->layout.offset ? address + (uint64_t)value->layout.offset * bt_dtype_size(value->dtype) : address;
}
/* Box `number` of a step with a kernel. */
void bti_run_box(const bti_plan *plan, const bti_run *run, const bti_step *step, int number, bti_box *box);

#endif

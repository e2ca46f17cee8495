/* Copies of strided arrays on the cores. */
#ifndef BTI_DRIVERS_CPU_COPY_H
#define BTI_DRIVERS_CPU_COPY_H

#include "ir/work.h"

/* Copies the elements of `from` to `to`, of the same shape and dtype. Transposed copies go in square blocks. */
void bti_cpu_copy(const bti_operand *to, const bti_operand *from);

/* The bytes that make a piece of work worth a core, and the items of `bytes_each` in such a piece. */
#define BTI_COPY_PIECE ((int64_t)128 << 10)
static inline int64_t bti_copy_grain(int64_t bytes_each) {
    return bytes_each < BTI_COPY_PIECE ? BTI_COPY_PIECE / (bytes_each + 1) + 1 : 1;
}

#endif

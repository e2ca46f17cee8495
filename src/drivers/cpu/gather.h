/* Data moved by rule or index, and what goes row by row, over the cores; results are the interpreter's, bit for bit. */
#ifndef BTI_DRIVERS_GATHER_H
#define BTI_DRIVERS_GATHER_H

#include "ir/work.h"

/* The operations of the class BTI_GATHER, cumsum, argmax and argmin; reshape and copy. RESOURCE_EXHAUSTED as the
 * interpreter. */
bt_status bti_gather(const bti_work *work);

/* Elements one by one (copy.c): same shape, same dtype; what lies transposed goes in blocks. */
void bti_gather_copy(const bti_operand *to, const bti_operand *from);

/* Bytes that make a piece of work worth a core. */
#define BTI_GATHER_PIECE ((int64_t)128 << 10)
static inline int64_t bti_gather_grain(int64_t bytes_each) {
    return bytes_each < BTI_GATHER_PIECE ? BTI_GATHER_PIECE / (bytes_each + 1) + 1 : 1;
}

#endif

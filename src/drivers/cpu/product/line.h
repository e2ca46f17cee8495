/* Our own products of a matrix and a few vectors. Each element of the result is a sum of 8 partial sums, whose order depends on k alone
 * (vector/line_loops.h): all targets give the same bits, whichever axis of the matrix is contiguous, and however the result is cut. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_LINE_H
#define BTI_DRIVERS_CPU_PRODUCT_LINE_H

#include "drivers/cpu/product/tile.h"

/* The matrix is [count, depth], the vectors [vectors, depth], the result [vectors, count]. */
typedef struct bti_line_task {
    bti_target target;
    bt_dtype dtype;
    int64_t vectors, count, depth;
    bti_matrix matrix, x, out;
} bti_line_task;

/* Floats, integers of 32 and 64 bits. */
bool bti_line_has(bt_dtype dtype);
/* Whether the matrix can be read where it is: one of its axes is contiguous. */
bool bti_line_is_readable(const bti_line_task *task);
/* Elements of the result of one vector that are worth a tile. */
int64_t bti_line_tile(const bti_line_task *task);
/* RESOURCE_EXHAUSTED: no memory for vectors whose elements are not contiguous, or are halves. */
bt_status bti_line_multiply(const bti_line_task *task);

#endif

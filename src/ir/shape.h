/* Shapes and layouts. */
#ifndef BTI_IR_SHAPE_H
#define BTI_IR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/size.h"

#define BTI_MAX_RANK 8

/* Element [i0, i1, ...] of an array is at offset + sum of i * stride, in elements. */
typedef struct bti_layout {
    int64_t offset;
    int64_t stride[BTI_MAX_RANK];
} bti_layout;

/* Elements of a shape; false on overflow, or for a negative (so also a symbolic) size. */
bool bti_shape_count(int rank, const int64_t *shape, int64_t *count);
/* Whether no product of the sizes, in bytes, overflows: a size of 0 counts as 1, so that the product of some of the axes fits
 * as well; symbolic sizes are left out. Every recorded array has such a shape. */
static inline bool bti_shape_fits(int rank, const int64_t *shape, size_t element_bytes) {
    int64_t bytes = (int64_t)element_bytes;
    for (int axis = 0; axis < rank; axis++) {
        if (bti_size_is_symbolic(shape[axis]) || shape[axis] == 0) continue;
        if (shape[axis] < 0 || __builtin_mul_overflow(bytes, shape[axis], &bytes)) return false;
    }
    return bytes < INT64_MAX; /* which a sum or product of sizes is that overflowed */
}
bool bti_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);
/* "(2, 3)", "(3,)", "()"; a symbolic size prints as "?1". */
void bti_shape_text(bti_str *text, int rank, const int64_t *shape);

void bti_layout_dense(int rank, const int64_t *shape, bti_layout *layout);
/* Row-major and without gaps; the offset may be any. */
bool bti_layout_is_dense(int rank, const int64_t *shape, const bti_layout *layout);
/* The same elements under another shape without moving them; false when no strides express it. */
bool bti_layout_reshape(int rank, const int64_t *shape, const bti_layout *layout, int new_rank,
                        const int64_t *new_shape, bti_layout *out);

/* Collapses the axes first..end - 1 of a nest of `axes` over `operands` operands: axes of size 1 go, and neighbours that every operand
 * walks as one axis become one. The axes from `end` on move down. Returns how many are left of first..end - 1. stride[o]: of operand o,
 * by axis, in any unit. */
int bti_axes_collapse(int first, int end, int axes, int64_t *extent, int operands, int64_t *const *stride);

#endif

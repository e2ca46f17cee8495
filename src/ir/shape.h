/* Shapes, layouts, and sizes that are not known yet. */
#ifndef BTI_IR_SHAPE_H
#define BTI_IR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

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
bool bti_shape_fits(int rank, const int64_t *shape, size_t element_bytes);
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

/* --- symbolic sizes -------------------------------------------------------------------------------------------------
 * In a function the sizes of inputs may be unknown. Such a size is a number below BTI_SYMBOL_LIMIT that names an
 * expression in a table: a symbol, or a sum, product, quotient (rounded up) of others. It is put in where a size stands,
 * and given its number at the call. Equal expressions have equal names. The table is process-wide, grows, is locked. */
#define BTI_SYMBOL_LIMIT (INT64_MIN / 2)
static inline bool bti_size_is_symbolic(int64_t size) { return size < BTI_SYMBOL_LIMIT; }

bool bti_size_exists(int64_t size); /* whether the symbolic size was made here: a caller may pass any number */
/* An input of a function holds its symbols; a symbol without holders is reused. No-ops for other sizes. */
void bti_symbol_hold(int64_t size);
void bti_symbol_let_go(int64_t size);
int64_t bti_symbol_new(void); /* 0 when memory is short (then every later size is wrong: callers check) */
/* Of two numbers that overflow, a sum or product is INT64_MAX: more than any shape may hold. Division by 0 gives 0. */
int64_t bti_size_add(int64_t a, int64_t b);
int64_t bti_size_mul(int64_t a, int64_t b);
int64_t bti_size_ceil_div(int64_t a, int64_t b);  /* b > 0 known */
int64_t bti_size_exact_div(int64_t a, int64_t b); /* cancels factors where it can */

/* The size that two sizes broadcast to: where both are numbers they are equal or one is 1. Of a number (not 1) and a symbolic size,
 * the number. Bound, both must be equal or one of them 1. */
int64_t bti_size_broadcast(int64_t a, int64_t b);
/* How often an axis of size a is repeated in one of `size`: once when they are equal, else a must be 1. */
int64_t bti_size_repeats(int64_t a, int64_t size);

/* Numbers for symbols: value[i] belongs to symbol[i]. */
typedef struct bti_binding {
    const int64_t *symbol;
    const int64_t *value;
    int count;
} bti_binding;
/* The size under a binding; false when a symbol has no number, a division does not come out even, or it overflows. */
bool bti_size_bind(int64_t size, const bti_binding *binding, int64_t *out);
/* "?1 * 2": for messages. */
void bti_size_text(bti_str *text, int64_t size);

#endif

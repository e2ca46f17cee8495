/* Recording of primitives: checks, shape and dtype rules, then one node. Public operations (compose*.c) are made of these.
 * All return arrays of the innermost scope, poisoned when something does not fit or an input is poisoned. */
#ifndef BTI_OPS_PRIMITIVE_H
#define BTI_OPS_PRIMITIVE_H

#include <berth/ops.h>

#include "array/handle.h"

/* Any elementwise operation of the table but where, cast, bitcast, threefry: inputs are promoted (weak scalars give way) and
 * broadcast, the row's dtype rule says what comes out. */
bt_array *bti_unary(bti_op op, bt_array *x);
bt_array *bti_binary(bti_op op, bt_array *x, bt_array *y);
/* x as such an operation of x and y would take it: promoted. Neither is poisoned. */
bt_array *bti_as_taken(bti_op op, bt_array *x, bt_array *y);
bt_array *bti_where(bt_array *condition, bt_array *x, bt_array *y); /* condition is cast to bool */
bt_array *bti_cast(bt_array *x, bt_dtype dtype);                    /* x itself when it has that dtype */
bt_array *bti_bitcast(bt_array *x, bt_dtype dtype);
bt_array *bti_threefry(bt_array *k0, bt_array *k1, bt_array *c0, bt_array *c1, int word);   /* uint32, broadcast */
bt_array *bti_random_words(bt_array *k0, bt_array *k1, bt_array *numbers, bt_array *count); /* the same */

/* A scalar of a dtype, strong; of any value that a double holds, or of 64 bits as they are. On the default device. */
bt_array *bti_scalar(double value, bt_dtype dtype);
bt_array *bti_scalar_bits(uint64_t bits, bt_dtype dtype);
/* A scalar like x: of its dtype. */
bt_array *bti_scalar_like(double value, bt_array *x);
/* A size (maybe symbolic) as a scalar of a dtype. */
bt_array *bti_size_scalar(int64_t size, bt_dtype dtype);
bt_array *bti_iota(int64_t count, bt_dtype dtype); /* [count] */

/* Axes stay with size 1 (squeeze by bti_drop_axes). mask: bit i is axis i. */
bt_array *bti_reduce(bti_op op, bt_array *x, uint32_t mask);
bt_array *bti_drop_axes(bt_array *x, uint32_t mask);
bt_array *bti_cumsum(bt_array *x, int axis, bool reverse);

bt_array *bti_reshape(bt_array *x, int rank,
                      const int64_t *shape); /* equal counts, sizes >= 0 or symbolic; x when equal */
bt_array *bti_permute(bt_array *x, const int *axes);
bt_array *bti_expand(bt_array *x, int rank, const int64_t *shape); /* NumPy's broadcast to this shape; x when equal */
/* Axis i: `count[i]` elements from start[i] by step[i] (not 0); all within x. */
bt_array *bti_slice(bt_array *x, const int64_t *start, const int64_t *step, const int64_t *count);
bt_array *bti_pad(bt_array *x, const int64_t *low, const int64_t *high, bt_array *value); /* scalar of x's dtype */
bt_array *bti_concat(bt_array *const *arrays, int count, int axis);                       /* equal dtypes */
bt_array *bti_take(bt_array *x, bt_array *indices, int axis); /* indices [I], int32 or int64 */
bt_array *bti_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis);
bt_array *bti_argsort(bt_array *x, int axis);
/* The poison of an axis with more elements than int32 numbers; NULL when it has not. */
bt_array *bti_check_index(bt_array *x, int axis);
bt_array *bti_gather_axis(bt_array *x, bt_array *indices, int axis);
bt_array *bti_scatter_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis);
bt_array *bti_matmul(bt_array *a, bt_array *b); /* equal ranks >= 2, equal leading axes, equal dtypes */
bt_array *bti_stop(bt_array *x);

/* The axis as 0..rank-1; false (and *poison set, naming axis and rank) when x has no such axis. */
bool bti_axis(bt_array *x, int64_t axis, int *normal, bt_array **poison);
/* The mask of a public bt_axes; errors name a doubled or missing axis. */
bool bti_axes_mask(bt_array *x, bt_axes axes, uint32_t *mask, bt_array **poison);
/* The dtype that inputs meet at: promotion with weak scalars giving way. */
bt_dtype bti_meet(bt_array *const *arrays, int count, bool *weak);
/* floats stay, integers and bool become float32 (64-bit ones float64): the BTI_FLOAT rule. */
bt_dtype bti_float_of(bt_dtype dtype);
bt_array *bti_to_float(bt_array *x);

/* Symbolic sizes are numbers below BTI_SYMBOL_LIMIT and go through bti_size_add, _mul, ...: do no arithmetic on sizes by
 * hand, and compare sizes only for equality with each other, 0 and 1. */

#endif

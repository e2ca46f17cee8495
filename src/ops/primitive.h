/* What the families of operations are made of: the recorders of primitives, and the helpers of public operations. The first part stands in
 * primitive.c, below all families; then each family's, in their order: a family uses those above it.
 *
 * A recorder returns an array of the innermost scope, poisoned when something does not fit or an input is poisoned. */
#ifndef BTI_OPS_PRIMITIVE_H
#define BTI_OPS_PRIMITIVE_H

#include <berth/matrices.h>
#include <berth/ops.h>
#include <berth/random.h>
#include <berth/losses.h>
#include <berth/windows.h>

#include "array/record.h"
#include "ir/dtype.h"
#include "ir/op_rules.h"

/* --- writing a public operation --------------------------------------------------------------------------------------- */

/* At its head: casts the arguments, which are variables, as the thread's BT_AUTOCAST block and the operation's row of array/names.def ask. */
#define BTI_AUTOCAST(...) \
    BTI_AUTOCAST_ALL(((bt_array **const[]){BTI_ADDRESSES(__VA_ARGS__)}), BTI_COUNT_OF(__VA_ARGS__))
#define BTI_AUTOCAST_ALL(addresses, count)                                             \
    do {                                                                               \
        if (bti_public_.autocast) bti_autocast(&bti_public_, addresses, (int)(count)); \
    } while (0)
#define BTI_ADDRESSES(...) BTI_ADDRESSES_OF(__VA_ARGS__, 3, 2, 1, 0)(__VA_ARGS__)
#define BTI_ADDRESSES_OF(a, b, c, count, ...) BTI_ADDRESSES_##count
#define BTI_ADDRESSES_1(a) &(a)
#define BTI_ADDRESSES_2(a, b) &(a), &(b)
#define BTI_ADDRESSES_3(a, b, c) &(a), &(b), &(c)
void bti_autocast(bti_public *guard, bt_array **const *arguments, int count);

/* The same; then returns the poison of the first poisoned (or missing) argument. */
#define BTI_NEED(...)                                                                \
    do {                                                                             \
        BTI_AUTOCAST(__VA_ARGS__);                                                   \
        BTI_NEED_ALL(((bt_array *const[]){__VA_ARGS__}), BTI_COUNT_OF(__VA_ARGS__)); \
    } while (0)
#define BTI_COUNT_OF(...) (sizeof((bt_array *[]){__VA_ARGS__}) / sizeof(bt_array *))
#define BTI_NEED_ALL(arrays, count)                                    \
    do {                                                               \
        bt_array *bti_poison_ = bti_poisoned_by(arrays, (int)(count)); \
        if (bti_poison_) BTI_RETURN(bti_poison_);                      \
    } while (0)

static inline int bti_rank(const bt_array *x) { return bti_node_of(x)->rank; }
static inline const int64_t *bti_shape(const bt_array *x) { return bti_node_of(x)->shape; }
static inline bt_dtype bti_dtype(const bt_array *x) { return (bt_dtype)bti_node_of(x)->dtype; }

/* A shape for one message: `bti_shape_string(x).text`. */
typedef struct bti_shape_words {
    char text[256];
} bti_shape_words;
bti_shape_words bti_sizes_string(int rank, const int64_t *shape);
static inline bti_shape_words bti_shape_string(const bt_array *x) {
    return bti_sizes_string(bti_rank(x), bti_shape(x));
}

/* Symbolic sizes are numbers below BTI_SYMBOL_LIMIT and go through bti_size_add, _mul, ...: do no arithmetic on sizes by
 * hand, and compare sizes only for equality with each other, 0 and 1. */

/* Elements of the axes of a mask (bit i is axis i): maybe symbolic. */
int64_t bti_size_of_axes(const bt_array *x, uint32_t mask);
static inline int64_t bti_size_of(const bt_array *x) { return bti_size_of_axes(x, UINT32_MAX); }

/* The axis as 0..rank-1; false (and *poison set, naming axis and rank) when x has no such axis. */
bool bti_axis(bt_array *x, int64_t axis, int *normal, bt_array **poison);
/* The mask of a public bt_axes; errors name a doubled or missing axis. */
bool bti_axes_mask(bt_array *x, bt_axes axes, uint32_t *mask, bt_array **poison);
bool bti_dtype_fits(bt_dtype dtype, bt_array **poison);

/* What windows may reach over along an axis, at most: no distance overflows, counted in bytes. */
#define BTI_FARTHEST (INT64_C(1) << 48)

/* --- scalars (primitive.c) -------------------------------------------------------------------------------------------- */

/* A scalar of a dtype, strong; of any value that a double holds, or of 64 bits as they are. On the default device. */
bt_array *bti_scalar(double value, bt_dtype dtype);
bt_array *bti_scalar_bits(uint64_t bits, bt_dtype dtype);
/* A scalar that bt_cast would make of the value: of integers toward zero, saturating. */
bt_array *bti_scalar_cast(double value, bt_dtype dtype);
/* A scalar like x: of its dtype. */
bt_array *bti_scalar_like(double value, bt_array *x);
/* A size (maybe symbolic) as a scalar of a dtype. */
bt_array *bti_size_scalar(int64_t size, bt_dtype dtype);
bt_array *bti_iota(int64_t count, bt_dtype dtype); /* [count] */

/* --- other dtypes and shapes (primitive.c) ---------------------------------------------------------------------------- */

bt_array *bti_cast(bt_array *x, bt_dtype dtype); /* x itself when it has that dtype */
bt_array *bti_bitcast(bt_array *x, bt_dtype dtype);
bt_array *bti_stop(bt_array *x);
bt_array *bti_to_float(bt_array *x);
/* Whether x, if it is an integer that was written as a number, has a place in the dtype. Everything else has. */
bool bti_number_fits(bt_array *x, bt_dtype dtype);
/* x as the operations named "floats" take it; weak scalars stay weak. */
static inline bt_array *bti_float(bt_array *x) { return bti_dtype_is_float(bti_dtype(x)) ? x : bti_to_float(x); }
/* Of small floats, sums and exponentials are worked out in float32: x as that; and the result as x's dtype was. */
static inline bool bti_is_small(bt_dtype dtype) { return dtype == BT_F16 || dtype == BT_BF16; }
static inline bt_array *bti_widen(bt_array *x) { return bti_is_small(bti_dtype(x)) ? bti_cast(x, BT_F32) : x; }
static inline bt_array *bti_narrow(bt_array *result, bt_dtype dtype) {
    return bti_is_small(dtype) ? bti_cast(result, dtype) : result;
}

/* Equal counts, sizes >= 0 or symbolic; x when equal. */
bt_array *bti_reshape(bt_array *x, int rank, const int64_t *shape);
bt_array *bti_expand(bt_array *x, int rank, const int64_t *shape); /* NumPy's broadcast to this shape; x when equal */
/* The axes of the mask, which have size 1, are taken out. */
bt_array *bti_drop_axes(bt_array *x, uint32_t mask);
/* x with a new axis of size 1 before `axis`. */
bt_array *bti_new_axis(bt_array *x, int axis);
/* Folds the axes of the mask; they stay with size 1. */
bt_array *bti_reduce(bti_op op, bt_array *x, uint32_t mask);
/* The same; max and min of no elements are the least and the greatest value of the dtype (-inf and inf; false and true), not refused. */
bt_array *bti_reduce_or_start(bti_op op, bt_array *x, uint32_t mask);

/* --- complex numbers (primitive.c) ------------------------------------------------------------------------------------- */

static inline bool bti_is_complex(const bt_array *x) { return bti_dtype_is_complex(bti_dtype(x)); }
/* A part of complex numbers: BTI_OP_real or BTI_OP_imag. */
bt_array *bti_complex_part(bti_op op, bt_array *x);
/* Poison: the operation takes none. */
bt_array *bti_refuse_complex(bt_dtype dtype);

/* What recorders of these files and elementwise.c hand over: complex_numbers.c, which is made of them, sets it before main. Arguments are not poisoned. */
typedef struct bti_complex_recorders {
    bt_array *(*unary)(bti_op op, bt_array *x);
    /* met: the complex dtype that the arguments meet at */
    bt_array *(*binary)(bti_op op, bt_array *x, bt_array *y, bt_dtype met, bool weak);
    bt_array *(*where)(bt_array *condition, bt_array *x, bt_array *y, bt_dtype met, bool weak);
    bt_array *(*cast)(bt_array *x, bt_dtype dtype);
    bt_array *(*of_real)(bt_array *real, bool weak);
    bt_array *(*reduce)(bti_op op, bt_array *x, uint32_t mask); /* sums and products */
} bti_complex_recorders;
const bti_complex_recorders *bti_complex_record(void);
void bti_complex_set_recorders(const bti_complex_recorders *recorders);

/* One primitive by the rules of its row: the dtype is what the dtype rule makes of that of inputs[0], which is not poisoned, and the result
 * is as weak. */
bt_array *bti_record_by_rules(bti_op op, bt_array *const *inputs, int count, const bti_attr *attr);

/* x as what the operations named "floats" take and complex numbers have too. */
static inline bt_array *bti_inexact(bt_array *x) { return bti_dtype_has_gradient(bti_dtype(x)) ? x : bti_to_float(x); }

/* --- elementwise.c ---------------------------------------------------------------------------------------------------- */

/* The dtype that inputs meet at: promotion with weak scalars giving way; BT_DTYPE_COUNT: an 8-bit float and others meet at none. */
bt_dtype bti_meet(bt_array *const *arrays, int count, bool *weak);
/* Any elementwise operation of the table but where, cast, bitcast, threefry: inputs are promoted (weak scalars give way) and
 * broadcast, the row's dtype rule says what comes out. */
bt_array *bti_unary(bti_op op, bt_array *x);
bt_array *bti_binary(bti_op op, bt_array *x, bt_array *y);
bt_array *bti_where(bt_array *condition, bt_array *x, bt_array *y); /* condition is cast to bool */
/* The inputs cast to `in` and broadcast to one shape, then one operation of them, of dtype `out`. */
bt_array *bti_record_aligned(bti_op op, bt_dtype in, bt_dtype out, bool weak, bt_array **inputs, int count,
                             const bti_attr *attr);

/* --- shape.c ---------------------------------------------------------------------------------------------------------- */

bt_array *bti_permute(bt_array *x, const int *axes);
bt_array *bti_transpose(bt_array *x);                   /* the last two axes swapped */
bt_array *bti_move_axis(bt_array *x, int from, int to); /* the others stay in their order */
/* The place of a new axis: 0 to rank; negative counts from the end of the result. False, and *poison set: there is no such place. */
bool bti_new_axis_place(const bt_array *x, int axis, int *place, bt_array **poison);

/* --- index.c ---------------------------------------------------------------------------------------------------------- */

bt_array *bti_take(bt_array *x, bt_array *indices, int axis); /* indices [I], int32 or int64 */
bt_array *bti_scatter_add(bt_array *x, bt_array *indices, bt_array *updates, int axis);
/* x with the rows from start[0] (shape [1]) along an axis replaced by the update. */
bt_array *bti_update_slice(bt_array *x, bt_array *start, bt_array *update, int axis);
bt_array *bti_gather_axis(bt_array *x, bt_array *indices, int axis);
bt_array *bti_scatter_axis(bt_array *x, bt_array *indices, bt_array *updates, int axis);
/* Any operation that bti_op_updates. */
bt_array *bti_record_scatter(bti_op op, bt_array *x, bt_array *indices, bt_array *updates, int axis);
/* Indices as int32 or int64, whatever integers they were; poisoned if they are not integers. */
bt_array *bti_indices(bt_array *indices);
/* Indices with the sizes of x, which may have been unknown, except on the axis. */
bt_array *bti_indices_along(bt_array *x, bt_array *indices, int axis);
/* The same with those from the end counted from the beginning; `*within` tells which are in range, the others are 0. */
bt_array *bti_normal_indices(bt_array *x, bt_array *indices, int axis, bt_array **within);
/* Indices along an axis of x have its sizes on the others. */
bool bti_fits_along(const bt_array *x, const bt_array *indices, int axis, bt_array **poison);

/* --- scatter.c -------------------------------------------------------------------------------------------------------- */

/* Updates as x's dtype; poisoned if they are floats and x is not. */
bt_array *bti_updates_for(bt_array *x, bt_array *updates);

/* --- slice.c ---------------------------------------------------------------------------------------------------------- */

/* Python's slice of an axis of a known size: ends below 0 count from its end, all are clipped; step is not 0. */
typedef struct bti_range {
    int64_t start, step, count;
} bti_range;
bti_range bti_range_of(int64_t size, int64_t start, int64_t stop, int64_t step);
/* Axis i: `count[i]` elements from start[i] by step[i] (not 0); all within x. */
bt_array *bti_slice(bt_array *x, const int64_t *start, const int64_t *step, const int64_t *count);
/* Part of one axis: `count` elements from start by step, all within. */
bt_array *bti_slice_part(bt_array *x, int axis, int64_t start, int64_t step, int64_t count);
bt_array *bti_part_of_axis(bt_array *x, int axis, int64_t start, int64_t count);          /* both known or not */
bt_array *bti_pad(bt_array *x, const int64_t *low, const int64_t *high, bt_array *value); /* scalar of x's dtype */
bt_array *bti_concat(bt_array *const *arrays, int count, int axis);                       /* equal dtypes */

/* --- collective.c ----------------------------------------------------------------------------------------------------- */

/* sums[i]: the sum of all parts, on devices[i]. Where the devices' driver sums over them it is one operation of all of them, else (or by the flag
 * `collectives`) a sum on the first device and copies of it. Poisons all sums where the parts do not fit or are poisoned. */
void bti_all_reduce(const int *devices, int count, bt_array *const *parts, bt_array **sums);

/* --- nn.c ------------------------------------------------------------------------------------------------------------- */

/* x where x >= 0 or NaN, else 0; the gradient at 0 is `at_zero`, 0 or 1. */
bt_array *bti_positive_part(bt_array *x, bool at_zero);
bt_array *bti_softplus_tail(bt_array *x); /* log1p(e**-|x|) */
/* x - max(x) along the axis; no gradient passes through the maximum. Nothing stays nothing. */
bt_array *bti_below_top(bt_array *x, int axis);
bt_array *bti_sum_of_exp(bt_array *x, int axis); /* the axis stays with size 1 */
bt_array *bti_log_softmax(bt_array *x, int axis);

/* --- sort.c, reduce.c, product.c, nn.c, random.c ---------------------------------------------------------------------- */

bt_array *bti_argsort(bt_array *x, int axis);
bt_array *bti_mean(bt_array *x, uint32_t mask); /* axes stay with size 1; x is a float */
/* int32: where the first greatest (BTI_OP_max) or least (BTI_OP_min) element of the axis is, or the first NaN; the axis is dropped. */
bt_array *bti_index_of(bti_op op, bt_array *x, int axis);
bt_array *bti_cumsum(bt_array *x, int axis, bool reverse);
bt_array *bti_record_matmul(bt_array *a, bt_array *b); /* equal ranks >= 2, equal leading axes, equal dtypes */

/* --- random.c --------------------------------------------------------------------------------------------------------- */

/* uint32 of the shape of `like`: element j of row i (axis 0) is a word of the block with counter (first_row + i, j) of a key that is made of `key`
 * and `step` (a uint32 scalar), so that a row's numbers do not depend on which rows are there. */
bt_array *bti_row_bits(bt_array *key, bt_array *step, int64_t first_row, bt_array *like);

#endif

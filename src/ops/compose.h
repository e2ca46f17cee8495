/* What the composed operations (compose_*.c, make.c, random.c) share. */
#ifndef BTI_OPS_COMPOSE_H
#define BTI_OPS_COMPOSE_H

#include <berth/random.h>

#include "ops/primitive.h"
#include "array/record.h"
#include "ir/dtype.h"

/* At the head of a public operation: gives the poison of the first poisoned (or missing) argument back. */
#define BTI_NEED(...) \
    BTI_NEED_ALL(((bt_array *const[]){__VA_ARGS__}), sizeof((bt_array *[]){__VA_ARGS__}) / sizeof(bt_array *))
#define BTI_NEED_ALL(arrays, count)                                    \
    do {                                                               \
        bt_array *bti_poison_ = bti_poisoned_by(arrays, (int)(count)); \
        if (bti_poison_) BTI_RETURN(bti_poison_);                      \
    } while (0)

static inline int bti_rank(const bt_array *x) { return bti_node_of(x)->rank; }
static inline const int64_t *bti_shape(const bt_array *x) { return bti_node_of(x)->shape; }
static inline bt_dtype bti_dtype(const bt_array *x) { return (bt_dtype)bti_node_of(x)->dtype; }

/* A shape for one message: `bti_words_of(x).text`. */
typedef struct bti_words {
    char text[256];
} bti_words;
bti_words bti_words_shape(int rank, const int64_t *shape);
static inline bti_words bti_words_of(const bt_array *x) { return bti_words_shape(bti_rank(x), bti_shape(x)); }

/* Equal, or one is not known yet: then the call of the function tells. */
static inline bool bti_may_equal(int64_t a, int64_t b) {
    return a == b || bti_size_is_symbolic(a) || bti_size_is_symbolic(b);
}
bool bti_shapes_may_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);

bool bti_dtype_fits(bt_dtype dtype, bt_array **poison);

/* Elements of the axes of a mask: maybe symbolic. */
int64_t bti_size_of_axes(const bt_array *x, uint32_t mask);
static inline int64_t bti_size_of(const bt_array *x) { return bti_size_of_axes(x, UINT32_MAX); }

/* A scalar that bt_cast would make of the value: of integers toward zero, saturating. */
bt_array *bti_scalar_cast(double value, bt_dtype dtype);

/* x as the operations named "floats" take it; weak scalars stay weak. */
static inline bt_array *bti_float(bt_array *x) { return bti_dtype_is_float(bti_dtype(x)) ? x : bti_to_float(x); }

/* Of small floats, sums and exponentials are worked out in float32: x as that; and the result as x's dtype was. */
static inline bool bti_is_small(bt_dtype dtype) { return dtype == BT_F16 || dtype == BT_BF16; }
static inline bt_array *bti_widen(bt_array *x) { return bti_is_small(bti_dtype(x)) ? bti_cast(x, BT_F32) : x; }
static inline bt_array *bti_narrow(bt_array *result, bt_dtype dtype) {
    return bti_is_small(dtype) ? bti_cast(result, dtype) : result;
}

/* Bodies of public operations that others are made of; arguments have been checked. */
bt_array *bti_mean(bt_array *x, uint32_t mask); /* axes stay with size 1; x is a float */
/* bti_reduce (the axes stay), where an axis of unknown size that turns out empty gives `nothing`. */
bt_array *bti_reduce_or(bti_op op, bt_array *x, uint32_t mask, double nothing);
bt_array *bti_flip_axis(bt_array *x, int axis);
bt_array *bti_softplus(bt_array *x); /* x is a float */
/* Part of one axis: `count` elements from start by step, all within. */
bt_array *bti_slice_part(bt_array *x, int axis, int64_t start, int64_t step, int64_t count);
/* The last two axes swapped. */
bt_array *bti_transpose(bt_array *x);
/* x with a new axis of size 1 before `axis`. */
bt_array *bti_new_axis(bt_array *x, int axis);

/* Indices as int32 or int64, whatever integers they were; poisoned if they are not integers. */
bt_array *bti_indices(bt_array *indices);

#endif

/* Complex numbers, whose arithmetic is recorded as that of their parts. Arguments are not poisoned unless they are parts. */
#ifndef BTI_OPS_COMPLEX_H
#define BTI_OPS_COMPLEX_H

#include "ops/primitive.h"

/* Two real arrays of one dtype. im NULL: it is 0 everywhere. */
typedef struct bti_parts {
    bt_array *re, *im;
} bti_parts;

/* Of x: complex, or real and cast to `part`. */
bti_parts bti_parts_of(bt_array *x, bt_dtype part);
bti_parts bti_own_parts(bt_array *x); /* of a complex x */
/* The complex array of real ones, which broadcast and are float32 or float64 both. */
bt_array *bti_complex(bti_parts parts, bool weak);
/* |x|**2, real. */
bt_array *bti_square_size(bt_array *x);

/* `of_part` of the real and of the imaginary parts of arrays (`count` of them, real ones too), as one complex array. */
typedef bt_array *bti_part_fn(bt_array *const *parts, const void *context);
bt_array *bti_by_parts(bt_array *const *arrays, int count, bti_part_fn *of_part, const void *context);

bti_parts bti_parts_product(bti_parts a, bti_parts b);
bti_parts bti_parts_quotient(bti_parts a, bti_parts b);
bt_array *bti_parts_size(bti_parts z); /* |z| */
bti_parts bti_parts_power(bti_parts base, bti_parts exponent);
/* false: the operation has no complex form. */
bool bti_parts_function(bti_op op, bti_parts z, bti_parts *result);

#endif

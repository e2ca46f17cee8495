/* Complex numbers, whose arithmetic is recorded as that of their parts (complex.c, complex_functions.c). Elementwise, reduction and index recorders hand over to these
 * what is complex; arguments are not poisoned. What has no complex form is refused here or by bti_op_dtypes. */
#ifndef BTI_OPS_COMPLEX_H
#define BTI_OPS_COMPLEX_H

#include "ops/primitive.h"

/* Two real arrays of one dtype. im NULL: it is 0 everywhere. */
typedef struct bti_parts {
    bt_array *re, *im;
} bti_parts;

static inline bool bti_is_complex(const bt_array *x) { return bti_dtype_is_complex(bti_dtype(x)); }
/* Of x: complex, or real and cast to `part`. */
bti_parts bti_parts_of(bt_array *x, bt_dtype part);
/* The complex array of real ones, which broadcast and are float32 or float64 both. */
bt_array *bti_complex(bti_parts parts, bool weak);
/* Poison: complex numbers, which are none of the operation's. */
bt_array *bti_refuse_complex(bt_dtype dtype);

/* An elementwise operation of the table; `met`: the complex dtype that x and y meet at. */
bt_array *bti_complex_unary(bti_op op, bt_array *x);
bt_array *bti_complex_binary(bti_op op, bt_array *x, bt_array *y, bt_dtype met, bool weak);
bt_array *bti_complex_where(bt_array *condition, bt_array *x, bt_array *y, bt_dtype met, bool weak);
/* x ** exponent; false: it is no power that products and roots make. */
bool bti_complex_number_power(bt_array *x, double exponent, bt_array **power);
/* To or from a complex dtype; a complex x is cast to bool or to the parts' dtypes. */
bt_array *bti_complex_cast(bt_array *x, bt_dtype dtype);
/* A product over the axes of the mask, which stay with size 1. */
bt_array *bti_complex_product(bt_array *x, uint32_t mask);
/* |x|**2, real. */
bt_array *bti_square_size(bt_array *x);

/* `of_part` of the real and of the imaginary parts of arrays (`count` of them, real ones too), as one complex array. */
typedef bt_array *bti_part_fn(bt_array *const *parts, const void *context);
bt_array *bti_by_parts(bt_array *const *arrays, int count, bti_part_fn *of_part, const void *context);

/* complex_functions.c */
bti_parts bti_parts_product(bti_parts a, bti_parts b);
bti_parts bti_parts_quotient(bti_parts a, bti_parts b);
bt_array *bti_parts_size(bti_parts z); /* |z| */
bti_parts bti_parts_power(bti_parts base, bti_parts exponent);
/* false: the operation has no complex form. */
bool bti_parts_function(bti_op op, bti_parts z, bti_parts *result);

#endif

/* What recorders hand over of complex numbers (ops/primitive.h), and their public operations. */
#include <berth/complex.h>

#include "ops/application.h"
#include "ops/complex.h"

/* --- gradients ------------------------------------------------------------------------------------------------------ */

/* The real part of a gradient by z is that by its real part: dL/dx + i dL/dy. */
BTI_GRADIENT_1(real, bt_complex(g, bt_num(0)))
BTI_GRADIENT_1(imag, bt_complex(bt_num(0), g))
BTI_GRADIENT_2(complex, bt_real(g), bt_imag(g))

/* --- elementwise operations ----------------------------------------------------------------------------------------- */

static bt_array *unary_by_parts(bti_op op, bt_array *x) {
    bti_parts z = bti_own_parts(x), made;
    if (op == BTI_OP_abs) return bti_parts_size(z);
    if (!bti_parts_function(op, z, &made)) return bti_refuse_complex(bti_dtype(x));
    return bti_complex(made, bti_node_of(x)->weak);
}

static bt_array *added(bti_op op, bt_array *a, bt_array *b) {
    if (!a || !b) return a ? a : b && op == BTI_OP_sub ? bti_unary(BTI_OP_neg, b) : b;
    return bti_binary(op, a, b);
}

/* Equal in both parts, or different in one. */
static bt_array *compared(bti_op op, bti_parts a, bti_parts b) {
    bt_array *zero = bti_array_error(a.re) ? a.re : bti_scalar(0, bti_dtype(a.re));
    bt_array *re = bti_binary(op, a.re, b.re), *im = bti_binary(op, a.im ? a.im : zero, b.im ? b.im : zero);
    return bti_binary(op == BTI_OP_eq ? BTI_OP_and : BTI_OP_or, re, im);
}

static bt_array *binary_by_parts(bti_op op, bt_array *x, bt_array *y, bt_dtype met, bool weak) {
    bt_dtype part = bti_dtype_of_part(met);
    bti_parts a = bti_parts_of(x, part), b = bti_parts_of(y, part);
    switch (op) {
    case BTI_OP_add:
    case BTI_OP_sub: return bti_complex((bti_parts){added(op, a.re, b.re), added(op, a.im, b.im)}, weak);
    case BTI_OP_mul: return bti_complex(bti_parts_product(a, b), weak);
    case BTI_OP_div: return bti_complex(bti_parts_quotient(a, b), weak);
    case BTI_OP_pow: return bti_complex(bti_parts_power(a, b), weak);
    case BTI_OP_eq:
    case BTI_OP_ne: return compared(op, a, b);
    default: return bti_refuse_complex(met);
    }
}

static bt_array *where_by_parts(bt_array *condition, bt_array *x, bt_array *y, bt_dtype met, bool weak) {
    bt_dtype part = bti_dtype_of_part(met);
    bti_parts a = bti_parts_of(x, part), b = bti_parts_of(y, part), made;
    bt_array *zero = bti_scalar(0, part);
    made.re = bti_where(condition, a.re, b.re);
    made.im = bti_where(condition, a.im ? a.im : zero, b.im ? b.im : zero);
    return bti_complex(made, weak);
}

static bt_array *cast_by_parts(bt_array *x, bt_dtype dtype) {
    if (bti_dtype_is_complex(dtype)) return bti_complex(bti_parts_of(x, bti_dtype_of_part(dtype)), false);
    if (dtype != BT_BOOL) return bti_refuse_complex(bti_dtype(x));
    bti_parts z = bti_own_parts(x);
    return bti_binary(BTI_OP_or, bti_cast(z.re, BT_BOOL), bti_cast(z.im, BT_BOOL));
}

/* --- products over axes --------------------------------------------------------------------------------------------- */

/* Halves are multiplied until one element is left: [..., n] -> [..., 1]. */
static bt_array *halved_product(bt_array *x, int axis) {
    for (;;) {
        if (bti_array_error(x)) return x;
        int64_t size = bti_shape(x)[axis], half = size / 2;
        if (size == 1) return x;
        bt_array *pairs =
            bti_binary(BTI_OP_mul, bti_slice_part(x, axis, 0, 1, half), bti_slice_part(x, axis, half, 1, half));
        bt_array *both[2] = {pairs, NULL};
        if (size % 2) both[1] = bti_slice_part(x, axis, size - 1, 1, 1);
        x = size % 2 ? bti_concat(both, 2, axis) : pairs;
    }
}

static bt_array *product_over(bt_array *x, uint32_t mask) {
    for (int axis = 0; axis < BTI_MAX_RANK; axis++) {
        if (bti_array_error(x)) return x;
        if (axis >= bti_rank(x) || !(mask >> axis & 1)) continue;
        int64_t shape[BTI_MAX_RANK], size = bti_shape(x)[axis];
        if (bti_size_is_symbolic(size))
            return bti_poisonf(BT_UNIMPLEMENTED, "axis %d of complex numbers has no known size here", axis);
        for (int i = 0; i < bti_rank(x); i++) shape[i] = i == axis ? 1 : bti_shape(x)[i];
        x = size ? halved_product(x, axis) : bti_expand(bti_scalar(1, bti_dtype(x)), bti_rank(x), shape);
    }
    return x;
}

static bt_array *sum_of_part(bt_array *const *part, const void *mask) {
    return bti_reduce(BTI_OP_sum, part[0], *(const uint32_t *)mask);
}

static bt_array *reduce_by_parts(bti_op op, bt_array *x, uint32_t mask) {
    return op == BTI_OP_sum ? bti_by_parts(&x, 1, sum_of_part, &mask) : product_over(x, mask);
}

static bt_array *complex_of_real(bt_array *real, bool weak) { return bti_complex((bti_parts){real, NULL}, weak); }

__attribute__((constructor)) static void set_recorders(void) {
    static const bti_complex_recorders recorders = {
        .unary = unary_by_parts,
        .binary = binary_by_parts,
        .where = where_by_parts,
        .cast = cast_by_parts,
        .of_real = complex_of_real,
        .reduce = reduce_by_parts,
    };
    bti_complex_set_recorders(&recorders);
}

/* --- public operations ---------------------------------------------------------------------------------------------- */

/* Both as floats of one dtype, complex128's parts if one of them is. Neither is poisoned. */
static bt_array *as_parts(bt_array *re, bt_array *im, bti_parts *parts) {
    bt_array *given[2] = {re, im};
    bool weak;
    bt_dtype met = bti_meet(given, 2, &weak);
    if (met == BT_DTYPE_COUNT || bti_dtype_is_complex(met))
        return bti_poisonf(BT_INVALID_ARGUMENT, "the parts are %s and %s; they must be real",
                           bt_dtype_name(bti_dtype(re)), bt_dtype_name(bti_dtype(im)));
    bt_dtype part = bti_dtype_of_part(bti_dtype_of_parts(bti_float_of(met)));
    *parts = (bti_parts){bti_cast(re, part), bti_cast(im, part)};
    return bti_poisoned_by((bt_array *[]){parts->re, parts->im}, 2);
}

bt_array *bt_complex(bt_array *real, bt_array *imag) {
    BTI_PUBLIC("bt_complex");
    BTI_NEED(real, imag);
    bti_parts parts;
    bt_array *poison = as_parts(real, imag, &parts);
    BTI_RETURN(poison ? poison : bti_complex(parts, false));
}

bt_array *bt_polar(bt_array *r, bt_array *angle) {
    BTI_PUBLIC("bt_polar");
    BTI_NEED(r, angle);
    bti_parts parts;
    bt_array *poison = as_parts(r, angle, &parts);
    if (poison) BTI_RETURN(poison);
    bti_parts made = {bti_binary(BTI_OP_mul, parts.re, bti_unary(BTI_OP_cos, parts.im)),
                      bti_binary(BTI_OP_mul, parts.re, bti_unary(BTI_OP_sin, parts.im))};
    BTI_RETURN(bti_complex(made, false));
}

bt_array *bt_real(bt_array *x) {
    BTI_PUBLIC("bt_real");
    BTI_NEED(x);
    BTI_RETURN(bti_is_complex(x) ? bti_complex_part(BTI_OP_real, x) : x);
}

bt_array *bt_imag(bt_array *x) {
    BTI_PUBLIC("bt_imag");
    BTI_NEED(x);
    BTI_RETURN(bti_is_complex(x) ? bti_complex_part(BTI_OP_imag, x)
                                 : bti_expand(bti_scalar(0, bti_dtype(x)), bti_rank(x), bti_shape(x)));
}

bt_array *bt_conj(bt_array *x) {
    BTI_PUBLIC("bt_conj");
    BTI_NEED(x);
    if (!bti_is_complex(x)) BTI_RETURN(x);
    bti_parts z = bti_own_parts(x);
    BTI_RETURN(bti_complex((bti_parts){z.re, bti_unary(BTI_OP_neg, z.im)}, bti_node_of(x)->weak));
}

bt_array *bt_angle(bt_array *x) {
    BTI_PUBLIC("bt_angle");
    BTI_NEED(x);
    bti_parts z = bti_is_complex(x) ? bti_own_parts(x) : (bti_parts){bti_float(x), NULL};
    if (bti_array_error(z.re)) BTI_RETURN(z.re);
    BTI_RETURN(bti_binary(BTI_OP_atan2, z.im ? z.im : bti_scalar(0, bti_dtype(z.re)), z.re));
}

bt_array *bti_num_of_complex(double real, double imag) {
    BTI_PUBLIC("a number");
    BTI_RETURN(bti_complex((bti_parts){bti_scalar(real, BT_F64), bti_scalar(imag, BT_F64)}, true));
}

/* Casts. Those to and from 8-bit floats (OCP) are made of operations on bits, so that no kernel knows of them. They are ml_dtypes' and JAX's: to the nearest, halves to even; what
 * is too great is NaN in E4M3, which has no infinity, and infinite in E5M2. Other dtypes come and go by way of float32. */
#include <berth/complex.h>

#include "ops/gradient.h"
#include "ops/primitive.h"

/* What a format is beside float32. */
typedef struct format {
    int dropped;       /* bits of float32's fraction that it lacks */
    uint32_t bias;     /* float32's exponent bias less its own */
    uint32_t least;    /* float32's bits of its least normal number */
    double per_least;  /* units of its subnormal numbers in 1 */
    uint32_t greatest; /* bits that greater numbers give */
    uint32_t nan;
} format;

static const format formats[] = {
    [BT_F8E4M3 - BT_F8E4M3] = {20, 120, 121u << 23, 512, 0x7F, 0x7F},
    [BT_F8E5M2 - BT_F8E4M3] = {21, 112, 113u << 23, 65536, 0x7C, 0x7E},
};
static const format *format_of(bt_dtype dtype) { return &formats[dtype - BT_F8E4M3]; }

static bt_array *word(uint32_t bits) { return bti_scalar_bits(bits, BT_U32); }
static bt_array *both(bti_op op, bt_array *x, bt_array *y) { return bti_binary(op, x, y); }

/* The magnitude in float32's bits -> bits of the format, where it is not subnormal there: half of the last kept digit is added, less one bit where that digit is even. */
static bt_array *rounded(bt_array *magnitude, const format *f) {
    bt_array *digit = both(BTI_OP_and, both(BTI_OP_shr, magnitude, word((uint32_t)f->dropped)), word(1));
    bt_array *up = both(BTI_OP_add, both(BTI_OP_add, magnitude, word((1u << (f->dropped - 1)) - 1)), digit);
    bt_array *kept = both(BTI_OP_shr, both(BTI_OP_sub, up, word(f->bias << 23)), word((uint32_t)f->dropped));
    return both(BTI_OP_minimum, kept, word(f->greatest));
}

/* x: float32. */
static bt_array *narrowed(bt_array *x, bt_dtype dtype) {
    const format *f = format_of(dtype);
    bt_array *bits = bti_bitcast(x, BT_U32), *magnitude = both(BTI_OP_and, bits, word(0x7FFFFFFF));
    bt_array *sign = both(BTI_OP_and, both(BTI_OP_shr, bits, word(24)), word(0x80));
    bt_array *is_small = both(BTI_OP_lt, magnitude, word(f->least));
    bt_array *small = bti_where(is_small, bti_unary(BTI_OP_abs, x), bti_scalar(0, BT_F32));
    small = bti_unary(BTI_OP_round, both(BTI_OP_mul, small, bti_scalar(f->per_least, BT_F32)));
    bt_array *made = bti_where(is_small, bti_cast(small, BT_U32), rounded(magnitude, f));
    made = bti_where(both(BTI_OP_lt, word(0x7F800000), magnitude), word(f->nan), made);
    return bti_bitcast(bti_cast(both(BTI_OP_or, made, sign), BT_U8), dtype);
}

/* The upper half of a float16. */
static bt_array *widened_e5m2(bt_array *x) {
    bt_array *bits = bti_cast(bti_bitcast(x, BT_U8), BT_U16);
    return bti_cast(bti_bitcast(both(BTI_OP_shl, bits, bti_scalar(8, BT_U16)), BT_F16), BT_F32);
}

static bt_array *widened_e4m3(bt_array *x) {
    const format *f = format_of(BT_F8E4M3);
    bt_array *bits = bti_cast(bti_bitcast(x, BT_U8), BT_U32), *magnitude = both(BTI_OP_and, bits, word(0x7F));
    bt_array *sign = both(BTI_OP_shl, both(BTI_OP_and, bits, word(0x80)), word(24));
    bt_array *normal = both(BTI_OP_add, both(BTI_OP_shl, magnitude, word((uint32_t)f->dropped)), word(f->bias << 23));
    bt_array *small = both(BTI_OP_mul, bti_cast(magnitude, BT_F32), bti_scalar(1 / f->per_least, BT_F32));
    bt_array *made = bti_where(both(BTI_OP_lt, magnitude, word(8)), bti_bitcast(small, BT_U32), normal);
    made = bti_where(both(BTI_OP_eq, magnitude, word(f->nan)), word(0x7FC00000), made);
    return bti_bitcast(both(BTI_OP_or, made, sign), BT_F32);
}

static bt_array *cast_float8(bt_array *x, bt_dtype dtype) {
    bt_dtype from = bti_dtype(x);
    bt_array *wide = from == BT_F8E4M3 ? widened_e4m3(x) : from == BT_F8E5M2 ? widened_e5m2(x) : bti_cast(x, BT_F32);
    if (bti_array_error(wide)) return wide;
    return bti_dtype_is_storage(dtype) ? narrowed(wide, dtype) : bti_cast(wide, dtype);
}

/* --- public operations ---------------------------------------------------------------------------------------------- */

bt_array *bt_cast(bt_array *x, bt_dtype dtype) {
    BTI_PUBLIC("bt_cast");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    if (bti_dtype_is_complex(bti_dtype(x)) && !bti_dtype_is_complex(dtype) && dtype != BT_BOOL) x = bt_real(x);
    if (bti_array_error(x)) BTI_RETURN(x);
    bool storage = bti_dtype_is_storage(dtype) || bti_dtype_is_storage(bti_dtype(x));
    BTI_RETURN(storage && dtype != bti_dtype(x) ? cast_float8(x, dtype) : bti_cast(x, dtype));
}

BTI_GRADIENT_1(cast, bt_cast(g, bt_dtype_of(x)))

bt_array *bt_bitcast(bt_array *x, bt_dtype dtype) {
    BTI_PUBLIC("bt_bitcast");
    BTI_NEED(x);
    bt_array *poison;
    if (!bti_dtype_fits(dtype, &poison)) BTI_RETURN(poison);
    if (bt_dtype_size(dtype) != bt_dtype_size(bti_dtype(x)))
        BTI_RETURN(bti_poisonf(
            BT_INVALID_ARGUMENT, "%s has %zu bytes and %s has %zu; only equal sizes share their bits",
            bt_dtype_name(bti_dtype(x)), bt_dtype_size(bti_dtype(x)), bt_dtype_name(dtype), bt_dtype_size(dtype)));
    BTI_RETURN(bti_bitcast(x, dtype));
}

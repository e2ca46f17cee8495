/* berth/dtype.h: element types. */
#ifndef BERTH_DTYPE_H
#define BERTH_DTYPE_H

#include <berth/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes in bytes: BOOL 1 (0 or 1), F16 and BF16 2, F8E4M3 and F8E5M2 1, C64 8, C128 16, the others as in their names. The byte order is little-endian.
 *
 * F8E4M3 and F8E5M2 are storage: bt_cast makes them of other dtypes and others of them, arrays of them are moved, indexed, joined, printed and saved; any arithmetic
 * on them is refused. They never meet another dtype without a cast.
 *
 * C64 and C128 are complex numbers: two float32 or two float64, the real part first, as C's float _Complex and double _Complex. complex.h says what they do. */
typedef enum bt_dtype {
    BT_BOOL,
    BT_U8,
    BT_U16,
    BT_U32,
    BT_U64,
    BT_I8,
    BT_I16,
    BT_I32,
    BT_I64,
    BT_F16,  /* IEEE binary16 */
    BT_BF16, /* bfloat16: the upper 16 bits of an IEEE binary32 */
    BT_F32,
    BT_F64,
    BT_F8E4M3, /* OCP's E4M3: bias 7, up to 448, no infinity; 0x7F and 0xFF are NaN (float8_e4m3fn) */
    BT_F8E5M2, /* OCP's E5M2: the upper half of an IEEE binary16 */
    BT_C64,    /* a complex number of two float32 */
    BT_C128,   /* a complex number of two float64 */
    BT_DTYPE_COUNT
} bt_dtype;

/* "float32", "complex64", "bool", ...: NumPy's names, and "bfloat16", "float8_e4m3fn", "float8_e5m2"; "invalid" for anything else. Never NULL. */
BT_API const char *bt_dtype_name(bt_dtype dtype);

/* Bytes of one element; 0 for an invalid dtype. */
BT_API size_t bt_dtype_size(bt_dtype dtype);

/* The dtype of an operation on a and b: JAX's type promotion with 64-bit types enabled (docs.jax.dev, "Type promotion
 * semantics"). BT_DTYPE_COUNT: an 8-bit float and another dtype, which have none. */
BT_API bt_dtype bt_promote(bt_dtype a, bt_dtype b);

/* The dtype called `name` (NumPy's names and the short forms "f32", "bf16", "i8"...); BT_DTYPE_COUNT when there is none. */
BT_API bt_dtype bt_dtype_named(const char *name);

#ifdef __cplusplus
}
#endif
#endif

#include "ir/dtype.h"

#include <string.h>

const bti_dtype_traits bti_dtype_table[BT_DTYPE_COUNT + 1] = {
#define BTI_DTYPE(id, name, short_name, ...) [BT_##id] = {#name, #short_name, __VA_ARGS__},
#include "ir/dtypes.def"
    [BT_DTYPE_COUNT] = {.name = "invalid"},
};

/* clang-format off */
/* JAX's lattice. u64 with a signed integer has no common integer, and goes to the default float, which is f64. */
enum { /* the digit: bytes */
    b1 = BT_BOOL, u1 = BT_U8, u2 = BT_U16, u4 = BT_U32, u8 = BT_U64, i1 = BT_I8, i2 = BT_I16, i4 = BT_I32, i8 = BT_I64,
    f2 = BT_F16, bf = BT_BF16, f4 = BT_F32, f8 = BT_F64
};
static const uint8_t common[BT_F64 + 1][BT_F64 + 1] = {
    /*           b1  u1  u2  u4  u8  i1  i2  i4  i8  f2  bf  f4  f8 */
    [BT_BOOL] = {b1, u1, u2, u4, u8, i1, i2, i4, i8, f2, bf, f4, f8},
    [BT_U8] =   {u1, u1, u2, u4, u8, i2, i2, i4, i8, f2, bf, f4, f8},
    [BT_U16] =  {u2, u2, u2, u4, u8, i4, i4, i4, i8, f2, bf, f4, f8},
    [BT_U32] =  {u4, u4, u4, u4, u8, i8, i8, i8, i8, f2, bf, f4, f8},
    [BT_U64] =  {u8, u8, u8, u8, u8, f8, f8, f8, f8, f2, bf, f4, f8},
    [BT_I8] =   {i1, i2, i4, i8, f8, i1, i2, i4, i8, f2, bf, f4, f8},
    [BT_I16] =  {i2, i2, i4, i8, f8, i2, i2, i4, i8, f2, bf, f4, f8},
    [BT_I32] =  {i4, i4, i4, i8, f8, i4, i4, i4, i8, f2, bf, f4, f8},
    [BT_I64] =  {i8, i8, i8, i8, f8, i8, i8, i8, i8, f2, bf, f4, f8},
    [BT_F16] =  {f2, f2, f2, f2, f2, f2, f2, f2, f2, f2, f4, f4, f8},
    [BT_BF16] = {bf, bf, bf, bf, bf, bf, bf, bf, bf, f4, bf, f4, f8},
    [BT_F32] =  {f4, f4, f4, f4, f4, f4, f4, f4, f4, f4, f4, f4, f8},
    [BT_F64] =  {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, f8},
};
/* clang-format on */

const char *bt_dtype_name(bt_dtype dtype) { return bti_dtype_traits_of(dtype)->name; }
size_t bt_dtype_size(bt_dtype dtype) { return bti_dtype_traits_of(dtype)->size_bytes; }

bt_dtype bt_promote(bt_dtype a, bt_dtype b) {
    if ((unsigned)a >= BT_DTYPE_COUNT || (unsigned)b >= BT_DTYPE_COUNT) return BT_DTYPE_COUNT;
    if (bti_dtype_is_storage(a) || bti_dtype_is_storage(b)) return a == b ? a : BT_DTYPE_COUNT;
    if (bti_dtype_is_complex(a) || bti_dtype_is_complex(b)) {
        bool wide = a == BT_C128 || b == BT_C128 || a == BT_F64 || b == BT_F64;
        return wide ? BT_C128 : BT_C64;
    }
    return (bt_dtype)common[a][b];
}

bt_dtype bt_dtype_named(const char *name) {
    for (int i = 0; name && i < BT_DTYPE_COUNT; i++)
        if (!strcmp(name, bti_dtype_table[i].name) || !strcmp(name, bti_dtype_table[i].short_name)) return (bt_dtype)i;
    return BT_DTYPE_COUNT;
}

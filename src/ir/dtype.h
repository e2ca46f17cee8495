/* What the stages ask about element types, besides <berth/dtype.h>. */
#ifndef BTI_IR_DTYPE_H
#define BTI_IR_DTYPE_H

#include <berth/dtype.h>
#include <stdbool.h>
#include <stdint.h>

/* The traits of a dtype. No stage asks where a dtype is in the enum. */
typedef struct bti_dtype_traits {
    const char *name, *short_name;
    uint8_t size_bytes, bits; /* bits of its values: 1 for bool */
    bool is_float;
    bool is_int;    /* signed or unsigned; not bool */
    bool is_signed; /* signed integers and floats */
} bti_dtype_traits;

extern const bti_dtype_traits bti_dtype_table[BT_DTYPE_COUNT + 1]; /* the last row: of an invalid dtype */

static inline const bti_dtype_traits *bti_dtype_traits_of(bt_dtype dtype) {
    return &bti_dtype_table[(unsigned)dtype < BT_DTYPE_COUNT ? dtype : BT_DTYPE_COUNT];
}

/* Bit d: dtype d has the trait. What recording asks for each node is answered without a load. */
enum {
#define BTI_DTYPE(id, name, short_name, size, bits, is_float, is_int, is_signed) | is_float << BT_##id
    BTI_FLOAT_DTYPES = 0
#include "ir/dtypes.def"
    ,
#define BTI_DTYPE(id, name, short_name, size, bits, is_float, is_int, is_signed) | is_int << BT_##id
    BTI_INT_DTYPES = 0
#include "ir/dtypes.def"
    ,
#define BTI_DTYPE(id, name, short_name, size, bits, is_float, is_int, is_signed) | is_signed << BT_##id
    BTI_SIGNED_DTYPES = 0
#include "ir/dtypes.def"
};
static inline bool bti_dtype_in(bt_dtype dtype, unsigned mask) {
    return (unsigned)dtype < BT_DTYPE_COUNT && (mask >> dtype & 1);
}
static inline bool bti_dtype_is_float(bt_dtype dtype) { return bti_dtype_in(dtype, BTI_FLOAT_DTYPES); }
static inline bool bti_dtype_is_int(bt_dtype dtype) { return bti_dtype_in(dtype, BTI_INT_DTYPES); }
static inline bool bti_dtype_is_signed(bt_dtype dtype) { return bti_dtype_in(dtype, BTI_SIGNED_DTYPES); }
#define BTI_COMPUTED_DTYPES BT_F8E4M3 /* dtypes below have arithmetic */
/* 8-bit floats, which are stored and cast, and nothing else. */
static inline bool bti_dtype_is_storage(bt_dtype dtype) { return dtype == BT_F8E4M3 || dtype == BT_F8E5M2; }
static inline bool bti_dtype_is_complex(bt_dtype dtype) { return dtype == BT_C64 || dtype == BT_C128; }
/* Real and complex floats. */
static inline bool bti_dtype_has_gradient(bt_dtype dtype) {
    return bti_dtype_in(dtype, (unsigned)BTI_FLOAT_DTYPES | 1u << BT_C64 | 1u << BT_C128);
}
/* The dtype of a complex number's parts; of another dtype itself. And that of complex numbers whose parts hold the values of a float. */
static inline bt_dtype bti_dtype_of_part(bt_dtype dtype) {
    return dtype == BT_C64 ? BT_F32 : dtype == BT_C128 ? BT_F64 : dtype;
}
static inline bt_dtype bti_dtype_of_parts(bt_dtype part) { return part == BT_F64 ? BT_C128 : BT_C64; }
static inline int bti_dtype_bits(bt_dtype dtype) { return bti_dtype_traits_of(dtype)->bits; }

#endif

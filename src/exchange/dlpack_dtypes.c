#include "exchange/dlpack_dtypes.h"

static const struct {
    uint8_t code, bits;
} types[BT_DTYPE_COUNT] = {
    [BT_BOOL] = {kDLBool, 8},          [BT_U8] = {kDLUInt, 8},
    [BT_U16] = {kDLUInt, 16},          [BT_U32] = {kDLUInt, 32},
    [BT_U64] = {kDLUInt, 64},          [BT_I8] = {kDLInt, 8},
    [BT_I16] = {kDLInt, 16},           [BT_I32] = {kDLInt, 32},
    [BT_I64] = {kDLInt, 64},           [BT_F16] = {kDLFloat, 16},
    [BT_BF16] = {kDLBfloat, 16},       [BT_F32] = {kDLFloat, 32},
    [BT_F64] = {kDLFloat, 64},         [BT_F8E4M3] = {kDLFloat8_e4m3fn, 8},
    [BT_F8E5M2] = {kDLFloat8_e5m2, 8}, [BT_C64] = {kDLComplex, 64},
    [BT_C128] = {kDLComplex, 128},
};

DLDataType bti_dlpack_dtype(bt_dtype dtype) { return (DLDataType){types[dtype].code, types[dtype].bits, 1}; }

bt_dtype bti_dtype_of_dlpack(DLDataType type) {
    int dtype = 0;
    while (dtype < BT_DTYPE_COUNT && (types[dtype].code != type.code || types[dtype].bits != type.bits)) dtype++;
    return (bt_dtype)dtype;
}

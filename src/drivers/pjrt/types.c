/* Dtypes by the numbers of the interface; sizes. */
#include "base/alloc.h"
#include "drivers/pjrt/device.h"

static const unsigned char types[BT_DTYPE_COUNT] = {
    [BT_BOOL] = BTI_PJRT_PRED, [BT_U8] = BTI_PJRT_U8,   [BT_U16] = BTI_PJRT_U16,   [BT_U32] = BTI_PJRT_U32,
    [BT_U64] = BTI_PJRT_U64,   [BT_I8] = BTI_PJRT_S8,   [BT_I16] = BTI_PJRT_S16,   [BT_I32] = BTI_PJRT_S32,
    [BT_I64] = BTI_PJRT_S64,   [BT_F16] = BTI_PJRT_F16, [BT_BF16] = BTI_PJRT_BF16, [BT_F32] = BTI_PJRT_F32,
    [BT_F64] = BTI_PJRT_F64,   [BT_C64] = BTI_PJRT_C64, [BT_C128] = BTI_PJRT_C128, [BT_F8E4M3] = BTI_PJRT_U8,
    [BT_F8E5M2] = BTI_PJRT_U8}; /* bytes: so do texts have them (render/stablehlo) */

bt_status bti_pjrt_type(bt_dtype dtype, int *type) {
    *type = (unsigned)dtype < BT_DTYPE_COUNT ? types[dtype] : 0;
    if (*type) return BT_OK;
    return bti_fail(BT_UNIMPLEMENTED, "PJRT has no type of elements for dtype %s", bti_dtype_traits_of(dtype)->name);
}

bool bti_pjrt_bytes(const bti_type *type, size_t *bytes) {
    *bytes = (size_t)bti_dtype_traits_of(type->dtype)->size_bytes;
    for (int a = 0; a < type->rank; a++)
        if (type->shape[a] < 0 || !bti_mul_size(*bytes, (size_t)type->shape[a], bytes)) return false;
    return true;
}

bool bti_pjrt_same_type(const bti_type *a, const bti_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

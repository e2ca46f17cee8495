#include "ops/elements.h"

#include <math.h>

#include "array/eval.h"
#include "base/alloc.h"
#include "base/error.h"
#include "ir/dtype.h"
#include "ir/float8.h"
#include "ir/half.h"

double bti_element_at(const bti_elements *e, int64_t i) {
    switch (e->dtype) {
    case BT_F64: return ((const double *)e->data)[i];
    case BT_F32: return (double)((const float *)e->data)[i];
    case BT_F16: return (double)bti_f32_from_f16(((const uint16_t *)e->data)[i]);
    case BT_BF16: return (double)bti_f32_from_bf16(((const uint16_t *)e->data)[i]);
    case BT_I64: return (double)((const int64_t *)e->data)[i];
    case BT_U64: return (double)((const uint64_t *)e->data)[i];
    case BT_I32: return (double)((const int32_t *)e->data)[i];
    case BT_U32: return (double)((const uint32_t *)e->data)[i];
    case BT_I16: return (double)((const int16_t *)e->data)[i];
    case BT_U16: return (double)((const uint16_t *)e->data)[i];
    case BT_I8: return (double)((const int8_t *)e->data)[i];
    case BT_F8E4M3:
    case BT_F8E5M2: return (double)bti_f32_from_f8(e->dtype, ((const uint8_t *)e->data)[i]);
    default: return (double)((const uint8_t *)e->data)[i];
    }
}

bt_status bti_elements_read(bti_node *node, bti_elements *e) {
    bt_dtype dtype = (bt_dtype)node->dtype;
    *e = (bti_elements){.dtype = bti_dtype_of_part(dtype), .count = bti_node_count(node)};
    if (bti_dtype_is_complex(dtype)) e->count *= 2;
    if (!e->count) return BT_OK;
    if (!(e->data = bti_alloc((size_t)bti_node_bytes(node)))) return bti_no_memory();
    return bti_read_node(node, e->data);
}

static bool is_bad(double x, bool infinities) { return isnan(x) || (infinities && isinf(x)); }

bt_status bti_find_bad(bti_node *node, bool infinities, int64_t *at) {
    bti_elements e;
    *at = -1;
    if (!bti_node_has_gradient(node)) return BT_OK;
    bt_status status = bti_elements_read(node, &e);
    for (int64_t i = 0; i < e.count && status == BT_OK && *at < 0; i++)
        if (is_bad(bti_element_at(&e, i), infinities)) *at = bti_dtype_is_complex((bt_dtype)node->dtype) ? i / 2 : i;
    bti_free(e.data);
    return status;
}

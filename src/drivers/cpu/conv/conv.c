#include "drivers/cpu/conv/conv.h"

#include "base/alloc.h"
#include "drivers/cpu/conv/columns.h"
#include "drivers/cpu/conv/onednn_conv.h"
#include "drivers/cpu/copy.h"
#include "ir/dtype.h"
#include "reference/operand.h"

/* An array that is not dense is copied; what is made is copied back. */
static bt_status make_dense(bti_operand *array, bool keep, void **scratch) {
    bti_operand given = *array;
    if (bti_operand_is_dense(array)) return BT_OK;
    bti_operand_make_dense(array);
    *scratch = bti_alloc_aligned(64, (size_t)bti_operand_count(array) * bt_dtype_size(array->dtype));
    if (!*scratch) return bti_no_memory();
    array->address = (uint64_t)(uintptr_t)*scratch;
    if (keep) bti_cpu_copy(array, &given);
    return BT_OK;
}

/* Where the one that is made lies otherwise, it is made elsewhere and copied there. */
static bt_status make_all_dense(bti_conv *c, bool may_lie_last, void **scratch) {
    bt_status status = BT_OK;
    for (int i = 0; i < BTI_CONV_ARRAYS && status == BT_OK; i++) {
        bool is_image = i != BTI_CONV_W;
        if (may_lie_last && is_image && bti_conv_lies_last(&c->array[i])) continue;
        status = make_dense(&c->array[i], i != (int)c->made, &scratch[i]);
    }
    return status;
}

bt_status bti_cpu_conv(const bti_work *work) {
    bti_conv c = bti_conv_of(work);
    const bti_operand made = c.array[c.made];
    void *scratch[BTI_CONV_ARRAYS] = {NULL};
    bool done = false, by_product = bti_conv_is_product(&c), may_lie_last = made.dtype == BT_F32 && !by_product;
    if (!bti_operand_count(&made)) return BT_OK;
    bt_status status = make_all_dense(&c, may_lie_last, scratch);
    if (status == BT_OK && may_lie_last) status = bti_conv_by_onednn(&c, true, work->packed, &done);
    if (status == BT_OK && may_lie_last && !done) status = bti_conv_by_onednn(&c, false, work->packed, &done);
    if (status == BT_OK && !done) status = make_all_dense(&c, false, scratch);
    if (status == BT_OK && by_product) status = bti_conv_by_product(&c), done = true;
    if (status == BT_OK && !done) status = bti_conv_by_columns(&c);
    if (status == BT_OK && scratch[c.made]) bti_cpu_copy(&made, &c.array[c.made]);
    for (int i = 0; i < BTI_CONV_ARRAYS; i++) bti_free(scratch[i]);
    return status;
}

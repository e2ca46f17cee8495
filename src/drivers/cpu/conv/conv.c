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

bt_status bti_cpu_conv(const bti_work *work) {
    bti_conv c = bti_conv_of(work);
    const bti_operand made = c.array[c.made];
    void *scratch[BTI_CONV_ARRAYS] = {NULL};
    bt_status status = BT_OK;
    bool done = false;
    if (!bti_operand_count(&made)) return BT_OK;
    for (int i = 0; i < BTI_CONV_ARRAYS && status == BT_OK; i++)
        status = make_dense(&c.array[i], i != (int)c.made, &scratch[i]);
    if (status == BT_OK && bti_conv_is_product(&c)) status = bti_conv_by_product(&c), done = true;
    if (status == BT_OK && !done && made.dtype == BT_F32) status = bti_conv_by_onednn(&c, &done);
    if (status == BT_OK && !done) status = bti_conv_by_columns(&c);
    if (status == BT_OK && scratch[c.made]) bti_cpu_copy(&made, &c.array[c.made]);
    for (int i = 0; i < BTI_CONV_ARRAYS; i++) bti_free(scratch[i]);
    return status;
}

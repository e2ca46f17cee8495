/* Arrays given to other libraries. */
#include <berth/file.h>

#include "array/eval.h"
#include "base/alloc.h"
#include "exchange/dlpack_dtypes.h"

enum { ALIGNMENT = 64 };

/* What a managed tensor keeps: memory of its own, or an array whose memory it shares. */
typedef struct export {
    DLManagedTensorVersioned versioned;
    DLManagedTensor unversioned;
    int64_t shape[BT_MAX_RANK], strides[BT_MAX_RANK];
    bt_array *holder;
    void *copy;
}
export;

static void end_export(export *e) {
    bt_release(e->holder);
    bti_free(e->copy);
    bti_free(e);
}
static void end_versioned(DLManagedTensorVersioned *tensor) { end_export(tensor->manager_ctx); }
static void end_unversioned(DLManagedTensor *tensor) { end_export(tensor->manager_ctx); }

static bt_status take_elements(export *e, bt_array *x, bool copy, const void **elements) {
    size_t bytes = (size_t)bt_count(x) * bt_dtype_size(bt_dtype_of(x));
    bt_array *holder;
    *elements = copy || !bytes ? NULL : bti_array_in_place(x, &holder);
    if (*elements) {
        e->holder = bt_retain(holder);
        return BT_OK;
    }
    *elements = e->copy = bti_alloc_aligned(ALIGNMENT, bytes ? bytes : 1);
    if (!e->copy) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes of an array", bytes);
    return bt_read(x, e->copy, bytes);
}

static void describe_export(export *e, bt_array *x, const void *elements) {
    bt_shape shape = bt_shape_of(x);
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        e->shape[d] = shape.size[d];
        e->strides[d] = stride;
        stride *= shape.size[d] ? shape.size[d] : 1;
    }
    e->unversioned = (DLManagedTensor){.dl_tensor = {.data = (void *)(uintptr_t)elements,
                                                     .device = {kDLCPU, 0},
                                                     .ndim = shape.rank,
                                                     .dtype = bti_dlpack_dtype(bt_dtype_of(x)),
                                                     .shape = e->shape,
                                                     .strides = e->strides},
                                       .manager_ctx = e,
                                       .deleter = end_unversioned};
    e->versioned = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = e,
        .deleter = end_versioned,
        .flags = e->holder ? DLPACK_FLAG_BITMASK_READ_ONLY : DLPACK_FLAG_BITMASK_IS_COPIED,
        .dl_tensor = e->unversioned.dl_tensor,
    };
}

static bt_status make_export(bt_array *x, bool copy, export **made) {
    if (!x) return bti_fail(BT_INVALID_ARGUMENT, "the array is NULL");
    BTI_TRY(bt_block(x));
    export *e = bti_calloc(1, sizeof *e);
    if (!e) return bti_no_memory();
    const void *elements;
    bt_status status = take_elements(e, x, copy, &elements);
    if (status != BT_OK) {
        end_export(e);
        return status;
    }
    describe_export(e, x, elements);
    *made = e;
    return BT_OK;
}

bt_status bt_to_dlpack(bt_array *x, bool copy, DLManagedTensorVersioned **tensor) {
    BTI_PUBLIC("bt_to_dlpack");
    if (!tensor) return bti_fail(BT_INVALID_ARGUMENT, "where to put the tensor is NULL");
    *tensor = NULL;
    export *made;
    BTI_TRY(make_export(x, copy, &made));
    *tensor = &made->versioned;
    return BT_OK;
}

bt_status bt_to_dlpack_unversioned(bt_array *x, bool copy, DLManagedTensor **tensor) {
    BTI_PUBLIC("bt_to_dlpack_unversioned");
    if (!tensor) return bti_fail(BT_INVALID_ARGUMENT, "where to put the tensor is NULL");
    *tensor = NULL;
    export *made;
    BTI_TRY(make_export(x, copy, &made));
    *tensor = &made->unversioned;
    return BT_OK;
}

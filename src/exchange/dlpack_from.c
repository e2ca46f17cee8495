/* Arrays taken from other libraries. */
#include <berth/file.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "exchange/dlpack_dtypes.h"
#include "file/strides.h"

static void end_versioned(void *lender) {
    DLManagedTensorVersioned *tensor = lender;
    if (tensor->deleter) tensor->deleter(tensor);
}
static void end_unversioned(void *lender) {
    DLManagedTensor *tensor = lender;
    if (tensor->deleter) tensor->deleter(tensor);
}

/* --- checking ------------------------------------------------------------------------------------------------------- */

static bt_status check_dtype(DLDataType type) {
    static const char *const names[] = {"an integer", "an unsigned integer", "a float", "an opaque handle",
                                        "a bfloat",   "a complex number",    "a bool"};
    if (bti_dtype_of_dlpack(type) != BT_DTYPE_COUNT && type.lanes == 1) return BT_OK;
    if (type.code >= sizeof names / sizeof *names)
        return bti_fail(BT_UNIMPLEMENTED,
                        "elements of DLPack's type %d (of %d bits), which berth has not; 7 to 17 are the small floats",
                        type.code, type.bits);
    if (type.lanes != 1)
        return bti_fail(BT_UNIMPLEMENTED, "each element is a vector: %s of %d bits in %d lanes; berth has scalars",
                        names[type.code], type.bits, type.lanes);
    return bti_fail(BT_UNIMPLEMENTED, "each element is %s of %d bits, which berth has not", names[type.code],
                    type.bits);
}

static bt_status check_device(DLDevice device) {
    static const char *const names[] = {
        [kDLCUDA] = "CUDA",     [kDLOpenCL] = "OpenCL", [kDLVulkan] = "Vulkan",   [kDLMetal] = "Metal",
        [kDLVPI] = "VPI",       [kDLROCM] = "ROCm",     [kDLExtDev] = "other",    [kDLCUDAManaged] = "CUDA (managed)",
        [kDLOneAPI] = "oneAPI", [kDLWebGPU] = "WebGPU", [kDLHexagon] = "Hexagon", [kDLMAIA] = "MAIA"};
    unsigned type = (unsigned)device.device_type;
    if (type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost) return BT_OK;
    bool known = type < sizeof names / sizeof *names && names[type];
    return bti_fail(BT_UNIMPLEMENTED,
                    "the elements are in memory of %s device %d (DLPack's type %u), and only memory of the host is "
                    "taken; copy them to the host first (in PyTorch, tensor.cpu())",
                    known ? names[type] : "an unknown", device.device_id, type);
}

static bt_status check_shape(const DLTensor *t, bt_shape *shape, int64_t *count) {
    if (t->ndim < 0 || (t->ndim && !t->shape))
        return bti_fail(BT_INVALID_ARGUMENT, "%d dimensions, shape %s", t->ndim, t->shape ? "given" : "NULL");
    if (t->ndim > BT_MAX_RANK)
        return bti_fail(BT_UNIMPLEMENTED, "%d dimensions; berth has up to %d", t->ndim, BT_MAX_RANK);
    *count = 1;
    shape->rank = t->ndim;
    bool empty = false;
    for (int d = 0; d < t->ndim; d++) {
        shape->size[d] = t->shape[d];
        empty = empty || t->shape[d] == 0;
        if (t->shape[d] < 0)
            return bti_fail(BT_INVALID_ARGUMENT, "size %lld of axis %d is negative", (long long)t->shape[d], d);
        if (t->shape[d] && __builtin_mul_overflow(*count, t->shape[d], count))
            return bti_fail(BT_INVALID_ARGUMENT, "the shape overflows");
    }
    if (empty) *count = 0;
    if (*count && !t->data) return bti_fail(BT_INVALID_ARGUMENT, "the data are NULL");
    return BT_OK;
}

/* --- taking ---------------------------------------------------------------------------------------------------------- */

static bt_array *copy_strided(const DLTensor *t, const char *data, bt_dtype dtype, bt_shape shape, int64_t count) {
    size_t bytes;
    if (!bti_mul_size((size_t)count, bt_dtype_size(dtype), &bytes))
        return bti_poisonf(BT_INVALID_ARGUMENT, "the shape overflows");
    void *dense = bti_alloc(bytes);
    if (!dense) return bti_poisonf(BT_RESOURCE_EXHAUSTED, "out of host memory: %zu bytes of a tensor", bytes);
    bti_gather_strided(data, dense, shape, t->strides, bt_dtype_size(dtype));
    bt_array *array = bt_from(dense, dtype, shape);
    bti_free(dense);
    return array;
}

/* `end(lender)` is called exactly once. */
static bt_array *take(const DLTensor *t, bt_lent_end_fn *end, void *lender) {
    bt_shape shape = {0};
    int64_t count = 0;
    bt_status status = check_device(t->device);
    if (status == BT_OK) status = check_dtype(t->dtype);
    if (status == BT_OK) status = check_shape(t, &shape, &count);
    if (status != BT_OK) {
        bt_array *poison = bti_poison(bti_error_last());
        end(lender);
        return poison;
    }
    bt_dtype dtype = bti_dtype_of_dlpack(t->dtype);
    const char *data = count ? (const char *)t->data + t->byte_offset : NULL;
    if (!count || !t->strides || bti_is_dense(shape, t->strides)) return bt_from_lent(data, dtype, shape, end, lender);
    bt_array *array = copy_strided(t, data, dtype, shape, count);
    end(lender);
    return array;
}

bt_array *bt_from_dlpack(DLManagedTensorVersioned *tensor) {
    BTI_PUBLIC("bt_from_dlpack");
    if (!tensor) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the tensor is NULL"));
    if (tensor->version.major == DLPACK_MAJOR_VERSION) BTI_RETURN(take(&tensor->dl_tensor, end_versioned, tensor));
    bt_array *poison = bti_poisonf(BT_UNIMPLEMENTED, "a tensor of DLPack %u.%u; berth knows %d.x",
                                   tensor->version.major, tensor->version.minor, DLPACK_MAJOR_VERSION);
    end_versioned(tensor);
    BTI_RETURN(poison);
}

bt_array *bt_from_dlpack_unversioned(DLManagedTensor *tensor) {
    BTI_PUBLIC("bt_from_dlpack_unversioned");
    if (!tensor) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the tensor is NULL"));
    BTI_RETURN(take(&tensor->dl_tensor, end_unversioned, tensor));
}

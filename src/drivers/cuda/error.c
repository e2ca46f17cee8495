/* CUDA errors as statuses, lost devices, the current context. */
#include <stdio.h>

#include "drivers/cuda/device.h"
#include "base/lock.h"

typedef struct known_error {
    CUresult result;
    bt_status status;
    bool sticky; /* the context is broken for good */
    const char *advice;
} known_error;

static const known_error known_errors[] = {
    {1, BT_INTERNAL, false, ""},
    {CUDA_ERROR_OUT_OF_MEMORY, BT_RESOURCE_EXHAUSTED, false, ""},
    {3, BT_UNAVAILABLE, false, ""},
    {4, BT_UNAVAILABLE, false, "the program is ending"},
    {CUDA_ERROR_STUB_LIBRARY, BT_UNAVAILABLE, false,
     "this is the toolkit's stub, not the driver: take its folder out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, BT_UNAVAILABLE, false, "the driver is too old: install a newer one"},
    {46, BT_UNAVAILABLE, false,
     "another process has the device for itself (its compute mode is exclusive), or it is prohibited"},
    {CUDA_ERROR_NO_DEVICE, BT_UNAVAILABLE, false, "there is no device, or CUDA_VISIBLE_DEVICES hides them all"},
    {101, BT_NOT_FOUND, false, ""},
    {102, BT_PERMISSION_DENIED, false, ""},
    {CUDA_ERROR_INVALID_IMAGE, BT_INTERNAL, false, ""},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, BT_UNAVAILABLE, false, ""},
    {214, BT_DATA_LOSS, true,
     "the device's memory is faulty: nvidia-smi -q -d ECC tells more; a reset or a new card mends it"},
    {220, BT_DATA_LOSS, true, "the link between devices is faulty"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, BT_UNAVAILABLE, false,
     "the driver is older than NVRTC: install a newer driver, or the NVRTC of the driver's CUDA"},
    {226, BT_INTERNAL, true, ""},
    {304, BT_UNAVAILABLE, false, "may this user open /dev/nvidia*?"},
    {700, BT_INTERNAL, true, ""},
    {701, BT_RESOURCE_EXHAUSTED, false, ""},
    {702, BT_DEADLINE_EXCEEDED, true, "the device also drives a display, which ends long kernels"},
    {709, BT_UNAVAILABLE, true, ""},
    {710, BT_INTERNAL, true, ""},
    {714, BT_INTERNAL, true, ""},
    {715, BT_INTERNAL, true, ""},
    {716, BT_INTERNAL, true, ""},
    {717, BT_INTERNAL, true, ""},
    {718, BT_INTERNAL, true, ""},
    {719, BT_INTERNAL, true, ""},
    {721, BT_INTERNAL, true, ""},
    {800, BT_PERMISSION_DENIED, false, ""},
    {801, BT_UNIMPLEMENTED, false, ""},
    {802, BT_UNAVAILABLE, false,
     "the system is not ready: on machines with NVSwitch the service nvidia-fabricmanager must run"},
    {803, BT_UNAVAILABLE, false,
     "the loaded kernel driver and libcuda are of different versions: restart the machine after the upgrade"},
    {804, BT_UNAVAILABLE, false, "CUDA's compatibility package does not serve this device"},
    {805, BT_UNAVAILABLE, false, "the MPS server cannot be reached"},
    {807, BT_UNAVAILABLE, false, "the MPS server is not ready"},
    {808, BT_RESOURCE_EXHAUSTED, false, "the MPS server has as many clients as it takes"},
    {809, BT_RESOURCE_EXHAUSTED, false, "the MPS server has as many connections as it takes"},
    {810, BT_UNAVAILABLE, true, "another client of the MPS server failed"},
    {911, BT_UNAVAILABLE, true, ""},
    {999, BT_UNKNOWN, true, "after a suspend of the machine the kernel module nvidia_uvm may have to be reloaded"},
};

static const known_error *find_known_error(CUresult result) {
    static const known_error other = {0, BT_INTERNAL, false, ""};
    for (size_t i = 0; i < sizeof known_errors / sizeof *known_errors; i++)
        if (known_errors[i].result == result) return &known_errors[i];
    return &other;
}

static bt_status fail_lost(bti_cuda_device *device) {
    char cause[sizeof device->cause];
    bti_lock_take(&device->lost_lock);
    snprintf(cause, sizeof cause, "%s", device->cause);
    bti_lock_give(&device->lost_lock);
    return bti_fail(BT_UNAVAILABLE, "%s is lost to this process since %s; restart the program", device->name, cause);
}

static void lose_device(bti_cuda_device *device, const char *cause) {
    bti_lock_take(&device->lost_lock);
    if (!atomic_load(&device->lost)) snprintf(device->cause, sizeof device->cause, "%s", cause);
    atomic_store(&device->lost, true);
    bti_lock_give(&device->lost_lock);
}

bt_status bti_cuda_check(bti_cuda_device *device, const char *call, CUresult result) {
    if (result == CUDA_SUCCESS) return BT_OK;
    if (device && atomic_load(&device->lost)) return fail_lost(device);
    const known_error *error = find_known_error(result);
    const char *name = NULL, *text = NULL;
    char said[280];
    if (bti_cu.cuGetErrorName(result, &name) != CUDA_SUCCESS) name = NULL;
    if (bti_cu.cuGetErrorString(result, &text) != CUDA_SUCCESS) text = NULL;
    snprintf(said, sizeof said, "%s: %s (%d)%s%s%s%s", call, name ? name : "an error", result, text ? ", " : "",
             text ? text : "", *error->advice ? "; " : "", error->advice);
    if (device && error->sticky) lose_device(device, said);
    return bti_fail(error->status, "%s%s%s", device ? device->name : "", device ? ": " : "", said);
}

bt_status bti_cuda_enter(bti_cuda_device *device) {
    if (atomic_load_explicit(&device->lost, memory_order_relaxed)) return fail_lost(device);
    BTI_CUDA_TRY(device, cuCtxPushCurrent, device->context);
    return BT_OK;
}

bt_status bti_cuda_leave(bt_status status) {
    CUcontext unused;
    (void)bti_cu.cuCtxPopCurrent(&unused);
    return status;
}

bt_status bti_cuda_record(bti_cuda_device *device, CUstream stream, uint64_t *recorded, uint64_t mark,
                          bti_event *event) {
    bti_lock_take(&device->event_lock);
    event->value = (*recorded)++ | mark;
    bt_status status =
        bti_cuda_check(device, "cuEventRecord", bti_cu.cuEventRecord(bti_cuda_event(device, *event), stream));
    bti_lock_give(&device->event_lock);
    if (status != BT_OK) (void)bti_cu.cuStreamSynchronize(stream);
    return status;
}

/* Modules, plans of transforms and recordings that are no longer needed, but that work in flight may still use. Each is freed when an event that was recorded
 * behind that work on the compute stream is complete, or when the device is waited for. */
#include "drivers/cuda/device.h"

/* false: the event could not be recorded. */
static bool record_end(bti_cuda_device *device, bti_cuda_retired *retired) {
    if (bti_cu.cuEventCreate(&retired->done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        retired->done = NULL;
        return false;
    }
    return bti_cu.cuEventRecord(retired->done, device->compute) == CUDA_SUCCESS;
}

static void add_retired(bti_cuda_device *device, bti_cuda_retired *retired) {
    retired->next = NULL;
    bti_lock_take(&device->retired_lock);
    if (device->last_retired)
        device->last_retired->next = retired;
    else
        device->retired = retired;
    device->last_retired = retired;
    bti_lock_give(&device->retired_lock);
}

static void free_retired(bti_cuda_device *device, bti_cuda_retired *retired) {
    if (retired->done && !atomic_load(&device->lost)) (void)bti_cu.cuEventDestroy(retired->done);
    retired->free(device, retired);
}

/* The oldest one, if the work before its event is complete, or if `all`. */
static bti_cuda_retired *remove_oldest(bti_cuda_device *device, bool all) {
    bti_lock_take(&device->retired_lock);
    bti_cuda_retired *oldest = device->retired;
    if (oldest && !all && bti_cu.cuEventQuery(oldest->done) != CUDA_SUCCESS) oldest = NULL;
    if (oldest) device->retired = oldest->next;
    if (!device->retired) device->last_retired = NULL;
    bti_lock_give(&device->retired_lock);
    return oldest;
}

void bti_cuda_free_retired(bti_cuda_device *device, bool all) {
    for (bti_cuda_retired *oldest; (oldest = remove_oldest(device, all)) != NULL;) free_retired(device, oldest);
}

void bti_cuda_retire(bti_cuda_device *device, bti_cuda_retired *retired) {
    if (atomic_load(&device->lost) || bti_cu.cuCtxPushCurrent(device->context) != CUDA_SUCCESS) {
        add_retired(device, retired); /* until the device is closed */
        return;
    }
    bool recorded = record_end(device, retired);
    if (recorded)
        add_retired(device, retired);
    else
        (void)bti_cu.cuStreamSynchronize(device->compute);
    bti_cuda_free_retired(device, false);
    if (!recorded) free_retired(device, retired);
    (void)bti_cuda_leave(BT_OK);
}

void bti_cuda_held_release(void *device, void *released) {
    bti_cuda_held *held = released;
    if (atomic_fetch_sub(&held->holders, 1) == 1) bti_cuda_retire(device, &held->retired);
}

bt_status bti_cuda_sync(void *opened) {
    bti_cuda_device *device = opened;
    const CUstream streams[] = {device->up.stream, device->down.stream, device->compute, device->reduce,
                                device->receive};
    bt_status status = BT_OK;
    BTI_TRY(bti_cuda_enter(device));
    for (int i = 0; i < 5 && status == BT_OK; i++)
        status = bti_cuda_check(device, "cuStreamSynchronize", bti_cu.cuStreamSynchronize(streams[i]));
    if (status == BT_OK) bti_cuda_free_retired(device, false);
    return bti_cuda_leave(status);
}

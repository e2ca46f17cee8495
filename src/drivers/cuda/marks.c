/* Marks: events with times. A mark of a recording is a node of the graph, whose event is another one for each run. */
#include <math.h>

#include "base/lock.h"
#include "base/trace.h"
#include "drivers/cuda/device.h"

/* The time of a device is told by milliseconds in single precision since a reference, which is good to 0.06 us for so long. */
#define REFERENCE_MS 1000.0
#define ORIGIN_NS (UINT64_C(1) << 62) /* of the first reference: what is marked by another stream may come before it */

static CUevent event_of(bti_mark mark) { return (CUevent)(uintptr_t)mark.value; }

/* --- events ----------------------------------------------------------------------------------------------------------- */

bt_status bti_cuda_take_mark(bti_cuda_device *device, bti_mark *mark) {
    CUevent event = NULL;
    bti_lock_take(&device->mark_lock);
    if (device->free_marks.count) event = device->free_marks.items[--device->free_marks.count];
    bti_lock_give(&device->mark_lock);
    if (!event) BTI_CUDA_TRY(device, cuEventCreate, &event, CU_EVENT_DEFAULT);
    mark->value = (uint64_t)(uintptr_t)event;
    return BT_OK;
}

static void destroy(bti_cuda_device *device, CUevent event) {
    if (!atomic_load(&device->lost)) (void)bti_cu.cuEventDestroy(event);
}

void bti_cuda_give_mark(bti_cuda_device *device, bti_mark mark) {
    bti_lock_take(&device->mark_lock);
    bool kept = bti_vec_push(&device->free_marks, event_of(mark));
    bti_lock_give(&device->mark_lock);
    if (!kept) destroy(device, event_of(mark));
}

void bti_cuda_marks_free(bti_cuda_device *device) {
    for (size_t i = 0; i < device->free_marks.count; i++) destroy(device, device->free_marks.items[i]);
    bti_vec_free(&device->free_marks);
    if (device->reference) destroy(device, device->reference);
    device->reference = NULL;
}

/* --- marking ---------------------------------------------------------------------------------------------------------- */

bt_status bti_cuda_mark_stream(bti_cuda_device *device, CUstream stream, bti_mark *mark) {
    BTI_TRY(bti_cuda_take_mark(device, mark));
    bt_status status = bti_cuda_check(device, "cuEventRecord", bti_cu.cuEventRecord(event_of(*mark), stream));
    if (status != BT_OK) bti_cuda_give_mark(device, *mark);
    return status;
}

/* --- work beside the launches ------------------------------------------------------------------------------------------- */

/* A failure is that of the work too, or of no interest. */
static bool mark_beside(bti_cuda_device *device, CUstream stream, bti_mark *mark) {
    bti_error *before = bti_error_last();
    bool marked = bti_cuda_mark_stream(device, stream, mark) == BT_OK;
    bti_error_put_back(before);
    return marked;
}

void bti_cuda_mark_begin(bti_cuda_device *device, CUstream stream, bti_work_end *of) {
    of->marked = bti_trace_on() && mark_beside(device, stream, &of->begin);
}

void bti_cuda_mark_end(bti_cuda_device *device, CUstream stream, bti_work_end *of) {
    if (!of->marked) return;
    of->marked = mark_beside(device, stream, &of->end);
    if (!of->marked) bti_cuda_give_mark(device, of->begin);
}

void bti_cuda_drop_marks(bti_cuda_device *device, bti_work_end *of) {
    if (!of->marked) return;
    bti_cuda_give_mark(device, of->begin);
    if (of->end.value) bti_cuda_give_mark(device, of->end);
    of->marked = false;
}

/* --- reading ---------------------------------------------------------------------------------------------------------- */

/* Under the lock. *event becomes the one that is free then. */
static uint64_t time_of(bti_cuda_device *device, CUevent *event) {
    float ms = 0;
    if (!device->reference) {
        if (bti_cu.cuEventQuery(*event) != CUDA_SUCCESS) return 0;
        device->reference = *event;
        device->reference_ns = ORIGIN_NS;
        *event = NULL;
        return ORIGIN_NS;
    }
    if (bti_cu.cuEventElapsedTime(&ms, device->reference, *event) != CUDA_SUCCESS) return 0;
    uint64_t ns = device->reference_ns + (uint64_t)llround((double)ms * 1e6);
    if ((double)ms < REFERENCE_MS) return ns;
    CUevent before = device->reference;
    device->reference = *event;
    device->reference_ns = ns;
    *event = before;
    return ns;
}

uint64_t bti_cuda_read_mark(void *opened, bti_mark mark) {
    bti_cuda_device *device = opened;
    CUevent event = event_of(mark);
    uint64_t ns = 0;
    if (!atomic_load(&device->lost) && bti_cu.cuCtxPushCurrent(device->context) == CUDA_SUCCESS) {
        bti_lock_take(&device->mark_lock);
        ns = time_of(device, &event);
        bti_lock_give(&device->mark_lock);
        (void)bti_cuda_leave(BT_OK);
    }
    if (event) bti_cuda_give_mark(device, (bti_mark){(uint64_t)(uintptr_t)event});
    return ns;
}

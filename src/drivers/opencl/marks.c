/* Marks: markers in a queue that keeps times. What is launched goes to that queue from the first mark on, until something is launched that nobody times. */
#include "drivers/opencl/device.h"

/* What is launched in the other queue comes after everything in this one. */
static bt_status change_queue(bti_cl_device *device, cl_command_queue other) {
    cl_event last;
    BTI_CL_TRY(device, "an event", device->cl->clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &last));
    cl_int error = device->cl->clFlush(device->queue);
    if (error == CL_SUCCESS) error = device->cl->clEnqueueBarrierWithWaitList(other, 1, &last, NULL);
    device->cl->clReleaseEvent(last);
    if (error != CL_SUCCESS) return bti_cl_fail(device, "another queue", error);
    device->queue = other;
    return BT_OK;
}

bt_status bti_cl_end_times(bti_cl_device *device) {
    return device->queue == device->queues[1] ? change_queue(device, device->queues[0]) : BT_OK;
}

bt_status bti_cl_mark(void *opened, bool begins, bti_mark *mark) {
    (void)begins; /* the queue reaches it when what is before has ended, and what is behind begins then */
    bti_cl_device *device = opened;
    cl_event marker;
    BTI_TRY(bti_cl_check(device));
    if (device->queue != device->queues[1]) BTI_TRY(change_queue(device, device->queues[1]));
    BTI_CL_TRY(device, "an event", device->cl->clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &marker));
    mark->value = (uint64_t)(uintptr_t)marker;
    return BT_OK;
}

uint64_t bti_cl_read_mark(void *opened, bti_mark mark) {
    bti_cl_device *device = opened;
    cl_event marker = (cl_event)(uintptr_t)mark.value;
    cl_ulong ns = 0;
    cl_int error = device->cl->clGetEventProfilingInfo(marker, CL_PROFILING_COMMAND_END, sizeof ns, &ns, NULL);
    device->cl->clReleaseEvent(marker);
    return error == CL_SUCCESS ? ns : 0;
}

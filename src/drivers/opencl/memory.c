/* Memory: buffers behind addresses of our own, and copies. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/trace.h"
#include "drivers/opencl/device.h"

#define TAG UINT64_C(0xc1)
#define OFFSET_MAX (UINT64_C(1) << 48)
#define GUARD_BYTES UINT64_C(4096)

/* The number of buffers that begin at or before an address. Under the lock. */
static size_t buffers_up_to(const bti_cl_device *device, uint64_t address) {
    return bti_items_up_to(device->buffers.items, device->buffers.count, sizeof *device->buffers.items, address);
}

bt_status bti_cl_find_buffer(bti_cl_device *device, uint64_t address, cl_mem *memory, size_t *offset) {
    bool found = false;
    pthread_rwlock_rdlock(&device->lock);
    size_t at = buffers_up_to(device, address);
    if (at) {
        const bti_cl_buffer *buffer = &device->buffers.items[at - 1];
        *offset = (size_t)(address - buffer->address);
        *memory = buffer->memory;
        found = *offset <= buffer->bytes;
    }
    pthread_rwlock_unlock(&device->lock);
    if (found) return BT_OK;
    return bti_fail(BT_INTERNAL, "%s: %#" PRIx64 " is not within memory of this device", device->name, address);
}

/* Addresses are never reused: there are 256 TiB of them. */
static bool add_buffer(bti_cl_device *device, cl_mem memory, size_t bytes, uint64_t *address) {
    uint64_t span = ((bytes + 4095) & ~UINT64_C(4095)) + GUARD_BYTES;
    pthread_rwlock_wrlock(&device->lock);
    bool room = span < OFFSET_MAX - GUARD_BYTES - device->next && bti_vec_reserve(&device->buffers, 1);
    if (room) {
        *address = TAG << 56 | (uint64_t)(device->number + 1) << 48 | (device->next + GUARD_BYTES);
        device->next += span;
        device->buffers.items[device->buffers.count++] = (bti_cl_buffer){*address, bytes, memory};
    }
    pthread_rwlock_unlock(&device->lock);
    return room;
}

/* Some platforms allocate at the first use, and fail then. So the buffer is used at once. */
static cl_int force_allocation(bti_cl_device *device, cl_mem memory) {
    cl_int error = device->cl->clEnqueueMigrateMemObjects(device->transfers, 1, &memory,
                                                          CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    return error == CL_SUCCESS ? device->cl->clFinish(device->transfers) : error;
}

bt_status bti_cl_alloc(void *opened, size_t bytes, uint64_t *address) {
    bti_cl_device *device = opened;
    cl_int error = CL_SUCCESS;
    BTI_TRY(bti_cl_check(device));
    if (bytes > device->largest_buffer)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s takes at most %zu bytes in one piece (CL_DEVICE_MAX_MEM_ALLOC_SIZE)",
                        device->name, device->largest_buffer);
    cl_mem memory = device->cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    if (memory && error == CL_SUCCESS) error = force_allocation(device, memory);
    if (error == CL_SUCCESS && add_buffer(device, memory, bytes, address)) return BT_OK;
    if (memory) device->cl->clReleaseMemObject(memory);
    return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: %zu bytes: %s", device->name, bytes,
                    error ? bti_cl_error_name(error) : "out of host memory");
}

void bti_cl_free(void *opened, uint64_t address, size_t bytes) {
    (void)bytes;
    bti_cl_device *device = opened;
    cl_mem memory = NULL;
    pthread_rwlock_wrlock(&device->lock);
    size_t at = buffers_up_to(device, address);
    if (at && device->buffers.items[at - 1].address == address) {
        bti_cl_buffer *items = device->buffers.items;
        memory = items[at - 1].memory;
        memmove(items + at - 1, items + at, (device->buffers.count - at) * sizeof *items);
        device->buffers.count--;
    }
    pthread_rwlock_unlock(&device->lock);
    if (memory) device->cl->clReleaseMemObject(memory);
}

bt_status bti_cl_upload(void *opened, uint64_t address, const void *host, size_t bytes) {
    bti_cl_device *device = opened;
    cl_mem memory;
    size_t offset;
    BTI_TRY(bti_cl_check(device));
    BTI_TRY(bti_cl_find_buffer(device, address, &memory, &offset));
    BTI_CL_TRY(
        device, "an upload",
        device->cl->clEnqueueWriteBuffer(device->transfers, memory, CL_TRUE, offset, bytes, host, 0, NULL, NULL));
    return BT_OK;
}

bt_status bti_cl_download(void *opened, void *host, uint64_t address, size_t bytes) {
    bti_cl_device *device = opened;
    cl_mem memory;
    size_t offset;
    BTI_TRY(bti_cl_check(device));
    BTI_TRY(bti_cl_find_buffer(device, address, &memory, &offset));
    BTI_CL_TRY(device, "a download",
               device->cl->clEnqueueReadBuffer(device->transfers, memory, CL_TRUE, offset, bytes, host, 0, NULL, NULL));
    return BT_OK;
}

/* --- beside what is launched ------------------------------------------------------------------------------------------ */

/* A point of the queue of fetches, for a trace, after `made` unless that is NULL; false: there is none. */
static bool mark_fetch(const bti_cl_device *device, const cl_event *made, bti_mark *mark) {
    cl_event marker;
    if (device->cl->clEnqueueMarkerWithWaitList(device->fetches, made ? 1 : 0, made, &marker) != CL_SUCCESS)
        return false;
    mark->value = (uint64_t)(uintptr_t)marker;
    return true;
}

static void drop_mark(const bti_cl_device *device, bti_mark mark) {
    device->cl->clReleaseEvent((cl_event)(uintptr_t)mark.value);
}

/* After a failure nothing goes on. */
static bt_status read_after(bti_cl_device *device, void *host, uint64_t address, const cl_event *made, size_t bytes,
                            cl_event *read) {
    cl_mem memory;
    size_t offset;
    BTI_TRY(bti_cl_check(device));
    BTI_TRY(bti_cl_find_buffer(device, address, &memory, &offset));
    BTI_CL_TRY(device, "a download",
               device->cl->clEnqueueReadBuffer(device->fetches, memory, CL_FALSE, offset, bytes, host, 1, made, read));
    cl_int error = device->cl->clFlush(device->fetches);
    if (error == CL_SUCCESS) return BT_OK;
    (void)device->cl->clFinish(device->fetches);
    device->cl->clReleaseEvent(*read);
    return bti_cl_fail(device, "a download", error);
}

bt_status bti_cl_fetch(void *opened, void *host, uint64_t address, bti_event made, size_t bytes, bti_work_end *end) {
    bti_cl_device *device = opened;
    cl_event marker = (cl_event)(uintptr_t)made.value, read;
    *end = (bti_work_end){0};
    bool begun = bti_trace_on() && mark_fetch(device, &marker, &end->begin);
    bt_status status = read_after(device, host, address, &marker, bytes, &read);
    device->cl->clReleaseEvent(marker);
    end->marked = begun && status == BT_OK && mark_fetch(device, NULL, &end->end);
    if (begun && !end->marked) drop_mark(device, end->begin);
    if (end->marked) (void)device->cl->clFlush(device->fetches);
    if (status == BT_OK) end->event.value = (uint64_t)(uintptr_t)read;
    return status;
}

bt_status bti_cl_copy(void *opened, uint64_t to, uint64_t from, size_t bytes) {
    bti_cl_device *device = opened;
    cl_mem target, source;
    size_t to_offset, from_offset;
    BTI_TRY(bti_cl_check(device));
    BTI_TRY(bti_cl_find_buffer(device, to, &target, &to_offset));
    BTI_TRY(bti_cl_find_buffer(device, from, &source, &from_offset));
    BTI_CL_TRY(
        device, "a copy",
        device->cl->clEnqueueCopyBuffer(device->queue, source, target, from_offset, to_offset, bytes, 0, NULL, NULL));
    return BT_OK;
}

bt_status bti_cl_fill(void *opened, uint64_t address, int byte, size_t bytes) {
    bti_cl_device *device = opened;
    cl_mem memory;
    size_t offset;
    cl_uchar pattern = (cl_uchar)byte;
    BTI_TRY(bti_cl_check(device));
    BTI_TRY(bti_cl_find_buffer(device, address, &memory, &offset));
    BTI_CL_TRY(device, "a fill",
               device->cl->clEnqueueFillBuffer(device->queue, memory, &pattern, 1, offset, bytes, 0, NULL, NULL));
    return BT_OK;
}

/* Devices of one platform share a context; between platforms the bytes go through host memory. */
bt_status bti_cl_peer_copy(void *to_opened, uint64_t to, void *from_opened, uint64_t from, size_t bytes) {
    bti_cl_device *target = to_opened, *source = from_opened;
    cl_mem to_memory, from_memory;
    size_t to_offset, from_offset;
    BTI_TRY(bti_cl_check(target));
    BTI_TRY(bti_cl_check(source));
    BTI_TRY(bti_cl_find_buffer(target, to, &to_memory, &to_offset));
    BTI_TRY(bti_cl_find_buffer(source, from, &from_memory, &from_offset));
    if (target->context == source->context) {
        BTI_CL_TRY(target, "a copy between devices",
                   target->cl->clEnqueueCopyBuffer(target->transfers, from_memory, to_memory, from_offset, to_offset,
                                                   bytes, 0, NULL, NULL));
        BTI_CL_TRY(target, "a copy between devices", target->cl->clFinish(target->transfers));
        return BT_OK;
    }
    void *host = bti_alloc(bytes);
    if (!host) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory for a copy of %zu bytes", bytes);
    bt_status status = bti_cl_download(source, host, from, bytes);
    if (status == BT_OK) status = bti_cl_upload(target, to, host, bytes);
    bti_free(host);
    return status;
}

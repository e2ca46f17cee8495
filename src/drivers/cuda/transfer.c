/* Transfers. Host memory that is not pinned is copied through pinned buffers: several threads of the host fill or empty one while the bus transfers others. */
#include <string.h>

#include "base/cores.h"
#include "base/lock.h"
#include "drivers/cuda/device.h"

bt_status bti_cuda_lane_open(bti_cuda_device *device, bti_cuda_lane *lane) {
    lane->count = BTI_CUDA_STAGINGS;
    BTI_CUDA_TRY(device, cuStreamCreate, &lane->stream, CU_STREAM_NON_BLOCKING);
    BTI_CUDA_TRY(device, cuEventCreate, &lane->after, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < BTI_CUDA_STAGINGS; i++)
        BTI_CUDA_TRY(device, cuEventCreate, &lane->done[i], CU_EVENT_DISABLE_TIMING);
    return BT_OK;
}

/* Pinned memory is slow to allocate, so a buffer is allocated when it is first used. Where there is no more memory, the buffers before this one are all
 * that are used; NULL: there are none. */
static bt_status alloc_staging(bti_cuda_device *device, bti_cuda_lane *lane, size_t i) {
    void *memory = NULL;
    if (lane->staging[i]) return BT_OK;
    CUresult result = bti_cu.cuMemHostAlloc(&memory, BTI_CUDA_STAGING, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        if (i) lane->count = i;
        return BT_OK;
    }
    BTI_TRY(bti_cuda_check(device, "cuMemHostAlloc", result));
    lane->staging[i] = memory;
    return BT_OK;
}

void bti_cuda_lane_close(bti_cuda_lane *lane) {
    for (int i = 0; i < BTI_CUDA_STAGINGS; i++) {
        if (lane->staging[i]) (void)bti_cu.cuMemFreeHost(lane->staging[i]);
        if (lane->done[i]) (void)bti_cu.cuEventDestroy(lane->done[i]);
    }
    if (lane->after) (void)bti_cu.cuEventDestroy(lane->after);
    if (lane->stream) (void)bti_cu.cuStreamDestroy(lane->stream);
}

/* One thread alone copies slower than the bus. */
static void copy_on_host(void *to, const void *from, size_t bytes) {
    if (bytes < 4 * BTI_CUDA_COPY_PART) {
        memcpy(to, from, bytes);
        return;
    }
    int before = bti_cores_limit(BTI_CUDA_COPY_THREADS);
    if (before && before < BTI_CUDA_COPY_THREADS) bti_cores_limit(before);
    bti_copy_pieces(to, from, bytes, BTI_CUDA_COPY_PART);
    bti_cores_limit(before);
}

static bt_status order_by_events(bti_cuda_device *device) {
    BTI_CUDA_TRY(device, cuEventRecord, device->up.after, device->up.stream);
    BTI_CUDA_TRY(device, cuStreamWaitEvent, device->compute, device->up.after, 0);
    BTI_CUDA_TRY(device, cuStreamWaitEvent, device->down.stream, device->up.after, 0);
    return BT_OK;
}

/* Later launches and downloads wait for the upload, or for the parts of it that were begun before it failed: its memory may serve them. */
static bt_status order_after_upload(bti_cuda_device *device, bt_status uploaded) {
    bt_status ordered = order_by_events(device);
    if (ordered != BT_OK) (void)bti_cu.cuStreamSynchronize(device->up.stream);
    return uploaded == BT_OK ? ordered : uploaded;
}

static bt_status wait_for_staging(bti_cuda_device *device, bti_cuda_lane *lane, size_t i) {
    if (!lane->busy[i]) return BT_OK;
    BTI_CUDA_TRY(device, cuEventSynchronize, lane->done[i]);
    lane->busy[i] = false;
    return BT_OK;
}

/* --- up ----------------------------------------------------------------------------------------------------------- */

/* From any memory: libcuda copies through buffers of its own where it is not pinned. */
static bt_status upload_directly(bti_cuda_device *device, uint64_t address, const void *host, size_t bytes) {
    BTI_CUDA_TRY(device, cuMemcpyHtoDAsync, address, host, bytes, device->up.stream);
    BTI_CUDA_TRY(device, cuStreamSynchronize, device->up.stream);
    return BT_OK;
}

static bt_status next_staging(bti_cuda_device *device, bti_cuda_lane *up) {
    BTI_CUDA_TRY(device, cuEventRecord, up->done[up->current], up->stream);
    up->busy[up->current] = true;
    size_t next = (up->current + 1) % up->count;
    BTI_TRY(alloc_staging(device, up, next));
    up->current = next % up->count;
    up->used = 0;
    return BT_OK;
}

/* Small uploads share a buffer without waiting. */
static bt_status upload_staged(bti_cuda_device *device, uint64_t address, const char *host, size_t bytes) {
    bti_cuda_lane *up = &device->up;
    BTI_TRY(alloc_staging(device, up, up->current));
    if (!up->staging[up->current]) return upload_directly(device, address, host, bytes);
    while (bytes) {
        if (up->used == BTI_CUDA_STAGING) BTI_TRY(next_staging(device, up));
        if (!up->used) BTI_TRY(wait_for_staging(device, up, up->current));
        size_t part = BTI_CUDA_STAGING - up->used;
        if (part > bytes) part = bytes;
        char *staged = up->staging[up->current] + up->used;
        copy_on_host(staged, host, part);
        BTI_CUDA_TRY(device, cuMemcpyHtoDAsync, address, staged, part, up->stream);
        up->used += part;
        address += part, host += part, bytes -= part;
    }
    return BT_OK;
}

bt_status bti_cuda_upload(void *opened, uint64_t address, const void *host, size_t bytes) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    bti_lock_take(&device->up.lock);
    bt_status status = order_after_upload(device, upload_staged(device, address, host, bytes));
    bti_lock_give(&device->up.lock);
    return bti_cuda_leave(status);
}

/* The wait is not under the lock: a later upload that records the event again comes after this one. */
bt_status bti_cuda_upload_pinned(void *opened, uint64_t address, const void *host, size_t bytes) {
    bti_cuda_device *device = opened;
    if (bytes < BTI_CUDA_DIRECT) return bti_cuda_upload(device, address, host, bytes);
    BTI_TRY(bti_cuda_enter(device));
    bti_lock_take(&device->up.lock);
    bt_status status =
        bti_cuda_check(device, "cuMemcpyHtoDAsync", bti_cu.cuMemcpyHtoDAsync(address, host, bytes, device->up.stream));
    status = order_after_upload(device, status);
    bti_lock_give(&device->up.lock);
    if (status == BT_OK)
        status = bti_cuda_check(device, "cuEventSynchronize", bti_cu.cuEventSynchronize(device->up.after));
    if (status != BT_OK) (void)bti_cu.cuStreamSynchronize(device->up.stream); /* the memory may be written now */
    return bti_cuda_leave(status);
}

/* --- down --------------------------------------------------------------------------------------------------------- */

static bt_status download_directly(bti_cuda_device *device, void *host, uint64_t address, size_t bytes) {
    BTI_CUDA_TRY(device, cuMemcpyDtoHAsync, host, address, bytes, device->down.stream);
    BTI_CUDA_TRY(device, cuStreamSynchronize, device->down.stream);
    return BT_OK;
}

/* Into pinned memory; `done` is recorded behind it. */
static bt_status start_download(bti_cuda_device *device, void *host, uint64_t address, size_t bytes, CUevent done) {
    BTI_CUDA_TRY(device, cuMemcpyDtoHAsync, host, address, bytes, device->down.stream);
    BTI_CUDA_TRY(device, cuEventRecord, done, device->down.stream);
    return BT_OK;
}

static size_t part_at(size_t at, size_t bytes) { return bytes - at < BTI_CUDA_STAGING ? bytes - at : BTI_CUDA_STAGING; }

/* Part n goes through buffer n % count. While it is copied to the host memory, the parts after it are transferred into the other buffers. */
static bt_status download_staged(bti_cuda_device *device, char *host, uint64_t address, size_t bytes) {
    bti_cuda_lane *down = &device->down;
    size_t parts = (bytes - 1) / BTI_CUDA_STAGING + 1, begun = 0;
    BTI_TRY(alloc_staging(device, down, 0));
    if (!down->staging[0]) return download_directly(device, host, address, bytes);
    for (size_t n = 0; n < parts; n++) {
        for (; begun < parts && begun < n + down->count; begun++) {
            size_t at = begun * BTI_CUDA_STAGING;
            BTI_TRY(alloc_staging(device, down, begun % down->count));
            if (begun == n + down->count) break; /* no memory for one more buffer */
            size_t i = begun % down->count;
            BTI_TRY(start_download(device, down->staging[i], address + at, part_at(at, bytes), down->done[i]));
            down->busy[i] = true;
        }
        size_t at = n * BTI_CUDA_STAGING;
        BTI_TRY(wait_for_staging(device, down, n % down->count));
        copy_on_host(host + at, down->staging[n % down->count], part_at(at, bytes));
    }
    return BT_OK;
}

bt_status bti_cuda_download(void *opened, void *host, uint64_t address, size_t bytes) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    bti_lock_take(&device->down.lock);
    bt_status status = download_staged(device, host, address, bytes);
    if (status != BT_OK) (void)bti_cu.cuStreamSynchronize(device->down.stream); /* the memory may be freed now */
    bti_lock_give(&device->down.lock);
    return bti_cuda_leave(status);
}

bt_status bti_cuda_download_pinned(void *opened, void *host, uint64_t address, size_t bytes) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    bti_lock_take(&device->down.lock);
    bt_status status = start_download(device, host, address, bytes, device->down.after);
    bti_lock_give(&device->down.lock);
    if (status == BT_OK)
        status = bti_cuda_check(device, "cuEventSynchronize", bti_cu.cuEventSynchronize(device->down.after));
    if (status != BT_OK) (void)bti_cu.cuStreamSynchronize(device->down.stream); /* the memory may be freed now */
    return bti_cuda_leave(status);
}

/* --- within and between devices ----------------------------------------------------------------------------------- */

static bt_status copy_within(bti_cuda_device *device, uint64_t to, uint64_t from, size_t bytes) {
    const uint64_t words[] = {to, from};
    const bti_cuda_launched what = {.kind = BTI_CUDA_COPY, .bytes = bytes, .word_count = 2, .words = words};
    if (bti_cuda_is_update(device, &what)) return BT_OK;
    BTI_CUDA_TRY(device, cuMemcpyDtoDAsync, to, from, bytes, bti_cuda_stream(device));
    bti_cuda_note(device, &what);
    return BT_OK;
}

bt_status bti_cuda_copy(void *opened, uint64_t to, uint64_t from, size_t bytes) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(copy_within(device, to, from, bytes));
}

static bt_status fill_within(bti_cuda_device *device, uint64_t address, int byte, size_t bytes) {
    const bti_cuda_launched what = {
        .kind = BTI_CUDA_FILL, .bytes = bytes, .byte = byte, .word_count = 1, .words = &address};
    if (bti_cuda_is_update(device, &what)) return BT_OK;
    BTI_CUDA_TRY(device, cuMemsetD8Async, address, (unsigned char)byte, bytes, bti_cuda_stream(device));
    bti_cuda_note(device, &what);
    return BT_OK;
}

bt_status bti_cuda_fill(void *opened, uint64_t address, int byte, size_t bytes) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(fill_within(device, address, byte, bytes));
}

/* Enables direct access where the bus allows it; otherwise libcuda copies through host memory by itself. */
static bt_status enable_peer_access(bti_cuda_device *to, bti_cuda_device *from) {
    int can = 0;
    bt_status status = BT_OK;
    bti_lock_take(&to->peer_lock);
    uint64_t *tried = &to->peers[from->ordinal % 64];
    if (*tried != from->opening) {
        *tried = from->opening;
        status =
            bti_cuda_check(to, "cuDeviceCanAccessPeer", bti_cu.cuDeviceCanAccessPeer(&can, to->device, from->device));
        if (status == BT_OK && can) (void)bti_cu.cuCtxEnablePeerAccess(from->context, 0);
    }
    bti_lock_give(&to->peer_lock);
    return status;
}

/* With the receiver's context current. Its upload that returned last may go on, into memory that nobody used since; uploads to the sender come before `made`, an event of its stream or of its last upload. */
static bt_status send_after(bti_cuda_device *to, uint64_t target, const bti_event *idle, bti_cuda_device *from,
                            uint64_t source, CUevent made, size_t bytes, bti_work_end *end) {
    BTI_TRY(enable_peer_access(to, from));
    BTI_CUDA_TRY(to, cuStreamWaitEvent, to->receive, made, 0);
    BTI_CUDA_TRY(to, cuStreamWaitEvent, to->receive, to->up.after, 0);
    if (idle) BTI_CUDA_TRY(to, cuStreamWaitEvent, to->receive, bti_cuda_event(to, *idle), 0);
    bti_cuda_mark_begin(to, to->receive, end);
    bt_status status =
        bti_cuda_check(to, "cuMemcpyPeerAsync",
                       bti_cu.cuMemcpyPeerAsync(target, to->context, source, from->context, bytes, to->receive));
    bti_cuda_mark_end(to, to->receive, end);
    if (status == BT_OK) status = bti_cuda_record(to, to->receive, &to->received, BTI_CUDA_RECEIPT, &end->event);
    if (status != BT_OK) bti_cuda_drop_marks(to, end);
    return status;
}

bt_status bti_cuda_send(void *to_device, uint64_t to, const bti_event *idle, void *from_device, uint64_t from,
                        const bti_event *made, size_t bytes, bti_work_end *end) {
    bti_cuda_device *target = to_device, *source = from_device;
    *end = (bti_work_end){0};
    BTI_TRY(bti_cuda_enter(source)); /* fails if it is lost */
    (void)bti_cuda_leave(BT_OK);
    BTI_TRY(bti_cuda_enter(target));
    CUevent after = made ? bti_cuda_event(source, *made) : source->up.after;
    return bti_cuda_leave(send_after(target, to, idle, source, from, after, bytes, end));
}

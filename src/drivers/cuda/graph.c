/* Launches recorded into a CUDA graph, which is launched again by one call. The recording has a stream of its own, so that other threads
 * can transfer to and from the device meanwhile. */
#include "base/lock.h"
#include "drivers/cuda/update.h"

CUstream bti_cuda_stream(bti_cuda_device *device) {
    const struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    return capture ? capture->stream : device->compute;
}

bool bti_cuda_cannot_record(bti_cuda_device *device) {
    struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    if (capture) capture->refused = true;
    return capture;
}

void bti_cuda_capture_held(bti_cuda_device *device, bti_cuda_held *held) {
    struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    if (!capture) return;
    for (size_t i = 0; i < capture->holds.count; i++)
        if (capture->holds.items[i] == held) return;
    if (bti_vec_push(&capture->holds, held))
        atomic_fetch_add(&held->holders, 1);
    else
        capture->refused = true;
}

/* Another event will be set for each run. */
static bt_status add_mark(bti_cuda_device *device, struct bti_cuda_capture *capture) {
    CUgraphNode node;
    if (!capture->unset.value) BTI_TRY(bti_cuda_take_mark(device, &capture->unset));
    BTI_CUDA_TRY(device, cuEventRecordWithFlags, (CUevent)(uintptr_t)capture->unset.value, capture->stream,
                 CU_EVENT_RECORD_EXTERNAL);
    BTI_TRY(bti_cuda_last_node(device, capture, &node));
    return bti_vec_push(&capture->marks, node) ? BT_OK : bti_no_memory();
}

static bt_status capture_mark(bti_cuda_device *device, struct bti_cuda_capture *capture) {
    if (capture->updated) return BT_OK; /* the recording has its own */
    bt_status status = add_mark(device, capture);
    if (status != BT_OK) capture->refused = true;
    return status;
}

bt_status bti_cuda_mark(void *opened, bool begins, bti_mark *mark) {
    (void)begins; /* the stream reaches it when what is before has ended, and what is behind begins then */
    bti_cuda_device *device = opened;
    struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(capture ? capture_mark(device, capture)
                                  : bti_cuda_mark_stream(device, device->compute, mark));
}

static void release_holds(bti_cuda_device *device, bti_cuda_holds *holds) {
    for (size_t i = 0; i < holds->count; i++) bti_cuda_held_release(device, holds->items[i]);
    bti_vec_free(holds);
}

/* --- recording ---------------------------------------------------------------------------------------------------- */

static void free_capture(bti_cuda_device *device) {
    if (device->capture->stream && !atomic_load(&device->lost)) (void)bti_cu.cuStreamDestroy(device->capture->stream);
    release_holds(device, &device->capture->holds);
    bti_cuda_nodes_free(&device->capture->nodes);
    bti_vec_free(&device->capture->marks);
    if (device->capture->unset.value) bti_cuda_give_mark(device, device->capture->unset);
    bti_free(device->capture);
    device->capture = NULL;
}

static bt_status begin_capture(bti_cuda_device *device) {
    BTI_CUDA_TRY(device, cuStreamCreate, &device->capture->stream, CU_STREAM_NON_BLOCKING);
    BTI_CUDA_TRY(device, cuStreamBeginCapture, device->capture->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    device->capture->thread = pthread_self();
    device->capture->scratch_moves = device->gpu.scratch_moves;
    return BT_OK;
}

bt_status bti_cuda_graph_begin(void *opened) {
    bti_cuda_device *device = opened;
    if (device->capture) return bti_fail(BT_FAILED_PRECONDITION, "%s: a graph is being recorded already", device->name);
    BTI_TRY(bti_cuda_enter(device));
    device->capture = bti_calloc(1, sizeof *device->capture);
    bt_status status = device->capture ? begin_capture(device) : bti_no_memory();
    if (status != BT_OK && device->capture) free_capture(device);
    return bti_cuda_leave(status);
}

static void take_over(bti_cuda_graph *made, struct bti_cuda_capture *capture, CUgraph *recorded) {
    made->holds = capture->holds;
    made->nodes = capture->nodes;
    made->marks = capture->marks;
    made->unset = capture->unset;
    capture->holds = (bti_cuda_holds){0};
    capture->nodes = (bti_cuda_nodes){0};
    capture->marks = (bti_cuda_marks){0};
    capture->unset = (bti_mark){0};
    if (!made->marks.count && made->nodes.fixed) return;
    made->recorded = *recorded;
    *recorded = NULL;
}

static bt_status end_capture(bti_cuda_device *device, bti_cuda_graph *made) {
    CUgraph recorded = NULL;
    bt_status status =
        bti_cuda_check(device, "cuStreamEndCapture", bti_cu.cuStreamEndCapture(device->capture->stream, &recorded));
    made->scratch_moves = device->capture->scratch_moves;
    if (status == BT_OK && !device->capture->refused)
        status = bti_cuda_check(device, "cuGraphInstantiateWithFlags",
                                bti_cu.cuGraphInstantiateWithFlags(&made->executable, recorded, 0));
    if (made->executable) take_over(made, device->capture, &recorded);
    if (recorded) (void)bti_cu.cuGraphDestroy(recorded);
    return status;
}

static bt_status end_recording(bti_cuda_device *device, void **recorded) {
    bti_cuda_graph *made = bti_calloc(1, sizeof *made);
    bt_status status = made ? end_capture(device, made) : bti_no_memory();
    if (status == BT_OK && made->executable)
        *recorded = made;
    else
        bti_free(made);
    return status;
}

bt_status bti_cuda_graph_end(void *opened, void **recorded) {
    bti_cuda_device *device = opened;
    *recorded = NULL;
    if (!device->capture) return bti_fail(BT_FAILED_PRECONDITION, "%s: no graph is being recorded", device->name);
    bt_status status = bti_cuda_enter(device);
    bool entered = status == BT_OK;
    if (entered)
        status = device->capture->updated ? bti_cuda_end_update(device, recorded) : end_recording(device, recorded);
    free_capture(device);
    return entered ? bti_cuda_leave(status) : status;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void give_marks(bti_cuda_device *device, const bti_mark *marks, size_t count) {
    for (size_t i = 0; i < count; i++) bti_cuda_give_mark(device, marks[i]);
}

/* Runs that are in flight keep theirs. */
static bt_status set_marks(bti_cuda_device *device, const bti_cuda_graph *known, bti_mark *marks) {
    for (size_t i = 0; i < known->marks.count; i++) {
        bt_status status = bti_cuda_take_mark(device, &marks[i]);
        size_t taken = status == BT_OK ? i + 1 : i;
        if (status == BT_OK)
            status = bti_cuda_check(device, "cuGraphExecEventRecordNodeSetEvent",
                                    bti_cu.cuGraphExecEventRecordNodeSetEvent(known->executable, known->marks.items[i],
                                                                              (CUevent)(uintptr_t)marks[i].value));
        if (status == BT_OK) continue;
        give_marks(device, marks, taken);
        return status;
    }
    return BT_OK;
}

static bt_status launch_graph(bti_cuda_device *device, const bti_cuda_graph *known, bti_mark *marks) {
    BTI_TRY(set_marks(device, known, marks));
    bt_status status =
        bti_cuda_check(device, "cuGraphLaunch", bti_cu.cuGraphLaunch(known->executable, device->compute));
    if (status != BT_OK) give_marks(device, marks, known->marks.count);
    return status;
}

bt_status bti_cuda_graph_run(void *opened, void *recorded, bti_mark *marks, bool *stale) {
    bti_cuda_device *device = opened;
    bti_cuda_graph *known = recorded;
    BTI_TRY(bti_cuda_enter(device));
    bt_status status = BT_OK;
    bti_lock_take(&device->gpu.lock);
    *stale = known->scratch_moves != device->gpu.scratch_moves;
    if (!*stale) status = launch_graph(device, known, marks);
    bti_lock_give(&device->gpu.lock);
    return bti_cuda_leave(status);
}

static void free_executable(bti_cuda_device *device, bti_cuda_retired *retired) {
    bti_cuda_graph *old = (bti_cuda_graph *)retired;
    if (!atomic_load(&device->lost)) (void)bti_cu.cuGraphExecDestroy(old->executable);
    bti_free(old);
}

void bti_cuda_graph_free(void *opened, void *recorded) {
    bti_cuda_device *device = opened;
    bti_cuda_graph *old = recorded;
    bti_cuda_holds holds = old->holds;
    if (old->recorded && !atomic_load(&device->lost)) (void)bti_cu.cuGraphDestroy(old->recorded);
    if (old->unset.value) bti_cuda_give_mark(device, old->unset);
    bti_cuda_nodes_free(&old->nodes);
    bti_vec_free(&old->marks);
    old->retired.free = free_executable;
    bti_cuda_retire(opened, &old->retired);
    release_holds(opened, &holds);
}

/* NVIDIA's GPUs: the driver's table, opening and closing, memory, events. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/alloc.h"
#include "drivers/cuda/device.h"
#include "drivers/cuda/facts.h"

/* --- opening ------------------------------------------------------------------------------------------------------ */

static bt_status read_attribute(bti_cuda_device *device, int attribute, int *value) {
    BTI_CUDA_TRY(device, cuDeviceGetAttribute, value, attribute, device->device);
    return BT_OK;
}

static void init_engine(bti_cuda_device *device, const bti_allocator *allocator) {
    static const bti_gpu_driver engine_driver = {.build = bti_cuda_build,
                                                 .unload = bti_cuda_held_release,
                                                 .find_function = bti_cuda_find_function,
                                                 .launch = bti_cuda_launch,
                                                 .product = bti_cuda_product,
                                                 .has_product = bti_cuda_has_product,
                                                 .product_dtype = bti_cuda_product_dtype,
                                                 .conv = bti_cuda_conv,
                                                 .fft_new = bti_cuda_fft_new,
                                                 .fft_free = bti_cuda_held_release,
                                                 .fft = bti_cuda_fft,
                                                 .factor_new = bti_cuda_factor_new,
                                                 .factor_free = bti_cuda_held_release,
                                                 .factor = bti_cuda_factor,
                                                 .wait = bti_cuda_sync};
    bti_gpu *gpu = &device->gpu;
    gpu->driver = &engine_driver;
    gpu->device = device;
    gpu->name = device->name;
    gpu->target = BTI_CUDA_C;
    gpu->allocator = *allocator;
}

static bt_status read_device_attributes(bti_cuda_device *device) {
    int shared = 0, opt_in = 0;
    bti_gpu *gpu = &device->gpu;
    BTI_TRY(read_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &gpu->units));
    BTI_TRY(read_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &gpu->threads));
    BTI_TRY(read_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &shared));
    BTI_TRY(read_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &opt_in));
    device->shared_opt_in = (size_t)(opt_in > shared ? opt_in : shared);
    gpu->local_bytes = device->shared_opt_in;
    return BT_OK;
}

/* With the context current. */
static bt_status create_streams(bti_cuda_device *device) {
    BTI_CUDA_TRY(device, cuStreamCreate, &device->compute, CU_STREAM_NON_BLOCKING);
    BTI_CUDA_TRY(device, cuStreamCreate, &device->reduce, CU_STREAM_NON_BLOCKING);
    BTI_CUDA_TRY(device, cuStreamCreate, &device->receive, CU_STREAM_NON_BLOCKING);
    BTI_TRY(bti_cuda_lane_open(device, &device->up));
    BTI_TRY(bti_cuda_lane_open(device, &device->down));
    for (int i = 0; i < BTI_CUDA_EVENTS; i++) {
        BTI_CUDA_TRY(device, cuEventCreate, &device->events[i], CU_EVENT_DISABLE_TIMING);
        BTI_CUDA_TRY(device, cuEventCreate, &device->reductions[i], CU_EVENT_DISABLE_TIMING);
        BTI_CUDA_TRY(device, cuEventCreate, &device->receipts[i], CU_EVENT_DISABLE_TIMING);
    }
    return BT_OK;
}

static bt_status open_context(bti_cuda_device *device, const bti_allocator *allocator) {
    bti_device_facts facts;
    BTI_TRY(bti_cuda_find(device->ordinal, &facts, &device->cuda_ordinal));
    snprintf(device->name, sizeof device->name, "%s", facts.description);
    device->architecture = facts.capability_major * 10 + facts.capability_minor;
    BTI_TRY(bti_cuda_compiler_check(device->architecture));
    BTI_CUDA_TRY(device, cuDeviceGet, &device->device, device->cuda_ordinal);
    init_engine(device, allocator);
    BTI_TRY(read_device_attributes(device));
    BTI_CUDA_TRY(device, cuDevicePrimaryCtxRetain, &device->context, device->device);
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(create_streams(device));
}

/* With the context current. */
static void destroy_streams(bti_cuda_device *device) {
    for (int i = 0; i < BTI_CUDA_EVENTS; i++) {
        if (device->events[i]) (void)bti_cu.cuEventDestroy(device->events[i]);
        if (device->reductions[i]) (void)bti_cu.cuEventDestroy(device->reductions[i]);
        if (device->receipts[i]) (void)bti_cu.cuEventDestroy(device->receipts[i]);
    }
    bti_cuda_lane_close(&device->down);
    bti_cuda_lane_close(&device->up);
    if (device->receive) (void)bti_cu.cuStreamDestroy(device->receive);
    if (device->reduce) (void)bti_cu.cuStreamDestroy(device->reduce);
    if (device->compute) (void)bti_cu.cuStreamDestroy(device->compute);
}

static const struct {
    size_t offset;
    bti_lock_class class;
} device_locks[] = {{offsetof(bti_cuda_device, up.lock), BTI_LOCK_cuda_transfer},
                    {offsetof(bti_cuda_device, down.lock), BTI_LOCK_cuda_transfer},
                    {offsetof(bti_cuda_device, event_lock), BTI_LOCK_cuda_events},
                    {offsetof(bti_cuda_device, mark_lock), BTI_LOCK_cuda_marks},
                    {offsetof(bti_cuda_device, peer_lock), BTI_LOCK_cuda_peers},
                    {offsetof(bti_cuda_device, lost_lock), BTI_LOCK_cuda_lost},
                    {offsetof(bti_cuda_device, retired_lock), BTI_LOCK_cuda_retired},
                    {offsetof(bti_cuda_device, gpu.lock), BTI_LOCK_gpu}};
enum { LOCKS = sizeof device_locks / sizeof *device_locks };

static bti_lock *lock_of(bti_cuda_device *device, int number) {
    return (void *)((char *)device + device_locks[number].offset);
}

static void wait_for_streams(bti_cuda_device *device) {
    const CUstream streams[] = {device->up.stream, device->down.stream, device->compute, device->reduce,
                                device->receive};
    for (int i = 0; i < 5; i++)
        if (streams[i] && !atomic_load(&device->lost)) (void)bti_cu.cuStreamSynchronize(streams[i]);
}

/* Of a lost device only the context is released: everything else is destroyed with it, and waiting might never end. */
static void cuda_close(void *opened) {
    bti_cuda_device *device = opened;
    bool current = device->context && bti_cu.cuCtxPushCurrent(device->context) == CUDA_SUCCESS;
    if (current) wait_for_streams(device);
    bti_cuda_communicators_free(device);
    bti_cuda_free_retired(device, true);
    bti_cuda_products_free(device);
    bti_cuda_convs_free(device);
    bti_cuda_solvers_free(device);
    bti_cuda_words_free(device);
    bti_cuda_marks_free(device);
    if (current && !atomic_load(&device->lost)) destroy_streams(device);
    if (current) (void)bti_cuda_leave(BT_OK);
    if (device->context) (void)bti_cu.cuDevicePrimaryCtxRelease(device->device);
    for (int i = 0; i < LOCKS; i++) bti_lock_destroy(lock_of(device, i));
    bti_free(device);
}

static bt_status cuda_open(int ordinal, const bti_allocator *allocator, void **opened) {
    static _Atomic uint64_t openings;
    bti_cuda_device *device = bti_calloc(1, sizeof *device);
    if (!device) return bti_no_memory();
    for (int i = 0; i < LOCKS; i++) bti_lock_init(lock_of(device, i), device_locks[i].class);
    device->ordinal = ordinal;
    device->opening = atomic_fetch_add(&openings, 1) + 1;
    snprintf(device->name, sizeof device->name, "cuda%d", ordinal);
    bt_status status = open_context(device, allocator);
    if (status == BT_OK)
        *opened = device;
    else
        cuda_close(device);
    return status;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static bt_status out_of_memory(bti_cuda_device *device, size_t bytes) {
    size_t free_bytes = 0, total = 0;
    bti_str told = {0};
    bti_str_addf(&told, "%s: cuMemAlloc has no room for ", device->name);
    bti_str_add_bytes_size(&told, bytes);
    if (bti_cu.cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS) {
        bti_str_add(&told, ": ");
        bti_str_add_bytes_size(&told, free_bytes);
        bti_str_add(&told, " of ");
        bti_str_add_bytes_size(&told, total);
        bti_str_add(&told, " are free");
    }
    bt_status status = bti_fail(BT_RESOURCE_EXHAUSTED, "%s", bti_str_text(&told));
    bti_str_free(&told);
    return status;
}

static bt_status cuda_alloc(void *opened, size_t bytes, uint64_t *address) {
    bti_cuda_device *device = opened;
    CUdeviceptr memory = 0;
    BTI_TRY(bti_cuda_enter(device));
    CUresult result = bti_cu.cuMemAlloc(&memory, bytes);
    bt_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? out_of_memory(device, bytes)
                                                          : bti_cuda_check(device, "cuMemAlloc", result);
    *address = memory;
    return bti_cuda_leave(status);
}

static void cuda_free(void *opened, uint64_t address, size_t bytes) {
    (void)bytes;
    bti_cuda_device *device = opened;
    if (atomic_load(&device->lost) || bti_cu.cuCtxPushCurrent(device->context) != CUDA_SUCCESS) return;
    /* An upload may return before its end, and the queue's numbers do not count it. */
    (void)bti_cu.cuStreamSynchronize(device->up.stream);
    (void)bti_cu.cuMemFree(address);
    (void)bti_cuda_leave(BT_OK);
}

static bt_status cuda_host_alloc(void *opened, size_t bytes, void **memory) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    CUresult result = bti_cu.cuMemHostAlloc(memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return bti_cuda_leave(bti_cuda_check(device, "cuMemHostAlloc", result));
    bti_str size = {0};
    bti_str_add_bytes_size(&size, bytes);
    bt_status status = bti_fail(BT_RESOURCE_EXHAUSTED, "%s: cuMemHostAlloc cannot page-lock %s of the host's memory",
                                device->name, bti_str_text(&size));
    bti_str_free(&size);
    return bti_cuda_leave(status);
}

/* Of a lost device it stays until the end of the process. */
static void cuda_host_free(void *opened, void *memory, size_t bytes) {
    (void)bytes;
    bti_cuda_device *device = opened;
    if (atomic_load(&device->lost) || bti_cu.cuCtxPushCurrent(device->context) != CUDA_SUCCESS) return;
    (void)bti_cu.cuMemFreeHost(memory);
    (void)bti_cuda_leave(BT_OK);
}

static bt_status cuda_memory(void *opened, size_t *free_bytes, size_t *total_bytes) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(bti_cuda_check(device, "cuMemGetInfo", bti_cu.cuMemGetInfo(free_bytes, total_bytes)));
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static bt_status cuda_record(void *opened, bti_event *event) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(bti_cuda_record(device, device->compute, &device->recorded, 0, event));
}

static bt_status cuda_wait_event(void *opened, bti_event event) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(
        bti_cuda_check(device, "cuEventSynchronize", bti_cu.cuEventSynchronize(bti_cuda_event(device, event))));
}

static bt_status cuda_query(void *opened, bti_event event, bool *done) {
    bti_cuda_device *device = opened;
    *done = false;
    BTI_TRY(bti_cuda_enter(device));
    CUresult result = bti_cu.cuEventQuery(bti_cuda_event(device, event));
    *done = result == CUDA_SUCCESS;
    return bti_cuda_leave(result == CUDA_ERROR_NOT_READY ? BT_OK : bti_cuda_check(device, "cuEventQuery", result));
}

static bt_status cuda_follow(void *opened, bti_event event) {
    bti_cuda_device *device = opened;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(bti_cuda_check(device, "cuStreamWaitEvent",
                                         bti_cu.cuStreamWaitEvent(device->compute, bti_cuda_event(device, event), 0)));
}

/* --- for `berth doctor` ------------------------------------------------------------------------------------------- */

static void cuda_describe(void *opened, bti_str *text) {
    static const char *const used_for[BTI_CUDA_LIBRARIES] = {
        "CUDA",         "what other programs use", "compiles kernels", "matrix products",
        "convolutions", "Fourier transforms",      "linear algebra",   "sums over GPUs"};
    bti_cuda_device *device = opened;
    bti_str_addf(text, "%s: compute capability %d.%d, %d multiprocessors\n", device->name, device->architecture / 10,
                 device->architecture % 10, device->gpu.units);
    for (int i = 0; i < BTI_CUDA_LIBRARIES; i++) {
        const bti_cuda_library_state *state = bti_cuda_library_look((bti_cuda_library)i);
        if (*state->path)
            bti_str_addf(text, "%s%s%s (%s): %s\n", state->title, *state->version ? " " : "", state->version,
                         used_for[i], state->path);
        else
            bti_str_addf(text, "%s (%s): not there: %s\n", state->title, used_for[i], state->reason);
        if (i == BTI_CUDA_CUDNN) bti_cuda_convs_describe(device, text);
        if (i == BTI_CUDA_CUFFT) bti_cuda_ffts_describe(device, text);
        if (i == BTI_CUDA_CUSOLVER) bti_cuda_factors_describe(device, text);
    }
}

void bti_cuda_reset(void) {
    bti_cuda_probe_reset();
    bti_cuda_libraries_reset();
}

_Static_assert(offsetof(bti_cuda_device, gpu) == 0, "bti_gpu_load and the like take the device as a bti_gpu");

/* A data centre's card of the last generations; the rows that a multiprocessor reads again come from the L2 cache. */
static const bti_target_facts cuda_facts = {BTI_CUDA_FACTS, .is_fetched = true, .language = BTI_LANGUAGE_CUDA};

const bti_driver bti_driver_cuda = {
    .name = "cuda",
    .target = &cuda_facts,
    .kinds = 1u << BT_GPU,
    .third_party = true,
    .async = true,
    .detect = bti_cuda_detect,
    .probe = bti_cuda_probe,
    .list_partitions = bti_cuda_list_partitions,
    .vendor = "NVIDIA",
    .check_usable = bti_cuda_check_usable,
    .broken_install = bti_cuda_broken_install,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = bti_cuda_upload,
    .download = bti_cuda_download,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .upload_pinned = bti_cuda_upload_pinned,
    .download_pinned = bti_cuda_download_pinned,
    .copy = bti_cuda_copy,
    .fill = bti_cuda_fill,
    .program_load = bti_gpu_load,
    .program_free = bti_gpu_unload,
    .text_wanted = bti_gpu_text_wanted,
    .text_lacked = bti_gpu_text_lacked,
    .text_give = bti_gpu_text_give,
    .launch = bti_gpu_launch_work,
    .launch_kernel = bti_gpu_launch_kernel,
    .launch_product = bti_gpu_launch_product,
    .launch_boxes = bti_gpu_launch_boxes,
    .launch_custom = bti_gpu_launch_custom,
    .launch_library = bti_gpu_launch_library,
    .record = cuda_record,
    .wait = cuda_wait_event,
    .query = cuda_query,
    .sync = bti_cuda_sync,
    .memory = cuda_memory,
    .processes = bti_cuda_processes,
    .energy = bti_cuda_energy,
    .trim = bti_gpu_trim,
    .describe = cuda_describe,
    .send = bti_cuda_send,
    .follow = cuda_follow,
    .mark = bti_cuda_mark,
    .read_mark = bti_cuda_read_mark,
    .graph_begin = bti_cuda_graph_begin,
    .graph_update = bti_cuda_graph_update,
    .graph_end = bti_cuda_graph_end,
    .graph_run = bti_cuda_graph_run,
    .graph_free = bti_cuda_graph_free,
    .all_reduce = bti_cuda_all_reduce,
};

/* OpenCL's devices: the driver's table, opening and closing, events. */
#include "drivers/opencl/device.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/libraries.h"
#include "base/lock.h"
#include "base/trace.h"

/* Devices of one platform share a context, so that buffers can be copied between them. */
typedef struct platform_context {
    cl_platform_id platform;
    cl_context context;
    int users;
    struct platform_context *next;
} platform_context;

BTI_STATIC_LOCK(opencl_contexts_lock, opencl_contexts) /* of the contexts and the numbers of devices */
static platform_context *contexts;
static uint64_t numbers; /* bit n: device number n is open */
static bti_cl_device
    *on_cpu[64]; /* by number: open devices whose kernels are compiled and run by threads of this process */

/* --- opening ------------------------------------------------------------------------------------------------------ */

static platform_context *make_context(bti_cl_device *device, cl_platform_id platform, cl_int *error) {
    cl_device_id ids[32];
    cl_uint count = 0;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    platform_context *new = bti_calloc(1, sizeof *new);
    *error = CL_OUT_OF_HOST_MEMORY;
    if (!new) return NULL;
    *error = device->cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 32, ids, &count);
    if (*error == CL_SUCCESS) {
        cl_uint found = count < 32 ? count : 32;
        count = 0;
        for (cl_uint d = 0; d < found; d++) { /* one unavailable device must not fail the context of the others */
            cl_bool available = CL_FALSE;
            device->cl->clGetDeviceInfo(ids[d], CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
            if (available) ids[count++] = ids[d];
        }
        new->context = device->cl->clCreateContext(properties, count, ids, NULL, NULL, error);
    }
    if (!new->context) return bti_free(new), NULL;
    new->platform = platform;
    new->next = contexts;
    contexts = new;
    return new;
}

static bt_status acquire_context(bti_cl_device *device, cl_platform_id platform) {
    cl_int error = CL_OUT_OF_RESOURCES; /* if 64 devices are open */
    bti_lock_take(&opencl_contexts_lock);
    platform_context *context = NULL;
    if (~numbers) {
        device->number = __builtin_ctzll(~numbers);
        numbers |= UINT64_C(1) << device->number;
        for (context = contexts; context && context->platform != platform;) context = context->next;
        if (!context) context = make_context(device, platform, &error);
        if (context) context->users++;
        if (context && device->gpu.is_cpu) on_cpu[device->number] = device;
    } else {
        device->number = -1;
    }
    bti_lock_give(&opencl_contexts_lock);
    if (context) device->context = context->context;
    return context ? BT_OK : bti_cl_fail(device, "a context", error);
}

static void release_context(bti_cl_device *device) {
    bti_lock_take(&opencl_contexts_lock);
    if (device->number >= 0) numbers &= ~(UINT64_C(1) << device->number), on_cpu[device->number] = NULL;
    platform_context **at = &contexts;
    while (*at && (*at)->context != device->context) at = &(*at)->next;
    platform_context *context = *at;
    if (context && --context->users == 0) {
        *at = context->next;
        device->cl->clReleaseContext(context->context);
        bti_free(context);
    }
    bti_lock_give(&opencl_contexts_lock);
}

static void read_device_info(bti_cl_device *device) {
    const bti_cl_functions *cl = device->cl;
    cl_ulong largest = 0, local = 0, all = 0;
    cl_device_fp_config wide = 0, single = 0;
    cl_device_type type = 0;
    cl_uint units = 1;
    size_t threads = 1;
    char description[256] = "", version[64] = "";
    cl->clGetDeviceInfo(device->id, CL_DEVICE_NAME, sizeof description - 1, description, NULL);
    snprintf(device->name, sizeof device->name, "opencl%d:%d (%.64s)", device->ordinal >> 16, device->ordinal & 0xffff,
             description);
    cl->clGetDeviceInfo(device->id, CL_DRIVER_VERSION, sizeof version - 1, version, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof wide, &wide, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof threads, &threads, NULL);
    cl->clGetDeviceInfo(device->id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    device->is_gpu = type & CL_DEVICE_TYPE_GPU;
    device->keeps_binaries = device->is_gpu || bti_flag_int(BTI_FLAG_cache);
    device->exact_divisions = single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    device->largest_buffer = (size_t)largest;
    device->memory_bytes = (size_t)all;
    snprintf(device->key, sizeof device->key, "opencl %s, %s, %s", description, version,
             device->exact_divisions ? "exact" : "");
    device->gpu = (bti_gpu){.driver = &bti_cl_gpu_driver,
                            .device = device,
                            .name = device->name,
                            .target = wide ? BTI_OPENCL_C : BTI_OPENCL_C_F32,
                            .is_cpu = type & CL_DEVICE_TYPE_CPU,
                            .units = (int)units,
                            .threads = (int)threads,
                            .local_bytes = (size_t)local};
}

static bt_status create_queues(bti_cl_device *device) {
    cl_int error;
    for (int i = 0; i < 2; i++) {
        cl_command_queue_properties properties = i ? CL_QUEUE_PROFILING_ENABLE : 0;
        device->queues[i] = device->cl->clCreateCommandQueue(device->context, device->id, properties, &error);
        if (!device->queues[i]) return bti_cl_fail(device, "a queue", error);
    }
    device->queue = device->queues[0];
    device->transfers = device->cl->clCreateCommandQueue(device->context, device->id, 0, &error);
    if (!device->transfers) return bti_cl_fail(device, "a queue", error);
    device->fetches = device->cl->clCreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &error);
    return device->fetches ? BT_OK : bti_cl_fail(device, "a queue", error);
}

static void cl_close_device(void *opened) {
    bti_cl_device *device = opened;
    for (size_t i = 0; i < device->buffers.count; i++) device->cl->clReleaseMemObject(device->buffers.items[i].memory);
    bti_vec_free(&device->buffers);
    if (device->fetches) device->cl->clReleaseCommandQueue(device->fetches);
    if (device->transfers) device->cl->clReleaseCommandQueue(device->transfers);
    for (int i = 0; i < 2; i++)
        if (device->queues[i]) device->cl->clReleaseCommandQueue(device->queues[i]);
    release_context(device);
    pthread_rwlock_destroy(&device->lock);
    bti_lock_destroy(&device->gpu.lock);
    bti_error_release(atomic_load(&device->lost));
    bti_free(device);
}

/* --- the end of the process: threads of an implementation on the CPU (PoCL) compile when they run a kernel, by LLVM, whose exit handlers follow ------------ */

enum { PATIENCE_MS = 10000 };

static cl_int event_state(bti_cl_device *device, cl_event marker) {
    cl_int state = CL_SUCCESS;
    cl_int error = device->cl->clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return error == CL_SUCCESS ? state : error;
}

static void finish_on_cpu(void) {
    bti_lock_take(&opencl_contexts_lock);
    for (int n = 0, ms = 0; n < 64; n++) {
        bti_cl_device *device = on_cpu[n];
        cl_event last;
        if (!device || !device->queue) continue;
        if (device->cl->clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &last) != CL_SUCCESS) continue;
        (void)device->cl->clFlush(device->queue);
        for (; event_state(device, last) > CL_COMPLETE && ms < PATIENCE_MS; ms++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        device->cl->clReleaseEvent(last);
    }
    bti_lock_give(&opencl_contexts_lock);
}

static bt_status cl_open_device(int ordinal, const bti_allocator *allocator, void **opened) {
    bti_str reason = {0};
    cl_platform_id platform;
    bti_cl_device *device = bti_calloc(1, sizeof *device);
    if (!device) return bti_no_memory();
    device->ordinal = ordinal;
    device->cl = bti_cl(&reason);
    pthread_rwlock_init(&device->lock, NULL);
    bt_status status = device->cl ? bti_cl_device_of(device->cl, ordinal, &platform, &device->id)
                                  : bti_fail(BT_UNAVAILABLE, "%s", bti_str_text(&reason));
    bti_str_free(&reason);
    if (status != BT_OK) {
        pthread_rwlock_destroy(&device->lock);
        bti_free(device);
        return status;
    }
    read_device_info(device);
    bti_lock_init(&device->gpu.lock, BTI_LOCK_gpu);
    device->gpu.allocator = *allocator;
    status = acquire_context(device, platform);
    if (status == BT_OK) status = create_queues(device);
    if (device->gpu.is_cpu) bti_libraries_at_end(finish_on_cpu);
    if (status == BT_OK)
        *opened = device;
    else
        cl_close_device(device);
    return status;
}

/* --- events: the value is the cl_event, released by wait ---------------------------------------------------------- */

static bt_status enqueue_marker(bti_cl_device *device, cl_event *marker) {
    if (!bti_trace_on()) BTI_TRY(bti_cl_end_times(device));
    BTI_CL_TRY(device, "an event", device->cl->clEnqueueMarkerWithWaitList(device->queue, 0, NULL, marker));
    cl_int error = device->cl->clFlush(device->queue);
    if (error != CL_SUCCESS) device->cl->clReleaseEvent(*marker);
    return error == CL_SUCCESS ? BT_OK : bti_cl_fail(device, "an event", error);
}

static bt_status cl_record(void *opened, bti_event *event) {
    bti_cl_device *device = opened;
    cl_event marker = NULL;
    BTI_TRY(bti_cl_check(device));
    bt_status status = enqueue_marker(device, &marker);
    event->value = (uint64_t)(uintptr_t)marker;
    for (int i = 0; i < 2 && status != BT_OK; i++) (void)device->cl->clFinish(device->queues[i]);
    return status;
}

static bt_status cl_wait_event(void *opened, bti_event event) {
    bti_cl_device *device = opened;
    cl_event marker = (cl_event)(uintptr_t)event.value;
    if (!marker) return bti_cl_check(device);
    cl_int error = device->cl->clWaitForEvents(1, &marker), state = event_state(device, marker);
    device->cl->clReleaseEvent(marker);
    if (state < 0) error = state;
    return error == CL_SUCCESS ? BT_OK : bti_cl_fail(device, "work that was launched", error);
}

/* A thread that waits until some time, and the callback that wakes it, which the event may call later than that. */
typedef struct timed_wait {
    sem_t complete;
    atomic_int users;
} timed_wait;

static void leave_wait(timed_wait *wait) {
    if (atomic_fetch_sub(&wait->users, 1) != 1) return;
    sem_destroy(&wait->complete);
    bti_free(wait);
}

static void CL_CALLBACK end_wait(cl_event marker, cl_int state, void *waited) {
    (void)marker, (void)state;
    sem_post(&((timed_wait *)waited)->complete);
    leave_wait(waited);
}

static bt_status wait_for_callback(bti_cl_device *device, cl_event marker, uint64_t ns) {
    const struct timespec end = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    timed_wait *wait = bti_calloc(1, sizeof *wait);
    if (!wait) return bti_no_memory();
    sem_init(&wait->complete, 0, 0);
    atomic_init(&wait->users, 2);
    cl_int error = device->cl->clSetEventCallback(marker, CL_COMPLETE, end_wait, wait);
    while (error == CL_SUCCESS && sem_clockwait(&wait->complete, CLOCK_MONOTONIC, &end) && errno == EINTR) continue;
    if (error != CL_SUCCESS) leave_wait(wait); /* for the callback that there is not */
    leave_wait(wait);
    return error == CL_SUCCESS ? BT_OK : bti_cl_fail(device, "waiting", error);
}

static bt_status cl_wait_until(void *opened, bti_event event, uint64_t ns, bool *done) {
    cl_event marker = (cl_event)(uintptr_t)event.value;
    *done = event_state(opened, marker) <= CL_COMPLETE;
    if (*done || bti_now_ns() >= ns) return BT_OK;
    BTI_TRY(wait_for_callback(opened, marker, ns));
    *done = event_state(opened, marker) <= CL_COMPLETE;
    return BT_OK;
}

static bt_status cl_query(void *opened, bti_event event, bool *done) {
    *done = event_state(opened, (cl_event)(uintptr_t)event.value) <= CL_COMPLETE;
    return BT_OK;
}

static bt_status cl_sync_device(void *opened) {
    bti_cl_device *device = opened;
    BTI_TRY(bti_cl_check(device));
    for (int i = 0; i < 2; i++) BTI_CL_TRY(device, "waiting", device->cl->clFinish(device->queues[i]));
    BTI_CL_TRY(device, "waiting", device->cl->clFinish(device->fetches));
    BTI_CL_TRY(device, "waiting", device->cl->clFinish(device->transfers));
    return BT_OK;
}

static bt_status cl_memory(void *opened, size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = 0;
    *total_bytes = ((bti_cl_device *)opened)->memory_bytes;
    return bti_fail(BT_UNIMPLEMENTED, "OpenCL does not report the free memory");
}

/* --- for `berth doctor` ------------------------------------------------------------------------------------------- */

static void add_device_text(const bti_cl_device *device, bti_str *text, const char *title, cl_device_info what) {
    char value[256] = "";
    if (device->cl->clGetDeviceInfo(device->id, what, sizeof value - 1, value, NULL) == CL_SUCCESS)
        bti_str_addf(text, "%s: %s\n", title, value);
}

static void add_platform(const bti_cl_device *device, bti_str *text) {
    char name[128] = "", version[256] = "";
    cl_platform_id platform = NULL;
    device->cl->clGetDeviceInfo(device->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    device->cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    device->cl->clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    bti_str_addf(text, "platform: %s, %s\n", name, version);
}

static void describe_device(void *opened, bti_str *text) {
    const bti_cl_device *device = opened;
    bti_str_addf(text, "%s: %d compute units\n", device->name, device->gpu.units);
    add_platform(device, text);
    add_device_text(device, text, "device", CL_DEVICE_VERSION);
    add_device_text(device, text, "driver", CL_DRIVER_VERSION);
    bti_str_addf(text, "groups: at most %d threads, %zu KiB of local memory\n", device->gpu.threads,
                 device->gpu.local_bytes >> 10);
    bti_str_addf(text, "allocations: at most %zu MiB each\n", device->largest_buffer >> 20);
    bti_str_addf(text, "float64: %s\n",
                 device->gpu.target == BTI_OPENCL_C ? "yes"
                                                    : "no (cl_khr_fp64 is missing): operations on it are unsupported");
    bti_str_addf(text, "float32 quotients and roots: %s\n",
                 device->exact_divisions ? "correctly rounded" : "as exact as the device makes them");
    bti_str_addf(text, "products of float32 and float64: %s\n",
                 bti_cl_has_clblast(device) ? "by CLBlast" : "by our own kernel (flag clblast, package libclblast1)");
    bti_str_addf(text, "compiled kernels: %s\n",
                 device->keeps_binaries ? "kept in the cache" : "kept by the platform, if at all");
}

_Static_assert(offsetof(bti_cl_device, gpu) == 0, "bti_gpu_load and the like take the device as a bti_gpu");

/* The least that a GPU of the last ten years has. */
static const bti_target_facts opencl_facts = {.language = BTI_LANGUAGE_OPENCL,
                                              .lanes = 32,
                                              .group_threads = 256,
                                              .units = 16,
                                              .local_bytes = 32 << 10,
                                              .cache_bytes = 1 << 20,
                                              .bandwidth = 200,
                                              .f64_slowdown = 16,
                                              .epilogues = true,
                                              .launch_boxes = 1,
                                              .is_fetched = true};

const bti_driver bti_driver_opencl = {
    .name = "opencl",
    .target = &opencl_facts,
    .kinds = 1u << BT_GPU | 1u << BT_ACC,
    .third_party = true,
    .async = true,
    .detect = bti_cl_detect,
    .probe = bti_cl_probe,
    .open = cl_open_device,
    .close = cl_close_device,
    .alloc = bti_cl_alloc,
    .free = bti_cl_free,
    .upload = bti_cl_upload,
    .download = bti_cl_download,
    .copy = bti_cl_copy,
    .fill = bti_cl_fill,
    .program_load = bti_gpu_load,
    .program_free = bti_gpu_unload,
    .text_wanted = bti_gpu_text_wanted,
    .text_lacked = bti_gpu_text_lacked,
    .text_give = bti_gpu_text_give,
    .launch = bti_gpu_launch_work,
    .launch_kernel = bti_gpu_launch_kernel,
    .launch_product = bti_gpu_launch_product,
    .launch_custom = bti_gpu_launch_custom,
    .record = cl_record,
    .wait = cl_wait_event,
    .query = cl_query,
    .wait_until = cl_wait_until,
    .sync = cl_sync_device,
    .memory = cl_memory,
    .trim = bti_gpu_trim,
    .describe = describe_device,
    .peer_copy = bti_cl_peer_copy,
    .fetch = bti_cl_fetch,
    .mark = bti_cl_mark,
    .read_mark = bti_cl_read_mark,
};

#include "drivers/opencl/opencl.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/fork.h"

/* Devices of one platform share a context, so that buffers can be copied from one to the other. */
typedef struct bti_cl_context {
    cl_platform_id platform;
    cl_context context;
    int users;
    struct bti_cl_context *next;
} bti_cl_context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
BTI_RENEW_IN_CHILD(lock)
static bti_cl_context *contexts;
static uint64_t numbers; /* bit n: device number n is open */

/* --- errors --------------------------------------------------------------------------------------------------------- */

static bt_status code_of(cl_int error) {
    switch (error) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
    case CL_OUT_OF_RESOURCES: return BT_RESOURCE_EXHAUSTED;
    case CL_DEVICE_NOT_AVAILABLE: return BT_UNAVAILABLE;
    default: return BT_INTERNAL;
    }
}

static bool means_lost(cl_int error) {
    return error == CL_DEVICE_NOT_AVAILABLE || error == CL_INVALID_COMMAND_QUEUE || error == CL_INVALID_CONTEXT;
}

bt_status bti_cl_fail(bti_cl_device *device, const char *what, cl_int error) {
    bt_status status = bti_fail(code_of(error), "%s: %s: %s", device->name, what, bti_cl_error_name(error));
    if (means_lost(error)) {
        bti_error *cause = bti_error_last(), *none = NULL;
        if (!atomic_compare_exchange_strong(&device->lost, &none, cause)) bti_error_release(cause);
    }
    return status;
}

bt_status bti_cl_check(bti_cl_device *device) {
    bti_error *lost = atomic_load(&device->lost);
    if (!lost) return BT_OK;
    return bti_fail(BT_UNAVAILABLE, "%s is lost since an earlier failure (%s); other devices are not touched by it",
                    device->name, bti_error_message(lost));
}

/* --- opening -------------------------------------------------------------------------------------------------------- */

cl_context bti_cl_context_of(const bti_cl_device *device) { return device->context->context; }

static bti_cl_context *new_context(bti_cl_device *device, cl_platform_id platform, cl_int *error) {
    cl_device_id ids[32];
    cl_uint count = 0;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    bti_cl_context *new = bti_calloc(1, sizeof *new);
    *error = CL_OUT_OF_HOST_MEMORY;
    if (!new) return NULL;
    *error = device->cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 32, ids, &count);
    if (*error == CL_SUCCESS) {
        cl_uint found = count < 32 ? count : 32;
        count = 0;
        for (cl_uint d = 0; d < found; d++) { /* one that is not available must not spoil it for the others */
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

static bt_status join_context(bti_cl_device *device, cl_platform_id platform) {
    cl_int error = CL_OUT_OF_RESOURCES; /* 64 devices are open */
    pthread_mutex_lock(&lock);
    bti_cl_context *context = NULL;
    if (~numbers) {
        device->number = __builtin_ctzll(~numbers);
        numbers |= UINT64_C(1) << device->number;
        for (context = contexts; context && context->platform != platform;) context = context->next;
        if (!context) context = new_context(device, platform, &error);
        if (context) context->users++;
    } else {
        device->number = -1;
    }
    pthread_mutex_unlock(&lock);
    device->context = context;
    return context ? BT_OK : bti_cl_fail(device, "a context", error);
}

static void leave_context(bti_cl_device *device) {
    pthread_mutex_lock(&lock);
    if (device->number >= 0) numbers &= ~(UINT64_C(1) << device->number);
    bti_cl_context *context = device->context;
    if (context && --context->users == 0) {
        bti_cl_context **at = &contexts;
        while (*at != context) at = &(*at)->next;
        *at = context->next;
        device->cl->clReleaseContext(context->context);
        bti_free(context);
    }
    pthread_mutex_unlock(&lock);
}

static void read_facts(bti_cl_device *device) {
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
    device->gpu = (bti_gpu){.driver = &bti_cl_gpu,
                            .device = device,
                            .name = device->name,
                            .target = wide ? BTI_OPENCL_C : BTI_OPENCL_C_F32,
                            .units = (int)units,
                            .threads = (int)threads,
                            .local_bytes = (size_t)local};
}

static bt_status make_queues(bti_cl_device *device) {
    cl_int error;
    device->queue = device->cl->clCreateCommandQueue(bti_cl_context_of(device), device->id, 0, &error);
    if (!device->queue) return bti_cl_fail(device, "a queue", error);
    device->transfers = device->cl->clCreateCommandQueue(bti_cl_context_of(device), device->id, 0, &error);
    return device->transfers ? BT_OK : bti_cl_fail(device, "a queue", error);
}

static void close_device(void *opened) {
    bti_cl_device *device = opened;
    for (size_t i = 0; i < device->buffers.count; i++) device->cl->clReleaseMemObject(device->buffers.items[i].memory);
    bti_vec_free(&device->buffers);
    if (device->transfers) device->cl->clReleaseCommandQueue(device->transfers);
    if (device->queue) device->cl->clReleaseCommandQueue(device->queue);
    leave_context(device);
    pthread_rwlock_destroy(&device->lock);
    pthread_mutex_destroy(&device->gpu.lock);
    bti_error_release(atomic_load(&device->lost));
    bti_free(device);
}

static bt_status open_device(int ordinal, const bti_allocator *allocator, void **opened) {
    bti_str reason = {0};
    cl_platform_id platform;
    bti_cl_device *device = bti_calloc(1, sizeof *device);
    if (!device) return bti_no_memory();
    device->ordinal = ordinal;
    device->cl = bti_cl(&reason);
    pthread_rwlock_init(&device->lock, NULL);
    pthread_mutex_init(&device->gpu.lock, NULL);
    bt_status status = device->cl ? bti_cl_device_of(device->cl, ordinal, &platform, &device->id)
                                  : bti_fail(BT_UNAVAILABLE, "%s", bti_str_text(&reason));
    bti_str_free(&reason);
    if (status != BT_OK) {
        pthread_rwlock_destroy(&device->lock);
        pthread_mutex_destroy(&device->gpu.lock);
        bti_free(device);
        return status;
    }
    read_facts(device);
    device->gpu.allocator = *allocator;
    status = join_context(device, platform);
    if (status == BT_OK) status = make_queues(device);
    if (status == BT_OK)
        *opened = device;
    else
        close_device(device);
    return status;
}

/* --- programs ------------------------------------------------------------------------------------------------------- */

static bt_status program_load(void *opened, const bti_program_source *source, void **program) {
    return bti_gpu_load(&((bti_cl_device *)opened)->gpu, source, program);
}
static void program_free(void *opened, const bti_program_source *source, void *program) {
    (void)source;
    bti_gpu_unload(&((bti_cl_device *)opened)->gpu, program);
}
static bt_status launch(void *opened, void *program, const bti_work *work) {
    return bti_gpu_launch_work(&((bti_cl_device *)opened)->gpu, program, work);
}
static bt_status launch_kernel(void *opened, void *program, const bti_box *box) {
    return bti_gpu_launch_kernel(&((bti_cl_device *)opened)->gpu, program, box);
}

/* --- events: the value is OpenCL's own; it goes when it is waited for ------------------------------------------------ */

static bt_status record(void *opened, bti_event *event) {
    bti_cl_device *device = opened;
    cl_event marker;
    BTI_TRY(bti_cl_check(device));
    BTI_CL_TRY(device, "an event", device->cl->clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &marker));
    event->value = (uint64_t)(uintptr_t)marker;
    BTI_CL_TRY(device, "an event", device->cl->clFlush(device->queue));
    return BT_OK;
}

static cl_int state_of(bti_cl_device *device, cl_event marker) {
    cl_int state = CL_SUCCESS;
    cl_int error = device->cl->clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return error == CL_SUCCESS ? state : error;
}

static bt_status wait_event(void *opened, bti_event event) {
    bti_cl_device *device = opened;
    cl_event marker = (cl_event)(uintptr_t)event.value;
    if (!marker) return bti_cl_check(device);
    cl_int error = device->cl->clWaitForEvents(1, &marker), state = state_of(device, marker);
    device->cl->clReleaseEvent(marker);
    if (state < 0) error = state;
    return error == CL_SUCCESS ? BT_OK : bti_cl_fail(device, "work that was launched", error);
}

static bt_status query(void *opened, bti_event event, bool *done) {
    *done = state_of(opened, (cl_event)(uintptr_t)event.value) <= CL_COMPLETE;
    return BT_OK;
}

static bt_status sync_device(void *opened) {
    bti_cl_device *device = opened;
    BTI_TRY(bti_cl_check(device));
    BTI_CL_TRY(device, "waiting", device->cl->clFinish(device->queue));
    BTI_CL_TRY(device, "waiting", device->cl->clFinish(device->transfers));
    return BT_OK;
}

static void trim(void *opened) { bti_gpu_trim(&((bti_cl_device *)opened)->gpu); }

/* How much is free OpenCL does not tell. */
static bt_status memory(void *opened, size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = 0;
    *total_bytes = ((bti_cl_device *)opened)->memory_bytes;
    return bti_fail(BT_UNIMPLEMENTED, "OpenCL does not tell how much memory is free");
}

const bti_driver bti_driver_opencl = {
    .name = "opencl",
    .granularity = BTI_KERNEL,
    .kinds = 1u << BT_GPU | 1u << BT_ACC,
    .third_party = true,
    .async = true,
    .detect = bti_cl_detect,
    .probe = bti_cl_probe,
    .open = open_device,
    .close = close_device,
    .alloc = bti_cl_alloc,
    .free = bti_cl_free,
    .upload = bti_cl_upload,
    .download = bti_cl_download,
    .copy = bti_cl_copy,
    .fill = bti_cl_fill,
    .program_load = program_load,
    .program_free = program_free,
    .launch = launch,
    .launch_kernel = launch_kernel,
    .record = record,
    .wait = wait_event,
    .query = query,
    .sync = sync_device,
    .memory = memory,
    .trim = trim,
    .describe = bti_cl_describe,
    .peer_copy = bti_cl_peer_copy,
};

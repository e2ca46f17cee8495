/* A libcuda.so.1 of the fake machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"

#define DEEPEST 16

static struct CUctx_st contexts[FAKE_MOST];
static int visible[FAKE_MOST], visible_count = -1;
static CUstream all_streams;
static CUevent all_events;
static _Thread_local CUcontext stack[DEEPEST];
static _Thread_local int depth;

static __attribute__((destructor)) void end(void) {
    if (fake_ends_in_use()) return;
    for (CUstream next, s = all_streams; s; s = next) {
        next = s->next;
        fake_stream_drop(&s->stream);
        fake_event_drop(&s->latest);
        free(s);
    }
    for (CUevent next, e = all_events; e; e = next) {
        next = e->next;
        fake_event_drop(&e->event);
        free(e);
    }
    fake_reset();
}

CUcontext fake_current(void) { return depth ? stack[depth - 1] : NULL; }

/* After a fault that the machine's file asks for, programs cannot wait for what is in flight. */
bool fake_may_find(int device) { return !fake_fault_happened() && !fake()->devices[device].sticky; }

CUresult fake_add(CUstream stream, const fake_work *work, const void *data, size_t bytes) {
    fake_lock();
    if (!stream->stream.capture && stream->stream.pending >= FAKE_QUEUE) {
        fake_count_wait("a full queue of launches");
        fake_stream_run_below(&stream->stream, FAKE_QUEUE);
    }
    fake_stream_add_work(&stream->stream, work, data, bytes);
    fake_unlock();
    return 0;
}

/* --- what contexts own ------------------------------------------------------------------------------------------------ */

#define OWNED 1024
static struct owned {
    void *thing;
    void (*drop)(void *thing);
    int device;
} owned[OWNED];

bool fake_own(void *thing, void (*drop)(void *thing)) {
    bool found = false;
    fake_lock();
    for (int i = 0; i < OWNED && !found; i++) {
        if (owned[i].thing) continue;
        owned[i] = (struct owned){thing, drop, fake_current()->device};
        fake_live(1);
        found = true;
    }
    fake_unlock();
    return found;
}

void fake_release(void *thing) {
    fake_lock();
    for (int i = 0; i < OWNED; i++) {
        if (owned[i].thing != thing) continue;
        owned[i].drop(thing);
        owned[i] = (struct owned){0};
        fake_live(-1);
    }
    fake_unlock();
}

static bool has_work(CUstream s, int device) { return s->open && s->stream.device == device && s->stream.first; }

static void run_device(int device, const char *call, bool waits) {
    bool work = false;
    fake_lock();
    for (CUstream s = all_streams; s; s = s->next) {
        if (!has_work(s, device)) continue;
        work = true;
        if (waits) fake_stream_run(&s->stream);
    }
    if (work) fake_count_wait(call);
    fake_unlock();
}

void fake_run_device(int device, const char *call) { run_device(device, call, true); }
void fake_may_run_device(int device, const char *call) { run_device(device, call, fake_random() & 1); }

static void end_context(int device) {
    for (CUstream s = all_streams; s; s = s->next) {
        if (!s->open || s->stream.device != device) continue;
        fake_stream_drop(&s->stream);
        fake_event_drop(&s->latest);
        s->open = false;
        fake_live(-1);
    }
    contexts[device].null_stream = NULL;
    for (CUevent e = all_events; e; e = e->next) {
        if (!e->open || e->device != device) continue;
        e->open = false;
        fake_live(-1);
    }
    for (int i = 0; i < OWNED; i++)
        if (owned[i].thing && owned[i].device == device) fake_release(owned[i].thing);
    fake_free_all(device);
}

/* --- devices -------------------------------------------------------------------------------------------------------- */

static int by_pci(const void *a, const void *b) {
    const fake_device *x = &fake()->devices[*(const int *)a], *y = &fake()->devices[*(const int *)b];
    return strcasecmp(x->pci, y->pci);
}

static int named(const char *entry, size_t length, const int *order, int count) {
    if (!strncasecmp(entry, "GPU-", 4) || !strncasecmp(entry, "MIG-", 4)) {
        for (int i = 0; i < count; i++)
            if (!strncasecmp(fake()->devices[order[i]].uuid, entry, length)) return i;
        return -1;
    }
    return length && *entry >= '0' && *entry <= '9' ? atoi(entry) : -1;
}

static void apply_mask(void) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES"), *by = getenv("CUDA_DEVICE_ORDER");
    int order[FAKE_MOST], count = fake()->order_count;
    memcpy(order, fake()->order, sizeof order);
    if (by && !strcmp(by, "PCI_BUS_ID")) qsort(order, (size_t)count, sizeof *order, by_pci);
    visible_count = 0;
    for (int i = 0; !mask && i < count; i++) visible[visible_count++] = order[i];
    for (const char *at = mask; at && *at && visible_count < FAKE_MOST;
         at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        int index = named(at, strcspn(at, ","), order, count);
        if (index < 0 || index >= count) break;
        visible[visible_count++] = order[index];
    }
}

FAKE_API CUresult cuInit(unsigned flags) {
    ENTER(cuInit);
    if (flags) return 1;
    if (!fake()->count) return 100;
    if (visible_count < 0) apply_mask();
    return visible_count ? 0 : 100;
}
FAKE_API CUresult cuDriverGetVersion(int *version) {
    ENTER(cuDriverGetVersion);
    *version = fake()->cuda;
    return 0;
}
static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

FAKE_API CUresult cuGetErrorName(CUresult error, const char **name) {
    *name = "CUDA_ERROR_SOMETHING";
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) *name = errors[i].name;
    return 0;
}
/* What was found to be wrong, if that is why the device fails. */
FAKE_API CUresult cuGetErrorString(CUresult error, const char **text) {
    const char *found = fake_current() ? fake_finding_of(fake_current()->device, error) : NULL;
    *text = "a fault of the fake";
    for (size_t i = 0; i < sizeof errors / sizeof *errors && !found; i++)
        if (errors[i].code == error) *text = errors[i].text;
    if (found) *text = found;
    return 0;
}
FAKE_API CUresult cuDeviceGetCount(int *count) {
    ENTER(cuDeviceGetCount);
    if (visible_count < 0) return 3;
    *count = visible_count;
    return 0;
}
FAKE_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER(cuDeviceGet);
    if (ordinal < 0 || ordinal >= visible_count) return 101;
    *device = ordinal;
    return 0;
}
static const fake_device *of(CUdevice device) { return &fake()->devices[visible[device]]; }
/* Not a call of the library: used by other programs. */
FAKE_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *pci_bus_id) {
    ENTER(cuDeviceGetByPCIBusId);
    for (*device = 0; *device < visible_count; ++*device)
        if (!strcmp(of(*device)->pci, pci_bus_id)) return 0;
    return 101;
}
FAKE_API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    ENTER(cuDeviceGetName);
    snprintf(name, (size_t)length, "%s", of(device)->name);
    return 0;
}
FAKE_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    ENTER(cuDeviceGetUuid_v2);
    const char *digits = of(device)->uuid + 4;
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        if (*digits == '-') digits++;
        (void)!sscanf(digits, "%2x", &byte);
        uuid->bytes[i] = (char)byte;
        digits += 2;
    }
    return 0;
}
FAKE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    ENTER(cuDeviceTotalMem_v2);
    *bytes = of(device)->memory;
    return 0;
}
FAKE_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    ENTER(cuDeviceGetAttribute);
    const fake_device *d = of(device);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = d->multiprocessors; return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = (int)d->bus; return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = (int)d->slot; return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = (int)d->domain; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = d->major; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = d->minor; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = fake_shared_bytes(d); return 0;
    default: return 1;
    }
}

/* --- contexts ------------------------------------------------------------------------------------------------------- */

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    fake_context_made();
    ENTER(cuDevicePrimaryCtxRetain);
    CUcontext made = &contexts[visible[device]];
    made->device = visible[device];
    made->retained++;
    fake()->devices[made->device].contexts++;
    fake_live(1);
    *context = made;
    return 0;
}
FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    int code = fake_call("cuDevicePrimaryCtxRelease_v2", true);
    if (!contexts[visible[device]].retained) return 201;
    fake_live(-1);
    fake()->devices[visible[device]].contexts--;
    if (!--contexts[visible[device]].retained) end_context(visible[device]);
    return code;
}
FAKE_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
    int code = fake_call("cuCtxPushCurrent_v2", true); /* releases call it too */
    if (code) return code;
    if (depth == DEEPEST) abort();
    stack[depth++] = context;
    return 0;
}
FAKE_API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    (void)fake_call("cuCtxPopCurrent_v2", true);
    if (!depth) return 201;
    *context = stack[--depth];
    return 0;
}
FAKE_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    ENTER(cuDeviceCanAccessPeer);
    *can = device != peer;
    return 0;
}
FAKE_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    ENTER_IN_CONTEXT(cuCtxEnablePeerAccess);
    if (flags || peer == fake_current()) return 1;
    fake_log("peer %d %d", fake_current()->device, peer->device);
    return 0;
}

/* --- streams and events --------------------------------------------------------------------------------------------- */

static CUstream new_stream(bool blocking) {
    CUstream made = calloc(1, sizeof *made);
    if (!made) abort();
    fake_lock();
    fake_stream_init(&made->stream, fake_current()->device);
    made->context = fake_current();
    made->open = true;
    made->blocking = blocking;
    made->next = all_streams;
    all_streams = made;
    fake_live(1);
    fake_unlock();
    return made;
}

static void order_after(CUstream stream, CUstream earlier) {
    fake_stream_record(&earlier->stream, &earlier->latest);
    fake_stream_wait(&stream->stream, &earlier->latest);
}

CUstream fake_enter_stream(CUstream stream) {
    CUcontext context = stream ? stream->context : fake_current();
    fake_lock();
    if (!stream && !context->null_stream) context->null_stream = new_stream(true);
    CUstream null_stream = context->null_stream, entered = stream ? stream : null_stream;
    if (!stream) {
        for (CUstream s = all_streams; s; s = s->next)
            if (s != entered && s->open && s->blocking && !s->stream.capture && s->stream.device == context->device)
                order_after(entered, s);
    } else if (null_stream && stream->blocking && !stream->stream.capture) {
        order_after(stream, null_stream);
    }
    fake_unlock();
    return entered;
}

FAKE_API CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    ENTER_IN_CONTEXT(cuStreamCreate);
    if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return 1;
    *stream = new_stream(!(flags & CU_STREAM_NON_BLOCKING));
    return 0;
}
FAKE_API CUresult cuStreamDestroy_v2(CUstream stream) {
    int code = fake_call("cuStreamDestroy_v2", true);
    if (!stream) return 400;
    fake_lock();
    if (stream->stream.first && fake_may_find(stream->stream.device))
        fake_find(stream->stream.device, FAKE_LAUNCH_FAILED, "stream %u is destroyed before its work has run: %s",
                  stream->stream.number,
                  *stream->stream.first->work.name ? stream->stream.first->work.name : "an event");
    if (stream->open) fake_stream_run(&stream->stream);
    fake_stream_drop(&stream->stream);
    fake_event_drop(&stream->latest);
    stream->open = false;
    fake_live(-1);
    fake_unlock();
    return code;
}
/* What is complete is not waited for. */
static void wait_while_hung(int device, bool (*is_complete)(const void *waited), const void *waited) {
    while (fake_hangs(device)) {
        fake_lock();
        bool complete = is_complete(waited);
        fake_unlock();
        if (complete) return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
static bool is_stream_complete(const void *stream) { return !((CUstream)stream)->stream.first; }
static bool is_event_complete(const void *event) { return fake_event_is_complete(&((CUevent)event)->event); }
FAKE_API CUresult cuStreamSynchronize(CUstream stream) {
    ENTER_IN_CONTEXT(cuStreamSynchronize);
    stream = fake_enter_stream(stream);
    wait_while_hung(stream->stream.device, is_stream_complete, stream);
    int code = fake_synchronised(stream->stream.device);
    if (code) return code;
    fake_lock();
    fake_stream_synchronise(&stream->stream);
    code = fake()->devices[stream->stream.device].sticky;
    fake_unlock();
    return code;
}
FAKE_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    ENTER_IN_CONTEXT(cuStreamWaitEvent);
    if (flags) return 1;
    stream = fake_enter_stream(stream);
    fake_lock();
    fake_stream_wait(&stream->stream, &event->event);
    fake_unlock();
    return 0;
}
FAKE_API CUresult cuEventCreate(CUevent *event, unsigned flags) {
    ENTER_IN_CONTEXT(cuEventCreate);
    CUevent made = calloc(1, sizeof *made);
    if (!made) return 2;
    fake_lock();
    made->device = fake_current()->device;
    made->open = true;
    made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    made->next = all_events;
    all_events = made;
    fake_live(1);
    fake_unlock();
    *event = made;
    return 0;
}
FAKE_API CUresult cuEventDestroy_v2(CUevent event) {
    if (!event->open) return 400;
    event->open = false;
    fake_live(-1);
    return fake_call("cuEventDestroy_v2", true);
}
FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream) {
    ENTER_IN_CONTEXT(cuEventRecord);
    stream = fake_enter_stream(stream);
    if (event->device != stream->stream.device) return 400;
    fake_lock();
    fake_recorded(event->device);
    fake_stream_record(&stream->stream, &event->event);
    fake_unlock();
    return 0;
}
/* Only of streams that are captured. */
FAKE_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    ENTER_IN_CONTEXT(cuEventRecordWithFlags);
    if (flags != CU_EVENT_RECORD_EXTERNAL || !stream || !stream->stream.capture) return 1;
    if (event->device != stream->stream.device || !event->open) return 400;
    fake_lock();
    fake_stream_record_in_graph(&stream->stream, &event->event);
    fake_unlock();
    return 0;
}
FAKE_API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    ENTER_IN_CONTEXT(cuEventElapsedTime);
    if (!start->open || !end->open || !start->timed || !end->timed) return 400;
    if (!start->event.recorded || !end->event.recorded) return 400;
    fake_lock();
    bool complete = fake_event_is_complete(&start->event) && fake_event_is_complete(&end->event);
    if (complete) *ms = (float)((double)(int64_t)(end->event.reached_ns - start->event.reached_ns) / 1e6);
    fake_unlock();
    return complete ? 0 : 600;
}
FAKE_API CUresult cuEventSynchronize(CUevent event) {
    ENTER_IN_CONTEXT(cuEventSynchronize);
    wait_while_hung(event->device, is_event_complete, event);
    int code = fake_synchronised(fake_current()->device);
    if (code) return code;
    fake_lock();
    fake_event_synchronise(&event->event);
    code = fake()->devices[event->device].sticky;
    fake_unlock();
    return code;
}
FAKE_API CUresult cuEventQuery(CUevent event) {
    ENTER_IN_CONTEXT(cuEventQuery);
    fake_lock();
    bool done = fake_event_query(&event->event);
    int sticky = fake()->devices[event->device].sticky;
    fake_unlock();
    return sticky ? sticky : done ? 0 : 600;
}

/* NVRTC asks the libcuda of the process for a cache, and does without where this fails; without this function it would crash. */
FAKE_API CUresult cuGetExportTable(const void **table, const CUuuid *id);
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    (void)id;
    *table = NULL;
    return 500;
}

/* --- for the other libraries ---------------------------------------------------------------------------------------- */

FAKE_API fake_stream *fake_stream_of(CUstream stream);
fake_stream *fake_stream_of(CUstream stream) { return &fake_enter_stream(stream)->stream; }
FAKE_API int fake_device_of(CUdevice device);
int fake_device_of(CUdevice device) { return visible[device]; }
FAKE_API int fake_current_device(void); /* of the machine; -1: there is no current context */
int fake_current_device(void) { return depth ? stack[depth - 1]->device : -1; }

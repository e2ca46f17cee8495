/* How fast a device copies within its memory. */
#include "cli/bench.h"

#include <dlfcn.h>
#include <string.h>

enum {
    BYTES = 256 << 20,
    TIMES = 7,
    COPIES = 4
}; /* copies of one measurement, so that waiting for it does not count */

/* --- by CUDA itself ------------------------------------------------------------------------------------------------- */

/* What is called of libcuda.so.1, by the names that the driver's headers give it. */
typedef struct cuda {
    void *library, *context, *stream;
    int device;
    int (*init)(unsigned flags);
    int (*by_bus)(int *device, const char *pci_bus_id);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(unsigned long long *address, size_t bytes);
    int (*free)(unsigned long long address);
    int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
    int (*stream_new)(void **stream, unsigned flags);
    int (*stream_free)(void *stream);
    int (*wait)(void *stream);
} cuda;

static bool find(cuda *c) {
    const struct {
        const char *name;
        void **at;
    } symbols[] = {{"cuInit", (void **)&c->init},
                   {"cuDeviceGetByPCIBusId", (void **)&c->by_bus},
                   {"cuDevicePrimaryCtxRetain", (void **)&c->retain},
                   {"cuDevicePrimaryCtxRelease_v2", (void **)&c->release},
                   {"cuCtxPushCurrent_v2", (void **)&c->push},
                   {"cuCtxPopCurrent_v2", (void **)&c->pop},
                   {"cuMemAlloc_v2", (void **)&c->alloc},
                   {"cuMemFree_v2", (void **)&c->free},
                   {"cuMemcpyDtoDAsync_v2", (void **)&c->copy},
                   {"cuStreamCreate", (void **)&c->stream_new},
                   {"cuStreamDestroy_v2", (void **)&c->stream_free},
                   {"cuStreamSynchronize", (void **)&c->wait}};
    c->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; c->library && i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].at = dlsym(c->library, symbols[i].name))) return false;
    return c->library;
}

static double time_copies(const cuda *c, unsigned long long to, unsigned long long from) {
    double seconds[TIMES + 1]; /* the first is not counted */
    for (int i = 0; i <= TIMES; i++) {
        double start = bti_now_seconds();
        for (int k = 0; k < COPIES; k++)
            if (c->copy(to, from, BYTES, c->stream)) return 0;
        if (c->wait(c->stream)) return 0;
        seconds[i] = bti_now_seconds() - start;
    }
    return 2.0 * BYTES * COPIES / bench_median(seconds + 1, TIMES);
}

static double cuda_rate(const char *pci_bus_id) {
    cuda c = {0};
    unsigned long long from = 0, to = 0;
    double rate = 0;
    if (find(&c) && !c.init(0) && !c.by_bus(&c.device, pci_bus_id) && !c.retain(&c.context, c.device)) {
        if (!c.push(c.context)) {
            if (!c.alloc(&from, BYTES) && !c.alloc(&to, BYTES) && !c.stream_new(&c.stream, 0))
                rate = time_copies(&c, to, from);
            if (c.stream) c.stream_free(c.stream);
            if (from) c.free(from);
            if (to) c.free(to);
            c.pop(&c.context);
        }
        c.release(c.device);
    }
    if (c.library) dlclose(c.library);
    return rate;
}

/* --- by a kernel that reads and writes ------------------------------------------------------------------------------ */

static double kernel_rate(int shrink) {
    int64_t count = BYTES / 4 / shrink;
    double seconds[TIMES + 1], rate = 0;
    BT_SCOPE {
        bt_array *x = bench_repeated_floats(1, -1, 1, BT_SHAPE(count));
        bool good = true;
        for (int i = 0; good && i <= TIMES; i++) {
            BT_SCOPE {
                double start = bti_now_seconds();
                for (int k = 0; good && k < COPIES; k++) good = bt_eval(bt_neg(x)) == BT_OK;
                good = good && bt_block(bt_neg(x)) == BT_OK;
                seconds[i] = bti_now_seconds() - start;
            }
        }
        if (good) rate = 8.0 * (double)count * (COPIES + 1) / bench_median(seconds + 1, TIMES);
    }
    return rate;
}

double bench_device_copy_rate(const bench_target *target) {
    bt_device *device;
    bt_device_info info = BT_DEVICE_INFO_INIT;
    if (bt_device_find(target->device, &device) != BT_OK || bt_device_describe(device, &info) != BT_OK) return 0;
    return strcmp(info.driver, "cuda") ? kernel_rate(target->shrink) : cuda_rate(info.pci_bus_id);
}

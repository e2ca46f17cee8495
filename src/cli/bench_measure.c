/* Measuring rows of `berth bench`, and the rate of a copy. */
#include "cli/bench_measure.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/bench_inputs.h"

enum { LEAST_WARM_UP = 2, SAMPLE = 1 << 22 };
#define WARM_UP_SECONDS 0.5 /* long enough for kernels to be compiled */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, ascending);
    return (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */

static uint64_t kernels_compiled(void) {
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    return bt_compiler(false, &info) == BT_OK ? info.kernels : 0;
}

/* A sample of a large result: equally spaced elements, a few million at most. */
static bt_array *sample_of(bt_array *x) {
    int64_t count = bt_count(x);
    return bt_slice_axis(bt_flatten(x, 0), 0, 0, count, count / SAMPLE + 1);
}

typedef struct row_run {
    const bench_row *row;
    bench_work *work;
    bt_array *result;
    bool done;
} row_run;

double bench_processor_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void run_row(void *data) {
    row_run *run = data;
    run->result = run->row->run(run->work);
    run->done = bt_block(run->result) == BT_OK;
}

/* Of a simulated card, the seconds that its model makes. */
static double time_row(row_run *run) {
    if (run->work->target->is_virtual) return bt_time(run_row, run);
    double start = bti_now_seconds();
    run_row(run);
    return bti_now_seconds() - start;
}

bool bench_run_once(const bench_row *row, bench_work *work, const char *file, bench_sample *sample) {
    bool done = false;
    uint64_t kernels = kernels_compiled();
    BT_SCOPE {
        row_run run = {row, work, NULL, false};
        double used = bench_processor_seconds(), steps = row->steps ? row->steps : 1;
        sample->seconds = time_row(&run) / steps;
        sample->processor_seconds = (bench_processor_seconds() - used) / steps;
        done = run.done;
        sample->kernels = kernels_compiled() - kernels;
        if (done && file) {
            bt_array *checked = row->check ? row->check(work) : run.result;
            done = bt_save_npy(file, row->shrinks ? sample_of(checked) : checked) == BT_OK;
        }
    }
    work->repetition++;
    return done;
}

/* Repetitions of the warm-up have negative numbers, so that the work of the measured ones is new. */
bool bench_warm_up(const bench_row *row, bench_work *work) {
    double start = bti_now_seconds();
    if (row->prepare && !row->prepare(work)) return false;
    for (int i = 0; i < LEAST_WARM_UP || bti_now_seconds() - start < WARM_UP_SECONDS; i++) {
        bench_sample sample;
        work->repetition = -1 - i;
        if (!bench_run_once(row, work, NULL, &sample)) return false;
    }
    work->repetition = 0;
    return true;
}

/* --- the rate of a copy: on the host --------------------------------------------------------------------------------- */

enum {
    HOST_BYTES = 128 << 20,
    DEVICE_BYTES = 256 << 20,
    TIMES = 7,
    COPIES = 4, /* in one measurement on a device, so that the wait hardly counts */
    MAX_THREADS = 64
};

typedef struct copy_part {
    char *to;
    const char *from;
    size_t bytes;
} copy_part;

static void *run_copy_part(void *data) {
    copy_part *p = data;
    memcpy(p->to, p->from, p->bytes);
    return NULL;
}

int bench_cores(void) {
    char text[32];
    cpu_set_t cpus;
    int count = bt_get_flag("threads", text, sizeof text) == BT_OK ? atoi(text) : 0;
    return count ? count : sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
}

static double time_host_copy(char *to, const char *from, int threads) {
    pthread_t others[MAX_THREADS];
    copy_part parts[MAX_THREADS];
    bool started[MAX_THREADS] = {false};
    double start = bti_now_seconds();
    for (int i = threads - 1; i >= 0; i--) {
        size_t begin = (size_t)HOST_BYTES * (size_t)i / (size_t)threads;
        size_t end = (size_t)HOST_BYTES * (size_t)(i + 1) / (size_t)threads;
        parts[i] = (copy_part){to + begin, from + begin, end - begin};
        started[i] = i && !pthread_create(&others[i], NULL, run_copy_part, &parts[i]);
        if (!started[i]) run_copy_part(&parts[i]);
    }
    for (int i = 1; i < threads; i++)
        if (started[i]) pthread_join(others[i], NULL);
    return bti_now_seconds() - start;
}

static double host_copy_rate(void) {
    char *from = malloc(HOST_BYTES), *to = malloc(HOST_BYTES);
    double seconds[TIMES], rate = 0;
    int cores = bench_cores(), threads = cores < MAX_THREADS ? cores : MAX_THREADS;
    if (from && to) {
        memset(from, 1, HOST_BYTES);
        time_host_copy(to, from, threads);
        for (int i = 0; i < TIMES; i++) seconds[i] = time_host_copy(to, from, threads);
        rate = 2.0 * HOST_BYTES / bench_median(seconds, TIMES);
    }
    free(from);
    free(to);
    return rate;
}

/* --- the rate of a copy: by CUDA ------------------------------------------------------------------------------------ */

/* Functions of libcuda.so.1. */
typedef struct cuda_library {
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
} cuda_library;

static bool load_cuda(cuda_library *c) {
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

static double time_cuda_copies(const cuda_library *c, unsigned long long to, unsigned long long from) {
    double seconds[TIMES + 1]; /* the first is not counted */
    for (int i = 0; i <= TIMES; i++) {
        double start = bti_now_seconds();
        for (int k = 0; k < COPIES; k++)
            if (c->copy(to, from, DEVICE_BYTES, c->stream)) return 0;
        if (c->wait(c->stream)) return 0;
        seconds[i] = bti_now_seconds() - start;
    }
    return 2.0 * DEVICE_BYTES * COPIES / bench_median(seconds + 1, TIMES);
}

static double cuda_copy_rate(const char *pci_bus_id) {
    cuda_library c = {0};
    unsigned long long from = 0, to = 0;
    double rate = 0;
    if (load_cuda(&c) && !c.init(0) && !c.by_bus(&c.device, pci_bus_id) && !c.retain(&c.context, c.device)) {
        if (!c.push(c.context)) {
            if (!c.alloc(&from, DEVICE_BYTES) && !c.alloc(&to, DEVICE_BYTES) && !c.stream_new(&c.stream, 0))
                rate = time_cuda_copies(&c, to, from);
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

/* --- the rate of a copy: by a kernel -------------------------------------------------------------------------------- */

static double kernel_copy_rate(int shrink) {
    int64_t count = DEVICE_BYTES / 4 / shrink;
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

static double device_copy_rate(const bench_target *target) {
    bt_device *device;
    bt_device_info info = BT_DEVICE_INFO_INIT;
    if (bt_device_find(target->device, &device) != BT_OK || bt_device_describe(device, &info) != BT_OK) return 0;
    return strcmp(info.driver, "cuda") ? kernel_copy_rate(target->shrink) : cuda_copy_rate(info.pci_bus_id);
}

double bench_copy_rate(const bench_target *target) {
    return strcmp(target->device, "cpu") ? device_copy_rate(target) : host_copy_rate();
}

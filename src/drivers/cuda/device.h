/* An open CUDA device, and what the files of this folder share.
 *
 * Three streams: compute (launches, fills, copies within the device), up (uploads, and copies from peers) and down. Entries may
 * be called from any thread: each makes the device's context current for as long as it runs. Uploads return while their last
 * parts are on their way: what is launched or fetched later begins after them, by events. Nothing waits for what was launched
 * before: it has nothing to do with the same bytes.
 *
 * A device whose context is broken (an illegal address, a failed launch, an uncorrectable memory fault) is lost: each later call
 * is UNAVAILABLE and names the first cause; other devices live on. */
#ifndef BTI_DRIVERS_CUDA_DEVICE_H
#define BTI_DRIVERS_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "drivers/cuda/libraries.h"
#include "drivers/driver.h"
#include "launch/gpu.h"

#define BTI_CUDA_EVENTS 256
#define BTI_CUDA_STAGING ((size_t)4 << 20) /* bytes of each half */

/* One direction of transfers: two pinned buffers that take turns. Under its lock. */
typedef struct bti_cuda_lane {
    pthread_mutex_t lock;
    CUstream stream;
    char *half[2];
    CUevent done[2]; /* what half i was last used for */
    CUevent after;   /* of this stream: what compute waits for */
    bool busy[2];
    int current; /* uploads: the half that is being filled */
    size_t used; /* bytes of it */
} bti_cuda_lane;

typedef struct bti_cuda_device {
    bti_gpu gpu;
    int ordinal;      /* among the driver's devices, in PCI bus order */
    int cuda_ordinal; /* libcuda's own */
    CUdevice device;
    CUcontext context;
    CUstream compute;
    bti_cuda_lane up, down;
    CUevent events[BTI_CUDA_EVENTS]; /* event n is at n % BTI_CUDA_EVENTS; one overwritten waits for a later one */
    uint64_t recorded;
    pthread_mutex_t event_lock;
    int architecture;             /* 90 */
    size_t shared_opt_in;         /* bytes of shared memory that a group may be given */
    struct bti_cuda_words *words; /* program.c: launches with too many words for parameters */
    struct bti_cuda_products *products;
    struct bti_cuda_capture *capture; /* graph.c: launches are being recorded by a thread */
    pthread_mutex_t peer_lock;
    uint64_t peers; /* bit o: access to device o of the driver was tried */
    atomic_bool lost;
    pthread_mutex_t lost_lock;
    char cause[300];
    char name[96];
} bti_cuda_device;

/* --- error.c --- */
/* CUDA_SUCCESS is BT_OK; anything else a status with the call's name, the error's name and text. Sticky errors lose the device
 * (NULL: of no device). */
bt_status bti_cuda_check(bti_cuda_device *device, const char *call, CUresult result);
#define BTI_CUDA_TRY(device, function, ...) BTI_TRY(bti_cuda_check(device, #function, bti_cu.function(__VA_ARGS__)))
void bti_cuda_lose(bti_cuda_device *device, const char *cause);

/* Makes the context current (UNAVAILABLE on a lost device); leave gives back what was current before, and `status`. */
bt_status bti_cuda_enter(bti_cuda_device *device);
bt_status bti_cuda_leave(bt_status status);

/* --- probe.c --- */
bool bti_cuda_detect(unsigned kinds, bti_str *reason);
bt_status bti_cuda_check_usable(void);
bool bti_cuda_broken_install(void);
bt_status bti_cuda_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason);
bt_status bti_cuda_list_partitions(bti_device_facts *facts, int capacity, int *count, bti_str *reason);
/* The facts of our device `ordinal`, and libcuda's number of it. cuInit is called. */
bt_status bti_cuda_find(int ordinal, bti_device_facts *facts, int *cuda_ordinal);
bt_status bti_cuda_processes(int ordinal, bt_device_process *processes, int capacity, int *count);
void bti_cuda_probe_reset(void);

/* --- transfer.c --- */
bt_status bti_cuda_lane_open(bti_cuda_device *device, bti_cuda_lane *lane);
void bti_cuda_lane_close(bti_cuda_lane *lane);
bt_status bti_cuda_upload(void *device, uint64_t address, const void *host, size_t bytes);
bt_status bti_cuda_download(void *device, void *host, uint64_t address, size_t bytes);
bt_status bti_cuda_copy(void *device, uint64_t to, uint64_t from, size_t bytes);
bt_status bti_cuda_fill(void *device, uint64_t address, int byte, size_t bytes);
bt_status bti_cuda_peer_copy(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes);

/* --- program.c --- */
bt_status bti_cuda_build(void *device, const char *name, const bti_str *text, void **module);
void bti_cuda_unload(void *device, void *module);
bt_status bti_cuda_find_function(void *device, void *module, const char *name, bti_gpu_function *function);
bt_status bti_cuda_launch(void *device, const bti_gpu_launch *launch);
void bti_cuda_words_free(bti_cuda_device *device);

/* --- compile.c --- */
/* What the driver loads (a cubin, or PTX for devices younger than NVRTC), from the disk cache or made by NVRTC. */
bt_status bti_cuda_compile(const bti_cuda_device *device, const char *name, const bti_str *text, bti_str *image);
/* NVRTC is there and has code for the device. */
bt_status bti_cuda_compiler_check(int architecture);
/* The image that the cache had is no good after all. */
void bti_cuda_compile_refuse(const bti_cuda_device *device, const bti_str *text);

/* --- product.c --- */
bt_status bti_cuda_product(void *device, const bti_work *work, bool *done);
void bti_cuda_products_free(bti_cuda_device *device);

/* --- graph.c --- */
/* Where launches go: compute, or what the calling thread is recording. */
CUstream bti_cuda_stream(bti_cuda_device *device);
/* The calling thread is recording, and what it is about to do cannot be in a graph. */
bool bti_cuda_cannot_record(bti_cuda_device *device);

bt_status bti_cuda_graph_begin(void *device);
bt_status bti_cuda_graph_end(void *device, void **graph);
bt_status bti_cuda_graph_run(void *device, void *graph, bool *stale);
void bti_cuda_graph_free(void *device, void *graph);

/* --- collective.c --- */
bt_status bti_cuda_all_reduce(void *const *devices, int count, const uint64_t *addresses, bt_dtype dtype, bti_op op,
                              size_t elements);
void bti_cuda_communicators_free(const bti_cuda_device *device);

/* --- cuda.c --- */
extern const bti_driver bti_driver_cuda;
bt_status bti_cuda_sync(void *device);
/* For tests: everything as at the start. No device is open. */
void bti_cuda_reset(void);

#endif

/* An open CUDA device, and the functions that the files of this folder share.
 *
 * A device has five streams: compute (launches, fills, copies within the device), reduce (reductions over devices), receive (copies from peers), up (uploads) and down
 * (downloads). Any thread may call an entry: it makes the device's context current while it runs. An upload may return while its
 * last part is still being transferred: later launches and downloads wait for it by events. Transfers do not wait for earlier
 * launches, because these do not touch the same bytes.
 *
 * A device whose context is broken (an illegal address, a failed launch, an uncorrectable memory error) is lost: each later call
 * returns UNAVAILABLE with the first cause. Other devices are not affected. */
#ifndef BTI_DRIVERS_CUDA_DEVICE_H
#define BTI_DRIVERS_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/vec.h"
#include "drivers/cuda/libraries.h"
#include "drivers/driver.h"
#include "launch/gpu.h"
#include "base/lock.h"

#define BTI_CUDA_EVENTS 256

/* Transfers from and to memory of the host: transfer.c. Less than four parts are copied by the caller alone. Less than BTI_CUDA_DIRECT is staged
 * also where it lies in pinned memory: that takes less time than a wait for the bus. */
enum {
    BTI_CUDA_STAGING = 4 << 20,     /* bytes of a pinned buffer */
    BTI_CUDA_STAGINGS = 4,          /* pinned buffers of each direction */
    BTI_CUDA_COPY_THREADS = 8,      /* that fill or empty a pinned buffer, at most */
    BTI_CUDA_COPY_PART = 256 << 10, /* bytes that one of them copies at a time */
    BTI_CUDA_DIRECT = 64 << 10      /* bytes */
};

/* One direction of transfers, with pinned buffers that are used in turn. */
typedef struct bti_cuda_lane {
    bti_lock lock; /* of this struct */
    CUstream stream;
    char *staging[BTI_CUDA_STAGINGS]; /* allocated when they are first used */
    CUevent done[BTI_CUDA_STAGINGS];  /* when the last copy of buffer i is complete */
    CUevent after; /* the end of the last upload, for which compute and receive wait, or download into pinned memory */
    bool busy[BTI_CUDA_STAGINGS];
    size_t count;   /* buffers that are used: fewer where pinned memory is short */
    size_t current; /* of uploads: the buffer that is being filled */
    size_t used;    /* bytes of it */
} bti_cuda_lane;

/* The first member of what is freed when the work in flight that may use it is complete (retired.c). */
struct bti_cuda_device;
typedef struct bti_cuda_retired {
    void (*free)(struct bti_cuda_device *device, struct bti_cuda_retired *retired); /* the context may be lost */
    CUevent done;
    struct bti_cuda_retired *next;
} bti_cuda_retired;

/* The first member of what has an owner, and is used by recordings besides. It is retired when nobody holds it. */
typedef struct bti_cuda_held {
    bti_cuda_retired retired; /* first */
    atomic_uint holders;
} bti_cuda_held;

typedef struct bti_cuda_device {
    bti_gpu gpu;      /* first: the engine's functions stand in the table */
    int ordinal;      /* among the driver's devices, in PCI bus order */
    uint64_t opening; /* counts the openings of all devices */
    int cuda_ordinal; /* libcuda's own */
    CUdevice device;
    CUcontext context;
    CUstream compute;
    CUstream reduce, receive; /* beside compute: reductions over devices, copies from others */
    bti_cuda_lane up, down;
    CUevent events
        [BTI_CUDA_EVENTS]; /* event n is at n % BTI_CUDA_EVENTS; if it was overwritten, a wait for it waits for a later event */
    CUevent reductions[BTI_CUDA_EVENTS], receipts[BTI_CUDA_EVENTS]; /* likewise, of the streams reduce and receive */
    uint64_t recorded, reduced, received;
    bti_lock event_lock; /* of these rings */
    bti_lock mark_lock;  /* of what follows: marks.c */
    BTI_VEC(CUevent) free_marks;
    CUevent reference; /* times of marks are counted from it; NULL: none was read yet */
    uint64_t reference_ns;
    int architecture;             /* 90 */
    size_t shared_opt_in;         /* the most shared memory of a group, in bytes */
    struct bti_cuda_words *words; /* launch.c: for launches with too many words for parameters */
    struct bti_cuda_products *products;
    struct bti_cuda_convs *convs;
    struct bti_cuda_solvers *solvers;
    struct bti_cuda_capture *capture;         /* graph.c: a thread is recording launches; else NULL */
    bti_cuda_retired *retired, *last_retired; /* oldest first */
    bti_lock retired_lock;
    bti_lock peer_lock; /* of peers */
    uint64_t peers[64]; /* at o % 64: the opening of device o to which access was tried */
    atomic_bool lost;
    bti_lock lost_lock; /* of cause */
    char cause[300];
    char name[96];
} bti_cuda_device;

/* In the number of an event of the stream reduce, and of receive. */
#define BTI_CUDA_REDUCTION (UINT64_C(1) << 63)
#define BTI_CUDA_RECEIPT (UINT64_C(1) << 62)
static inline CUevent bti_cuda_event(const bti_cuda_device *device, bti_event event) {
    uint64_t at = event.value % BTI_CUDA_EVENTS;
    if (event.value & BTI_CUDA_REDUCTION) return device->reductions[at];
    return event.value & BTI_CUDA_RECEIPT ? device->receipts[at] : device->events[at];
}

/* --- error.c ------------------------------------------------------------------------------------------------------ */
/* The status of a result: BT_OK for CUDA_SUCCESS; else with the call's name, the error's name and its text. A sticky error marks the
 * device (NULL: none) as lost. */
bt_status bti_cuda_check(bti_cuda_device *device, const char *call, CUresult result);
#define BTI_CUDA_TRY(device, function, ...) BTI_TRY(bti_cuda_check(device, #function, bti_cu.function(__VA_ARGS__)))

/* An event after what is on the stream so far, of its ring of numbers and with its mark; if it fails, that is complete. With the context current. */
bt_status bti_cuda_record(bti_cuda_device *device, CUstream stream, uint64_t *recorded, uint64_t mark,
                          bti_event *event);

/* enter makes the device's context current (UNAVAILABLE on a lost device); leave restores the one before and returns `status`. */
bt_status bti_cuda_enter(bti_cuda_device *device);
bt_status bti_cuda_leave(bt_status status);

/* --- probe.c ------------------------------------------------------------------------------------------------------ */
bool bti_cuda_detect(unsigned kinds, bti_str *reason);
bt_status bti_cuda_check_usable(void);
bool bti_cuda_broken_install(void);
bt_status bti_cuda_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason);
bt_status bti_cuda_list_partitions(bti_device_facts *facts, int capacity, int *count, bti_str *reason);
/* The facts of device `ordinal`, and libcuda's own number of it. Calls cuInit. */
bt_status bti_cuda_find(int ordinal, bti_device_facts *facts, int *cuda_ordinal);
bt_status bti_cuda_processes(int ordinal, bt_device_process *processes, int capacity, int *count);
bool bti_cuda_energy(int ordinal, double *joules, uint64_t *since_ns, bti_str *reason);
/* Asks NVML, which is started, about a device or partition, under a lock: with its handle and its description. `what` NVML would tell, for errors: "the energy of". */
typedef bt_status bti_cuda_nvml_question(nvmlDevice_t device, const char *description, void *data);
bt_status bti_cuda_ask_nvml(int ordinal, const char *what, bti_cuda_nvml_question *ask, void *data);
bt_status bti_cuda_nvml_failed(const char *what, const char *description, nvmlReturn_t result);
void bti_cuda_probe_reset(void);

/* --- transfer.c --------------------------------------------------------------------------------------------------- */
bt_status bti_cuda_lane_open(bti_cuda_device *device, bti_cuda_lane *lane);
void bti_cuda_lane_close(bti_cuda_lane *lane);
bt_status bti_cuda_upload(void *device, uint64_t address, const void *host, size_t bytes);
bt_status bti_cuda_download(void *device, void *host, uint64_t address, size_t bytes);
bt_status bti_cuda_upload_pinned(void *device, uint64_t address, const void *host, size_t bytes);
bt_status bti_cuda_download_pinned(void *device, void *host, uint64_t address, size_t bytes);
bt_status bti_cuda_copy(void *device, uint64_t to, uint64_t from, size_t bytes);
bt_status bti_cuda_fill(void *device, uint64_t address, int byte, size_t bytes);
bt_status bti_cuda_send(void *to_device, uint64_t to, const bti_event *idle, void *from_device, uint64_t from,
                        const bti_event *made, size_t bytes, bti_work_end *end);

/* --- marks.c ------------------------------------------------------------------------------------------------------ */
uint64_t bti_cuda_read_mark(void *device, bti_mark mark);
/* A mark of a stream's, with the context current. */
bt_status bti_cuda_mark_stream(bti_cuda_device *device, CUstream stream, bti_mark *mark);
/* An event with times, which is free, as a mark; and back. */
bt_status bti_cuda_take_mark(bti_cuda_device *device, bti_mark *mark);
void bti_cuda_give_mark(bti_cuda_device *device, bti_mark mark);
/* Around work of a stream beside compute, while a trace is recorded; with the context current. A failure leaves it without marks. */
void bti_cuda_mark_begin(bti_cuda_device *device, CUstream stream, bti_work_end *of);
void bti_cuda_mark_end(bti_cuda_device *device, CUstream stream, bti_work_end *of);
void bti_cuda_drop_marks(bti_cuda_device *device, bti_work_end *of); /* of work that failed */
void bti_cuda_marks_free(bti_cuda_device *device);

/* --- retired.c ---------------------------------------------------------------------------------------------------- */
/* Frees it when everything that was launched so far is complete; of a lost device when that is closed. Any thread. Waits only where no event
 * can be recorded. */
void bti_cuda_retire(bti_cuda_device *device, bti_cuda_retired *retired);
void bti_cuda_held_release(void *device, void *held); /* a bti_cuda_held */
/* Frees what no work in flight uses any more; `all`: everything, because the device is idle or lost. */
void bti_cuda_free_retired(bti_cuda_device *device, bool all);
/* Waits until everything on the device is complete. */
bt_status bti_cuda_sync(void *device);

/* --- module.c ----------------------------------------------------------------------------------------------------- */
/* A module is a bti_cuda_held: recordings contain launches of its functions. */
bt_status bti_cuda_build(void *device, const char *name, const bti_str *text, void **module);
bt_status bti_cuda_find_function(void *device, void *module, const char *name, bti_gpu_function *function);

/* --- launch.c ----------------------------------------------------------------------------------------------------- */
bt_status bti_cuda_launch(void *device, const bti_gpu_launch *launch);
void bti_cuda_words_free(bti_cuda_device *device);

/* --- compile.c ---------------------------------------------------------------------------------------------------- */
/* The image that the driver loads (a cubin, or PTX for devices newer than NVRTC), from the disk cache or from NVRTC. */
bt_status bti_cuda_compile(const bti_cuda_device *device, const char *name, const bti_str *text, bti_str *image);
/* Whether NVRTC is available and compiles for the device. */
bt_status bti_cuda_compiler_check(int architecture);
/* Deletes the cached image of the text, because the driver refused it. */
void bti_cuda_compile_refuse(const bti_cuda_device *device, const bti_str *text);

/* --- product.c ---------------------------------------------------------------------------------------------------- */
bt_status bti_cuda_product(void *device, const bti_work *work, bool *done);
bool bti_cuda_has_product(void *device, bt_dtype dtype);
bt_dtype bti_cuda_product_dtype(void *device, const bti_work *work);
void bti_cuda_products_free(bti_cuda_device *device);

/* --- conv.c ------------------------------------------------------------------------------------------------------- */
bt_status bti_cuda_conv(void *device, const bti_work *work, bool *done);
/* For `berth doctor`: starts cuDNN if it is there, and says if it does not. */
void bti_cuda_convs_describe(bti_cuda_device *device, bti_str *text);
void bti_cuda_convs_free(bti_cuda_device *device);

/* --- fft.c -------------------------------------------------------------------------------------------------------- */
/* fft_new and fft of launch/gpu_driver.h; what is made is a bti_cuda_held. */
bt_status bti_cuda_fft_new(void *device, const bti_fft_lines *lines, void **made);
bt_status bti_cuda_fft(void *device, void *transform, uint64_t from, uint64_t to);
/* For `berth doctor`: makes a plan if cuFFT is there, and says if that fails. */
void bti_cuda_ffts_describe(bti_cuda_device *device, bti_str *text);

/* --- factor.c ----------------------------------------------------------------------------------------------------- */
/* factor_new and factor of launch/gpu_driver.h; what is made is a bti_cuda_held. */
bt_status bti_cuda_factor_new(void *device, const bti_factor *of, void **made, bool *by_pointers);
bt_status bti_cuda_factor(void *device, void *factor, const bti_gpu_factor_arrays *at, bool second);
/* For `berth doctor`: starts cuSOLVER if it is there, and says if it does not. */
void bti_cuda_factors_describe(bti_cuda_device *device, bti_str *text);
void bti_cuda_solvers_free(bti_cuda_device *device);

/* --- graph.c ------------------------------------------------------------------------------------------------------ */
/* The stream of launches: compute, or the stream that the calling thread is recording. */
CUstream bti_cuda_stream(bti_cuda_device *device);
/* The calling thread's recording, if there is one, holds it. */
void bti_cuda_capture_held(bti_cuda_device *device, bti_cuda_held *held);
/* Marks the calling thread's recording as impossible, because its next operation cannot be in a graph; false: it is not recording. */
bool bti_cuda_cannot_record(bti_cuda_device *device);

/* --- update.c ----------------------------------------------------------------------------------------------------- */
/* What is launched; its words are a kernel's argument, where a copy goes to and comes from, where a fill goes. */
typedef struct bti_cuda_launched {
    enum { BTI_CUDA_KERNEL, BTI_CUDA_COPY, BTI_CUDA_FILL } kind;
    CUfunction function;
    uint32_t groups, threads;
    size_t bytes; /* of shared memory, or that are copied or filled */
    int byte;
    size_t word_count;
    const uint64_t *words;
} bti_cuda_launched;
/* Whether the calling thread gives a recording other arguments: the launch is compared with it, and is not to be made. */
bool bti_cuda_is_update(bti_cuda_device *device, const bti_cuda_launched *what);
/* It was launched; if the calling thread records, as the last node. */
void bti_cuda_note(bti_cuda_device *device, const bti_cuda_launched *what);
/* The calling thread's next launch has arguments that are not known: its recording is never updated. True: it is not to be made, as bti_cuda_is_update. */
bool bti_cuda_cannot_update(bti_cuda_device *device);
bt_status bti_cuda_graph_update(void *device, void *graph, bool *can);

bt_status bti_cuda_mark(void *device, bool begins, bti_mark *mark);

bt_status bti_cuda_graph_begin(void *device);
bt_status bti_cuda_graph_end(void *device, void **graph);
bt_status bti_cuda_graph_run(void *device, void *graph, bti_mark *marks, bool *stale);
void bti_cuda_graph_free(void *device, void *graph);

/* --- collective.c ------------------------------------------------------------------------------------------------- */
bt_status bti_cuda_all_reduce(void *const *devices, int count, const bti_reduction *what, const bti_event *after,
                              bti_work_end *ends);
void bti_cuda_communicators_free(const bti_cuda_device *device);

/* --- cuda.c ------------------------------------------------------------------------------------------------------- */
extern const bti_driver bti_driver_cuda;
/* For tests: resets everything. No device may be open. */
void bti_cuda_reset(void);

#endif

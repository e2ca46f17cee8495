/* The contract between the runtime and a driver: one folder in drivers/, one row in drivers.def, one bti_driver.
 *
 * The way of one kernel launch: exec/ decides when a kernel runs and calls `launch_kernel` of the
 * device's driver (bti_program_launch_kernel).
 *     cpu, sim      cpu/engine.c chooses the code (block interpreter or compiled code), cpu/launch.c cuts the box into pieces
 *                   and runs them on the cores
 *     cuda, opencl  launch/gpu_kernel.c chooses the entry of the kernel's text and the grid, cuda/launch.c or opencl/program.c
 *                   enqueues it
 * Texts of kernels come from exec/texts.c: a driver asks for one, and nobody is called back.
 * A primitive that runs whole goes the same way through `launch`: cpu/engine.c; launch/gpu_work.c, launch/gpu_text.c. A product and the
 * kernel that reads it, where devices take both at once, through `launch_product`: sim/sim.c; launch/gpu_product.c. A kernel of the program's
 * through `launch_custom`: launch/gpu_custom.c. A Fourier transform, or linear algebra, by a library of the device's through `launch_library`: launch/gpu_fft.c, launch/gpu_factor.c. Steps of a loop, where many of them are one call, through `launch_series`: exec/series.c, cpu/series.c.
 *
 * Every entry is required unless it is marked (optional). device/ checks arguments before it calls, never calls an entry with
 * a size of 0, and replaces optional entries that are NULL. Unless an entry says otherwise:
 * - Any thread may call it. Several threads may be inside for different devices. For one device, launch, launch_kernel, launch_series,
 *   copy, fill, record, follow, mark and graph_* are called by one thread at a time, in the order of the device's queue.
 * - The result is a bt_status; the detail of a failure is in the thread's error record (bti_fail). */
#ifndef BTI_DRIVERS_DRIVER_H
#define BTI_DRIVERS_DRIVER_H

#include <berth/device.h>

#include "base/error.h"
#include "base/str.h"
#include "ir/target.h"
#include "launch/program.h"
#include "launch/series.h"

/* "GPU". */
static inline const char *bti_kind_name(bt_kind kind) {
    static const char *const names[BT_KIND_COUNT] = {"CPU", "GPU", "TPU", "ACC"};
    return (unsigned)kind < BT_KIND_COUNT ? names[kind] : "UNKNOWN";
}

/* What `probe` reports of one device, without opening it. Texts are NUL-terminated and truncated to fit. */
typedef struct bti_device_facts {
    bt_kind kind;
    int ordinal;          /* the driver's own number of the device; opencl: platform << 16 | device */
    char description[96]; /* "NVIDIA H200", "Simulated GPU", "AMD EPYC 9654" */
    char driver_version[48];
    char uuid[64];                          /* "GPU-..."; "" when it has none */
    char pci_bus_id[24];                    /* "0000:3b:00.0"; "" when it has none */
    int capability_major, capability_minor; /* CUDA compute capability; 0 when it has none */
    size_t memory_bytes;                    /* 0: unknown */
    char memory_source[160]; /* what limits the memory where that is not the device itself (a cgroup); else "" */
    size_t largest_bytes;    /* the largest single allocation; 0: no limit beside memory_bytes */
    uint64_t linked;         /* bit per ordinal: devices of this driver that it has a fast link to (NVLink) */
    bool masked; /* CUDA_VISIBLE_DEVICES was already applied by CUDA's own library: device/ must not apply it again */
} bti_device_facts;

#define BTI_MEMORY_ALIGN 256 /* bytes, of every allocation and block: what NVIDIA's libraries assume of a workspace */

typedef struct bti_event {
    uint64_t value; /* defined by the driver */
} bti_event;

/* A point of a device's work, of which a trace wants the time. */
typedef struct bti_mark {
    uint64_t value; /* defined by the driver */
} bti_mark;

/* Of work that runs beside the launches of a device. */
typedef struct bti_work_end {
    bti_event event;
    uint64_t begin_ns, end_ns; /* of devices in virtual time; else 0 */
    bool marked;               /* by drivers with marks, while a trace is recorded: */
    bti_mark begin, end;       /* of the device of `event` */
} bti_work_end;

/* What is reduced over devices in one go. */
typedef struct bti_reduction {
    bt_dtype dtype;
    bti_op op; /* sum, prod, max, min */
    size_t array_count;
    const size_t *elements;           /* [array]; may be 0 */
    const uint64_t *inputs, *outputs; /* [array][device]; an output is its input, or overlaps no input */
} bti_reduction;

typedef struct bti_driver {
    const char *name;               /* "cpu", "sim", ... */
    const bti_target_facts *target; /* what plans for its devices are made by */
    unsigned kinds;   /* bit k: it may have devices of kind k; it is probed when such a kind is asked for */
    bool third_party; /* it opens libraries of other vendors, which may hang or crash: probed in a child process first
                         (device/trial.c) */
    bool simulated;   /* its devices are those of the flag `devices`, in place of real ones of their kinds */
    bool async;       /* launches return before the work is done */
    bool
        side_by_side; /* not async, and several threads may launch at once: work that waits for nothing needs no place in an order */
    bool
        host_memory; /* its addresses are pointers of this process: copies need no staging, the host may read in place */

    /* (optional) A quick check of files: can this machine have devices of these kinds (bit k: kind k)? false, with the reason:
     * the driver's libraries are not opened. Must not run code of third parties. */
    bool (*detect)(unsigned kinds, bti_str *reason);
    /* Lists the devices of these kinds (more kinds, if that is simpler): fills in up to `capacity` facts and sets *count to the
     * number of devices. Creates no context and allocates no device memory. `reason` gets one line per step that failed, for
     * `berth doctor`. A failure means "no devices"; it is not an error of the program. May block briefly. Lists all hardware,
     * in PCI bus order: CUDA_VISIBLE_DEVICES is applied by device/probe.c. */
    bt_status (*probe)(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason);

    /* (optional) Lists what can be assigned to other processes by UUID, even if one process can use only one of them: a GPU that
     * is split by MIG is listed as its instances. Otherwise as probe. `processes` accepts these ordinals too. */
    bt_status (*list_partitions)(bti_device_facts *facts, int capacity, int *count, bti_str *reason);

    /* (optional; all or none) For hardware whose vendor's software is often broken.
     * vendor: "NVIDIA", for messages.
     * check_usable: after a probe that listed devices: can they be opened, as far as that can be known without opening one?
     *     It initialises the vendor's libraries, so device/ calls it in a child process only.
     * broken_install: after a probe that listed no device: is the vendor's driver installed nevertheless? */
    const char *vendor;
    bt_status (*check_usable)(void);
    bool (*broken_install)(void);

    /* Opens device `ordinal`; *device is the driver's own state. May take seconds. The allocator works after open has returned. */
    bt_status (*open)(int ordinal, const bti_allocator *allocator, void **device);
    /* Closes it. All work is done and all memory is freed before. Never fails. */
    void (*close)(void *device);

    /* Device memory, aligned to BTI_MEMORY_ALIGN. RESOURCE_EXHAUSTED when there is none. Any thread, at any time. */
    bt_status (*alloc)(void *device, size_t bytes, uint64_t *address);
    void (*free)(void *device, uint64_t address, size_t bytes);

    /* Host to device and device to host; the copy is done when they return. Any thread, concurrently with the queue: no launched
     * work that is not complete touches these bytes, so there is nothing to wait for. */
    bt_status (*upload)(void *device, uint64_t address, const void *host, size_t bytes);
    bt_status (*download)(void *device, void *host, uint64_t address, size_t bytes);
    /* (optional, all or none) Memory of the host that each device of this driver copies from and to directly, aligned to BTI_MEMORY_ALIGN.
     * host_alloc: RESOURCE_EXHAUSTED when there is none. Any thread, at any time.
     * host_free: no copy uses it. Never fails. Any thread, at any time until the device is closed.
     * upload_pinned, download_pinned: as upload and download; the bytes of the host lie in such memory, of any device of this driver. */
    bt_status (*host_alloc)(void *device, size_t bytes, void **memory);
    void (*host_free)(void *device, void *memory, size_t bytes);
    bt_status (*upload_pinned)(void *device, uint64_t address, const void *host, size_t bytes);
    bt_status (*download_pinned)(void *device, void *host, uint64_t address, size_t bytes);
    /* Copies within the device, in the queue's order like a launch. The ranges do not overlap. */
    bt_status (*copy)(void *device, uint64_t to, uint64_t from, size_t bytes);
    /* Sets every byte to `byte`, in the queue's order. */
    bt_status (*fill)(void *device, uint64_t address, int byte, size_t bytes);

    /* Makes a program ready to launch (compiles it or looks it up); *program is never NULL. The source and its kernel may be freed
     * after the call. UNIMPLEMENTED: this device has no such program. */
    bt_status (*program_load)(void *device, const bti_program_source *source, void **program);
    void (*program_free)(void *device, const bti_program_source *source, void *program);
    /* (optional, both or none, but for text_wanted) For drivers that load texts. A launch for which a text is missing does nothing and returns
     * FAILED_PRECONDITION.
     * text_wanted: (optional) whether the program lacks a text for a launch that is to come, of a fused kernel as `count` boxes, of which this is the first; count 0: that is
     *     not known. Such texts can be compiled beside one another.
     * text_lacked: whether its last launch lacked a text, by the thread that launched.
     * text_give: the text (`failed` when memory was short). Compiles it, now or when the launch is repeated. A failure is that of the launch. */
    bool (*text_wanted)(void *device, void *program, const bti_box *box, int count, bti_text_wanted *wanted);
    bool (*text_lacked)(void *device, void *program, bti_text_wanted *wanted);
    bt_status (*text_give)(void *device, void *program, const bti_text_wanted *wanted, const bti_str *text);
    /* Runs or enqueues a program: `launch` one of a primitive, `launch_kernel` one of a fused kernel. All addresses are of this
     * device. */
    bt_status (*launch)(void *device, void *program, const bti_work *work);
    bt_status (*launch_kernel)(void *device, void *program, const bti_box *box);

    /* (optional) launch_kernel for several boxes that do not wait for each other, and of which no two write the same bytes; they get the bits that they get
     * alone. For devices whose facts say that a launch takes several boxes; needed there if launches may lack texts: all boxes run, or none. */
    bt_status (*launch_boxes)(void *device, void *program, const bti_box *boxes, int count);

    /* (optional) Runs steps of a series, each launch as launch_kernel does and to the same bits; they are complete when it returns. It cannot fail: steps that might, that lack a text, or that
     * take several cores are left to launch_kernel, so that fewer than `most` run, or none. For devices that are not `async` and whose addresses are pointers. */
    void (*launch_series)(void *device, bti_series *series);

    /* (optional) A matrix product whose output has no address, and the map that reads it, over the box: operand `made` of the program's source is the
     * product, dense, and has no address either; the last two axes of the nest are the product's rows and columns. No output is an input. The bits are
     * those of launch, and then launch_kernel. For devices whose facts say that products have epilogues. */
    bt_status (*launch_product)(void *device, void *program, const bti_work *product, const bti_box *box);

    /* (optional) Runs or enqueues a kernel of the program's. For devices whose facts say in what language it is written. */
    bt_status (*launch_custom)(void *device, void *program, const bti_custom_launch *launch);

    /* (optional) Runs or enqueues a Fourier transform, or linear algebra. addresses: of what is read, then of what is written; these do not overlap. Without it, or where
     * program_load says UNIMPLEMENTED of the lines or matrices, the host computes it. */
    bt_status (*launch_library)(void *device, void *program, const uint64_t *addresses);

    /* (optional) Runs or enqueues a segment. addresses: of its inputs, then of its outputs; each is where an allocation begins. An output whose address is that of the input that is aliased to it takes
     * its memory; all other inputs keep their elements. If it fails, no output is written. For devices whose facts say that they load graphs: they run nothing else, and each of their allocations is one
     * array, written whole by a segment, `copy`, or uploads. types: NULL, or those of the arrays, where the program's are longer along some axes: the driver fills them up with anything, and reads and copies the
     * elements that are there. */
    bt_status (*launch_segment)(void *device, void *program, const uint64_t *addresses, const bti_type *types);

    /* record: an event that completes after everything launched so far; if it fails, it has waited for all that: nobody else can, and its memory serves what comes next. wait:
     * blocks until it is complete and returns the error of work that failed. query never blocks. */
    bt_status (*record)(void *device, bti_event *event);
    bt_status (*wait)(void *device, bti_event event);
    bt_status (*query)(void *device, bti_event event, bool *done);
    /* (optional) wait, but at most until this time: of the virtual clock where the device has one, else of the wall's (bti_now_ns). *done: the event is complete; errors of the
     * work are left to wait. Without it device/ asks query again and again, if the driver is `async`. Required with complete_at. */
    bt_status (*wait_until)(void *device, bti_event event, uint64_t ns, bool *done);
    /* Blocks until the device is idle. */
    bt_status (*sync)(void *device);
    /* (optional) Of devices whose work is noted in the time of a virtual clock (base/clock.h): when everything launched so far is complete. Never blocks; any
     * thread. */
    uint64_t (*complete_at)(void *device);

    /* Free and total memory right now, in bytes; UNIMPLEMENTED where the free memory is unknown. */
    bt_status (*memory)(void *device, size_t *free_bytes, size_t *total_bytes);

    /* (optional) The processes that hold memory of the device, this one included, in any order: fills in up to `capacity`, sets
     * *count to their number. Opens nothing; any thread. UNIMPLEMENTED where it is unknown. */
    bt_status (*processes)(int ordinal, bt_device_process *processes, int capacity, int *count);

    /* (optional) Joules that the hardware has used since some moment, whoever used it: differences of two readings count. *since_ns: differences to
     * readings from before this moment of the monotonic clock (bti_now_ns) are too small by an unknown amount; 0: none are. false: they cannot be read, `reason`
     * says why and what helps, without a line's end. Opens no device; any thread; takes some milliseconds at most, but for the start of a library. */
    bool (*energy)(int ordinal, double *joules, uint64_t *since_ns, bti_str *reason);

    /* (optional) Frees the scratch memory that the driver keeps of its allocator, after the launches that use it are done. Any
     * thread, at any time. */
    void (*trim)(void *device);

    /* (optional) Adds lines about the libraries of an opened device, for `berth doctor`. */
    void (*describe)(void *device, bti_str *text);

    /* (optional) Copies between two open devices of this driver without the host; otherwise as upload. Not called where there is `send`. */
    bt_status (*peer_copy)(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes);

    /* (optional, both or none) Copies between two open devices of this driver beside what they launch, ordered by events. For devices whose facts say so.
     * send: begins when `made`, an event of from_device, is complete (NULL: the bytes are made, or being uploaded by a call that has returned), and `idle`, one of to_device, after which
     *     its bytes may be written (NULL: now). `end` tells,
     *     by an event of to_device, when it is complete. It does not wait. Any thread.
     * follow: what is launched on the device later begins when this event of it is complete. In the order of launches; it does not wait. */
    bt_status (*send)(void *to_device, uint64_t to, const bti_event *idle, void *from_device, uint64_t from,
                      const bti_event *made, size_t bytes, bti_work_end *end);
    bt_status (*follow)(void *device, bti_event event);

    /* (optional) Copies into memory of the host beside what is launched, for devices whose facts say that they are fetched; without it a thread waits for the bytes, and downloads. Begins when `made`,
     * an event of the device, is complete; nobody else waits for that one. `end` tells, by an event of the device, when the bytes are there. It does not wait. In the order of launches. */
    bt_status (*fetch)(void *device, void *host, uint64_t address, bti_event made, size_t bytes, bti_work_end *end);

    /* (optional, both or none; with graph_* required) When work begins and ends on the device, for traces.
     * mark: a point between two launches: with `begins` when the next one begins, else when the last one has ended. It does not wait. In a recording
     *     it is a point of each run of the graph, and *mark is not set.
     * read_mark: the time of a point that the device has passed, and the mark is the driver's again; 0 if it is unknown. In ns of a clock of the device's, whose origin
     *     may be anywhere; of devices that are not `async`, or in virtual time, of the process's clock (base/clock.h). It does not wait. Any thread. */
    bt_status (*mark)(void *device, bool begins, bti_mark *mark);
    uint64_t (*read_mark)(void *device, bti_mark mark);

    /* (optional, all or none) Launches that are recorded once and replayed by one call. From begin to end, what the calling thread
     * launches, fills, copies within the device and marks is recorded and does not run.
     * graph_end: sets *graph to NULL if something could not be recorded; nothing ran then. Called after a failure too.
     * graph_update: begins to change a recording instead of making one: up to graph_end, launches, fills and copies are compared with the recorded ones, in their order, and their
     *     addresses and numbers take the places of those in later runs; runs in flight keep what they had. Marks stay as they are. *can false: nothing was begun, since arguments of the recording are not known
     *     (those of a vendor's library). graph_end then sets *graph to NULL if a launch was another one than the recorded, and the recording is as before; if graph_end fails, it can only be freed.
     * graph_run: runs all recorded launches with the addresses of the recording. marks: set to those of this run, in the order of the recording; not if it fails or is stale. *stale: nothing ran, record again. */
    bt_status (*graph_begin)(void *device);
    bt_status (*graph_update)(void *device, void *graph, bool *can);
    bt_status (*graph_end)(void *device, void **graph);
    bt_status (*graph_run)(void *device, void *graph, bti_mark *marks, bool *stale);
    void (*graph_free)(void *device, void *graph);

    /* (optional) Reduces arrays over all devices, each device by device: all get the same bits. On devices[i] it begins when after[i] is complete, an event of its
     * own, and runs beside what is launched there later; ends[i] tells when it is complete. It does not wait. UNIMPLEMENTED: not for these arguments. No arrays: only
     * checks whether dtype and op are supported, and prepares what they need. Any thread; the order of two calls is the same on all devices. */
    bt_status (*all_reduce)(void *const *devices, int count, const bti_reduction *what, const bti_event *after,
                            bti_work_end *ends);
} bti_driver;

#endif

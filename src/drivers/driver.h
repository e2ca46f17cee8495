/* What a driver fills in. One folder, one row in drivers.def, this table. Required unless marked (optional).
 *
 * device/ checks arguments and limits before it calls, never calls an entry with a size of 0, and fills in what optional
 * entries leave out. Unless an entry says otherwise: called from any thread, several threads may be inside for different
 * devices, one at a time for launch/copy/fill/record of one device (its queue), and codes are those of bt_status with the detail in the thread's error record (bti_fail). */
#ifndef BTI_DRIVERS_DRIVER_H
#define BTI_DRIVERS_DRIVER_H

#include <berth/device.h>

#include "base/error.h"
#include "base/str.h"
#include "launch/program.h"

typedef enum bti_granularity { BTI_KERNEL, BTI_GRAPH } bti_granularity;

/* What enumeration tells of one device, without opening it. Texts are NUL-terminated and cut to fit. */
typedef struct bti_device_facts {
    bt_kind kind;
    int ordinal;          /* the driver's own number of it; opencl: platform << 16 | device */
    char description[96]; /* "NVIDIA H200", "Simulated GPU", "AMD EPYC 9654" */
    char driver_version[48];
    char uuid[64];                          /* "GPU-..."; "" when it has none */
    char pci_bus_id[24];                    /* "0000:3b:00.0"; "" when it has none */
    int capability_major, capability_minor; /* compute capability; 0 when it has none */
    size_t memory_bytes;                    /* 0: unknown */
    char memory_source[160];                /* what sets it, where that is no size of the device's own; "" */
    size_t largest_bytes;                   /* that one allocation may have; 0: as many as there are */
    uint64_t linked; /* bit per ordinal: devices of the driver that it has fast links to (NVLink) */
    bool masked;     /* CUDA's own library listed it, under CUDA_VISIBLE_DEVICES: the mask is not applied again */
} bti_device_facts;

#define BTI_MEMORY_ALIGN 256 /* bytes, of every allocation and block: what NVIDIA's libraries assume of a workspace */

typedef struct bti_event {
    uint64_t value; /* the driver's */
} bti_event;

typedef struct bti_driver {
    const char *name; /* "cpu", "sim", ... */
    bti_granularity granularity;
    unsigned kinds; /* bit k: it may have devices of kind k; it is probed when such a kind is asked for */
    bool foreign;   /* it opens libraries of others, which may hang or crash: tried in a child first (device/trial.c) */
    bool ahead;     /* launches return before the work is done */
    bool host_memory; /* its addresses are pointers of this process: copies need no bounce, hosts may read in place */

    /* (optional) Whether a look at files tells that it can have devices of these kinds (bit k: kind k); false, with the reason,
     * keeps its libraries closed. Quick, and safe: no code of others runs. */
    bool (*likely)(unsigned kinds, bti_str *reason);
    /* Lists its devices of these kinds (others too, if that is simpler): up to `capacity` facts, returns how many there are
     * through `count`. Makes no context, takes no device memory. What was tried and why there is none goes to `reason` (for
     * doctor), one line per step. Failing here means "no devices", never an error of the program. Blocks briefly. All that
     * the hardware has, in PCI bus order: CUDA_VISIBLE_DEVICES is applied above (device/probe.c). */
    bt_status (*probe)(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason);

    /* (optional) Lists what other processes can be given by UUID, however few of it one process can use: a GPU that is split by MIG is its
     * instances. Otherwise as probe; `processes` takes these ordinals too. */
    bt_status (*parts)(bti_device_facts *facts, int capacity, int *count, bti_str *reason);

    /* (optional; all or none) For devices whose maker's software is often broken. maker: "NVIDIA". ready: after a probe that listed
     * some, whether they could be opened, as far as that shows without opening one; it starts the maker's libraries, so it is
     * called in a child process only. broken: after a probe that listed none, whether the maker's driver is there all the same. */
    const char *maker;
    bt_status (*ready)(void);
    bool (*broken)(void);

    /* Opens device `ordinal`; *device is the driver's own state. May take long. The lender can be used when open has returned. */
    bt_status (*open)(int ordinal, const bti_lender *lender, void **device);
    /* Closes it; all work is done, all memory freed before. Never fails. */
    void (*close)(void *device);

    /* Device memory, at multiples of BTI_MEMORY_ALIGN. RESOURCE_EXHAUSTED when there is none. Called from any thread at any time. */
    bt_status (*alloc)(void *device, size_t bytes, uint64_t *address);
    void (*free)(void *device, uint64_t address, size_t bytes);

    /* Host to device and device to host, done when they return. From any thread, beside the queue: no launched work that is
     * not complete touches the bytes, so nothing need be waited for. */
    bt_status (*upload)(void *device, uint64_t address, const void *host, size_t bytes);
    bt_status (*download)(void *device, void *host, uint64_t address, size_t bytes);
    /* Within the device, in the queue's order, as launches. Ranges do not overlap. */
    bt_status (*copy)(void *device, uint64_t to, uint64_t from, size_t bytes);
    /* Every byte becomes `byte`. */
    bt_status (*fill)(void *device, uint64_t address, int byte, size_t bytes);

    /* Makes a program ready to launch (compiles it, finds it); *program is never NULL. The source's kernel may go after.
     * UNIMPLEMENTED: this device has no such program. */
    bt_status (*program_load)(void *device, const bti_program_source *source, void **program);
    void (*program_free)(void *device, const bti_program_source *source, void *program);
    /* Runs or enqueues it; addresses are of this device. Of a primitive, and of a fused kernel. */
    bt_status (*launch)(void *device, void *program, const bti_work *work);
    bt_status (*launch_kernel)(void *device, void *program, const bti_box *box);

    /* An event after everything launched so far on the device; waiting blocks the host; query never blocks. */
    bt_status (*record)(void *device, bti_event *event);
    bt_status (*wait)(void *device, bti_event event);
    bt_status (*query)(void *device, bti_event event, bool *done);
    /* Blocks until the device is idle. */
    bt_status (*sync)(void *device);

    /* Free memory right now, in bytes; UNIMPLEMENTED where it cannot be told. */
    bt_status (*memory)(void *device, size_t *free_bytes, size_t *total_bytes);

    /* (optional) Which processes hold memory of it, this one too, in any order: up to `capacity`, *count how many there are.
     * Opens nothing; from any thread. UNIMPLEMENTED where it cannot be told. */
    bt_status (*processes)(int ordinal, bt_device_process *processes, int capacity, int *count);

    /* (optional) Gives the lender back what it keeps for launches to come, once those before are done. From any thread, at any
     * time. */
    void (*trim)(void *device);

    /* (optional) What doctor adds of an opened device's libraries: lines of text. */
    void (*describe)(void *device, bti_str *text);

    /* (optional) Copies between two open devices of this driver without the host; otherwise as upload. */
    bt_status (*peer_copy)(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes);

    /* (optional, all or none) Launches recorded once and run again in one go. From begin to end, what the calling thread launches,
     * fills and copies within the device is recorded and not run. end: *graph is NULL, and nothing ran, when something cannot
     * be recorded; it is called after a failure too. run: as if all were launched now, with the addresses of then; *stale:
     * nothing ran, it must be recorded anew. */
    bt_status (*graph_begin)(void *device);
    bt_status (*graph_end)(void *device, void **graph);
    bt_status (*graph_run)(void *device, void *graph, bool *stale);
    void (*graph_free)(void *device, void *graph);

    /* (optional) addresses[i] of devices[i], `elements` of the dtype, become the fold (sum, prod, max, min) over all devices, in an
     * order of the library's own, the same bits on each. On each device it comes after what was launched before.
     * UNIMPLEMENTED: not for these. `addresses` NULL: only tells whether it can, and makes ready what it needs for that. */
    bt_status (*all_reduce)(void *const *devices, int count, const uint64_t *addresses, bt_dtype dtype, bti_op op,
                            size_t elements);
} bti_driver;

#endif

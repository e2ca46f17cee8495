/* The checked front of every driver: the registry of devices, their memory, and what crosses between them.
 * A device is its number in the registry (0, 1, ...), stable until bt_shutdown; nodes and plans carry the number. */
#ifndef BTI_DEVICE_DEVICE_H
#define BTI_DEVICE_DEVICE_H

#include <berth/device.h>
#include <stdatomic.h>

#include "base/lru.h"
#include "base/trace.h"
#include "drivers/driver.h"

#define BTI_MAX_DEVICES 64

/* How many devices are known so far: of the kinds that were asked for. Reads flags and mask at the first call. */
int bti_device_count(void);
bt_device *bti_device_at(int id);
int bti_device_id(const bt_device *device);
int bti_default_device_id(void);
/* Of the calling thread's BT_DEFAULT block; -1: there is none. enter: returns what was there. */
int bti_default_device_own(void);
int bti_default_device_enter(int id);
int bti_cpu_device_id(void);

/* Whether devices were asked for since the start or since bti_device_shutdown. */
bool bti_devices_asked(void);

/* The id that a name means, with placement's rules: an unknown device is NOT_FOUND with TensorFlow's text ("Error copying
 * tensor to device: ... unknown device."), or, when soft placement is on, the lowest of that kind, else the CPU, with a
 * log line, and *softened set. */
bt_status bti_device_place(const char *name, int *id, bool *softened);

/* Opens the device at first use (every call below does so itself). UNAVAILABLE in a forked child. */
bt_status bti_device_open(int id);
/* Called each time that a device has been opened, by the thread that opened it. A function, since a device is opened at its first use, by any
 * call: task/ warns there of a GPU that the worker's task does not have. */
void bti_device_set_opened(void (*opened)(int device));

/* --- memory ---------------------------------------------------------------------------------------------------------
 * Blocks come from a caching pool per device. The pool never waits and knows no queues: a freed block carries the number
 * of the last work that was submitted on its device's queue by then (`busy_until`). It is handed out again at once: work on the same queue
 * comes after that number. Any other user waits for busy_until. */
typedef struct bti_block bti_block;
struct bti_block {
    uint64_t address;
    size_t bytes; /* asked for */
    int device;
    uint64_t busy_until; /* queue number that must be complete before anyone outside the queue touches it */
    /* the pool's own: */
    size_t capacity;
    struct bti_segment *segment;
    bti_block *previous, *next;           /* neighbours in the segment */
    bti_block *free_previous, *free_next; /* in the list of free blocks */
    bool in_use;
};

/* RESOURCE_EXHAUSTED (short message: asked, limit, used, cached) when neither the cache, the device nor a trim provides it. `idle`: prefer
 * a block whose busy_until is at most `completed` (the device's queue), so that the host can write at once. */
bt_status bti_block_alloc(int device, size_t bytes, uint64_t completed, bool idle, bti_block **block);
/* Without `idle`, and from this address on if that is free; 0: from any. */
bt_status bti_block_alloc_at(int device, size_t bytes, uint64_t completed, uint64_t at, bti_block **block);
/* Whether bti_block_alloc_at would get that address now. */
bool bti_block_is_free_at(int device, size_t bytes, uint64_t at);
/* The bytes that such a block adds to the device's memory in use. */
size_t bti_block_bytes(int device, size_t bytes);
/* Bytes that the pool may hold, now or soon, and that are of no use to large blocks (bti_pool_scattered). */
size_t bti_memory_scattered(int device);
void bti_block_free(bti_block *block, uint64_t busy_until);
/* Gives whole free segments whose blocks are all idle (busy_until <= completed) back; returns the bytes. */
size_t bti_pool_trim(int device, uint64_t completed);

/* Sets the function that returns the number of the last work that a device's queue has launched; blocks are lent to drivers by it. exec/ sets it
 * before main. It is a function because a number that is written at each launch would slow launches down. */
void bti_device_set_issued(uint64_t (*issued)(int device));

/* This process is given this part of every GPU's memory; fractions that are set are of that part. Before any device is opened, by the
 * only thread. */
void bti_memory_share(double share);

/* The observer is called with the device's memory in use each time that a block was allocated. It runs under the pool's lock, so it must not
 * allocate memory of devices. There is one at a time; NULL: none. */
void bti_device_observe_memory(void (*used)(int device, uint64_t in_use));
/* Counters that other layers report. Copies are counted by upload, download and copy below; who moves bytes by other ways
 * (a host that reads CPU memory in place) reports them. */
void bti_device_count_arrays(int device, int change);
void bti_device_count_copy(int from, int to, size_t bytes); /* -1: the host */
uint64_t bti_device_copied(int from, int to);               /* bytes so far; -1: the host */

/* --- driver entries, checked ------------------------------------------------------------------------------------------
 * As in drivers/driver.h, with the device opened, sizes of 0 skipped. */
bt_status bti_device_fill(int id, uint64_t address, int byte, size_t bytes);
/* For tests: bytes of 0xff, which are NaN, into memory that nothing in flight uses, by uploads that are not counted. Any thread; a device that is not open, or late, keeps what it has, and a
 * failure is nobody's. */
void bti_device_fill_idle(int id, uint64_t address, size_t bytes);
bt_status bti_device_upload(int id, uint64_t address, const void *host, size_t bytes);
bt_status bti_device_download(int id, void *host, uint64_t address, size_t bytes);
/* Between any two devices: within one, by the driver's peer copy, or over a host buffer in chunks. Counts the bytes. */
bt_status bti_device_copy(int to_id, uint64_t to, int from_id, uint64_t from, size_t bytes);
/* A copy between two devices through a buffer of the host, in chunks. */
bt_status bti_device_copy_over_host(bt_device *to_device, uint64_t to, bt_device *from_device, uint64_t from,
                                    size_t bytes);
bt_status bti_device_record(int id, bti_event *event);
bt_status bti_device_query(int id, bti_event event, bool *done);
/* What is launched on it later comes after this event of it: by the device itself, or because the call waits. */
bt_status bti_device_follow(int id, bti_event event);
bool bti_device_follows(int id); /* by itself: else the host waits */
/* Whether copies from one to the other run beside what both launch; and such a copy: send of drivers/driver.h. It is counted, and noted in a trace: now, or
 * in `timings` (timings.h). */
struct bti_timings;
bool bti_device_sends(int to_id, int from_id);
bt_status bti_device_send(int to_id, uint64_t to, const bti_event *idle, int from_id, uint64_t from,
                          const bti_event *made, size_t bytes, bti_work_end *end, struct bti_timings *timings);
/* Whether a copy into the host's memory, which is the first one's, runs beside what the second launches: by the second itself (fetch of drivers/driver.h, counted and noted as a send), or as
 * bti_device_copy by a thread that has waited for its bytes. */
bool bti_device_is_fetched(int to_id, int from_id);
bool bti_device_fetches(int from_id);
bt_status bti_device_fetch(int to_id, uint64_t to, int from_id, uint64_t from, bti_event made, size_t bytes,
                           bti_work_end *end, struct bti_timings *timings);
/* Launches recorded once and run again, as in drivers/driver.h; for devices that can. */
bool bti_device_records(int id);
bt_status bti_device_graph_begin(int id);
bt_status bti_device_graph_update(int id, void *graph, bool *can);
bt_status bti_device_graph_end(int id, void **graph);
bt_status bti_device_graph_run(int id, void *graph, bti_mark *marks, bool *stale);
void bti_device_graph_free(int id, void *graph); /* NULL is fine */
/* all_reduce of drivers/driver.h: first whether it can be had (UNIMPLEMENTED says why not: devices of several drivers, say),
 * then the reduction itself. */
bt_status bti_device_can_all_reduce(const int *ids, int count, bt_dtype dtype, bti_op op);
bt_status bti_device_all_reduce(const int *ids, int count, const bti_reduction *what, const bti_event *after,
                                bti_work_end *ends);
/* Records an event and waits for it: everything launched so far on the device is done. Waits for earlier events: late.h. */
bt_status bti_device_finish(int id);
/* What plans for it are made by; it need not be open. */
const bti_target_facts *bti_device_target(int id);
/* Whether launches on it return before the work is done. */
bool bti_device_is_async(int id);
/* Whether several threads may launch on it at once, each launch being complete when it returns. */
bool bti_device_runs_side_by_side(int id);
/* Whether it tells when its work is complete, in the time of a virtual clock. */
bool bti_device_has_clock(int id);
/* Whether its addresses are pointers of this process. */
bool bti_device_has_host_memory(int id);

/* --- energy -----------------------------------------------------------------------------------------------------------
 * A reading of the counter of the hardware behind a device, whoever used it; differences of two readings count. */
typedef struct bti_energy {
    double joules;
    uint64_t at_ns, since_ns; /* of bti_now_ns: the reading; when the counter last missed something, 0: it never did */
} bti_energy;
/* false: it cannot be read; `reason` gets why, and what helps. Opens no device; any thread. */
bool bti_device_energy(const bt_device *device, bti_energy *now, bti_str *reason);
/* The joules between two readings of one device; false, with the reason, when they are not known. */
bool bti_energy_between(const bti_energy *from, const bti_energy *to, double *joules, bti_str *reason);
/* Whether two devices are parts of one card (bt_set_logical_devices), whose energy is counted once. */
bool bti_device_same_hardware(const bt_device *a, const bt_device *b);

/* --- programs ---------------------------------------------------------------------------------------------------------
 * Loaded once per device and source, and kept while somebody holds them or room lasts. */
typedef struct bti_program {
    bti_lru_entry entry; /* first */
    const bti_driver *driver;
    void *device, *state;      /* the driver's */
    bti_program_source source; /* its kernel, and that of the program's, are copies; of a segment only the hash */
    struct bti_programs *among;
    bool making; /* under their lock: one thread loads it, and gives it texts */
    bool failed; /* under their lock: that failed */
} bti_program;
/* UNIMPLEMENTED: the device has no such program. *program is yours to release. *made: it can be launched; the call waited if another thread was
 * making it. Else the caller makes it: gives it the texts that it wants before its first launch, then calls bti_program_made with the status of that, also of a
 * failure. No lock is held meanwhile. */
bt_status bti_device_program(int id, const bti_program_source *source, bti_program **program, bool *made);
void bti_program_made(bti_program *program, bt_status status);
/* Whether making a program for it runs a compiler. */
bool bti_device_compiles_early(int id);
void bti_program_release(bti_program *program); /* NULL is fine */
/* Of a primitive, and of a fused kernel, on the program's device. */
static inline bt_status bti_program_launch(const bti_program *program, const bti_work *work) {
    return program->driver->launch(program->device, program->state, work);
}
static inline bt_status bti_program_launch_kernel(const bti_program *program, const bti_box *box) {
    return program->driver->launch_kernel(program->device, program->state, box);
}
/* launch_series of drivers/driver.h; whether the device has it. */
bool bti_device_runs_series(int id);
void bti_device_launch_series(int id, bti_series *series);
/* Of a product with its epilogue: launch_product of drivers/driver.h. */
static inline bt_status bti_program_launch_product(const bti_program *program, const bti_work *product,
                                                   const bti_box *box) {
    return program->driver->launch_product(program->device, program->state, product, box);
}

/* Of a kernel of the program's. */
static inline bt_status bti_program_launch_custom(const bti_program *program, const bti_custom_launch *launch) {
    return program->driver->launch_custom(program->device, program->state, launch);
}

/* launch_library of drivers/driver.h; whether the device may have such programs. */
bool bti_device_runs_libraries(int id);
static inline bt_status bti_program_launch_library(const bti_program *program, const uint64_t *addresses) {
    return program->driver->launch_library(program->device, program->state, addresses);
}

/* Of a segment. */
static inline bt_status bti_program_launch_segment(const bti_program *program, const uint64_t *addresses,
                                                   const bti_type *types) {
    return program->driver->launch_segment(program->device, program->state, addresses, types);
}

/* text_wanted, text_lacked and text_give of drivers/driver.h; false where the driver loads no texts. */
bool bti_program_text_wanted(const bti_program *program, const bti_box *box, int count, bti_text_wanted *wanted);
bool bti_program_text_lacked(const bti_program *program, bti_text_wanted *wanted);
bt_status bti_program_text_give(const bti_program *program, const bti_text_wanted *wanted, const bti_str *text);
/* Several boxes, which do not wait for each other, by as few launches as the driver can. */
bt_status bti_program_launch_boxes(const bti_program *program, const bti_box *boxes, int count);

/* For shutdown, after the queues are closed: closes every device and frees the registry. */
void bti_device_shutdown(void);

/* Whether operations record on it now: false in a child forked after a device was opened. */
bt_status bti_device_check_fork(void);
bool bti_device_forked(void);

#endif

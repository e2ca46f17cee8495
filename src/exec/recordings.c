#include "exec/recordings.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/lru.h"
#include "device/device.h"

/* Values of variables take as many turns in memory as steps run ahead (function/versions.c), and results turns of their own; but large recordings
 * are few. */
#define LEAST_KEPT 4
#define MOST_KEPT 64
#define LAUNCHES_KEPT 4096 /* in all recordings, if these are not the least */

static atomic_uint_fast64_t launched_count, recorded_count;

typedef struct recording {
    bti_lru_entry entry; /* first; its hash is the addresses */
    int device;
    void *graph;         /* NULL: seen once */
    bool refused;        /* it cannot be recorded */
    bti_timings timings; /* what it launches, if it has marks */
} recording;

struct bti_recordings {
    int device;
    bti_lru kept;
};

static bool is_same_addresses(const bti_lru_entry *entry, const void *key) {
    (void)entry, (void)key; /* the hash is all that there is */
    return true;
}

static void forget_graph(recording *r) {
    bti_device_graph_free(r->device, r->graph);
    bti_vec_free(&r->timings.items);
    r->graph = NULL;
}

static void free_recording(bti_lru_entry *entry) {
    recording *r = (recording *)entry;
    forget_graph(r);
    bti_free(r);
}

struct bti_recordings *bti_recordings_new(int device, int64_t launches) {
    struct bti_recordings *recordings = bti_calloc(1, sizeof *recordings);
    if (!recordings) return NULL;
    recordings->device = device;
    int64_t fit = LAUNCHES_KEPT / (launches > 1 ? launches : 1);
    size_t most = fit < LEAST_KEPT ? LEAST_KEPT : fit < MOST_KEPT ? (size_t)fit : MOST_KEPT;
    recordings->kept = (bti_lru){.equal = is_same_addresses, .free = free_recording, .most_count = most};
    return recordings;
}

void bti_recordings_free(struct bti_recordings *recordings) {
    if (recordings) bti_lru_clear(&recordings->kept);
    bti_free(recordings);
}

/* The next run with these addresses is recorded. */
static void note_addresses(struct bti_recordings *recordings, uint64_t addresses) {
    recording *r = bti_calloc(1, sizeof *r);
    if (!r) return;
    r->device = recordings->device;
    bti_lru_entry_init(&r->entry);
    bti_lru_add(&recordings->kept, &r->entry, addresses, 0);
    bti_lru_release(&recordings->kept, &r->entry);
}

/* What the device has launched for the caller so far goes on to be noted where it was. */
static bt_status launch_timed(recording *r, const bti_recorded_launch *launch, bti_timings *timings) {
    r->timings = (bti_timings){.recorded = true};
    bti_device_time_into(r->device, &r->timings);
    bt_status status = launch->timed(launch->context, &r->timings);
    bti_device_time_into(r->device, timings);
    return status != BT_OK || !r->timings.failed ? status : bti_no_memory();
}

static void record(recording *r, const bti_recorded_launch *launch, bti_timings *timings) {
    bt_status status = bti_device_graph_begin(r->device);
    if (status == BT_OK) {
        status = timings ? launch_timed(r, launch, timings) : launch->launch(launch->context);
        bt_status ended = bti_device_graph_end(r->device, &r->graph);
        if (status == BT_OK) status = ended;
    }
    if (status != BT_OK) {
        forget_graph(r);
        bt_error_clear(); /* launched one by one it fails again, and the error is reported there */
    }
    r->refused = !r->graph;
    if (r->graph) atomic_fetch_add(&recorded_count, 1);
}

/* The marks of this run follow each other. */
static void add_timings(const recording *r, const bti_mark *marks, uint64_t launched_ns, bti_timings *timings) {
    for (size_t i = 0; i < r->timings.items.count; i++) {
        bti_timing timing = r->timings.items.items[i];
        timing.event.start_ns = launched_ns;
        timing.event.end_ns = bti_trace_now();
        timing.begin = marks[2 * i];
        timing.end = marks[2 * i + 1];
        timings->items.items[timings->items.count++] = timing;
    }
}

/* False: memory is short, nothing was launched. */
static bool launch_graph(const recording *r, bti_timings *timings, bt_status *status, bool *stale) {
    size_t count = timings ? r->timings.items.count : 0;
    bti_mark *marks = NULL;
    if (count && (!bti_vec_reserve(&timings->items, count) || !(marks = bti_alloc(2 * count * sizeof *marks))))
        return false;
    uint64_t launched_ns = timings ? bti_trace_now() : 0;
    *status = bti_device_graph_run(r->device, r->graph, marks, stale);
    if (*status == BT_OK && !*stale && count) add_timings(r, marks, launched_ns, timings);
    bti_free(marks);
    return true;
}

static bool run_recording(recording *r, const bti_recorded_launch *launch, bti_timings *timings, bt_status *status) {
    bool stale;
    for (int attempt = 0; attempt < 2 && !r->refused; attempt++) {
        if (!r->graph) record(r, launch, timings);
        if (!r->graph || !launch_graph(r, timings, status, &stale)) return false;
        if (!stale) atomic_fetch_add(&launched_count, 1);
        if (*status != BT_OK || !stale) return true;
        forget_graph(r);
    }
    return false;
}

#define TIMED UINT64_C(0x9e3779b97f4a7c15) /* in the addresses of recordings with marks */

bool bti_recordings_run(struct bti_recordings *recordings, uint64_t addresses, const bti_recorded_launch *launch,
                        bti_timings *timings, bt_status *status) {
    if (timings) addresses ^= TIMED;
    recording *r = bti_lru_find(&recordings->kept, addresses, NULL);
    if (!r) return note_addresses(recordings, addresses), false;
    bool launched = run_recording(r, launch, timings, status);
    bti_lru_release(&recordings->kept, &r->entry);
    return launched;
}

void bti_recordings_count(uint64_t *launched, uint64_t *recorded) {
    *launched = atomic_load(&launched_count);
    *recorded = atomic_load(&recorded_count);
}

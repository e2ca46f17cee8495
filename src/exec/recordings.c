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

/* A recording costs about as much as it saves in so many runs, and what a recording of other addresses costs to be updated in half of them. So addresses are recorded when they
 * come again; if they mostly do not, one recording is made that is updated for each run, and addresses get one of their own when they have come more often. */
#define SEEN 2
#define SEEN_BY_MOVING 8
#define STRANGE 16
#define MOST_REFUSALS 8 /* of updates, in a row */

static atomic_uint_fast64_t launched_count, recorded_count, updated_count;

typedef struct recording {
    bti_lru_entry entry; /* first; its hash is the addresses */
    int device;
    int seen;
    void *graph;         /* NULL: not recorded yet */
    bool refused;        /* it cannot be recorded */
    bti_timings timings; /* what it launches, if it has marks */
} recording;

/* A recording that is updated, where addresses are new in most runs. */
typedef struct moving {
    recording recording; /* in no cache */
    uint64_t addresses;  /* that it has */
    int refusals;
} moving;

struct bti_recordings {
    int device;
    int strange; /* runs with addresses that have no recording, less those that have one */
    bti_lru kept;
    moving moving[2]; /* [1]: with marks */
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
    for (int i = 0; i < 2; i++) recordings->moving[i].recording.device = device;
    int64_t fit = LAUNCHES_KEPT / (launches > 1 ? launches : 1);
    size_t most = fit < LEAST_KEPT ? LEAST_KEPT : fit < MOST_KEPT ? (size_t)fit : MOST_KEPT;
    recordings->kept = (bti_lru){.equal = is_same_addresses, .free = free_recording, .most_count = most};
    return recordings;
}

void bti_recordings_free(struct bti_recordings *recordings) {
    if (recordings) bti_lru_clear(&recordings->kept);
    for (int i = 0; recordings && i < 2; i++) forget_graph(&recordings->moving[i].recording);
    bti_free(recordings);
}

static void note_addresses(struct bti_recordings *recordings, uint64_t addresses) {
    recording *r = bti_calloc(1, sizeof *r);
    if (!r) return;
    r->device = recordings->device;
    r->seen = 1;
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

/* --- updates ---------------------------------------------------------------------------------------------------------- */

static bt_status launch_again(const recording *r, const bti_recorded_launch *launch, bti_timings *timings) {
    if (!timings) return launch->launch(launch->context);
    bti_timings again = {.recorded = true}; /* what it launches is known */
    bti_device_time_into(r->device, &again);
    bt_status status = launch->timed(launch->context, &again);
    bti_device_time_into(r->device, timings);
    bti_vec_free(&again.items);
    return status;
}

/* False: it is as it was, or gone. */
static bool update(moving *m, const bti_recorded_launch *launch, bti_timings *timings) {
    recording *r = &m->recording;
    void *graph = NULL;
    bool can = false;
    bt_status status = bti_device_graph_update(r->device, r->graph, &can);
    if (status == BT_OK && can) {
        status = launch_again(r, launch, timings);
        bt_status ended = bti_device_graph_end(r->device, &graph);
        if (status == BT_OK) status = ended;
    }
    bool updated = status == BT_OK && graph;
    m->refusals = updated ? 0 : m->refusals + 1;
    r->refused = (status == BT_OK && !can) || m->refusals == MOST_REFUSALS;
    if (status != BT_OK || r->refused) forget_graph(r);
    if (status != BT_OK) bt_error_clear(); /* as in record */
    if (updated) atomic_fetch_add(&updated_count, 1);
    return updated;
}

static bool run_moving(struct bti_recordings *recordings, uint64_t addresses, const bti_recorded_launch *launch,
                       bti_timings *timings, bt_status *status) {
    moving *m = &recordings->moving[timings != NULL];
    recording *r = &m->recording;
    bool stale, is_new = !r->graph;
    if (r->refused || (is_new && recordings->strange < STRANGE)) return false;
    if (is_new)
        record(r, launch, timings);
    else if (m->addresses != addresses && !update(m, launch, timings))
        return false;
    m->addresses = addresses;
    if (!r->graph || !launch_graph(r, timings, status, &stale)) return false;
    if (stale)
        forget_graph(r);
    else
        atomic_fetch_add(&launched_count, 1);
    return !stale || *status != BT_OK;
}

/* --- runs --------------------------------------------------------------------------------------------------------------- */

#define TIMED UINT64_C(0x9e3779b97f4a7c15) /* in the addresses of recordings with marks */

static bool has_recording(const struct bti_recordings *recordings, const recording *r, bool timed) {
    return r->graph || r->seen >= (recordings->moving[timed].recording.graph ? SEEN_BY_MOVING : SEEN);
}

bool bti_recordings_run(struct bti_recordings *recordings, uint64_t addresses, const bti_recorded_launch *launch,
                        bti_timings *timings, bt_status *status) {
    if (timings) addresses ^= TIMED;
    recording *r = bti_lru_find(&recordings->kept, addresses, NULL);
    bool own = r && (++r->seen, has_recording(recordings, r, timings != NULL)), launched;
    if (!r) note_addresses(recordings, addresses);
    recordings->strange =
        own ? recordings->strange - (recordings->strange > 0) : recordings->strange + (recordings->strange < STRANGE);
    launched =
        own ? run_recording(r, launch, timings, status) : run_moving(recordings, addresses, launch, timings, status);
    if (r) bti_lru_release(&recordings->kept, &r->entry);
    return launched;
}

void bti_recordings_count(bti_recordings_counts *counts) {
    *counts = (bti_recordings_counts){atomic_load(&launched_count), atomic_load(&recorded_count),
                                      atomic_load(&updated_count)};
}

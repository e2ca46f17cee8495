#include "exec/recordings.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/lru.h"
#include "device/device.h"

#define KEPT 4

static atomic_uint_fast64_t launched_count, recorded_count;

typedef struct recording {
    bti_lru_entry entry; /* first; its hash is the addresses */
    int device;
    void *graph;  /* NULL: seen once */
    bool refused; /* it cannot be recorded */
} recording;

struct bti_recordings {
    int device;
    bti_lru kept;
};

static bool is_same_addresses(const bti_lru_entry *entry, const void *key) {
    (void)entry, (void)key; /* the hash is all that there is */
    return true;
}

static void free_recording(bti_lru_entry *entry) {
    recording *r = (recording *)entry;
    bti_device_graph_free(r->device, r->graph);
    bti_free(r);
}

struct bti_recordings *bti_recordings_new(int device) {
    struct bti_recordings *recordings = bti_calloc(1, sizeof *recordings);
    if (!recordings) return NULL;
    recordings->device = device;
    recordings->kept = (bti_lru){.equal = is_same_addresses, .free = free_recording, .most_count = KEPT};
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

static void record(int device, recording *r, bt_status (*launch)(void *context), void *context) {
    bt_status status = bti_device_graph_begin(device);
    if (status == BT_OK) {
        status = launch(context);
        bt_status ended = bti_device_graph_end(device, &r->graph);
        if (status == BT_OK) status = ended;
    }
    if (status != BT_OK) {
        bti_device_graph_free(device, r->graph);
        r->graph = NULL;
        bt_error_clear(); /* launched one by one it fails again, and the error is reported there */
    }
    r->refused = !r->graph;
    if (r->graph) atomic_fetch_add(&recorded_count, 1);
}

static bool run_recording(recording *r, bt_status (*launch)(void *context), void *context, bt_status *status) {
    bool stale;
    for (int attempt = 0; attempt < 2 && !r->refused; attempt++) {
        if (!r->graph) record(r->device, r, launch, context);
        if (!r->graph) return false;
        *status = bti_device_graph_run(r->device, r->graph, &stale);
        if (!stale) atomic_fetch_add(&launched_count, 1);
        if (*status != BT_OK || !stale) return true;
        bti_device_graph_free(r->device, r->graph);
        r->graph = NULL;
    }
    return false;
}

bool bti_recordings_run(struct bti_recordings *recordings, uint64_t addresses, bt_status (*launch)(void *context),
                        void *context, bt_status *status) {
    recording *r = bti_lru_find(&recordings->kept, addresses, NULL);
    if (!r) return note_addresses(recordings, addresses), false;
    bool launched = run_recording(r, launch, context, status);
    bti_lru_release(&recordings->kept, &r->entry);
    return launched;
}

void bti_recordings_count(uint64_t *launched, uint64_t *recorded) {
    *launched = atomic_load(&launched_count);
    *recorded = atomic_load(&recorded_count);
}

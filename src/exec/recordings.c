#include "exec/recordings.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "device/device.h"

#define KEPT 4

static atomic_uint_fast64_t launched_count, recorded_count;

typedef struct recording {
    uint64_t addresses, used;
    void *graph;  /* NULL: seen once */
    bool refused; /* it cannot be recorded */
} recording;

struct bti_recordings {
    int device;
    uint64_t clock;
    recording kept[KEPT];
};

struct bti_recordings *bti_recordings_new(int device) {
    struct bti_recordings *recordings = bti_calloc(1, sizeof *recordings);
    if (recordings) recordings->device = device;
    return recordings;
}

void bti_recordings_free(struct bti_recordings *recordings) {
    for (int i = 0; recordings && i < KEPT; i++) bti_device_graph_free(recordings->device, recordings->kept[i].graph);
    bti_free(recordings);
}

/* What was used longest ago makes room; *known: it was seen before. */
static recording *find_recording(struct bti_recordings *recordings, uint64_t addresses, bool *known) {
    recording *oldest = &recordings->kept[0];
    recordings->clock++;
    for (int i = 0; i < KEPT; i++) {
        recording *r = &recordings->kept[i];
        *known = r->used && r->addresses == addresses;
        if (*known) {
            r->used = recordings->clock;
            return r;
        }
        if (r->used < oldest->used) oldest = r;
    }
    bti_device_graph_free(recordings->device, oldest->graph);
    *oldest = (recording){.addresses = addresses, .used = recordings->clock};
    return oldest;
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

bool bti_recordings_run(struct bti_recordings *recordings, uint64_t addresses, bt_status (*launch)(void *context),
                        void *context, bt_status *status) {
    int device = recordings->device;
    bool known, stale;
    recording *r = find_recording(recordings, addresses, &known);
    if (!known || r->refused) return false;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!r->graph) record(device, r, launch, context);
        if (!r->graph) return false;
        *status = bti_device_graph_run(device, r->graph, &stale);
        if (!stale) atomic_fetch_add(&launched_count, 1);
        if (*status != BT_OK || !stale) return true;
        bti_device_graph_free(device, r->graph);
        r->graph = NULL;
    }
    return false;
}

void bti_recordings_count(uint64_t *launched, uint64_t *recorded) {
    *launched = atomic_load(&launched_count);
    *recorded = atomic_load(&recorded_count);
}

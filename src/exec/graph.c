#include "exec/graph.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/trace.h"

#define KEPT 4
#define LEAST_STEPS 3 /* fewer are launched as fast one by one */

static atomic_uint_fast64_t launched_count, recorded_count;

typedef struct recording {
    uint64_t addresses, used;
    void *graph;  /* NULL: seen once */
    bool refused; /* it cannot be recorded */
} recording;

struct bti_task_graphs {
    uint64_t clock;
    recording kept[KEPT];
};

struct bti_task_graphs *bti_task_graphs_new(const bti_plan *plan, const bti_task_plan *task) {
    if (task->last - task->first < LEAST_STEPS || !bti_device_records(task->device)) return NULL;
    for (size_t s = task->first; s < task->last; s++)
        if (plan->steps.items[s].kind == BTI_STEP_COPY) return NULL;
    return bti_calloc(1, sizeof(struct bti_task_graphs));
}

void bti_task_graphs_free(int device, struct bti_task_graphs *graphs) {
    for (int i = 0; graphs && i < KEPT; i++) bti_device_graph_free(device, graphs->kept[i].graph);
    bti_free(graphs);
}

/* What was used longest ago makes room; *known: it was seen before. */
static recording *find(struct bti_task_graphs *graphs, int device, uint64_t addresses, bool *known) {
    recording *oldest = &graphs->kept[0];
    graphs->clock++;
    for (int i = 0; i < KEPT; i++) {
        recording *r = &graphs->kept[i];
        *known = r->used && r->addresses == addresses;
        if (*known) {
            r->used = graphs->clock;
            return r;
        }
        if (r->used < oldest->used) oldest = r;
    }
    bti_device_graph_free(device, oldest->graph);
    *oldest = (recording){.addresses = addresses, .used = graphs->clock};
    return oldest;
}

static void record(const bti_run_task *task, recording *r, bt_status (*launch)(const bti_run *run, size_t step)) {
    bt_status status = bti_device_graph_begin(task->of->device);
    if (status == BT_OK) {
        for (size_t s = task->of->first; s < task->of->last && status == BT_OK; s++) status = launch(task->run, s);
        bt_status ended = bti_device_graph_end(task->of->device, &r->graph);
        if (status == BT_OK) status = ended;
    }
    if (status != BT_OK) {
        bti_device_graph_free(task->of->device, r->graph);
        r->graph = NULL;
        bt_error_clear(); /* launched one by one, it fails again, where it is told of */
    }
    r->refused = !r->graph;
    if (r->graph) atomic_fetch_add(&recorded_count, 1);
}

bool bti_task_graphs_run(const bti_run_task *task, uint64_t addresses,
                         bt_status (*launch)(const bti_run *run, size_t step), bt_status *status) {
    int device = task->of->device;
    bool known, stale;
    recording *r = find(task->of->graphs, device, addresses, &known);
    if (!known || r->refused) return false;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!r->graph) record(task, r, launch);
        if (!r->graph) return false;
        *status = bti_device_graph_run(device, r->graph, &stale);
        if (!stale) atomic_fetch_add(&launched_count, 1);
        if (*status != BT_OK || !stale) return true;
        bti_device_graph_free(device, r->graph);
        r->graph = NULL;
    }
    return false;
}

void bti_task_graphs_count(uint64_t *launched, uint64_t *recorded) {
    *launched = atomic_load(&launched_count);
    *recorded = atomic_load(&recorded_count);
}

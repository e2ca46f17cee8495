/* An open simulated device, and the entries of its driver's table that stand in other files than sim.c. */
#ifndef BTI_DRIVERS_SIM_SIM_DEVICE_H
#define BTI_DRIVERS_SIM_SIM_DEVICE_H

#include <stdatomic.h>

#include "drivers/cpu/engine.h"
#include "drivers/sim/sim_flags.h"
#include "drivers/sim/sim_memory.h"
#include "drivers/sim/sim_time.h"

typedef struct bti_sim_device {
    bt_kind kind;
    int index, id; /* of its kind; in the registry */
    bti_sim_memory memory;
    atomic_bool gave_zeros;                /* in place of data, which is logged */
    atomic_uint_fast64_t recorded, waited; /* events, without a clock */
    atomic_uint_fast64_t hung; /* how often the flag sim_fault had been set, and 1, when an event hung (sim_events.h) */
    bti_sim_engines engines;
    struct bti_sim_graph *graph; /* launches are recorded there instead of run */
} bti_sim_device;

static inline bool bti_sim_has_data(const bti_sim_device *device) { return !device->memory.without_data; }

#define BTI_SIM_FAULT(name) BTI_TRY(bti_sim_fault(name, device->kind, device->index))

/* sim_launch.c. `bti_sim_run_`: computes now, and tells what it asks of a card. */
bt_status bti_sim_all_reduce(void *const *devices, int count, const bti_reduction *what, const bti_event *after,
                             bti_work_end *ends);
bt_status bti_sim_run_work(bti_sim_device *device, const bti_work *work, bti_sim_demand *demand);
bt_status bti_sim_run_product(bti_sim_device *device, void *program, const bti_work *product, const bti_box *box,
                              bti_sim_demand *demand);
/* The box with the product where an output will be that lies like it; false: there is none, it needs memory of its own. */
bool bti_sim_place_product(const void *program, const bti_box *box, bti_box *placed);
bt_status bti_sim_run_boxes(bti_sim_device *device, void *program, const bti_box *boxes, int count,
                            bti_sim_demand *demand);

/* sim_graph.c */
bt_status bti_sim_launch(void *opened, void *program, const bti_work *work);
bt_status bti_sim_launch_kernel(void *opened, void *program, const bti_box *box);
bt_status bti_sim_launch_product(void *opened, void *program, const bti_work *product, const bti_box *box);
bt_status bti_sim_launch_boxes(void *opened, void *program, const bti_box *boxes, int count);
bt_status bti_sim_graph_begin(void *opened);
bt_status bti_sim_graph_update(void *opened, void *graph, bool *can);
bt_status bti_sim_graph_end(void *opened, void **graph);
bt_status bti_sim_graph_run(void *opened, void *graph, bti_mark *marks, bool *stale);
void bti_sim_graph_free(void *opened, void *graph);
bt_status bti_sim_mark(void *opened, bool begins, bti_mark *mark);
uint64_t bti_sim_read_mark(void *opened, bti_mark mark);

#endif

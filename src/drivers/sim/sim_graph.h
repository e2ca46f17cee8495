/* Launches of a simulated device, kept to be run again: copies of what was asked for. */
#ifndef BTI_DRIVERS_SIM_GRAPH_H
#define BTI_DRIVERS_SIM_GRAPH_H

#include "base/vec.h"
#include "drivers/driver.h"

typedef struct bti_sim_launch {
    void *program;
    bti_work *work; /* one of the two; owns what it points to */
    bti_box *box;
} bti_sim_launch;

typedef struct bti_sim_graph {
    BTI_VEC(bti_sim_launch) launches;
} bti_sim_graph;

bt_status bti_sim_record_work(bti_sim_graph *graph, void *program, const bti_work *work);
bt_status bti_sim_record_kernel(bti_sim_graph *graph, void *program, const bti_kernel *kernel, const bti_box *box);
void bti_sim_graph_free(bti_sim_graph *graph); /* NULL is fine */

#endif

#include "drivers/sim/sim_graph.h"

#include <string.h>

#include "base/alloc.h"

static bt_status keep(bti_sim_graph *graph, bti_sim_launch launch) {
    bool copied = launch.work || launch.box;
    if (copied && bti_vec_push(&graph->launches, launch)) return BT_OK;
    bti_free(launch.work);
    bti_free(launch.box);
    return bti_no_memory();
}

bt_status bti_sim_record_work(bti_sim_graph *graph, void *program, const bti_work *work) {
    size_t inputs = (size_t)work->input_count * sizeof *work->inputs,
           attrs = (size_t)work->attr_count * sizeof *work->attr;
    bti_work *copy = bti_alloc(sizeof *copy + inputs + attrs);
    if (copy) {
        bti_operand *operands = (bti_operand *)(copy + 1);
        int64_t *attr = (int64_t *)(void *)((char *)operands + inputs);
        *copy = *work;
        if (inputs) memcpy(operands, work->inputs, inputs);
        if (attrs) memcpy(attr, work->attr, attrs);
        copy->inputs = operands;
        copy->attr = attr;
    }
    return keep(graph, (bti_sim_launch){program, copy, NULL});
}

bt_status bti_sim_record_kernel(bti_sim_graph *graph, void *program, const bti_kernel *kernel, const bti_box *box) {
    size_t scalars = kernel->scalar_count * sizeof *box->scalars;
    bti_box *copy = bti_alloc(sizeof *copy + scalars);
    if (copy) {
        int operands = bti_kernel_operands(kernel);
        memcpy(copy->extent, box->extent, sizeof copy->extent);
        memcpy(copy->address, box->address, (size_t)operands * sizeof *copy->address);
        memcpy(copy->stride, box->stride, (size_t)operands * sizeof *copy->stride);
        copy->scalars = (const uint64_t *)(copy + 1);
        if (scalars) memcpy(copy + 1, box->scalars, scalars);
    }
    return keep(graph, (bti_sim_launch){program, NULL, copy});
}

void bti_sim_graph_free(bti_sim_graph *graph) {
    for (size_t i = 0; graph && i < graph->launches.count; i++) {
        bti_free(graph->launches.items[i].work);
        bti_free(graph->launches.items[i].box);
    }
    if (graph) bti_vec_free(&graph->launches);
    bti_free(graph);
}

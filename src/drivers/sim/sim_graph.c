/* Launches, and recordings of them: copies of their arguments, which are run again one after the other. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "drivers/sim/sim_device.h"

typedef struct recorded_launch {
    void *program;
    bti_work *work; /* one of the two, of a product with its epilogue both; they own what they point to */
    bti_box *boxes;
    int box_count;
    enum { LAUNCH, MARK_BEGIN, MARK_END } kind; /* a mark is no launch, and demands nothing */
} recorded_launch;

typedef struct bti_sim_graph {
    BTI_VEC(recorded_launch) launches;
    bti_sim_demand *demands; /* of the run that goes on: room for one for each launch; NULL before the first */
} bti_sim_graph;

static bt_status add_launch(bti_sim_graph *graph, recorded_launch launch, bool copied) {
    if (copied && bti_vec_push(&graph->launches, launch)) return BT_OK;
    bti_free(launch.work);
    bti_free(launch.boxes);
    return bti_no_memory();
}

static bti_work *copy_of_work(const bti_work *work) {
    size_t inputs = (size_t)work->input_count * sizeof *work->inputs,
           others = (size_t)work->other_count * sizeof *work->others, attr_bytes = bti_attr_bytes(work->op);
    bti_work *copy = bti_alloc(sizeof *copy + inputs + others + attr_bytes);
    if (!copy) return NULL;
    bti_operand *operands = (bti_operand *)(copy + 1);
    *copy = *work;
    if (inputs) memcpy(operands, work->inputs, inputs);
    if (others) memcpy(operands + work->input_count, work->others, others);
    if (work->attr && attr_bytes) copy->attr = memcpy((char *)operands + inputs + others, work->attr, attr_bytes);
    copy->inputs = operands;
    copy->others = operands + work->input_count;
    return copy;
}

static bti_box *copy_of_boxes(const bti_kernel *kernel, const bti_box *boxes, int count) {
    size_t scalars = kernel->scalar_count * sizeof *boxes->scalars, operands = (size_t)bti_kernel_operands(kernel);
    bti_box *copies = bti_alloc((size_t)count * (sizeof *copies + scalars));
    char *copied_scalars = (char *)(copies + count);
    for (int b = 0; copies && b < count; b++, copied_scalars += scalars) {
        memcpy(copies[b].extent, boxes[b].extent, sizeof copies[b].extent);
        memcpy(copies[b].address, boxes[b].address, operands * sizeof *copies[b].address);
        memcpy(copies[b].stride, boxes[b].stride, operands * sizeof *copies[b].stride);
        copies[b].scalars = (const uint64_t *)(const void *)copied_scalars;
        if (scalars) memcpy(copied_scalars, boxes[b].scalars, scalars);
    }
    return copies;
}

static bt_status record_work(bti_sim_graph *graph, const bti_work *work) {
    bti_work *copy = copy_of_work(work);
    return add_launch(graph, (recorded_launch){.work = copy}, copy);
}

static bt_status record_boxes(bti_sim_graph *graph, void *program, const bti_box *boxes, int count) {
    bti_box *copies = copy_of_boxes(bti_cpu_program_kernel(program), boxes, count);
    return add_launch(graph, (recorded_launch){.program = program, .boxes = copies, .box_count = count}, copies);
}

static bt_status record_product(bti_sim_graph *graph, void *program, const bti_work *product, const bti_box *box) {
    recorded_launch copy = {.program = program,
                            .work = copy_of_work(product),
                            .boxes = copy_of_boxes(bti_cpu_program_kernel(program), box, 1),
                            .box_count = 1};
    return add_launch(graph, copy, copy.work && copy.boxes);
}

/* --- launches: run, or recorded ------------------------------------------------------------------------------------------- */

bt_status bti_sim_launch(void *opened, void *program, const bti_work *work) {
    (void)program; /* primitives have none */
    bti_sim_device *device = opened;
    bti_sim_demand demand = {0};
    if (device->graph) return record_work(device->graph, work);
    BTI_TRY(bti_sim_run_work(device, work, &demand));
    bti_sim_took_launch(&device->engines, &demand);
    return BT_OK;
}

/* Boxes run one after the other; before the first one all texts are there, so that none runs twice. */
bt_status bti_sim_launch_boxes(void *opened, void *program, const bti_box *boxes, int count) {
    bti_sim_device *device = opened;
    bti_sim_demand demand = {0};
    if (device->graph) return record_boxes(device->graph, program, boxes, count);
    for (int b = 0; b < count && bti_sim_has_data(device); b++)
        if (bti_cpu_lacks_text(program, &boxes[b])) return BT_FAILED_PRECONDITION;
    BTI_TRY(bti_sim_run_boxes(device, program, boxes, count, &demand));
    bti_sim_took_launch(&device->engines, &demand);
    return BT_OK;
}

bt_status bti_sim_launch_kernel(void *opened, void *program, const bti_box *box) {
    return bti_sim_launch_boxes(opened, program, box, 1);
}

bt_status bti_sim_launch_product(void *opened, void *program, const bti_work *product, const bti_box *box) {
    bti_sim_device *device = opened;
    bti_box placed;
    bti_sim_demand demand = {0};
    if (device->graph) return record_product(device->graph, program, product, box);
    bti_sim_place_product(program, box, &placed);
    if (bti_sim_has_data(device) && bti_cpu_lacks_text(program, &placed)) return BT_FAILED_PRECONDITION;
    BTI_TRY(bti_sim_run_product(device, program, product, box, &demand));
    bti_sim_took_launch(&device->engines, &demand);
    return BT_OK;
}

/* --- recordings ---------------------------------------------------------------------------------------------------------- */

void bti_sim_graph_free(void *opened, void *recorded) {
    (void)opened;
    bti_sim_graph *graph = recorded;
    for (size_t i = 0; graph && i < graph->launches.count; i++) {
        bti_free(graph->launches.items[i].work);
        bti_free(graph->launches.items[i].boxes);
    }
    if (!graph) return;
    bti_vec_free(&graph->launches);
    bti_free(graph->demands);
    bti_free(graph);
}

/* Copies and fills are not recorded: between begin and end there are only launches (exec/). */
bt_status bti_sim_graph_begin(void *opened) {
    bti_sim_device *device = opened;
    device->graph = bti_calloc(1, sizeof *device->graph);
    return device->graph ? BT_OK : bti_no_memory();
}

bt_status bti_sim_graph_end(void *opened, void **graph) {
    bti_sim_device *device = opened;
    *graph = device->graph;
    device->graph = NULL;
    return BT_OK;
}

/* --- marks --------------------------------------------------------------------------------------------------------------- */

bt_status bti_sim_mark(void *opened, bool begins, bti_mark *mark) {
    bti_sim_device *device = opened;
    if (device->graph)
        return add_launch(device->graph, (recorded_launch){.kind = begins ? MARK_BEGIN : MARK_END}, true);
    mark->value = !bti_sim_has_clock(&device->engines) ? bti_clock_ns()
                  : begins                             ? bti_sim_launch_begins(&device->engines)
                                                       : bti_sim_complete(&device->engines);
    return BT_OK;
}

uint64_t bti_sim_read_mark(void *opened, bti_mark mark) {
    (void)opened;
    return mark.value;
}

/* One launch begins when the one before ends. */
static void mark_graph(const bti_sim_device *device, const bti_sim_graph *graph, uint64_t begin_ns, bti_mark *marks) {
    double ns = 0;
    for (size_t i = 0; i < graph->launches.count; i++)
        if (graph->launches.items[i].kind == LAUNCH)
            ns += bti_sim_nanoseconds(&device->engines.model, &graph->demands[i]);
        else
            *marks++ = (bti_mark){begin_ns + (uint64_t)llround(ns)};
}

static bt_status run_launch(bti_sim_device *device, const recorded_launch *l, bti_sim_demand *demand) {
    if (l->work && l->boxes) return bti_sim_run_product(device, l->program, l->work, l->boxes, demand);
    return l->work ? bti_sim_run_work(device, l->work, demand)
                   : bti_sim_run_boxes(device, l->program, l->boxes, l->box_count, demand);
}

bt_status bti_sim_graph_run(void *opened, void *recorded, bti_mark *marks, bool *stale) {
    bti_sim_graph *graph = recorded;
    bti_sim_device *device = opened;
    size_t count = graph->launches.count, marked = 0;
    *stale = false;
    if (!graph->demands && !(graph->demands = bti_calloc(count ? count : 1, sizeof *graph->demands)))
        return bti_no_memory();
    for (size_t i = 0; i < count; i++) {
        const recorded_launch *l = &graph->launches.items[i];
        if (l->kind == LAUNCH)
            BTI_TRY(run_launch(device, l, &graph->demands[i]));
        else
            marks[marked++] = (bti_mark){bti_clock_ns()}; /* it is done; a device with a clock has other times */
    }
    uint64_t begin_ns = bti_sim_took_graph(&device->engines, graph->demands, count);
    if (marked && bti_sim_has_clock(&device->engines)) mark_graph(device, graph, begin_ns, marks);
    return BT_OK;
}

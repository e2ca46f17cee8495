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
    bti_sim_demand *demands;       /* of the run that goes on: room for one for each launch; NULL before the first */
    struct bti_sim_graph *updated; /* another one, which gets its launches; NULL: it is a recording of its own */
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

/* --- updates ------------------------------------------------------------------------------------------------------------- */

/* What a card has the vendor's library for, whose arguments are not known. */
static bool is_by_library(const bti_work *work) {
    return work->op == BTI_OP_matmul || work->op == BTI_OP_conv || work->op == BTI_OP_conv_data ||
           work->op == BTI_OP_conv_weights;
}

bt_status bti_sim_graph_update(void *opened, void *recorded, bool *can) {
    bti_sim_device *device = opened;
    bti_sim_graph *graph = recorded;
    *can = true;
    for (size_t i = 0; i < graph->launches.count && *can; i++)
        *can = !graph->launches.items[i].work || !is_by_library(graph->launches.items[i].work);
    if (!*can) return BT_OK;
    BTI_TRY(bti_sim_graph_begin(device));
    device->graph->updated = graph;
    return BT_OK;
}

static bool is_same_shape(const bti_operand *a, const bti_operand *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static bool is_same_launch(const recorded_launch *a, const recorded_launch *b) {
    if (a->program != b->program || !a->work != !b->work || a->box_count != b->box_count) return false;
    if (a->work && (a->work->op != b->work->op || !is_same_shape(&a->work->output, &b->work->output))) return false;
    int axes = a->box_count ? bti_kernel_axes(bti_cpu_program_kernel(a->program)) : 0;
    for (int i = 0; i < a->box_count; i++)
        if (memcmp(a->boxes[i].extent, b->boxes[i].extent, (size_t)axes * sizeof *a->boxes[i].extent) != 0)
            return false;
    return true;
}

static bool has_same_addresses(const recorded_launch *a, const recorded_launch *b) {
    if (a->work && a->work->output.address != b->work->output.address) return false;
    for (int i = 0; a->work && i < a->work->input_count; i++)
        if (a->work->inputs[i].address != b->work->inputs[i].address) return false;
    size_t bytes = a->box_count ? (size_t)bti_kernel_operands(bti_cpu_program_kernel(a->program)) : 0;
    for (int i = 0; i < a->box_count; i++)
        if (memcmp(a->boxes[i].address, b->boxes[i].address, bytes * sizeof *a->boxes[i].address) != 0) return false;
    return true;
}

/* The next launch from number *i on, and goes on behind it; NULL: there is none. */
static recorded_launch *next_launch(const bti_sim_graph *graph, size_t *i) {
    while (*i < graph->launches.count && graph->launches.items[*i].kind != LAUNCH) ++*i;
    return *i < graph->launches.count ? &graph->launches.items[(*i)++] : NULL;
}

/* Whether both launch the same; and how many launches get other addresses. */
static bool is_same(const bti_sim_graph *graph, const bti_sim_graph *again, size_t *changes) {
    size_t at = 0, at_again = 0;
    *changes = 0;
    for (;;) {
        const recorded_launch *was = next_launch(graph, &at), *is = next_launch(again, &at_again);
        if (!was || !is) return was == is;
        if (!is_same_launch(was, is)) return false;
        *changes += !has_same_addresses(was, is);
    }
}

/* The launches of both are exchanged; marks stay. */
static void exchange_launches(bti_sim_graph *graph, bti_sim_graph *again) {
    size_t at = 0, at_again = 0;
    for (recorded_launch *was; (was = next_launch(graph, &at)) != NULL;) {
        recorded_launch *is = next_launch(again, &at_again), before = *was;
        *was = *is;
        *is = before;
    }
}

static void end_update(bti_sim_device *device, bti_sim_graph *again, void **graph) {
    size_t changes;
    bool same = is_same(again->updated, again, &changes);
    if (same) {
        exchange_launches(again->updated, again);
        bti_sim_took_changes(&device->engines, changes);
    }
    *graph = same ? again->updated : NULL;
    bti_sim_graph_free(device, again);
}

bt_status bti_sim_graph_end(void *opened, void **graph) {
    bti_sim_device *device = opened;
    bti_sim_graph *made = device->graph;
    device->graph = NULL;
    *graph = made;
    if (made->updated) end_update(device, made, graph);
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

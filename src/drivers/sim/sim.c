/* Simulated devices of any kind. Kernels are the CPU's: a launch computes on the calling thread and on as many cores as the flag
 * sim_threads allows. Memory is separate (sim_memory.h), calls can be made to fail (sim_flags.h) and transfers to take time. */
#include "drivers/driver.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "base/vec.h"
#include "drivers/cpu/engine.h"
#include "drivers/sim/sim_flags.h"
#include "drivers/sim/sim_memory.h"
#include "reference/operand.h"

/* --- graphs: copies of the launches that are recorded ------------------------------------------------------------- */

typedef struct recorded_launch {
    void *program;
    bti_work *work; /* one of the two, of a product with its epilogue both; they own what they point to */
    bti_box *box;
} recorded_launch;

typedef struct sim_graph {
    BTI_VEC(recorded_launch) launches;
} sim_graph;

static bt_status add_launch(sim_graph *graph, recorded_launch launch, bool copied) {
    if (copied && bti_vec_push(&graph->launches, launch)) return BT_OK;
    bti_free(launch.work);
    bti_free(launch.box);
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

static bti_box *copy_of_box(const bti_kernel *kernel, const bti_box *box) {
    size_t scalars = kernel->scalar_count * sizeof *box->scalars;
    bti_box *copy = bti_alloc(sizeof *copy + scalars);
    if (!copy) return NULL;
    int operands = bti_kernel_operands(kernel);
    memcpy(copy->extent, box->extent, sizeof copy->extent);
    memcpy(copy->address, box->address, (size_t)operands * sizeof *copy->address);
    memcpy(copy->stride, box->stride, (size_t)operands * sizeof *copy->stride);
    copy->scalars = (const uint64_t *)(copy + 1);
    if (scalars) memcpy(copy + 1, box->scalars, scalars);
    return copy;
}

static bt_status record_work(sim_graph *graph, void *program, const bti_work *work) {
    bti_work *copy = copy_of_work(work);
    return add_launch(graph, (recorded_launch){program, copy, NULL}, copy);
}

static bt_status record_kernel(sim_graph *graph, void *program, const bti_box *box) {
    bti_box *copy = copy_of_box(bti_cpu_program_kernel(program), box);
    return add_launch(graph, (recorded_launch){program, NULL, copy}, copy);
}

static bt_status record_product(sim_graph *graph, void *program, const bti_work *product, const bti_box *box) {
    recorded_launch copy = {program, copy_of_work(product), copy_of_box(bti_cpu_program_kernel(program), box)};
    return add_launch(graph, copy, copy.work && copy.box);
}

static void free_graph(sim_graph *graph) {
    for (size_t i = 0; graph && i < graph->launches.count; i++) {
        bti_free(graph->launches.items[i].work);
        bti_free(graph->launches.items[i].box);
    }
    if (graph) bti_vec_free(&graph->launches);
    bti_free(graph);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

typedef struct sim_device {
    bt_kind kind;
    int index;
    bti_sim_memory memory;
    atomic_uint_fast64_t recorded, waited; /* events */
    sim_graph *graph;                      /* launches are recorded there instead of run */
} sim_device;

static size_t memory_of(int kind, int index) {
    size_t bytes = bti_sim_configured()->bytes[kind][index];
    return bytes ? bytes : bti_flag_bytes(BTI_FLAG_sim_memory);
}

static bt_status sim_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds;
    static const char *const names[BT_KIND_COUNT] = {"CPU", "GPU", "TPU", "accelerator"};
    *count = 0;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        for (int i = 0; i < bti_sim_configured()->count[kind]; i++, ++*count) {
            if (*count >= capacity) continue;
            bti_device_facts *f = &facts[*count];
            *f = (bti_device_facts){.kind = (bt_kind)kind, .ordinal = kind * BTI_SIM_MAX + i};
            f->memory_bytes = memory_of(kind, i);
            snprintf(f->description, sizeof f->description, "Simulated %s", names[kind]);
            snprintf(f->driver_version, sizeof f->driver_version, "1");
            if (kind == BT_GPU) snprintf(f->uuid, sizeof f->uuid, "GPU-51000000-0000-0000-0000-%012d", i);
        }
    }
    if (!*count) bti_str_add(reason, "sim: no simulated device was asked for (flag devices)\n");
    return BT_OK;
}

#define FAULT(name) BTI_TRY(bti_sim_fault(name, device->kind, device->index))

static bt_status sim_open(int ordinal, const bti_allocator *allocator, void **opened) {
    (void)allocator;
    int kind = ordinal / BTI_SIM_MAX, index = ordinal % BTI_SIM_MAX;
    BTI_TRY(bti_sim_fault("open", (bt_kind)kind, index));
    sim_device *device = bti_calloc(1, sizeof *device);
    if (!device) return bti_no_memory();
    device->kind = (bt_kind)kind;
    device->index = index;
    bti_sim_memory_init(&device->memory, ordinal, memory_of(kind, index));
    *opened = device;
    return BT_OK;
}

static void sim_close(void *opened) {
    sim_device *device = opened;
    bti_sim_memory_free(&device->memory);
    bti_free(device);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static bt_status sim_alloc(void *opened, size_t bytes, uint64_t *address) {
    sim_device *device = opened;
    FAULT("alloc");
    return bti_sim_memory_alloc(&device->memory, bytes, address);
}

static void sim_free(void *opened, uint64_t address, size_t bytes) {
    (void)bytes;
    bti_sim_memory_release(&((sim_device *)opened)->memory, address);
}

static bt_status sim_memory_sizes(void *opened, size_t *free_bytes, size_t *total_bytes) {
    sim_device *device = opened;
    FAULT("memory");
    bti_sim_memory_sizes(&device->memory, free_bytes, total_bytes);
    return BT_OK;
}

static bt_status translate_address(sim_device *device, const char *what, uint64_t address, uint64_t bytes,
                                   char **host) {
    return bti_sim_memory_translate(&device->memory, what, address, bytes, host);
}

/* --- transfers ---------------------------------------------------------------------------------------------------- */

static void wait_for_transfer(size_t bytes) {
    double rate = (double)bti_flag_int(BTI_FLAG_sim_bandwidth);
    double seconds = bti_flag_float(BTI_FLAG_sim_latency_us) * 1e-6 + (rate > 0 ? (double)bytes / rate : 0);
    if (seconds <= 0) return;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left)) {
    }
}

static bt_status sim_upload(void *opened, uint64_t address, const void *host, size_t bytes) {
    sim_device *device = opened;
    char *memory;
    FAULT("upload");
    BTI_TRY(translate_address(device, "upload", address, bytes, &memory));
    wait_for_transfer(bytes);
    memcpy(memory, host, bytes);
    return BT_OK;
}

static bt_status sim_download(void *opened, void *host, uint64_t address, size_t bytes) {
    sim_device *device = opened;
    char *memory;
    FAULT("download");
    BTI_TRY(translate_address(device, "download", address, bytes, &memory));
    wait_for_transfer(bytes);
    memcpy(host, memory, bytes);
    return BT_OK;
}

static bt_status sim_copy(void *opened, uint64_t to, uint64_t from, size_t bytes) {
    sim_device *device = opened;
    char *target, *source;
    FAULT("copy");
    BTI_TRY(translate_address(device, "copy", to, bytes, &target));
    BTI_TRY(translate_address(device, "copy", from, bytes, &source));
    memmove(target, source, bytes);
    return BT_OK;
}

static bt_status sim_peer_copy(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes) {
    sim_device *device = to_device;
    char *target, *source;
    FAULT("peer_copy");
    BTI_TRY(translate_address(device, "peer copy", to, bytes, &target));
    BTI_TRY(translate_address(from_device, "peer copy", from, bytes, &source));
    wait_for_transfer(bytes);
    memcpy(target, source, bytes);
    return BT_OK;
}

static bt_status sim_fill(void *opened, uint64_t address, int byte, size_t bytes) {
    sim_device *device = opened;
    char *memory;
    FAULT("fill");
    BTI_TRY(translate_address(device, "fill", address, bytes, &memory));
    memset(memory, byte, bytes);
    return BT_OK;
}

/* --- work --------------------------------------------------------------------------------------------------------- */

static bt_status sim_program_load(void *opened, const bti_program_source *source, void **program) {
    sim_device *device = opened;
    FAULT("program_load");
    return bti_cpu_program_load(NULL, source, program);
}

/* The operand with a pointer instead of its address; everything that its strides reach is checked. */
static bt_status translate_operand(sim_device *device, const char *what, const bti_operand *operand, bti_operand *out) {
    int64_t low = 0, high = 0, size = (int64_t)bt_dtype_size(operand->dtype), reach;
    *out = *operand;
    for (int i = 0; i < operand->rank; i++) {
        if (operand->shape[i] == 0) return BT_OK; /* no element is touched */
        if (__builtin_mul_overflow(operand->shape[i] - 1, operand->stride[i], &reach) ||
            __builtin_add_overflow(*(reach < 0 ? &low : &high), reach, reach < 0 ? &low : &high))
            return bti_fail(BT_INTERNAL, "%s: an operand's strides overflow", what);
    }
    int64_t bytes;
    if (__builtin_sub_overflow(high, low, &bytes) || __builtin_add_overflow(bytes, 1, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || __builtin_mul_overflow(low, size, &low))
        return bti_fail(BT_INTERNAL, "%s: an operand's extent overflows", what);
    char *host;
    BTI_TRY(translate_address(device, what, operand->address + (uint64_t)low, (uint64_t)bytes, &host));
    out->address = (uint64_t)(uintptr_t)host - (uint64_t)low;
    return BT_OK;
}

static bt_status sim_launch(void *opened, void *program, const bti_work *work) {
    sim_device *device = opened;
    if (device->graph) return record_work(device->graph, program, work);
    FAULT("launch");
    const char *what = bti_op_info(work->op)->name;
    bti_operand few[8];
    bti_operand *inputs = few; /* and the others behind them */
    int operands = work->input_count + work->other_count;
    if (operands > 8) inputs = bti_calloc((size_t)operands, sizeof *inputs);
    if (!inputs) return bti_no_memory();
    bti_work local = *work;
    bt_status status = translate_operand(device, what, &work->output, &local.output);
    for (int i = 0; status == BT_OK && i < work->input_count; i++)
        status = translate_operand(device, what, &work->inputs[i], &inputs[i]);
    for (int i = 0; status == BT_OK && i < work->other_count; i++)
        status = translate_operand(device, what, &work->others[i], &inputs[work->input_count + i]);
    local.inputs = inputs;
    local.others = inputs + work->input_count;
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    if (status == BT_OK) status = bti_cpu_launch(NULL, NULL, &local);
    bti_cores_limit(before);
    if (inputs != few) bti_free(inputs);
    return status;
}

/* made: the operand that a product makes, which has no address; -1: none. */
static bt_status translate_box(sim_device *device, const bti_kernel *kernel, int made, const bti_box *box,
                               bti_box *local) {
    int axes = bti_kernel_axes(kernel);
    memcpy(local->extent, box->extent, sizeof local->extent);
    local->scalars = box->scalars;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        memcpy(local->stride[o], box->stride[o], sizeof local->stride[o]);
        local->address[o] = box->address[o];
        if (kernel->operands[o].index || o == made) continue;
        int64_t low = 0, high = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        for (int axis = 0; axis < axes; axis++) {
            int64_t reach;
            if (__builtin_mul_overflow(box->extent[axis] - 1, box->stride[o][axis], &reach) ||
                __builtin_add_overflow(*(reach < 0 ? &low : &high), reach, reach < 0 ? &low : &high))
                return bti_fail(BT_INTERNAL, "a kernel: an operand's strides overflow");
        }
        int64_t rows = bti_kernel_rows_reach(kernel, box, o);
        *(rows < 0 ? &low : &high) += rows;
        char *host;
        BTI_TRY(translate_address(device, "a kernel", box->address[o] + (uint64_t)low, (uint64_t)(high - low), &host));
        local->address[o] = (uint64_t)(uintptr_t)host - (uint64_t)low;
    }
    return BT_OK;
}

static bt_status run_kernel(sim_device *device, void *program, const bti_box *box) {
    FAULT("launch");
    bti_box local;
    BTI_TRY(translate_box(device, bti_cpu_program_kernel(program), -1, box, &local));
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    bt_status status = bti_cpu_run_kernel(program, &local);
    bti_cores_limit(before);
    return status;
}

static bt_status sim_launch_kernel(void *opened, void *program, const bti_box *box) {
    sim_device *device = opened;
    if (device->graph) return record_kernel(device->graph, program, box);
    return bti_cpu_lacks_text(program, box) ? BT_FAILED_PRECONDITION : run_kernel(device, program, box);
}

/* The box with the product where an output will be that lies like it; false: there is none, it needs memory of its own. */
static bool place_product(const void *program, const bti_box *box, bti_box *placed) {
    int made = bti_cpu_program_made(program);
    int place = bti_kernel_output_like(bti_cpu_program_kernel(program), made, box);
    *placed = *box;
    placed->address[made] = place < 0 ? 0 : box->address[place];
    return place >= 0;
}

/* The product, and then its epilogue. */
static bt_status run_product(sim_device *device, void *program, const bti_work *product, const bti_box *box) {
    FAULT("launch");
    int made = bti_cpu_program_made(program);
    bti_operand inputs[2];
    bti_work whole = *product;
    bti_box local, placed;
    void *scratch = NULL;
    for (int i = 0; i < 2; i++) BTI_TRY(translate_operand(device, "a product", &product->inputs[i], &inputs[i]));
    BTI_TRY(translate_box(device, bti_cpu_program_kernel(program), made, box, &local));
    if (!place_product(program, &local, &placed)) {
        scratch =
            bti_alloc_aligned(64, (size_t)bti_operand_count(&product->output) * bt_dtype_size(whole.output.dtype));
        if (!scratch) return bti_no_memory();
        placed.address[made] = (uint64_t)(uintptr_t)scratch;
    }
    whole.inputs = inputs;
    whole.output.address = placed.address[made];
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    bt_status status = bti_cpu_launch(NULL, NULL, &whole);
    if (status == BT_OK) status = bti_cpu_run_kernel(program, &placed);
    bti_cores_limit(before);
    bti_free(scratch);
    return status;
}

static bt_status sim_launch_product(void *opened, void *program, const bti_work *product, const bti_box *box) {
    sim_device *device = opened;
    bti_box placed;
    if (device->graph) return record_product(device->graph, program, product, box);
    place_product(program, box, &placed);
    return bti_cpu_lacks_text(program, &placed) ? BT_FAILED_PRECONDITION : run_product(device, program, product, box);
}

/* One after the other; before the first one all texts are there, so that none runs twice. */
static bt_status sim_launch_boxes(void *opened, void *program, const bti_box *boxes, int count) {
    sim_device *device = opened;
    for (int b = 0; b < count && !device->graph; b++)
        if (bti_cpu_lacks_text(program, &boxes[b])) return BT_FAILED_PRECONDITION;
    for (int b = 0; b < count; b++)
        BTI_TRY(device->graph ? record_kernel(device->graph, program, &boxes[b])
                              : run_kernel(device, program, &boxes[b]));
    return BT_OK;
}

/* Copies and fills are not recorded: between begin and end there are only launches (exec/). */
static bt_status sim_graph_begin(void *opened) {
    sim_device *device = opened;
    device->graph = bti_calloc(1, sizeof *device->graph);
    return device->graph ? BT_OK : bti_no_memory();
}
static bt_status sim_graph_end(void *opened, void **graph) {
    sim_device *device = opened;
    *graph = device->graph;
    device->graph = NULL;
    return BT_OK;
}
static bt_status sim_graph_run(void *opened, void *graph, bool *stale) {
    const sim_graph *recorded = graph;
    *stale = false;
    for (size_t i = 0; i < recorded->launches.count; i++) {
        const recorded_launch *l = &recorded->launches.items[i];
        BTI_TRY(l->work && l->box ? run_product(opened, l->program, l->work, l->box)
                : l->work         ? sim_launch(opened, l->program, l->work)
                                  : run_kernel(opened, l->program, l->box));
    }
    return BT_OK;
}
static void sim_graph_free(void *opened, void *graph) {
    (void)opened;
    free_graph(graph);
}

/* All work is done when its launch returns, but query tells so only after a wait, as a real device might. */
static bt_status sim_record(void *opened, bti_event *event) {
    sim_device *device = opened;
    FAULT("record");
    event->value = atomic_fetch_add(&device->recorded, 1) + 1;
    return BT_OK;
}
static bt_status sim_wait_event(void *opened, bti_event event) {
    sim_device *device = opened;
    uint64_t before = atomic_load(&device->waited);
    while (before < event.value && !atomic_compare_exchange_weak(&device->waited, &before, event.value)) {
    }
    FAULT("wait");
    return BT_OK;
}
static bt_status sim_query(void *opened, bti_event event, bool *done) {
    sim_device *device = opened;
    FAULT("query");
    *done = event.value <= atomic_load(&device->waited);
    return BT_OK;
}
static bt_status sim_sync_device(void *opened) {
    sim_device *device = opened;
    FAULT("sync");
    return BT_OK;
}

/* --- all-reduce --------------------------------------------------------------------------------------------------- */

static bti_op elementwise_op(bti_op fold) {
    switch (fold) {
    case BTI_OP_sum: return BTI_OP_add;
    case BTI_OP_prod: return BTI_OP_mul;
    case BTI_OP_max: return BTI_OP_maximum;
    case BTI_OP_min: return BTI_OP_minimum;
    default: return BTI_OP_COUNT;
    }
}

/* Folds device by device into the first one's memory, and copies the result to the others. */
static bt_status sim_all_reduce(void *const *devices, int count, const uint64_t *addresses, bt_dtype dtype, bti_op op,
                                size_t elements) {
    char *hosts[BT_KIND_COUNT * BTI_SIM_MAX];
    size_t bytes = elements * bt_dtype_size(dtype);
    if (elementwise_op(op) == BTI_OP_COUNT || dtype == BT_BOOL)
        return bti_fail(BT_UNIMPLEMENTED, "simulated devices do not fold %s by %s", bt_dtype_name(dtype),
                        bti_op_info(op)->name);
    for (int i = 0; addresses && i < count; i++) {
        sim_device *device = devices[i];
        FAULT("all_reduce");
        BTI_TRY(translate_address(device, "a fold over devices", addresses[i], bytes, &hosts[i]));
    }
    for (int i = 1; addresses && i < count; i++) {
        bti_operand operands[2];
        for (int k = 0; k < 2; k++)
            operands[k] = (bti_operand){.address = (uint64_t)(uintptr_t)hosts[k ? i : 0],
                                        .dtype = dtype,
                                        .rank = 1,
                                        .shape = {(int64_t)elements},
                                        .stride = {1}};
        const bti_work work = {.op = elementwise_op(op), .input_count = 2, .inputs = operands, .output = operands[0]};
        wait_for_transfer(bytes);
        BTI_TRY(bti_cpu_launch(NULL, NULL, &work));
    }
    for (int i = 1; addresses && i < count; i++) memcpy(hosts[i], hosts[0], bytes);
    return BT_OK;
}

/* Its kernels run on cores, so these are a CPU's; but launches and products are a GPU's. */
static const bti_target_facts sim_facts = {BTI_CPU_FACTS, .epilogues = true, .launch_boxes = 24};

const bti_driver bti_driver_sim = {
    .name = "sim",
    .target = &sim_facts,
    .kinds = (1u << BT_KIND_COUNT) - 1,
    .probe = sim_probe,
    .open = sim_open,
    .close = sim_close,
    .alloc = sim_alloc,
    .free = sim_free,
    .upload = sim_upload,
    .download = sim_download,
    .copy = sim_copy,
    .fill = sim_fill,
    .program_load = sim_program_load,
    .program_free = bti_cpu_program_free,
    .text_wanted = bti_cpu_text_wanted,
    .text_give = bti_cpu_text_give,
    .launch = sim_launch,
    .launch_kernel = sim_launch_kernel,
    .launch_product = sim_launch_product,
    .launch_boxes = sim_launch_boxes,
    .record = sim_record,
    .wait = sim_wait_event,
    .query = sim_query,
    .sync = sim_sync_device,
    .memory = sim_memory_sizes,
    .peer_copy = sim_peer_copy,
    .graph_begin = sim_graph_begin,
    .graph_end = sim_graph_end,
    .graph_run = sim_graph_run,
    .graph_free = sim_graph_free,
    .all_reduce = sim_all_reduce,
};

/* Simulated devices of any kind. Each has a memory of its own, behind addresses that are not pointers: a stray use by
 * the host faults, and use by another device is caught here. In debug builds (BTI_DEBUG) that aborts, as the fault of a
 * real device would end the program; in release builds it is INTERNAL.
 *
 * Kernels are the CPU's. A launch computes on the thread that calls it and on cores that it borrows, as many as the flag
 * sim_threads allows. */
#include "drivers/sim/sim.h"
#include "drivers/sim/sim_graph.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "base/host_memory.h"
#include "base/vec.h"
#include "drivers/cpu/engine.h"

/* An address: bits 56..63 the tag (not canonical on x86-64), 48..55 the device's ordinal + 1, 0..47 where in it. */
#define TAG UINT64_C(0xb5)
#define OFFSET_MAX (UINT64_C(1) << 48)
#define GUARD_BYTES UINT64_C(4096) /* never handed out, between two allocations */

typedef struct piece {
    uint64_t offset;
    size_t bytes;
    char *host;
} piece;

typedef struct sim_device {
    bt_kind kind;
    int index, ordinal;
    pthread_rwlock_t lock; /* of what follows */
    BTI_VEC(piece) pieces; /* by offset */
    uint64_t next;         /* offsets from here on were not used yet, until they wrap around */
    size_t used, limit;
    atomic_uint_fast64_t recorded, waited; /* events */
    bti_sim_graph *graph;                  /* launches are kept there instead of run */
} sim_device;

static bti_sim_spec spec;

void bti_sim_configure(const bti_sim_spec *new_spec) { spec = *new_spec; }

static size_t memory_of(int kind, int index) {
    size_t bytes = spec.bytes[kind][index];
    return bytes ? bytes : bti_flag_bytes(BTI_FLAG_sim_memory);
}

static bt_status probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds;
    static const char *const names[BT_KIND_COUNT] = {"CPU", "GPU", "TPU", "accelerator"};
    *count = 0;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        for (int i = 0; i < spec.count[kind]; i++, ++*count) {
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
    device->ordinal = ordinal;
    device->limit = memory_of(kind, index);
    pthread_rwlock_init(&device->lock, NULL);
    *opened = device;
    return BT_OK;
}

static void sim_close(void *opened) {
    sim_device *device = opened;
    for (size_t i = 0; i < device->pieces.count; i++)
        bti_free_claimed(device->pieces.items[i].host, device->pieces.items[i].bytes);
    bti_vec_free(&device->pieces);
    pthread_rwlock_destroy(&device->lock);
    bti_free(device);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* The number of pieces that begin at or before an offset. Under the lock. */
static size_t count_up_to(const sim_device *device, uint64_t offset) {
    size_t low = 0, high = device->pieces.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (device->pieces.items[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t aligned(uint64_t bytes) { return (bytes + BTI_MEMORY_ALIGN - 1) & ~(uint64_t)(BTI_MEMORY_ALIGN - 1); }

/* Addresses are used again only when all were used once, so that a stale one does not hit what came after. */
static bool find_room(sim_device *device, uint64_t bytes, uint64_t *offset, size_t *at) {
    uint64_t span = aligned(bytes) + GUARD_BYTES;
    if (span < OFFSET_MAX - GUARD_BYTES - device->next) {
        *offset = device->next + GUARD_BYTES;
        *at = device->pieces.count;
        if (*at) *at = count_up_to(device, *offset);
        device->next += span;
        return true;
    }
    uint64_t end = GUARD_BYTES;
    for (*at = 0; *at <= device->pieces.count; ++*at) {
        uint64_t begin = *at < device->pieces.count ? device->pieces.items[*at].offset : OFFSET_MAX;
        if (begin > end && begin - end > span) return *offset = end, true;
        if (*at < device->pieces.count) end = begin + aligned(device->pieces.items[*at].bytes) + GUARD_BYTES;
    }
    return false;
}

static bt_status sim_alloc(void *opened, size_t bytes, uint64_t *address) {
    sim_device *device = opened;
    FAULT("alloc");
    uint64_t offset = 0;
    size_t at = 0;
    bt_status status = BT_OK;
    pthread_rwlock_wrlock(&device->lock);
    size_t left = device->limit - device->used;
    char *host =
        bytes <= left && bti_vec_reserve(&device->pieces, 1) ? bti_alloc_claimed(BTI_MEMORY_ALIGN, bytes) : NULL;
    if (!host || !find_room(device, bytes, &offset, &at)) {
        if (host) bti_free_claimed(host, bytes);
        status = bytes <= left && !host
                     ? bti_fail(BT_RESOURCE_EXHAUSTED, "simulated device: %s", bti_host_memory_shortage(bytes).text)
                     : bti_fail(BT_RESOURCE_EXHAUSTED, "%s:%d: %zu bytes asked for, %zu of %zu are free",
                                bt_kind_name(device->kind), device->index, bytes, left, device->limit);
    } else {
        piece *items = device->pieces.items;
        memmove(items + at + 1, items + at, (device->pieces.count - at) * sizeof *items);
        items[at] = (piece){offset, bytes, host};
        device->pieces.count++;
        device->used += bytes;
        *address = TAG << 56 | (uint64_t)(device->ordinal + 1) << 48 | offset;
    }
    pthread_rwlock_unlock(&device->lock);
    return status;
}

static void sim_free(void *opened, uint64_t address, size_t bytes) {
    (void)bytes;
    sim_device *device = opened;
    uint64_t offset = address & (OFFSET_MAX - 1);
    pthread_rwlock_wrlock(&device->lock);
    size_t at = count_up_to(device, offset);
    if (at && device->pieces.items[at - 1].offset == offset) {
        piece *p = &device->pieces.items[at - 1];
        bti_free_claimed(p->host, p->bytes);
        device->used -= p->bytes;
        memmove(p, p + 1, (device->pieces.count - at) * sizeof *p);
        device->pieces.count--;
    }
    pthread_rwlock_unlock(&device->lock);
}

/* A use of memory that a real device would fault on. */
static bt_status stray(const sim_device *device, const char *what, uint64_t address, uint64_t bytes) {
    char why[160];
    unsigned tag = (unsigned)(address >> 56);
    int owner = (int)(address >> 48 & 0xff) - 1;
    if (tag != TAG || owner < 0)
        snprintf(why, sizeof why, "which is memory of no simulated device");
    else if (owner != device->ordinal)
        snprintf(why, sizeof why, "which is memory of %s:%d; copy it first",
                 bt_kind_name((bt_kind)(owner / BTI_SIM_MAX)), owner % BTI_SIM_MAX);
    else
        snprintf(why, sizeof why, "which is not within one live allocation");
#ifdef BTI_DEBUG
    fprintf(stderr, "berth: %s on %s:%d touches %" PRIu64 " bytes at %#" PRIx64 ", %s\n", what,
            bt_kind_name(device->kind), device->index, bytes, address, why);
    abort();
#endif
    return bti_fail(BT_INTERNAL, "%s on %s:%d touches %" PRIu64 " bytes at %#" PRIx64 ", %s", what,
                    bt_kind_name(device->kind), device->index, bytes, address, why);
}

/* The host memory behind an address, all `bytes` of it within one live allocation of this device. */
static bt_status translate(sim_device *device, const char *what, uint64_t address, uint64_t bytes, char **host) {
    uint64_t offset = address & (OFFSET_MAX - 1);
    bool inside = false;
    if (address >> 48 == (TAG << 8 | (uint64_t)(device->ordinal + 1))) {
        pthread_rwlock_rdlock(&device->lock);
        size_t at = count_up_to(device, offset);
        if (at) {
            const piece *p = &device->pieces.items[at - 1];
            uint64_t into = offset - p->offset;
            inside = into <= p->bytes && bytes <= p->bytes - into;
            *host = p->host + (inside ? into : 0);
        }
        pthread_rwlock_unlock(&device->lock);
    }
    return inside ? BT_OK : stray(device, what, address, bytes);
}

/* --- transfers ---------------------------------------------------------------------------------------------------- */

static void cost(size_t bytes) {
    double rate = (double)bti_flag_int(BTI_FLAG_sim_bandwidth);
    double seconds = bti_flag_float(BTI_FLAG_sim_latency_us) * 1e-6 + (rate > 0 ? (double)bytes / rate : 0);
    if (seconds <= 0) return;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left)) {
    }
}

static bt_status upload(void *opened, uint64_t address, const void *host, size_t bytes) {
    sim_device *device = opened;
    char *memory;
    FAULT("upload");
    BTI_TRY(translate(device, "upload", address, bytes, &memory));
    cost(bytes);
    memcpy(memory, host, bytes);
    return BT_OK;
}

static bt_status download(void *opened, void *host, uint64_t address, size_t bytes) {
    sim_device *device = opened;
    char *memory;
    FAULT("download");
    BTI_TRY(translate(device, "download", address, bytes, &memory));
    cost(bytes);
    memcpy(host, memory, bytes);
    return BT_OK;
}

static bt_status copy(void *opened, uint64_t to, uint64_t from, size_t bytes) {
    sim_device *device = opened;
    char *target, *source;
    FAULT("copy");
    BTI_TRY(translate(device, "copy", to, bytes, &target));
    BTI_TRY(translate(device, "copy", from, bytes, &source));
    memmove(target, source, bytes);
    return BT_OK;
}

static bt_status peer_copy(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes) {
    sim_device *device = to_device;
    char *target, *source;
    FAULT("peer_copy");
    BTI_TRY(translate(device, "peer copy", to, bytes, &target));
    BTI_TRY(translate(from_device, "peer copy", from, bytes, &source));
    cost(bytes);
    memcpy(target, source, bytes);
    return BT_OK;
}

static bt_status fill(void *opened, uint64_t address, int byte, size_t bytes) {
    sim_device *device = opened;
    char *memory;
    FAULT("fill");
    BTI_TRY(translate(device, "fill", address, bytes, &memory));
    memset(memory, byte, bytes);
    return BT_OK;
}

/* --- work --------------------------------------------------------------------------------------------------------- */

static bt_status program_load(void *opened, const bti_program_source *source, void **program) {
    static char primitive;
    sim_device *device = opened;
    FAULT("program_load");
    *program = &primitive;
    return source->kernel ? bti_engine_load(source->kernel, source->render, (bti_engine_kernel **)program) : BT_OK;
}
static void program_free(void *opened, const bti_program_source *source, void *program) {
    (void)opened;
    if (source->kernel) bti_engine_free(program);
}

/* The operand with a pointer in the place of its address; everything that its strides reach is checked. */
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
    BTI_TRY(translate(device, what, operand->address + (uint64_t)low, (uint64_t)bytes, &host));
    out->address = (uint64_t)(uintptr_t)host - (uint64_t)low;
    return BT_OK;
}

static bt_status launch(void *opened, void *program, const bti_work *work) {
    sim_device *device = opened;
    if (device->graph) return bti_sim_record_work(device->graph, program, work);
    FAULT("launch");
    const char *what = bti_op_info(work->op)->name;
    bti_operand few[8];
    bti_operand *inputs = few;
    if (work->input_count > 8) inputs = bti_calloc((size_t)work->input_count, sizeof *inputs);
    if (!inputs) return bti_no_memory();
    bti_work local = *work;
    bt_status status = translate_operand(device, what, &work->output, &local.output);
    for (int i = 0; status == BT_OK && i < work->input_count; i++)
        status = translate_operand(device, what, &work->inputs[i], &inputs[i]);
    local.inputs = inputs;
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    if (status == BT_OK) status = bti_engine_work(&local);
    bti_cores_limit(before);
    if (inputs != few) bti_free(inputs);
    return status;
}

static bt_status translate_box(sim_device *device, const bti_kernel *kernel, const bti_box *box, bti_box *local) {
    int axes = bti_kernel_axes(kernel);
    memcpy(local->extent, box->extent, sizeof local->extent);
    local->scalars = box->scalars;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        memcpy(local->stride[o], box->stride[o], sizeof local->stride[o]);
        local->address[o] = box->address[o];
        if (kernel->operands[o].index) continue;
        int64_t low = 0, high = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        for (int axis = 0; axis < axes; axis++) {
            int64_t reach;
            if (__builtin_mul_overflow(box->extent[axis] - 1, box->stride[o][axis], &reach) ||
                __builtin_add_overflow(*(reach < 0 ? &low : &high), reach, reach < 0 ? &low : &high))
                return bti_fail(BT_INTERNAL, "a kernel: an operand's strides overflow");
        }
        char *host;
        BTI_TRY(translate(device, "a kernel", box->address[o] + (uint64_t)low, (uint64_t)(high - low), &host));
        local->address[o] = (uint64_t)(uintptr_t)host - (uint64_t)low;
    }
    return BT_OK;
}

static bt_status launch_kernel(void *opened, void *program, const bti_box *box) {
    sim_device *device = opened;
    if (device->graph) return bti_sim_record_kernel(device->graph, program, bti_engine_kernel_of(program), box);
    FAULT("launch");
    bti_box local;
    BTI_TRY(translate_box(device, bti_engine_kernel_of(program), box, &local));
    int before = bti_cores_limit((int)bti_flag_int(BTI_FLAG_sim_threads));
    bt_status status = bti_engine_run(program, &local);
    bti_cores_limit(before);
    return status;
}

/* Copies and fills are no part of what is recorded here: only launches come between begin and end (exec/graph.c). */
static bt_status graph_begin(void *opened) {
    sim_device *device = opened;
    device->graph = bti_calloc(1, sizeof *device->graph);
    return device->graph ? BT_OK : bti_no_memory();
}
static bt_status graph_end(void *opened, void **graph) {
    sim_device *device = opened;
    *graph = device->graph;
    device->graph = NULL;
    return BT_OK;
}
static bt_status graph_run(void *opened, void *graph, bool *stale) {
    const bti_sim_graph *recorded = graph;
    *stale = false;
    for (size_t i = 0; i < recorded->launches.count; i++) {
        const bti_sim_launch *l = &recorded->launches.items[i];
        BTI_TRY(l->work ? launch(opened, l->program, l->work) : launch_kernel(opened, l->program, l->box));
    }
    return BT_OK;
}
static void graph_free(void *opened, void *graph) {
    (void)opened;
    bti_sim_graph_free(graph);
}

/* Everything is done when its call returns, but that is told only to who waits, as real devices do. */
static bt_status record(void *opened, bti_event *event) {
    sim_device *device = opened;
    FAULT("record");
    event->value = atomic_fetch_add(&device->recorded, 1) + 1;
    return BT_OK;
}
static bt_status wait_event(void *opened, bti_event event) {
    sim_device *device = opened;
    uint64_t before = atomic_load(&device->waited);
    while (before < event.value && !atomic_compare_exchange_weak(&device->waited, &before, event.value)) {
    }
    FAULT("wait");
    return BT_OK;
}
static bt_status query(void *opened, bti_event event, bool *done) {
    sim_device *device = opened;
    FAULT("query");
    *done = event.value <= atomic_load(&device->waited);
    return BT_OK;
}
static bt_status sync_device(void *opened) {
    sim_device *device = opened;
    FAULT("sync");
    return BT_OK;
}

static bt_status memory(void *opened, size_t *free_bytes, size_t *total_bytes) {
    sim_device *device = opened;
    FAULT("memory");
    pthread_rwlock_rdlock(&device->lock);
    *free_bytes = device->limit - device->used;
    *total_bytes = device->limit;
    pthread_rwlock_unlock(&device->lock);
    return BT_OK;
}

/* --- folds over devices --------------------------------------------------------------------------------------------- */

static bti_op pairwise(bti_op fold) {
    switch (fold) {
    case BTI_OP_sum: return BTI_OP_add;
    case BTI_OP_prod: return BTI_OP_mul;
    case BTI_OP_max: return BTI_OP_maximum;
    case BTI_OP_min: return BTI_OP_minimum;
    default: return BTI_OP_COUNT;
    }
}

/* Device by device into the first one's memory, which the others then get. */
static bt_status all_reduce(void *const *devices, int count, const uint64_t *addresses, bt_dtype dtype, bti_op op,
                            size_t elements) {
    char *hosts[BT_KIND_COUNT * BTI_SIM_MAX];
    size_t bytes = elements * bt_dtype_size(dtype);
    if (pairwise(op) == BTI_OP_COUNT || dtype == BT_BOOL)
        return bti_fail(BT_UNIMPLEMENTED, "simulated devices do not fold %s by %s", bt_dtype_name(dtype),
                        bti_op_info(op)->name);
    for (int i = 0; addresses && i < count; i++) {
        sim_device *device = devices[i];
        FAULT("all_reduce");
        BTI_TRY(translate(device, "a fold over devices", addresses[i], bytes, &hosts[i]));
    }
    for (int i = 1; addresses && i < count; i++) {
        bti_operand operands[2];
        for (int k = 0; k < 2; k++)
            operands[k] = (bti_operand){.address = (uint64_t)(uintptr_t)hosts[k ? i : 0],
                                        .dtype = dtype,
                                        .rank = 1,
                                        .shape = {(int64_t)elements},
                                        .stride = {1}};
        const bti_work work = {pairwise(op), 2, operands, operands[0], NULL, 0};
        cost(bytes);
        BTI_TRY(bti_engine_work(&work));
    }
    for (int i = 1; addresses && i < count; i++) memcpy(hosts[i], hosts[0], bytes);
    return BT_OK;
}

const bti_driver bti_driver_sim = {
    .name = "sim",
    .granularity = BTI_KERNEL,
    .kinds = (1u << BT_KIND_COUNT) - 1,
    .probe = probe,
    .open = sim_open,
    .close = sim_close,
    .alloc = sim_alloc,
    .free = sim_free,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .program_load = program_load,
    .program_free = program_free,
    .launch = launch,
    .launch_kernel = launch_kernel,
    .record = record,
    .wait = wait_event,
    .query = query,
    .sync = sync_device,
    .memory = memory,
    .peer_copy = peer_copy,
    .graph_begin = graph_begin,
    .graph_end = graph_end,
    .graph_run = graph_run,
    .graph_free = graph_free,
    .all_reduce = all_reduce,
};

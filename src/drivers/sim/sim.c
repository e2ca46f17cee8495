/* Simulated devices of any kind. Kernels are the CPU's: a launch computes on the calling thread and on as many cores as the flag
 * sim_threads allows. Memory is separate (sim_memory.h), calls can be made to fail (sim_flags.h) and transfers to take time (sim_time.h).
 * Three rows of the table: devices without a model, whose work is done when a call returns; cards with one, which are asynchronous in virtual time and get the plans
 * of CUDA's; CPUs with one, whose work takes the host's virtual time, and which get the CPU's plans. */
#include "drivers/driver.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/trace.h"
#include "drivers/cuda/facts.h"
#include "drivers/sim/sim_device.h"
#include "drivers/sim/sim_events.h"

enum { ALL_KINDS = (1u << BT_KIND_COUNT) - 1 };

/* --- opening ------------------------------------------------------------------------------------------------------ */

static bool has_model(int kind, int index) { return bti_sim_has_model(bti_sim_configured(), kind, index); }
static const bti_sim_model *model_of(int kind, int index) { return &bti_sim_configured()->models[kind][index]; }

static size_t memory_of(int kind, int index) {
    size_t bytes = bti_sim_configured()->bytes[kind][index];
    if (bytes) return bytes;
    return has_model(kind, index) ? (size_t)(model_of(kind, index)->memory * 1e9) : bti_flag_bytes(BTI_FLAG_sim_memory);
}

static void describe_device(int kind, int index, bti_device_facts *f) {
    static const char *const names[BT_KIND_COUNT] = {"CPU", "GPU", "TPU", "accelerator"};
    *f = (bti_device_facts){.kind = (bt_kind)kind, .ordinal = kind * BTI_SIM_MAX + index};
    f->memory_bytes = memory_of(kind, index);
    snprintf(f->description, sizeof f->description, "Simulated %s", names[kind]);
    snprintf(f->driver_version, sizeof f->driver_version, "1");
    if (kind == BT_GPU) snprintf(f->uuid, sizeof f->uuid, "GPU-51000000-0000-0000-0000-%012d", index);
    if (!has_model(kind, index)) return;
    const bti_sim_model *model = model_of(kind, index);
    snprintf(f->description, sizeof f->description, "Simulated %.80s", model->description);
    f->capability_major = model->capability_major;
    f->capability_minor = model->capability_minor;
    for (int i = 0; i < bti_sim_configured()->count[kind] && model->link > 0; i++)
        if (i != index && model_of(kind, i)->link > 0) f->linked |= (uint64_t)1 << (kind * BTI_SIM_MAX + i);
}

static void list_devices(bool modelled, unsigned kinds, bti_device_facts *facts, int capacity, int *count) {
    *count = 0;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++)
        for (int i = 0; i < bti_sim_configured()->count[kind]; i++) {
            if (has_model(kind, i) != modelled || !(kinds >> kind & 1)) continue;
            if (*count < capacity) describe_device(kind, i, &facts[*count]);
            ++*count;
        }
}

static bt_status sim_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds;
    list_devices(false, ALL_KINDS, facts, capacity, count);
    if (!*count) bti_str_add(reason, "sim: no simulated device was asked for (flag devices)\n");
    return BT_OK;
}

static bt_status timed_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)reason; /* sim's says it */
    list_devices(true, 1u << BT_GPU, facts, capacity, count);
    return BT_OK;
}

static bt_status timed_cpu_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    (void)kinds, (void)reason;
    list_devices(true, 1u << BT_CPU, facts, capacity, count);
    return BT_OK;
}

static bt_status sim_open(int ordinal, const bti_allocator *allocator, void **opened) {
    int kind = ordinal / BTI_SIM_MAX, index = ordinal % BTI_SIM_MAX;
    BTI_TRY(bti_sim_fault("open", (bt_kind)kind, index));
    bti_sim_device *device = bti_calloc(1, sizeof *device);
    if (!device) return bti_no_memory();
    device->kind = (bt_kind)kind;
    device->index = index;
    device->id = allocator->device;
    if (has_model(kind, index)) device->engines.model = *model_of(kind, index);
    bti_sim_memory_init(&device->memory, ordinal, memory_of(kind, index));
    device->memory.without_data = has_model(kind, index) && !bti_flag_bool(BTI_FLAG_sim_data);
    bti_sim_touched_init(&device->engines.touched);
    bti_sim_touched_init(&device->engines.linked);
    *opened = device;
    return BT_OK;
}

static void sim_close(void *opened) {
    bti_sim_device *device = opened;
    bti_sim_memory_free(&device->memory);
    bti_sim_touched_free(&device->engines.touched);
    bti_sim_touched_free(&device->engines.linked);
    bti_free(device);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static bt_status sim_alloc(void *opened, size_t bytes, uint64_t *address) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("alloc");
    bti_sim_took_call(&device->engines);
    return bti_sim_memory_alloc(&device->memory, bytes, address);
}

static void sim_free(void *opened, uint64_t address, size_t bytes) {
    (void)bytes;
    bti_sim_memory_release(&((bti_sim_device *)opened)->memory, address);
}

static bt_status sim_memory_sizes(void *opened, size_t *free_bytes, size_t *total_bytes) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("memory");
    bti_sim_memory_sizes(&device->memory, free_bytes, total_bytes);
    return BT_OK;
}

static bt_status translate_address(bti_sim_device *device, const char *what, uint64_t address, uint64_t bytes,
                                   char **host) {
    return bti_sim_memory_translate(&device->memory, what, address, bytes, host);
}

/* As translate_address, for the host, which must have waited for work that uses these bytes. */
static bt_status reach_memory(bti_sim_device *device, const char *what, uint64_t address, uint64_t bytes, bool writes,
                              char **host) {
    char name[32];
    snprintf(name, sizeof name, "%s:%d", bti_kind_name(device->kind), device->index);
    BTI_TRY(bti_sim_may_use(&device->engines, what, name, address, bytes, writes));
    return translate_address(device, what, address, bytes, host);
}

/* --- transfers ---------------------------------------------------------------------------------------------------- */

static bt_status sim_upload(void *opened, uint64_t address, const void *host, size_t bytes) {
    bti_sim_device *device = opened;
    char *memory;
    BTI_SIM_FAULT("upload");
    BTI_TRY(reach_memory(device, "upload", address, bytes, true, &memory));
    if (bti_sim_has_data(device)) memcpy(memory, host, bytes);
    bti_sim_took_transfer(&device->engines, true, bytes);
    return BT_OK;
}

/* In place of data that the device does not hold. */
static void give_zeros(bti_sim_device *device, void *host, size_t bytes) {
    bti_place place = bti_call_place();
    memset(host, 0, bytes);
    bti_trace_zeros(device->id, bytes);
    if (atomic_exchange(&device->gave_zeros, true)) return;
    bti_log("berth: flag sim_data is off: %s at %s:%d is given zeros, and so are later reads",
            place.name ? place.name : "a call", place.site.file ? bti_site_file(place.site) : "", place.site.line);
}

static bt_status sim_download(void *opened, void *host, uint64_t address, size_t bytes) {
    bti_sim_device *device = opened;
    char *memory;
    BTI_SIM_FAULT("download");
    BTI_TRY(reach_memory(device, "download", address, bytes, false, &memory));
    if (bti_sim_has_data(device))
        memcpy(host, memory, bytes);
    else
        give_zeros(device, host, bytes);
    bti_sim_took_transfer(&device->engines, false, bytes);
    return BT_OK;
}

static bt_status timed_fetch(void *opened, void *host, uint64_t address, bti_event made, size_t bytes,
                             bti_work_end *end) {
    bti_sim_device *device = opened;
    uint64_t made_ns = bti_sim_event_ns(made);
    char *memory;
    BTI_SIM_FAULT("download");
    BTI_TRY(bti_sim_may_send(&device->engines, made_ns, address, bytes, false));
    BTI_TRY(translate_address(device, "download", address, bytes, &memory));
    if (bti_sim_has_data(device))
        memcpy(host, memory, bytes);
    else
        give_zeros(device, host, bytes);
    bti_sim_took_fetch(&device->engines, bytes, made_ns, end);
    bti_sim_link_uses(&device->engines, address, bytes, false, end->end_ns);
    end->event.value |= made.value & BTI_SIM_HUNG;
    return BT_OK;
}

static void took_move(bti_sim_device *device, size_t read_bytes, size_t written_bytes) {
    bti_sim_demand demand = bti_sim_demand_of_move(&device->engines.model, (double)read_bytes, (double)written_bytes);
    bti_sim_took_launch(&device->engines, &demand);
}

static bt_status sim_copy(void *opened, uint64_t to, uint64_t from, size_t bytes) {
    bti_sim_device *device = opened;
    char *target, *source;
    BTI_SIM_FAULT("copy");
    BTI_TRY(translate_address(device, "copy", to, bytes, &target));
    BTI_TRY(translate_address(device, "copy", from, bytes, &source));
    BTI_TRY(bti_sim_uses(&device->engines, to, bytes, true));
    BTI_TRY(bti_sim_uses(&device->engines, from, bytes, false));
    if (bti_sim_has_data(device)) memmove(target, source, bytes);
    took_move(device, bytes, bytes);
    return BT_OK;
}

static bt_status copy_from_peer(bti_sim_device *device, uint64_t to, bti_sim_device *from_device, uint64_t from,
                                size_t bytes) {
    char *target, *source;
    BTI_SIM_FAULT("peer_copy");
    BTI_TRY(translate_address(device, "peer copy", to, bytes, &target));
    BTI_TRY(translate_address(from_device, "peer copy", from, bytes, &source));
    if (bti_sim_has_data(device)) memcpy(target, source, bytes);
    return BT_OK;
}

static bt_status sim_peer_copy(void *to_device, uint64_t to, void *from_device, uint64_t from, size_t bytes) {
    BTI_TRY(copy_from_peer(to_device, to, from_device, from, bytes));
    bti_sim_took_peer_copy(bytes);
    return BT_OK;
}

static bt_status sim_fill(void *opened, uint64_t address, int byte, size_t bytes) {
    bti_sim_device *device = opened;
    char *memory;
    BTI_SIM_FAULT("fill");
    BTI_TRY(translate_address(device, "fill", address, bytes, &memory));
    BTI_TRY(bti_sim_uses(&device->engines, address, bytes, true));
    if (bti_sim_has_data(device)) memset(memory, byte, bytes);
    took_move(device, 0, bytes);
    return BT_OK;
}

static bt_status sim_program_load(void *opened, const bti_program_source *source, void **program) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("program_load");
    return bti_cpu_program_load(NULL, source, program);
}

/* --- copies between cards --------------------------------------------------------------------------------------------- */

static bt_status timed_send(void *to_device, uint64_t to, const bti_event *idle, void *from_device, uint64_t from,
                            const bti_event *made, size_t bytes, bti_work_end *end) {
    bti_sim_engines *target = &((bti_sim_device *)to_device)->engines,
                    *source = &((bti_sim_device *)from_device)->engines;
    uint64_t made_ns = made ? bti_sim_event_ns(*made) : 0, idle_ns = idle ? bti_sim_event_ns(*idle) : 0;
    uint64_t after = idle_ns > made_ns ? idle_ns : made_ns;
    BTI_TRY(bti_sim_may_send(target, idle_ns, to, bytes, true));
    BTI_TRY(bti_sim_may_send(source, made_ns, from, bytes, false));
    BTI_TRY(copy_from_peer(to_device, to, from_device, from, bytes));
    bti_sim_took_send(target, source, bytes, after, end);
    bti_sim_link_uses(target, to, bytes, true, end->end_ns);
    bti_sim_link_uses(source, from, bytes, false, end->end_ns);
    return BT_OK;
}

/* --- the tables ----------------------------------------------------------------------------------------------------- */

/* Its kernels run on cores, so these are a CPU's; but launches and products are a GPU's. */
static const bti_target_facts sim_facts = {BTI_CPU_FACTS, .epilogues = true, .launch_boxes = 24};
static const bti_target_facts timed_facts = {BTI_CUDA_FACTS, .is_fetched = true},
                              timed_cpu_facts = {BTI_CPU_FACTS, .launch_boxes = 1};

#define ENTRIES_OF_ALL                                                                                          \
    .simulated = true, .open = sim_open, .close = sim_close, .alloc = sim_alloc, .free = sim_free,              \
    .upload = sim_upload, .download = sim_download, .copy = sim_copy, .fill = sim_fill,                         \
    .program_load = sim_program_load, .program_free = bti_cpu_program_free, .text_lacked = bti_cpu_text_lacked, \
    .text_give = bti_cpu_text_give, .launch = bti_sim_launch, .launch_kernel = bti_sim_launch_kernel,           \
    .memory = sim_memory_sizes, .all_reduce = bti_sim_all_reduce

#define ENTRIES_OF_CARDS                                                                                      \
    .launch_boxes = bti_sim_launch_boxes, .launch_product = bti_sim_launch_product,                           \
    .graph_begin = bti_sim_graph_begin, .graph_update = bti_sim_graph_update, .graph_end = bti_sim_graph_end, \
    .graph_run = bti_sim_graph_run, .graph_free = bti_sim_graph_free, .mark = bti_sim_mark,                   \
    .read_mark = bti_sim_read_mark

#define ENTRIES_OF_TIMED                                                                         \
    .async = true, .record = bti_timed_record, .wait = bti_timed_wait, .query = bti_timed_query, \
    .wait_until = bti_timed_wait_until, .sync = bti_timed_sync, .complete_at = bti_timed_complete_at

const bti_driver bti_driver_sim = {ENTRIES_OF_ALL,
                                   ENTRIES_OF_CARDS,
                                   .name = "sim",
                                   .target = &sim_facts,
                                   .kinds = ALL_KINDS,
                                   .probe = sim_probe,
                                   .record = bti_sim_record,
                                   .wait = bti_sim_wait,
                                   .query = bti_sim_query,
                                   .wait_until = bti_sim_wait_until,
                                   .sync = bti_sim_sync,
                                   .peer_copy = sim_peer_copy};

const bti_driver bti_driver_timed = {ENTRIES_OF_ALL,       ENTRIES_OF_CARDS,       ENTRIES_OF_TIMED,
                                     .name = "timed",      .target = &timed_facts, .kinds = 1u << BT_GPU,
                                     .probe = timed_probe, .send = timed_send,     .follow = bti_timed_follow,
                                     .fetch = timed_fetch};

const bti_driver bti_driver_timed_cpu = {ENTRIES_OF_ALL,        ENTRIES_OF_TIMED,
                                         .name = "timed_cpu",   .target = &timed_cpu_facts,
                                         .kinds = 1u << BT_CPU, .probe = timed_cpu_probe};

/* The driver entries behind checks: opened first, sizes of 0 skipped, what optional entries leave out filled in. */
#include "base/lock.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "base/libraries.h"
#include "base/trace.h"
#include "device/late.h"
#include "device/memory.h"
#include "device/pinned_list.h"
#include "device/pool.h"
#include "device/program.h"
#include "device/registry.h"
#include "device/timings.h"

#define CHUNK_BYTES ((size_t)4 << 20) /* of copies over the host */

/* --- opening ------------------------------------------------------------------------------------------------------ */

static bt_status open_driver(void *opened) {
    bt_device *device = opened;
    const bti_allocator allocator = {device->id, bti_memory_lend, bti_memory_take_back};
    return device->driver->open(device->facts.ordinal, &allocator, &device->state);
}

static bt_status open_locked(bt_device *device) {
    BTI_TRY(device->driver->third_party ? bti_libraries_open(open_driver, device) : open_driver(device));
    bt_status status = bti_memory_open(device);
    if (status == BT_OK) {
        device->programs = bti_programs_new();
        if (device->programs) {
            bti_flags_pass(BTI_BEFORE_OPEN);
            bti_device_note_opened(1);
            atomic_store_explicit(&device->opened, true, memory_order_release);
            return BT_OK;
        }
        status = bti_no_memory();
    }
    bti_pool_delete(device->pool);
    device->pool = NULL;
    device->driver->close(device->state);
    return status;
}

static bt_status open_traced(bt_device *device) {
    uint64_t start = bti_trace_begin();
    bti_trace_name_device(device->id, device->name);
    bt_status status = open_locked(device);
    bti_trace_end(BTI_TRACE_OPEN, device->name, start);
    return status;
}

static void (*_Atomic opened_hook)(int device);

void bti_device_set_opened(void (*opened)(int device)) { atomic_store(&opened_hook, opened); }

bt_status bti_device_open(int id) {
    BTI_TRY(bti_device_check_fork());
    bt_device *device = bti_registry_at(id);
    if (device && atomic_load_explicit(&device->opened, memory_order_acquire))
        return bti_device_is_late(id) ? bti_device_check_late(id) : BT_OK;
    BTI_TRY(bti_registry_check(0));
    device = bti_registry_at(id);
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "there is no device number %d", id);
    BTI_NO_CANCEL;
    bool opens = false;
    bti_lock_take(&device->lock);
    bt_status status = BT_OK;
    if (atomic_load(&device->retired))
        status = bti_fail(BT_FAILED_PRECONDITION, "%s was replaced by a simulated device", device->name);
    else if (!atomic_load(&device->opened))
        status = open_traced(device), opens = true;
    bti_lock_give(&device->lock);
    void (*opened)(int device) = atomic_load(&opened_hook);
    if (opens && opened && status == BT_OK) opened(id);
    return status;
}

static void close_device(bt_device *device) {
    if (!atomic_load(&device->opened) || bti_device_forked()) return;
    bti_programs_delete(device);
    bti_pool_delete(device->pool);
    atomic_store(&device->lent, 0);
    device->driver->close(device->state);
    device->programs = NULL;
    device->pool = NULL;
    atomic_store(&device->opened, false);
    bti_device_note_opened(-1);
    bti_device_forget_copied(device->id);
}

void bti_device_shutdown(void) {
    bti_error *before = bti_error_last();
    bool in_child = bti_device_check_fork() != BT_OK; /* what is open is the parent's */
    bti_error_put_back(before);
    if (in_child) return;
    for (int id = bti_registry_total() - 1; id >= 0; id--) close_device(bti_registry_at(id));
    bti_registry_forget();
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* Memory of the host that the device copies directly is used as it is. */
static bt_status upload(const bt_device *device, uint64_t address, const void *host, size_t bytes) {
    bti_pinned *pinned = bti_pinned_use(device->driver, host, bytes);
    if (!pinned) return device->driver->upload(device->state, address, host, bytes);
    bt_status status = device->driver->upload_pinned(device->state, address, host, bytes);
    bti_pinned_leave(pinned);
    return status;
}

static bt_status download(const bt_device *device, void *host, uint64_t address, size_t bytes) {
    bti_pinned *pinned = bti_pinned_use(device->driver, host, bytes);
    if (!pinned) return device->driver->download(device->state, host, address, bytes);
    bt_status status = device->driver->download_pinned(device->state, host, address, bytes);
    bti_pinned_leave(pinned);
    return status;
}

bt_status bti_device_upload(int id, uint64_t address, const void *host, size_t bytes) {
    BTI_TRY(bti_device_open(id));
    if (!bytes) return BT_OK;
    bt_device *device = bti_registry_at(id);
    uint64_t start = bti_trace_begin();
    BTI_TRY(upload(device, address, host, bytes));
    bti_device_count_copy(-1, id, bytes);
    bti_trace_copy(start, bti_trace_now(), -1, id, bytes);
    return BT_OK;
}

bt_status bti_device_download(int id, void *host, uint64_t address, size_t bytes) {
    BTI_TRY(bti_device_open(id));
    if (!bytes) return BT_OK;
    bt_device *device = bti_registry_at(id);
    uint64_t start = bti_trace_begin();
    BTI_TRY(download(device, host, address, bytes));
    bti_device_count_copy(id, -1, bytes);
    bti_trace_copy(start, bti_trace_now(), id, -1, bytes);
    return BT_OK;
}

bt_status bti_device_fill(int id, uint64_t address, int byte, size_t bytes) {
    BTI_TRY(bti_device_open(id));
    if (!bytes) return BT_OK;
    bt_device *device = bti_registry_at(id);
    return device->driver->fill(device->state, address, byte, bytes);
}

void bti_device_fill_idle(int id, uint64_t address, size_t bytes) {
    bt_device *device = bti_registry_at(id);
    if (!device || !atomic_load_explicit(&device->opened, memory_order_acquire) || bti_device_is_late(id)) return;
    size_t chunk = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
    void *nothing = bti_alloc(chunk);
    bti_errors_aside aside = bti_errors_aside_begin();
    if (nothing) memset(nothing, 0xff, chunk);
    for (size_t at = 0; at < bytes && nothing; at += chunk)
        if (device->driver->upload(device->state, address + at, nothing, bytes - at < chunk ? bytes - at : chunk))
            break;
    bti_errors_aside_end(aside);
    bti_free(nothing);
}

bt_status bti_device_copy_over_host(bt_device *to_device, uint64_t to, bt_device *from_device, uint64_t from,
                                    size_t bytes) {
    size_t chunk = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
    void *buffer = bti_alloc(chunk);
    if (!buffer)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory for a copy from %s to %s", from_device->name,
                        to_device->name);
    bt_status status = BT_OK;
    for (size_t done = 0; status == BT_OK && done < bytes; done += chunk) {
        if (chunk > bytes - done) chunk = bytes - done;
        status = from_device->driver->download(from_device->state, buffer, from + done, chunk);
        if (status == BT_OK) status = to_device->driver->upload(to_device->state, to + done, buffer, chunk);
    }
    bti_free(buffer);
    return status;
}

/* In the order of its launches. */
static bt_status copy_within(bt_device *device, uint64_t to, uint64_t from, size_t bytes) {
    bti_timing_start start = bti_timing_begin(device->id);
    bti_trace_event event = {0};
    bt_status status = device->driver->copy(device->state, to, from, bytes);
    if (start.ns) bti_trace_describe_copy(&event, device->id, device->id, bytes);
    bti_timing_end(device->id, &start, &event);
    return status;
}

static bt_status copy_between(bt_device *to_device, uint64_t to, bt_device *from_device, uint64_t from, size_t bytes) {
    const bti_driver *target = to_device->driver, *source = from_device->driver;
    if (target == source && target->peer_copy)
        return target->peer_copy(to_device->state, to, from_device->state, from, bytes);
    if (source->host_memory) return upload(to_device, to, (const void *)(uintptr_t)from, bytes);
    if (target->host_memory) return download(from_device, (void *)(uintptr_t)to, from, bytes);
    return bti_device_copy_over_host(to_device, to, from_device, from, bytes);
}

/* The host waits for the end. */
static bt_status copy_and_note(bt_device *to_device, uint64_t to, bt_device *from_device, uint64_t from, size_t bytes) {
    uint64_t start = bti_trace_begin();
    BTI_TRY(copy_between(to_device, to, from_device, from, bytes));
    bti_trace_copy(start, bti_trace_now(), from_device->id, to_device->id, bytes);
    return BT_OK;
}

bt_status bti_device_copy(int to_id, uint64_t to, int from_id, uint64_t from, size_t bytes) {
    BTI_TRY(bti_device_open(to_id));
    BTI_TRY(bti_device_open(from_id));
    if (!bytes) return BT_OK;
    bt_device *target = bti_registry_at(to_id), *source = bti_registry_at(from_id);
    BTI_TRY(target == source ? copy_within(target, to, from, bytes) : copy_and_note(target, to, source, from, bytes));
    bti_device_count_copy(from_id, to_id, bytes);
    return BT_OK;
}

bool bti_device_sends(int to_id, int from_id) {
    const bti_driver *driver = bti_registry_at(to_id)->driver;
    return driver->target->sends && driver == bti_registry_at(from_id)->driver && to_id != from_id;
}

bool bti_device_is_fetched(int to_id, int from_id) {
    return bti_registry_at(from_id)->driver->target->is_fetched && bti_registry_at(to_id)->driver->host_memory;
}

bt_status bti_device_send(int to_id, uint64_t to, const bti_event *idle, int from_id, uint64_t from,
                          const bti_event *made, size_t bytes, bti_work_end *end, bti_timings *timings) {
    BTI_TRY(bti_device_open(to_id));
    BTI_TRY(bti_device_open(from_id));
    const bt_device *target = bti_registry_at(to_id), *source = bti_registry_at(from_id);
    bti_trace_event event = {.start_ns = bti_trace_begin()};
    BTI_TRY(target->driver->send(target->state, to, idle, source->state, from, made, bytes, end));
    bti_device_count_copy(from_id, to_id, bytes);
    if (event.start_ns) bti_trace_describe_copy(&event, from_id, to_id, bytes);
    bti_timing_of_end(to_id, end, &event, timings);
    return BT_OK;
}

bool bti_device_fetches(int from_id) { return bti_registry_at(from_id)->driver->fetch; }

bt_status bti_device_fetch(int to_id, uint64_t to, int from_id, uint64_t from, bti_event made, size_t bytes,
                           bti_work_end *end, bti_timings *timings) {
    BTI_TRY(bti_device_open(to_id));
    BTI_TRY(bti_device_open(from_id));
    const bt_device *source = bti_registry_at(from_id);
    bti_trace_event event = {.start_ns = bti_trace_begin()};
    BTI_TRY(source->driver->fetch(source->state, (void *)(uintptr_t)to, from, made, bytes, end));
    bti_device_count_copy(from_id, to_id, bytes);
    if (event.start_ns) bti_trace_describe_copy(&event, from_id, to_id, bytes);
    bti_timing_of_end(from_id, end, &event, timings);
    return BT_OK;
}

/* --- memory and programs -------------------------------------------------------------------------------------------- */

bt_status bti_block_alloc(int id, size_t bytes, uint64_t completed, bool idle, bti_block **block) {
    *block = NULL;
    BTI_TRY(bti_device_open(id));
    return bti_pool_take(bti_registry_at(id)->pool, bytes, completed, idle ? BTI_IDLE_IF_CHEAP : BTI_ANY_BLOCK, block);
}

bt_status bti_block_alloc_at(int id, size_t bytes, uint64_t completed, uint64_t at, bti_block **block) {
    *block = NULL;
    BTI_TRY(bti_device_open(id));
    return bti_pool_take_at(bti_registry_at(id)->pool, bytes, completed, at, block);
}

bool bti_block_is_free_at(int id, size_t bytes, uint64_t at) {
    return at && bti_pool_is_free_at(bti_registry_at(id)->pool, bytes, at);
}

bt_status bti_device_program(int id, const bti_program_source *source, bti_program **program, bool *made) {
    *program = NULL;
    BTI_TRY(bti_device_open(id));
    return bti_programs_get(bti_registry_at(id), source, program, made);
}

bool bti_device_compiles_early(int id) { return bti_registry_at(id)->driver->third_party; }

/* --- work --------------------------------------------------------------------------------------------------------- */

const bti_target_facts *bti_device_target(int id) { return bti_registry_at(id)->driver->target; }
bool bti_device_has_clock(int id) { return bti_registry_at(id)->driver->complete_at; }
bool bti_device_is_async(int id) { return bti_registry_at(id)->driver->async; }
bool bti_device_runs_side_by_side(int id) { return bti_registry_at(id)->driver->side_by_side; }
bool bti_device_has_host_memory(int id) { return bti_registry_at(id)->driver->host_memory; }

bool bti_device_runs_libraries(int id) { return bti_registry_at(id)->driver->launch_library != NULL; }
bool bti_device_runs_series(int id) { return bti_registry_at(id)->driver->launch_series != NULL; }

void bti_device_launch_series(int id, bti_series *series) {
    bti_registry_at(id)->driver->launch_series(bti_registry_at(id)->state, series);
}

bt_status bti_device_record(int id, bti_event *event) {
    BTI_TRY(bti_device_open(id));
    return bti_registry_at(id)->driver->record(bti_registry_at(id)->state, event);
}

bt_status bti_device_query(int id, bti_event event, bool *done) {
    return bti_registry_at(id)->driver->query(bti_registry_at(id)->state, event, done);
}

bt_status bti_device_follow(int id, bti_event event) {
    const bt_device *device = bti_registry_at(id);
    return (device->driver->follow ? device->driver->follow : device->driver->wait)(device->state, event);
}

bool bti_device_follows(int id) { return bti_registry_at(id)->driver->follow != NULL; }

bool bti_device_records(int id) { return bti_registry_at(id)->driver->graph_begin != NULL; }

bt_status bti_device_graph_begin(int id) {
    return bti_registry_at(id)->driver->graph_begin(bti_registry_at(id)->state);
}

bt_status bti_device_graph_update(int id, void *graph, bool *can) {
    return bti_registry_at(id)->driver->graph_update(bti_registry_at(id)->state, graph, can);
}

bt_status bti_device_graph_end(int id, void **graph) {
    return bti_registry_at(id)->driver->graph_end(bti_registry_at(id)->state, graph);
}

bt_status bti_device_graph_run(int id, void *graph, bti_mark *marks, bool *stale) {
    return bti_registry_at(id)->driver->graph_run(bti_registry_at(id)->state, graph, marks, stale);
}

void bti_device_graph_free(int id, void *graph) {
    if (graph) bti_registry_at(id)->driver->graph_free(bti_registry_at(id)->state, graph);
}

/* Their common driver, which reduces over devices, and their states. */
static bt_status find_reducer(const int *ids, int count, void **states, const bti_driver **driver) {
    *driver = NULL;
    if (count < 1 || count > BTI_MAX_DEVICES)
        return bti_fail(BT_INVALID_ARGUMENT, "a fold over %d devices; there can be 1 to %d", count, BTI_MAX_DEVICES);
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_device_open(ids[i]));
        const bt_device *device = bti_registry_at(ids[i]);
        if (!*driver) *driver = device->driver;
        if (*driver != device->driver)
            return bti_fail(BT_UNIMPLEMENTED,
                            "%s and %s are of different drivers, %s and %s, which do not fold together",
                            bti_registry_at(ids[0])->name, device->name, (*driver)->name, device->driver->name);
        states[i] = device->state;
    }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (bti_registry_at(ids[i])->facts.ordinal == bti_registry_at(ids[k])->facts.ordinal)
                return bti_fail(BT_UNIMPLEMENTED, "%s and %s are one card (bt_set_logical_devices)",
                                bti_registry_at(ids[k])->name, bti_registry_at(ids[i])->name);
    if ((*driver)->all_reduce) return BT_OK;
    return bti_fail(BT_UNIMPLEMENTED, "the driver %s does not fold over devices", (*driver)->name);
}

bt_status bti_device_can_all_reduce(const int *ids, int count, bt_dtype dtype, bti_op op) {
    void *states[BTI_MAX_DEVICES];
    const bti_driver *driver;
    BTI_TRY(find_reducer(ids, count, states, &driver));
    return driver->all_reduce(states, count, &(bti_reduction){.dtype = dtype, .op = op}, NULL, NULL);
}

bt_status bti_device_all_reduce(const int *ids, int count, const bti_reduction *what, const bti_event *after,
                                bti_work_end *ends) {
    void *states[BTI_MAX_DEVICES];
    const bti_driver *driver;
    BTI_TRY(find_reducer(ids, count, states, &driver));
    for (int i = 0; i < count; i++) ends[i] = (bti_work_end){0};
    return driver->all_reduce(states, count, what, after, ends);
}

bt_status bti_device_finish(int id) {
    bti_event event;
    BTI_TRY(bti_device_record(id, &event));
    return bti_device_wait_last(id, event);
}

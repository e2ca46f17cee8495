#include "exec/buffer.h"

#include "exec/host.h"
#include "exec/packed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/lock.h"
#include "base/recycle.h"
#include "base/thread.h"
#include "base/trace.h"
#include "device/late.h"
#include "device/table.h"
#include "exec/queue.h"

typedef struct live_list {
    _Alignas(BTI_LINE) bti_lock lock;
    bti_buffer *first[BTI_MAX_DEVICES];
} live_list;
static live_list live[BTI_SHARDS] = {[0 ... BTI_SHARDS - 1] = {.lock = BTI_LOCK_INIT(live_buffers)}};
BTI_RENEWED_LOCKS(live, live_buffers)

static bti_counter alive;
uint64_t bti_buffers_alive(void) { return (uint64_t)bti_counter_sum(&alive); }

/* Waits for all work of the device; returns the number of the last one. */
static uint64_t drain(int device) {
    bti_run_queue_wait(device, bti_run_queue_submitted(device));
    return bti_run_queue_completed(device);
}

/* The layers below call up through these. */
__attribute__((constructor)) static void tell_below(void) {
    bti_node_set_buffer_release(bti_buffer_release);
    bti_device_set_issued(bti_run_queue_issued);
}

bti_buffer *bti_buffer_new(int device, size_t bytes, const bti_node *node) {
    bti_buffer *buffer = bti_recycled_new(sizeof *buffer);
    if (!buffer) return NULL;
    atomic_init(&buffer->refs, 1);
    bti_counter_add(&alive, 1);
    buffer->device = device;
    buffer->bytes = bytes;
    buffer->place = node->place;
    buffer->dtype = (bt_dtype)node->dtype;
    buffer->rank = node->rank;
    memcpy(buffer->shape, node->shape, sizeof buffer->shape);
    return buffer;
}

bti_buffer *bti_buffer_retain(bti_buffer *buffer) {
    if (buffer) atomic_fetch_add(&buffer->refs, 1); /* before a look at `taken` */
    return buffer;
}

void bti_buffer_list(bti_buffer *buffer) {
    if (buffer->listed) return;
    buffer->listed = true;
    buffer->list = (uint8_t)bti_shard();
    live_list *list = &live[buffer->list];
    bti_lock_take(&list->lock);
    buffer->next = list->first[buffer->device];
    if (buffer->next) buffer->next->previous = buffer;
    list->first[buffer->device] = buffer;
    bti_lock_give(&list->lock);
    bti_device_count_arrays(buffer->device, 1);
}

static void unlist(bti_buffer *buffer) {
    live_list *list = &live[buffer->list];
    bti_lock_take(&list->lock);
    if (buffer->previous)
        buffer->previous->next = buffer->next;
    else
        list->first[buffer->device] = buffer->next;
    if (buffer->next) buffer->next->previous = buffer->previous;
    buffer->previous = NULL; /* it may be listed again */
    bti_lock_give(&list->lock);
    buffer->listed = false;
    bti_device_count_arrays(buffer->device, -1);
}

static atomic_int_fast64_t pending[BTI_MAX_DEVICES];
int64_t bti_buffers_pending(int device) { return atomic_load_explicit(&pending[device], memory_order_relaxed); }

/* Only runs use it from now on. */
static void note_pending(bti_buffer *buffer) {
    buffer->pending = true;
    atomic_fetch_add_explicit(&pending[buffer->device], (int64_t)buffer->bytes, memory_order_relaxed);
}

static void free_block(bti_buffer *buffer, uint64_t busy_until) {
    if (bti_flag_bool(BTI_FLAG_memory_fill) && bti_run_queue_completed(buffer->device) >= busy_until)
        bti_device_fill_idle(buffer->device, buffer->address, buffer->bytes);
    bti_block_free(buffer->block, busy_until);
    buffer->block = NULL;
}

/* When what runs on the queue is done with it. On devices where work runs beside the queue much of the memory was never used there. */
static uint64_t last_use(const bti_buffer *buffer) {
    bool beside = bti_device_runs_side_by_side(buffer->device);
    return beside ? buffer->used_until : bti_run_queue_submitted(buffer->device);
}

void bti_buffer_give_back(bti_buffer *buffer, uint64_t busy_until) {
    if (!buffer->block) return;
    free_block(buffer, busy_until);
    note_pending(buffer);
}

static void destroy(bti_buffer *buffer) {
    if (bti_packed_is_any(buffer)) bti_packed_drop(buffer);
    if (buffer->pending)
        atomic_fetch_sub_explicit(&pending[buffer->device], (int64_t)buffer->bytes, memory_order_relaxed);
    if (buffer->loan.end) buffer->loan.end(buffer->loan.lender);
    bti_error_release(atomic_load(&buffer->error));
    bti_counter_add(&alive, -1);
    bti_recycled_free(buffer, sizeof *buffer);
}

#define BY_RUN (UINT64_C(1) << 32)
#define BY_COPY (UINT64_C(1) << 48)

/* The block is given back by whoever ends the last reference that is not a run's. */
void bti_buffer_leave_to_run(bti_buffer *buffer) {
    uint64_t before = atomic_fetch_add_explicit(&buffer->refs, BY_RUN - 1, memory_order_acq_rel);
    if ((uint32_t)before != 1) return;
    if (buffer->listed) unlist(buffer);
    if (before >= BY_COPY)
        note_pending(buffer);
    else
        bti_buffer_give_back(buffer, last_use(buffer));
}

void bti_buffer_hold(bti_buffer *buffer) { atomic_fetch_add_explicit(&buffer->refs, BY_COPY, memory_order_relaxed); }

void bti_buffer_let_go(bti_buffer *buffer) {
    uint64_t before = atomic_fetch_sub_explicit(&buffer->refs, BY_COPY, memory_order_acq_rel);
    if (before < 2 * BY_COPY && !(uint32_t)before && buffer->block) free_block(buffer, last_use(buffer));
}

bool bti_buffer_is_held(const bti_buffer *buffer) { return buffer && atomic_load(&buffer->refs) >= BY_COPY; }

void bti_buffer_release_run(bti_buffer *buffer) {
    if (atomic_fetch_sub_explicit(&buffer->refs, BY_RUN, memory_order_acq_rel) == BY_RUN) destroy(buffer);
}

void bti_buffer_release(bti_buffer *buffer) {
    if (!buffer || bti_device_forked())
        return; /* a child: the memory is its parent's, and a lock may be held by no one */
    if (atomic_load_explicit(&buffer->refs, memory_order_acquire) == 1) {
        if (buffer->listed) unlist(buffer);
        if (buffer->block) free_block(buffer, last_use(buffer));
        destroy(buffer);
        return;
    }
    bti_buffer_leave_to_run(buffer);
    bti_buffer_release_run(buffer);
}

/* --- given up ------------------------------------------------------------------------------------------------------- */

/* Who holds it sees that it is taken, or is seen by who takes it. */
bt_status bti_buffer_use(bti_buffer *buffer) {
    atomic_fetch_add(&buffer->refs, 1);
    if (!atomic_load(&buffer->taken)) return BT_OK;
    bti_place by = buffer->taken_by;
    bti_buffer_release(buffer);
    return bti_fail(BT_INVALID_ARGUMENT, "the array was donated to %s at %s:%d meanwhile", by.name ? by.name : "a call",
                    bti_site_file(by.site), by.site.line);
}

bt_status bti_buffer_map(bti_buffer *buffer) {
    BTI_TRY(bti_buffer_use(buffer));
    atomic_store(&buffer->mapped, true);
    bti_buffer_release(buffer);
    return BT_OK;
}

bool bti_buffer_take(bti_buffer *buffer, uint32_t holders, bool beside_runs) {
    if (!buffer->block) return false;
    buffer->taken_by = bti_call_place();
    atomic_store(&buffer->taken, true);
    uint64_t refs = atomic_load(&buffer->refs);
    bool alone = (uint32_t)refs == holders && refs < (beside_runs ? BY_RUN : BY_COPY) && !atomic_load(&buffer->mapped);
    if (alone) bti_packed_drop(buffer);
    if (alone && buffer->listed) unlist(buffer);
    if (!alone) atomic_store(&buffer->taken, false);
    return alone;
}

void bti_buffer_untake(bti_buffer *buffer) {
    bti_buffer_list(buffer);
    atomic_store(&buffer->taken, false);
}

void bti_buffer_pass(bti_buffer *from, bti_buffer *to) {
    to->block = from->block;
    to->address = from->address;
    from->block = NULL;
}

static const bti_reserve_observer *_Atomic reserve_observer;
void bti_exec_observe_reserve(const bti_reserve_observer *observer) { atomic_store(&reserve_observer, observer); }
const bti_reserve_observer *bti_reserve_observer_now(void) { return atomic_load(&reserve_observer); }

static bt_status take_memory(bti_buffer *buffer, bool idle) {
    int device = buffer->device;
    uint64_t completed = bti_run_queue_completed(device);
    if (idle) return bti_block_alloc(device, buffer->bytes, completed, true, &buffer->block);
    return bti_block_alloc_at(device, buffer->bytes, completed, buffer->address, &buffer->block);
}

static void (*_Atomic settle)(void);
void bti_exec_set_settle(void (*function)(void)) { atomic_store(&settle, function); }
void bti_exec_settle(void) {
    void (*function)(void) = atomic_load(&settle);
    if (function) function();
}

static void empty_and_trim(int device) {
    bti_packed_trim(device);
    uint64_t completed = drain(device);
    (void)bti_devices_release_held(true);
    if (!bti_reserve_observer_now()) bti_exec_settle(); /* an observer's lock comes after those that this takes */
    bti_pool_trim(device, completed);
}

static bti_counter aside;
void bti_buffers_run_aside(int change) { bti_counter_add(&aside, change); }

enum { ASIDE_TRIES = 2000, ASIDE_US = 100 };

/* What other threads run beside the queue is no one's to wait for by number. It ends by itself, and waits for nothing. */
static bt_status take_what_ends(bti_buffer *buffer, bool idle) {
    bt_status status = BT_RESOURCE_EXHAUSTED;
    for (int i = 0; i < ASIDE_TRIES && status == BT_RESOURCE_EXHAUSTED && bti_counter_sum(&aside) > 0; i++) {
        usleep(ASIDE_US);
        bti_pool_trim(buffer->device, bti_run_queue_completed(buffer->device));
        status = take_memory(buffer, idle);
    }
    return status;
}

/* Work in flight holds memory until it is done, and values that it replaces: first that on the device itself, then that on others, which read from it and
 * may have their memory from the same host. */
static bt_status reserve(bti_buffer *buffer, bool idle) {
    bt_status status = take_memory(buffer, idle);
    if (status == BT_RESOURCE_EXHAUSTED) {
        empty_and_trim(buffer->device);
        status = take_memory(buffer, idle);
    }
    if (status == BT_RESOURCE_EXHAUSTED) {
        for (int device = 0; device < bti_device_count(); device++) empty_and_trim(device);
        status = take_memory(buffer, idle);
    }
    if (status == BT_RESOURCE_EXHAUSTED) status = take_what_ends(buffer, idle);
    if (status == BT_OK) buffer->address = buffer->block->address;
    return status;
}

bt_status bti_buffer_reserve(bti_buffer *buffer, bool idle) {
    if (buffer->bytes == 0) return BT_OK;
    bool before = bti_errors_quiet(true); /* the report of memory that is short comes from the caller */
    bt_status status = reserve(buffer, idle);
    bti_errors_quiet(before);
    if (status != BT_OK && status != BT_RESOURCE_EXHAUSTED) {
        bti_error *error = bti_error_last();
        bti_error_tell(error);
        bti_error_release(error);
    }
    return status;
}

bti_error *bti_buffer_error(bti_buffer *buffer) { return buffer ? atomic_load(&buffer->error) : NULL; }

void bti_buffer_fail(bti_buffer *buffer, bti_error *error) { bti_error_stick(&buffer->error, error); }

bool bti_buffer_done(const bti_buffer *buffer) { return bti_run_queue_completed(buffer->device) >= buffer->ready; }

bt_status bti_buffer_wait(bti_buffer *buffer) {
    BTI_TRY(bti_device_check_fork());
    if (!bti_buffer_done(buffer)) {
        BTI_TRY(bti_host_check());
        uint64_t start = bti_trace_begin();
        bti_run_queue_wait(buffer->device, buffer->ready);
        bti_trace_end(BTI_TRACE_WAIT, "a result", start);
    }
    return bti_fail_with(bti_buffer_error(buffer));
}

bt_status bti_buffer_read(bti_buffer *buffer, size_t offset, void *host, size_t bytes) {
    BTI_TRY(bti_buffer_wait(buffer));
    if (bytes == 0) return BT_OK;
    BTI_TRY(bti_buffer_use(buffer));
    bt_status status = bti_device_download(buffer->device, host, buffer->address + offset, bytes);
    bti_buffer_release(buffer);
    return status;
}

bt_status bti_buffer_from_host(const bti_node *node, const void *data, bti_buffer **out) {
    BTI_TRY(bti_host_check());
    size_t bytes = (size_t)bti_node_bytes(node);
    bti_buffer *buffer = bti_buffer_new(node->device, bytes, node);
    if (!buffer) return bti_no_memory();
    const bti_reserve_observer *observer = bti_reserve_observer_now();
    if (observer) observer->begin_upload(buffer);
    bt_status status = bti_buffer_reserve(buffer, true);
    if (observer) observer->end(status == BT_OK);
    if (status == BT_RESOURCE_EXHAUSTED) {
        bti_type type = bti_type_of(node);
        bti_error *error = bti_out_of_memory(node->device, (int64_t)bytes, node, &type, NULL, bt_error_text());
        status = bti_fail_with(error);
        bti_error_release(error);
    }
    if (status == BT_OK && bytes) {
        bti_run_queue_wait(node->device, buffer->block->busy_until);
        status = bti_device_upload(node->device, buffer->address, data, bytes);
    }
    if (status != BT_OK) {
        bti_buffer_release(buffer);
        return status;
    }
    bti_buffer_list(buffer);
    *out = buffer;
    return BT_OK;
}

bt_status bti_buffer_lent(const bti_node *node, const void *data, bti_loan loan, bti_buffer **out) {
    bti_buffer *buffer = bti_buffer_new(node->device, (size_t)bti_node_bytes(node), node);
    if (!buffer) return bti_no_memory();
    buffer->address = (uint64_t)(uintptr_t)data;
    buffer->loan = loan;
    bti_buffer_list(buffer);
    *out = buffer;
    return BT_OK;
}

/* --- the out-of-memory report -------------------------------------------------------------------------------------- */

#define REPORTED 10

typedef struct entry {
    size_t bytes;
    bti_place place;
    bt_dtype dtype;
    int rank;
    int64_t shape[BTI_MAX_RANK];
} entry;

static int add_largest(const bti_buffer *b, entry *top, int count) {
    int at = count < REPORTED ? count++ : REPORTED;
    while (at > 0 && top[at - 1].bytes < b->bytes) {
        if (at < REPORTED) top[at] = top[at - 1];
        at--;
    }
    if (at == REPORTED) return count;
    top[at] = (entry){b->bytes, b->place, b->dtype, b->rank, {0}};
    memcpy(top[at].shape, b->shape, sizeof b->shape);
    return count;
}

static int largest_live(int device, entry *top) {
    int count = 0;
    for (int i = 0; i < BTI_SHARDS; i++) {
        bti_lock_take(&live[i].lock);
        for (const bti_buffer *b = live[i].first[device]; b; b = b->next) count = add_largest(b, top, count);
        bti_lock_give(&live[i].lock);
    }
    return count;
}

static void add_place(bti_str *text, bti_place place) {
    if (place.name && *place.name) bti_str_addf(text, ", %s", place.name);
    if (place.label) bti_str_addf(text, " as \"%s\"", place.label);
    if (place.site.file) bti_str_addf(text, " at %s:%d", bti_site_file(place.site), place.site.line);
}

/* The device's own error within the pool's message; the rest of that message repeats what the report says. */
static const char *device_error_in(const char *why, const char *name) {
    static const char mark[] = "; the device reports: ";
    const char *error = why ? strstr(why, mark) : NULL;
    if (!error) return NULL;
    error += sizeof mark - 1;
    for (const char *own = error; (own = strstr(own, name));
         own++) /* skips the call site of the thread that happens to wait */
        if (own[strlen(name)] == ':') return own;
    return error;
}

/* If the driver lists them. The thread's error record is unchanged. */
static void add_other_processes(bti_str *text, int device) {
    bt_device_process processes[REPORTED + 1];
    int count = 0, listed = 0;
    bool quiet = bti_errors_quiet(true);
    bti_error *before = bti_error_last();
    (void)!bt_device_processes(bti_device_at(device), processes, REPORTED + 1, &count);
    bti_error_put_back(before);
    bti_errors_quiet(quiet);
    for (int i = 0; i < count && i <= REPORTED && listed < REPORTED; i++) {
        if (processes[i].pid == getpid()) continue;
        bti_str_add(text, listed++ ? "\n    " : "\n  held by other processes:\n    ");
        if (processes[i].bytes)
            bti_str_add_bytes_size(text, processes[i].bytes);
        else
            bti_str_add(text, "unknown size");
        bti_str_addf(text, "  process %" PRId64, processes[i].pid);
    }
}

bti_error *bti_out_of_memory(int device, int64_t bytes, const bti_node *node, const bti_type *type,
                             const bti_node *reader, const char *why) {
    bti_str text = {0};
    bti_str_addf(&text, "out of memory on %s: asked for ", bt_device_name(bti_device_at(device)));
    bti_str_add_bytes_size(&text, (unsigned long long)bytes);
    bti_str_addf(&text, " for %s ", bt_dtype_name(type->dtype));
    bti_shape_text(&text, type->rank, type->shape);
    if (reader) {
        bti_str_addf(&text, ", a copy from %s", bt_device_name(bti_device_at(node->device)));
        if (node->place.site.file)
            bti_str_addf(&text, " (made by %s at %s:%d)",
                         node->place.name && *node->place.name ? node->place.name : "a call",
                         bti_site_file(node->place.site), node->place.site.line);
    }
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    if (bt_memory(bti_device_at(device), &memory) == BT_OK) {
        bti_str_add(&text, "; limit ");
        bti_str_add_bytes_size(&text, memory.limit ? memory.limit : memory.total);
        bti_str_add(&text, ", in use ");
        bti_str_add_bytes_size(&text, memory.used);
        if (memory.scratch) {
            bti_str_add(&text, " (scratch ");
            bti_str_add_bytes_size(&text, memory.scratch);
            bti_str_add(&text, ")");
        }
        bti_str_add(&text, ", cached ");
        bti_str_add_bytes_size(&text, memory.cached);
        bti_str_add(&text, " with a largest free block of ");
        bti_str_add_bytes_size(&text, memory.largest_free);
    }
    const char *said = device_error_in(why, bt_device_name(bti_device_at(device)));
    if (said) bti_str_addf(&text, "\n  the device: %s", said);
    entry top[REPORTED];
    int count = largest_live(device, top);
    if (count) bti_str_add(&text, "\n  largest live arrays:");
    for (int i = 0; i < count; i++) {
        bti_str_add(&text, "\n    ");
        bti_str_add_bytes_size(&text, top[i].bytes);
        bti_str_addf(&text, "  %s ", bt_dtype_name(top[i].dtype));
        bti_shape_text(&text, top[i].rank, top[i].shape);
        add_place(&text, top[i].place);
    }
    add_other_processes(&text, device);
    bti_error *error =
        bti_error_at(reader ? reader->place : node->place, BT_RESOURCE_EXHAUSTED, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return error;
}

size_t bt_memory_trim(const bt_device *device) {
    BTI_CALL("bt_memory_trim");
    if (bti_host_check() != BT_OK) return 0;
    if (!device || !atomic_load(&device->opened) || bti_device_check_fork() != BT_OK) return 0;
    bti_packed_trim(device->id);
    return bti_pool_trim(device->id, drain(device->id));
}

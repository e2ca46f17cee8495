/* Memory of devices: settings, pools, counters. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "base/flagtext.h"
#include "base/sized.h"
#include "device/late.h"
#include "device/memory.h"
#include "device/pool.h"

static uint64_t (*_Atomic issued_hook)(int device);

void bti_device_set_issued(uint64_t (*issued)(int device)) { atomic_store(&issued_hook, issued); }

/* --- settings ----------------------------------------------------------------------------------------------------- */

static double gpu_share = 1;

void bti_memory_share(double share) { gpu_share = share; }

static void lower(size_t *limit, size_t to, const char **source, const char *by) {
    if (!to || (*limit && *limit <= to)) return;
    *limit = to;
    *source = by;
}

/* Under the device's lock. 0: no limit. */
static size_t limit_from(const bt_device *device, const char **source) {
    size_t limit = 0, total = device->facts.memory_bytes;
    *source = "";
    lower(&limit, device->limit, source, "bt_set_memory_limit");
    if (!limit) lower(&limit, bti_flag_bytes(BTI_FLAG_memory_limit), source, "flag memory_limit");
    double share = device->kind == BT_GPU ? gpu_share : 1;
    double fraction = device->fraction > 0 ? device->fraction : bti_flag_float(BTI_FLAG_memory_fraction);
    if (share < 1) fraction = fraction > 0 ? fraction * share : share;
    size_t part = fraction > 0 && total ? (size_t)((double)total * fraction) : 0;
    if (fraction > 0 && total && !part) part = 1; /* 0 would be no limit */
    lower(&limit, part, source, device->fraction > 0 ? "bt_set_memory_fraction" : "flag memory_fraction");
    size_t leased = device->kind == BT_GPU ? bti_flag_bytes(BTI_FLAG_gpu_memory_limit) : 0;
    if (leased && share < 1) leased = (size_t)((double)leased * share);
    lower(&limit, leased, source, "flag gpu_memory_limit");
    /* a process that uses more of the host's memory is ended by the system */
    if (!limit && device->driver->host_memory) lower(&limit, total, source, device->facts.memory_source);
    return limit;
}

static size_t limit_of(const bt_device *device) {
    const char *source;
    return limit_from(device, &source);
}

static size_t piece_of(const bt_device *device, size_t bytes) {
    size_t largest = device->facts.largest_bytes;
    return largest && bytes > largest ? largest : bytes;
}

static bt_status reserve_ahead(bt_device *device, size_t bytes) {
    for (size_t piece; bytes; bytes -= piece) {
        piece = piece_of(device, bytes);
        BTI_TRY(bti_pool_reserve(device->pool, piece));
    }
    return BT_OK;
}

/* Whether blocks are cut from larger allocations. Where graphs are loaded each allocation is one array. */
static bool cuts_blocks(const bt_device *device) {
    return bti_flag_bool(BTI_FLAG_memory_pool) && !device->driver->target->graphs;
}

/* All that there is, or as near to it as the device gives, half of it and `least` at least: other processes may hold some. */
static bt_status take_all(bt_device *device, size_t least) {
    size_t total = device->facts.memory_bytes, left = total, step = total / 16 + 1;
    bt_status status = BT_OK;
    while (left) {
        size_t piece = piece_of(device, left);
        status = bti_pool_reserve(device->pool, piece);
        if (status != BT_OK) piece = left < step ? left : step;
        left -= piece;
    }
    size_t taken = bti_pool_count(device->pool).cached;
    if (taken < total / 2 || taken < least)
        return status != BT_OK
                   ? status
                   : bti_fail(BT_RESOURCE_EXHAUSTED, "%s: out of memory: only %zu bytes of its %zu can be had",
                              device->name, taken, total);
    bti_pool_set_limit(device->pool, taken);
    return BT_OK;
}

/* Under the device's lock. */
static bt_status take_first(bt_device *device, size_t limit) {
    size_t total = device->facts.memory_bytes,
           first = device->preallocate ? device->preallocate : bti_flag_bytes(BTI_FLAG_memory_preallocate);
    bool growth = device->growth < 0 ? bti_flag_bool(BTI_FLAG_memory_growth) : device->growth;
    if (total && first > total)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: %zu bytes to preallocate are more than its %zu", device->name, first,
                        total);
    if (limit && first > limit)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: %zu bytes to preallocate are more than the limit of %zu",
                        device->name, first, limit);
    if (!cuts_blocks(device)) return BT_OK;
    if (growth) return reserve_ahead(device, first);
    if (limit && (!total || limit < total)) return reserve_ahead(device, limit);
    return device->kind == BT_CPU ? reserve_ahead(device, first) : take_all(device, first);
}

bt_status bti_memory_open(bt_device *device) {
    size_t limit = limit_of(device);
    bti_pool_source source = {device->state, device->driver->alloc, device->driver->free};
    device->pool = bti_pool_new(device->id, device->name, source, limit, cuts_blocks(device));
    if (!device->pool) return bti_no_memory();
    bool quiet = bti_errors_quiet(true); /* of tries that others follow */
    bti_error *before = bti_error_last();
    bt_status status = take_first(device, limit);
    bti_errors_quiet(quiet);
    if (status == BT_OK) return bti_error_put_back(before), BT_OK;
    bti_pool_delete(device->pool);
    device->pool = NULL;
    bti_error *error = bti_error_last();
    bti_error_tell(error);
    bti_error_release(error);
    bti_error_release(before);
    return status;
}

/* --- lending to drivers ------------------------------------------------------------------------------------------- */

static bt_status lend(bt_device *device, size_t bytes, bti_block **block) {
    uint64_t (*hook)(int) = atomic_load(&issued_hook), issued = hook ? hook(device->id) : 0;
    bt_status status = bti_pool_take(device->pool, bytes, issued, BTI_LAUNCHED_ONLY, block);
    if (status != BT_RESOURCE_EXHAUSTED) return status;
    if (bti_device_limit_ns()) { /* which sync does not know */
        bti_event event;
        if (device->driver->record(device->state, &event) != BT_OK) return status;
        if (bti_device_wait_last(device->id, event) != BT_OK) return status;
    }
    if (device->driver->sync(device->state) != BT_OK) return status;
    bti_pool_release(device->pool, issued); /* it is complete now */
    return bti_pool_take(device->pool, bytes, issued, BTI_LAUNCHED_ONLY, block);
}

bt_status bti_memory_lend(int id, size_t bytes, uint64_t *address, void **lent) {
    bt_device *device = bti_registry_at(id);
    bti_block *block;
    BTI_TRY(lend(device, bytes, &block));
    *address = block->address;
    *lent = block;
    atomic_fetch_add(&device->lent, block->capacity);
    return BT_OK;
}

void bti_memory_take_back(int id, void *lent) {
    bti_block *block = lent;
    atomic_fetch_sub(&bti_registry_at(id)->lent, block->capacity);
    bti_pool_give(bti_registry_at(id)->pool, block, 0);
}

static bt_status begin_setting(bt_device *device, const char *what) {
    bti_lock_take(&device->lock);
    if (!atomic_load(&device->opened)) return BT_OK;
    bti_lock_give(&device->lock);
    return bti_fail(BT_FAILED_PRECONDITION,
                    "%s of %s must be set before the device is opened (its first memory or work)", what, device->name);
}

bt_status bt_set_memory_growth(bt_device *device, bool on) {
    BTI_CALL("bt_set_memory_growth");
    if (!device) return bt_set_flag("memory_growth", on ? "on" : "off");
    BTI_TRY(begin_setting(device, "memory_growth"));
    device->growth = on;
    bti_lock_give(&device->lock);
    return BT_OK;
}

bt_status bt_set_memory_fraction(bt_device *device, double fraction) {
    BTI_CALL("bt_set_memory_fraction");
    char text[40];
    if (!(fraction > 0 && fraction <= 1))
        return bti_fail(BT_INVALID_ARGUMENT, "memory_fraction must be above 0 and at most 1");
    bti_write_float(text, sizeof text, fraction);
    if (!device) return bt_set_flag("memory_fraction", text);
    BTI_TRY(begin_setting(device, "memory_fraction"));
    device->fraction = fraction;
    bti_lock_give(&device->lock);
    return BT_OK;
}

bt_status bt_set_memory_limit(bt_device *device, size_t bytes) {
    BTI_CALL("bt_set_memory_limit");
    char text[40];
    snprintf(text, sizeof text, "%zu", bytes);
    if (!device) return bt_set_flag("memory_limit", text);
    BTI_TRY(begin_setting(device, "memory_limit"));
    device->limit = bytes;
    bti_lock_give(&device->lock);
    return BT_OK;
}

bt_status bt_set_memory_preallocate(bt_device *device, size_t bytes) {
    BTI_CALL("bt_set_memory_preallocate");
    char text[40];
    snprintf(text, sizeof text, "%zu", bytes);
    if (!device) return bt_set_flag("memory_preallocate", text);
    BTI_TRY(begin_setting(device, "memory_preallocate"));
    device->preallocate = bytes;
    bti_lock_give(&device->lock);
    return BT_OK;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

size_t bti_block_bytes(int id, size_t bytes) {
    bt_device *device = bti_registry_at(id);
    if (!bytes || !device) return 0;
    bti_lock_take(&device->lock);
    size_t block = bti_pool_block_bytes(bytes, limit_of(device));
    bti_lock_give(&device->lock);
    return block ? block : bytes;
}

size_t bti_memory_scattered(int id) {
    bt_device *device = bti_registry_at(id);
    return device && atomic_load(&device->opened) ? bti_pool_scattered(device->pool) : 0;
}

void bti_block_free(bti_block *block, uint64_t busy_until) {
    bt_device *device = block ? bti_registry_at(block->device) : NULL;
    if (device && device->pool) bti_pool_give(device->pool, block, busy_until);
}

size_t bti_pool_trim(int id, uint64_t completed) {
    bt_device *device = bti_registry_at(id);
    if (!device || !atomic_load(&device->opened) || bti_device_is_late(id)) return 0;
    if (device->driver->trim) device->driver->trim(device->state);
    return bti_pool_release(device->pool, completed);
}

/* --- counters ----------------------------------------------------------------------------------------------------- */

void bti_device_count_arrays(int id, int change) {
    bt_device *device = bti_registry_at(id);
    if (device) bti_counter_add(&device->live_arrays, change);
}

#define MEMBER(name) BTI_MEMBER(bt_memory_info, name)
static const bti_member memory_info_members[] = {
    MEMBER(size),      MEMBER(total),      MEMBER(limit),        MEMBER(used),        MEMBER(scratch),
    MEMBER(peak),      MEMBER(cached),     MEMBER(largest_free), MEMBER(device_free), MEMBER(live_arrays),
    MEMBER(copied_in), MEMBER(copied_out), MEMBER(limit_source), MEMBER(pinned)};
#undef MEMBER
static const bti_sized_type memory_info_layout = BTI_SIZED_TYPE(
    bt_memory_info, "contents of info", "bt_memory_info info = BT_MEMORY_INFO_INIT", memory_info_members, NULL);

bt_status bt_memory(const bt_device *device, bt_memory_info *given) {
    if (!device) return bti_fail(BT_INVALID_ARGUMENT, "bt_memory: the device is NULL");
    BTI_TRY(bti_sized_check(&memory_info_layout, "bt_memory", given));
    BTI_TRY(bti_device_check_fork());
    bt_device *own = bti_registry_at(device->id);
    bt_memory_info known = {.size = sizeof known, .total = device->facts.memory_bytes}, *info = &known;
    bti_lock_take(&own->lock);
    info->limit = limit_from(own, &info->limit_source);
    if (atomic_load(&own->opened)) {
        bti_pool_counters count = bti_pool_count(own->pool);
        if (info->limit != count.limit) info->limit_source = "flag memory_growth"; /* all that could be had */
        info->limit = count.limit;
        info->used = count.used;
        size_t lent = atomic_load(&own->lent);
        info->scratch = lent < count.used ? lent : count.used; /* both may change meanwhile */
        info->peak = count.peak;
        info->cached = count.cached;
        info->largest_free = count.largest_free;
        size_t total;
        bool quiet = bti_errors_quiet(true);
        bti_error *before = bti_error_last();
        if (own->driver->memory(own->state, &info->device_free, &total) != BT_OK) info->device_free = 0;
        bti_error_put_back(before);
        bti_errors_quiet(quiet);
    }
    bti_lock_give(&own->lock);
    int64_t arrays = bti_counter_sum(&own->live_arrays);
    info->pinned = atomic_load(&own->pinned);
    info->live_arrays = arrays > 0 ? (uint64_t)arrays : 0;
    for (int id = -1; id < bti_registry_total(); id++) {
        if (id == own->id) continue;
        info->copied_in += bti_device_copied(id, own->id);
        info->copied_out += bti_device_copied(own->id, id);
    }
    bti_info_give(&memory_info_layout, &known, given);
    return BT_OK;
}

void bt_memory_reset_peak(const bt_device *device) {
    if (device && atomic_load(&device->opened)) bti_pool_reset_peak(device->pool);
}

/* --- who holds it ------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
    const bt_device_process *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? 1 : -1;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

/* All of them, as there may be more the second time; yours to bti_free. */
static bt_status list_processes(const bt_device *device, bt_device_process **listed, int *count) {
    int room = 0;
    *count = 64;
    while (*count > room) {
        room = *count;
        bt_device_process *larger = bti_realloc(*listed, (size_t)room * sizeof *larger);
        if (!larger) return bti_no_memory();
        *listed = larger;
        BTI_TRY(device->driver->processes(device->facts.ordinal, *listed, room, count));
    }
    return BT_OK;
}

bt_status bt_device_processes(const bt_device *device, bt_device_process *processes, int capacity, int *count) {
    BTI_CALL("bt_device_processes");
    bt_device_process *listed = NULL;
    if (count) *count = 0;
    if (!device || !count || capacity < 0 || (capacity && !processes))
        return bti_fail(BT_INVALID_ARGUMENT, "a device, room for `capacity` processes, and a count");
    BTI_TRY(bti_device_check_fork());
    if (!device->driver->processes)
        return bti_fail(BT_UNIMPLEMENTED, "%s: the driver `%s` does not tell which processes hold its memory",
                        device->name, device->driver->name);
    int found = 0;
    bt_status status = list_processes(device, &listed, &found);
    if (status == BT_OK) {
        qsort(listed, (size_t)found, sizeof *listed, by_bytes);
        for (int i = 0; i < found && i < capacity; i++) processes[i] = listed[i];
        *count = found;
    }
    bti_free(listed);
    return status;
}

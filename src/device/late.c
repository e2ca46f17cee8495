#include "device/late.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/flags.h"
#include "base/lock.h"
#include "device/table.h"

BTI_STATIC_LOCK(late_lock, late)

static bool has_clock(const bt_device *device) { return device->driver->complete_at; }

uint64_t bti_device_now_ns(int id) { return has_clock(bti_registry_at(id)) ? bti_clock_ns() : bti_now_ns(); }
uint64_t bti_device_limit_ns(void) { return (uint64_t)(bti_flag_float(BTI_FLAG_device_seconds) * 1e9); }
bool bti_device_is_late(int id) { return atomic_load_explicit(&bti_registry_at(id)->is_late, memory_order_acquire); }

bool bti_device_is_overdue(int id, uint64_t since_ns) {
    uint64_t limit = bti_device_limit_ns();
    if (bti_device_is_late(id)) return true;
    return limit && since_ns && bti_device_now_ns(id) >= since_ns + limit;
}

/* --- waiting with a limit ------------------------------------------------------------------------------------------- */

#define YIELD_NS 200000 /* so long a wait only lets other threads run between two looks */
#define LONGEST_SLEEP_NS 1000000

/* Each sleep is at most 1/64 of the wait so far, so that the end is noticed little later. */
static void pause_for(uint64_t waited_ns) {
    if (waited_ns < YIELD_NS) {
        sched_yield();
        return;
    }
    uint64_t ns = waited_ns / 64 < LONGEST_SLEEP_NS ? waited_ns / 64 : LONGEST_SLEEP_NS;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Looks again and again until the event is complete or the time has come. A look at the end counts: the process may have been stopped in between. */
static bt_status look_until(const bt_device *device, bti_event event, uint64_t end_ns, bool *done) {
    uint64_t begin = bti_now_ns(), now = begin;
    for (*done = false;; now = bti_now_ns()) {
        BTI_TRY(device->driver->query(device->state, event, done));
        if (*done || now >= end_ns) return BT_OK;
        pause_for(now - begin);
    }
}

/* A time that is past only asks. */
static bt_status wait_until(const bt_device *device, bti_event event, uint64_t end_ns, bool *done) {
    const bti_driver *driver = device->driver;
    *done = true;
    if (driver->wait_until) return driver->wait_until(device->state, event, end_ns, done);
    return driver->async ? look_until(device, event, end_ns, done) : BT_OK;
}

/* --- being late ------------------------------------------------------------------------------------------------------ */

/* Under the lock. */
static void make_late(bt_device *device, bti_error *error, const bti_event *last) {
    if (device->late) return;
    device->late = bti_error_retain(error);
    if (last) device->late_after = *last;
    bti_errors_aside aside = bti_errors_aside_begin();
    device->late_recorded = last || device->driver->record(device->state, &device->late_after) == BT_OK;
    bti_errors_aside_end(aside);
    atomic_store_explicit(&device->is_late, true, memory_order_release);
}

static bti_error *late_error(const bt_device *device, const bti_place *of) {
    return bti_error_at(
        of ? *of : bti_call_place(), BT_DEADLINE_EXCEEDED,
        "%s has not completed the work that begins with this operation within %g s of %s time (flag "
        "device_seconds); until it has, the device is not used and the memory of that work is kept: set the flag "
        "to more if the work takes longer, else the device or its driver hangs",
        device->name, bti_flag_float(BTI_FLAG_device_seconds), has_clock(device) ? "its" : "wall");
}

/* Whether the event is complete, or will never be: a device that reports an error is lost, and writes nothing any more. */
static bool has_come(const bt_device *device, bti_event event) {
    bool done = false;
    bt_status status = wait_until(device, event, 0, &done);
    if (status == BT_OK && done)
        (void)!device->driver->wait(device->state, event); /* some events end with their wait */
    return status != BT_OK || done;
}

/* What has come is moved to device->came, and a device that has nothing left is late no more. Under the lock. */
static void look_at(bt_device *device) {
    bti_errors_aside aside = bti_errors_aside_begin();
    if (device->late_recorded && has_come(device, device->late_after)) device->late_recorded = false;
    for (bti_held **at = &device->held; *at;) {
        bti_held *held = *at;
        if (device->late_recorded || (held->has_event && !has_come(device, held->event))) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        held->next = device->came;
        device->came = held;
    }
    if (!device->late_recorded && !device->held) {
        bti_error_release(device->late);
        device->late = NULL;
        atomic_store_explicit(&device->is_late, false, memory_order_release);
    }
    bti_errors_aside_end(aside);
}

/* The error of a late device, retained; NULL: it is not late. */
static bti_error *find_late_error(bt_device *device) {
    bti_lock_take(&late_lock);
    if (device->late) look_at(device);
    bti_error *error = device->late ? bti_error_retain(device->late) : NULL;
    bti_lock_give(&late_lock);
    return error;
}

static bt_status fail_late(bti_error *error) {
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

bt_status bti_device_check_late(int id) { return fail_late(find_late_error(bti_registry_at(id))); }

/* The first thread that gives up makes the error. */
static bt_status give_up(bt_device *device, const bti_place *of, const bti_event *last) {
    bti_error *error = late_error(device, of);
    bti_lock_take(&late_lock);
    make_late(device, error, last);
    bti_error *first = bti_error_retain(device->late);
    bti_lock_give(&late_lock);
    bti_error_release(error);
    return fail_late(first);
}

/* `last`: nothing was recorded on the device after the event. */
static bt_status wait_since(int id, bti_event event, uint64_t since_ns, const bti_place *of, bool last, bool *gave_up) {
    bt_device *device = bti_registry_at(id);
    uint64_t limit = bti_device_limit_ns();
    *gave_up = false;
    if (!limit && !bti_device_is_late(id)) return device->driver->wait(device->state, event);
    uint64_t end = bti_device_is_late(id) ? 0 : (since_ns ? since_ns : bti_device_now_ns(id)) + limit;
    bool done;
    BTI_TRY(wait_until(device, event, end, &done));
    if (done) return device->driver->wait(device->state, event);
    *gave_up = true;
    return give_up(device, of, last ? &event : NULL);
}

bt_status bti_device_wait_since(int id, bti_event event, uint64_t since_ns, const bti_place *of, bool *gave_up) {
    return wait_since(id, event, since_ns, of, false, gave_up);
}

bt_status bti_device_wait_last(int id, bti_event event) {
    bool gave_up;
    return wait_since(id, event, 0, NULL, true, &gave_up);
}

void bti_device_share_lateness(int id, bti_event event, int cause) {
    bt_device *device = bti_registry_at(id);
    if (id == cause || !bti_device_is_late(cause) || bti_device_is_late(id)) return;
    bti_error *error = find_late_error(bti_registry_at(cause));
    bool done = true;
    if (error && wait_until(device, event, 0, &done) == BT_OK && !done) {
        bti_lock_take(&late_lock);
        make_late(device, error, NULL);
        bti_lock_give(&late_lock);
    }
    bti_error_release(error);
}

/* --- what is held ---------------------------------------------------------------------------------------------------- */

static atomic_int held_count; /* also of what has come and is not released yet */

void bti_device_hold(bti_held *held) {
    bt_device *device = bti_registry_at(held->device);
    bti_lock_take(&late_lock);
    held->next = device->held;
    device->held = held;
    atomic_fetch_add(&held_count, 1);
    bti_lock_give(&late_lock);
}

bool bti_devices_release_held(bool with_clock) {
    for (int id = 0; atomic_load(&held_count) && id < bti_registry_total(); id++) {
        bt_device *device = bti_registry_at(id);
        if (!with_clock && has_clock(device)) continue;
        bti_lock_take(&late_lock);
        if (device->held) look_at(device);
        bti_held *came = device->came;
        device->came = NULL;
        bti_lock_give(&late_lock);
        for (bti_held *next; came; came = next) {
            next = came->next;
            came->release(came);
            atomic_fetch_sub(&held_count, 1);
        }
    }
    return atomic_load(&held_count) > 0;
}

bt_status bti_devices_check_late(void) {
    for (int id = 0; id < bti_registry_total(); id++) BTI_TRY(bti_device_check_late(id));
    (void)bti_devices_release_held(true);
    return BT_OK;
}

#include "device/timings.h"

#include "base/lock.h"
#include "device/table.h"

BTI_STATIC_LOCK(timings_lock, timings) /* of clock_ahead_ns and clock_known of all devices */

bool bti_device_marks(int id) {
    const bt_device *device = bti_registry_at(id);
    return device->driver->mark && atomic_load_explicit(&device->opened, memory_order_acquire);
}

void bti_device_time_into(int id, bti_timings *timings) { bti_registry_at(id)->timings = timings; }

/* --- launching ------------------------------------------------------------------------------------------------------- */

/* A failure is that of the next launch too, or of no interest. */
static bool mark(const bt_device *device, bool begins, bti_mark *made) {
    bti_error *before = bti_error_last();
    bool marked = device->driver->mark(device->state, begins, made) == BT_OK;
    bti_error_put_back(before);
    return marked;
}

static void give_back(const bt_device *device, const bti_timings *timings, bti_mark unread) {
    if (!timings->recorded) (void)device->driver->read_mark(device->state, unread);
}

bti_timing_start bti_timing_begin_(int id) {
    bti_timing_start start = {.ns = bti_trace_begin()};
    const bt_device *device = bti_registry_at(id);
    if (start.ns && device->timings) start.marked = mark(device, true, &start.mark);
    return start;
}

/* False: the marks are given back. */
static bool keep(const bt_device *device, bti_timings *timings, bti_timing timing) {
    if (bti_vec_push(&timings->items, timing)) return true;
    give_back(device, timings, timing.begin);
    give_back(device, timings, timing.end);
    return false;
}

static bool mark_end(int id, const bti_timing_start *start, const bti_trace_event *event) {
    const bt_device *device = bti_registry_at(id);
    bti_timing timing = {.event = *event, .begin = start->mark};
    if (mark(device, false, &timing.end)) return keep(device, device->timings, timing);
    give_back(device, device->timings, start->mark);
    return false;
}

void bti_timing_end(int id, const bti_timing_start *start, bti_trace_event *event) {
    if (!start->ns) return;
    event->start_ns = start->ns;
    event->end_ns = bti_trace_now();
    if (start->marked && mark_end(id, start, event)) return;
    bt_device *device = bti_registry_at(id);
    if (device && device->timings && device->timings->recorded)
        device->timings->failed = true;
    else
        bti_trace_add(event);
}

void bti_timing_of_end(int id, const bti_work_end *end, bti_trace_event *event, bti_timings *timings) {
    event->end_ns = event->start_ns ? bti_trace_now() : 0;
    if (end->marked && keep(bti_registry_at(id), timings, (bti_timing){*event, end->begin, end->end, 0})) return;
    if (end->begin_ns && event->start_ns) {
        event->start_ns = end->begin_ns + 1; /* as bti_trace_now */
        event->end_ns = end->end_ns + 1;
        event->on_device = true;
    }
    bti_trace_add(event);
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* What was read of a mark replaces it. */
static bool read_marks(const bt_device *device, bti_timing *timing) {
    timing->begin.value = device->driver->read_mark(device->state, timing->begin);
    timing->end.value = device->driver->read_mark(device->state, timing->end);
    return timing->event.start_ns && timing->begin.value && timing->end.value >= timing->begin.value;
}

/* The device's clock is not the process's. How they stand to each other is known by what must be: work begins after its launch, and has ended when its
 * end is read. What breaks this moves the one against the other; for all that is read at once, so that it stays as it was to each other. */
static uint64_t ahead_of(bt_device *device, const bti_timings *timings) {
    uint64_t now = bti_trace_now();
    bti_lock_take(&timings_lock);
    const bti_timing *all = timings->items.items;
    uint64_t ahead = device->clock_known ? device->clock_ahead_ns : all[0].event.start_ns - all[0].begin.value;
    for (size_t i = 0; i < timings->items.count; i++)
        if ((int64_t)(all[i].end.value + ahead - now) > 0) ahead = now - all[i].end.value;
    for (size_t i = 0; i < timings->items.count; i++)
        if ((int64_t)(all[i].begin.value + ahead - all[i].event.start_ns) < 0)
            ahead = all[i].event.start_ns - all[i].begin.value;
    device->clock_ahead_ns = ahead;
    device->clock_known = true;
    bti_lock_give(&timings_lock);
    return ahead;
}

void bti_timings_note(int id, bti_timings *timings, uint32_t run, bool complete) {
    bt_device *device = bti_registry_at(id);
    bool own_clock = device->driver->async && !device->driver->complete_at, known = complete;
    for (size_t i = 0; i < timings->items.count; i++) known = read_marks(device, &timings->items.items[i]) && known;
    uint64_t ahead = known && own_clock && timings->items.count ? ahead_of(device, timings) : 1; /* as bti_trace_now */
    for (size_t i = 0; i < timings->items.count; i++) {
        bti_timing *timing = &timings->items.items[i];
        if (known) {
            timing->event.start_ns = timing->begin.value + ahead;
            timing->event.end_ns = timing->end.value + ahead;
        }
        timing->event.on_device = known;
        timing->event.run = run;
        bti_trace_add(&timing->event);
    }
    bti_vec_free(&timings->items);
}

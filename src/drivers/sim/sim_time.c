#include "drivers/sim/sim_time.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/flags.h"
#include "base/lock.h"

BTI_STATIC_LOCK(engines_lock, sim_engines) /* of when engines are free */

static uint64_t whole(double ns) { return (uint64_t)llround(fmin(ns, 1e18)); }
static uint64_t later_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void sleep_for(size_t bytes) {
    double rate = (double)bti_flag_int(BTI_FLAG_sim_bandwidth);
    double seconds = bti_flag_float(BTI_FLAG_sim_latency_us) * 1e-6 + (rate > 0 ? (double)bytes / rate : 0);
    if (seconds <= 0) return;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left)) {
    }
}

void bti_sim_took_call(const bti_sim_engines *engines) {
    if (bti_sim_has_clock(engines)) bti_clock_advance(whole(engines->model.call_ns));
}

/* Takes an engine for so long from now on, or from when it is free; returns the end. */
static uint64_t take_engine(uint64_t *is_free, double ns) {
    bti_lock_take(&engines_lock);
    uint64_t end = *is_free = later_of(*is_free, bti_clock_ns()) + whole(ns);
    bti_lock_give(&engines_lock);
    return end;
}

void bti_sim_took_launch(bti_sim_engines *engines, const bti_sim_demand *demand) {
    (void)bti_sim_took_graph(engines, demand, 1);
}

uint64_t bti_sim_took_graph(bti_sim_engines *engines, const bti_sim_demand *demands, size_t count) {
    double ns = 0;
    if (!bti_sim_has_clock(engines)) return 0;
    for (size_t i = 0; i < count; i++) ns += bti_sim_nanoseconds(&engines->model, &demands[i]);
    bool by_host = engines->model.kind == BT_CPU;
    if (by_host) bti_sim_took_call(engines);
    uint64_t end = take_engine(&engines->compute_free, ns);
    bti_sim_touched_until(&engines->touched, end);
    if (by_host)
        bti_clock_reach(end);
    else
        bti_sim_took_call(engines);
    return end - whole(ns);
}

void bti_sim_took_changes(const bti_sim_engines *engines, size_t count) {
    if (bti_sim_has_clock(engines)) bti_clock_advance(whole(engines->model.call_ns / 2 * (double)count));
}

/* GB/s are bytes in a nanosecond. */
static double copy_ns(double least, double bandwidth, size_t bytes) { return least + (double)bytes / bandwidth; }

void bti_sim_took_transfer(bti_sim_engines *engines, bool up, size_t bytes) {
    const bti_sim_model *model = &engines->model;
    if (!bti_sim_has_clock(engines)) return sleep_for(bytes);
    uint64_t end =
        take_engine(up ? &engines->up_free : &engines->down_free, copy_ns(model->host_ns, model->host, bytes));
    bti_sim_took_call(engines);
    bti_clock_reach(end);
}

/* By the slower of their links; without a link through the host's memory, out of one and into the other at once. */
static double peer_ns(const bti_sim_model *to, const bti_sim_model *from, size_t bytes) {
    double link = fmin(to->link, from->link);
    return link > 0 ? copy_ns(fmax(to->link_ns, from->link_ns), link, bytes)
                    : copy_ns(fmax(to->host_ns, from->host_ns), fmin(to->host, from->host), bytes);
}

void bti_sim_took_peer_copy(size_t bytes) { sleep_for(bytes); }

void bti_sim_took_send(bti_sim_engines *to, bti_sim_engines *from, size_t bytes, uint64_t after, bti_work_end *end) {
    uint64_t length = whole(peer_ns(&to->model, &from->model, bytes));
    bti_lock_take(&engines_lock);
    uint64_t begin = later_of(later_of(bti_clock_ns(), after), later_of(to->up_free, from->down_free));
    to->up_free = from->down_free = begin + length;
    bti_lock_give(&engines_lock);
    *end = (bti_work_end){.event = {begin + length}, .begin_ns = begin, .end_ns = begin + length};
    bti_sim_took_call(to);
}

void bti_sim_took_fetch(bti_sim_engines *engines, size_t bytes, uint64_t after, bti_work_end *end) {
    uint64_t length = whole(copy_ns(engines->model.host_ns, engines->model.host, bytes));
    bti_lock_take(&engines_lock);
    uint64_t begin = later_of(later_of(bti_clock_ns(), after), engines->down_free);
    engines->down_free = begin + length;
    bti_lock_give(&engines_lock);
    *end = (bti_work_end){.event = {begin + length}, .begin_ns = begin, .end_ns = begin + length};
    bti_sim_took_call(engines);
}

void bti_sim_follows(bti_sim_engines *engines, uint64_t event_ns) {
    bti_lock_take(&engines_lock);
    engines->compute_free = later_of(engines->compute_free, event_ns);
    bti_lock_give(&engines_lock);
    bti_sim_took_call(engines);
}

/* The links of a ring, which the slowest pair of neighbours paces; it begins when all are there. */
void bti_sim_took_reduction(bti_sim_engines *const *all, int count, size_t bytes, const bti_event *after,
                            bti_work_end *ends) {
    if (!bti_sim_has_clock(all[0])) {
        for (int i = 1; i < count; i++) sleep_for(bytes);
        return;
    }
    double step = all[0]->model.start_ns;
    for (int i = 0; i < count && count > 1; i++)
        step = fmax(step, peer_ns(&all[i]->model, &all[(i + 1) % count]->model, bytes / (size_t)count));
    bti_lock_take(&engines_lock);
    uint64_t begin = bti_clock_ns();
    for (int i = 0; i < count; i++) begin = later_of(begin, later_of(all[i]->link_free, after[i].value));
    uint64_t end = begin + whole(step * fmax(1, 2 * (count - 1)));
    for (int i = 0; i < count; i++) {
        all[i]->link_free = end;
        ends[i] = (bti_work_end){.event = {end}, .begin_ns = begin, .end_ns = end};
    }
    bti_lock_give(&engines_lock);
    for (int i = 0; i < count; i++) bti_sim_took_call(all[i]);
}

uint64_t bti_sim_launch_begins(bti_sim_engines *engines) { return later_of(bti_sim_complete(engines), bti_clock_ns()); }

bt_status bti_sim_uses(bti_sim_engines *engines, uint64_t address, uint64_t bytes, bool written) {
    if (!bti_sim_has_clock(engines)) return BT_OK;
    uint64_t ns = bti_sim_touched_for(&engines->linked, bti_sim_launch_begins(engines), address, bytes, written);
    if (ns)
        return bti_fail(BT_INTERNAL,
                        "a launch touches %" PRIu64 " bytes at %#" PRIx64
                        ", which a reduction or a copy between devices uses for %" PRIu64
                        " ns more; it does not come after that",
                        bytes, address, ns);
    bti_sim_touches(&engines->touched, address, bytes, written, 0);
    return BT_OK;
}

void bti_sim_link_uses(bti_sim_engines *engines, uint64_t address, uint64_t bytes, bool written, uint64_t end_ns) {
    if (bti_sim_has_clock(engines)) bti_sim_touches(&engines->linked, address, bytes, written, end_ns);
}

/* For how long after `from` launched work or that of the links goes on to use it. */
static uint64_t used_for(bti_sim_engines *engines, uint64_t from, uint64_t address, uint64_t bytes, bool writes) {
    return later_of(bti_sim_touched_for(&engines->touched, from, address, bytes, writes),
                    bti_sim_touched_for(&engines->linked, from, address, bytes, writes));
}

bt_status bti_sim_may_use(bti_sim_engines *engines, const char *what, const char *device, uint64_t address,
                          uint64_t bytes, bool writes) {
    if (!bti_sim_has_clock(engines)) return BT_OK;
    uint64_t ns = used_for(engines, bti_clock_ns(), address, bytes, writes);
    if (!ns) return BT_OK;
    return bti_fail(BT_INTERNAL,
                    "%s on %s touches %" PRIu64 " bytes at %#" PRIx64 ", which launched work uses for %" PRIu64
                    " ns more of its time; nobody waited for it",
                    what, device, bytes, address, ns);
}

bt_status bti_sim_may_send(bti_sim_engines *engines, uint64_t after, uint64_t address, uint64_t bytes, bool writes) {
    uint64_t ns = used_for(engines, later_of(after, bti_clock_ns()), address, bytes, writes);
    if (!ns) return BT_OK;
    return bti_fail(BT_INTERNAL,
                    "a copy between devices %s %" PRIu64 " bytes at %#" PRIx64 ", which other work uses for %" PRIu64
                    " ns more; it does not come after that",
                    writes ? "writes" : "reads", bytes, address, ns);
}

uint64_t bti_sim_complete(bti_sim_engines *engines) {
    bti_lock_take(&engines_lock);
    uint64_t end = engines->compute_free;
    bti_lock_give(&engines_lock);
    return end;
}

uint64_t bti_sim_idle(bti_sim_engines *engines) {
    bti_lock_take(&engines_lock);
    uint64_t end =
        later_of(later_of(engines->compute_free, engines->link_free), later_of(engines->up_free, engines->down_free));
    bti_lock_give(&engines_lock);
    return end;
}

/* What simulated devices take. Without a model transfers take what the flags sim_bandwidth and sim_latency_us say, of the wall's time, and all else is done when the
 * call returns. With one the time is virtual (base/clock.h): a device has an engine that computes, one for copies to it, one for copies from it and one for reductions over its links, and each begins
 * its next work when it is free, and not before the host has asked for it. Results are there at once; that they may be read is known
 * when the host's time has reached the end of the work. Calls of the host take a fixed time. A CPU with a model is the host: a launch takes the host's time until its end. */
#ifndef BTI_DRIVERS_SIM_SIM_TIME_H
#define BTI_DRIVERS_SIM_SIM_TIME_H

#include "drivers/driver.h"
#include "drivers/sim/sim_estimate.h"
#include "drivers/sim/sim_touched.h"

typedef struct bti_sim_engines {
    bti_sim_model model; /* without a description: there is none, and no time to keep */
    uint64_t compute_free, up_free, down_free, link_free; /* from when on they are, of bti_clock_ns */
    bti_sim_touched touched, linked;                      /* by the engine that computes; by those between devices */
} bti_sim_engines;

static inline bool bti_sim_has_clock(const bti_sim_engines *engines) { return *engines->model.description; }

/* After what they name was done: */
void bti_sim_took_call(const bti_sim_engines *engines); /* a call that only the host works for */
void bti_sim_took_launch(bti_sim_engines *engines, const bti_sim_demand *demand);
/* One launch of several, recorded before; when the first one begins. */
uint64_t bti_sim_took_graph(bti_sim_engines *engines, const bti_sim_demand *demands, size_t count);
/* Recorded launches, so many of them, got other arguments: the host works half a call's time for each. */
void bti_sim_took_changes(const bti_sim_engines *engines, size_t count);
/* The host waits for the end. */
void bti_sim_took_transfer(bti_sim_engines *engines, bool up, size_t bytes);
void bti_sim_took_peer_copy(size_t bytes); /* of devices without a model */
/* Between two cards, by the engines for copies to one and from the other, after that time. */
void bti_sim_took_send(bti_sim_engines *to, bti_sim_engines *from, size_t bytes, uint64_t after, bti_work_end *end);
/* To the host, after that time; nobody waits. */
void bti_sim_took_fetch(bti_sim_engines *engines, size_t bytes, uint64_t after, bti_work_end *end);
/* What is launched later begins after that time. */
void bti_sim_follows(bti_sim_engines *engines, uint64_t event_ns);
/* A reduction over all by a ring, after these events of each: each hands parts on to the next. */
void bti_sim_took_reduction(bti_sim_engines *const *all, int count, size_t bytes, const bti_event *after,
                            bti_work_end *ends);

/* Work that is launched next, or goes on, uses these bytes: INTERNAL where a reduction, or a copy between devices, uses them that it does not come after. And whether the host may read them, or with `writes` write them: INTERNAL while such work is not
 * complete. `what`: the call, on that device, for messages. */
bt_status bti_sim_uses(bti_sim_engines *engines, uint64_t address, uint64_t bytes, bool written);
/* A reduction, or a copy between devices, that ends then uses these bytes. */
void bti_sim_link_uses(bti_sim_engines *engines, uint64_t address, uint64_t bytes, bool written, uint64_t end_ns);
bt_status bti_sim_may_use(bti_sim_engines *engines, const char *what, const char *device, uint64_t address,
                          uint64_t bytes, bool writes);
/* Whether a copy that begins after that time may read these bytes of a card, or with `writes` write them: INTERNAL while other work uses them. */
bt_status bti_sim_may_send(bti_sim_engines *engines, uint64_t after, uint64_t address, uint64_t bytes, bool writes);

/* When everything launched so far is complete; when all engines are free. */
uint64_t bti_sim_complete(bti_sim_engines *engines);
uint64_t bti_sim_launch_begins(bti_sim_engines *engines); /* of what is launched now */
uint64_t bti_sim_idle(bti_sim_engines *engines);

#endif

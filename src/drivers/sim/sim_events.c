#include "drivers/sim/sim_events.h"

#include <time.h>

#include "base/clock.h"
#include "base/flags.h"

/* --- events that do not come ------------------------------------------------------------------------------------------ */

static atomic_uint_fast64_t hung_by; /* how often the flag had been set when an event hung last */

bool bti_sim_event_hangs(bti_event event) {
    return event.value & BTI_SIM_HUNG && bti_flag_changes(BTI_FLAG_sim_fault) == atomic_load(&hung_by);
}

static void hang_device(bti_sim_device *device) {
    atomic_store(&device->hung, bti_flag_changes(BTI_FLAG_sim_fault) + 1);
}

/* Since the flag has its value. */
static bool device_hangs(const bti_sim_device *device) {
    return atomic_load(&device->hung) == bti_flag_changes(BTI_FLAG_sim_fault) + 1;
}

/* What comes after an event that hangs hangs too. */
static bt_status mark(bti_sim_device *device, bti_event *event) {
    bool hangs;
    if (!bti_flag_bool(BTI_FLAG_sim_fault)) return BT_OK;
    BTI_TRY(bti_sim_hang(device->kind, device->index, &hangs));
    if (hangs) {
        atomic_store(&hung_by, bti_flag_changes(BTI_FLAG_sim_fault));
        hang_device(device);
    }
    if (device_hangs(device)) event->value |= BTI_SIM_HUNG;
    return BT_OK;
}

/* Until it comes or the wall's time has; whether it came. */
static bool wait_while_hung(bti_event event, uint64_t ns) {
    while (bti_sim_event_hangs(event)) {
        if (bti_now_ns() >= ns) return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static void wait_for_all(const bti_sim_device *device) {
    bti_event last = {device_hangs(device) ? BTI_SIM_HUNG : 0};
    (void)wait_while_hung(last, UINT64_MAX);
}

/* --- without a clock ---------------------------------------------------------------------------------------------------- */

/* All work is done when its launch returns, but query tells so only after a wait, as a real device might. */
bt_status bti_sim_record(void *opened, bti_event *event) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("record");
    event->value = atomic_fetch_add(&device->recorded, 1) + 1;
    return mark(device, event);
}

bt_status bti_sim_wait(void *opened, bti_event event) {
    bti_sim_device *device = opened;
    uint64_t before = atomic_load(&device->waited), value = bti_sim_event_ns(event);
    (void)wait_while_hung(event, UINT64_MAX);
    while (before < value && !atomic_compare_exchange_weak(&device->waited, &before, value)) {
    }
    BTI_SIM_FAULT("wait");
    return BT_OK;
}

bt_status bti_sim_query(void *opened, bti_event event, bool *done) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("query");
    *done = event.value & BTI_SIM_HUNG ? !bti_sim_event_hangs(event) : event.value <= atomic_load(&device->waited);
    return BT_OK;
}

bt_status bti_sim_wait_until(void *opened, bti_event event, uint64_t ns, bool *done) {
    (void)opened;
    *done = wait_while_hung(event, ns);
    return BT_OK;
}

bt_status bti_sim_sync(void *opened) {
    bti_sim_device *device = opened;
    wait_for_all(device);
    BTI_SIM_FAULT("sync");
    return BT_OK;
}

/* --- of cards ------------------------------------------------------------------------------------------------------------- */

/* Recording and asking take the host so long, so that who asks again and again comes to the end; the work of a CPU is at its end. */
enum { LOOK_NS = 200 };
static void look(const bti_sim_device *device) {
    if (device->kind != BT_CPU) bti_clock_advance(LOOK_NS);
}

bt_status bti_timed_record(void *opened, bti_event *event) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("record");
    look(device);
    event->value = bti_sim_complete(&device->engines);
    return mark(device, event);
}

bt_status bti_timed_wait(void *opened, bti_event event) {
    bti_sim_device *device = opened;
    (void)wait_while_hung(event, UINT64_MAX);
    bti_clock_reach(bti_sim_event_ns(event));
    BTI_SIM_FAULT("wait");
    return BT_OK;
}

bt_status bti_timed_query(void *opened, bti_event event, bool *done) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("query");
    look(device);
    *done = !bti_sim_event_hangs(event) && bti_clock_ns() >= bti_sim_event_ns(event);
    return BT_OK;
}

bt_status bti_timed_wait_until(void *opened, bti_event event, uint64_t ns, bool *done) {
    (void)opened;
    *done = !bti_sim_event_hangs(event) && (bti_sim_event_ns(event) <= ns || bti_sim_event_ns(event) <= bti_clock_ns());
    bti_clock_reach(*done ? bti_sim_event_ns(event) : ns);
    return BT_OK;
}

bt_status bti_timed_sync(void *opened) {
    bti_sim_device *device = opened;
    wait_for_all(device);
    bti_clock_reach(bti_sim_idle(&device->engines));
    BTI_SIM_FAULT("sync");
    return BT_OK;
}

/* What comes after an event that hangs hangs too. */
bt_status bti_timed_follow(void *opened, bti_event event) {
    bti_sim_device *device = opened;
    BTI_SIM_FAULT("follow");
    if (bti_sim_event_hangs(event)) hang_device(device);
    bti_sim_follows(&device->engines, bti_sim_event_ns(event));
    return BT_OK;
}

uint64_t bti_timed_complete_at(void *opened) { return bti_sim_complete(&((bti_sim_device *)opened)->engines); }

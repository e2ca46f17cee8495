/* Events of simulated devices: entries of the tables of devices without a clock, and of cards, whose event is the time when everything before it is complete.
 * An event that the flag sim_fault lets hang carries a mark, and does not come as long as the flag is what it was. */
#ifndef BTI_DRIVERS_SIM_SIM_EVENTS_H
#define BTI_DRIVERS_SIM_SIM_EVENTS_H

#include "drivers/sim/sim_device.h"

#define BTI_SIM_HUNG (UINT64_C(1) << 62)
bool bti_sim_event_hangs(bti_event event);
static inline uint64_t bti_sim_event_ns(bti_event event) { return event.value & ~BTI_SIM_HUNG; } /* of a card */

bt_status bti_sim_record(void *opened, bti_event *event);
bt_status bti_sim_wait(void *opened, bti_event event);
bt_status bti_sim_query(void *opened, bti_event event, bool *done);
bt_status bti_sim_wait_until(void *opened, bti_event event, uint64_t ns, bool *done);
bt_status bti_sim_sync(void *opened);

bt_status bti_timed_record(void *opened, bti_event *event);
bt_status bti_timed_wait(void *opened, bti_event event);
bt_status bti_timed_query(void *opened, bti_event event, bool *done);
bt_status bti_timed_wait_until(void *opened, bti_event event, uint64_t ns, bool *done);
bt_status bti_timed_sync(void *opened);
bt_status bti_timed_follow(void *opened, bti_event event);
uint64_t bti_timed_complete_at(void *opened);

#endif

/* Collectives of a plan on the queues of their devices.
 *
 * Each device of a collective has two entries on its queue. `arrive` comes behind the work that makes its inputs and notes that point by an event;
 * whichever device arrives last starts the operation for all of them, after all these events. It then runs beside what the queues launch next.
 * `join` comes before the first work that reads an output, or at the end of the run: what is launched behind it comes after the collective.
 *
 * An entry waits only for entries submitted before it (queue.h): no circle can arise, and two collectives start in the same order on all queues. One that
 * failed, or one of whose inputs failed, on any device, has failed on all: none keeps a sum that the others lack. */
#ifndef BTI_EXEC_COLLECTIVE_H
#define BTI_EXEC_COLLECTIVE_H

#include "exec/ready.h"

/* base: by device, the number of the last entry before the run. */
void bti_collectives_number(bti_run *run, const uint64_t *base);
/* run, settle and poll of queue.h for such tasks. */
bool bti_collective_run(bti_run_task *task, bool may_complete);
void bti_collective_settle(bti_run_task *task);
bool bti_collective_poll(const bti_run_task *task);

#endif

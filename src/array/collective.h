/* Sums over devices, made by the driver of them in one go. */
#ifndef BTI_ARRAY_COLLECTIVE_H
#define BTI_ARRAY_COLLECTIVE_H

#include "array/handle.h"

/* parts[array * device_count + i] stands on devices[i]; results, the same, are their recorded sums, each pending on its device
 * (so gradients and explain know them as what they are). Where the driver can, this computes the parts and enqueues the fold
 * of all arrays together; the results are then done, that is submitted. Results that it leaves pending are computed as they were
 * recorded: what is symbolic, elsewhere, poisoned or done already, and, by the flag "collectives", whatever the driver cannot do:
 * with "driver" that fails with FAILED_PRECONDITION, with "copies" it is everything. */
bt_status bti_sum_by_driver(const int *devices, int device_count, bt_array *const *parts, bt_array *const *results,
                            int count);

#endif

/* Launches that are made again with the same addresses, on devices that can record launches: recorded the second time, then launched in one
 * go. Several recordings are kept, as results take turns in memory. Used by the thread that runs the device's queue. */
#ifndef BTI_EXEC_RECORDINGS_H
#define BTI_EXEC_RECORDINGS_H

#include "device/timings.h"

/* NULL when memory is short; launches: that are recorded together. */
struct bti_recordings *bti_recordings_new(int device, int64_t launches);
void bti_recordings_free(struct bti_recordings *recordings); /* NULL is fine */
/* What is recorded. `timed` launches the same, and what bti_timing_end notes is in `timings`, which it may add to. */
typedef struct bti_recorded_launch {
    bt_status (*launch)(void *context);
    bt_status (*timed)(void *context, bti_timings *timings);
    void *context;
} bti_recorded_launch;
/* Launches it from a recording or recording it first; false: nothing was launched, and the caller does it
 * itself. `addresses`: a hash of all addresses that it uses. timings: NULL, or gets what was launched, with marks of this time; recordings with marks are apart from those
 * without. A failure is in *status. */
bool bti_recordings_run(struct bti_recordings *recordings, uint64_t addresses, const bti_recorded_launch *launch,
                        bti_timings *timings, bt_status *status);
/* For tests: how often recordings were launched so far, and made. */
void bti_recordings_count(uint64_t *launched, uint64_t *recorded);

#endif

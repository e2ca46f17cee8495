/* Launches that are made again, on devices that can record launches: in one go, from a recording. Addresses that come a second time are recorded; several recordings are kept, as results take turns in memory. Where
 * most runs have addresses that are new, one recording is updated for each of them instead. Used by the thread that runs the device's queue. */
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
/* For tests: how often recordings were launched so far, made, and given other addresses. */
typedef struct bti_recordings_counts {
    uint64_t launched, recorded, updated;
} bti_recordings_counts;
void bti_recordings_count(bti_recordings_counts *counts);

#endif

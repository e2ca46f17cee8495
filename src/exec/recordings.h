/* Launches that are made again with the same addresses, on devices that can record launches: recorded the second time, then launched in one
 * go. A few recordings are kept, as results take turns in memory. Used by the thread that runs the device's queue. */
#ifndef BTI_EXEC_RECORDINGS_H
#define BTI_EXEC_RECORDINGS_H

#include <berth/status.h>
#include <stdbool.h>
#include <stdint.h>

struct bti_recordings *bti_recordings_new(int device);       /* NULL when memory is short */
void bti_recordings_free(struct bti_recordings *recordings); /* NULL is fine */
/* Launches what `launch(context)` launches, from a recording or recording it first; false: nothing was launched, and the caller does it
 * itself. `addresses`: a hash of all addresses that it uses. A failure is in *status. */
bool bti_recordings_run(struct bti_recordings *recordings, uint64_t addresses, bt_status (*launch)(void *context),
                        void *context, bt_status *status);
/* For tests: how often recordings were launched so far, and made. */
void bti_recordings_count(uint64_t *launched, uint64_t *recorded);

#endif

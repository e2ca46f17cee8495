/* Recorded events as a file and as tables; what view's files share. */
#ifndef BTI_VIEW_TRACE_H
#define BTI_VIEW_TRACE_H

#include "base/str.h"
#include "base/trace.h"

/* "GPU:0", "host", or "device 3" when nobody named it. In a ring of 4 texts per thread. */
const char *bti_trace_place_name(const bti_trace_log *log, int device);
/* "bt_mul, bt_sum": into `text`, which it returns. */
const char *bti_trace_operations(const bti_trace_event *event, char *text, size_t size);
/* Chrome's trace format ("JSON Object Format"), what chrome://tracing and Perfetto open: times in microseconds since the log
 * begins; process 0 is the host with a lane per thread; process d + 1 is device d with lanes for its queue, copies that it
 * sends, and copies that reach it, one per sender; arrows between the two ends of a copy; a counter of its memory. */
bt_status bti_trace_write(const bti_trace_log *log, const char *path);
/* What bt_profile_stop gives. */
void bti_profile_text(bti_str *text, const bti_trace_log *log);
/* "186 ms": three digits and the unit that fits. */
void bti_add_seconds(bti_str *text, double seconds);

#endif

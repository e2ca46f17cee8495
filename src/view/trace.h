/* Recorded events as a Chrome trace, and the names that traces and tables use. */
#ifndef BTI_VIEW_TRACE_H
#define BTI_VIEW_TRACE_H

#include "base/trace.h"

/* "GPU:0", "host", or "device 3" when it has no name. The last 4 texts of a thread are valid. */
const char *bti_trace_place_name(const bti_trace_log *log, int device);
/* Writes "bt_mul, bt_sum" to `text` and returns it. */
const char *bti_trace_operations(const bti_trace_event *event, char *text, size_t size);
/* Writes Chrome's trace format ("JSON Object Format"), which chrome://tracing and Perfetto open. Times are in microseconds since the log began.
 * Process 0 is the host, with a track per thread. Process d + 1 is device d, with tracks for its queue, for copies that it sends, and for copies that
 * it receives, one per sender. Arrows connect the two ends of a copy; a counter shows the memory. */
bt_status bti_trace_write(const bti_trace_log *log, const char *path);

#endif

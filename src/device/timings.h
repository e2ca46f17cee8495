/* When kernels and copies began and ended on the device, for base/trace.h. Marks are launched around each, and read when the work is complete; until then, and of devices
 * without marks, the times are those of the launch. */
#ifndef BTI_DEVICE_TIMINGS_H
#define BTI_DEVICE_TIMINGS_H

#include "base/trace.h"
#include "drivers/driver.h"

typedef struct bti_timing {
    bti_trace_event event;
    bti_mark begin, end;
    size_t step; /* of a recording: what launched it; by its maker */
} bti_timing;

typedef struct bti_timings {
    BTI_VEC(bti_timing) items;
    bool recorded; /* its marks are those of a recording (driver.h), and are never read */
    bool failed;   /* of a recording: a mark has no item */
} bti_timings;

/* Whether its driver has marks. */
bool bti_device_marks(int id);
/* What the calling thread launches on the open device, and notes by bti_timing_end, goes there from now on; NULL: into the trace, with the times of the launch. */
void bti_device_time_into(int id, bti_timings *timings);

typedef struct bti_timing_start {
    uint64_t ns; /* 0: nothing is recorded, and what is noted with it is passed over */
    bool marked;
    bti_mark mark;
} bti_timing_start;

/* Before and after one launch, which the event describes; its times are set. */
bti_timing_start bti_timing_begin_(int id);
static inline bti_timing_start bti_timing_begin(int id) {
    return bti_trace_on() ? bti_timing_begin_(id) : (bti_timing_start){0};
}
void bti_timing_end(int id, const bti_timing_start *start, bti_trace_event *event);
/* Of work beside the launches, which began after event->start_ns. */
void bti_timing_of_end(int id, const bti_work_end *end, bti_trace_event *event, bti_timings *timings);

/* Adds all to the trace, as events of this run (0: unknown), and empties it. `complete`: the marks have been passed. Else, and if one of them tells no time, the times of
 * the launch stay. */
void bti_timings_note(int id, bti_timings *timings, uint32_t run, bool complete);

#endif

/* The timeline of a runtime as a Chrome trace. */
#ifndef BTI_TASK_TIMELINE_TRACE_H
#define BTI_TASK_TIMELINE_TRACE_H

#include <stdio.h>

#include "task/state.h"

/* As a Chrome trace: process 1 has a lane per worker (per thread of an actor that runs several methods at once), process 2 shows each task from its submission to its beginning and counts
 * those that wait and run. False when memory is short. */
bool bti_timeline_print(bti_state *state, FILE *file);
/* Its text, which is freed, into a file. NOT_FOUND, UNKNOWN: it cannot be written. */
bt_status bti_timeline_write(const char *path, char *text);

#endif

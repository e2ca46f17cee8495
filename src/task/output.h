/* What a worker's functions print, in the worker. */
#ifndef BTI_TASK_OUTPUT_H
#define BTI_TASK_OUTPUT_H

#include "task/state.h"

/* Writes out what stdout and stderr have buffered: after each call, before its result is published, and at the worker's end. Waits while
 * the reader takes no more. An output that nobody reads any more is dropped, and no SIGPIPE ends the worker. */
void bti_output_flush(void);

/* Where lines get a prefix: what is written from here on is that function's. Begins the line that says so in the worker's pipes. */
#define BTI_OUTPUT_NAME "\036berth output of "
void bti_output_name(const char *function);

/* Between calls: what standard error has got so far is not of the call that comes. False: the nest read from it in all of the tries. Without effect
 * where standard error was replaced by something else. */
bool bti_output_mark(const bti_errors_read *read, atomic_ullong *mark, int tries);

#endif

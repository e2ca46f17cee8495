/* What a worker's functions print, in the worker. */
#ifndef BTI_TASK_OUTPUT_H
#define BTI_TASK_OUTPUT_H

#include "task/state.h"

/* Flushes stdout and stderr: after each call, before its result is sent, and at the worker's end. Waits while the reader takes no more.
 * Output that nobody reads any more is dropped, and no SIGPIPE ends the worker. */
void bti_output_flush(void);

/* Where lines get a prefix: output from here on belongs to that function. A line in the worker's pipes that begins with BTI_OUTPUT_NAME
 * says so. */
#define BTI_OUTPUT_NAME "\036berth output of "
void bti_output_name(const char *function);

/* Between calls: stores in *mark how much was written to standard error so far, which does not belong to the next call. False: the nest was
 * reading in each of the tries. No effect where standard error was replaced by something else. */
bool bti_output_mark(const bti_errors_read *read, atomic_ullong *mark, int tries);

#endif

/* What a worker's functions print, in the worker. */
#ifndef BTI_TASK_OUTPUT_H
#define BTI_TASK_OUTPUT_H

/* Writes out what stdout and stderr have buffered: after each call, before its result is published, and at the worker's end. Waits while
 * the reader takes no more. An output that nobody reads any more is dropped, and no SIGPIPE ends the worker. */
void bti_output_flush(void);

/* Where lines get a prefix: what is written from here on is that function's. Begins the line that says so in the worker's pipes. */
#define BTI_OUTPUT_NAME "\036berth output of "
void bti_output_name(const char *function);

#endif

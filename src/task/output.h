/* What a worker's functions print, in the worker. */
#ifndef BTI_TASK_OUTPUT_H
#define BTI_TASK_OUTPUT_H

/* Writes out what stdout and stderr have buffered: after each call, before its result is published, and at the worker's end. Waits while
 * the reader takes no more. An output that nobody reads any more is dropped, and no SIGPIPE ends the worker. */
void bti_output_flush(void);

#endif

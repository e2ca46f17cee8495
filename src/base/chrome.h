/* Writing Chrome's trace format ("JSON Object Format"), what chrome://tracing and Perfetto open. A process of the trace is a group of
 * lanes. Times are CLOCK_MONOTONIC; in the file they are microseconds since `begun_ns`. What an event holds besides is written
 * between the calls, by its writer. */
#ifndef BTI_BASE_CHROME_H
#define BTI_BASE_CHROME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bti_chrome {
    FILE *file;
    uint64_t begun_ns;
    bool begun; /* an event is there */
} bti_chrome;

/* Up to what "otherData" tells: the caller adds pairs; then bti_chrome_events. */
void bti_chrome_head(bti_chrome *out, const char *program, int64_t process, uint64_t dropped, uint64_t ended_ns);
void bti_chrome_events(bti_chrome *out);
void bti_chrome_end(bti_chrome *out);

/* A JSON text; what is no UTF-8 becomes "?". */
void bti_chrome_text(bti_chrome *out, const char *text);
/* ,"key":"text" */
void bti_chrome_pair(bti_chrome *out, const char *key, const char *text);
void bti_chrome_microseconds(bti_chrome *out, const char *key, uint64_t ns);
/* An object with its time, which the caller closes. */
void bti_chrome_begin_at(bti_chrome *out, char phase, int process, int lane, uint64_t at_ns);
void bti_chrome_begin_slice(bti_chrome *out, int process, int lane, uint64_t start_ns, uint64_t end_ns,
                            const char *category);
/* Metadata: "process_name", "thread_name". */
void bti_chrome_name(bti_chrome *out, const char *what, int process, int lane, const char *name);
/* Its name; processes stand in the order of their numbers. */
void bti_chrome_process(bti_chrome *out, int process, const char *name);

#endif

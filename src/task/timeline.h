/* What ran where, as far as it is remembered: a ring of the tasks that ended last. */
#ifndef BTI_TASK_TIMELINE_H
#define BTI_TASK_TIMELINE_H

#include <stdio.h>

#include "task/state.h"

enum { BTI_TIMELINE_SPANS = 1 << 15 };

typedef struct bti_span {
    uint64_t submitted_ns, begun_ns, ended_ns; /* begun 0: it never ran; ended 0: it runs */
    uint64_t task, gpus;
    const bti_function_record *function;
    int32_t pid;
    uint32_t worker, status;
    bool is_actor;  /* its life */
    uint8_t thread; /* of an actor that runs several methods at once, from 1; else 0 */
    char actor[64];
} bti_span;

typedef struct bti_timeline {
    uint64_t count; /* ever noted */
    bti_span spans[BTI_TIMELINE_SPANS];
} bti_timeline;

/* Before there is a second process. */
bt_status bti_timeline_open(bti_state *state);
/* With the lock: a task that ends. */
void bti_timeline_note(bti_state *state, const bti_task_record *task);
/* As a Chrome trace: process 1 has a lane per worker (per thread of an actor that runs several methods at once), process 2 shows each task from its submission to its beginning and counts
 * those that wait and run. False when memory is short. */
bool bti_timeline_print(bti_state *state, FILE *file);
/* Its text, which is freed, into a file. NOT_FOUND, UNKNOWN: it cannot be written. */
bt_status bti_timeline_write(const char *path, char *text);

#endif

/* What ran where: a ring with the tasks that ended last. */
#ifndef BTI_TASK_TIMELINE_H
#define BTI_TASK_TIMELINE_H

#include "task/state.h"

enum { BTI_TIMELINE_SPANS = 1 << 15 };

typedef struct bti_span {
    uint64_t submitted_ns, begun_ns, ended_ns; /* begun 0: it never ran; ended 0: it runs */
    uint64_t task, gpus;
    const bti_function_record *function;
    int32_t pid;
    uint32_t worker, status;
    bool is_actor;  /* the life of an actor */
    uint8_t thread; /* of an actor that runs several methods at once, from 1; else 0 */
    char actor[64];
} bti_span;

typedef struct bti_timeline {
    uint64_t count; /* of all spans that were ever added */
    bti_span spans[BTI_TIMELINE_SPANS];
} bti_timeline;

/* Before there is a second process. */
bt_status bti_timeline_open(bti_state *state);
/* With the lock: adds a task that ends. */
void bti_timeline_note(bti_state *state, const bti_task_record *task);
/* The span of a task that runs, or ends now. */
bti_span bti_span_of(const bti_task_record *task);

#endif

/* The C of a worker of Ray: Python (worker.py) loads libberth and calls these functions; frames go to Python by a function of its own. */
#ifndef BTI_TASK_RAY_WORKER_H
#define BTI_TASK_RAY_WORKER_H

#include "base/error.h"

enum { BTI_RAY_MOST_RESULTS = 100, BTI_RAY_MOST_TEXT = 1200 };

/* A result: its packed bytes, which last until the thread's next call unless they are `room`, Python's to bti_ray_free; and the ids in it. */
typedef struct bti_ray_output {
    const char *data;
    uint64_t bytes;
    const uint64_t *ids;
    uint64_t id_count;
    uint64_t is_room;
} bti_ray_output;

/* What Python fills in, up to `text`; the same structure is in worker.py. */
typedef struct bti_ray_job {
    const char *call; /* calls.h */
    uint64_t call_bytes;
    const char *large; /* the packed arguments if they are not in `call` */
    uint64_t large_bytes;
    const char *const
        *values; /* those of the references among the arguments, in order; their tokens (BTI_RAY_UNMAP), 0: none */
    const uint64_t *value_bytes;
    const uint64_t *tokens; /* of the large arguments, then of the values */
    const int32_t *gpus;
    uint32_t value_count, gpu_count;
    char text[BTI_RAY_MOST_TEXT]; /* of a failure */
    int32_t status;
    uint32_t output_count;
    bti_ray_output outputs[BTI_RAY_MOST_RESULTS];
} bti_ray_job;

typedef void bti_ray_send_fn(const char *frame, uint64_t bytes);

/* Once, in the process that runs calls. */
BT_API int bti_ray_worker_begin(bti_ray_send_fn *send);
/* Runs the call; status, text and outputs tell of it. */
BT_API void bti_ray_run(bti_ray_job *job);
/* An answer to a frame. 0: it is none. */
BT_API int bti_ray_receive(const char *frame, uint64_t bytes);
/* Says that the file has the bytes of that module (modules.h), or that it is the program, changed so that it can be opened. A status; the cause goes to
 * `text` of BTI_RAY_MOST_TEXT bytes. */
BT_API int bti_ray_module(uint64_t content, const char *path, char *text);
BT_API int bti_ray_program(const char *path, char *text);
BT_API void bti_ray_free(void *room);
/* The actor of this process ends. */
BT_API void bti_ray_worker_end(void);

#endif

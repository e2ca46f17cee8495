/* The side of Python that a process talks to: the bridge, a process that the program starts (bridge.c), or the Python that runs calls in a
 * worker of Ray (worker.c). Both do the same for the same frames (frame.h). */
#ifndef BTI_TASK_RAY_SIDE_H
#define BTI_TASK_RAY_SIDE_H

#include "base/error.h"

/* Memory of a large value that both sides see. */
typedef struct bti_ray_shared {
    void *memory;
    uint64_t bytes;
    uint64_t number; /* by which Python knows it */
    int file;        /* -1: none */
} bti_ray_shared;

typedef struct bti_ray_side {
    /* Sends a frame, after those that were sent before. In a worker, whatever it asks is answered when this returns. Any thread. */
    bt_status (*send)(const char *frame, uint64_t bytes);
    /* Makes room for a large value, which Python reads while a request that has its number is not answered; frees it. */
    bt_status (*share)(uint64_t bytes, bti_ray_shared *room);
    void (*unshare)(bti_ray_shared *room);
    /* Maps what Python shows under that number; gives it back. */
    bt_status (*map)(uint64_t number, uint64_t bytes, bti_ray_shared *shown);
    void (*unmap)(bti_ray_shared *shown);
    bool in_worker;
} bti_ray_side;

/* The side of this process; NULL: none. */
extern const bti_ray_side *bti_ray_side_now;

#endif

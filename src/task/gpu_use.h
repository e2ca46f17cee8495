/* What a worker sees of the GPUs of its runtime, and warnings about GPUs that it uses although another task holds them: a task that says nothing about
 * GPUs sees all of them. Records are read without the lock, since workers have none: every pointer is checked and names are copied. Changes
 * meanwhile lead to a missing warning at most, or to one with a name that was right a moment ago. */
#ifndef BTI_TASK_GPU_USE_H
#define BTI_TASK_GPU_USE_H

#include "task/state.h"

/* The task that has a worker's GPUs: its own, or the making of its actor; NULL: none. */
const bti_task_record *bti_gpus_holder(const bti_client *client);

/* In a worker, before its task begins and any library looks: what the process may see and take. Should it use a GPU that another task
 * holds, one line of the log names both. */
void bti_gpus_show(const bti_state *state, const bti_task_record *task);

/* In a process that has no task: it sees all GPUs of the runtime, in its order. */
void bti_gpus_show_all(const bti_state *state);

/* A task that has GPUs, whatever runs in its worker. */
typedef struct bti_gpu_holder {
    uint64_t sequence, gpus, begun_ns; /* begun_ns 0: not known */
    int32_t share;                     /* of each: BTI_UNIT is all of it */
} bti_gpu_holder;
void bti_gpus_each_holder(const bti_state *state, void (*visit)(const bti_gpu_holder *holder, void *data), void *data);

/* In a process that sees the GPUs of `held`, a task of the process `holder`: `user` has memory of them. Whether it is a worker without a GPU,
 * about which a line of the log now warns. */
bool bti_gpus_warn_of_user(const bti_state *state, const bti_task_record *held, int holder, int user);

#endif

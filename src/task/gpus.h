/* GPUs as a runtime hands them out: how many there are, what a worker sees of them, when they are free for the next.
 * The table of cases is docs/tasks-gpus.md. */
#ifndef BTI_TASK_GPUS_H
#define BTI_TASK_GPUS_H

#include "task/state.h"

/* Whether workers can be forked from this process: no device was asked for, and no file of a GPU is open. */
bool bti_gpus_are_unused(void);

/* Before the nest is forked: numbers and names of `asked` GPUs (BT_DETECT: of those that a child process finds) into the state. Those that are
 * devices of the machine are taken as leases, for which it waits so long (0: not at all, below 0: without limit); simulated ones, and
 * numbers beyond those of the machine, are not. INVALID_ARGUMENT when CUDA_VISIBLE_DEVICES shows fewer, naming both; RESOURCE_EXHAUSTED,
 * DEADLINE_EXCEEDED naming who holds them. Opens no library in this process. */
bt_status bti_gpus_count(bti_state *state, int asked, double wait_seconds);

/* In the program, once the nest has them or there will be none: the leases that were taken are no longer held here. */
void bti_gpus_leave(const bti_state *state);

/* What a mask names, without asking which devices there are: up to `capacity` numbers (UUIDs and MIG instances: their place in the
 * mask) and names as it has them; returns how many. */
int bti_gpus_of_mask(const char *mask, int32_t *numbers, char (*names)[BTI_GPU_NAME], int capacity);

/* The task that has a worker's GPUs: its own, or the making of its actor; NULL: none. */
const bti_task_record *bti_gpus_holder(const bti_client *client);

/* In a worker, before its task begins and any library looks: what the process may see and take. */
void bti_gpus_show(const bti_state *state, const bti_task_record *task);

/* --- gpu_warn.c ------------------------------------------------------------------------------------------------------ */
/* In a worker, before its task begins: should it use a GPU that another task holds, one line of the log names both. */
void bti_gpus_mind(const bti_state *state, const bti_task_record *task);
/* In a process that sees the GPUs of `held`, a task of the process `holder`: `user` has memory of them. Whether it is a worker without a GPU,
 * about which a line of the log now warns. */
bool bti_gpus_warn_of_user(const bti_state *state, const bti_task_record *held, int holder, int user);

/* --- watch.c: in the nest ------------------------------------------------------------------------------------------- */
typedef void bti_gone(bti_client *client, const char *why);
/* A worker has ended. If it had GPUs and the driver can tell, another process looks until its memory on them is free, and then `gone` is
 * called. False: there is nothing to wait for. */
bool bti_gpus_watch(bti_state *state, bti_client *client, const char *why, bti_gone *gone);
/* A child of the nest has ended; false: it was none of those processes. */
bool bti_gpus_watched(pid_t pid);
bool bti_gpus_are_watched(void);
/* At regular times: ends those that take too long, because they are stopped. */
void bti_gpus_watch_check(void);
void bti_gpus_watch_end(void);

#endif

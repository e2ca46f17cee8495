/* GPUs that a runtime hands out: which there are, by what names. The table of cases is docs/tasks-gpus.md. */
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

#endif

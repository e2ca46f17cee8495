/* The worker's side of the runtime: the engine that its functions call, which speaks by the mailbox (mailbox.h). */
#ifndef BTI_TASK_WORKER_ENGINE_H
#define BTI_TASK_WORKER_ENGINE_H

#include "task/engine.h"
#include "task/process.h"

extern const bti_engine bti_engine_worker;

/* The call that this process runs, whose GPUs bt_get_gpu_ids tells; of an actor its making; NULL: none. */
void bti_worker_set_task(const bti_task_record *task);
/* The number of the call that this thread runs from here on; BTI_NO_CALL. */
void bti_worker_runs(uint32_t number);

/* From here on this process writes only into its mailbox, and into room that it is granted. */
bt_status bti_worker_protect(bti_state *state, bti_client *me);

/* A value of so many bytes goes with a message, and is copied; else it is written where it stays. */
bool bti_worker_goes_along(const bti_state *state, uint64_t bytes);
/* The arguments of call `number` are in memory, and stay there. */
bt_status bti_worker_pin_arguments(uint32_t number, const bti_task_record *task);
/* Room in the store for result `index` of call `number`. */
bt_status bti_worker_result_room(uint32_t number, uint32_t index, uint64_t bytes, char **room);
/* What the result of call `number` refers to lives at least as long as the call. */
void bti_worker_keep(uint32_t number, const char *packed);
/* The next item of the stream of call `number`. */
bt_status bti_worker_yield(uint32_t number, const bti_values *value);
/* A room was filled: it is read-only again. */
void bti_worker_seal(char *room, uint64_t bytes);

#endif

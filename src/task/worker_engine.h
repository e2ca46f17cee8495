/* The engine that functions in a worker call: it sends messages through the worker's mailbox (mailbox.h). */
#ifndef BTI_TASK_WORKER_ENGINE_H
#define BTI_TASK_WORKER_ENGINE_H

#include "task/engine.h"
#include "task/process.h"

extern const bti_engine bti_engine_worker;

/* Sets the call that this process runs, of an actor its making, whose GPUs bt_get_gpu_ids returns. NULL: none. */
void bti_worker_set_task(const bti_task_record *task);
/* Sets the number of the call that this thread runs; BTI_NO_CALL: none. */
void bti_worker_runs(uint32_t number);

/* Makes the memory of the runtime read-only here, but for the bells, this mailbox and room that is granted later. */
bt_status bti_worker_protect(bti_state *state, bti_client *me);

/* Whether a value of so many bytes is sent with a message and copied; else it is written into room in the store. */
bool bti_worker_goes_along(const bti_state *state, uint64_t bytes);
/* Brings the arguments of call `number` into memory and keeps them there. */
bt_status bti_worker_pin_arguments(uint32_t number, const bti_task_record *task);
/* Room in the store for result `index` of call `number`. */
bt_status bti_worker_result_room(uint32_t number, uint32_t index, uint64_t bytes, char **room);
/* Keeps the objects that a result of call `number` refers to alive until the call has ended. */
void bti_worker_keep(uint32_t number, const char *packed);
/* Sends the next item of the stream of call `number`. */
bt_status bti_worker_yield(uint32_t number, const bti_values *value);
/* Makes filled room read-only again. */
void bti_worker_seal(char *room, uint64_t bytes);

#endif

/* Objects: what references stand for. All with the lock, but for reading the state of an object that one holds, and what says so. */
#ifndef BTI_TASK_OBJECT_H
#define BTI_TASK_OBJECT_H

#include "task/queue.h"

/* A pending one with one holder; NULL when there are too many. */
bti_object *bti_object_new(bti_state *state);
void bti_object_retain(bti_state *state, bti_object *object);
void bti_object_drop(bti_state *state, bti_object *object,
                     bti_wakes *wakes); /* one holder less; frees it after the last */

/* Without the lock. Room for a value of a pending object that nobody else writes; what stood there is given up. In the store when it is
 * large: values that nobody reads go to disk for it, those that were used last the last; RESOURCE_EXHAUSTED at once when that does not help.
 * CANCELLED when the object is done already. A process that dies meanwhile leaves no room behind: the object has it. */
bt_status bti_object_room(bti_state *state, bti_object *object, uint64_t bytes, char **room);
/* Without the lock. A hold of this process that keeps the value of an object that is ready, and larger than stands in it, in memory; one that
 * was spilled is read back. NULL with the cause in the error record. */
bti_hold *bti_object_pinned(bti_state *state, bti_object *object);
/* Without the lock. In memory again, pinned by this hold of the caller; and: there is room for so many bytes in one piece. UNAVAILABLE: others have to let
 * go of values first. */
bt_status bti_hold_bring_back(bti_state *state, bti_hold *hold);
bt_status bti_store_make_room(bti_state *state, uint64_t bytes);
/* With it: a copy of a packed value, in the object or the store, whose limit a small one may pass; false: no room. */
bool bti_object_copy(bti_state *state, bti_object *object, const char *packed, uint64_t bytes);
/* With it: the same of a value that is in memory. Nothing when it is pinned already. */
void bti_hold_pin(bti_state *state, bti_hold *hold);
/* With it: it is in memory, and stays there. */
void bti_object_pin(bti_state *state, bti_object *object);
/* One pin less. */
void bti_object_unpin(bti_state *state, bti_object *object);
/* How often this process has told those who wait for room, so that the mover can tell its own attempts from news. */
unsigned bti_moves_told(void);
/* Who waits for room looks again. */
void bti_room_changed(bti_state *state);
/* It is ready, and can be spilled when nobody has it pinned. */
void bti_object_rest(bti_state *state, bti_object *object);
/* The process of a hold is gone, or gives up: what it moved stays where it was. */
void bti_hold_stop_move(bti_state *state, bti_hold *hold);
/* With it: there is more free memory or room on disk than is kept for the next values. And without: gives it back. */
bool bti_store_is_untidy(const bti_state *state);
void bti_store_tidy(bti_state *state);

/* Its maker may be writing there: the room is free when that has ended. */
void bti_object_leave_room(bti_state *state, bti_object *object);
void bti_object_empty(bti_state *state, bti_object *object); /* of its value, wherever that is */

/* It is done: who waits is woken, tasks whose last argument it was are queued. The value was written before. */
void bti_object_settle(bti_state *state, bti_object *object, bti_object_state as, bti_wakes *wakes);
/* The same with a failure; nothing when it has failed already. The kind of what the runtime says by itself follows from the status. */
void bti_object_fail(bti_state *state, bti_object *object, bt_status status, const char *text, bti_wakes *wakes);
/* What a failure of the runtime itself is. */
bt_failure bti_failure_of(bt_status status);
void bti_object_fail_as(bti_state *state, bti_object *object, bt_failure kind, bt_status status, const char *text,
                        bti_wakes *wakes);
/* The same of a result whose call ran in a process that is gone. */
void bti_task_fail_gone(bti_state *state, const bti_task_record *task, const char *why, bti_wakes *wakes);
static inline bt_failure bti_death_of(const bti_client *client) {
    return client && client->out_of_memory ? BT_FAILURE_OUT_OF_MEMORY : BT_FAILURE_PROCESS_DIED;
}
/* Its failure as the error of this thread. Without the lock; by who holds it. */
bt_status bti_object_failure(const bti_object *object);
const char *bti_object_failure_text(const bti_object *object);

/* A reference of a process. */
bti_hold *bti_hold_new(bti_state *state, bti_client *client, bti_object *object);
void bti_hold_free(bti_state *state, bti_hold *hold, bti_wakes *wakes);

/* A thread of a client that waits for some of several objects: made, told its objects one by one (false: no record is left), and armed with how many
 * of them it wants; false: that many are done already. When they are, a thread of the program is woken; a worker gets the reply, and the waiter is
 * gone. */
bti_waiter *bti_waiter_new(bti_state *state, bti_client *client, bool limited);
bool bti_waiter_add(bti_state *state, bti_waiter *waiter, bti_object *object);
bool bti_waiter_arm(bti_state *state, bti_waiter *waiter, int wanted);
/* It waits for ever: its wait fails. */
void bti_waiter_stuck(bti_state *state, bti_waiter *waiter, bt_status status, const char *text, bti_wakes *wakes);
void bti_waiter_free(bti_state *state, bti_waiter *waiter, bti_wakes *wakes);
/* One of those that its threads wait for without a limit; NULL. */
const bti_object *bti_awaited(const bti_client *client);
/* The same of a call that runs. */
const bti_object *bti_call_awaited(const bti_task_record *task);

/* --- results.c --- */
/* The call, whose first result is there, has so many. False: no record is left. */
bool bti_results_new(bti_state *state, bti_task_record *task, uint32_t count);
uint32_t bti_result_count(const bti_task_record *task);
bti_object *bti_task_result(const bti_task_record *task, uint32_t index);
/* What bt_result gives, as a hold of the client; NULL with the cause in the error record. */
bti_hold *bti_result_hold(bti_state *state, bti_client *client, bti_object *object, uint32_t index, bti_wakes *wakes);
/* One of several results is freed. */
void bti_results_forget(bti_state *state, const bti_object *object, bti_wakes *wakes);
/* Those that are not done fail. */
void bti_task_fail(bti_state *state, const bti_task_record *task, bt_status status, const char *text, bti_wakes *wakes);
void bti_task_fail_as(bti_state *state, const bti_task_record *task, bt_failure kind, bt_status status,
                      const char *text, bti_wakes *wakes);
/* The task ends: it holds its results no more. */
void bti_task_drop_results(bti_state *state, const bti_task_record *task, bti_wakes *wakes);

/* The call yields an item. */
void bti_task_yield(bti_state *state, bti_task_record *task, bti_object *item, bti_wakes *wakes);
/* The call that will give it, or what follows it in its stream; NULL: it has ended. */
bti_task_record *bti_maker_of(const bti_object *object);

/* --- contents.c: what a value refers to is held as long as the value is there --- */
/* One holder more. False: no record is left. */
bool bti_contents_add(bti_state *state, bti_contents *contents, bti_object *object);
void bti_contents_drop(bti_state *state, bti_contents *contents, bti_wakes *wakes);
/* All that a checked value refers to. False: no record is left, and it holds none. */
bool bti_object_contain(bti_state *state, bti_object *object, const char *packed, bti_wakes *wakes);
/* The object with contents has no holder any more. */
void bti_object_unheld(bti_state *state, bti_object *object, bti_wakes *wakes);

/* The object of an id that a value has, which a worker may have written; NULL: there is none. */
bti_object *bti_object_at(const bti_state *state, uint64_t id);

/* References and actors in values, here: the place of their object in the arena. */
static inline uint64_t bti_object_id(const bti_state *state, const bti_object *object) {
    return (uint64_t)((const char *)object - (const char *)state->arena);
}
/* Of a value that was checked. */
static inline bti_object *bti_object_of(const bti_state *state, uint64_t id) {
    return (bti_object *)(void *)((char *)state->arena + id);
}

/* Where the value of an object stands in memory; NULL: on disk, on its way back, or there is none. */
static inline const char *bti_object_value(const bti_object *object) {
    if (object->reader) return NULL;
    return object->value ? object->value : object->bytes && object->bytes <= BTI_INLINE_BYTES ? object->small : NULL;
}

/* What an engine's handle holds, here. */
static inline bti_object *bti_held_object(const void *held) { return ((const bti_hold *)held)->object; }

/* --- tasks --- */

const char *bti_arguments_of(const bti_task_record *task);
/* A new task holds the objects among its arguments, and waits for those that are not done; false: no record is left, and it holds none. */
bool bti_task_await(bti_state *state, bti_task_record *task, bti_wakes *wakes);
/* Its arguments stay in memory while it runs; false when some are on disk. */
bool bti_task_pin_now(bti_state *state, bti_task_record *task);
void bti_task_unpin(bti_state *state, bti_task_record *task);
/* The objects among its arguments, one after the other, from {.task = task} on; NULL: there are no more. */
typedef struct bti_objects_at {
    const bti_task_record *task;
    uint32_t index;
    const bti_more *more;
    bool has_pack;
} bti_objects_at;
bti_object *bti_task_next_object(bti_objects_at *at);
/* The same of the values that it reads from memory: its arguments as a list, and those among them that are large. */
bti_object *bti_task_next_stored(bti_objects_at *at);
/* Bytes of its arguments that are in the store. */
uint64_t bti_task_stored_bytes(const bti_task_record *task);
/* Its worker has begun it. */
bool bti_task_runs(const bti_task_record *task);
/* When; 0: it has not. */
uint64_t bti_task_begun_ns(const bti_task_record *task);
/* In which thread of its worker: 0: the first one. */
uint8_t bti_task_thread(const bti_task_record *task);
/* All its arguments are there: it is queued, or stands in its actor's line anyway. */
void bti_task_ready(bti_state *state, bti_task_record *task, bti_wakes *wakes);
/* It runs nowhere, or has ended: gives back what it had, drops what it holds, frees it. */
void bti_task_end(bti_state *state, bti_task_record *task, bti_wakes *wakes);
/* One that waits in no queue any more fails (nothing when it is done already), and ends. */
void bti_task_refuse(bti_state *state, bti_task_record *task, bt_failure kind, bt_status status, const char *why,
                     bti_wakes *wakes);
/* Calls whose deadline has come fail; processes that run them are marked to be ended. The next deadline; 0: none. */
uint64_t bti_deadlines(bti_state *state, uint64_t now_ns, bti_wakes *wakes);
/* A process is gone: what it held is free, what it ran fails with that text, or is queued once more. */
void bti_client_gone(bti_state *state, bti_client *client, const char *why, bti_wakes *wakes);

#endif

/* Objects: what references stand for, their holders, and checks of what workers say of them. All with the lock, except reading the state of an object
 * that the caller holds, and functions that say so.
 *
 * An object lives as long as it has holders: holds of processes, tasks and waits that need it, values that refer to it (its contents), the actor or group
 * that it stands for. When the last handle of an actor goes, the actor is put on a list for the scheduler (ready.h). */
#ifndef BTI_TASK_OBJECT_H
#define BTI_TASK_OBJECT_H

#include "task/state.h"
#include "task/wake.h"

/* A pending one with one holder; NULL when there are too many. */
bti_object *bti_object_new(bti_state *state);
void bti_object_retain(bti_state *state, bti_object *object);
/* One holder less; frees it after the last. */
void bti_object_drop(bti_state *state, bti_object *object, bti_wakes *wakes);

/* A reference of a process; NULL when there are too many. */
bti_hold *bti_hold_new(bti_state *state, bti_client *client, bti_object *object);
void bti_hold_free(bti_state *state, bti_hold *hold, bti_wakes *wakes);
/* What an engine's handle holds, here. */
static inline bti_object *bti_held_object(const void *held) { return ((const bti_hold *)held)->object; }

/* --- what a value refers to: held as long as the value is there. Values never change, so there are no circles. --- */
/* One holder more. False: no record is left. */
bool bti_contents_add(bti_state *state, bti_contents *contents, bti_object *object);
void bti_contents_drop(bti_state *state, bti_contents *contents, bti_wakes *wakes);
/* All that a checked value refers to. False: no record is left, and it holds none. */
bool bti_object_contain(bti_state *state, bti_object *object, const char *packed, bti_wakes *wakes);

/* --- results of a call --- */
/* The call, whose first result is there, has so many. False: no record is left. */
bool bti_results_new(bti_state *state, bti_task_record *task, uint32_t count);
uint32_t bti_result_count(const bti_task_record *task);
bti_object *bti_task_result(const bti_task_record *task, uint32_t index);
/* What bt_result gives, as a hold of the client; NULL with the cause in the error record. */
bti_hold *bti_result_hold(bti_state *state, bti_client *client, bti_object *object, uint32_t index, bti_wakes *wakes);

/* --- failures --- */
/* Its failure as the error of this thread. Without the lock; the caller holds the object. */
bt_status bti_object_failure(const bti_object *object);
const char *bti_object_failure_text(const bti_object *object);

/* --- ids: references and actors in values, as the place of their object in the arena --- */
static inline uint64_t bti_object_id(const bti_state *state, const bti_object *object) {
    return (uint64_t)((const char *)object - (const char *)state->arena);
}
/* Of a value that was checked. */
static inline bti_object *bti_object_of(const bti_state *state, uint64_t id) {
    return (bti_object *)(void *)((char *)state->arena + id);
}
/* Of a value that a worker may have written; NULL: there is no such object. */
bti_object *bti_object_at(const bti_state *state, uint64_t id);

/* --- what a worker says is checked before it is believed: it may have written anything --- */
bool bti_is_hold_of(const bti_state *state, const bti_client *client, const bti_hold *hold);
/* Of a pending object that nothing has been made of. */
bool bti_is_fresh(const bti_state *state, const bti_client *client, const bti_hold *hold);
bool bti_is_object(const bti_state *state, const bti_object *object);
/* The packed list is whole, and what it refers to is there. */
bool bti_is_packed(const bti_state *state, const char *packed, uint64_t bytes);
/* The value of an object: one, or none. */
bool bti_is_value(const bti_state *state, const char *packed, uint64_t bytes);

#endif

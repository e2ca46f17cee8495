/* Where the values of objects stand. All with the lock. */
#ifndef BTI_TASK_PLACEMENT_H
#define BTI_TASK_PLACEMENT_H

#include "task/state.h"

/* Where the value of an object stands in memory; NULL: on disk, on its way back, or there is none. */
static inline const char *bti_object_value(const bti_object *object) {
    if (object->reader) return NULL;
    return object->value ? object->value : object->bytes && object->bytes <= BTI_INLINE_BYTES ? object->small : NULL;
}

/* A copy of a packed value, in the object or the store, whose limit a small one may pass; false: there is no room. */
bool bti_object_copy(bti_state *state, bti_object *object, const char *packed, uint64_t bytes);
/* The object has no value any more, wherever that was. */
void bti_object_empty(bti_state *state, bti_object *object);
/* The call that makes it may still write into its room, which is freed when that call has ended. */
void bti_object_leave_room(bti_state *state, bti_object *object);

/* The value is in memory, and stays there until it is unpinned as often. */
void bti_object_pin(bti_state *state, bti_object *object);
void bti_object_unpin(bti_state *state, bti_object *object);
/* The same by a hold, until that is freed. Nothing when it pins the value already. */
void bti_hold_pin(bti_state *state, bti_hold *hold);
/* Its value may go to disk from now on, as the most recently used one. Nothing unless it is ready, in the store, and not pinned. */
void bti_object_make_spillable(bti_state *state, bti_object *object);

/* The end of a move that this hold stands for (hold->moves): the value is there now, or stays where it was. undo: nothing when none is going on. */
void bti_hold_finish_move(bti_state *state, bti_hold *hold);
void bti_hold_undo_move(bti_state *state, bti_hold *hold);

/* Threads and the mover that wait for room try again. */
void bti_room_changed(bti_state *state);
/* How often this process has woken them: the mover does not count its own attempts as news. */
unsigned bti_moves_told(void);

#endif

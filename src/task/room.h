/* Room in the store for values. Values that are not in use go to disk for it, the least recently used first, and come back when they are read. */
#ifndef BTI_TASK_ROOM_H
#define BTI_TASK_ROOM_H

#include "task/state.h"

/* --- without the lock --- */
/* Room for a value of a pending object that no other thread writes; what stood there is given up. In the store when it is large; RESOURCE_EXHAUSTED when
 * waiting until others release values does not help. CANCELLED when the object is done already. A process that dies meanwhile leaves no room behind:
 * the object has it. */
bt_status bti_object_room(bti_state *state, bti_object *object, uint64_t bytes, char **room);
/* A hold of this process that keeps the value of an object that is ready, and larger than stands in it, in memory; one that
 * was spilled is read back. NULL with the cause in the error record. */
bti_hold *bti_object_pinned(bti_state *state, bti_object *object);
/* In memory again, pinned by this hold of the caller; and: there is room for so many bytes in one piece. UNAVAILABLE: others have to
 * release values first. */
bt_status bti_hold_bring_back(bti_state *state, bti_hold *hold);
bt_status bti_store_make_room(bti_state *state, uint64_t bytes);
/* Gives free memory and room on disk back that is more than is kept for the next values. */
void bti_store_tidy(bti_state *state);

/* --- with it --- */
/* There is such memory or room. */
bool bti_store_is_untidy(const bti_state *state);
/* Which processes hold values that are in memory, and how many bytes of them are in use. */
const char *bti_store_holders(const bti_state *state, char *text, size_t bytes);

#endif

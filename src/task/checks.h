/* What a worker says is checked before it is believed: it may have written anything. All with the lock. */
#ifndef BTI_TASK_CHECKS_H
#define BTI_TASK_CHECKS_H

#include "task/object.h"

bool bti_is_hold_of(const bti_state *state, const bti_client *client, const bti_hold *hold);
/* One that nothing has been made of. */
bool bti_is_fresh(const bti_state *state, const bti_client *client, const bti_hold *hold);
bool bti_is_object(const bti_state *state, const bti_object *object);
/* The packed list is whole, and what it refers to is there. */
bool bti_is_packed(const bti_state *state, const char *packed, uint64_t bytes);
/* The value of an object: one, or none. */
bool bti_is_value(const bti_state *state, const char *packed, uint64_t bytes);

#endif

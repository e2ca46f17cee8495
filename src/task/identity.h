/* Whose rights the processes of a runtime have: workers have those that the program has when they are forked. A program that gives up
 * rights after bt_runtime_init runs no further task with them. */
#ifndef BTI_TASK_IDENTITY_H
#define BTI_TASK_IDENTITY_H

#include "task/process.h"

/* In the program, when the runtime begins. A program that has no right to change its users and groups is not looked at again. */
void bti_identity_begin(bti_state *state);
/* In the program, before each call. If its users or groups are others than before, idle workers end, and others with their task. */
void bti_identity_look(bti_state *state);
/* In a worker that was just forked. Takes the users, groups, capabilities and no_new_privs of the program. On failure it writes the cause
 * to standard error and returns false. */
bool bti_identity_take(const bti_state *state);

#endif

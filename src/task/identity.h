/* Users, groups and capabilities of workers: those that the program has when the worker is forked. After a program has given up rights, no
 * further call runs with them. */
#ifndef BTI_TASK_IDENTITY_H
#define BTI_TASK_IDENTITY_H

#include "task/process.h"

/* In the program, when the runtime begins. A program without the right to change its users and groups is not checked again. */
void bti_identity_begin(bti_state *state);
/* In the program, before each call. If its users or groups have changed, idle workers are ended, and busy ones end with their call. */
void bti_identity_check(bti_state *state);
/* In a worker that was just forked. Takes the users, groups, capabilities and no_new_privs of the program. On failure it writes the cause
 * to standard error and returns false. */
bool bti_identity_take(const bti_state *state);

#endif

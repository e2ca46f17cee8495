/* Starting the nest, and waiting for its end, in the program. */
#ifndef BTI_TASK_KEEPER_H
#define BTI_TASK_KEEPER_H

#include "task/state.h"

/* Starts the nest and waits until it is there.
 *
 *     program -> keeper -> nest -> workers
 *
 * The keeper does nothing but wait for the nest. It is a child that sends no signal when it ends, so wait(2) does not see it: loops over
 * all children of the program come to an end, and its SIGCHLD handlers are not called. */
bt_status bti_nest_start(bti_state *state);
/* The same for a program that cannot be forked into a nest, because it has threads or uses devices: it is started again, with the memory in
 * `memory` (begin.c). There is no keeper then: the nest is nobody's child. */
bt_status bti_nest_start_again(bti_state *state, int memory);
/* Waits until the nest has ended; `closing` is set, or the arena is broken. */
void bti_nest_wait(void);

#endif

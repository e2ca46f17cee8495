/* Starting the nest of a program that cannot be forked into one. */
#ifndef BTI_TASK_BEGIN_H
#define BTI_TASK_BEGIN_H

#include "task/state.h"

/* Starts the program again as a nest and waits until it is there. *end stays open as long as the program lives. */
bt_status bti_nest_begin_again(bti_state *state, int memory, int *end);

#endif

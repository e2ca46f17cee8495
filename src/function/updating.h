/* Calls that set the same variable are made one at a time: between reading the value and setting the next one another call's update would be
 * lost. Calls that set different variables do not wait for each other. */
#ifndef BTI_FUNCTION_UPDATING_H
#define BTI_FUNCTION_UPDATING_H

#include "function/function.h"

/* When the function knows what it sets. */
void bti_updating_sort(bt_function *function);
/* Waits until no other thread is between the two with a variable that the function sets, of the replicas that this thread sets. No lock is held
 * in between. A function that sets none waits for nothing. */
void bti_updating_begin(const bt_function *function);
void bti_updating_end(const bt_function *function);

#endif

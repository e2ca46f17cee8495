/* Where the results and temporaries of a plan's runs lay. Launches are recorded with the addresses that they use (recordings.h), so runs had best use few of them. Values of
 * variables take turns in memory, as steps run ahead, and how many are needed depends on when the device is done with each: a run gets the results' addresses of the turn that was used longest
 * ago, if they are free, so turns come in the same order whatever the device's times. Where no turn is free there will be one more. */
#ifndef BTI_EXEC_TURNS_H
#define BTI_EXEC_TURNS_H

#include "exec/ready.h"

struct bti_turns *bti_turns_new(const bti_plan *plan); /* NULL when the host's memory is short */
void bti_turns_free(struct bti_turns *turns);          /* NULL is fine */

/* For a run that has what it is given: its other addresses are where it had best get memory, 0 where that is not known. Returns the turn, for
 * bti_turns_note, when it has all its memory. */
int bti_turns_find(bti_run *run);
void bti_turns_note(const bti_run *run, int turn);

#endif

/* Where the memory of a plan's runs was. Values of variables and batches take turns in memory, as steps run ahead. A run whose results and temporaries lie
 * where they lay when what it is given was last where it is now launches the same with the same addresses, which is recorded (recordings.h). */
#ifndef BTI_EXEC_TURNS_H
#define BTI_EXEC_TURNS_H

#include "exec/ready.h"

struct bti_turns *bti_turns_new(const bti_plan *plan); /* NULL when the host's memory is short */
void bti_turns_free(struct bti_turns *turns);          /* NULL is fine */

/* For a run that has what it is given: its other addresses are where it had best get memory, 0 where that is not known. Returns the turn, for
 * bti_turns_note, when it has all its memory. */
uint64_t bti_turns_find(bti_run *run);
void bti_turns_note(const bti_run *run, uint64_t turn);

#endif

/* The file that values go to when memory is short: without a name, so that it is gone with the last process, and opened before there is
 * a second one, so that all have it. */
#ifndef BTI_TASK_SPILL_H
#define BTI_TASK_SPILL_H

#include "task/store.h"

/* In `folder`, $TMPDIR or /tmp, for at most `limit` bytes (0: half of what is free there). Without a file, attempts to spill fail with the reason. */
bt_status bti_spill_open(bti_state *state, const char *folder, uint64_t limit);
void bti_spill_close(bti_state *state);

/* --- with the lock --- */
/* Room for a value; NULL: there is none. */
bti_slot *bti_slot_take(bti_state *state, uint64_t bytes);
void bti_slot_give(bti_state *state, bti_slot *slot);
/* Gives some room of free slots back to the disk; false: there is none. */
bool bti_slot_trim(bti_state *state);

/* --- without --- */
bt_status bti_spill_write(const bti_state *state, const bti_slot *slot, const char *value);
bt_status bti_spill_read(const bti_state *state, const bti_slot *slot, char *value);

#endif

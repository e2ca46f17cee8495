/* Memory for values, shared by all processes. A block is a record of 2^n bytes, of which only what is written takes memory; so blocks
 * never move, are never joined or cut, and who asks is answered in constant time. */
#ifndef BTI_TASK_STORE_H
#define BTI_TASK_STORE_H

#include "task/state.h"

enum { BTI_BLOCKS = 16, BTI_SMALLEST_BLOCK = 7 /* 2^7 bytes */, BTI_BLOCK_HEAD = 64 };

/* Lays it out, for values of `limit` bytes in all; before there is a second process. */
bt_status bti_store_open(bti_state *state, uint64_t limit);

/* With the lock. Room of `bytes`, aligned to 64; NULL when the limit would be passed. */
char *bti_store_take(bti_state *state, uint64_t bytes);
void bti_store_give(bti_state *state, char *value, uint64_t bytes);
/* Gives memory of free blocks back to the machine, until at most `keep` bytes of it are left. */
void bti_store_trim(bti_state *state, uint64_t keep);

#endif

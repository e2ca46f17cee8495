/* Memory for values, shared by all processes. A block is a record of 2^n bytes, of which only what is written takes memory; so blocks
 * never move, are never joined or cut, and are found in constant time. A free block keeps its memory for the next value of
 * its size: fresh pages cost several times what the copying costs. All with the lock. */
#ifndef BTI_TASK_STORE_H
#define BTI_TASK_STORE_H

#include "task/state.h"

enum { BTI_BLOCKS = 16, BTI_SMALLEST_BLOCK = 7 /* 2^7 bytes */, BTI_BLOCK_HEAD = 64, BTI_ORDERS = 48 };

/* What a block begins with. */
typedef struct bti_store_block {
    bti_free_record record;
    struct bti_store_block *newer, *older; /* free ones of its size that have memory */
    uint64_t memory;                       /* bytes of it that were written, and not given back since */
} bti_store_block;

/* Room in the spill file: a power of two of bytes. */
typedef struct bti_slot {
    bti_free_record record; /* turn: of its giving back */
    struct bti_slot *next;
    uint64_t at, bytes; /* bytes: of the value */
    uint64_t dirty;     /* bytes that a free one still has on disk */
    uint32_t order;
} bti_slot;

typedef struct bti_store {
    struct {
        bti_store_block *newest, *oldest;
    } warm[BTI_ORDERS];
    bti_object *newest, *oldest; /* values that can be spilled, by last use */
    bti_slot *slots[BTI_ORDERS]; /* free ones */
    bti_slot *dirty;             /* free ones that still have room on disk */
    uint64_t dirty_bytes, file_end;
    uint32_t moving_out;
    atomic_uint moved; /* counts up when a move has ended */
} bti_store;

/* 30 % of the memory of the machine, or of the tightest cgroup. */
uint64_t bti_store_default_bytes(void);
/* Of the arena, for values of `limit` bytes. */
uint64_t bti_store_address_space(uint64_t limit);
/* Lays it out, for values of `limit` bytes in all; before there is a second process. */
bt_status bti_store_open(bti_state *state, uint64_t limit);

/* Room of `bytes`, aligned to 64 (of BTI_PAGED_BYTES and more, to pages, which nothing else is in); NULL when the limit would be passed. */
enum { BTI_PAGED_BYTES = 1 << 13 };
char *bti_store_take(bti_state *state, uint64_t bytes);
/* Whatever the limit; NULL: no block is left. */
char *bti_store_take_past(bti_state *state, uint64_t bytes);
void bti_store_give(bti_state *state, char *value, uint64_t bytes);
/* Would taking so much take more memory from the machine than the limit, unless that of free blocks is given back first? */
bool bti_store_is_over(const bti_state *state, uint64_t bytes);
/* Free blocks have more memory than is kept for the next values. */
bool bti_store_is_wide(const bti_state *state);
/* Gives some memory of the block that is free for longest back to the machine, in about a millisecond; false: there is none. */
bool bti_store_trim(bti_state *state);

#endif

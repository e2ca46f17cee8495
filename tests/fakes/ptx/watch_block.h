/* What watch.c and watch_order.c share: launches and their blocks. */
#ifndef BERTH_TESTS_FAKES_PTX_WATCH_BLOCK_H
#define BERTH_TESTS_FAKES_PTX_WATCH_BLOCK_H

#include "fakes/memory.h"
#include "fakes/order.h"
#include "fakes/ptx/watch.h"
#include "fakes/ptx/watch_sync.h"

#define WATCH_THREAD_BITS 10
#define WATCH_WARPS 32
#define WATCH_LAST_SYNC 0xffffu /* of a warp between two barriers of its block */

/* Bytes that cp.async writes, until its thread has waited for them. */
typedef struct async_write {
    uint32_t thread, group, offset, bytes;
} async_write;

/* `warp_syncs`: since the last barrier of the block; those up to whole_syncs ordered all lanes of the warp. */
typedef struct watch_block {
    struct watch_block *next;
    uint32_t number, threads;
    uint32_t barriers, warp_syncs[WATCH_WARPS], whole_syncs[WATCH_WARPS];
    uint32_t generation; /* the number that accesses of this block to its shared memory have for fake_cell.op */
    fake_page *shared;
    uint32_t shared_pages;
    async_write *async; /* in the order of their issue */
    uint32_t async_count, async_room, groups[1024];
} watch_block;

struct watch_launch {
    uint32_t op, own_stream; /* own_stream: of launches that no operation of the fake driver runs */
    fake_clock own_clock;
    bool unwatched;
    fake_allocation *last;
    uint32_t write_before, read_before; /* operations that are known to be ordered before this one */
    watch_block *blocks, *spare, *current;
    uint32_t generations;
    watch_sync *sync; /* NULL until a fence, an atomic or a barrier of some threads */
};

watch_block *watch_block_of(watch_launch *watched, uint32_t number);

/* As in fake_cell. */
static inline uint32_t watch_when(const watch_block *b, uint32_t thread) {
    return b->barriers << 16 | b->warp_syncs[thread / PTX_WARP % WATCH_WARPS];
}

#endif

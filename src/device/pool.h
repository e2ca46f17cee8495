/* A caching allocator over one device's memory: segments from the device, blocks cut from them and joined again, best fit.
 * Blocks below 1 MiB share segments of 2 MiB and more, of their own; larger ones share segments that grow with the pool. It
 * never takes more than its limit. Thread safe. */
#ifndef BTI_DEVICE_POOL_H
#define BTI_DEVICE_POOL_H

#include "device/pool_count.h"

/* Blocks carry the number `device`; limit 0: no limit. Without `caches` each block is a segment of its own, of exactly the bytes asked for, and
 * one that was given back and is idle is freed by the next request of memory. NULL when the host has no memory. */
bti_pool *bti_pool_new(int device, const char *name, bti_pool_source source, size_t limit, bool caches);
/* Frees every segment, even those with blocks in use. NULL is fine. */
void bti_pool_delete(bti_pool *pool);

/* Allocates a segment of that size, rounded down to BTI_POOL_ALIGN, which is never released. Of pools that cache. */
bt_status bti_pool_reserve(bti_pool *pool, size_t bytes);
void bti_pool_set_limit(bti_pool *pool, size_t limit);

/* The bytes that a block of this size takes from the pool, under that limit (0: none); 0: it can never fit. */
size_t bti_pool_block_bytes(size_t bytes, size_t limit);
/* Blocks whose busy_until is at most `completed` are idle. With BTI_LAUNCHED_ONLY `completed` is the number of the last launched work, and no
 * segment is released for the request. */
typedef enum bti_pool_wish { BTI_ANY_BLOCK, BTI_IDLE_IF_CHEAP, BTI_LAUNCHED_ONLY } bti_pool_wish;
/* As bti_block_alloc and bti_block_free. */
bt_status bti_pool_take(bti_pool *pool, size_t bytes, uint64_t completed, bti_pool_wish wish, bti_block **block);
/* As with BTI_ANY_BLOCK, from this address on if that is free and easily found; 0: from any. */
bt_status bti_pool_take_at(bti_pool *pool, size_t bytes, uint64_t completed, uint64_t at, bti_block **block);
bool bti_pool_is_free_at(bti_pool *pool, size_t bytes, uint64_t at);
void bti_pool_give(bti_pool *pool, bti_block *block, uint64_t busy_until);
/* Releases the segments of which all blocks are free and idle; returns the bytes. */
size_t bti_pool_release(bti_pool *pool, uint64_t completed);

void bti_pool_reset_peak(bti_pool *pool);

#endif

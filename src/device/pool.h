/* A caching allocator over one device's memory: segments from the device, blocks cut from them and joined again, best fit.
 * Blocks below 1 MiB share segments of 2 MiB and more, of their own; larger ones share segments that grow with the pool. It
 * never takes more than its limit. Thread safe. */
#ifndef BTI_DEVICE_POOL_H
#define BTI_DEVICE_POOL_H

#include "device/device.h"

typedef struct bti_pool bti_pool;

/* Where segments come from. */
typedef struct bti_pool_source {
    void *context;
    bt_status (*alloc)(void *context, size_t bytes, uint64_t *address);
    void (*free)(void *context, uint64_t address, size_t bytes);
} bti_pool_source;

typedef struct bti_pool_counters {
    size_t limit, used, peak, cached, largest_free, segments;
} bti_pool_counters;

#define BTI_POOL_ALIGN BTI_MEMORY_ALIGN /* bytes; blocks are multiples of it, at multiples of it */

/* `device` is put into the blocks; limit 0: none. NULL when memory is short. */
bti_pool *bti_pool_new(int device, const char *name, bti_pool_source source, size_t limit);
/* Gives everything back to the source, blocks in use too. NULL is fine. */
void bti_pool_delete(bti_pool *pool);

/* Takes a segment of that size, rounded down to BTI_POOL_ALIGN, which no trim gives back. */
bt_status bti_pool_reserve(bti_pool *pool, size_t bytes);
void bti_pool_set_limit(bti_pool *pool, size_t limit);

/* What a block for so many bytes takes, under that limit (0: none); 0: more than there can be. */
size_t bti_pool_block_bytes(size_t bytes, size_t limit);
/* Blocks whose busy_until is at most `completed` are idle; with BTI_LAUNCHED_ONLY that number is what was launched, and no
 * segment goes back to the source for it. */
typedef enum bti_pool_wish { BTI_ANY_BLOCK, BTI_IDLE_IF_CHEAP, BTI_LAUNCHED_ONLY } bti_pool_wish;
/* As bti_block_alloc and bti_block_free. */
bt_status bti_pool_take(bti_pool *pool, size_t bytes, uint64_t completed, bti_pool_wish wish, bti_block **block);
void bti_pool_give(bti_pool *pool, bti_block *block, uint64_t busy_until);
/* Gives whole segments, all free and idle, back to the source; returns the bytes. */
size_t bti_pool_release(bti_pool *pool, uint64_t completed);

bti_pool_counters bti_pool_count(bti_pool *pool);
/* Free bytes in segments that are partly in use: larger blocks find no room there, and no trim gives them back. With the first
 * segment of small blocks where one may be needed. */
size_t bti_pool_scattered(bti_pool *pool);
void bti_pool_reset_peak(bti_pool *pool);
/* For tests: NULL, or what is wrong with its books. */
const char *bti_pool_verify(bti_pool *pool);

#endif

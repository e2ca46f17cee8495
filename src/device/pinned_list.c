#include "device/pinned_list.h"

#include <stdatomic.h>

#include "base/lock.h"
#include "base/vec.h"
#include "device/table.h"

BTI_STATIC_LOCK(blocks_lock, pinned)
static BTI_VEC(bti_pinned *) blocks; /* by address; those that were not freed */
static atomic_size_t alive;          /* blocks, those that copies use after they were freed too */

size_t bti_pinned_alive(void) { return atomic_load(&alive); }

/* --- under the lock ----------------------------------------------------------------------------------------------- */

/* How many blocks begin at this address or before. */
static size_t blocks_up_to(const char *memory) {
    size_t low = 0, high = blocks.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks.items[middle]->memory <= memory)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The block in which the byte lies. */
static bti_pinned *block_around(const char *memory) {
    size_t at = blocks_up_to(memory);
    bti_pinned *block = at ? blocks.items[at - 1] : NULL;
    return block && (size_t)(memory - block->memory) < block->bytes ? block : NULL;
}

static void insert_block(bti_pinned *block) {
    size_t at = blocks_up_to(block->memory);
    memmove(blocks.items + at + 1, blocks.items + at, (blocks.count - at) * sizeof *blocks.items);
    blocks.items[at] = block;
    blocks.count++;
}

static void remove_block(bti_pinned *block) {
    size_t after = blocks_up_to(block->memory);
    memmove(blocks.items + after - 1, blocks.items + after, (blocks.count - after) * sizeof *blocks.items);
    if (!--blocks.count) bti_vec_free(&blocks);
    block->freed = true;
}

/* --- making and freeing ------------------------------------------------------------------------------------------- */

bool bti_pinned_add(bti_pinned *block) {
    bti_lock_take(&blocks_lock);
    bool room = bti_vec_reserve(&blocks, 1);
    if (room) {
        insert_block(block);
        atomic_fetch_add(&alive, 1);
    }
    bti_lock_give(&blocks_lock);
    return room;
}

void bti_pinned_destroy(bti_pinned *block) {
    bt_device *device = block->device;
    if (block->locked) {
        device->driver->host_free(device->state, block->memory, block->bytes);
        atomic_fetch_sub(&device->pinned, block->bytes);
    } else {
        bti_free(block->memory);
    }
    bti_free(block);
}

/* It is not in the list, and no copy uses it. */
static void end_block(bti_pinned *block) {
    bti_pinned_destroy(block);
    atomic_fetch_sub(&alive, 1);
}

bool bti_pinned_remove(const void *memory, size_t *offset) {
    *offset = 0;
    bti_lock_take(&blocks_lock);
    bti_pinned *block = block_around(memory);
    if (block) *offset = (size_t)((const char *)memory - block->memory);
    bool found = block && !*offset, idle = found && !block->uses;
    if (found) remove_block(block);
    bti_lock_give(&blocks_lock);
    if (idle) end_block(block);
    return found;
}

bool bti_pinned_is_locked(const void *memory) {
    bti_lock_take(&blocks_lock);
    const bti_pinned *block = block_around(memory);
    bool locked = block && block->locked;
    bti_lock_give(&blocks_lock);
    return locked;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

bti_pinned *bti_pinned_use(const bti_driver *driver, const void *memory, size_t bytes) {
    if (!driver->host_alloc || !atomic_load_explicit(&alive, memory_order_relaxed)) return NULL;
    bti_lock_take(&blocks_lock);
    bti_pinned *block = block_around(memory);
    if (block && (!block->locked || block->device->driver != driver ||
                  bytes > block->bytes - (size_t)((const char *)memory - block->memory)))
        block = NULL;
    if (block) block->uses++;
    bti_lock_give(&blocks_lock);
    return block;
}

void bti_pinned_leave(bti_pinned *block) {
    bti_lock_take(&blocks_lock);
    bool last = !--block->uses && block->freed;
    bti_lock_give(&blocks_lock);
    if (last) end_block(block);
}

#include "device/pool.h"
#include "device/pool_state.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "base/trace.h"

#define IDLE_CACHE (64 * MIB) /* the host gets a busy block only when at least this much is cached */

static void (*_Atomic memory_observer)(int device, uint64_t in_use);
void bti_device_observe_memory(void (*used)(int device, uint64_t in_use)) { atomic_store(&memory_observer, used); }

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static segment_class class_of(size_t need) { return need < SMALL_BELOW ? SMALL : LARGE; }

static bti_block *find_free_block(bti_pool *pool, size_t need, uint64_t completed) {
    segment_class class = class_of(need);
    bti_block *block = bti_pool_find(pool, class, need, completed, false);
    if (!block && class == LARGE && pool->unjoined) {
        bti_pool_join_idle(pool, completed);
        block = bti_pool_find(pool, class, need, completed, false);
    }
    return block ? block : bti_pool_find(pool, KEPT, need, completed, true);
}

static bti_block *choose_block(bti_pool *pool, size_t need, uint64_t completed, bti_pool_wish wish) {
    if (wish == BTI_ANY_BLOCK) return find_free_block(pool, need, UINT64_MAX);
    bti_block *block = find_free_block(pool, need, completed);
    if (block || wish == BTI_LAUNCHED_ONLY) return block;
    bti_block *busy = find_free_block(pool, need, UINT64_MAX);
    size_t cached = pool->reserved - pool->used;
    if (busy && cached < (need > IDLE_CACHE / 4 ? need * 4 : IDLE_CACHE))
        block = bti_pool_segment_add(pool, class_of(need), need);
    return block ? block : busy;
}

/* The cache has no block that fits: adds a segment, after releasing others if that is necessary. */
static bti_block *make_room(bti_pool *pool, size_t need, uint64_t completed, bti_pool_wish wish) {
    segment_class class = class_of(need);
    if (class == LARGE && wish != BTI_LAUNCHED_ONLY) bti_pool_retire_useless(pool, need);
    if (pool->retired && wish != BTI_LAUNCHED_ONLY) bti_pool_release_retired(pool, completed);
    bti_block *block = bti_pool_segment_add(pool, class, need);
    uint64_t idle = wish == BTI_LAUNCHED_ONLY ? 0 : completed;
    if (!block && bti_pool_release_segments(pool, idle, bti_pool_segment_bytes(pool, class, need)))
        block = bti_pool_segment_add(pool, class, need);
    if (!block && bti_pool_release_segments(pool, idle, SIZE_MAX)) block = bti_pool_segment_add(pool, class, need);
    idle = wish == BTI_LAUNCHED_ONLY ? completed : UINT64_MAX;
    if (!block) block = bti_pool_find(pool, LARGE, need, idle, true);
    return block ? block : bti_pool_find(pool, SMALL, need, idle, true);
}

/* Without a cache: a segment of exactly these bytes, after those that were given back and are idle were freed. */
static bti_block *make_single(bti_pool *pool, size_t need, size_t bytes, uint64_t completed, bti_pool_wish wish) {
    if (pool->reserved > pool->used)
        (void)bti_pool_release_segments(pool, wish == BTI_LAUNCHED_ONLY ? 0 : completed, SIZE_MAX);
    return bti_pool_segment_new(pool, need, bytes ? bytes : 1, SINGLE);
}

static bti_block *take_block(bti_pool *pool, size_t need, size_t bytes, uint64_t completed, bti_pool_wish wish) {
    if (pool->retired && wish != BTI_LAUNCHED_ONLY) bti_pool_release_retired(pool, completed);
    if (!pool->caches) return make_single(pool, need, bytes, completed, wish);
    bti_block *block = choose_block(pool, need, completed, wish);
    return block ? block : make_room(pool, need, completed, wish);
}

static bool free_neighbour(const bti_block *block) { return block && !block->in_use; }

/* Cuts the end that is not needed off the block. Without memory for a record the block stays whole. */
static void split_block(bti_pool *pool, bti_block *block, size_t need) {
    if (block->capacity == need) return;
    bti_block *rest = bti_pool_record_new(pool);
    if (!rest) return;
    rest->address = block->address + need;
    rest->capacity = block->capacity - need;
    rest->segment = block->segment;
    rest->busy_until = block->busy_until;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next) rest->next->previous = rest;
    pool->unjoined += free_neighbour(rest->next);
    block->next = rest;
    block->capacity = need;
    bti_pool_bin_add(pool, rest);
}

static bt_status out_of_memory(bti_pool *pool, size_t bytes, const bti_pool_counters *count) {
    bti_str text = {0};
    bti_str_addf(&text, "%s: out of memory: ", pool->name);
    bti_str_add_bytes_size(&text, bytes);
    bti_str_add(&text, " asked for; in use ");
    bti_str_add_bytes_size(&text, count->used);
    bti_str_add(&text, ", cached ");
    bti_str_add_bytes_size(&text, count->cached);
    bti_str_add(&text, " (largest free block ");
    bti_str_add_bytes_size(&text, count->largest_free);
    bti_str_add(&text, count->limit ? "), limit " : "), no limit set");
    if (count->limit) bti_str_add_bytes_size(&text, count->limit);
    bti_error *cause = bti_error_last();
    if (cause) bti_str_addf(&text, "; the device reports: %s", bti_error_message(cause));
    bt_status status = bti_fail(BT_RESOURCE_EXHAUSTED, "%s", bti_str_text(&text));
    bti_error_release(cause);
    bti_str_free(&text);
    return status;
}

size_t bti_pool_block_bytes(size_t bytes, size_t limit) {
    size_t unit = bytes < SMALL_BELOW ? BTI_POOL_ALIGN : 4 * KIB, need;
    if (!bti_add_size(bytes ? bytes : 1, unit - 1, &need) || need >= SIZE_MAX / 8) return 0;
    need &= ~(unit - 1);
    if (limit && need > limit) need = (bytes + BTI_POOL_ALIGN - 1) & ~(size_t)(BTI_POOL_ALIGN - 1);
    return need;
}

/* The front of a free block becomes one of its own; what is behind it, or without memory for a record NULL. */
static bti_block *cut_front(bti_pool *pool, bti_block *block, size_t front) {
    if (!front) return block;
    bti_block *next = block->next;
    bti_pool_bin_remove(pool, block);
    pool->unjoined -= (size_t)free_neighbour(next);
    split_block(pool, block, front);
    bti_pool_bin_add(pool, block);
    bool cut = block->next != next;
    pool->unjoined += cut ? 1 : (size_t)free_neighbour(next);
    return cut ? block->next : NULL;
}

static bti_block *find_block_at(bti_pool *pool, size_t need, uint64_t at) {
    return need && at && pool->caches ? bti_pool_find_at(pool, class_of(need), need, at) : NULL;
}

static bti_block *take_block_at(bti_pool *pool, size_t need, uint64_t at) {
    bti_block *block = find_block_at(pool, need, at);
    return block ? cut_front(pool, block, at - block->address) : NULL;
}

static bt_status take(bti_pool *pool, size_t bytes, uint64_t completed, bti_pool_wish wish, uint64_t at,
                      bti_block **out) {
    size_t need = bti_pool_block_bytes(bytes, pool->limit);
    bti_error *before = bti_error_last(); /* an attempt that succeeds in the end leaves no error behind */
    bt_error_clear();
    bti_lock_take(&pool->lock);
    bti_block *block = take_block_at(pool, need, at);
    if (need && !block) block = take_block(pool, need, bytes, completed, wish);
    if (block) {
        bti_pool_bin_remove(pool, block);
        pool->unjoined -= (size_t)(free_neighbour(block->previous) + free_neighbour(block->next));
        split_block(pool, block, need);
        block->bytes = bytes;
        block->in_use = true;
        pool->used += block->capacity;
        if (pool->used > pool->peak) pool->peak = pool->used;
        bti_trace_memory(pool->device, pool->used);
        void (*observer)(int, uint64_t) = atomic_load_explicit(&memory_observer, memory_order_relaxed);
        if (observer) observer(pool->device, pool->used);
    }
    bti_lock_give(&pool->lock);
    *out = block;
    if (block) return bti_error_put_back(before), BT_OK;
    bti_error_release(before);
    bti_pool_counters count = bti_pool_count(pool);
    return out_of_memory(pool, bytes, &count);
}

bt_status bti_pool_take(bti_pool *pool, size_t bytes, uint64_t completed, bti_pool_wish wish, bti_block **block) {
    return take(pool, bytes, completed, wish, 0, block);
}

bt_status bti_pool_take_at(bti_pool *pool, size_t bytes, uint64_t completed, uint64_t at, bti_block **block) {
    return take(pool, bytes, completed, BTI_ANY_BLOCK, at, block);
}

bool bti_pool_is_free_at(bti_pool *pool, size_t bytes, uint64_t at) {
    bti_lock_take(&pool->lock);
    bool is_free = find_block_at(pool, bti_pool_block_bytes(bytes, pool->limit), at);
    bti_lock_give(&pool->lock);
    return is_free;
}

/* Large blocks that wait for different work stay apart: merged, both would wait for the later one. They are merged when a request finds no other
 * block. */
static bool can_merge_now(const bti_block *left, const bti_block *right) {
    return left->segment->class != LARGE || left->busy_until == right->busy_until;
}

void bti_pool_give(bti_pool *pool, bti_block *block, uint64_t busy_until) {
    bti_lock_take(&pool->lock);
    pool->used -= block->capacity;
    bti_trace_memory(pool->device, pool->used);
    block->in_use = false;
    if (busy_until > block->busy_until) block->busy_until = busy_until;
    bti_block *previous = block->previous, *next = block->next;
    if (free_neighbour(next)) {
        if (can_merge_now(block, next)) {
            bti_pool_bin_remove(pool, next);
            bti_pool_merge(pool, block, next);
        } else
            pool->unjoined++;
    }
    if (free_neighbour(previous)) {
        if (can_merge_now(previous, block)) {
            bti_pool_bin_remove(pool, previous);
            bti_pool_merge(pool, previous, block);
            block = previous;
        } else
            pool->unjoined++;
    }
    bti_pool_bin_add(pool, block);
    bti_lock_give(&pool->lock);
}

/* --- the whole pool ----------------------------------------------------------------------------------------------- */

bti_pool *bti_pool_new(int device, const char *name, bti_pool_source source, size_t limit, bool caches) {
    bti_pool *pool = bti_calloc(1, sizeof *pool);
    if (!pool) return NULL;
    bti_lock_init_recursive(&pool->lock, BTI_LOCK_pool);
    pool->device = device;
    pool->name = name;
    pool->source = source;
    pool->limit = limit;
    pool->caches = caches;
    return pool;
}

void bti_pool_delete(bti_pool *pool) {
    if (!pool) return;
    while (pool->segments) bti_pool_segment_free(pool, pool->segments);
    for (size_t i = 0; i < pool->slabs.count; i++) bti_free(pool->slabs.items[i]);
    bti_vec_free(&pool->slabs);
    bti_lock_destroy(&pool->lock);
    bti_free(pool);
}

bt_status bti_pool_reserve(bti_pool *pool, size_t bytes) {
    bytes &= ~(size_t)(BTI_POOL_ALIGN - 1);
    if (!bytes) return BT_OK;
    bt_error_clear(); /* out_of_memory() quotes the source's error */
    bti_lock_take(&pool->lock);
    bool done = bti_pool_segment_new(pool, bytes, bytes, KEPT) != NULL;
    bti_lock_give(&pool->lock);
    if (done) return BT_OK;
    bti_pool_counters count = bti_pool_count(pool);
    return out_of_memory(pool, bytes, &count);
}

void bti_pool_set_limit(bti_pool *pool, size_t limit) {
    bti_lock_take(&pool->lock);
    pool->limit = limit;
    bti_lock_give(&pool->lock);
}

size_t bti_pool_release(bti_pool *pool, uint64_t completed) {
    bti_lock_take(&pool->lock);
    size_t bytes = bti_pool_release_segments(pool, completed, SIZE_MAX);
    bti_lock_give(&pool->lock);
    return bytes;
}

void bti_pool_reset_peak(bti_pool *pool) {
    bti_lock_take(&pool->lock);
    pool->peak = pool->used;
    bti_lock_give(&pool->lock);
}

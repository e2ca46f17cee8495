#include "device/pool_count.h"

#include "device/pool_state.h"

/* Neighbouring free blocks count as one block. */
static size_t largest_unjoined(const bti_pool *pool) {
    size_t largest = 0;
    for (const bti_segment *segment = pool->segments; segment; segment = segment->next) {
        size_t run = 0;
        for (const bti_block *block = segment->retired ? NULL : segment->first; block; block = block->next) {
            run = block->in_use ? 0 : run + block->capacity;
            if (run > largest) largest = run;
        }
    }
    return largest;
}

static size_t largest_in(const bti_pool *pool, segment_class class) {
    size_t largest = 0;
    int highest = -1;
    for (int bin = bti_pool_bin_next(pool, class, 0); bin < BINS;
         bin = bin == BINS - 1 ? BINS : bti_pool_bin_next(pool, class, bin + 1))
        highest = bin;
    for (bti_block *b = highest >= 0 ? pool->bins[class].first[highest] : NULL; b; b = b->free_next)
        if (b->capacity > largest) largest = b->capacity;
    return largest;
}

bti_pool_counters bti_pool_count(bti_pool *pool) {
    bti_lock_take(&pool->lock);
    bti_pool_counters count = {.limit = pool->limit, .used = pool->used, .peak = pool->peak};
    count.cached = pool->reserved - pool->used;
    count.segments = pool->segment_count;
    if (pool->unjoined) count.largest_free = largest_unjoined(pool);
    for (int i = 0; i < CLASSES && !pool->unjoined; i++) {
        size_t largest = largest_in(pool, (segment_class)i);
        if (largest > count.largest_free) count.largest_free = largest;
    }
    bti_lock_give(&pool->lock);
    return count;
}

size_t bti_pool_scattered(bti_pool *pool) {
    size_t bytes = 0;
    bool room_for_small = false;
    bti_lock_take(&pool->lock);
    for (const bti_segment *segment = pool->segments; segment; segment = segment->next) {
        size_t unused = 0;
        for (const bti_block *block = segment->first; block; block = block->next)
            unused += block->in_use ? 0 : block->capacity;
        if (unused == segment->bytes) continue;
        bytes += unused;
        if (segment->class == SMALL && unused >= SMALL_BELOW) room_for_small = true;
    }
    if (pool->caches && !room_for_small && !pool->reserved_of[KEPT]) bytes += SEGMENT_MIN;
    bti_lock_give(&pool->lock);
    return bytes;
}

static const char *find_defect(bti_pool *pool) {
    size_t reserved = 0, used = 0, free_blocks = 0, binned = 0, unjoined = 0;
    for (bti_segment *segment = pool->segments; segment; segment = segment->next) {
        uint64_t at = segment->address;
        bti_block *previous = NULL;
        for (bti_block *b = segment->first; b; previous = b, b = b->next) {
            if (b->address != at || b->previous != previous || b->segment != segment) return "broken chain of blocks";
            if (!b->capacity || b->capacity % BTI_POOL_ALIGN) return "odd size";
            bool apart = previous && !previous->in_use && !b->in_use;
            if (apart && segment->class != LARGE) return "two free neighbours";
            unjoined += apart;
            at += b->capacity;
            if (b->in_use) used += b->capacity;
            free_blocks += !b->in_use;
            if (segment->retired && (b->in_use || b->next)) return "a retired segment is used";
        }
        if (at != segment->address + segment->bytes) return "blocks do not fill their segment";
        reserved += segment->bytes;
    }
    for (int i = 0; i < CLASSES * BINS; i++) {
        int class = i / BINS, bin = i % BINS;
        if (!pool->bins[class].first[bin] != !(pool->bins[class].nonempty[bin / 64] >> bin % 64 & 1))
            return "bitmap is wrong";
        for (bti_block *b = pool->bins[class].first[bin]; b; b = b->free_next, binned++)
            if (b->in_use || bti_pool_bin_of(b->capacity) != bin || (int)b->segment->class != class)
                return "block in a wrong bin";
    }
    if (binned + pool->retired != free_blocks) return "free blocks and bins differ";
    if (reserved != pool->reserved || used != pool->used || unjoined != pool->unjoined) return "counters are wrong";
    return pool->limit && reserved > pool->limit ? "past the limit" : NULL;
}

const char *bti_pool_verify(bti_pool *pool) {
    bti_lock_take(&pool->lock);
    const char *wrong = find_defect(pool);
    bti_lock_give(&pool->lock);
    return wrong;
}

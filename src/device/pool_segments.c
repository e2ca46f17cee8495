#include "base/alloc.h"
#include "device/pool_state.h"

#define SLACK_PART 32 /* one in so many bytes of the most in use may be cached in larger segments that were of no use */

bti_block *bti_pool_segment_new(bti_pool *pool, size_t bytes, size_t asked, segment_class class) {
    if (pool->limit && (bytes > pool->limit || pool->reserved > pool->limit - bytes)) return NULL;
    bti_segment *segment = bti_calloc(1, sizeof *segment);
    bti_block *block = segment ? bti_pool_record_new(pool) : NULL;
    if (!block || pool->source.alloc(pool->source.context, asked, &segment->address) != BT_OK) {
        if (block) bti_pool_record_free(pool, block);
        bti_free(segment);
        return NULL;
    }
    segment->bytes = bytes;
    segment->asked = asked;
    segment->class = class;
    segment->first = block;
    segment->next = pool->segments;
    if (pool->segments) pool->segments->previous = segment;
    pool->segments = segment;
    pool->segment_count++;
    pool->reserved += bytes;
    pool->reserved_of[class] += bytes;
    block->address = segment->address;
    block->capacity = bytes;
    block->segment = segment;
    bti_pool_bin_add(pool, block);
    return block;
}

void bti_pool_segment_free(bti_pool *pool, bti_segment *segment) {
    if (segment->previous)
        segment->previous->next = segment->next;
    else
        pool->segments = segment->next;
    if (segment->next) segment->next->previous = segment->previous;
    pool->segment_count--;
    pool->reserved -= segment->bytes;
    pool->reserved_of[segment->class] -= segment->bytes;
    pool->source.free(pool->source.context, segment->address, segment->asked);
    bti_free(segment);
}

/* --- joining and giving back -------------------------------------------------------------------------------------- */

void bti_pool_merge(bti_pool *pool, bti_block *left, bti_block *right) {
    left->capacity += right->capacity;
    if (right->busy_until > left->busy_until) left->busy_until = right->busy_until;
    left->next = right->next;
    if (left->next) left->next->previous = left;
    bti_pool_record_free(pool, right);
}

/* Merges the block with the free blocks after it that are idle (busy_until <= completed). The block must be in no bin. */
static void join_right(bti_pool *pool, bti_block *block, uint64_t completed) {
    while (block->next && !block->next->in_use && block->next->busy_until <= completed) {
        bti_pool_bin_remove(pool, block->next);
        bti_pool_merge(pool, block, block->next);
        pool->unjoined--;
    }
}

void bti_pool_join_idle(bti_pool *pool, uint64_t completed) {
    for (bti_segment *segment = pool->unjoined ? pool->segments : NULL; segment; segment = segment->next) {
        for (bti_block *block = segment->class == LARGE && !segment->retired ? segment->first : NULL; block;
             block = block->next) {
            if (block->in_use || block->busy_until > completed) continue;
            bti_pool_bin_remove(pool, block);
            join_right(pool, block, completed);
            bti_pool_bin_add(pool, block);
        }
    }
}

static bool is_free(const bti_segment *segment) {
    const bti_block *block = segment->first;
    while (block && !block->in_use) block = block->next;
    return !block;
}

/* Takes a free segment out of use; it is released when it is idle. */
static void retire(bti_pool *pool, bti_segment *segment) {
    bti_pool_bin_remove(pool, segment->first);
    join_right(pool, segment->first, UINT64_MAX);
    segment->retired = true;
    pool->retired++;
}

size_t bti_pool_release_retired(bti_pool *pool, uint64_t completed) {
    size_t bytes = 0;
    for (bti_segment *segment = pool->retired ? pool->segments : NULL, *next; segment; segment = next) {
        next = segment->next;
        if (!segment->retired || segment->first->busy_until > completed) continue;
        bytes += segment->bytes;
        pool->retired--;
        bti_pool_record_free(pool, segment->first);
        bti_pool_segment_free(pool, segment);
    }
    return bytes;
}

void bti_pool_retire_useless(bti_pool *pool, size_t need) {
    size_t use = pool->used + need > pool->peak ? pool->used + need : pool->peak, kept = use + use / SLACK_PART;
    size_t held = pool->reserved + need;
    for (bti_segment *segment = pool->segments; segment; segment = segment->next)
        if (segment->retired) held -= segment->bytes;
    while (held > kept) {
        bti_segment *least = NULL;
        for (bti_segment *segment = pool->segments; segment; segment = segment->next)
            if (segment->class == LARGE && segment->bytes > SEGMENT_MAX && !segment->retired && is_free(segment) &&
                (!least || segment->bytes < least->bytes))
                least = segment;
        if (!least) return;
        held -= least->bytes;
        retire(pool, least);
    }
}

size_t bti_pool_release_segments(bti_pool *pool, uint64_t completed, size_t enough) {
    size_t bytes = bti_pool_release_retired(pool, completed);
    for (bti_segment *segment = pool->segments, *next; segment; segment = next) {
        next = segment->next;
        if (pool->limit && pool->reserved <= pool->limit && pool->limit - pool->reserved >= enough) break;
        bti_block *block = segment->first;
        if (segment->retired || segment->class == KEPT || block->in_use || block->busy_until > completed) continue;
        bti_pool_bin_remove(pool, block);
        join_right(pool, block, completed);
        bti_pool_bin_add(pool, block);
        if (block->next) continue;
        bytes += segment->bytes;
        bti_pool_bin_remove(pool, block);
        bti_pool_record_free(pool, block);
        bti_pool_segment_free(pool, segment);
    }
    return bytes;
}

size_t bti_pool_segment_bytes(const bti_pool *pool, segment_class class, size_t need) {
    size_t bytes = pool->reserved_of[class] / (class == SMALL ? 4 : 8) & ~(SEGMENT_MIN - 1);
    if (bytes > SEGMENT_MAX) bytes = SEGMENT_MAX;
    if (class == SMALL && bytes < SEGMENT_MIN) bytes = SEGMENT_MIN;
    return bytes > need ? bytes : need;
}

bti_block *bti_pool_segment_add(bti_pool *pool, segment_class class, size_t need) {
    size_t wanted = bti_pool_segment_bytes(pool, class, need);
    bti_block *block = bti_pool_segment_new(pool, wanted, wanted, class);
    if (!block && class == SMALL && wanted > SEGMENT_MIN)
        block = bti_pool_segment_new(pool, SEGMENT_MIN, SEGMENT_MIN, class);
    return block || wanted == need ? block : bti_pool_segment_new(pool, need, need, class);
}

#include <string.h>

#include "base/alloc.h"
#include "device/pool_state.h"

#define SLAB_BLOCKS 128
#define LEAST_PART 8 /* what takes less than one in so many bytes of a larger segment is not cut from it */
#define SCAN_MAX 64  /* blocks looked at in one bin */
#define WALK_MAX 512 /* in one segment */

/* --- records of blocks -------------------------------------------------------------------------------------------- */

bti_block *bti_pool_record_new(bti_pool *pool) {
    if (!pool->spare) {
        bti_block *slab = bti_calloc(SLAB_BLOCKS, sizeof *slab);
        if (!slab || !bti_vec_push(&pool->slabs, slab)) {
            bti_free(slab);
            return NULL;
        }
        for (int i = 0; i < SLAB_BLOCKS; i++) slab[i].free_next = pool->spare, pool->spare = &slab[i];
    }
    bti_block *block = pool->spare;
    pool->spare = block->free_next;
    memset(block, 0, sizeof *block);
    block->device = pool->device;
    return block;
}

void bti_pool_record_free(bti_pool *pool, bti_block *block) {
    block->free_next = pool->spare;
    pool->spare = block;
}

/* --- bins of free blocks ------------------------------------------------------------------------------------------ */

int bti_pool_bin_of(size_t bytes) {
    unsigned long long units = bytes / BTI_POOL_ALIGN; /* at least 1 */
    int power = 63 - __builtin_clzll(units);
    int part = power >= 4 ? (int)(units >> (power - 4) & 15) : (int)(units << (4 - power) & 15);
    return power * 16 + part;
}

void bti_pool_bin_add(bti_pool *pool, bti_block *block) {
    int bin = bti_pool_bin_of(block->capacity), class = (int)block->segment->class;
    bti_block **first = &pool->bins[class].first[bin];
    block->free_previous = NULL;
    block->free_next = *first;
    if (*first) (*first)->free_previous = block;
    *first = block;
    pool->bins[class].nonempty[bin / 64] |= UINT64_C(1) << bin % 64;
}

void bti_pool_bin_remove(bti_pool *pool, bti_block *block) {
    int bin = bti_pool_bin_of(block->capacity), class = (int)block->segment->class;
    if (block->free_next) block->free_next->free_previous = block->free_previous;
    if (block->free_previous)
        block->free_previous->free_next = block->free_next;
    else if (!(pool->bins[class].first[bin] = block->free_next))
        pool->bins[class].nonempty[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

int bti_pool_bin_next(const bti_pool *pool, segment_class class, int bin) {
    for (int word = bin / 64; word < BINS / 64; word++) {
        uint64_t bits = pool->bins[class].nonempty[word];
        if (word == bin / 64) bits &= ~UINT64_C(0) << bin % 64;
        if (bits) return word * 64 + __builtin_ctzll(bits);
    }
    return BINS;
}

/* A little of a segment that was made for one large block would keep the whole from serving another such. */
static bool may_cut(const bti_block *block, size_t need) {
    size_t bytes = block->segment->bytes;
    return block->segment->class != LARGE || bytes <= SEGMENT_MAX || need >= bytes / LEAST_PART;
}

static bool fits(const bti_block *block, size_t need, uint64_t completed, bool anywhere) {
    return block->capacity >= need && block->busy_until <= completed && (anywhere || may_cut(block, need));
}

bti_block *bti_pool_find_at(bti_pool *pool, segment_class class, size_t need, uint64_t at) {
    bti_segment *segment = pool->segments;
    while (segment && at - segment->address >= segment->bytes) segment = segment->next;
    if (!segment || segment->retired || (segment->class != class && segment->class != KEPT)) return NULL;
    bti_block *block = segment->first;
    for (int looked = 0; block && looked < WALK_MAX; block = block->next, looked++)
        if (at - block->address < block->capacity) break;
    uint64_t front = block ? at - block->address : 0;
    if (!block || block->in_use || front >= block->capacity || block->capacity - front < need) return NULL;
    return front && class == SMALL && segment->class != SMALL ? NULL : block;
}

bti_block *bti_pool_find(bti_pool *pool, segment_class class, size_t need, uint64_t completed, bool anywhere) {
    int first = bti_pool_bin_of(need);
    for (int bin = bti_pool_bin_next(pool, class, first); bin < BINS; bin = bti_pool_bin_next(pool, class, bin + 1)) {
        bti_block *best = NULL;
        int looked = 0;
        for (bti_block *b = pool->bins[class].first[bin]; b && looked < SCAN_MAX; b = b->free_next, looked++)
            if (fits(b, need, completed, anywhere) && (!best || b->capacity < best->capacity)) best = b;
        if (best) return best;
        if (bin == BINS - 1) break;
    }
    for (bti_block *b = completed == UINT64_MAX ? pool->bins[class].first[first] : NULL; b; b = b->free_next)
        if (fits(b, need, completed, anywhere)) return b;
    return NULL;
}

#include "device/pool.h"

#include <string.h>

#include "base/lock.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "base/trace.h"
#include "base/vec.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SMALL_BELOW MIB        /* smaller blocks are cut from segments of their own */
#define SEGMENT_MIN (2 * MIB)  /* of small blocks */
#define SEGMENT_MAX (32 * MIB) /* of several blocks */
#define IDLE_CACHE (64 * MIB)  /* the host gets a busy block only when at least this much is cached */
#define SLAB_BLOCKS 128
#define SCAN_MAX 64 /* blocks looked at in one bin */
#define BINS 1024   /* sizes in units of BTI_POOL_ALIGN, 16 bins for each power of two */

/* A small block would keep a large segment from being released, so small and large blocks have segments of their own. KEPT: reserved by
 * bti_pool_reserve; serves both and is never released. SINGLE: of one block, in a pool that does not cache. */
typedef enum segment_class { SMALL, LARGE, KEPT, SINGLE, CLASSES } segment_class;

typedef struct bti_segment {
    uint64_t address;
    size_t bytes,
        asked; /* asked: of the source; fewer for a SINGLE one, whose block's size is rounded up only where it is counted */
    segment_class class;
    bti_block *first;
    struct bti_segment *previous, *next;
} bti_segment;

struct bti_pool {
    bti_lock lock; /* recursive: an error handler may ask for counters */
    int device;
    const char *name;
    bti_pool_source source;
    bool caches;
    size_t limit, reserved, used, peak, segment_count;
    size_t reserved_of[CLASSES];
    size_t unjoined; /* free blocks whose previous neighbour is free too */
    bti_segment *segments;
    struct {
        uint64_t nonempty[BINS / 64];
        bti_block *first[BINS];
    } bins[CLASSES];
    bti_block *spare; /* unused block records, by free_next */
    BTI_VEC(bti_block *) slabs;
};

static void (*_Atomic memory_observer)(int device, uint64_t in_use);
void bti_device_observe_memory(void (*used)(int device, uint64_t in_use)) { atomic_store(&memory_observer, used); }

/* --- records of blocks -------------------------------------------------------------------------------------------- */

static bti_block *record_new(bti_pool *pool) {
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

static void record_free(bti_pool *pool, bti_block *block) {
    block->free_next = pool->spare;
    pool->spare = block;
}

/* --- bins of free blocks ------------------------------------------------------------------------------------------ */

static int bin_of(size_t bytes) {
    unsigned long long units = bytes / BTI_POOL_ALIGN; /* at least 1 */
    int power = 63 - __builtin_clzll(units);
    int part = power >= 4 ? (int)(units >> (power - 4) & 15) : (int)(units << (4 - power) & 15);
    return power * 16 + part;
}

static void bin_add(bti_pool *pool, bti_block *block) {
    int bin = bin_of(block->capacity), class = (int)block->segment->class;
    bti_block **first = &pool->bins[class].first[bin];
    block->free_previous = NULL;
    block->free_next = *first;
    if (*first) (*first)->free_previous = block;
    *first = block;
    pool->bins[class].nonempty[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void bin_remove(bti_pool *pool, bti_block *block) {
    int bin = bin_of(block->capacity), class = (int)block->segment->class;
    if (block->free_next) block->free_next->free_previous = block->free_previous;
    if (block->free_previous)
        block->free_previous->free_next = block->free_next;
    else if (!(pool->bins[class].first[bin] = block->free_next))
        pool->bins[class].nonempty[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

/* The first bin from `bin` on that holds a block; BINS when there is none. */
static int bin_next(const bti_pool *pool, segment_class class, int bin) {
    for (int word = bin / 64; word < BINS / 64; word++) {
        uint64_t bits = pool->bins[class].nonempty[word];
        if (word == bin / 64) bits &= ~UINT64_C(0) << bin % 64;
        if (bits) return word * 64 + __builtin_ctzll(bits);
    }
    return BINS;
}

/* Best fit: the smallest free block of at least `need` bytes in segments of the class with busy_until <= completed. */
static bti_block *find_in(bti_pool *pool, segment_class class, size_t need, uint64_t completed) {
    int first = bin_of(need);
    for (int bin = bin_next(pool, class, first); bin < BINS; bin = bin_next(pool, class, bin + 1)) {
        bti_block *best = NULL;
        int looked = 0;
        for (bti_block *b = pool->bins[class].first[bin]; b && looked < SCAN_MAX; b = b->free_next, looked++)
            if (b->capacity >= need && b->busy_until <= completed && (!best || b->capacity < best->capacity)) best = b;
        if (best) return best;
        if (bin == BINS - 1) break;
    }
    for (bti_block *b = completed == UINT64_MAX ? pool->bins[class].first[first] : NULL; b; b = b->free_next)
        if (b->capacity >= need) return b;
    return NULL;
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

/* A new segment as one free block; NULL: not within the limit, or the source or the host has no memory. The thread's error record then holds the
 * source's error, and the caller restores it. */
static bti_block *segment_new(bti_pool *pool, size_t bytes, size_t asked, segment_class class) {
    if (pool->limit && (bytes > pool->limit || pool->reserved > pool->limit - bytes)) return NULL;
    bti_segment *segment = bti_calloc(1, sizeof *segment);
    bti_block *block = segment ? record_new(pool) : NULL;
    if (!block || pool->source.alloc(pool->source.context, asked, &segment->address) != BT_OK) {
        if (block) record_free(pool, block);
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
    bin_add(pool, block);
    return block;
}

static void segment_free(bti_pool *pool, bti_segment *segment) {
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

/* `right`, the next block, becomes part of `left`. */
static void merge(bti_pool *pool, bti_block *left, bti_block *right) {
    left->capacity += right->capacity;
    if (right->busy_until > left->busy_until) left->busy_until = right->busy_until;
    left->next = right->next;
    if (left->next) left->next->previous = left;
    record_free(pool, right);
}

/* Merges the block with the free blocks after it that are idle (busy_until <= completed). The block must be in no bin. */
static void join_right(bti_pool *pool, bti_block *block, uint64_t completed) {
    while (block->next && !block->next->in_use && block->next->busy_until <= completed) {
        bin_remove(pool, block->next);
        merge(pool, block, block->next);
        pool->unjoined--;
    }
}

/* Merges neighbouring free blocks that are idle. */
static void join_idle_blocks(bti_pool *pool, uint64_t completed) {
    for (bti_segment *segment = pool->unjoined ? pool->segments : NULL; segment; segment = segment->next) {
        for (bti_block *block = segment->class == LARGE ? segment->first : NULL; block; block = block->next) {
            if (block->in_use || block->busy_until > completed) continue;
            bin_remove(pool, block);
            join_right(pool, block, completed);
            bin_add(pool, block);
        }
    }
}

/* Releases idle segments until `enough` bytes are free under the limit, or none is left. */
static size_t release_segments(bti_pool *pool, uint64_t completed, size_t enough) {
    size_t bytes = 0;
    for (bti_segment *segment = pool->segments, *next; segment; segment = next) {
        next = segment->next;
        if (pool->limit && pool->reserved <= pool->limit && pool->limit - pool->reserved >= enough) break;
        bti_block *block = segment->first;
        if (segment->class == KEPT || block->in_use || block->busy_until > completed) continue;
        bin_remove(pool, block);
        join_right(pool, block, completed);
        bin_add(pool, block);
        if (block->next) continue;
        bytes += segment->bytes;
        bin_remove(pool, block);
        record_free(pool, block);
        segment_free(pool, segment);
    }
    return bytes;
}

/* The size of a new segment for a block of `need` bytes. Segments grow with the pool, so that they stay few. */
static size_t segment_bytes(const bti_pool *pool, segment_class class, size_t need) {
    size_t bytes = pool->reserved_of[class] / (class == SMALL ? 4 : 8) & ~(SEGMENT_MIN - 1);
    if (bytes > SEGMENT_MAX) bytes = SEGMENT_MAX;
    if (class == SMALL && bytes < SEGMENT_MIN) bytes = SEGMENT_MIN;
    return bytes > need ? bytes : need;
}

static bti_block *add_segment(bti_pool *pool, segment_class class, size_t need) {
    size_t wanted = segment_bytes(pool, class, need);
    bti_block *block = segment_new(pool, wanted, wanted, class);
    if (!block && class == SMALL && wanted > SEGMENT_MIN) block = segment_new(pool, SEGMENT_MIN, SEGMENT_MIN, class);
    return block || wanted == need ? block : segment_new(pool, need, need, class);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static segment_class class_of(size_t need) { return need < SMALL_BELOW ? SMALL : LARGE; }

static bti_block *find_free_block(bti_pool *pool, size_t need, uint64_t completed) {
    segment_class class = class_of(need);
    bti_block *block = find_in(pool, class, need, completed);
    if (!block && class == LARGE && pool->unjoined) {
        join_idle_blocks(pool, completed);
        block = find_in(pool, class, need, completed);
    }
    return block ? block : find_in(pool, KEPT, need, completed);
}

static bti_block *choose_block(bti_pool *pool, size_t need, uint64_t completed, bti_pool_wish wish) {
    if (wish == BTI_ANY_BLOCK) return find_free_block(pool, need, UINT64_MAX);
    bti_block *block = find_free_block(pool, need, completed);
    if (block || wish == BTI_LAUNCHED_ONLY) return block;
    bti_block *busy = find_free_block(pool, need, UINT64_MAX);
    size_t cached = pool->reserved - pool->used;
    if (busy && cached < (need > IDLE_CACHE / 4 ? need * 4 : IDLE_CACHE))
        block = add_segment(pool, class_of(need), need);
    return block ? block : busy;
}

/* The cache has no block that fits: adds a segment, after releasing others if that is necessary. */
static bti_block *make_room(bti_pool *pool, size_t need, uint64_t completed, bti_pool_wish wish) {
    segment_class class = class_of(need);
    bti_block *block = add_segment(pool, class, need);
    uint64_t idle = wish == BTI_LAUNCHED_ONLY ? 0 : completed;
    if (!block && release_segments(pool, idle, segment_bytes(pool, class, need)))
        block = add_segment(pool, class, need);
    if (!block && release_segments(pool, idle, SIZE_MAX)) block = add_segment(pool, class, need);
    return block ? block
                 : find_in(pool, class == SMALL ? LARGE : SMALL, need,
                           wish == BTI_LAUNCHED_ONLY ? completed : UINT64_MAX);
}

/* Without a cache: a segment of exactly these bytes, after those that were given back and are idle were freed. */
static bti_block *make_single(bti_pool *pool, size_t need, size_t bytes, uint64_t completed, bti_pool_wish wish) {
    if (pool->reserved > pool->used) (void)release_segments(pool, wish == BTI_LAUNCHED_ONLY ? 0 : completed, SIZE_MAX);
    return segment_new(pool, need, bytes ? bytes : 1, SINGLE);
}

static bti_block *take_block(bti_pool *pool, size_t need, size_t bytes, uint64_t completed, bti_pool_wish wish) {
    if (!pool->caches) return make_single(pool, need, bytes, completed, wish);
    bti_block *block = choose_block(pool, need, completed, wish);
    return block ? block : make_room(pool, need, completed, wish);
}

static bool free_neighbour(const bti_block *block) { return block && !block->in_use; }

/* Cuts the end that is not needed off the block. Without memory for a record the block stays whole. */
static void split_block(bti_pool *pool, bti_block *block, size_t need) {
    if (block->capacity == need) return;
    bti_block *rest = record_new(pool);
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
    bin_add(pool, rest);
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

bt_status bti_pool_take(bti_pool *pool, size_t bytes, uint64_t completed, bti_pool_wish wish, bti_block **out) {
    size_t need = bti_pool_block_bytes(bytes, pool->limit);
    bti_error *before = bti_error_last(); /* an attempt that succeeds in the end leaves no error behind */
    bt_error_clear();
    bti_lock_take(&pool->lock);
    bti_block *block = need ? take_block(pool, need, bytes, completed, wish) : NULL;
    if (block) {
        bin_remove(pool, block);
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
            bin_remove(pool, next);
            merge(pool, block, next);
        } else
            pool->unjoined++;
    }
    if (free_neighbour(previous)) {
        if (can_merge_now(previous, block)) {
            bin_remove(pool, previous);
            merge(pool, previous, block);
            block = previous;
        } else
            pool->unjoined++;
    }
    bin_add(pool, block);
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
    while (pool->segments) segment_free(pool, pool->segments);
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
    bool done = segment_new(pool, bytes, bytes, KEPT) != NULL;
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
    size_t bytes = release_segments(pool, completed, SIZE_MAX);
    bti_lock_give(&pool->lock);
    return bytes;
}

/* Neighbouring free blocks count as one block. */
static size_t largest_unjoined(const bti_pool *pool) {
    size_t largest = 0;
    for (const bti_segment *segment = pool->segments; segment; segment = segment->next) {
        size_t run = 0;
        for (const bti_block *block = segment->first; block; block = block->next) {
            run = block->in_use ? 0 : run + block->capacity;
            if (run > largest) largest = run;
        }
    }
    return largest;
}

static size_t largest_in(const bti_pool *pool, segment_class class) {
    size_t largest = 0;
    int highest = -1;
    for (int bin = bin_next(pool, class, 0); bin < BINS; bin = bin == BINS - 1 ? BINS : bin_next(pool, class, bin + 1))
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

void bti_pool_reset_peak(bti_pool *pool) {
    bti_lock_take(&pool->lock);
    pool->peak = pool->used;
    bti_lock_give(&pool->lock);
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
        }
        if (at != segment->address + segment->bytes) return "blocks do not fill their segment";
        reserved += segment->bytes;
    }
    for (int i = 0; i < CLASSES * BINS; i++) {
        int class = i / BINS, bin = i % BINS;
        if (!pool->bins[class].first[bin] != !(pool->bins[class].nonempty[bin / 64] >> bin % 64 & 1))
            return "bitmap is wrong";
        for (bti_block *b = pool->bins[class].first[bin]; b; b = b->free_next, binned++)
            if (b->in_use || bin_of(b->capacity) != bin || (int)b->segment->class != class)
                return "block in a wrong bin";
    }
    if (binned != free_blocks) return "free blocks and bins differ";
    if (reserved != pool->reserved || used != pool->used || unjoined != pool->unjoined) return "counters are wrong";
    return pool->limit && reserved > pool->limit ? "past the limit" : NULL;
}

const char *bti_pool_verify(bti_pool *pool) {
    bti_lock_take(&pool->lock);
    const char *wrong = find_defect(pool);
    bti_lock_give(&pool->lock);
    return wrong;
}

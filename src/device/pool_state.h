/* A pool's insides: segments, the blocks that they are cut into, and bins of the free ones. pool.c takes and gives blocks, pool_bins.c finds free ones,
 * pool_segments.c adds and releases segments, pool_count.c counts and verifies. Under the pool's lock, unless it says otherwise. */
#ifndef BTI_DEVICE_POOL_STATE_H
#define BTI_DEVICE_POOL_STATE_H

#include "base/lock.h"
#include "base/vec.h"
#include "device/pool_source.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SMALL_BELOW MIB        /* smaller blocks are cut from segments of their own */
#define SEGMENT_MIN (2 * MIB)  /* of small blocks */
#define SEGMENT_MAX (32 * MIB) /* of several blocks */
#define BINS 1024              /* sizes in units of BTI_POOL_ALIGN, 16 bins for each power of two */

/* A small block would keep a large segment from being released, so small and large blocks have segments of their own. KEPT: reserved by
 * bti_pool_reserve; serves both and is never released. SINGLE: of one block, in a pool that does not cache. */
typedef enum segment_class { SMALL, LARGE, KEPT, SINGLE, CLASSES } segment_class;

typedef struct bti_segment {
    uint64_t address;
    size_t bytes,
        asked; /* asked: of the source; fewer for a SINGLE one, whose block's size is rounded up only where it is counted */
    segment_class class;
    bool retired; /* free, in no bin, and to be released when it is idle */
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
    size_t retired;  /* segments */
    size_t unjoined; /* free blocks whose previous neighbour is free too */
    bti_segment *segments;
    struct {
        uint64_t nonempty[BINS / 64];
        bti_block *first[BINS];
    } bins[CLASSES];
    bti_block *spare; /* unused block records, by free_next */
    BTI_VEC(bti_block *) slabs;
};

/* --- pool_bins.c ------------------------------------------------------------------------------------------------------- */

/* An unused record of a block, zeroed; NULL when the host has no memory. */
bti_block *bti_pool_record_new(bti_pool *pool);
void bti_pool_record_free(bti_pool *pool, bti_block *block);
void bti_pool_bin_add(bti_pool *pool, bti_block *block);
void bti_pool_bin_remove(bti_pool *pool, bti_block *block);
int bti_pool_bin_of(size_t bytes);
/* The first bin from `bin` on that holds a block; BINS when there is none. */
int bti_pool_bin_next(const bti_pool *pool, segment_class class, int bin);
/* Best fit: the smallest free block of at least `need` bytes in segments of the class with busy_until <= completed. `anywhere`: also a little of a segment that was
 * made for one large block, which keeps the whole from serving another such. */
bti_block *bti_pool_find(bti_pool *pool, segment_class class, size_t need, uint64_t completed, bool anywhere);

/* The free block of a segment of the class, or of a kept one, that has `need` bytes from this address on; NULL: there is none among the first blocks of the
 * segment. A small one does not cut what was kept for large ones in two. */
bti_block *bti_pool_find_at(bti_pool *pool, segment_class class, size_t need, uint64_t at);

/* --- pool_segments.c --------------------------------------------------------------------------------------------------- */

/* A new segment as one free block; NULL: not within the limit, or the source or the host has no memory. The thread's error record then holds the
 * source's error, and the caller restores it. */
bti_block *bti_pool_segment_new(bti_pool *pool, size_t bytes, size_t asked, segment_class class);
void bti_pool_segment_free(bti_pool *pool, bti_segment *segment);
/* For a block of `need` bytes. */
bti_block *bti_pool_segment_add(bti_pool *pool, segment_class class, size_t need);
/* The size of a new segment for a block of `need` bytes. Segments grow with the pool, so that they stay few. */
size_t bti_pool_segment_bytes(const bti_pool *pool, segment_class class, size_t need);
/* `right`, the next block, becomes part of `left`. */
void bti_pool_merge(bti_pool *pool, bti_block *left, bti_block *right);
/* Merges neighbouring free blocks that are idle. */
void bti_pool_join_idle(bti_pool *pool, uint64_t completed);
/* Releases idle segments until `enough` bytes are free under the limit, or none is left; the bytes. */
size_t bti_pool_release_segments(bti_pool *pool, uint64_t completed, size_t enough);
/* Before a segment for a block of `need` bytes is added, since no free one is large enough: of larger segments that are free, the smallest are given up, so that
 * sizes that change do not leave one of each size behind. */
void bti_pool_retire_useless(bti_pool *pool, size_t need);
/* Releases those given up that are idle; the bytes. */
size_t bti_pool_release_retired(bti_pool *pool, uint64_t completed);

#endif

/* A cache of objects that can be made again: bounded by their number, by bytes, or both; the object that was used longest ago leaves first.
 * An entry is the first member of its object. Objects are found by a hash and by `equal`.
 *
 * Ownership: an entry is held by the cache and by everyone who uses it, as a count of references. An entry that somebody uses is not evicted,
 * so a cache whose entries are all in use exceeds its bounds; it shrinks at the next bti_lru_add. An entry that leaves the cache while it is in
 * use (bti_lru_remove, bti_lru_clear) is freed by whoever releases it last.
 * Threads: a cache has no lock. Calls with the same cache are made one at a time, under a lock of its owner. bti_lru_retain and
 * bti_lru_release may be called by any thread that holds the entry. `free` runs in the thread that gives up the last reference: under the
 * owner's lock when the entry is evicted. It must not call back into the same cache. */
#ifndef BTI_BASE_LRU_H
#define BTI_BASE_LRU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bti_lru_entry {
    struct bti_lru_entry *newer, *older; /* by use */
    struct bti_lru_entry *next;          /* in the bucket */
    uint64_t hash;
    size_t bytes;
    atomic_uint refs;
} bti_lru_entry;

enum { BTI_LRU_OWN_BUCKETS = 4 };

typedef struct bti_lru {
    /* Set by the owner; all else begins as 0. */
    bool (*equal)(const bti_lru_entry *entry, const void *key);
    void (*free)(bti_lru_entry *entry);
    size_t most_count, most_bytes; /* 0: no bound */
    /* To be read. */
    size_t count, bytes;
    uint64_t evicted; /* entries that left for want of room */
    /* The cache's own. */
    bti_lru_entry *newest, *oldest;
    bti_lru_entry **buckets; /* NULL: the ones below */
    size_t bucket_count;     /* a power of two; 0: those below */
    bti_lru_entry *own_buckets[BTI_LRU_OWN_BUCKETS];
} bti_lru;

/* For a new object, which the caller then holds. */
void bti_lru_entry_init(bti_lru_entry *entry);
/* The entry that equals the key, now the one that was used last; yours to release. NULL: it is not there. */
void *bti_lru_find(bti_lru *lru, uint64_t hash, const void *key);
/* Adds an entry that the caller holds and goes on holding, and takes others out while there are too many: they are
 * the caller's, to be given to bti_lru_free_evicted without the owner's lock. NULL: there are none. Nothing equal may be there. */
bti_lru_entry *bti_lru_add_evicting(bti_lru *lru, bti_lru_entry *entry, uint64_t hash, size_t bytes);
void bti_lru_free_evicted(const bti_lru *lru, bti_lru_entry *evicted);
/* Adds, and frees what is evicted at once. */
static inline void bti_lru_add(bti_lru *lru, bti_lru_entry *entry, uint64_t hash, size_t bytes) {
    bti_lru_free_evicted(lru, bti_lru_add_evicting(lru, entry, hash, bytes));
}
/* Takes an entry out that is there. */
void bti_lru_remove(bti_lru *lru, bti_lru_entry *entry);
/* Takes all out; the cache is as new, but for its counter. */
void bti_lru_clear(bti_lru *lru);

static inline void bti_lru_retain(bti_lru_entry *entry) {
    atomic_fetch_add_explicit(&entry->refs, 1, memory_order_relaxed);
}
/* Gives up a reference; the last one frees the object. */
static inline void bti_lru_release(const bti_lru *lru, bti_lru_entry *entry) {
    if (atomic_fetch_sub_explicit(&entry->refs, 1, memory_order_acq_rel) == 1) lru->free(entry);
}

#endif

#include "base/lru.h"

#include <string.h>

#include "base/alloc.h"

static bti_lru_entry **bucket_of(bti_lru *lru, uint64_t hash) {
    if (!lru->buckets) return &lru->own_buckets[hash & (BTI_LRU_OWN_BUCKETS - 1)];
    return &lru->buckets[hash & (lru->bucket_count - 1)];
}

void bti_lru_entry_init(bti_lru_entry *entry) { atomic_init(&entry->refs, 1); }

/* --- the order of use ----------------------------------------------------------------------------------------------- */

static void unlink_use(bti_lru *lru, bti_lru_entry *entry) {
    *(entry->newer ? &entry->newer->older : &lru->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &lru->oldest) = entry->newer;
}

static void link_newest(bti_lru *lru, bti_lru_entry *entry) {
    entry->newer = NULL;
    entry->older = lru->newest;
    *(lru->newest ? &lru->newest->newer : &lru->oldest) = entry;
    lru->newest = entry;
}

/* --- buckets -------------------------------------------------------------------------------------------------------- */

static void push_bucket(bti_lru *lru, bti_lru_entry *entry) {
    bti_lru_entry **bucket = bucket_of(lru, entry->hash);
    entry->next = *bucket;
    *bucket = entry;
}

/* Without memory for more buckets the old ones get longer. */
static void grow_buckets(bti_lru *lru) {
    size_t count = lru->bucket_count ? lru->bucket_count : BTI_LRU_OWN_BUCKETS;
    if (lru->count < count) return;
    bti_lru_entry **larger = bti_calloc(count * 4, sizeof *larger), **old = lru->buckets;
    if (!larger) return;
    lru->buckets = larger;
    lru->bucket_count = count * 4;
    memset(lru->own_buckets, 0, sizeof lru->own_buckets);
    for (bti_lru_entry *entry = lru->oldest; entry; entry = entry->newer) push_bucket(lru, entry);
    bti_free((void *)old);
}

/* --- the cache ------------------------------------------------------------------------------------------------------ */

void *bti_lru_find(bti_lru *lru, uint64_t hash, const void *key) {
    bti_lru_entry **bucket = bucket_of(lru, hash), **link = bucket, *entry;
    while ((entry = *link) && (entry->hash != hash || !lru->equal(entry, key))) link = &entry->next;
    if (!entry) return NULL;
    if (link != bucket) { /* the next look is shorter */
        *link = entry->next;
        entry->next = *bucket;
        *bucket = entry;
    }
    if (entry != lru->newest) {
        unlink_use(lru, entry);
        link_newest(lru, entry);
    }
    bti_lru_retain(entry);
    return entry;
}

static void take_out(bti_lru *lru, bti_lru_entry *entry) {
    bti_lru_entry **link = bucket_of(lru, entry->hash);
    while (*link != entry) link = &(*link)->next;
    *link = entry->next;
    unlink_use(lru, entry);
    lru->count--;
    lru->bytes -= entry->bytes;
}

void bti_lru_remove(bti_lru *lru, bti_lru_entry *entry) {
    take_out(lru, entry);
    bti_lru_release(lru, entry);
}

static bool is_full(const bti_lru *lru) {
    return (lru->most_count && lru->count > lru->most_count) || (lru->most_bytes && lru->bytes > lru->most_bytes);
}

/* A reference that is not the cache's can only be given up meanwhile: nobody can find the entry without the owner's lock. */
static bool is_used(const bti_lru_entry *entry) { return atomic_load_explicit(&entry->refs, memory_order_acquire) > 1; }

bti_lru_entry *bti_lru_add_evicting(bti_lru *lru, bti_lru_entry *entry, uint64_t hash, size_t bytes) {
    bti_lru_entry *evicted = NULL;
    grow_buckets(lru);
    entry->hash = hash;
    entry->bytes = bytes;
    bti_lru_retain(entry);
    push_bucket(lru, entry);
    link_newest(lru, entry);
    lru->count++;
    lru->bytes += bytes;
    for (bti_lru_entry *old = lru->oldest, *newer; old && is_full(lru); old = newer) {
        newer = old->newer;
        if (is_used(old)) continue;
        lru->evicted++;
        take_out(lru, old);
        old->next = evicted;
        evicted = old;
    }
    return evicted;
}

void bti_lru_free_evicted(const bti_lru *lru, bti_lru_entry *evicted) {
    for (bti_lru_entry *next; evicted; evicted = next) {
        next = evicted->next;
        bti_lru_release(lru, evicted);
    }
}

void bti_lru_clear(bti_lru *lru) {
    while (lru->oldest) bti_lru_remove(lru, lru->oldest);
    bti_free((void *)lru->buckets);
    lru->buckets = NULL;
    lru->bucket_count = 0;
}

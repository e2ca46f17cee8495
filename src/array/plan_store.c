#include "array/plan_store.h"

#include "base/flags.h"

/* Protects the store, and which plans are on shelves. */
BTI_STATIC_LOCK(store_lock, plan_store)
static struct {
    bti_kept *first, *last; /* the first is the next to leave */
    size_t plans, bytes;
} store;
static atomic_uint_fast64_t made;

/* --- plans ------------------------------------------------------------------------------------------------------------- */

void bti_kept_free(bti_lru_entry *entry) {
    bti_kept *kept = (bti_kept *)entry;
    kept->free(kept);
}

static const bti_lru of_any_shelf = {.free = bti_kept_free};

void bti_kept_init(bti_kept *kept, void (*free)(bti_kept *kept)) {
    *kept = (bti_kept){.free = free};
    bti_lru_entry_init(&kept->entry);
}

void bti_kept_release(bti_kept *kept) {
    if (kept) bti_lru_release(&of_any_shelf, &kept->entry);
}

void bti_plan_store_note_made(void) { atomic_fetch_add_explicit(&made, 1, memory_order_relaxed); }

bti_plan_store_counts bti_plan_store_count(void) {
    bti_lock_take(&store_lock);
    bti_plan_store_counts counts = {atomic_load(&made), store.plans, store.bytes};
    bti_lock_give(&store_lock);
    return counts;
}

/* --- which leaves, under the store's lock ------------------------------------------------------------------------------ */

static void link_last(bti_kept *kept) {
    kept->after = NULL;
    kept->before = store.last;
    *(store.last ? &store.last->after : &store.first) = kept;
    store.last = kept;
}

static void unlink_kept(bti_kept *kept) {
    *(kept->before ? &kept->before->after : &store.first) = kept->after;
    *(kept->after ? &kept->after->before : &store.last) = kept->before;
}

/* Under the lock of its shelf too. It is held by *left, a list, then. */
static void leave(bti_kept *kept, bti_lru_entry **left) {
    bti_lru_retain(&kept->entry);
    bti_lru_remove(&kept->shelf->lru, &kept->entry);
    unlink_kept(kept);
    kept->shelf = NULL;
    store.plans--;
    store.bytes -= kept->entry.bytes;
    kept->entry.next = *left;
    *left = &kept->entry;
}

/* *turns: how many may be passed over yet: some are used all the time. */
static bti_kept *next_to_leave(const bti_kept *stays, size_t *turns) {
    while (store.first != store.last) {
        bti_kept *kept = store.first;
        bool used = *turns && atomic_exchange_explicit(&kept->used, false, memory_order_relaxed);
        if (!used && kept != stays) return kept;
        if (*turns) --*turns;
        unlink_kept(kept);
        link_last(kept);
    }
    return NULL;
}

static void evict_oldest(const bti_kept *stays, size_t most, bti_lru_entry **left) {
    size_t turns = store.plans;
    for (bti_kept *kept; store.bytes > most && (kept = next_to_leave(stays, &turns));) {
        bti_lock *lock = kept->shelf->lock;
        bti_lock_take(lock);
        leave(kept, left);
        bti_lock_give(lock);
    }
}

/* --- shelves ----------------------------------------------------------------------------------------------------------- */

/* Most calls are like the one before, and need no hash. */
void *bti_shelf_find(bti_shelf *shelf, const void *key) {
    if (!bti_flag_bytes(BTI_FLAG_plan_cache)) return NULL;
    bti_lock_take(shelf->lock);
    bti_lru_entry *entry = shelf->lru.newest;
    if (entry && shelf->lru.equal(entry, key))
        bti_lru_retain(entry);
    else if (entry)
        entry = bti_lru_find(&shelf->lru, shelf->hash(key), key);
    shelf->found += entry != NULL;
    bti_lock_give(shelf->lock);
    bti_kept *kept = (bti_kept *)entry;
    if (kept && !atomic_load_explicit(&kept->used, memory_order_relaxed))
        atomic_store_explicit(&kept->used, true, memory_order_relaxed);
    return kept;
}

static void add(bti_shelf *shelf, bti_kept *kept, uint64_t hash, const void *key, size_t bytes) {
    bti_lock_take(shelf->lock);
    bti_lru_entry *equal = bti_lru_find(&shelf->lru, hash, key); /* another thread was first */
    if (!equal) bti_lru_add(&shelf->lru, &kept->entry, hash, bytes);
    bti_lock_give(shelf->lock);
    if (equal) {
        bti_lru_release(&shelf->lru, equal); /* the shelf has it */
        return;
    }
    kept->shelf = shelf;
    link_last(kept);
    store.plans++;
    store.bytes += bytes;
}

void bti_shelf_keep(bti_shelf *shelf, bti_kept *kept, const void *key, size_t bytes, bool (*may)(const void *key)) {
    bti_lru_entry *left = NULL;
    size_t most = bti_flag_bytes(BTI_FLAG_plan_cache);
    if (!most) return;
    bti_lock_take(&store_lock);
    if (!may || may(key)) add(shelf, kept, shelf->hash(key), key, bytes);
    evict_oldest(kept, most, &left);
    bti_lock_give(&store_lock);
    bti_lru_free_evicted(&of_any_shelf, left); /* programs and nodes go with them */
}

void bti_shelf_drop(bti_shelf *shelf, bool (*leaves)(const bti_kept *kept)) {
    bti_lru_entry *left = NULL;
    bti_lock_take(&store_lock);
    bti_lock_take(shelf->lock);
    for (bti_lru_entry *entry = shelf->lru.oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        if (!leaves || leaves((const bti_kept *)entry)) leave((bti_kept *)entry, &left);
    }
    if (!shelf->lru.count) bti_lru_clear(&shelf->lru); /* its buckets */
    bti_lock_give(shelf->lock);
    bti_lock_give(&store_lock);
    bti_lru_free_evicted(&of_any_shelf, left);
}

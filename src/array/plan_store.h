/* All plans that are kept to be run again, of evaluations (plan_cache.h) and of calls of functions (function/function.h), with one bound on their
 * bytes: the flag plan_cache, 0: none is kept. A plan is found on its shelf. Evaluations share one; each function has its own, whose lock only calls of this
 * function take.
 *
 * Finding a plan takes the lock of the shelf alone, and marks it as used. When there are too many bytes plans leave in the order in which they
 * came; one that was used since its last turn is passed over, once. The plan that came last stays, whatever its size.
 * Ownership: as in base/lru.h; a plan that leaves while it is in use is freed by the thread that releases it last. */
#ifndef BTI_ARRAY_PLAN_STORE_H
#define BTI_ARRAY_PLAN_STORE_H

#include "base/lock.h"
#include "base/lru.h"

typedef struct bti_shelf {
    bti_lock *lock;                    /* protects lru and found; taken behind the store's */
    uint64_t (*hash)(const void *key); /* asked when the plan that was used last is another one */
    bti_lru lru;                       /* without bounds of its own */
    uint64_t found;                    /* how often a plan was */
} bti_shelf;
/* An empty one. bool equal(const bti_lru_entry *entry, const void *key) */
#define BTI_SHELF(lock_, equal_, hash_)                                                      \
    {                                                                                        \
        .lock = (lock_), .hash = (hash_), .lru = {.equal = (equal_), .free = bti_kept_free } \
    }
void bti_kept_free(bti_lru_entry *entry);

/* The first member of what is kept. */
typedef struct bti_kept {
    bti_lru_entry entry; /* first; on the shelf */
    void (*free)(struct bti_kept *kept);
    bti_shelf *shelf;                /* NULL: it is not in the store */
    struct bti_kept *before, *after; /* in the store: by when they came, or were passed over */
    atomic_bool used;
} bti_kept;

/* A new one, which the caller holds. */
void bti_kept_init(bti_kept *kept, void (*free)(bti_kept *kept));
void bti_kept_release(bti_kept *kept); /* NULL is fine */
/* The plan that equals the key; yours to release. NULL: it is not there. */
void *bti_shelf_find(bti_shelf *shelf, const void *key);
/* Adds a plan of so many bytes, of this key, unless an equal one is there, or `may` says no (asked under the store's lock; NULL: it may be added).
 * The caller goes on holding it. */
void bti_shelf_keep(bti_shelf *shelf, bti_kept *kept, const void *key, size_t bytes, bool (*may)(const void *key));
/* Takes those out that `leaves` names; NULL: all. */
void bti_shelf_drop(bti_shelf *shelf, bool (*leaves)(const bti_kept *kept));

/* What is kept, by all shelves; how many plans were made ready since the start, kept or not. */
typedef struct bti_plan_store_counts {
    uint64_t made;
    size_t plans, bytes;
} bti_plan_store_counts;
bti_plan_store_counts bti_plan_store_count(void);
void bti_plan_store_note_made(void);

#endif

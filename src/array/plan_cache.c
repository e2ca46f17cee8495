#include "array/plan_cache.h"

#include "base/flags.h"
#include "base/lock.h"
#include "base/lru.h"

typedef struct kept_plan {
    bti_lru_entry entry; /* first */
    bti_prepared *prepared;
    size_t word_count;
    uint64_t words[];
} kept_plan;

static bool has_key(const bti_lru_entry *entry, const void *wanted) {
    const kept_plan *kept = (const kept_plan *)entry;
    const bti_plan_key *key = wanted;
    return kept->word_count == key->word_count &&
           !memcmp(kept->words, key->words, key->word_count * sizeof *key->words);
}

static void free_plan(bti_lru_entry *entry) {
    bti_prepared_release(((kept_plan *)entry)->prepared);
    bti_free(entry);
}

/* Protects the next two. */
BTI_STATIC_LOCK(plans_lock, plan_cache)
static bti_lru plans = {.equal = has_key, .free = free_plan};
static uint64_t found;

bti_prepared *bti_plan_cache_find(const bti_plan_key *key) {
    bti_lock_take(&plans_lock);
    kept_plan *kept = bti_lru_find(&plans, key->hash, key);
    bti_prepared *prepared = kept ? bti_prepared_retain(kept->prepared) : NULL;
    if (kept) bti_lru_release(&plans, &kept->entry); /* the cache has it */
    found += kept != NULL;
    bti_lock_give(&plans_lock);
    return prepared;
}

/* --- keeping ----------------------------------------------------------------------------------------------------------- */

enum { SETS = 128, WAYS = 16 };

/* Whether this is among the last hashes that were met; remembers it. Of plans whose hashes fall into one set the last WAYS are known; a
 * hash that another thread moves at the same time may be forgotten. */
static bool met_before(uint64_t hash) {
    static atomic_uint_fast64_t met[SETS][WAYS];
    atomic_uint_fast64_t *set = met[hash % SETS];
    uint64_t moved = hash;
    for (int i = 0; i < WAYS; i++)
        if ((moved = atomic_exchange_explicit(&set[i], moved, memory_order_relaxed)) == hash) return true;
    return false;
}

typedef struct numbering {
    const bti_order *order;
    bti_numbers given;
} numbering;

static int64_t number_of(const bti_node *node, const void *context) {
    const numbering *n = context;
    return bti_is_claimed(node, n->order) ? node->claimed : bti_number_of(&n->given, node);
}

static bool stand_in(const bti_plan_key *key, const bti_order *order, bti_prepared *prepared) {
    numbering n = {.order = order};
    bool fine = true;
    for (size_t i = order->count; i < key->node_count && fine; i++)
        fine = bti_number_put(&n.given, key->nodes[i], (int64_t)i);
    fine = fine && bti_prepared_stand_in(prepared, key->node_count, number_of, &n);
    bti_numbers_free(&n.given);
    return fine;
}

/* Another thread may have been first; what has no room at all is not added. */
static bti_lru_entry *add(kept_plan *kept, const bti_plan_key *key, size_t bytes) {
    bti_lru_entry *evicted = NULL;
    size_t most = bti_flag_bytes(BTI_FLAG_plan_cache);
    bti_lock_take(&plans_lock);
    plans.most_bytes = most;
    kept_plan *other = bti_lru_find(&plans, key->hash, key);
    if (other)
        bti_lru_release(&plans, &other->entry);
    else if (bytes <= most)
        evicted = bti_lru_add_evicting(&plans, &kept->entry, key->hash, bytes);
    bti_lock_give(&plans_lock);
    return evicted;
}

bool bti_plan_cache_keep(const bti_plan_key *key, const bti_order *order, bti_prepared *prepared) {
    if (!met_before(key->hash)) return false;
    size_t words = key->word_count * sizeof *key->words;
    kept_plan *kept = bti_alloc(sizeof *kept + words);
    if (!kept || !stand_in(key, order, prepared)) {
        bti_free(kept);
        return false;
    }
    *kept = (kept_plan){.prepared = bti_prepared_retain(prepared), .word_count = key->word_count};
    bti_lru_entry_init(&kept->entry);
    memcpy(kept->words, key->words, words);
    bti_lru_entry *evicted = add(kept, key, sizeof *kept + words + bti_prepared_bytes(prepared));
    bti_lru_free_evicted(&plans, evicted); /* programs go with it */
    bti_lru_release(&plans, &kept->entry);
    return true;
}

void bti_plan_cache_clear(void) {
    bti_lru all = {.equal = has_key, .free = free_plan};
    bti_lock_take(&plans_lock);
    bti_lru before = plans;
    plans = all;
    bti_lock_give(&plans_lock);
    bti_lru_clear(&before);
}

bti_plan_cache_counts bti_plan_cache_count(void) {
    bti_lock_take(&plans_lock);
    bti_plan_cache_counts counts = {found, plans.count, plans.bytes};
    bti_lock_give(&plans_lock);
    return counts;
}

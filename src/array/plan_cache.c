#include "array/plan_cache.h"

#include "array/plan_store.h"
#include "base/lock.h"

typedef struct kept_plan {
    bti_kept head; /* first */
    bti_prepared *prepared;
    bool hosted;
    size_t word_count;
    uint64_t words[];
} kept_plan;

static bool has_key(const bti_lru_entry *entry, const void *wanted) {
    const kept_plan *kept = (const kept_plan *)entry;
    const bti_plan_key *key = wanted;
    return entry->hash == key->hash && kept->word_count == key->word_count &&
           !memcmp(kept->words, key->words, key->word_count * sizeof *key->words);
}

static uint64_t hash_of(const void *key) { return ((const bti_plan_key *)key)->hash; }

static void free_plan(bti_kept *kept) {
    bti_prepared_release(((kept_plan *)kept)->prepared);
    bti_free(kept);
}

BTI_STATIC_LOCK(plans_lock, plan_cache)
static bti_shelf plans = BTI_SHELF(&plans_lock, has_key, hash_of);

bti_prepared *bti_plan_cache_find(const bti_plan_key *key) {
    kept_plan *kept = bti_shelf_find(&plans, key);
    if (!kept) return NULL;
    bti_prepared *prepared = bti_prepared_retain(kept->prepared);
    bti_kept_release(&kept->head);
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

static bool may_be_kept(const void *key) { return bti_plan_key_is_current(key); }

bool bti_plan_cache_keep(const bti_plan_key *key, const bti_order *order, bti_prepared *prepared) {
    if (!met_before(key->hash)) return false;
    size_t words = key->word_count * sizeof *key->words;
    kept_plan *kept = bti_alloc(sizeof *kept + words);
    if (!kept || !stand_in(key, order, prepared)) {
        bti_free(kept);
        return false;
    }
    bti_kept_init(&kept->head, free_plan);
    kept->prepared = bti_prepared_retain(prepared);
    kept->hosted = key->hosted;
    kept->word_count = key->word_count;
    memcpy(kept->words, key->words, words);
    bti_shelf_keep(&plans, &kept->head, key, sizeof *kept + words + bti_prepared_bytes(prepared), may_be_kept);
    bti_kept_release(&kept->head);
    return true;
}

/* --- letting go -------------------------------------------------------------------------------------------------------- */

static bool is_hosted(const bti_kept *kept) { return ((const kept_plan *)kept)->hosted; }

void bti_plan_cache_end_host(bti_host_function *function) {
    bti_plan_key_end_host(function);
    bti_shelf_drop(&plans, is_hosted);
}

void bti_plan_cache_clear(void) { bti_shelf_drop(&plans, NULL); }

bti_plan_cache_counts bti_plan_cache_count(void) {
    bti_plan_store_counts all = bti_plan_store_count();
    bti_lock_take(&plans_lock);
    uint64_t found = plans.found;
    bti_lock_give(&plans_lock);
    return (bti_plan_cache_counts){found, all.made, all.plans, all.bytes};
}

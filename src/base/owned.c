#include "base/owned.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/str.h"
#include "base/thread.h"

#ifdef BTI_VALGRIND
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_MAKE_MEM_NOACCESS(address, bytes) ((void)0)
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)0)
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECKED true /* they forget a block when it is freed, so memory is not used again */
#else
#define CHECKED RUNNING_ON_VALGRIND
#endif

/* --- released objects -------------------------------------------------------------------------------------------------
 * In batches of a thread's, in rings that threads share. A batch is ripe when KEPT others have been released since. Whoever needs memory takes the
 * oldest ripe batch of its own ring first, whose memory its own core has, then any. */

#define BATCH 64
#define KEPT 65536
#define BATCHES (KEPT / BATCH + 256) /* when the ring is full, the oldest batch is freed */

typedef struct list {
    bti_owned *first, *last;
    int count;
    uint64_t at; /* in a ring: how many batches there had been when it came */
} list;

typedef struct ring {
    _Alignas(BTI_LINE) bti_lock lock;
    list batches[BATCHES];
    size_t first, count;
    atomic_uint_fast64_t
        ripe_at; /* how many batches there are in all when the first one is ripe; to ask without the lock */
    list rest;   /* objects of threads that have ended, less than a batch */
} ring;

static ring rings[BTI_SHARDS] = {[0 ... BTI_SHARDS - 1] = {.lock = BTI_LOCK_INIT(owned), .ripe_at = UINT64_MAX}};
BTI_RENEWED_LOCKS(rings, owned)
static _Alignas(BTI_LINE) atomic_uint_fast64_t batches_so_far;

typedef struct own_objects {
    list released; /* less than a batch */
    bti_owned *spare;
    bool registered;
} own_objects;
static _Thread_local own_objects own_objects_of_thread;

static pthread_key_t owned_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void free_all(bti_owned *object) {
    while (object) {
        bti_owned *next = object->next;
        bti_free(object);
        object = next;
    }
}

/* Under the lock, as what follows. */
static void note_first(ring *of) {
    uint64_t at = of->count ? of->batches[of->first].at + KEPT / BATCH + 1 : UINT64_MAX;
    atomic_store_explicit(&of->ripe_at, at, memory_order_relaxed);
}

static list take_oldest(ring *from) {
    list oldest = from->batches[from->first];
    from->first = (from->first + 1) % BATCHES;
    from->count--;
    note_first(from);
    return oldest;
}

/* Adds a batch. Returns the oldest batch if the ring was full, for the caller to free. */
static list add_batch(ring *to, list batch) {
    list oldest = {0};
    if (to->count == BATCHES) oldest = take_oldest(to);
    batch.at = atomic_fetch_add_explicit(&batches_so_far, 1, memory_order_relaxed);
    to->batches[(to->first + to->count++) % BATCHES] = batch;
    note_first(to);
    return oldest;
}

static void append(list *to, list more) {
    if (!more.count) return;
    if (to->count)
        to->last->next = more.first;
    else
        to->first = more.first;
    to->last = more.last;
    to->count += more.count;
}

static void leave_thread(void *unused) {
    (void)unused;
    own_objects *own = BTI_THREAD_OWN(own_objects_of_thread);
    ring *to = &rings[bti_shard()];
    list oldest = {0};
    bti_lock_take(&to->lock);
    append(&to->rest, own->released);
    if (to->rest.count >= BATCH) {
        oldest = add_batch(to, to->rest);
        to->rest = (list){0};
    }
    bti_lock_give(&to->lock);
    free_all(oldest.first);
    free_all(own->spare);
    *own = (own_objects){0};
}
static void make_key(void) { pthread_key_create(&owned_key, leave_thread); }

static void queue_released(bti_owned *object) {
    own_objects *own = BTI_THREAD_OWN(own_objects_of_thread);
    object->next = NULL;
    append(&own->released, (list){.first = object, .last = object, .count = 1});
    if (!own->registered) {
        pthread_once(&key_once, make_key);
        own->registered = pthread_setspecific(owned_key, own) == 0;
    }
    if (own->released.count < BATCH) return;
    ring *to = &rings[bti_shard()];
    bti_lock_take(&to->lock);
    list oldest = add_batch(to, own->released);
    bti_lock_give(&to->lock);
    own->released = (list){0};
    free_all(oldest.first);
}

static bool has_ripe(ring *of) {
    return atomic_load_explicit(&batches_so_far, memory_order_relaxed) >=
           atomic_load_explicit(&of->ripe_at, memory_order_relaxed);
}

static bti_owned *take_ripe(ring *from) {
    bti_owned *first = NULL;
    if (!has_ripe(from)) return NULL;
    bti_lock_take(&from->lock);
    if (from->count && has_ripe(from)) first = take_oldest(from).first;
    bti_lock_give(&from->lock);
    return first;
}

static bti_owned *fetch_batch(void) {
    unsigned shard = bti_shard();
    bti_owned *first = NULL;
    for (unsigned i = 0; i < BTI_SHARDS && !first; i++) first = take_ripe(&rings[(shard + i) % BTI_SHARDS]);
    return first;
}

/* --- objects --------------------------------------------------------------------------------------------------------- */

/* Memory of a released object that has left the queue, or NULL. Prefetches the one after it. */
static bti_owned *reuse_memory(size_t bytes) {
    own_objects *own = BTI_THREAD_OWN(own_objects_of_thread);
    while (own->spare || (own->spare = fetch_batch())) {
        bti_owned *object = own->spare;
        own->spare = object->next;
        if (own->spare) __builtin_prefetch(own->spare, 1);
        if (object->bytes == bytes) return object;
        bti_free(object);
    }
    return NULL;
}

void *bti_owned_new(bti_owned_kind kind, size_t bytes) {
    bti_owned *object = kind != BTI_OWNED_ARRAY || CHECKED || bti_alloc_is_tested() ? NULL : reuse_memory(bytes);
    if (object)
        memset(object, 0, bytes);
    else if (!(object = bti_calloc(1, bytes)))
        return NULL;
    bti_site site = bti_here();
    atomic_store_explicit(&object->word, 1, memory_order_relaxed);
    object->kind = (uint8_t)kind;
    object->bytes = (uint16_t)(bytes < UINT16_MAX ? bytes : UINT16_MAX);
    object->made_file = site.file;
    object->made_line = site.line;
    return object;
}

bti_dropped bti_owned_drop(bti_owned *object) {
    unsigned word = atomic_load_explicit(&object->word, memory_order_relaxed), after;
    do {
        if (!(word & BTI_WORD_OWNERS)) return BTI_DROPPED_NONE;
        after = word - 1;
        if (after == BTI_WORD_HELD) after |= BTI_WORD_BUSY;
    } while (!atomic_compare_exchange_weak_explicit(&object->word, &word, after, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return after & BTI_WORD_OWNERS ? BTI_DROPPED_ONE : BTI_DROPPED_LAST;
}

bti_dropped bti_owned_drop_held(bti_owned *object) {
    unsigned word = atomic_load_explicit(&object->word, memory_order_relaxed), after;
    do after = (word & ~BTI_WORD_HELD) - (word & BTI_WORD_OWNERS ? 1 : 0);
    while (!atomic_compare_exchange_weak_explicit(&object->word, &word, after, memory_order_acq_rel,
                                                  memory_order_relaxed));
    if (word & BTI_WORD_OWNERS) return after ? BTI_DROPPED_ONE : BTI_DROPPED_LAST;
    if (!after) queue_released(object);
    return BTI_DROPPED_NONE;
}

void bti_owned_end(bti_owned *object, size_t readable, bti_end end, bti_site site) {
    object->released_file = site.file;
    object->released_line = site.line;
    object->next = NULL;
    if (CHECKED && object->bytes > readable) {
        ASAN_POISON_MEMORY_REGION((char *)object + readable, object->bytes - readable);
        VALGRIND_MAKE_MEM_NOACCESS((char *)object + readable, object->bytes - readable);
    }
    atomic_store_explicit(&object->end, (unsigned char)end, memory_order_release);
    /* If a scope still lists it, the end of the scope queues it. */
    if (!atomic_load_explicit(&object->word, memory_order_acquire) ||
        atomic_fetch_and(&object->word, ~BTI_WORD_BUSY) == BTI_WORD_BUSY)
        queue_released(object);
}

/* --- misuse ----------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *release;
    const char *keeping; /* past its scope; NULL: scopes do not release it */
} kinds[BTI_OWNED_COUNT] = {
    [BTI_OWNED_ARRAY] = {"array", "bt_release",
                         "bt_keep moves it to the scope outside, bt_assign or bt_retain keeps it longer"},
    [BTI_OWNED_SHARED] = {"shared variable", "bt_shared_release", "bt_shared_retain keeps it longer"},
    [BTI_OWNED_FUNCTION] = {"function", "bt_function_release", "bt_function_retain keeps it longer"},
    [BTI_OWNED_LAYER] = {"layer", "bt_layer_release", "bt_layer_retain keeps it longer"},
    [BTI_OWNED_OPTIMIZER] = {"optimiser", "bt_optimizer_release", "bt_optimizer_retain keeps it longer"},
    [BTI_OWNED_STRATEGY] = {"strategy", "bt_strategy_release", "bt_strategy_retain keeps it longer"},
    [BTI_OWNED_PARTS] = {"run over parts of a batch", "bt_parts_release", "bt_parts_retain keeps it longer"},
    [BTI_OWNED_CUSTOM] = {"operation", "bt_custom_release", "bt_custom_retain keeps it longer"},
    [BTI_OWNED_REF] = {"reference", "bt_ref_release", "bt_ref_retain keeps it longer"},
    [BTI_OWNED_ACTOR] = {"actor", "bt_actor_release", "bt_actor_retain keeps it longer"},
    [BTI_OWNED_GROUP] = {"group", "bt_group_release", "bt_group_retain keeps it longer"},
    [BTI_OWNED_POOL] = {"pool", "bt_pool_release", "bt_pool_retain keeps it longer"},
    [BTI_OWNED_LEASE] = {"lease", "bt_lease_release", NULL},
    [BTI_OWNED_TENSORS] = {"file", "bt_tensors_close", NULL},
    [BTI_OWNED_PROFILE] = {"profile", "bt_profile_stop", NULL},
    [BTI_OWNED_DATASET] = {"data set", "bt_dataset_release", "bt_dataset_retain keeps it longer"},
    [BTI_OWNED_LOADER] = {"loader", "bt_loader_release", "bt_loader_retain keeps it longer"},
};

bti_error *bti_owned_released(const bti_owned *object) {
    bti_error *known = bti_misuse_known(object);
    if (known) return known;
    const char *how[] = {" is being released by another thread",
                         " was released at the end of its scope",
                         " was released by ",
                         " was released by bt_assign",
                         " was released at the end of the call",
                         " was released at the end of its thread",
                         " was released by bt_shutdown"};
    bti_owned_kind kind = (bti_owned_kind)object->kind;
    unsigned end = atomic_load_explicit(&object->end, memory_order_acquire);
    bti_str text = {0};
    bti_str_addf(&text, "the %s", kinds[kind].name);
    bti_site made = {object->made_file, object->made_line};
    if (made.file) bti_str_addf(&text, " made at %s:%d", bti_site_file(made), made.line);
    bti_str_addf(&text, "%s%s", how[end], end == BTI_END_RELEASE ? kinds[kind].release : "");
    bti_site site = end ? (bti_site){object->released_file, object->released_line} : (bti_site){0};
    if (site.file) bti_str_addf(&text, " at %s:%d", bti_site_file(site), site.line);
    if (end == BTI_END_SCOPE && kinds[kind].keeping) bti_str_addf(&text, "; %s", kinds[kind].keeping);
    bti_error *error = bti_misuse_new(object, "%s", bti_str_text(&text));
    bti_str_free(&text);
    return error;
}

bti_error *bti_owned_error(const bti_owned *object, bti_owned_kind kind) {
    if (!object) {
        bti_error *known = bti_misuse_known(&kinds[kind]);
        return known ? known : bti_misuse_new(&kinds[kind], "the %s is NULL", kinds[kind].name);
    }
    return bti_owned_is_released(object) ? bti_owned_released(object) : object->error;
}

#include "base/owned.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/str.h"

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

/* --- the queue of released objects ----------------------------------------------------------------------------------- */

#define BATCH 64
#define KEPT 65536
#define BATCHES (KEPT / BATCH + 256) /* when the ring is full, the oldest batch is freed */

typedef struct list {
    bti_owned *first, *last;
    int count;
} list;

BTI_STATIC_LOCK(owned_lock, owned)
static struct {
    list batches[BATCHES]; /* a ring: each of at least BATCH objects */
    size_t first, count;
    size_t objects;
    list rest; /* objects of threads that have ended, less than a batch */
} queue;
static _Thread_local list released; /* objects of this thread, less than a batch */
static _Thread_local bti_owned *spare;
static _Thread_local bool registered;
static pthread_key_t owned_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void free_all(bti_owned *object) {
    while (object) {
        bti_owned *next = object->next;
        bti_free(object);
        object = next;
    }
}

static list take_oldest(void) {
    list oldest = queue.batches[queue.first];
    queue.first = (queue.first + 1) % BATCHES;
    queue.count--;
    queue.objects -= (size_t)oldest.count;
    return oldest;
}

/* Adds a batch. Returns the oldest batch if the ring was full, for the caller to free. Under the lock. */
static list add_batch(list batch) {
    list oldest = {0};
    if (queue.count == BATCHES) oldest = take_oldest();
    queue.batches[(queue.first + queue.count++) % BATCHES] = batch;
    queue.objects += (size_t)batch.count;
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
    list oldest = {0};
    bti_lock_take(&owned_lock);
    append(&queue.rest, released);
    if (queue.rest.count >= BATCH) {
        oldest = add_batch(queue.rest);
        queue.rest = (list){0};
    }
    bti_lock_give(&owned_lock);
    free_all(oldest.first);
    free_all(spare);
    released = (list){0};
    spare = NULL;
    registered = false;
}
static void make_key(void) { pthread_key_create(&owned_key, leave_thread); }

static void register_thread(void) {
    pthread_once(&key_once, make_key);
    registered = pthread_setspecific(owned_key, &released) == 0;
}

static void queue_released(bti_owned *object) {
    object->next = NULL;
    append(&released, (list){object, object, 1});
    if (!registered) register_thread();
    if (released.count < BATCH) return;
    bti_lock_take(&owned_lock);
    list oldest = add_batch(released);
    bti_lock_give(&owned_lock);
    released = (list){0};
    free_all(oldest.first);
}

static bool fetch_oldest_batch(void) {
    bti_lock_take(&owned_lock);
    if (queue.count && queue.objects - (size_t)queue.batches[queue.first].count >= KEPT) spare = take_oldest().first;
    bti_lock_give(&owned_lock);
    return spare;
}

/* --- objects --------------------------------------------------------------------------------------------------------- */

/* Memory of a released object that has left the queue, or NULL. Prefetches the one after it. */
static bti_owned *reuse_memory(size_t bytes) {
    while (spare || fetch_oldest_batch()) {
        bti_owned *object = spare;
        spare = object->next;
        if (spare) __builtin_prefetch(spare, 1);
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
    [BTI_OWNED_CUSTOM] = {"operation", "bt_custom_release", "bt_custom_retain keeps it longer"},
    [BTI_OWNED_REF] = {"reference", "bt_ref_release", "bt_ref_retain keeps it longer"},
    [BTI_OWNED_ACTOR] = {"actor", "bt_actor_release", "bt_actor_retain keeps it longer"},
    [BTI_OWNED_GROUP] = {"group", "bt_group_release", "bt_group_retain keeps it longer"},
    [BTI_OWNED_POOL] = {"pool", "bt_pool_release", "bt_pool_retain keeps it longer"},
    [BTI_OWNED_LEASE] = {"lease", "bt_lease_release", NULL},
    [BTI_OWNED_TENSORS] = {"file", "bt_tensors_close", NULL},
    [BTI_OWNED_PROFILE] = {"profile", "bt_profile_stop", NULL},
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

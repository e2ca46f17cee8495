#include "base/recycle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/thread.h"

#ifdef BTI_VALGRIND
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECKED true /* they see misuse of what was freed, not of what is kept */
#else
#define CHECKED RUNNING_ON_VALGRIND
#endif

#define SIZES 6 /* 64 bytes, 128, ... */
#define LARGEST ((size_t)64 << (SIZES - 1))
#define OWN_BYTES ((size_t)32 << 10)     /* of a size that a thread keeps */
#define SHARED_BYTES ((size_t)512 << 10) /* and that a part of the shared ones keeps */

typedef struct object {
    struct object *next;
} object;

typedef struct shelf {
    object *first;
    int count;
} shelf;

typedef struct store {
    _Alignas(BTI_LINE) bti_lock lock;
    shelf shelves[SIZES];
    atomic_int counts[SIZES]; /* what lies on them; to ask without the lock */
} store;
static store stores[BTI_SHARDS] = {[0 ... BTI_SHARDS - 1] = {.lock = BTI_LOCK_INIT(recycle)}};
BTI_RENEWED_LOCKS(stores, recycle)

typedef struct own_shelves {
    shelf shelves[SIZES];
    bool registered;
} own_shelves;
static _Thread_local own_shelves own_shelves_of_thread;

static pthread_key_t recycle_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static int objects_in(size_t bytes, int size) { return (int)(bytes >> (6 + size)); }
static int most_of(int size) { return objects_in(OWN_BYTES, size); }

static object *pop_object(shelf *from) {
    object *taken = from->first;
    from->first = taken->next;
    from->count--;
    return taken;
}

static void push_object(shelf *to, object *given) {
    given->next = to->first;
    to->first = given;
    to->count++;
}

static void move_objects(shelf *to, int most, shelf *from, int least) {
    while (from->count > least && to->count < most) push_object(to, pop_object(from));
}

/* Under the lock. */
static void note_count(store *of, int size) {
    atomic_store_explicit(&of->counts[size], of->shelves[size].count, memory_order_relaxed);
}

/* Leaves `least` with the thread. */
static void share(shelf *own, int size, int least) {
    store *to = &stores[bti_shard()];
    bti_lock_take(&to->lock);
    move_objects(&to->shelves[size], objects_in(SHARED_BYTES, size), own, least);
    note_count(to, size);
    bti_lock_give(&to->lock);
    while (own->count > least) bti_free(pop_object(own));
}

/* From the part that this thread gives to, or else from any. */
static void fetch(shelf *own, int size) {
    unsigned shard = bti_shard();
    for (unsigned i = 0; i < BTI_SHARDS && !own->count; i++) {
        store *from = &stores[(shard + i) % BTI_SHARDS];
        if (!atomic_load_explicit(&from->counts[size], memory_order_relaxed)) continue;
        bti_lock_take(&from->lock);
        move_objects(own, most_of(size) / 2, &from->shelves[size], 0);
        note_count(from, size);
        bti_lock_give(&from->lock);
    }
}

void bti_recycled_share(void) {
    own_shelves *own = BTI_THREAD_OWN(own_shelves_of_thread);
    for (int size = 0; size < SIZES; size++)
        if (own->shelves[size].count) share(&own->shelves[size], size, 0);
}

static void leave_thread(void *unused) {
    (void)unused;
    bti_recycled_share();
    own_shelves_of_thread.registered = false;
}
static void make_key(void) { pthread_key_create(&recycle_key, leave_thread); }

static int size_of(size_t bytes) { return bytes <= 64 ? 0 : 58 - __builtin_clzll((unsigned long long)bytes - 1); }

void *bti_recycled_new(size_t bytes) {
    if (bytes > LARGEST || CHECKED) return bti_calloc(1, bytes);
    int size = size_of(bytes);
    if (bti_alloc_is_tested()) return bti_calloc(1, (size_t)64 << size);
    shelf *own = &own_shelves_of_thread.shelves[size];
    if (!own->count) fetch(own, size);
    if (!own->count) return bti_calloc(1, (size_t)64 << size);
    return memset(pop_object(own), 0, bytes);
}

void bti_recycled_free(void *given, size_t bytes) {
    if (!given || bytes > LARGEST || CHECKED) {
        bti_free(given);
        return;
    }
    own_shelves *own = BTI_THREAD_OWN(own_shelves_of_thread);
    if (!own->registered) {
        pthread_once(&key_once, make_key);
        own->registered = pthread_setspecific(recycle_key, own) == 0;
    }
    int size = size_of(bytes);
    if (own->shelves[size].count >= most_of(size)) share(&own->shelves[size], size, most_of(size) / 2);
    push_object(&own->shelves[size], given);
}

void bti_recycled_trim(void) {
    leave_thread(NULL);
    for (int i = 0; i < BTI_SHARDS; i++) {
        store *of = &stores[i];
        bti_lock_take(&of->lock);
        for (int size = 0; size < SIZES; size++) {
            while (of->shelves[size].count) bti_free(pop_object(&of->shelves[size]));
            note_count(of, size);
        }
        bti_lock_give(&of->lock);
    }
}

#include "base/recycle.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"

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
#define OWN 32      /* objects of a size that a thread keeps */
#define SHARED 1024 /* and that all keep */

typedef struct object {
    struct object *next;
} object;

typedef struct shelf {
    object *first;
    int count;
} shelf;

BTI_STATIC_LOCK(recycle_lock, recycle)
static shelf shared[SIZES];
static _Thread_local shelf own[SIZES];
static _Thread_local bool registered;
static pthread_key_t recycle_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

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

/* Leaves `least` with the thread. */
static void share(int size, int least) {
    bti_lock_take(&recycle_lock);
    while (own[size].count > least && shared[size].count < SHARED) push_object(&shared[size], pop_object(&own[size]));
    bti_lock_give(&recycle_lock);
    while (own[size].count > least) bti_free(pop_object(&own[size]));
}

static void fetch(int size) {
    bti_lock_take(&recycle_lock);
    while (own[size].count < OWN / 2 && shared[size].count) push_object(&own[size], pop_object(&shared[size]));
    bti_lock_give(&recycle_lock);
}

void bti_recycled_share(void) {
    for (int size = 0; size < SIZES; size++)
        if (own[size].count) share(size, 0);
}

static void leave_thread(void *unused) {
    (void)unused;
    bti_recycled_share();
    registered = false;
}
static void make_key(void) { pthread_key_create(&recycle_key, leave_thread); }

static int size_of(size_t bytes) { return bytes <= 64 ? 0 : 58 - __builtin_clzll((unsigned long long)bytes - 1); }

void *bti_recycled_new(size_t bytes) {
    if (bytes > LARGEST || CHECKED) return bti_calloc(1, bytes);
    int size = size_of(bytes);
    if (bti_alloc_is_tested()) return bti_calloc(1, (size_t)64 << size);
    if (!own[size].count) fetch(size);
    if (!own[size].count) return bti_calloc(1, (size_t)64 << size);
    return memset(pop_object(&own[size]), 0, bytes);
}

void bti_recycled_free(void *given, size_t bytes) {
    if (!given || bytes > LARGEST || CHECKED) {
        bti_free(given);
        return;
    }
    if (!registered) {
        pthread_once(&key_once, make_key);
        registered = pthread_setspecific(recycle_key, &own) == 0;
    }
    int size = size_of(bytes);
    if (own[size].count == OWN) share(size, OWN / 2);
    push_object(&own[size], given);
}

void bti_recycled_trim(void) {
    leave_thread(NULL);
    bti_lock_take(&recycle_lock);
    for (int size = 0; size < SIZES; size++)
        while (shared[size].count) bti_free(pop_object(&shared[size]));
    bti_lock_give(&recycle_lock);
}

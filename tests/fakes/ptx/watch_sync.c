#include "fakes/ptx/watch_sync.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define BLOCK_OF_ALL 1023u /* the thread number of a block's clock */

enum { LEVEL_BLOCK, LEVEL_DEVICE, LEVELS };

typedef struct clock_entry {
    uint32_t thread, when; /* covers what the thread did before `when`, and its block before the barriers of `when` */
} clock_entry;

typedef struct clock_list {
    uint32_t count, room;
    clock_entry *entries;
} clock_list;

/* Of a thread: what it acquired, what relaxed atomics showed it, what it released by its last fence; of a location: what was released
 * there (`acquired`). */
typedef struct sync_node {
    struct sync_node *next;
    uint64_t key;
    clock_list acquired, shown, fenced;
} sync_node;

struct watch_sync {
    sync_node *threads[LEVELS][BUCKETS], *places[LEVELS][BUCKETS];
};

watch_sync *watch_sync_new(void) {
    watch_sync *sync = calloc(1, sizeof *sync);
    if (!sync) abort();
    return sync;
}

static void free_nodes(sync_node **buckets) {
    for (int i = 0; i < BUCKETS; i++)
        for (sync_node *next, *n = buckets[i]; n; n = next) {
            next = n->next;
            free(n->acquired.entries);
            free(n->shown.entries);
            free(n->fenced.entries);
            free(n);
        }
}

void watch_sync_free(watch_sync *sync) {
    if (!sync) return;
    for (int level = 0; level < LEVELS; level++) {
        free_nodes(sync->threads[level]);
        free_nodes(sync->places[level]);
    }
    free(sync);
}

static sync_node *find_node(sync_node *const *buckets, uint64_t key) {
    for (sync_node *n = buckets[key * UINT64_C(0x9e3779b97f4a7c15) >> 54]; n; n = n->next)
        if (n->key == key) return n;
    return NULL;
}

static sync_node *make_node(sync_node **buckets, uint64_t key) {
    sync_node *n = find_node(buckets, key), **first = &buckets[key * UINT64_C(0x9e3779b97f4a7c15) >> 54];
    if (n) return n;
    n = calloc(1, sizeof *n);
    if (!n) abort();
    n->key = key, n->next = *first;
    return *first = n;
}

static void add_entry(clock_list *into, clock_entry entry) {
    for (uint32_t i = 0; i < into->count; i++) {
        if (into->entries[i].thread != entry.thread) continue;
        if (into->entries[i].when < entry.when) into->entries[i].when = entry.when;
        return;
    }
    if (into->count == into->room) {
        into->room = into->room ? into->room * 2 : 8;
        into->entries = realloc(into->entries, into->room * sizeof *into->entries);
        if (!into->entries) abort();
    }
    into->entries[into->count++] = entry;
}

static void join(clock_list *into, const clock_list *from) {
    for (uint32_t i = 0; i < from->count; i++) add_entry(into, from->entries[i]);
}

static sync_node *thread_node(watch_sync *sync, int level, uint32_t thread) {
    return make_node(sync->threads[level], thread);
}

/* Everything that is ordered before what the thread does now. */
static void add_known(watch_sync *sync, int level, uint32_t thread, uint32_t when, clock_list *into) {
    const sync_node *block = find_node(sync->threads[level], thread | (UINT64_C(1) << 32) | BLOCK_OF_ALL);
    if (block) join(into, &block->acquired);
    if (into != &thread_node(sync, level, thread)->acquired) join(into, &thread_node(sync, level, thread)->acquired);
    add_entry(into, (clock_entry){thread, when + 1});
}

void watch_sync_fence(watch_sync *sync, uint32_t thread, uint32_t when, ptx_scope scope) {
    for (int level = 0; level <= (scope >= PTX_SCOPE_GPU ? LEVEL_DEVICE : LEVEL_BLOCK); level++) {
        sync_node *n = thread_node(sync, level, thread);
        join(&n->acquired, &n->shown);
        add_known(sync, level, thread, when, &n->fenced);
    }
}

static bool releases(ptx_order order) { return order == PTX_RELEASE || order == PTX_ACQ_REL || order == PTX_SC; }
static bool acquires(ptx_order order) { return order == PTX_ACQUIRE || order == PTX_ACQ_REL || order == PTX_SC; }

void watch_sync_atomic(watch_sync *sync, uint32_t thread, uint32_t when, bool shared, uint64_t address, ptx_order order,
                       ptx_scope scope) {
    for (int level = 0; level <= (scope >= PTX_SCOPE_GPU ? LEVEL_DEVICE : LEVEL_BLOCK); level++) {
        uint64_t key = address * 2 + shared;
        if (level == LEVEL_BLOCK || shared) key ^= (uint64_t)(thread >> 10) << 40;
        sync_node *n = thread_node(sync, level, thread), *place = make_node(sync->places[level], key);
        join(acquires(order) ? &n->acquired : &n->shown, &place->acquired);
        if (releases(order))
            add_known(sync, level, thread, when, &place->acquired);
        else
            join(&place->acquired, &n->fenced);
    }
}

void watch_sync_barrier(watch_sync *sync, uint32_t block) {
    for (int level = 0; level < LEVELS; level++) {
        uint64_t key = (uint64_t)block << 10 | BLOCK_OF_ALL | UINT64_C(1) << 32;
        clock_list all = {0};
        for (int i = 0; i < BUCKETS; i++)
            for (const sync_node *n = sync->threads[level][i]; n; n = n->next)
                if ((n->key >> 10 & 0x3fffff) == block && n->key != key) join(&all, &n->acquired);
        if (all.count) join(&make_node(sync->threads[level], key)->acquired, &all);
        free(all.entries);
    }
}

static bool covers(const clock_list *list, const fake_cell *earlier) {
    for (uint32_t i = 0; i < list->count; i++) {
        const clock_entry *e = &list->entries[i];
        if ((e->thread ^ earlier->thread) >> 10) continue;
        if (earlier->when >> 16 < e->when >> 16) return true;
        if (e->thread == earlier->thread && earlier->when < e->when) return true;
    }
    return false;
}

bool watch_sync_ordered(const watch_sync *sync, const fake_cell *earlier, uint32_t thread) {
    for (int level = 0; sync && level < LEVELS; level++) {
        const sync_node *n = find_node(sync->threads[level], thread);
        const sync_node *block = find_node(sync->threads[level], thread | (UINT64_C(1) << 32) | BLOCK_OF_ALL);
        if ((n && covers(&n->acquired, earlier)) || (block && covers(&block->acquired, earlier))) return true;
    }
    return false;
}

bool watch_sync_knows(const watch_sync *sync, uint32_t thread) {
    for (int level = 0; sync && level < LEVELS; level++) {
        const sync_node *n = find_node(sync->threads[level], thread);
        const sync_node *block = find_node(sync->threads[level], thread | (UINT64_C(1) << 32) | BLOCK_OF_ALL);
        if ((n && n->acquired.count) || (block && block->acquired.count)) return true;
    }
    return false;
}

#include "fakes/ptx/watch_sync.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define BLOCK_OF_ALL 1023u /* the thread number of a block's clock */

enum { LEVEL_BLOCK, LEVEL_DEVICE, LEVELS };

/* Covers what these lanes of a warp did before `when`, and their block before the barriers of `when`. */
typedef struct clock_entry {
    uint32_t warp, lanes, when; /* warp: the number of one of its threads / 32 */
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

static bool entry_covers(clock_entry more, clock_entry less) {
    return !(less.lanes & ~more.lanes) && less.when <= more.when;
}

static void add_entry(clock_list *into, clock_entry entry) {
    for (uint32_t i = 0; i < into->count; i++) {
        if (into->entries[i].warp != entry.warp) continue;
        if (entry_covers(entry, into->entries[i])) into->entries[i] = entry;
        if (entry_covers(into->entries[i], entry)) return;
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
    add_entry(into, (clock_entry){thread / PTX_WARP, UINT32_C(1) << thread % PTX_WARP, when + 1});
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

/* --- barriers of some threads ----------------------------------------------------------------------------------------- */

static sync_node *barrier_node(watch_sync *sync, int level, uint32_t block, uint32_t barrier) {
    return make_node(sync->places[level], ~((uint64_t)block << 8 | barrier)); /* the key of no location */
}

void watch_sync_arrive(watch_sync *sync, uint32_t barrier, uint32_t thread, uint32_t mask, uint32_t when) {
    for (int level = 0; level < LEVELS; level++) {
        clock_list *into = &barrier_node(sync, level, thread >> 10, barrier)->acquired;
        add_entry(into, (clock_entry){thread / PTX_WARP, mask, when + 1});
        for (uint32_t left = mask; left; left &= left - 1)
            join(into, &thread_node(sync, level, thread + (uint32_t)__builtin_ctz(left))->acquired);
    }
}

void watch_sync_wait(watch_sync *sync, uint32_t barrier, uint32_t thread, uint32_t mask) {
    for (int level = 0; level < LEVELS; level++) {
        const clock_list *from = &barrier_node(sync, level, thread >> 10, barrier)->acquired;
        for (uint32_t left = mask; left; left &= left - 1)
            join(&thread_node(sync, level, thread + (uint32_t)__builtin_ctz(left))->acquired, from);
    }
}

void watch_sync_open(watch_sync *sync, uint32_t block, uint32_t barrier) {
    for (int level = 0; level < LEVELS; level++) barrier_node(sync, level, block, barrier)->acquired.count = 0;
}

/* --- what is ordered -------------------------------------------------------------------------------------------------- */

/* Whether an entry that the thread acquired, itself or with its block, says it. */
typedef bool says(const clock_entry *entry, const fake_cell *earlier);

static bool any_says(const watch_sync *sync, uint32_t thread, says *rule, const fake_cell *earlier) {
    for (int level = 0; sync && level < LEVELS; level++) {
        const sync_node *nodes[] = {
            find_node(sync->threads[level], thread),
            find_node(sync->threads[level], thread | (UINT64_C(1) << 32) | BLOCK_OF_ALL),
        };
        for (int n = 0; n < 2; n++)
            for (uint32_t i = 0; nodes[n] && i < nodes[n]->acquired.count; i++)
                if (rule(&nodes[n]->acquired.entries[i], earlier)) return true;
    }
    return false;
}

static bool same_block(const clock_entry *e, uint32_t thread) { return e->warp >> 5 == thread >> 10; }

static bool covers_access(const clock_entry *e, const fake_cell *earlier) {
    if (!same_block(e, earlier->thread)) return false;
    if (earlier->when >> 16 < e->when >> 16) return true;
    return e->warp == earlier->thread / PTX_WARP && e->lanes >> earlier->thread % PTX_WARP & 1 &&
           earlier->when < e->when;
}

bool watch_sync_ordered(const watch_sync *sync, const fake_cell *earlier, uint32_t thread) {
    return any_says(sync, thread, covers_access, earlier);
}

static bool may_cover_reads(const clock_entry *e, const fake_cell *reads) {
    if (!same_block(e, reads->thread)) return false;
    if (!(reads->what & FAKE_CELL_MANY_WARP)) return e->when >> 16 >= reads->when >> 16;
    return e->warp == reads->thread / PTX_WARP && e->when > reads->when;
}

bool watch_sync_may_know(const watch_sync *sync, const fake_cell *reads, uint32_t thread) {
    return any_says(sync, thread, may_cover_reads, reads);
}

static bool is_of_another_block(const clock_entry *e, const fake_cell *own) { return !same_block(e, own->thread); }

bool watch_sync_knows(const watch_sync *sync, uint32_t thread) {
    return any_says(sync, thread, is_of_another_block, &(fake_cell){.thread = thread});
}

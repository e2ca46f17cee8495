#include "exec/packed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "exec/queue.h"

enum { MOST_NOTED = 64, MOST_TIMES = 2 }; /* of one source: works that met it; as many times its bytes are packed */

struct bti_packed {
    atomic_uint refs;
    bti_packed *next;             /* of the source */
    bti_packed *previous, *later; /* all that have memory */
    bti_buffer *source;           /* NULL: it is in no list */
    bti_block *block;             /* NULL: it was only noted */
    atomic_uint_fast64_t form;
    bti_packed_key key;
};

BTI_STATIC_LOCK(lock, packed_layouts) /* protects the lists */
static bti_packed *all;

void bti_packed_release(bti_packed *layout) {
    if (!layout || atomic_fetch_sub_explicit(&layout->refs, 1, memory_order_acq_rel) != 1) return;
    if (layout->block) bti_block_free(layout->block, 0);
    bti_free(layout);
}

bti_work_packed bti_packed_memory(bti_packed *layout) {
    return (bti_work_packed){layout->block->address, layout->block->bytes, &layout->form};
}

/* --- the lists; under the lock ---------------------------------------------------------------------------------------- */

static void list_memory(bti_packed *layout, bti_block *block) {
    layout->block = block;
    layout->later = all;
    if (all) all->previous = layout;
    all = layout;
}

static void unlist_memory(bti_packed *layout) {
    if (layout->previous)
        layout->previous->later = layout->later;
    else
        all = layout->later;
    if (layout->later) layout->later->previous = layout->previous;
    layout->previous = layout->later = NULL;
}

/* Takes it out of both lists; their reference is the caller's. */
static void unlist(bti_packed *layout) {
    bti_packed **link = &layout->source->packed;
    while (*link != layout) link = &(*link)->next;
    __atomic_store_n(link, layout->next, __ATOMIC_RELEASE);
    layout->source = NULL;
    if (layout->block) unlist_memory(layout);
}

static bti_packed *find(const bti_buffer *source, const bti_packed_key *key) {
    bti_packed *layout = source->packed;
    while (layout && memcmp(&layout->key, key, sizeof *key) != 0) layout = layout->next;
    return layout;
}

/* The oldest that was only noted, when there are too many; NULL. */
static bti_packed *take_oldest_noted(bti_buffer *source) {
    bti_packed *oldest = NULL;
    int count = 0;
    for (bti_packed *layout = source->packed; layout; layout = layout->next, count++)
        if (!layout->block) oldest = layout;
    if (count <= MOST_NOTED || !oldest) return NULL;
    unlist(oldest);
    return oldest;
}

static bool is_within(const bti_buffer *source, size_t bytes) {
    for (const bti_packed *layout = source->packed; layout; layout = layout->next)
        if (layout->block) bytes += layout->block->bytes;
    return bytes / MOST_TIMES <= source->bytes;
}

/* --- for runs ----------------------------------------------------------------------------------------------------------- */

static bti_packed *note(bti_buffer *source, const bti_packed_key *key) {
    bti_packed *layout = bti_calloc(1, sizeof *layout);
    if (!layout) return NULL;
    atomic_init(&layout->refs, 1);
    layout->source = source;
    layout->key = *key;
    layout->next = source->packed;
    __atomic_store_n(&source->packed, layout, __ATOMIC_RELEASE);
    return take_oldest_noted(source);
}

/* Its memory turned out to be of no use; to be freed by the caller. NULL: a run has it still. */
static bti_block *take_back(bti_packed *layout) {
    bti_block *block = atomic_load(&layout->refs) == 1 ? layout->block : NULL;
    if (block) unlist_memory(layout), layout->block = NULL;
    return block;
}

/* Whether it has memory then. */
static bool give_memory(bti_packed *layout, int device, size_t bytes) {
    bti_block *block = NULL;
    bool before = bti_errors_quiet(true);
    if (bti_block_alloc(device, bytes, bti_run_queue_completed(device), true, &block) != BT_OK) block = NULL;
    bti_errors_quiet(before);
    bti_lock_take(&lock);
    bool wanted = block && layout->source && !layout->block && is_within(layout->source, bytes);
    if (wanted) list_memory(layout, block);
    bool has = layout->block != NULL;
    bti_lock_give(&lock);
    if (block && !wanted) bti_block_free(block, 0);
    return has;
}

bti_packed *bti_packed_find(bti_buffer *source, const bti_packed_key *key, size_t bytes) {
    bti_block *useless = NULL;
    bti_lock_take(&lock);
    bti_packed *layout = find(source, key), *forgotten = layout ? NULL : note(source, key);
    if (layout && atomic_load(&layout->form) == BTI_PACKED_REFUSED) useless = take_back(layout), layout = NULL;
    bool has = layout && layout->block, asks = layout && !has && is_within(source, bytes);
    if (has || asks) atomic_fetch_add_explicit(&layout->refs, 1, memory_order_relaxed);
    bti_lock_give(&lock);
    if (useless) bti_block_free(useless, 0);
    bti_packed_release(forgotten);
    if (has || (asks && give_memory(layout, source->device, bytes))) return layout;
    if (asks) bti_packed_release(layout);
    return NULL;
}

void bti_packed_drop(bti_buffer *source) {
    while (bti_packed_is_any(source)) {
        bti_lock_take(&lock);
        bti_packed *layout = source->packed;
        if (layout) unlist(layout);
        bti_lock_give(&lock);
        bti_packed_release(layout);
    }
}

void bti_packed_trim(int device) {
    for (bool more = true; more;) {
        bti_lock_take(&lock);
        bti_packed *layout = all;
        while (layout && layout->source->device != device) layout = layout->later;
        if (layout) unlist(layout);
        bti_lock_give(&lock);
        more = layout != NULL;
        bti_packed_release(layout);
    }
}

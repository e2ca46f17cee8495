#include "data/memory.h"

#include <errno.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/guest.h"
#include "base/lock.h"

#define SECONDS_TO_WAIT 10
#define LARGE \
    ((size_t)1 << 20) /* so many bytes are put into a huge page, of HUGE bytes with what bti_alloc_large asks for */
#define HUGE ((size_t)4 << 20)

struct bti_batch_memory {
    bti_lock lock;
    pthread_cond_t came_back;
    bt_device *pinned_for; /* NULL: ordinary memory */
    size_t keep_bytes, kept_bytes;
    bti_piece *kept;
    int used, used_pinned; /* pieces in use */
    bool closed;
};

static bool can_pin(bt_device *device) {
    bti_errors_aside aside = bti_errors_aside_begin();
    void *trial = bt_pinned(device, 64);
    bool pinned = bt_is_pinned(trial);
    bt_pinned_free(trial);
    bti_errors_aside_end(aside);
    return pinned;
}

bti_batch_memory *bti_batch_memory_new(bt_device *device, size_t keep_bytes) {
    bti_batch_memory *store = bti_calloc(1, sizeof *store);
    if (!store) return NULL;
    bti_lock_init(&store->lock, BTI_LOCK_loader_memory);
    pthread_cond_init(&store->came_back, NULL);
    store->keep_bytes = keep_bytes;
    if (device && bt_device_kind(device) != BT_CPU && can_pin(device)) store->pinned_for = device;
    return store;
}

static void free_piece(bti_piece *piece) {
    if (piece->pinned)
        bt_pinned_free(piece->data);
    else
        bti_free(piece->data);
    bti_free(piece);
}

static void free_store(bti_batch_memory *store) {
    bti_lock_destroy(&store->lock);
    pthread_cond_destroy(&store->came_back);
    bti_free(store);
}

/* --- taking ----------------------------------------------------------------------------------------------------------- */

/* A kept piece that is large enough and not twice as large; under the lock. */
static bti_piece *take_kept(bti_batch_memory *store, size_t bytes) {
    for (bti_piece **at = &store->kept; *at; at = &(*at)->next) {
        bti_piece *piece = *at;
        if (piece->bytes < bytes || piece->bytes / 2 > bytes) continue;
        *at = piece->next;
        store->kept_bytes -= piece->bytes;
        return piece;
    }
    return NULL;
}

static bti_piece *make_piece(bti_batch_memory *store, size_t bytes) {
    bti_piece *piece = bti_calloc(1, sizeof *piece);
    if (!piece) return NULL;
    *piece = (bti_piece){.bytes = bytes ? bytes : 1, .store = store};
    if (store->pinned_for) { /* ordinary memory does as well where no more can be locked */
        bti_errors_aside aside = bti_errors_aside_begin();
        piece->data = bt_pinned(store->pinned_for, piece->bytes);
        bti_errors_aside_end(aside);
        piece->pinned = piece->data != NULL;
    }
    if (!piece->data) piece->data = bti_alloc_large(bytes >= LARGE && bytes < HUGE ? HUGE : piece->bytes);
    if (piece->data) return piece;
    bti_free(piece);
    return NULL;
}

bti_piece *bti_piece_take(bti_batch_memory *store, size_t bytes) {
    bti_lock_take(&store->lock);
    bti_piece *piece = take_kept(store, bytes);
    bti_lock_give(&store->lock);
    if (!piece) piece = make_piece(store, bytes);
    if (!piece) {
        (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory for the %zu bytes of a batch's array", bytes);
        return NULL;
    }
    bti_lock_take(&store->lock);
    store->used++;
    store->used_pinned += piece->pinned;
    bti_lock_give(&store->lock);
    return piece;
}

/* --- giving back -------------------------------------------------------------------------------------------------------- */

void bti_piece_give(void *given) {
    bti_piece *piece = given;
    bti_batch_memory *store = piece->store;
    bti_lock_take(&store->lock);
    store->used--;
    store->used_pinned -= piece->pinned;
    bool keep = piece->pinned || (!store->closed && store->kept_bytes + piece->bytes <= store->keep_bytes);
    bool last = store->closed && !store->used && !store->kept;
    if (keep) {
        piece->next = store->kept;
        store->kept = piece;
        store->kept_bytes += piece->bytes;
        last = false;
    }
    pthread_cond_broadcast(&store->came_back);
    bti_lock_give(&store->lock);
    if (!keep) free_piece(piece);
    if (last) free_store(store);
}

/* Under the lock. */
static void wait_for_pinned(bti_batch_memory *store) {
    BTI_NO_CANCEL;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS_TO_WAIT;
    while (store->used_pinned)
        if (pthread_cond_timedwait(&store->came_back, &store->lock.mutex, &until) == ETIMEDOUT) return;
}

void bti_batch_memory_close(bti_batch_memory *store) {
    if (!store) return;
    bti_lock_take(&store->lock);
    wait_for_pinned(store);
    bti_piece *kept = store->kept;
    store->kept = NULL;
    store->closed = true;
    bool last = !store->used;
    bti_lock_give(&store->lock);
    while (kept) {
        bti_piece *next = kept->next;
        free_piece(kept);
        kept = next;
    }
    if (last) free_store(store);
}

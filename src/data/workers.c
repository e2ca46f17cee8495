#include "data/workers.h"

#include "base/alloc.h"
#include "base/guest.h"
#include "base/lock.h"

enum { SLOTS = 256, STACK = 8 << 20 /* of functions of the program's */ };

typedef struct slot {
    bti_made made;
    uint64_t reserved; /* bytes */
    bool ready;
} slot;

struct bti_workers {
    bti_lock lock;
    pthread_cond_t work, ready;
    bti_batcher *batcher;
    uint64_t ahead_bytes;
    bti_place place; /* of bt_loader_new */
    int refs;        /* threads, and the loader */
    bool ending;
    bool prepare; /* the order of the next epoch is to be computed when all batches of this one are begun */

    int64_t taken, next, end; /* batches: the next to be taken, the next to be made, behind the last */
    int running;
    uint64_t bytes; /* reserved for batches that were begun and not taken */
    uint64_t guess; /* for one batch */
    slot slots[SLOTS];
    int count;
    pthread_t threads[];
};

static _Thread_local const bti_workers *own_workers; /* of a worker */

/* --- a worker ------------------------------------------------------------------------------------------------------------ */

/* Under the lock. One batch is always allowed, whatever its bytes. */
static bool has_work(const bti_workers *w) {
    if (w->next >= w->end || w->next - w->taken >= SLOTS) return false;
    return w->next == w->taken || w->bytes + w->guess <= w->ahead_bytes;
}

/* Under the lock, which is given while the batch is made. */
static void make_next(bti_workers *w, bti_example_maker *maker) {
    int64_t number = w->next++;
    slot *of = &w->slots[number % SLOTS];
    of->reserved = w->guess;
    w->bytes += of->reserved;
    w->running++;
    bti_lock_give(&w->lock);
    bti_made made;
    bti_batcher_make(w->batcher, maker, number, &made);
    bti_leave_thread();
    bti_lock_take(&w->lock);
    w->running--;
    if (made.error && number + 1 < w->end) w->end = number + 1; /* later ones are of no use */
    w->bytes += made.bytes - of->reserved;
    of->reserved = made.bytes;
    if (made.bytes > w->guess) w->guess = made.bytes;
    of->made = made;
    of->ready = true;
    pthread_cond_broadcast(&w->ready);
    pthread_cond_broadcast(&w->work);
}

/* Under the lock, which is given meanwhile. */
static void prepare_epoch(bti_workers *w) {
    w->prepare = false;
    w->running++;
    bti_lock_give(&w->lock);
    bti_batcher_prepare(w->batcher);
    bti_leave_thread();
    bti_lock_take(&w->lock);
    w->running--;
    pthread_cond_broadcast(&w->ready);
}

/* Under the lock, which it gives back. */
static void drop_workers(bti_workers *w) {
    bool last = !--w->refs;
    bti_lock_give(&w->lock);
    if (!last) return;
    for (int i = 0; i < SLOTS; i++) bti_made_release(&w->slots[i].made);
    bti_batcher_close(w->batcher);
    bti_free(w->batcher);
    bti_lock_destroy(&w->lock);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->ready);
    bti_free(w);
}

static void *work(void *argument) {
    bti_workers *w = argument;
    bti_example_maker maker = {0};
    own_workers = w;
    int depth = bti_call_begin(w->place.name);
    bti_call_set_place(w->place);
    bti_lock_take(&w->lock);
    while (!w->ending) {
        if (has_work(w))
            make_next(w, &maker);
        else if (w->prepare && w->next >= w->end)
            prepare_epoch(w);
        else
            bti_lock_wait(&w->lock, &w->work);
    }
    bti_example_maker_free(&maker);
    drop_workers(w);
    bti_call_end(depth);
    bti_leave_thread();
    return NULL;
}

/* --- the loader's side ---------------------------------------------------------------------------------------------------- */

bti_workers *bti_workers_new(bti_batcher *batcher, int count, uint64_t ahead_bytes) {
    bti_workers *w = bti_calloc(1, sizeof *w + (size_t)count * sizeof *w->threads);
    if (!w) return (void)!bti_no_memory(), NULL;
    bti_lock_init(&w->lock, BTI_LOCK_loader);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->ready, NULL);
    w->batcher = batcher;
    w->ahead_bytes = ahead_bytes;
    w->place = bti_call_place();
    w->guess = bti_batcher_least_bytes(batcher);
    w->refs = 1;
    bti_lock_take(&w->lock);
    for (; w->count < count; w->count++, w->refs++)
        if (!bti_thread_start(&w->threads[w->count], STACK, work, w)) break;
    bti_lock_give(&w->lock);
    if (w->count) return w;
    (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "no thread can be made for the workers");
    bti_lock_destroy(&w->lock);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->ready);
    bti_free(w);
    return NULL;
}

void bti_workers_begin(bti_workers *w, int64_t first, int64_t end) {
    bti_lock_take(&w->lock);
    w->taken = w->next = first;
    w->end = end;
    w->prepare = w->batcher->shuffled && !w->batcher->recorded;
    pthread_cond_broadcast(&w->work);
    bti_lock_give(&w->lock);
}

/* Under the lock: the batch leaves its slot. */
static bti_made leave_slot(bti_workers *w, int64_t number) {
    slot *of = &w->slots[number % SLOTS];
    bti_made made = of->made;
    w->bytes -= of->reserved;
    *of = (slot){0};
    return made;
}

void bti_workers_take(bti_workers *w, bti_made *made) {
    bti_lock_take(&w->lock);
    while (!w->slots[w->taken % SLOTS].ready) bti_lock_wait(&w->lock, &w->ready);
    *made = leave_slot(w, w->taken++);
    pthread_cond_broadcast(&w->work);
    bti_lock_give(&w->lock);
}

void bti_workers_stop(bti_workers *w) {
    bti_lock_take(&w->lock);
    w->end = w->next;
    w->prepare = false;
    while (w->running) bti_lock_wait(&w->lock, &w->ready);
    while (w->taken < w->next) {
        bti_made made = leave_slot(w, w->taken++);
        bti_lock_give(&w->lock);
        bti_made_release(&made);
        bti_lock_take(&w->lock);
    }
    bti_lock_give(&w->lock);
}

bool bti_workers_are_calling(const bti_workers *w) { return own_workers == w; }

void bti_workers_end(bti_workers *w) {
    bool inside = bti_workers_are_calling(w);
    if (!inside) bti_workers_stop(w);
    bti_lock_take(&w->lock);
    w->ending = true;
    w->end = w->next;
    pthread_cond_broadcast(&w->work);
    bti_lock_give(&w->lock);
    for (int i = 0; i < w->count; i++)
        if (inside)
            pthread_detach(w->threads[i]);
        else
            pthread_join(w->threads[i], NULL);
    bti_lock_take(&w->lock);
    drop_workers(w);
}

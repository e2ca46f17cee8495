#include "function/updating.h"

#include <stdlib.h>

#include "function/versions.h"

/* Protects `updating` of all variables. */
BTI_STATIC_LOCK(updating_lock, updating)
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int waiting;

static int by_number(const void *a, const void *b) {
    int64_t x = (*(bt_shared *const *)a)->number, y = (*(bt_shared *const *)b)->number;
    return x < y ? -1 : x > y;
}

void bti_updating_sort(bt_function *f) {
    for (int i = 0; i < f->update_count; i++) f->updated_by_number[i] = f->updated[i];
    if (f->update_count) qsort(f->updated_by_number, (size_t)f->update_count, sizeof *f->updated, by_number);
}

static uint64_t replicas_set(void) { return bti_in_replica() ? UINT64_C(1) << bti_replica() : UINT64_MAX; }

/* One after the other in the order of their numbers, so that no cycle arises. */
void bti_updating_begin(const bt_function *f) {
    if (!f->update_count) return;
    uint64_t replicas = replicas_set();
    bti_lock_take(&updating_lock);
    for (int i = 0; i < f->update_count; i++) {
        bt_shared *shared = f->updated_by_number[i];
        while (shared->updating & replicas) {
            waiting++;
            bti_lock_wait(&updating_lock, &ended);
            waiting--;
        }
        shared->updating |= replicas;
    }
    bti_lock_give(&updating_lock);
}

void bti_updating_end(const bt_function *f) {
    if (!f->update_count) return;
    uint64_t replicas = replicas_set();
    bti_lock_take(&updating_lock);
    for (int i = 0; i < f->update_count; i++) f->updated_by_number[i]->updating &= ~replicas;
    if (waiting) pthread_cond_broadcast(&ended);
    bti_lock_give(&updating_lock);
}

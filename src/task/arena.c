#include "task/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/writes.h"

enum { NOTES = 1 << 20, PAGE = 4096 };

/* --- the mapping ----------------------------------------------------------------------------------------------------- */

static bt_status make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (!error) {
        error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        if (!error) error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        if (!error) error = pthread_mutex_init(lock, &attributes);
        pthread_mutexattr_destroy(&attributes);
    }
    return error ? bti_fail(BT_INTERNAL, "no lock between processes: %s", strerror(error)) : BT_OK;
}

static bt_status map(uint64_t bytes, void **memory) {
    int file = memfd_create("berth", MFD_CLOEXEC);
    if (file < 0) return bti_fail(BT_RESOURCE_EXHAUSTED, "no shared memory: memfd_create: %s", strerror(errno));
    bt_status status = BT_OK;
    BTI_WRITES;
    *memory = MAP_FAILED;
    if (ftruncate(file, (off_t)bytes) == 0)
        *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (*memory == MAP_FAILED)
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "no room of %llu bytes for shared memory: %s",
                          (unsigned long long)bytes, strerror(errno));
    else
        madvise(*memory, bytes, MADV_DONTDUMP);
    close(file);
    return status;
}

bt_status bti_arena_open(uint64_t bytes, bti_arena **arena) {
    void *memory = NULL;
    BTI_TRY(map(bytes, &memory));
    bti_arena *a = memory;
    a->bytes = bytes;
    a->next = (char *)memory + (sizeof *a + PAGE - 1) / PAGE * PAGE;
    bt_status status = make_lock(&a->lock);
    if (status == BT_OK) status = bti_arena_room(a, NOTES * sizeof *a->notes, (void **)&a->notes);
    if (status != BT_OK) return bti_arena_close(a), status;
    a->note_most = NOTES;
    return *arena = a, BT_OK;
}

void bti_arena_close(bti_arena *arena) {
    if (arena) munmap(arena, arena->bytes);
}

bt_status bti_arena_room(bti_arena *arena, uint64_t bytes, void **room) {
    uint64_t left = arena->bytes - (uint64_t)(arena->next - (char *)arena);
    if (bytes > left)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "shared memory has %llu bytes of room left, %llu are wanted",
                        (unsigned long long)left, (unsigned long long)bytes);
    *room = arena->next;
    arena->next += (bytes + PAGE - 1) / PAGE * PAGE;
    return BT_OK;
}

bt_status bti_arena_reserve(bti_arena *arena, int kind, uint64_t bytes, uint32_t most) {
    bti_records *r = &arena->records[kind];
    *r = (bti_records){.bytes = bytes, .most = most};
    return bti_arena_room(arena, bytes * most, (void **)&r->first);
}

/* --- the lock -------------------------------------------------------------------------------------------------------- */

/* The last change first: a word may have been noted twice. */
void bti_arena_take_back(bti_arena *arena) {
    while (arena->note_count) {
        const bti_arena_note *note = &arena->notes[arena->note_count - 1];
        memcpy(note->address, &note->before, note->bytes);
        atomic_signal_fence(memory_order_seq_cst);
        *(volatile uint32_t *)&arena->note_count = arena->note_count - 1;
        atomic_signal_fence(memory_order_seq_cst);
    }
}

void bti_arena_lock(bti_arena *arena) {
    if (pthread_mutex_lock(&arena->lock) != EOWNERDEAD) return;
    bti_arena_take_back(arena);
    arena->recoveries++;
    pthread_mutex_consistent(&arena->lock);
}

void bti_arena_commit(bti_arena *arena) {
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint32_t *)&arena->note_count = 0;
    arena->turn++;
}

void bti_arena_unlock(bti_arena *arena) {
    bti_arena_commit(arena);
    pthread_mutex_unlock(&arena->lock);
}

/* --- records --------------------------------------------------------------------------------------------------------- */

void *bti_record_take(bti_arena *arena, int kind) {
    bti_records *r = &arena->records[kind];
    bti_free_record **slot = &r->free, *record;
    while ((record = *slot) != NULL && record->turn == arena->turn) slot = &record->next;
    if (record) {
        BTI_SET(arena, *slot, record->next);
    } else {
        if (r->used == r->most) return NULL;
        record = (bti_free_record *)(void *)(r->first + r->used * r->bytes);
        BTI_SET(arena, r->used, r->used + 1);
    }
    BTI_SET(arena, r->live, r->live + 1);
    return record;
}

void *bti_record_new(bti_arena *arena, int kind) {
    bti_free_record *record = bti_record_take(arena, kind);
    if (record) memset(record + 1, 0, arena->records[kind].bytes - sizeof *record);
    return record;
}

void bti_record_free(bti_arena *arena, int kind, void *freed) {
    bti_records *r = &arena->records[kind];
    bti_free_record *record = freed;
    BTI_SET(arena, record->next, r->free);
    BTI_SET(arena, record->turn, arena->turn);
    BTI_SET(arena, r->free, record);
    BTI_SET(arena, r->live, r->live - 1);
}

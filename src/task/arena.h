/* Memory that all processes of a runtime share, at one address in all of them: records of fixed size, under one lock.
 *
 * A process may be killed at any instruction, also while it holds the lock. So whoever changes a record notes the old words first
 * (BTI_SET); the next to take the lock finds its owner dead and puts them back: what stands between lock and unlock happens whole
 * or not at all. A record that nobody can reach yet needs no notes.
 *
 * All of it is a file without a name (memfd): it is gone with the last process, however that ends.
 */
#ifndef BTI_TASK_ARENA_H
#define BTI_TASK_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"

enum { BTI_KINDS_OF_RECORDS = 64 };

typedef struct bti_arena_note {
    void *address;
    uint64_t before;
    uint32_t bytes; /* 1, 2, 4 or 8 */
} bti_arena_note;

/* What every record begins with; written only while it is free. */
typedef struct bti_free_record {
    struct bti_free_record *next;
    uint64_t turn;
} bti_free_record;

/* The free ones of a kind lie in a list; the rest of its range was never used, and takes no memory. */
typedef struct bti_records {
    char *first;
    uint64_t bytes;
    uint32_t most;
    uint32_t used; /* were ever handed out */
    uint32_t live;
    bti_free_record *free;
} bti_records;

typedef struct bti_arena {
    pthread_mutex_t lock; /* robust, of several processes */
    uint64_t bytes;
    uint32_t note_count, note_most;
    bti_arena_note *notes;
    uint64_t turn;       /* counts commits: a record that was freed in this one is not handed out again in it */
    uint64_t recoveries; /* times an owner was found dead */
    bti_records records[BTI_KINDS_OF_RECORDS];
    char *next; /* where the next range begins */
} bti_arena;

/* A mapping of `bytes` of address space, of which only what is written takes memory. Forked processes have it too. */
bt_status bti_arena_open(uint64_t bytes, bti_arena **arena);
/* Takes it out of this process. NULL is fine. */
void bti_arena_close(bti_arena *arena);

/* Lays out room for `most` records of a kind; before there is a second process. */
bt_status bti_arena_reserve(bti_arena *arena, int kind, uint64_t bytes, uint32_t most);
/* `bytes` of plain room, aligned to pages, zero; before there is a second process. */
bt_status bti_arena_room(bti_arena *arena, uint64_t bytes, void **room);

void bti_arena_lock(bti_arena *arena);
void bti_arena_unlock(bti_arena *arena);
/* What was changed so far stays, whatever comes; the lock is kept. For changes without end, where the records are in order. */
void bti_arena_commit(bti_arena *arena);

/* Takes back what was changed since the lock was taken (or the last commit): for who finds midway that it cannot be done. */
void bti_arena_take_back(bti_arena *arena);

/* With the lock. A record whose bytes past bti_free_record are zero; NULL when all are in use. */
void *bti_record_new(bti_arena *arena, int kind);
/* The same, with whatever it holds. */
void *bti_record_take(bti_arena *arena, int kind);
void bti_record_free(bti_arena *arena, int kind, void *record);

static inline void bti_arena_note_word(bti_arena *arena, void *address, uint32_t bytes) {
    if (arena->note_count == arena->note_most) bti_arena_commit(arena);
    bti_arena_note *note = &arena->notes[arena->note_count];
    note->address = address;
    note->bytes = bytes;
    memcpy(&note->before, address, bytes);
    atomic_signal_fence(
        memory_order_seq_cst); /* a killed process has made its writes in order: only the compiler could mix them */
    *(volatile uint32_t *)&arena->note_count = arena->note_count + 1;
    atomic_signal_fence(memory_order_seq_cst);
}

/* lvalue = value, that can be taken back. */
#define BTI_SET(arena, lvalue, ...)                                                           \
    do {                                                                                      \
        _Static_assert(sizeof(lvalue) <= 8, "notes hold words");                              \
        bti_arena_note_word(arena, (void *)(uintptr_t) & (lvalue), (uint32_t)sizeof(lvalue)); \
        (lvalue) = (__VA_ARGS__);                                                             \
    } while (0)

#endif

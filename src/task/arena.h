/* Memory that all processes of a runtime share, at one address in all of them: records of fixed size, under one lock.
 *
 * A process may be killed at any instruction, also while it holds the lock. So code that changes a record notes the old words first
 * (BTI_SET); the next to take the lock finds its owner dead and puts them back: what stands between lock and unlock happens whole
 * or not at all. A record that no process can reach yet needs no notes.
 *
 * The program can write here by mistake. So the lock, the heads of lists and free records are checked when they are used. What is found
 * damaged breaks the arena for all processes, for good: the lock is not given any more, and each process is told the cause.
 *
 * All of it is a file without a name (memfd): it is gone with the last process, however that ends.
 */
#ifndef BTI_TASK_ARENA_H
#define BTI_TASK_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"

enum { BTI_KINDS_OF_RECORDS = 64, BTI_MOST_NOTES = 1 << 20, BTI_PAGE = 4096 };

typedef enum bti_arena_fault {
    BTI_FAULT_NONE,
    BTI_FAULT_HEAD,    /* what stands around the lock, or heads of lists */
    BTI_FAULT_LOCK,    /* the lock itself */
    BTI_FAULT_OWNER,   /* the lock is held, but by no process that lives */
    BTI_FAULT_RECORDS, /* a free record */
    BTI_FAULT_NEST     /* the nest found damage by a signal */
} bti_arena_fault;

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
    _Alignas(64) atomic_int fault; /* bti_arena_fault; changes once; alone in its line of the cache */
    _Alignas(64) uint64_t guard;   /* of its address, as the other guards */
    pthread_mutex_t lock;          /* protects all records of the arena; robust, shared by processes */
    uint64_t second_guard;
    uint64_t bytes;
    uint32_t note_count; /* of those in the pages after this head */
    uint64_t turn;       /* counts commits: a record that was freed in this one is not handed out again in it */
    uint64_t recoveries; /* times an owner was found dead */
    bti_records records[BTI_KINDS_OF_RECORDS];
    char *next; /* where the next range begins */
    uint64_t last_guard;
} bti_arena;

/* A mapping of `bytes` of address space, of which only what is written takes memory. Forked processes have it too. */
bt_status bti_arena_open(uint64_t bytes, bti_arena **arena);
/* The same; `*file` is what it lies in, for a process that is to map it too. */
bt_status bti_arena_open_file(uint64_t bytes, bti_arena **arena, int *file);
/* Takes it out of this process. NULL is fine. */
void bti_arena_close(bti_arena *arena);

/* Lays out room for `most` records of a kind; before there is a second process. */
bt_status bti_arena_reserve(bti_arena *arena, int kind, uint64_t bytes, uint32_t most);
/* `bytes` of plain room, aligned to pages, zero; before there is a second process. */
bt_status bti_arena_room(bti_arena *arena, uint64_t bytes, void **room);

/* False: the arena is broken, and what it holds must not be used. Then unlock does nothing. Waits without a limit as long as the process lives
 * that has the lock, also while that is stopped. */
bool bti_arena_lock(bti_arena *arena);
void bti_arena_unlock(bti_arena *arena);
/* Without the lock. */
static inline bool bti_arena_is_broken(const bti_arena *arena) { return atomic_load(&arena->fault) != BTI_FAULT_NONE; }
/* The head as it can be seen without the lock, and what stands in the other records (bti_arena_watch). */
bool bti_arena_check(bti_arena *arena);
/* The thread that has the lock, which may have given it back by now; 0: none, or it is not known. */
pid_t bti_arena_owner(const bti_arena *arena);
void bti_arena_break(bti_arena *arena, bti_arena_fault fault);
/* INTERNAL with the cause, for callers; OK: it is not broken. */
bt_status bti_arena_error(const bti_arena *arena);

/* In this process and those that it forks. `is_whole(of)` is asked by bti_arena_check; `wait` runs some times a second while a
 * process waits for the lock, without it. NULL: nothing. */
typedef struct bti_arena_watcher {
    bool (*is_whole)(const void *of);
    const void *of;
    void (*wait)(void);
} bti_arena_watcher;
void bti_arena_watch(bti_arena_watcher watcher);

/* Whether it may be the address of a record, or NULL. */
static inline bool bti_arena_has(const bti_arena *arena, uint64_t bytes, const void *record) {
    return !record || (!((uintptr_t)record & 7) && (uintptr_t)record - (uintptr_t)arena < bytes);
}

/* What was changed so far stays, whatever comes; the lock is kept. For changes without end, where the records are in order. */
void bti_arena_commit(bti_arena *arena);

/* Takes back what was changed since the lock was taken (or the last commit): for a change that turns out to be impossible midway. */
void bti_arena_take_back(bti_arena *arena);

/* With the lock. A record whose bytes past bti_free_record are zero; NULL when all are in use. */
void *bti_record_new(bti_arena *arena, int kind);
/* The same, with whatever it holds. */
void *bti_record_take(bti_arena *arena, int kind);
void bti_record_free(bti_arena *arena, int kind, void *record);

static inline bti_arena_note *bti_arena_notes(bti_arena *arena) {
    return (bti_arena_note *)(void *)((char *)arena + (sizeof *arena + BTI_PAGE - 1) / BTI_PAGE * BTI_PAGE);
}

static inline void bti_arena_note_word(bti_arena *arena, void *address, uint32_t bytes) {
    if (arena->note_count >= BTI_MOST_NOTES) bti_arena_commit(arena);
    bti_arena_note *note = &bti_arena_notes(arena)[arena->note_count];
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

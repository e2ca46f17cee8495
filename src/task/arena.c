#include "task/arena.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"

enum { PAGE = BTI_PAGE, WAIT_NS = 100000000, MOST_WAITS = 5 /* for a lock that no process holds */ };

#define GUARD 0x9e3779b97f4a7c15u

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

static bt_status map_file(uint64_t bytes, void **memory, int *kept) {
    int file = bti_file_above_standard(memfd_create("berth", MFD_CLOEXEC));
    if (file < 0) return bti_files_refuse("no shared memory: memfd_create", errno);
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
    if (status != BT_OK) return close(file), status;
    return *kept = file, BT_OK;
}

bt_status bti_arena_open(uint64_t bytes, bti_arena **arena) {
    int file;
    bt_status status = bti_arena_open_file(bytes, arena, &file);
    if (status == BT_OK) close(file);
    return status;
}

bt_status bti_arena_open_file(uint64_t bytes, bti_arena **arena, int *file) {
    void *memory = NULL;
    BTI_TRY(map_file(bytes, &memory, file));
    bti_arena *a = memory;
    a->bytes = bytes;
    a->next = (char *)memory + (sizeof *a + PAGE - 1) / PAGE * PAGE;
    bt_status status = make_lock(&a->lock);
    void *notes;
    if (status == BT_OK) status = bti_arena_room(a, BTI_MOST_NOTES * sizeof(bti_arena_note), &notes);
    if (status != BT_OK) return close(*file), munmap(a, bytes), status;
    a->guard = a->second_guard = a->last_guard = (uint64_t)(uintptr_t)a ^ GUARD;
    return *arena = a, BT_OK;
}

void bti_arena_close(bti_arena *arena) {
    if (arena && !bti_arena_is_broken(arena) && bti_arena_check(arena)) munmap(arena, arena->bytes);
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
        const bti_arena_note *note = &bti_arena_notes(arena)[arena->note_count - 1];
        memcpy(note->address, &note->before, note->bytes);
        atomic_signal_fence(memory_order_seq_cst);
        *(volatile uint32_t *)&arena->note_count = arena->note_count - 1;
        atomic_signal_fence(memory_order_seq_cst);
    }
}

/* A note is of a word in the arena: one of another address was overwritten. */
static bool notes_are_whole(bti_arena *arena) {
    if (arena->note_count > BTI_MOST_NOTES) return false;
    for (uint32_t i = 0; i < arena->note_count; i++) {
        const bti_arena_note *note = &bti_arena_notes(arena)[i];
        if ((uintptr_t)note->address - (uintptr_t)arena >= arena->bytes || note->bytes > 8) return false;
    }
    return true;
}

static bti_arena_watcher watcher;
static _Thread_local bool deferred;   /* errors were before the lock was taken */
static _Thread_local bti_arena *held; /* an unlock without it would give a damaged lock away */
void bti_arena_watch(bti_arena_watcher with) { watcher = with; }

static bool guards_are_whole(const bti_arena *arena) {
    uint64_t guard = (uint64_t)(uintptr_t)arena ^ GUARD;
    return arena->guard == guard && arena->second_guard == guard && arena->last_guard == guard;
}

void bti_arena_break(bti_arena *arena, bti_arena_fault fault) {
    int none = BTI_FAULT_NONE;
    atomic_compare_exchange_strong(&arena->fault, &none, (int)fault);
}

bool bti_arena_check(bti_arena *arena) {
    if (bti_arena_is_broken(arena)) return false;
    if (guards_are_whole(arena) && (!watcher.is_whole || watcher.is_whole(watcher.of))) return true;
    bti_arena_break(arena, BTI_FAULT_HEAD);
    return false;
}

bt_status bti_arena_error(const bti_arena *arena) {
    static const char *const causes[] = {[BTI_FAULT_HEAD] = "the heads of its lists were overwritten",
                                         [BTI_FAULT_LOCK] = "its lock was overwritten",
                                         [BTI_FAULT_OWNER] = "its lock is held, but by no process",
                                         [BTI_FAULT_RECORDS] = "a free record was overwritten",
                                         [BTI_FAULT_NEST] =
                                             "the process that starts workers found records overwritten"};
    int fault = atomic_load(&arena->fault);
    if (!fault) return BT_OK;
    bool known = fault > 0 && fault < (int)(sizeof causes / sizeof *causes);
    return bti_fail(BT_INTERNAL,
                    "the runtime's shared memory is damaged, the runtime is over: %s; something in this program "
                    "writes to memory that is not its own",
                    known ? causes[fault] : causes[BTI_FAULT_HEAD]);
}

pid_t bti_arena_owner(const bti_arena *arena) {
#ifdef __GLIBC__
    return *(volatile const int *)&arena->lock.__data.__lock & FUTEX_TID_MASK;
#else
    return (void)arena, 0;
#endif
}

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer does not know that a lock with a limit may have had a dead owner. */
static int wait_for_lock(bti_arena *arena) { return pthread_mutex_lock(&arena->lock); }
#else
/* A lock that was overwritten may look as if a thread had it. The kernel ends the lock of a thread that is gone: if that does not happen,
 * no such thread had it. */
static bool owner_is_missing(const bti_arena *arena) {
    pid_t owner = bti_arena_owner(arena);
    return owner && kill(owner, 0) < 0 && errno == ESRCH;
}

static int wait_for_lock(bti_arena *arena) {
    int lost = 0;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WAIT_NS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        int error = pthread_mutex_clocklock(&arena->lock, CLOCK_MONOTONIC, &until);
        if (error != ETIMEDOUT) return error;
        if (watcher.wait) watcher.wait();
        if (!bti_arena_check(arena)) return EINVAL;
        lost = owner_is_missing(arena) ? lost + 1 : 0;
        if (lost < MOST_WAITS) continue;
        bti_arena_break(arena, BTI_FAULT_OWNER);
        return EINVAL;
    }
}
#endif

static bool recover(bti_arena *arena) {
    if (!guards_are_whole(arena) || !notes_are_whole(arena)) {
        bti_arena_break(arena, BTI_FAULT_HEAD);
        pthread_mutex_unlock(&arena->lock); /* it cannot be taken from now on */
        return false;
    }
    bti_arena_take_back(arena);
    arena->recoveries++;
    pthread_mutex_consistent(&arena->lock);
    return true;
}

bool bti_arena_lock(bti_arena *arena) {
    if (bti_arena_is_broken(arena)) return false;
    int error = pthread_mutex_trylock(&arena->lock);
    if (error == EBUSY) error = wait_for_lock(arena);
    if (error && error != EOWNERDEAD) {
        bti_arena_break(arena, BTI_FAULT_LOCK); /* the first cause stays */
        return false;
    }
    if (error && !recover(arena)) return false;
    if (bti_arena_is_broken(arena) || !guards_are_whole(arena)) {
        bti_arena_break(arena, BTI_FAULT_HEAD);
        pthread_mutex_unlock(&arena->lock);
        return false;
    }
    deferred = bti_errors_defer(); /* a handler may ask for what needs the lock */
    return held = arena, true;
}

void bti_arena_commit(bti_arena *arena) {
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint32_t *)&arena->note_count = 0;
    arena->turn++;
}

void bti_arena_unlock(bti_arena *arena) {
    if (held != arena) return;
    held = NULL;
    if (!bti_arena_is_broken(arena)) bti_arena_commit(arena);
    if (pthread_mutex_unlock(&arena->lock) != 0) bti_arena_break(arena, BTI_FAULT_LOCK);
    bti_errors_tell_deferred(deferred);
}

/* --- records --------------------------------------------------------------------------------------------------------- */

/* A record of this kind that was handed out once. */
static bool is_of(const bti_arena *arena, const bti_records *r, const void *record) {
    uint64_t at = (uint64_t)((uintptr_t)record - (uintptr_t)r->first);
    return bti_arena_has(arena, arena->bytes, r->first) && r->bytes && r->used <= r->most && at < r->used * r->bytes &&
           at % r->bytes == 0;
}

static void *damaged(bti_arena *arena) {
    bti_arena_break(arena, BTI_FAULT_RECORDS);
    return NULL;
}

void *bti_record_take(bti_arena *arena, int kind) {
    bti_records *r = &arena->records[kind];
    bti_free_record **slot = &r->free, *record;
    if (r->free && !is_of(arena, r, r->free)) return damaged(arena);
    while ((record = *slot) != NULL && record->turn == arena->turn) {
        if (record->next && !is_of(arena, r, record->next)) return damaged(arena);
        slot = &record->next;
    }
    if (record) {
        BTI_SET(arena, *slot, record->next);
    } else {
        if (r->used == r->most) return NULL;
        if (!bti_arena_has(arena, arena->bytes, r->first) || r->used > r->most) return damaged(arena);
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
    if (!is_of(arena, r, record)) return (void)damaged(arena);
    BTI_SET(arena, record->next, r->free);
    BTI_SET(arena, record->turn, arena->turn);
    BTI_SET(arena, r->free, record);
    BTI_SET(arena, r->live, r->live - 1);
}

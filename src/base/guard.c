#include "base/guard.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_text.h"

#define RESERVE ((size_t)64 << 20) /* bytes */
#define PATIENCE 8                 /* retries while another thread returns the reserve */

typedef void handler(void);
static handler *(*_Atomic set_handler)(handler *);
static handler *(*_Atomic get_handler)(void);
static _Atomic(handler *) others; /* the handler of the program itself */
static _Atomic(void *) reserve;

static _Thread_local struct {
    int depth, tries;
    void (*give_up)(const char *reason);
} within;

static void *map_pages(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static bool has_limits(void) {
    struct rlimit space, data;
    return getrlimit(RLIMIT_AS, &space) || getrlimit(RLIMIT_DATA, &data) || space.rlim_cur != RLIM_INFINITY ||
           data.rlim_cur != RLIM_INFINITY;
}

/* Without limits the system never refuses address space that is not used. */
static bool is_memory_limited(void) {
    static _Atomic int strict; /* vm.overcommit_memory is 2: 1, it is not: -1 */
    if (!atomic_load_explicit(&strict, memory_order_relaxed)) {
        char digit[2];
        bti_file_text("/proc/sys/vm/overcommit_memory", digit, sizeof digit);
        atomic_store(&strict, *digit == '2' ? 1 : -1);
    }
    return atomic_load_explicit(&strict, memory_order_relaxed) > 0 || has_limits();
}

#define ASKED_AGAIN_NS 1000000

/* The same for calls that come in thousands: a limit that the program sets is seen so much later, and until then the reserve is there. */
static bool was_memory_limited(void) {
    static atomic_uint_fast64_t unlimited_at;
    uint64_t now = bti_now_ns(), asked = atomic_load_explicit(&unlimited_at, memory_order_relaxed);
    if (asked && now - asked < ASKED_AGAIN_NS) return false;
    if (is_memory_limited()) return true;
    atomic_store_explicit(&unlimited_at, now, memory_order_relaxed);
    return false;
}

bt_status bti_guard_room(size_t bytes, const char *whom) {
    if (!is_memory_limited()) return BT_OK;
    void *memory = map_pages(bytes);
    if (!memory)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s needs %zu MiB of address space, which the system refuses", whom,
                        bytes >> 20);
    munmap(memory, bytes);
    return BT_OK;
}

static bool hold_reserve(void) {
    void *none = NULL, *memory;
    if (atomic_load_explicit(&reserve, memory_order_relaxed)) return true;
    if (!(memory = map_pages(RESERVE))) return false;
    if (!atomic_compare_exchange_strong(&reserve, &none, memory)) munmap(memory, RESERVE);
    return true;
}

/* `operator new` calls it until there is memory; it throws if there is no handler. */
static void memory_failed(void) {
    handler *next = atomic_load(&others);
    if (within.depth) {
        void *memory = atomic_exchange(&reserve, NULL);
        if (memory) {
            munmap(memory, RESERVE);
            return;
        }
        if (within.tries++ < PATIENCE) {
            sched_yield();
            return;
        }
        if (within.give_up) within.give_up("out of memory");
    }
    if (next)
        next();
    else
        atomic_load (&set_handler)(NULL);
}

void bti_guard_watch(void *library) {
    handler *(*set)(handler *), *(*get)(void);
    *(void **)&set = dlsym(library, "_ZSt15set_new_handlerPFvvE");
    *(void **)&get = dlsym(library, "_ZSt15get_new_handlerv");
    if (!set || !get) return;
    atomic_store(&set_handler, set);
    atomic_store(&get_handler, get);
}

bt_status bti_guard_begin(const char *whom, size_t room, void (*give_up)(const char *reason)) {
    handler *(*get)(void) = atomic_load_explicit(&get_handler, memory_order_acquire);
    if (!hold_reserve())
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s is not called: %zu MiB of address space, its reserve, cannot be had",
                        whom, RESERVE >> 20);
    if (was_memory_limited()) BTI_TRY(bti_guard_room(room, whom));
    handler *now = get ? get() : memory_failed;
    if (now != memory_failed) {
        atomic_store(&others, now);
        atomic_load (&set_handler)(memory_failed);
    }
    within.depth++;
    within.tries = 0;
    within.give_up = give_up;
    return BT_OK;
}

void bti_guard_end(void) {
    within.depth = 0;
    within.give_up = NULL;
}

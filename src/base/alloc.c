#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/host_memory.h"

static atomic_bool counted; /* all threads would write to one count: only where tests want it */
static atomic_uint_fast64_t asked;
static atomic_uint_fast64_t fail_at;
static atomic_bool fail_after;

static bool refused(size_t bytes) {
    if (__builtin_expect(bytes >= BTI_HOST_MEMORY_ASK, 0) && !bti_host_memory_has(bytes)) return true;
    if (__builtin_expect(!atomic_load_explicit(&counted, memory_order_relaxed), 1)) return false;
    uint64_t n = atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return at != 0 && (n == at || (n > at && atomic_load_explicit(&fail_after, memory_order_relaxed)));
}

void *bti_alloc(size_t bytes) { return refused(bytes) ? NULL : malloc(bytes ? bytes : 1); }

#define SMALL 1024 /* glibc up to 2.40 has a thread's cache for malloc and none for calloc */

void *bti_calloc(size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all) || refused(all)) return NULL;
    if (all > SMALL) return calloc(count, bytes);
    void *memory = malloc(all ? all : 1);
    return memory ? memset(memory, 0, all) : NULL;
}

void *bti_realloc(void *memory, size_t bytes) { return refused(bytes) ? NULL : realloc(memory, bytes ? bytes : 1); }

char *bti_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = bti_alloc(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

void *bti_alloc_aligned(size_t alignment, size_t bytes) {
    void *memory = NULL;
    return refused(0) || posix_memalign(&memory, alignment, bytes ? bytes : 1) ? NULL : memory;
}

#define HUGE_PAGE ((size_t)2 << 20) /* of x86-64, and of most others */

void *bti_alloc_large(size_t bytes) {
    bool huge = bytes >= 2 * HUGE_PAGE;
    void *memory = bti_alloc_aligned(huge ? HUGE_PAGE : 64, bytes);
    if (memory && huge) (void)madvise(memory, bytes, MADV_HUGEPAGE); /* else it is in small ones */
    return memory;
}

void bti_free(void *memory) { free(memory); }

void *bti_alloc_claimed(size_t alignment, size_t bytes) {
    if (!bti_host_memory_claim(bytes)) return NULL;
    void *memory = bti_alloc_aligned(alignment, bytes);
    if (!memory) bti_host_memory_unclaim(bytes);
    return memory;
}

void bti_free_claimed(void *memory, size_t bytes) {
    if (memory) bti_host_memory_unclaim(bytes);
    bti_free(memory);
}

void bti_alloc_fail_at(uint64_t nth, bool and_after) {
    atomic_store(&counted, true);
    atomic_store(&asked, 0);
    atomic_store(&fail_after, and_after);
    atomic_store(&fail_at, nth);
}

bool bti_alloc_is_tested(void) { return atomic_load_explicit(&fail_at, memory_order_relaxed) != 0; }
uint64_t bti_alloc_count(void) { return atomic_load(&asked); }

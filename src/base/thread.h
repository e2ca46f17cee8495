/* How threads are kept from writing to the same lines of memory: on machines whose cores share no cache such a line takes hundreds of nanoseconds to
 * come from the other core. */
#ifndef BTI_BASE_THREAD_H
#define BTI_BASE_THREAD_H

#include <stdatomic.h>
#include <stdint.h>

/* The address of a variable of this thread, found once. In a shared library finding it is a call of the dynamic loader, which compilers rather make at each
 * use than keep the address. */
#define BTI_THREAD_OWN(variable)                 \
    ({                                           \
        __typeof__(variable) *at_ = &(variable); \
        __asm__("" : "+r"(at_));                 \
        at_;                                     \
    })

/* The calling thread's number: 1, 2, ... in the order in which threads first ask; no other thread of the process has had it. */
uint32_t bti_thread_number(void);

/* What many threads change is kept in so many parts, each with its own lines of memory; a thread uses the part of this number. */
enum { BTI_SHARDS = 16, BTI_LINE = 64 };
static inline unsigned bti_shard(void) { return bti_thread_number() % BTI_SHARDS; }

/* A number that many threads add to and few ask for. */
typedef struct bti_counter {
    struct {
        _Alignas(BTI_LINE) atomic_int_fast64_t part;
    } shards[BTI_SHARDS];
} bti_counter;
static inline void bti_counter_add(bti_counter *counter, int64_t change) {
    atomic_fetch_add_explicit(&counter->shards[bti_shard()].part, change, memory_order_relaxed);
}
static inline int64_t bti_counter_sum(const bti_counter *counter) {
    int64_t sum = 0;
    for (int i = 0; i < BTI_SHARDS; i++) sum += atomic_load(&counter->shards[i].part);
    return sum;
}

#endif

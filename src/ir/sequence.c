#include "ir/sequence.h"

#include <stdatomic.h>

#include "base/thread.h"

enum { BLOCK = 1024 };

static _Alignas(BTI_LINE) atomic_uint_fast64_t given; /* no block goes further */

typedef struct numbers {
    bti_recorded last;
    uint64_t end; /* those between are free */
} numbers;
static _Thread_local numbers own_numbers;

static void take_block(numbers *own, uint64_t count) {
    uint64_t size = (count + BLOCK - 1) / BLOCK * BLOCK;
    own->last.sequence = atomic_fetch_add_explicit(&given, size, memory_order_relaxed);
    own->last.recorder = bti_thread_number();
    own->end = own->last.sequence + size;
}

bti_recorded bti_sequence_take(uint64_t count, uint64_t least) {
    numbers *own = BTI_THREAD_OWN(own_numbers);
    if (own->end - own->last.sequence < count || least > own->last.sequence) take_block(own, count);
    bti_recorded first = {own->last.sequence + 1, own->last.recorder};
    own->last.sequence += count;
    return first;
}

void bti_sequence_last(bti_recorded *last) {
    const numbers *own = BTI_THREAD_OWN(own_numbers);
    last->sequence = own->last.sequence;
    last->recorder = own->last.recorder ? own->last.recorder : bti_thread_number();
}

uint64_t bti_sequence_mark(void) {
    numbers *own = BTI_THREAD_OWN(own_numbers);
    if (own->end != atomic_load_explicit(&given, memory_order_relaxed)) take_block(own, 1);
    return own->last.sequence;
}

void bti_sequence_pass(void) { (void)bti_sequence_mark(); }

#include "base/thread.h"

#include <stdatomic.h>

static atomic_uint_fast32_t last;
static _Thread_local uint32_t own;

uint32_t bti_thread_number(void) {
    if (!own) own = (uint32_t)(atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1);
    return own;
}

/* The clock of this process: it never goes back, and does not stand still while the machine is busy (CLOCK_MONOTONIC). */
#ifndef BTI_BASE_CLOCK_H
#define BTI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t bti_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t bti_now_ms(void) { return bti_now_ns() / 1000000; }
static inline double bti_now_seconds(void) { return (double)bti_now_ns() * 1e-9; }

#endif

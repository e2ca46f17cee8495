/* The clocks of this process. The wall's never goes back, and does not stand still while the machine is busy (CLOCK_MONOTONIC): limits of waits, deadlines of tasks.
 * The process's clock is what profiles, traces and bt_time read: the wall's, or a virtual one while there are simulated devices with a model. The virtual
 * clock is the time of the host of such devices: only calls of their driver move it (drivers/sim/sim_time.h), and, where the host has a model too, what it records and
 * submits, so that it depends on no machine. It is one for all threads. */
#ifndef BTI_BASE_CLOCK_H
#define BTI_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t bti_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t bti_now_ms(void) { return bti_now_ns() / 1000000; }
static inline double bti_now_seconds(void) { return (double)bti_now_ns() * 1e-9; }

extern _Atomic uint64_t bti_clock_virtual_; /* not for direct use; 0: the clock is the wall's */
static inline bool bti_clock_is_virtual(void) { return atomic_load(&bti_clock_virtual_) != 0; }
static inline uint64_t bti_clock_ns(void) {
    uint64_t now = atomic_load(&bti_clock_virtual_);
    return now ? now : bti_now_ns();
}

/* Makes the clock virtual, or the wall's again; nothing if it is already. It goes on from the wall's time. `origin`: when it was changed last; times noted before are
 * of another clock. */
void bti_clock_set_virtual(bool is_virtual);
uint64_t bti_clock_origin(void);
/* Of a virtual clock: so much later; not before that time. Nothing while it is the wall's. */
void bti_clock_advance(uint64_t ns);
void bti_clock_reach(uint64_t ns);

/* Work of the host itself that takes so long of a virtual clock: an operation that is recorded, a plan that is submitted. 0: no time. */
typedef enum bti_host_work { BTI_HOST_RECORDS, BTI_HOST_SUBMITS, BTI_HOST_WORKS } bti_host_work;
void bti_clock_set_host(const uint64_t ns[BTI_HOST_WORKS]);
extern _Atomic uint64_t bti_clock_host_[BTI_HOST_WORKS]; /* not for direct use */
static inline void bti_clock_host_works(bti_host_work work) {
    uint64_t ns = atomic_load_explicit(&bti_clock_host_[work], memory_order_relaxed);
    if (__builtin_expect(ns != 0, 0)) bti_clock_advance(ns);
}

#endif

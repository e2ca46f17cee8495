#include "base/clock.h"

_Atomic uint64_t bti_clock_virtual_, bti_clock_host_[BTI_HOST_WORKS];
static _Atomic uint64_t origin;

/* The caller sees to it that one thread at a time is here. */
void bti_clock_set_virtual(bool is_virtual) {
    if (is_virtual == bti_clock_is_virtual()) return;
    uint64_t now = bti_now_ns();
    atomic_store(&origin, now);
    atomic_store(&bti_clock_virtual_, is_virtual ? now : 0);
}

uint64_t bti_clock_origin(void) { return atomic_load(&origin); }

void bti_clock_advance(uint64_t ns) {
    uint64_t before = atomic_load(&bti_clock_virtual_);
    while (before && !atomic_compare_exchange_weak(&bti_clock_virtual_, &before, before + ns)) {
    }
}

void bti_clock_reach(uint64_t ns) {
    uint64_t before = atomic_load(&bti_clock_virtual_);
    while (before && before < ns && !atomic_compare_exchange_weak(&bti_clock_virtual_, &before, ns)) {
    }
}

void bti_clock_set_host(const uint64_t ns[BTI_HOST_WORKS]) {
    for (int work = 0; work < BTI_HOST_WORKS; work++) atomic_store(&bti_clock_host_[work], ns[work]);
}

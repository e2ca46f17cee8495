#include "task/wake.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "task/process.h"

/* --- sleeping ---------------------------------------------------------------------------------------------------------- */

uint64_t bti_until_ns(double seconds) {
    if (!(seconds >= 0) || seconds > 1e9) return 0;
    uint64_t until = bti_now_ns() + (uint64_t)(seconds * 1e9);
    return until ? until : 1;
}

static bool has_several_cores(void) {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) > 1;
}

bool bti_spin_on(atomic_uint *word, unsigned seen, bti_patience *patience) {
    enum { LEAST = 16, MOST = 2000, TRIES = 32 };
    bool tries = ++patience->waits % TRIES == 0 && has_several_cores();
    uint32_t most = tries ? MOST : patience->looks;
    for (uint32_t i = 0; i < most; i++) {
        if (atomic_load_explicit(word, memory_order_relaxed) != seen) {
            uint32_t enough = i * 2 > LEAST ? i * 2 : LEAST;
            if (patience->looks < enough) patience->looks = enough < MOST ? enough : MOST;
            return true;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    if (!tries) patience->looks = patience->looks / 2 > LEAST ? patience->looks / 2 : LEAST;
    return false;
}

bool bti_sleep_once(atomic_uint *word, unsigned seen, uint64_t until_ns) {
    struct timespec left, *limit = NULL;
    if (until_ns) {
        uint64_t now = bti_now_ns();
        if (now >= until_ns) return false;
        left = (struct timespec){.tv_sec = (time_t)((until_ns - now) / 1000000000u),
                                 .tv_nsec = (long)((until_ns - now) % 1000000000u)};
        limit = &left;
    }
    syscall(SYS_futex, word, FUTEX_WAIT, seen, limit, NULL, 0);
    return true;
}

bool bti_sleep_on(atomic_uint *word, unsigned seen, uint64_t until_ns) {
    while (atomic_load(word) == seen)
        if (!bti_sleep_once(word, seen, until_ns)) return false;
    return true;
}

/* --- waking ------------------------------------------------------------------------------------------------------------ */

void bti_wake_one(atomic_uint *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0); }
void bti_wake_now(atomic_uint *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

void bti_wake_later(bti_wakes *wakes, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    bti_wake_word_later(wakes, word);
}

void bti_wake_word_later(bti_wakes *wakes, atomic_uint *word) {
    if (wakes->count == 64) bti_wake_one(wakes->words[--wakes->count]);
    wakes->words[wakes->count++] = word;
}

void bti_wake(bti_state *state, bti_wakes *wakes) {
    for (int i = 0; i < wakes->count; i++) bti_wake_one(wakes->words[i]);
    if (wakes->nest && atomic_load(&state->closing) < 2) bti_nest_call();
    wakes->count = 0;
    wakes->nest = false;
}

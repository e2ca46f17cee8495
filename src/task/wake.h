/* Sleeping on words of shared memory, and waking threads that sleep there (futex). */
#ifndef BTI_TASK_WAKE_H
#define BTI_TASK_WAKE_H

#include "task/state.h"

/* The time `seconds` from now, of bti_now_ns; 0 (no limit) if that is negative, infinite or not a number. */
uint64_t bti_until_ns(double seconds);
/* Sleeps until `word` differs from `seen` or the time has come (0: no limit); false: the time has come. */
bool bti_sleep_on(atomic_uint *word, unsigned seen, uint64_t until_ns);
/* The same, but it may return for no reason. */
bool bti_sleep_once(atomic_uint *word, unsigned seen, uint64_t until_ns);
/* Spins on the word before the caller sleeps; true: it changed. Spins for up to twice as long as the last change took; that is halved each
 * time the word does not change. Every 32nd time it spins for about 50 microseconds, since the other side is slower while this one sleeps. */
typedef struct bti_patience {
    uint32_t looks, waits;
} bti_patience;
bool bti_spin_on(atomic_uint *word, unsigned seen, bti_patience *patience);

/* Wakes all threads that sleep on the word, or one of them. */
void bti_wake_now(atomic_uint *word);
void bti_wake_one(atomic_uint *word);

/* Words whose sleepers are woken once the lock is given back. More than fit are woken at once. */
struct bti_wakes {
    atomic_uint *words[64];
    int count;
    bool nest;
};
/* Counts the word up and wakes one thread that sleeps on it, once the lock is given back. */
void bti_wake_later(bti_wakes *wakes, atomic_uint *word);
/* Only wakes. */
void bti_wake_word_later(bti_wakes *wakes, atomic_uint *word);
/* Without the lock: wakes their sleepers, and calls the nest if that was wanted. */
void bti_wake(bti_state *state, bti_wakes *wakes);

#endif

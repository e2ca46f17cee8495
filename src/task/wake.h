/* Sleeping on words of shared memory, and waking who sleeps there (futex). */
#ifndef BTI_TASK_WAKE_H
#define BTI_TASK_WAKE_H

#include "task/state.h"

/* `seconds` from now; negative, infinite or not a number: 0, no limit. */
uint64_t bti_until_ns(double seconds);
/* Until `word` is no longer `seen` or the time has come (0: no limit); false: it has. */
bool bti_sleep_on(atomic_uint *word, unsigned seen, uint64_t until_ns);
/* The same, but it may return for no reason. */
bool bti_sleep_once(atomic_uint *word, unsigned seen, uint64_t until_ns);
/* Reads the word for a while before the caller sleeps; true: it changed. For how long: twice as long as it took before, halved each time that it did not
 * change; every 32nd time for some 50 microseconds, since the other side is slow as long as this one sleeps. */
typedef struct bti_patience {
    uint32_t looks, waits;
} bti_patience;
bool bti_spin_on(atomic_uint *word, unsigned seen, bti_patience *patience);

/* All threads that sleep on it, or one of them. */
void bti_wake_now(atomic_uint *word);
void bti_wake_one(atomic_uint *word);

/* What is to be woken once the lock is given back; more than fit are woken at once. */
struct bti_wakes {
    atomic_uint *words[64];
    int count;
    bool nest;
};
/* Counts the word up and wakes one thread that sleeps on it, once the lock is given back. */
void bti_wake_later(bti_wakes *wakes, atomic_uint *word);
/* Only wakes. */
void bti_wake_word_later(bti_wakes *wakes, atomic_uint *word);
/* Without the lock: wakes them, and calls the nest if it was wanted. */
void bti_wake(bti_state *state, bti_wakes *wakes);

#endif

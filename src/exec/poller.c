#include "exec/poller.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/guest.h"
#include "base/libraries.h"
#include "base/lock.h"

#define SHORTEST_NS 100000 /* between two looks */
#define LONGEST_NS 2000000 /* a look that finds nothing doubles the time up to this */
#define LINGER \
    25 /* looks without anything in flight before it sleeps: so one call after the other does not wake it each time */

BTI_STATIC_LOCK(poller_lock, poller)
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static bool has_thread;   /* under the lock */
static atomic_bool stop;  /* written under the lock */
static atomic_bool awake; /* it will look again */
static bti_look (*_Atomic looks)(void);

/* Libraries of devices may be called: the process does not end in between. */
static bool look(bti_look *found) {
    static bti_library_calls calls;
    if (!bti_libraries_enter(&calls)) return false;
    *found = atomic_load(&looks)();
    bti_libraries_leave();
    return true;
}

static void sleep_for(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* Looks until nothing is in flight for some time; false: the process ends. */
static bool look_around(void) {
    bti_look found;
    for (int idle = 0, ns = SHORTEST_NS; idle < LINGER && !atomic_load(&stop);) {
        sleep_for(ns);
        if (!look(&found)) return false;
        idle = found == BTI_LOOK_NOTHING ? idle + 1 : 0;
        ns = found == BTI_LOOK_CHANGED ? SHORTEST_NS : ns * 2 < LONGEST_NS ? ns * 2 : LONGEST_NS;
    }
    atomic_store(&awake, false);
    if (!look(&found)) return false; /* what came in flight before that store did not wake it */
    if (found != BTI_LOOK_NOTHING) atomic_store(&awake, true);
    return true;
}

static void *serve(void *unused) {
    bool goes_on = true;
    bti_lock_take(&poller_lock);
    while (!atomic_load(&stop)) {
        if (!atomic_load(&awake) || !goes_on) {
            bti_lock_wait(&poller_lock, &work);
            continue;
        }
        bti_lock_give(&poller_lock);
        goes_on = look_around();
        bti_lock_take(&poller_lock);
    }
    bti_lock_give(&poller_lock);
    return unused;
}

void bti_poller_wake(bti_look (*how)(void)) {
    if (atomic_load(&awake)) return;
    bti_lock_take(&poller_lock);
    atomic_store(&looks, how);
    atomic_store(&stop, false);
    if (!has_thread) has_thread = bti_thread_start(&thread, BTI_STACK_WORK, serve, NULL);
    atomic_store(&awake, has_thread);
    pthread_cond_signal(&work);
    bti_lock_give(&poller_lock);
}

void bti_poller_stop(void) {
    bti_lock_take(&poller_lock);
    bool join = has_thread;
    pthread_t ended = thread;
    atomic_store(&stop, true);
    has_thread = false;
    pthread_cond_signal(&work);
    bti_lock_give(&poller_lock);
    if (join) pthread_join(ended, NULL);
    atomic_store(&awake, false);
}

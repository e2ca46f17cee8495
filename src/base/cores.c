#include "base/clock.h"
#include "base/compare.h"
#include "base/cores.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/guest.h"

enum { HELPERS_MOST = 1023, WORDS = 16, SPIN_NS = 50000 };
#define WAITING 0x80000000u

typedef struct job {
    void (*body)(void *context, int64_t begin, int64_t end);
    void *context;
    int64_t count, grain, pieces;
    int wanted;             /* helpers at most */
    uint64_t asked[WORDS];  /* helpers that were asked: the caller's own */
    _Atomic int64_t next;   /* piece */
    atomic_int helping;     /* helpers asked that did not leave */
    atomic_uint unfinished; /* the same that may still touch this; WAITING: the caller sleeps */
} job;

typedef struct helper {
    alignas(64) _Atomic(job *) job; /* what it is asked to do; it takes it out */
    atomic_uint asleep;
    pthread_t thread;
} helper;

static helper helpers[HELPERS_MOST];
static atomic_uint_fast64_t idle[WORDS]; /* a bit of a helper that may be asked: who clears it asks */
static atomic_int helper_count, made_for, cores_here, callers;
static job quit;
BTI_STATIC_LOCK(making, cores_making) /* of helpers: their making and ending */
static _Thread_local int limit;
static _Thread_local bool inside;

/* In a forked child the helpers are not there. */
static void forget_helpers(void) {
    for (int h = 0; h < atomic_load(&helper_count); h++) helpers[h] = (helper){NULL};
    for (int w = 0; w < WORDS; w++) atomic_store(&idle[w], 0);
    atomic_store(&helper_count, 0);
    atomic_store(&made_for, 0);
    atomic_store(&callers, 0);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_helpers); }

/* --- counting ----------------------------------------------------------------------------------------------------- */

static int count_here(void) {
    cpu_set_t set;
    bti_cgroup group;
    int cores = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    bti_cgroup_read(&group);
    int quota = group.cpus > 0 && group.cpus < INT_MAX ? (int)group.cpus + (group.cpus > (int)group.cpus) : 0;
    if (quota && quota < cores) cores = quota;
    return cores > 1 ? cores : 1;
}

/* Cores that there are, whatever the flag says. */
static int cores_that_are(void) {
    int cores = atomic_load_explicit(&cores_here, memory_order_relaxed);
    if (!cores) atomic_store(&cores_here, cores = count_here());
    return cores;
}

int bti_cores(void) {
    int wish = (int)bti_flag_int(BTI_FLAG_threads), cores = wish ? wish : cores_that_are();
    return cores <= HELPERS_MOST ? cores : HELPERS_MOST + 1;
}

int bti_cores_limit(int most) {
    int before = limit;
    limit = most;
    return before;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static void relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static void sleep_while(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void wake(atomic_uint *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

/* Whether it came to be while spinning; nobody spins where there is one core. Others who wait for this
 * core go before: what is spun for may be done by one of them. */
#define SPIN_UNTIL(condition)                                                                                     \
    ({                                                                                                            \
        bool came_ = (condition);                                                                                 \
        for (int64_t end_ = came_ || cores_that_are() == 1 ? 0 : (int64_t)bti_now_ns() + SPIN_NS; !came_ && end_; \
             end_ = !sched_yield() && (int64_t)bti_now_ns() < end_ ? end_ : 0)                                    \
            for (int turn_ = 0; turn_ < 32 && !came_; turn_++) relax(), came_ = (condition);                      \
        came_;                                                                                                    \
    })

/* --- helping ------------------------------------------------------------------------------------------------------ */

static bool do_piece(job *j) {
    int64_t piece = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
    if (piece >= j->pieces) return false;
    int64_t begin = piece * j->grain, left = j->count - begin;
    j->body(j->context, begin, left > j->grain ? begin + j->grain : j->count);
    return true;
}

/* Helpers that each of several callers may have, so that they and their helpers are about as many as the cores. */
static int share_of_helpers(void) {
    int askers = atomic_load_explicit(&callers, memory_order_relaxed);
    return askers < 2 ? HELPERS_MOST : bti_cores() > askers ? (bti_cores() - 1) / askers : 0;
}

static void help(job *j) {
    bti_guest guest = bti_guest_begin();
    while (do_piece(j))
        if (atomic_load_explicit(&j->helping, memory_order_relaxed) > share_of_helpers()) break;
    bti_guest_end(&guest);
    atomic_fetch_sub(&j->helping, 1);
}

static void set_idle(int h) { atomic_fetch_or(&idle[h / 64], UINT64_C(1) << h % 64); }

static void *serve(void *argument) {
    helper *self = argument;
    inside = true;
    for (;;) {
        job *j = NULL;
        if (SPIN_UNTIL(atomic_load_explicit(&self->job, memory_order_relaxed))) j = atomic_exchange(&self->job, NULL);
        if (!j) {
            atomic_store(&self->asleep, 1);
            if (!atomic_load(&self->job)) sleep_while(&self->asleep, 1);
            atomic_store(&self->asleep, 0);
            continue;
        }
        if (j == &quit) return NULL;
        help(j);
        set_idle((int)(self - helpers)); /* first, so that whoever waits for us finds us */
        if (atomic_fetch_sub(&j->unfinished, 1) == (WAITING | 1)) wake(&j->unfinished);
    }
}

static void make_helpers(int wanted) {
    bti_lock_take(&making);
    int made = atomic_load(&helper_count);
    for (; made < wanted; made++) {
        if (!bti_thread_start(&helpers[made].thread, BTI_STACK_WORK, serve, &helpers[made])) break;
        pthread_setname_np(helpers[made].thread, "berth-core");
        atomic_store(&helper_count, made + 1);
        set_idle(made);
    }
    atomic_store(&made_for, wanted);
    bti_lock_give(&making);
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static void send(helper *to, job *j) {
    atomic_store(&to->job, j);
    if (atomic_load(&to->asleep) && atomic_exchange(&to->asleep, 0)) wake(&to->asleep);
}

/* Asks idle helpers, as many as are wanted and have a piece to do. */
static void ask(job *j) {
    int share = share_of_helpers(), wanted = j->wanted < share ? j->wanted : share;
    int64_t left = j->pieces - atomic_load_explicit(&j->next, memory_order_relaxed) - 1;
    int more = wanted - atomic_load_explicit(&j->helping, memory_order_relaxed);
    if (more > left) more = (int)left;
    int words = (atomic_load_explicit(&helper_count, memory_order_relaxed) + 63) / 64;
    for (int w = 0; w < words && more > 0; w++) {
        uint64_t bits = atomic_load_explicit(&idle[w], memory_order_relaxed);
        for (; bits && more > 0; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            if (!(atomic_fetch_and(&idle[w], ~bit) & bit)) continue;
            j->asked[w] |= bit;
            atomic_fetch_add(&j->helping, 1);
            atomic_fetch_add(&j->unfinished, 1);
            send(&helpers[w * 64 + __builtin_ctzll(bit)], j);
            more--;
        }
    }
}

/* Takes the job back from helpers that have not begun, so that nobody waits for one to wake up. */
static void take_back(job *j) {
    for (int w = 0; w < WORDS; w++)
        for (uint64_t bits = j->asked[w]; bits; bits &= bits - 1) {
            int h = w * 64 + __builtin_ctzll(bits);
            job *expected = j;
            if (!atomic_compare_exchange_strong(&helpers[h].job, &expected, NULL)) continue;
            set_idle(h);
            atomic_fetch_sub(&j->unfinished, 1);
        }
}

static void wait_for_helpers(job *j) {
    if (SPIN_UNTIL(atomic_load(&j->unfinished) == 0)) return;
    unsigned now = atomic_fetch_or(&j->unfinished, WAITING) | WAITING;
    for (; now != WAITING; now = atomic_load(&j->unfinished)) sleep_while(&j->unfinished, now);
}

void bti_parallel(int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end),
                  void *context) {
    if (count <= 0) return;
    job j = {.body = body, .context = context, .count = count, .grain = grain, .pieces = (count - 1) / grain + 1};
    int cores = inside || j.pieces == 1 || limit == 1 ? 1 : bti_cores();
    j.wanted = (int)bti_smaller_of(limit ? bti_smaller_of(cores, limit) : cores, j.pieces) - 1;
    if (j.wanted <= 0) {
        while (do_piece(&j)) {
        }
        return;
    }
    if (atomic_load(&made_for) < cores - 1) make_helpers(cores - 1);
    inside = true;
    atomic_fetch_add(&callers, 1);
    do ask(&j);
    while (do_piece(&j));
    take_back(&j);
    wait_for_helpers(&j);
    atomic_fetch_sub(&callers, 1);
    inside = false;
}

enum { COPY_PIECE = 4 << 20 };

typedef struct bytes_copy {
    char *to;
    const char *from;
} bytes_copy;

static void copy_piece(void *context, int64_t begin, int64_t end) {
    const bytes_copy *c = context;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

void bti_copy_pieces(void *to, const void *from, size_t bytes, size_t piece) {
    bti_parallel((int64_t)bytes, (int64_t)piece, copy_piece, &(bytes_copy){to, from});
}

void bti_copy_bytes(void *to, const void *from, size_t bytes) {
    if (bytes < 2 * COPY_PIECE)
        memcpy(to, from, bytes);
    else
        bti_copy_pieces(to, from, bytes, COPY_PIECE);
}

void bti_cores_shutdown(void) {
    bti_lock_take(&making);
    for (int h = atomic_load(&helper_count) - 1; h >= 0; h--) {
        uint64_t bit = UINT64_C(1) << h % 64;
        while (!(atomic_fetch_and(&idle[h / 64], ~bit) & bit)) usleep(50); /* it still helps another thread */
        send(&helpers[h], &quit);
        pthread_join(helpers[h].thread, NULL);
        atomic_store(&helper_count, h);
    }
    atomic_store(&made_for, 0);
    atomic_store(&cores_here, 0);
    bti_lock_give(&making);
}

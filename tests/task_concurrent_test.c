// labels: threads
// timeout: 300
/* Actors that run several methods at once (.max_concurrency), in threads of their process. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

/* Seen by the program and its workers, which are forked from it. */
static struct shared { atomic_int inside, gate, made, released, began, pid; } * shared;

static int start(int cpus, uint64_t store_bytes) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    CHECK(bt_runtime_init(.num_cpus = cpus, .num_gpus = 1, .store_bytes = store_bytes) == BT_OK);
    return 0;
}

static int stop(void) { return bt_runtime_shutdown() == BT_OK ? 0 : fprintf(stderr, "%s\n", bt_error_text()); }

static bool is_inside(int count) { return atomic_load(&shared->inside) == count; }
static bool has_begun(int count) { return atomic_load(&shared->began) == count; }
static bool is_released(int count) { return atomic_load(&shared->released) == count; }
/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

typedef struct desk {
    pthread_mutex_t lock;
    pthread_barrier_t barrier;
    int64_t noted[4096], count;
} desk;

static void release_desk(void *state) {
    if (atomic_load(&shared->inside)) abort(); /* a method runs still */
    atomic_fetch_add(&shared->released, 1);
    free(state);
}

static bt_status desk_new(bt_task *task) {
    int threads;
    desk *d = calloc(1, sizeof *d);
    if (!d || bt_arguments(task, &threads) != BT_OK) return free(d), bt_error_status();
    pthread_mutex_init(&d->lock, NULL);
    pthread_barrier_init(&d->barrier, NULL, (unsigned)threads);
    usleep(20000); /* methods do not begin meanwhile */
    atomic_fetch_add(&shared->made, 1);
    bt_set_state(task, d, release_desk);
    return BT_OK;
}
BT_REMOTE(desk_new, .max_concurrency = 4, .num_gpus = 1);

/* Waits for as many as the barrier has: returns whether it was the last. */
static bt_status meet(bt_task *task) {
    desk *d = bt_state(task);
    if (!atomic_load(&shared->made)) return BT_INTERNAL;
    return bt_return(task, pthread_barrier_wait(&d->barrier) == PTHREAD_BARRIER_SERIAL_THREAD ? 1 : 0);
}
BT_REMOTE(meet);

static bt_status note(bt_task *task) {
    desk *d = bt_state(task);
    int64_t n;
    if (bt_arguments(task, &n) != BT_OK) return bt_error_status();
    pthread_mutex_lock(&d->lock);
    d->noted[d->count++ % 4096] = n;
    pthread_mutex_unlock(&d->lock);
    return bt_return(task, n);
}
BT_REMOTE(note);

/* How many were noted one after the other, from 0 on. */
static bt_status in_order(bt_task *task) {
    desk *d = bt_state(task);
    int64_t n = 0;
    pthread_mutex_lock(&d->lock);
    while (n < d->count && d->noted[n] == n) n++;
    pthread_mutex_unlock(&d->lock);
    return bt_return(task, n);
}
BT_REMOTE(in_order);

/* Until the gate is open, or it is cancelled. */
static bt_status hold(bt_task *task) {
    int64_t n = 0;
    if (bt_argument_count(task) && bt_arguments(task, &n) != BT_OK) return bt_error_status();
    atomic_store(&shared->pid, getpid());
    atomic_fetch_add(&shared->began, 1);
    atomic_fetch_add(&shared->inside, 1);
    while (!atomic_load(&shared->gate) && !bt_task_cancelled(task)) usleep(1000);
    atomic_fetch_sub(&shared->inside, 1);
    return bt_task_cancelled(task) ? bt_task_fail(task, BT_UNKNOWN, "asked to end") : bt_return(task, n);
}
BT_REMOTE(hold);

/* Calls, puts and waits, as fast as it can. */
static bt_status nest(bt_task *task) {
    int64_t n, got, sum = 0;
    int gpu = -1;
    bt_status status = bt_arguments(task, &n);
    for (int64_t i = 0; i < 40 && status == BT_OK; i++)
        BT_SCOPE {
            bt_ref *refs[] = {bt_remote(twice, n + i), bt_put(n), bt_remote(twice, bt_put(i))};
            bool ready[3];
            if (bt_wait_refs(refs, 3, 3, ready, -1) != 3) return bt_error_status();
            for (int r = 0; r < 3 && status == BT_OK; r++)
                if ((status = bt_get(refs[r], &got)) == BT_OK) sum += got;
        }
    if (bt_get_gpu_ids(&gpu, 1) != 1 || gpu != 0) return bt_task_fail(task, BT_INTERNAL, "the GPU is not there");
    return status == BT_OK ? bt_return(task, sum) : status;
}
BT_REMOTE(nest);
static int64_t nested_sum(int64_t n) {
    int64_t sum = 0;
    for (int64_t i = 0; i < 40; i++) sum += 2 * (n + i) + n + 2 * i;
    return sum;
}

/* Waits for a method of its own actor, once all threads of the actor are in this. */
static bt_status call_own(bt_task *task) {
    bt_actor *self;
    int64_t n;
    desk *d = bt_state(task);
    if (bt_arguments(task, &self, &n) != BT_OK) return bt_error_status();
    if (n >= 0) pthread_barrier_wait(&d->barrier);
    bt_status status = bt_get(bt_method(self, note, 7), &n);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(call_own);

static bt_status work_long(bt_task *task) {
    atomic_fetch_add(&shared->began, 1);
    double until = seconds_now() + 1.5;
    while (seconds_now() < until) usleep(1000);
    return bt_return(task, 1);
}
BT_REMOTE(work_long);

/* Its call holds until it is cancelled, or the gate is open. */
static bt_status call_hold(bt_task *task) {
    int64_t n;
    bt_status status = bt_arguments(task, &n);
    if (status == BT_OK) status = bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = 0), hold, n), &n);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(call_hold);

static bt_status nap_and_call(bt_task *task) {
    int64_t n, got = 0;
    if (bt_arguments(task, &n) != BT_OK) return bt_error_status();
    atomic_store(&shared->pid, getpid());
    usleep((useconds_t)(n * 37 % 1500));
    bt_status status = n % 3 ? BT_OK : bt_get(bt_remote_with(BT_OPTIONS(.max_retries = -1), twice, n), &got);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(nap_and_call, .max_retries = -1);

enum { ITEMS = 50 };
static bt_status yield_all(bt_task *task) {
    int64_t n;
    bt_status status = bt_arguments(task, &n);
    for (int64_t i = 0; i < ITEMS && status == BT_OK; i++) status = bt_yield(task, n * ITEMS + i);
    return status;
}
BT_REMOTE(yield_all);

enum { BYTES = 300000 };
static unsigned char element(int64_t seed, size_t i) { return (unsigned char)((size_t)seed * 31 + i * 7); }
static bool is_right(bt_bytes bytes, int64_t seed) {
    const unsigned char *at = bytes.data;
    bool right = bytes.size == BYTES;
    for (size_t i = 0; right && i < BYTES; i++) right = at[i] == element(seed, i);
    return right;
}
static void fill(unsigned char *bytes, int64_t seed) {
    for (size_t i = 0; i < BYTES; i++) bytes[i] = element(seed, i);
}

static bt_status next_bytes(bt_task *task) {
    bt_bytes bytes;
    int64_t seed;
    bt_array *array;
    double last;
    if (bt_arguments(task, &bytes, &seed, &array) != BT_OK) return bt_error_status();
    if (!is_right(bytes, seed)) return bt_task_fail(task, BT_INTERNAL, "the argument is wrong");
    if (bt_item_at(array, (int64_t[]){9999}, &last) != BT_OK || last < seed || last > seed) return BT_INTERNAL;
    unsigned char *next = malloc(BYTES);
    fill(next, seed + 1);
    bt_status status = bt_return(task, ((bt_bytes){next, BYTES}));
    free(next);
    return status;
}
BT_REMOTE(next_bytes);

/* As in a thread of the user's own. */
static bt_status look(bt_task *task) {
    sigset_t held;
    pthread_attr_t attr;
    size_t stack = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &held);
    for (int s = 1; s < 32; s++)
        if (sigismember(&held, s)) return bt_task_fail(task, BT_INTERNAL, "signal %d is held back", s);
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return BT_INTERNAL;
    pthread_attr_getstacksize(&attr, &stack);
    pthread_attr_destroy(&attr);
    if (stack < 1 << 20) return bt_task_fail(task, BT_INTERNAL, "the stack has %zu bytes", stack);
    sigfillset(&held); /* the next method does not see it */
    pthread_sigmask(SIG_SETMASK, &held, NULL);
    return bt_return(task, 1);
}
BT_REMOTE(look);

static bt_status leave_thread(bt_task *task) {
    (void)task;
    pthread_exit(NULL);
}
BT_REMOTE(leave_thread);

/* The child returns from the method too, and is nobody's. */
static bt_status fork_once(bt_task *task) {
    pid_t child = fork();
    int status = 0;
    if (!child) return bt_return(task, 1) == BT_OK ? BT_INTERNAL : BT_OK;
    return child > 0 && waitpid(child, &status, 0) == child ? bt_return(task, WEXITSTATUS(status)) : BT_INTERNAL;
}
BT_REMOTE(fork_once);

static bt_status fail_once(bt_task *task) {
    desk *d = bt_state(task);
    pthread_mutex_lock(&d->lock);
    bool first = !d->count++;
    pthread_mutex_unlock(&d->lock);
    return first ? bt_task_fail(task, BT_UNAVAILABLE, "not yet") : bt_return(task, 1);
}
BT_REMOTE(fail_once, .max_retries = 3, .retry_failures = BT_FAILURES(BT_UNAVAILABLE));

/* --- programs ---------------------------------------------------------------------------------------------------------- */

static int meetings(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *refs[80];
        int sum = 0, last;
        for (int i = 0; i < 80; i++) refs[i] = bt_method(four, meet);
        for (int i = 0; i < 80; i++, sum += last) CHECK(bt_get(refs[i], &last) == BT_OK);
        CHECK(sum == 20);
    }
    CHECK(comes_true(is_released, 1, SOON)); /* and its GPU is free */
    BT_SCOPE {
        bt_actor *most = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 64), desk_new, 64);
        bt_ref *refs[64];
        for (int i = 0; i < 64; i++) refs[i] = bt_method(most, meet);
        for (int i = 0; i < 64; i++) CHECK(bt_get(refs[i], NULL) == BT_OK);
    }
    CHECK(comes_true(is_released, 2, SOON));
    return stop();
}

/* One method runs all the time; those after it begin in order in the other thread, and end before it. */
static int order(void) {
    enum { COUNT = 1000 };
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *two = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 2), desk_new, 2);
        bt_ref *first = bt_method(two, hold, 5), *refs[COUNT];
        int64_t n;
        for (int i = 0; i < COUNT; i++) refs[i] = bt_method(two, note, i);
        for (int64_t i = 0; i < COUNT; i++) CHECK(bt_get(refs[i], &n) == BT_OK && n == i);
        CHECK(bt_get(bt_method(two, in_order), &n) == BT_OK && n == COUNT);
        for (int i = 0; i < COUNT; i++)
            BT_SCOPE
                CHECK(bt_get(bt_method(two, note, i), &n) == BT_OK && n == i);
        CHECK(bt_get_within(first, 0.01, NULL) == BT_DEADLINE_EXCEEDED && is_inside(1));
        atomic_store(&shared->gate, 1);
        CHECK(bt_get(first, &n) == BT_OK && n == 5);
    }
    return stop();
}

/* One more than there are threads; views tell of all that run. */
static int turns(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        char path[] = "/tmp/berth-trace-XXXXXX";
        int file = mkstemp(path);
        CHECK(file >= 0);
        bt_actor *four = bt_actor_new_with(BT_OPTIONS(.name = "four"), desk_new, 4);
        bt_ref *refs[5];
        for (int i = 0; i < 5; i++) refs[i] = bt_method(four, hold, i);
        CHECK(comes_true(is_inside, 4, SOON));
        CHECK(bt_get_within(refs[4], 0.4, NULL) == BT_DEADLINE_EXCEEDED && has_begun(4));
        char *json = bt_runtime_text(true), *text = bt_runtime_text(false);
        CHECK(strstr(json, "\"max_concurrency\": 4") && strstr(json, "\"running\": 4"));
        CHECK(strstr(json, "waits for its turn with the actor four"));
        CHECK(strstr(text, "hold and 3 more"));
        const char *at = strstr(text, "RUNS"); /* the table of what runs has a row for each */
        int rows = 0;
        for (; at && (at = strstr(at + 1, "hold  ")) != NULL;) rows++;
        CHECK(rows >= 4);
        bt_free(json);
        bt_free(text);
        CHECK(bt_runtime_timeline(path) == BT_OK);
        static char trace[1 << 16];
        CHECK(read(file, trace, sizeof trace - 1) > 0 && strstr(trace, ", thread 4)"));
        unlink(path);
        close(file);
        atomic_store(&shared->gate, 1);
        for (int i = 0; i < 5; i++) {
            int n;
            CHECK(bt_get(refs[i], &n) == BT_OK && n == i);
        }
    }
    CHECK(comes_true(is_released, 1, SOON));
    return stop();
}

static int nested(void) {
    if (start(3, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *refs[12];
        int64_t sum;
        for (int64_t i = 0; i < 12; i++) refs[i] = bt_method(four, nest, i);
        for (int64_t i = 0; i < 12; i++) CHECK(bt_get(refs[i], &sum) == BT_OK && sum == nested_sum(i));
    }
    return stop();
}

/* Streams of all threads at once. */
static int streams(void) {
    enum { COUNT = 6 };
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *stream[COUNT];
        for (int i = 0; i < COUNT; i++) stream[i] = bt_method(four, yield_all, i);
        for (int64_t k = 0, n; k < ITEMS; k++)
            for (int i = 0; i < COUNT; i++)
                BT_SCOPE
                    CHECK(bt_get(bt_stream_next(&stream[i], -1), &n) == BT_OK && n == i * ITEMS + k);
    }
    return stop();
}

static int killed(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *refs[6];
        for (int i = 0; i < 6; i++) refs[i] = bt_method(four, hold, i);
        CHECK(comes_true(is_inside, 4, SOON));
        CHECK(kill(atomic_load(&shared->pid), SIGKILL) == 0);
        for (int i = 0; i < 6; i++) CHECK_FAILS(bt_get(refs[i], NULL), BT_ABORTED, "signal 9");
        CHECK(bt_actor_status(four) == BT_ABORTED);
    }
    atomic_store(&shared->inside, 0);
    return stop();
}

/* All that ran are run again, those that waited run. */
static int killed_again(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1), desk_new, 4);
        bt_ref *refs[7];
        for (int i = 0; i < 7; i++)
            refs[i] = i == 1 || i > 3 ? bt_method(four, hold, i)
                                      : bt_method_with(BT_OPTIONS(.max_retries = 1), four, hold, i);
        CHECK(comes_true(is_inside, 4, SOON));
        atomic_store(&shared->inside, 0);
        CHECK(kill(atomic_load(&shared->pid), SIGKILL) == 0);
        CHECK_FAILS(bt_get(refs[1], NULL), BT_ABORTED, "signal 9"); /* may not run twice */
        CHECK(comes_true(is_inside, 4, SOON) && has_begun(8));
        atomic_store(&shared->gate, 1);
        for (int i = 0; i < 7; i++) {
            int n;
            if (i != 1) CHECK(bt_get(refs[i], &n) == BT_OK && n == i);
        }
        CHECK(atomic_load(&shared->made) == 2 && atomic_load(&shared->began) == 10);
    }
    return stop();
}

static int killed_actor(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *refs[5];
        for (int i = 0; i < 5; i++) refs[i] = bt_method(four, hold, i);
        CHECK(comes_true(is_inside, 4, SOON));
        CHECK(bt_actor_kill(four) == BT_OK);
        for (int i = 0; i < 5; i++) CHECK_FAILS(bt_get(refs[i], NULL), BT_CANCELLED, "bt_actor_kill");
    }
    return stop();
}

/* At any moment: nothing is lost. */
static int killed_often(void) {
    enum { CALLS = 400, KILLS = 15 };
    if (start(2, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new_with(BT_OPTIONS(.max_restarts = -1), desk_new, 4);
        bt_ref *refs[CALLS];
        for (int i = 0; i < CALLS; i++) refs[i] = bt_method(four, nap_and_call, i);
        for (int i = 0, last = 0; i < KILLS; i++) {
            double until = seconds_now() + SOON;
            while (atomic_load(&shared->pid) == last && seconds_now() < until) usleep(500);
            last = atomic_load(&shared->pid);
            usleep((useconds_t)(i * 977 % 7000));
            kill(last, SIGKILL);
        }
        for (int64_t i = 0, n; i < CALLS; i++)
            if (bt_get(refs[i], &n) != BT_OK || n != i) return fprintf(stderr, "%d: %s\n", (int)i, bt_error_text()), 1;
        CHECK(atomic_load(&shared->made) > 2);
    }
    return stop();
}

/* With what it has called; what another method has called goes on. */
static int cancelled_with_its_own(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *first = bt_method(four, call_hold, 1), *second = bt_method(four, call_hold, 2);
        CHECK(comes_true(is_inside, 2, SOON));
        CHECK(bt_cancel_all(first, false) == BT_OK);
        CHECK_FAILS(bt_get(first, NULL), BT_CANCELLED, "asked to end");
        CHECK(comes_true(is_inside, 1, SOON));
        CHECK(bt_get_within(second, 0.1, NULL) == BT_DEADLINE_EXCEEDED && is_inside(1));
        atomic_store(&shared->gate, 1);
        int n;
        CHECK(bt_get(second, &n) == BT_OK && n == 2);
    }
    return stop();
}

/* One is cancelled, another passes its deadline: the others go on. */
static int ended_alone(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *refs[4];
        for (int i = 0; i < 4; i++)
            refs[i] =
                i == 2 ? bt_method_with(BT_OPTIONS(.deadline_seconds = 0.5), four, hold, i) : bt_method(four, hold, i);
        CHECK(comes_true(is_inside, 4, SOON));
        CHECK(bt_cancel(refs[0], false) == BT_OK);
        CHECK_FAILS(bt_get(refs[0], NULL), BT_CANCELLED, "asked to end");
        CHECK_FAILS(bt_get(refs[2], NULL), BT_DEADLINE_EXCEEDED, "deadline");
        CHECK_FAILS(bt_cancel(refs[1], true), BT_INVALID_ARGUMENT, "bt_actor_kill");
        CHECK(comes_true(is_inside, 2, SOON));
        atomic_store(&shared->gate, 1);
        int n;
        CHECK(bt_get(refs[3], &n) == BT_OK && n == 3);
        CHECK(bt_get(refs[1], &n) == BT_OK && n == 1);
    }
    return stop();
}

/* All threads wait for methods that need one of them: one is told, and the others go on. */
static int deadlock(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *two = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 2), desk_new, 2);
        bt_ref *refs[] = {bt_method(two, call_own, two, 0), bt_method(two, call_own, two, 1)};
        int failed = 0;
        for (int i = 0; i < 2; i++) {
            int64_t n = 0;
            bt_status status = bt_get(refs[i], &n);
            if (status == BT_OK && n == 7) continue;
            CHECK(status == BT_FAILED_PRECONDITION && strstr(bt_error_text(), "deadlock: this waits for note"));
            failed++;
        }
        CHECK(failed == 1);
    }
    return stop();
}

/* The same, but a thread of the actor runs what a user wrote, and lets go. */
static int no_deadlock(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        int64_t n;
        bt_actor *two = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 2), desk_new, 2);
        bt_ref *runs = bt_method(two, work_long);
        CHECK(comes_true(has_begun, 1, SOON));
        bt_ref *waits = bt_method(two, call_own, two, -1), *more = bt_method(two, work_long);
        CHECK(bt_get(waits, &n) == BT_OK && n == 7);
        CHECK(bt_get(runs, &n) == BT_OK && bt_get(more, &n) == BT_OK);
    }
    return stop();
}

/* In a store that has no room for all of them. */
static int large(void) {
    enum { CALLS = 60 };
    if (start(1, 6 << 20)) return 1;
    BT_SCOPE {
        bt_actor *eight = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 8), desk_new, 8);
        bt_ref *refs[CALLS];
        unsigned char *bytes = malloc(BYTES);
        for (int i = 0; i < CALLS; i++) {
            bt_bytes all = {bytes, BYTES};
            fill(bytes, i);
            BT_SCOPE
                refs[i] = bt_ref_retain(bt_method(eight, next_bytes, bt_put(all), i, bt_full(i, BT_F32, 10000)));
        }
        free(bytes);
        for (int i = 0; i < CALLS; i++) {
            bt_bytes got;
            if (bt_get(refs[i], &got) != BT_OK || !is_right(got, i + 1))
                return fprintf(stderr, "%d: %s\n", i, bt_error_text()), 1;
            bt_ref_release(refs[i]);
        }
    }
    return stop();
}

static int stopped(void) {
    if (start(2, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new(desk_new, 4);
        bt_ref *refs[5];
        int64_t n;
        for (int i = 0; i < 4; i++) refs[i] = bt_method(four, hold, i);
        CHECK(comes_true(is_inside, 4, SOON));
        int pid = atomic_load(&shared->pid);
        kill(pid, SIGSTOP);
        refs[4] = bt_method(four, hold, 4);
        atomic_store(&shared->gate, 1);
        for (int i = 0; i < 200; i++)
            BT_SCOPE
                CHECK(bt_get_within(bt_remote(twice, i), SOON, &n) == BT_OK && n == 2 * i);
        kill(pid, SIGCONT);
        for (int i = 0; i < 5; i++) CHECK(bt_get_within(refs[i], SOON, &n) == BT_OK && n == i);
    }
    return stop();
}

static int in_a_thread(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        bt_actor *four = bt_actor_new_with(BT_OPTIONS(.num_gpus = 0), desk_new, 4);
        bt_ref *refs[40];
        int64_t n;
        for (int i = 0; i < 40; i++) refs[i] = bt_method(four, look);
        for (int i = 0; i < 40; i++) CHECK(bt_get(refs[i], &n) == BT_OK && n == 1);
        CHECK(bt_get(bt_method(four, fork_once), &n) == BT_OK && n == 1); /* its exit code */
        CHECK(bt_get(bt_method(four, fail_once), &n) == BT_OK);
        bt_ref *ends = bt_method(four, leave_thread);
        CHECK_FAILS(bt_get(ends, NULL), BT_ABORTED, "pthread_exit");
    }
    return stop();
}

static int refused(void) {
    if (start(1, 0)) return 1;
    BT_SCOPE {
        CHECK_FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.max_concurrency = 0), desk_new, 4)),
                    BT_INVALID_ARGUMENT, "max_concurrency is 0");
        CHECK_FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.max_concurrency = -1), desk_new, 4)),
                    BT_INVALID_ARGUMENT, "max_concurrency is -1");
        CHECK_FAILS(bt_actor_status(bt_actor_new_with(BT_OPTIONS(.max_concurrency = 65), desk_new, 4)),
                    BT_INVALID_ARGUMENT, "1 to 64 methods");
        bt_task_options plain = {.size = sizeof plain}; /* 0 is not set */
        bt_actor *four = bt_actor_new_with(&plain, desk_new, 4);
        bt_ref *refs[4];
        for (int i = 0; i < 4; i++) refs[i] = bt_method(four, meet);
        for (int i = 0; i < 4; i++) CHECK(bt_get(refs[i], NULL) == BT_OK);
    }
    return stop();
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "meetings", .run = meetings},
        {.name = "order", .run = order},
        {.name = "turns", .run = turns},
        {.name = "nested", .run = nested},
        {.name = "streams", .run = streams},
        {.name = "killed", .run = killed},
        {.name = "killed_again", .run = killed_again},
        {.name = "killed_actor", .run = killed_actor},
        {.name = "killed_often", .run = killed_often},
        {.name = "cancelled_with_its_own", .run = cancelled_with_its_own},
        {.name = "ended_alone", .run = ended_alone},
        {.name = "deadlock", .run = deadlock},
        {.name = "no_deadlock", .run = no_deadlock},
        {.name = "large", .run = large},
        {.name = "stopped", .run = stopped},
        {.name = "in_a_thread", .run = in_a_thread},
        {.name = "refused", .run = refused},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

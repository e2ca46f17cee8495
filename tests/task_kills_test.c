// timeout: 300
/* Processes of a runtime that are killed at any moment: workers, the program, the parent of the workers. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

enum { LARGE = 100000 };

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

static bt_status nap(bt_task *task) {
    int64_t microseconds;
    bt_status status = bt_argument(task, 0, &microseconds);
    if (status != BT_OK) return status;
    usleep((useconds_t)microseconds);
    return bt_return(task, microseconds);
}
BT_REMOTE(nap);

static unsigned char element(int64_t seed, size_t i) { return (unsigned char)((size_t)seed * 31 + i * 7); }

static bt_status large(bt_task *task) {
    static unsigned char bytes[LARGE];
    int64_t seed;
    bt_status status = bt_argument(task, 0, &seed);
    for (size_t i = 0; i < LARGE; i++) bytes[i] = element(seed, i);
    return status == BT_OK ? bt_return(task, ((bt_bytes){bytes, LARGE})) : status;
}
BT_REMOTE(large);

static bool is_large(bt_bytes bytes, int64_t seed) {
    const unsigned char *at = bytes.data;
    bool right = bytes.size == LARGE;
    for (size_t i = 0; right && i < LARGE; i++) right = at[i] == element(seed, i);
    return right;
}

/* Puts bytes, hands them to another function and asks that. */
static bt_status sum(bt_task *task) {
    bt_bytes bytes;
    int64_t all = 0;
    bt_status status = bt_argument(task, 0, &bytes);
    for (size_t i = 0; status == BT_OK && i < bytes.size; i++) all += ((const unsigned char *)bytes.data)[i];
    return status == BT_OK ? bt_return(task, all) : status;
}
BT_REMOTE(sum, .max_retries = 1000);

static bt_status put(bt_task *task) {
    unsigned char bytes[5000];
    int64_t n, all = 0;
    bt_status status = bt_argument(task, 0, &n);
    memset(bytes, (int)(n & 0xff), sizeof bytes);
    if (status == BT_OK) status = bt_get(bt_remote(sum, bt_put(((bt_bytes){bytes, sizeof bytes}))), &all);
    return status == BT_OK ? bt_return(task, all) : status;
}
BT_REMOTE(put);

static bt_status make(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(make);

/* --- workers ----------------------------------------------------------------------------------------------------------- */

typedef struct killer {
    pid_t pid;
    int killed; /* a pipe of the numbers of those that were killed */
} killer;

static uint64_t random_next(uint64_t *random) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* Forked from the program, before it has a runtime: kills its workers. */
static _Noreturn void kill_workers(int kills, int killed) {
    uint64_t random = (uint64_t)getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t nest = process_named(getppid(), "berth nest", SOON), pids[64];
    if (!nest) _exit(1);
    while (kills > 0) {
        usleep((useconds_t)(random_next(&random) % 4000));
        int count = children_of(nest, pids, 64), one = count ? pids[random_next(&random) % (uint64_t)count] : 0;
        if (!one) continue;
        for (uint64_t spin = random_next(&random) % 5000; spin; spin--) __asm__ volatile("");
        if (write(killed, &one, sizeof one) != sizeof one) break; /* before: what it ran may fail at once */
        kills -= kill(one, SIGKILL) == 0;
    }
    _exit(0);
}

static killer begin_killer(int kills) {
    int ends[2];
    killer k = {0};
    if (pipe(ends) != 0) exit(1);
    k.pid = fork();
    if (!k.pid) kill_workers(kills, ends[1]);
    close(ends[1]);
    k.killed = ends[0];
    return k;
}

/* What a call has given is right, or its process was among those that were killed. */
static int check_call(bt_status got, bool right, bool may_fail, const bool *was_killed) {
    int pid = 0;
    if (got == BT_OK && right) return 0;
    const char *text = strstr(bt_error_text(), "its process (");
    if (text) pid = atoi(text + strlen("its process ("));
    if (may_fail && got == BT_ABORTED && strstr(bt_error_text(), "signal 9") && pid > 0 && was_killed[pid]) return 1;
    fprintf(stderr, "%s: %s, right: %d\n", bt_status_name(got), bt_error_text(), right);
    return -1;
}

static void read_killed(const killer *k, bool *was_killed) {
    int pid;
    while (read(k->killed, &pid, sizeof pid) == sizeof pid) was_killed[pid] = true; /* it does not block */
}

typedef struct batch {
    bt_ref *refs[60];
    int64_t values[60];
    int kinds[60];
} batch;

static void submit(batch *b, bt_actor *actor, bool retries, uint64_t *random) {
    bt_task_options options = {.size = sizeof options, .max_retries = retries ? 1000 : 0};
    for (int i = 0; i < 60; i++) {
        int64_t n = b->values[i] = (int64_t)(random_next(random) % 1500);
        switch (b->kinds[i] = (int)(random_next(random) % 5)) {
        case 0: b->refs[i] = bt_remote_with(&options, twice, n); break;
        case 1: b->refs[i] = bt_remote_with(&options, nap, n); break;
        case 2: b->refs[i] = bt_remote_with(&options, large, n); break;
        case 3: b->refs[i] = bt_remote_with(&options, put, n); break;
        default: b->refs[i] = bt_method_with(&options, actor, twice, n); break;
        }
    }
}

/* How many of it failed, -1 when something is wrong. */
static int check_batch(const batch *b, bool retries, const killer *k, bool *was_killed) {
    int failed = 0;
    for (int i = 0; i < 60; i++) {
        int64_t n = b->values[i], got = 0;
        bt_bytes bytes = {0};
        bt_status status = b->kinds[i] == 2 ? bt_get(b->refs[i], &bytes) : bt_get(b->refs[i], &got);
        bool right = b->kinds[i] == 2   ? is_large(bytes, n)
                     : b->kinds[i] == 1 ? got == n
                     : b->kinds[i] == 3 ? got == 5000 * (n & 0xff)
                                        : got == 2 * n;
        if (status != BT_OK) read_killed(k, was_killed);
        int was = check_call(status, right, !retries, was_killed);
        if (was < 0) return fprintf(stderr, "a call of kind %d\n", b->kinds[i]), -1;
        failed += was;
    }
    return failed;
}

static bool has_ended(int pid) { return waitpid(pid, NULL, WNOHANG) != 0; }

static bool all_cpus_free(int count) { return bt_resource_free("CPU") == count; }

static int workers_are_killed(bool retries) {
    static bool was_killed[1 << 22];
    int kills = getenv("BERTH_TEST_LONG") ? 5000 : 250, failed = 0, calls = 0;
    uint64_t random = (uint64_t)getpid();
    killer k = begin_killer(kills);
    CHECK(fcntl(k.killed, F_SETFL, O_NONBLOCK) == 0);
    CHECK(bt_runtime_init(.num_cpus = 4, .store_bytes = 1 << 28) == BT_OK);
    BT_SCOPE {
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1000000), make);
        while (!has_ended(k.pid)) {
            int of_batch = 0;
            BT_SCOPE {
                batch b;
                submit(&b, actor, retries, &random);
                of_batch = check_batch(&b, retries, &k, was_killed);
            }
            CHECK(of_batch >= 0);
            failed += of_batch;
            calls += 60;
        }
    }
    CHECK(retries ? !failed : failed > 0 && failed <= 2 * kills); /* who asked another fails with it */
    int64_t n;                                                    /* one that was killed last may not have gone yet */
    CHECK(bt_get(bt_remote_with(BT_OPTIONS(.max_retries = 3), twice, 21), &n) == BT_OK && n == 42);
    CHECK(comes_true(all_cpus_free, 4, SOON));
    fprintf(stderr, "%d calls, %d failed\n", calls, failed);
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int workers_killed(void) { return workers_are_killed(false); }
static int workers_killed_with_retries(void) { return workers_are_killed(true); }

/* --- the program ------------------------------------------------------------------------------------------------------- */

static int idle_program(void) {
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(twice, 1), NULL) == BT_OK);
    tell_ready(0);
    for (;;) pause();
}

static int waiting_program(void) {
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    bt_ref *ref = bt_remote(nap, 60000000);
    tell_ready(0);
    CHECK(bt_get(ref, NULL) == BT_OK);
    return 0;
}

static int starting_program(void) {
    tell_ready(0);
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    for (int i = 0;; i++)
        BT_SCOPE
            CHECK(bt_get(bt_remote(twice, i), NULL) == BT_OK);
}

static int submitting_program(void) {
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.max_restarts = 1000000), make);
    tell_ready(0);
    for (uint64_t random = (uint64_t)getpid();;)
        BT_SCOPE {
            batch b;
            submit(&b, actor, false, &random);
            CHECK(bt_get(b.refs[59], NULL) == BT_OK);
        }
}

static void wait_a_moment(void) {
    told_number();
    usleep((useconds_t)(rand() % 20000));
}
static void kill_it(int pid) { wait_a_moment(), kill(pid, SIGKILL); }
static void terminate_it(int pid) { wait_a_moment(), kill(pid, SIGTERM); }
static void interrupt_it(int pid) { wait_a_moment(), kill(pid, SIGINT); }

static int exiting_program(void) {
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    for (int i = 0; i < 100; i++) (void)bt_remote(nap, 1000000);
    (void)bt_actor_new(make);
    exit(0);
}

static void *exit_soon(void *data) {
    usleep(5000);
    exit(0);
}

static int exiting_while_it_waits(void) {
    pthread_t thread;
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    CHECK(pthread_create(&thread, NULL, exit_soon, NULL) == 0);
    for (int i = 0;; i++) CHECK(bt_get(bt_remote(nap, i), NULL) == BT_OK);
}

static void *go_on(void *data) {
    int64_t n;
    usleep(100000);
    for (int i = 0; i < 100; i++)
        BT_SCOPE
            if (bt_get(bt_remote(twice, i), &n) != BT_OK || n != 2 * i) exit(1);
    if (bt_runtime_shutdown() != BT_OK) exit(1);
    exit(0);
}

static int first_thread_ends(void) {
    pthread_t thread;
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(pthread_create(&thread, NULL, go_on, NULL) == 0);
    pthread_exit(NULL);
}

/* A child of its own that lives on has all its files. */
static int forking_program(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(twice, 1), NULL) == BT_OK);
    pid_t pid = fork();
    if (!pid) {
        bt_ref *none = bt_remote(twice, 1); /* it is no part of the runtime */
        if (bt_get(none, NULL) != BT_FAILED_PRECONDITION) abort();
        for (;;) pause();
    }
    usleep(20000);
    CHECK(process_lives(pid));
    tell_ready(pid);
    for (;;) pause();
}

static void kill_but_not_its_child(int pid) {
    int child = told_number();
    kill(pid, SIGKILL);
    bool alone = false;
    for (int i = 0; i < 2000 && !alone; i++) {
        pid_t pids[16];
        int count = children_of(getpid(), pids, 16);
        alone = count == 1 && pids[0] == child; /* the program itself is no more than a zombie */
        if (!alone) usleep(2000);
    }
    kill(child, SIGKILL);
    if (!alone) fail_drive("the runtime outlived its program");
}

/* --- the nest ---------------------------------------------------------------------------------------------------------- */

static bool is_gone(int pid) { return !process_lives(pid); }

static int nest_killed(void) {
    pid_t workers[16];
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(make);
        bt_ref *first = bt_method(actor, nap, 1), *waits = bt_remote(nap, 60000000);
        CHECK(bt_get(first, NULL) == BT_OK);
        pid_t nest = process_named(getpid(), "berth nest", SOON);
        CHECK(nest > 0);
        int count = children_of(nest, workers, 16);
        CHECK(count > 0);
        CHECK(kill(nest, SIGKILL) == 0);
        CHECK_FAILS(bt_get(waits, NULL), BT_ABORTED, "the runtime is over");
        CHECK_FAILS(bt_get(bt_remote(twice, 1), NULL), BT_ABORTED, "the runtime is over");
        bt_ref *refs[] = {waits};
        CHECK(bt_wait_refs(refs, 1, 1, NULL, -1) == -1);
        for (int i = 0; i < count; i++) CHECK(comes_true(is_gone, workers[i], SOON));
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    int64_t n;
    CHECK(bt_get(bt_remote(twice, 4), &n) == BT_OK && n == 8);
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* One that has its children reaped by the system does not see the nest's end. */
static int nest_killed_unseen(void) {
    signal(SIGCHLD, SIG_IGN);
    return nest_killed();
}

static int nest_terminated(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    pid_t nest = process_named(getpid(), "berth nest", SOON);
    for (int i = 0; i < 50; i++) {
        const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1};
        kill(nest, signals[i % 6]);
        BT_SCOPE
            CHECK(bt_get(bt_remote(twice, 1), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "workers_killed", .run = workers_killed, .seconds = 200},
        {.name = "workers_killed_with_retries", .run = workers_killed_with_retries, .seconds = 200},
        {.name = "idle_program_killed", .run = idle_program, .drive = kill_it, .ends_by = SIGKILL, .times = 5},
        {.name = "waiting_program_killed", .run = waiting_program, .drive = kill_it, .ends_by = SIGKILL, .times = 5},
        {.name = "starting_program_killed", .run = starting_program, .drive = kill_it, .ends_by = SIGKILL, .times = 30},
        {.name = "submitting_program_killed",
         .run = submitting_program,
         .drive = kill_it,
         .ends_by = SIGKILL,
         .times = 20},
        {.name = "submitting_program_terminated",
         .run = submitting_program,
         .drive = terminate_it,
         .ends_by = SIGTERM,
         .times = 5},
        {.name = "waiting_program_interrupted",
         .run = waiting_program,
         .drive = interrupt_it,
         .ends_by = SIGINT,
         .times = 5},
        {.name = "exiting_program", .run = exiting_program, .times = 5},
        {.name = "exiting_while_it_waits", .run = exiting_while_it_waits, .times = 5},
        {.name = "first_thread_ends", .run = first_thread_ends},
        {.name = "forking_program_killed", .run = forking_program, .drive = kill_but_not_its_child, .ends_by = SIGKILL},
        {.name = "nest_killed", .run = nest_killed, .times = 3},
        {.name = "nest_killed_unseen", .run = nest_killed_unseen},
        {.name = "nest_terminated", .run = nest_terminated},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

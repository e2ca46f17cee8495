// timeout: 300
/* Functions that do what they should not, and resources that run out: the call gets a clear error, all others are right, nothing is left. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

/* A process that it forks has all files that were opened before. */
static bt_status fork_with_files(bt_task *task) {
    enum { FILES = 12 };
    int files[FILES], lost = 0, status = 0;
    for (int i = 0; i < FILES; i++) files[i] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < FILES; i++) lost += write(files[i], "x", 1) != 1;
        _exit(lost);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return BT_INTERNAL;
    for (int i = 0; i < FILES; i++) close(files[i]);
    return bt_return(task, WEXITSTATUS(status));
}
BT_REMOTE(fork_with_files);

static bt_status do_segv(bt_task *task) { return raise(SIGSEGV), BT_OK; }
BT_REMOTE(do_segv);
static bt_status do_abort(bt_task *task) { abort(); }
BT_REMOTE(do_abort);
static bt_status do_exit_0(bt_task *task) { exit(0); }
BT_REMOTE(do_exit_0);
static bt_status do_exit_3(bt_task *task) { exit(3); }
BT_REMOTE(do_exit_3);
static bt_status do_leave(bt_task *task) { _exit(4); }
BT_REMOTE(do_leave);
static bt_status do_end_thread(bt_task *task) { pthread_exit(NULL); }
BT_REMOTE(do_end_thread);

static volatile int depth;
static int __attribute__((noinline)) deeper(volatile char *above) {
    volatile char room[4096];
    room[0] = above ? above[0] : 0;
    return ++depth ? deeper(room) + room[0] : 0;
}
static bt_status do_overflow(bt_task *task) { return bt_return(task, deeper(NULL)); }
BT_REMOTE(do_overflow);

static bt_status do_loop(bt_task *task) {
    for (volatile int i = 0; i >= 0;) continue;
    return BT_OK;
}
BT_REMOTE(do_loop);

/* Signals that it could catch do not help. */
static bt_status do_block_and_loop(bt_task *task) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    while (sleep(1) < 2) continue;
    return BT_OK;
}
BT_REMOTE(do_block_and_loop);

static bt_status do_take_all_memory(bt_task *task) {
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    size_t sum = 0;
    if (setrlimit(RLIMIT_DATA, &limit) != 0) return bt_task_fail(task, BT_UNKNOWN, "no limit");
    for (void *p; (p = malloc(1 << 20)) != NULL; sum++) memset(p, 1, 1 << 20);
    bt_array *x = bt_ones(BT_F32, 1 << 28);
    float value;
    bt_status status = bt_read(x, &value, sizeof value);
    return status != BT_OK ? bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "out of memory after %zu MB", sum) : BT_OK;
}
BT_REMOTE(do_take_all_memory);

static bt_status do_nothing(bt_task *task) { return BT_OK; }
BT_REMOTE(do_nothing);

static bt_status do_fail_at_length(bt_task *task) {
    static char text[1 << 20];
    memset(text, 'x', sizeof text - 1);
    return bt_task_fail(task, BT_DATA_LOSS, "long: %s", text);
}
BT_REMOTE(do_fail_at_length);

static bt_status do_start_a_runtime(bt_task *task) { return bt_runtime_init(.num_cpus = 1); }
BT_REMOTE(do_start_a_runtime);
static bt_status do_end_the_runtime(bt_task *task) { return bt_runtime_shutdown(); }
BT_REMOTE(do_end_the_runtime);

static bt_status do_close_all(bt_task *task) {
    closefrom(0);
    bt_ref *ref = bt_remote_with(BT_OPTIONS(.num_gpus = 0), twice, 4); /* a new process */
    int64_t n;
    bt_status status = bt_get(ref, &n);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(do_close_all);

static bt_status do_fork_and_return(bt_task *task) { return fork() ? bt_return(task, 1) : bt_return(task, 2); }
BT_REMOTE(do_fork_and_return);

/* A child that stays: in the group of the worker, or in a session of its own. */
static bt_status do_leave_child(bt_task *task) {
    int64_t own_session, dies;
    bt_status status = bt_argument(task, 0, &own_session);
    if (status == BT_OK) status = bt_argument(task, 1, &dies);
    if (status != BT_OK) return status;
    pid_t pid = fork();
    if (!pid) {
        if (own_session) setsid();
        for (;;) pause();
    }
    if (dies) {
        fprintf(stderr, "child %d\n", (int)pid);
        raise(SIGKILL);
    }
    return bt_return(task, (int64_t)pid);
}
BT_REMOTE(do_leave_child);

static bt_status do_change_surroundings(bt_task *task) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    umask(0);
    setenv("HOME", "/nowhere", 1);
    setenv("BERTH_NEW_VARIABLE", "1", 1);
    unsetenv("PATH");
    return chdir("/proc") == 0 ? bt_return(task, (int64_t)getpid()) : BT_UNKNOWN;
}
BT_REMOTE(do_change_surroundings);

static bt_status tell_surroundings(bt_task *task) {
    char folder[500], text[1000];
    sigset_t mask;
    mode_t bits = umask(022);
    umask(bits);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    snprintf(text, sizeof text, "%d %s %o %d %s %s %s", (int)getpid(), getcwd(folder, sizeof folder), bits,
             sigismember(&mask, SIGTERM), getenv("HOME"), getenv("PATH"), getenv("BERTH_NEW_VARIABLE") ? "new" : "old");
    return bt_return(task, text);
}
BT_REMOTE(tell_surroundings);

static bt_status do_write(bt_task *task) {
    static char text[1 << 16];
    int64_t count;
    bt_status status = bt_argument(task, 0, &count);
    memset(text, '.', sizeof text);
    for (int64_t done = 0; status == BT_OK && done < count; done += (int64_t)sizeof text)
        if (write(STDERR_FILENO, text, sizeof text) < 0) return bt_task_fail(task, BT_UNKNOWN, "%s", strerror(errno));
    return status == BT_OK ? bt_return(task, count) : status;
}
BT_REMOTE(do_write);

static bt_status make(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(make);

static bt_status give_bytes(bt_task *task) {
    int64_t count;
    bt_status status = bt_argument(task, 0, &count);
    char *bytes = status == BT_OK ? calloc(1, (size_t)count) : NULL;
    if (!bytes) return BT_RESOURCE_EXHAUSTED;
    status = bt_return(task, ((bt_bytes){bytes, (size_t)count}));
    free(bytes);
    return status;
}
BT_REMOTE(give_bytes);

/* --- misdeeds ---------------------------------------------------------------------------------------------------------- */

static bool is_gone(int pid) { return !process_lives(pid); }

/* The runtime is as it was. */
static int works(void) {
    int64_t n;
    BT_SCOPE
        for (int i = 0; i < 8; i++) CHECK(bt_get(bt_remote(twice, i), &n) == BT_OK && n == 2 * i);
    return 0;
}

static int ends_of_processes(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE {
        bt_ref *others[40];
        for (int i = 0; i < 40; i++) others[i] = bt_remote(twice, i);
        CHECK_FAILS(bt_get(bt_remote(do_segv), NULL), BT_ABORTED, "signal 11");
        CHECK_FAILS(bt_get(bt_remote(do_abort), NULL), BT_ABORTED, "signal 6");
        CHECK_FAILS(bt_get(bt_remote(do_exit_0), NULL), BT_ABORTED, "exit code 0");
        CHECK_FAILS(bt_get(bt_remote(do_exit_3), NULL), BT_ABORTED, "exit code 3");
        CHECK_FAILS(bt_get(bt_remote(do_leave), NULL), BT_ABORTED, "exit code 4");
        CHECK_FAILS(bt_get(bt_remote(do_end_thread), NULL), BT_ABORTED, "exit code");
        CHECK_FAILS(bt_get(bt_remote(do_overflow), NULL), BT_ABORTED, "signal 11");
        CHECK_FAILS(bt_get(bt_remote(do_fail_at_length), NULL), BT_DATA_LOSS, "long: xxx");
        CHECK_FAILS(bt_get(bt_remote(do_start_a_runtime), NULL), BT_ALREADY_EXISTS, "already");
        CHECK_FAILS(bt_get(bt_remote(do_end_the_runtime), NULL), BT_FAILED_PRECONDITION, "a worker cannot");
        bt_ref *loops = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.1), do_loop);
        bt_ref *blocks = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.1), do_block_and_loop);
        CHECK_FAILS(bt_get(loops, NULL), BT_DEADLINE_EXCEEDED, "deadline");
        CHECK_FAILS(bt_get(blocks, NULL), BT_DEADLINE_EXCEEDED, "deadline");
        int64_t n;
        bt_ref *nothing = bt_remote(do_nothing);
        CHECK(bt_get(nothing, NULL) == BT_OK);
        CHECK_FAILS(bt_get(nothing, &n), BT_INVALID_ARGUMENT, "nothing");
        CHECK_FAILS(bt_get(bt_remote(twice, nothing), &n), BT_INVALID_ARGUMENT, "nothing");
        for (int i = 0; i < 40; i++) CHECK(bt_get(others[i], &n) == BT_OK && n == 2 * i);
        CHECK(bt_get(bt_remote(do_close_all), &n) == BT_OK && n == 8);
    }
    CHECK(works() == 0);
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int memory_runs_out(void) {
    if (is_slow()) return -1; /* a sanitizer ends the process */
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE
        CHECK_FAILS(bt_get(bt_remote(do_take_all_memory), NULL), BT_RESOURCE_EXHAUSTED, "out of memory after");
    CHECK(works() == 0);
    return 0;
}

static int children_that_stay(void) {
    int64_t pid, outlives;
    CHECK(bt_runtime_init(.num_cpus = 1) == BT_OK);
    BT_SCOPE {
        int lost = -1;
        CHECK(bt_get(bt_remote(fork_with_files), &lost) == BT_OK && lost == 0);
        CHECK(bt_get(bt_remote(twice), NULL) ==
              BT_OUT_OF_RANGE); /* it was told of no argument, and names no other call */
        CHECK(!strstr(bt_error_text(), "bt_runtime_init"));
    }
    BT_SCOPE {
        CHECK(bt_get(bt_remote(do_fork_and_return), &pid) == BT_OK && pid == 1);
        CHECK_FAILS(bt_get(bt_remote(do_leave_child, 0, 1), NULL), BT_ABORTED, "child ");
        CHECK(comes_true(is_gone, atoi(strstr(bt_error_text(), "child ") + 6), SOON));
        CHECK(bt_get(bt_remote(do_leave_child, 0, 0), &pid) == BT_OK);
        CHECK(process_lives((pid_t)pid)); /* it is killed with its worker */
        CHECK_FAILS(bt_get(bt_remote(do_segv), NULL), BT_ABORTED, "signal 11");
        CHECK(comes_true(is_gone, (int)pid, SOON));
        CHECK(bt_get(bt_remote(do_leave_child, 0, 0), &pid) == BT_OK);
        CHECK(bt_get(bt_remote(do_leave_child, 1, 0), &outlives) == BT_OK);
        CHECK_FAILS(bt_get(bt_remote(do_leave_child, 1, 1), NULL), BT_ABORTED, "child ");
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(is_gone((int)pid) && is_gone((int)outlives));
    return 0;
}

/* The same, of a program that is killed. */
static int killed_with_children(void) {
    CHECK(bt_runtime_init(.num_cpus = 1) == BT_OK);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(do_leave_child, 0, 0), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(do_leave_child, 1, 0), NULL) == BT_OK);
    }
    return raise(SIGKILL);
}

static int surroundings_are_put_back(void) {
    int64_t pid;
    const char *before, *after;
    CHECK(bt_runtime_init(.num_cpus = 1) == BT_OK);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(tell_surroundings), &before) == BT_OK);
        CHECK(bt_get(bt_remote(do_change_surroundings), &pid) == BT_OK && pid == atoi(before));
        CHECK(bt_get(bt_remote(tell_surroundings), &after) == BT_OK);
        fprintf(stderr, "before: %s\nafter: %s\n", before, after);
        CHECK(!strcmp(before, after));
        bt_actor *actor = bt_actor_new(make); /* an actor keeps what it changes */
        CHECK(bt_get(bt_method(actor, do_change_surroundings), NULL) == BT_OK);
        CHECK(bt_get(bt_method(actor, tell_surroundings), &after) == BT_OK);
        CHECK(strstr(after, "/proc") && strstr(after, "new"));
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* --- standard error ---------------------------------------------------------------------------------------------------- */

static long resident_kb(pid_t pid) {
    char path[64];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    for (char line[256]; file && fgets(line, sizeof line, file);)
        if (sscanf(line, "RssAnon: %ld", &kb) == 1) break;
    if (file) fclose(file);
    return kb;
}

static int much_is_written(void) {
    int64_t n, count = getenv("BERTH_TEST_LONG") ? (int64_t)1 << 30 : (int64_t)1 << 27;
    int nothing = open("/dev/null", O_WRONLY), said = dup(STDERR_FILENO);
    dup2(nothing, STDERR_FILENO);
    bt_status status = bt_runtime_init(.num_cpus = 2);
    dup2(said, STDERR_FILENO);
    CHECK(status == BT_OK);
    pid_t nest = process_named(getpid(), "berth nest", SOON);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(twice, 1), NULL) == BT_OK);
        long before = resident_kb(nest);
        bt_ref *refs[] = {bt_remote(do_write, count), bt_remote(do_write, count)};
        for (int i = 0; i < 2; i++) CHECK(bt_get(refs[i], &n) == BT_OK && n == count);
        long after = resident_kb(nest);
        fprintf(stderr, "%ld kB before, %ld after\n", before, after);
        CHECK(before > 0 && (is_slow() || after < before + 4000));
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* Nobody reads for a while; then all of it is there. */
static int nobody_reads(void) {
    int ends[2], said = dup(STDERR_FILENO);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    dup2(ends[1], STDERR_FILENO);
    bt_status status = bt_runtime_init(.num_cpus = 3);
    dup2(said, STDERR_FILENO);
    close(ends[1]);
    CHECK(status == BT_OK);
    CHECK(!(fcntl(ends[0], F_GETFL) & O_NONBLOCK));
    BT_SCOPE {
        int64_t count = 1 << 20;
        bt_ref *writes = bt_remote(do_write, count),
               *late = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.2), do_write, count);
        CHECK_FAILS(bt_get(late, NULL), BT_DEADLINE_EXCEEDED, "deadline"); /* it waited, the nest did not */
        CHECK(works() == 0);
        CHECK_FAILS(bt_get(bt_remote(do_abort), NULL), BT_ABORTED, "signal 6");
        bool ready;
        CHECK(bt_wait_refs(&writes, 1, 1, &ready, 0.05) == 0);
        static char text[1 << 16];
        int64_t dots = 0;
        while (dots < count) {
            ssize_t length = read(ends[0], text, sizeof text);
            CHECK(length > 0);
            for (ssize_t i = 0; i < length; i++) dots += text[i] == '.';
        }
        CHECK(bt_get(writes, &count) == BT_OK);
        bt_ref *last = bt_remote(do_write, count);
        CHECK(bt_wait_refs(&last, 1, 1, &ready, 0.1) == 0);
    }
    CHECK(bt_runtime_shutdown() == BT_OK); /* though nobody reads */
    return 0;
}

static int nobody_can_read(void) {
    int ends[2], said = dup(STDERR_FILENO);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    dup2(ends[1], STDERR_FILENO);
    bt_status status = bt_runtime_init(.num_cpus = 3);
    dup2(said, STDERR_FILENO);
    close(ends[0]);
    CHECK(status == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(do_write, 1 << 20), NULL) == BT_OK);
    return 0;
}

/* --- what runs out ----------------------------------------------------------------------------------------------------- */

static int set_limit(pid_t pid, int which, rlim_t soft) {
    struct rlimit limit;
    if (prlimit(pid, which, NULL, &limit) != 0) return -1;
    limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
    return prlimit(pid, which, &limit, NULL);
}

static int files_run_out(void) {
    int files[64], count = 0;
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(set_limit(0, RLIMIT_NOFILE, 40) == 0);
    while (count < 64 && (files[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
    CHECK_FAILS(bt_runtime_init(.num_cpus = 2), BT_RESOURCE_EXHAUSTED, "Too many open files");
    CHECK(children_of(getpid(), (pid_t[8]){0}, 8) == 0);
    while (count) close(files[--count]);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    while (count < 64 && (files[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
    CHECK(works() == 0); /* calls open none */
    BT_SCOPE {
        bt_actor *actors[60]; /* more than the nest can have pipes */
        int64_t n;
        for (int i = 0; i < 60; i++) actors[i] = bt_actor_new(make);
        for (int i = 0; i < 60; i++) CHECK(bt_get(bt_method(actors[i], twice, i), &n) == BT_OK && n == 2 * i);
        CHECK_FAILS(bt_get(bt_method(actors[59], do_segv), NULL), BT_ABORTED, "signal 11");
    }
    while (count) close(files[--count]);
    CHECK(works() == 0);
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int processes_run_out(void) {
    int64_t n;
    if (geteuid() == 0 && setresuid(54321, 54321, 54321) != 0) return -1; /* the limit is none for root */
    if (access("/proc/self/exe", R_OK) != 0) errno = 0;
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    pid_t nest = process_named(getpid(), "berth nest", SOON);
    CHECK(set_limit(nest, RLIMIT_NPROC, 1) == 0);
    BT_SCOPE {
        CHECK_FAILS(bt_get(bt_remote(twice, 1), NULL), BT_ABORTED, "no worker process could be started");
        bt_actor *actor = bt_actor_new(make);
        CHECK_FAILS(bt_get(bt_method(actor, twice, 1), NULL), BT_ABORTED, "no worker process could be started");
        CHECK(set_limit(nest, RLIMIT_NPROC, RLIM_INFINITY) == 0);
        actor = bt_actor_new(make);
        CHECK(bt_get(bt_method(actor, twice, 4), &n) == BT_OK && n == 8);
        CHECK(works() == 0);
        CHECK(set_limit(nest, RLIMIT_NPROC, 1) == 0);
        CHECK(works() == 0); /* those that are there go on */
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int store_runs_out(void) {
    int64_t n, large = 3 << 20;
    CHECK(bt_runtime_init(.num_cpus = 2, .store_bytes = 16 << 20, .spill_bytes = 1) == BT_OK);
    for (int round = 0; round < 3; round++)
        BT_SCOPE {
            bt_ref *refs[12];
            int held = 0;
            for (int i = 0; i < 12; i++) refs[i] = bt_remote(give_bytes, large);
            for (int i = 0; i < 12; i++) {
                bt_bytes bytes;
                bt_status status = bt_get(refs[i], &bytes);
                if (status == BT_OK) {
                    CHECK(bytes.size == (size_t)large);
                    held++;
                } else {
                    CHECK_FAILS(status, BT_RESOURCE_EXHAUSTED, "store");
                }
                CHECK(bt_get(bt_remote(twice, i), &n) == BT_OK && n == 2 * i); /* others are right */
            }
            CHECK(held >= 3 && held <= 5);
            static char mine[8 << 20];
            CHECK_FAILS(bt_get(bt_put(((bt_bytes){mine, sizeof mine})), NULL), BT_RESOURCE_EXHAUSTED, "store");
            CHECK_FAILS(bt_get(bt_remote(twice, ((bt_bytes){mine, sizeof mine})), NULL), BT_RESOURCE_EXHAUSTED,
                        "store");
        }
    BT_SCOPE {
        static char mine[12 << 20];
        CHECK(bt_get(bt_put(((bt_bytes){mine, sizeof mine})), NULL) == BT_OK); /* all is free again */
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* --- modules ----------------------------------------------------------------------------------------------------------- */

static int copy_module(const char *to) {
    static char bytes[1 << 20];
    FILE *from = fopen(BERTH_BUILD_DIR "/modules/task_module.so", "re"), *file = fopen(to, "we");
    size_t length = from ? fread(bytes, 1, sizeof bytes, from) : 0;
    CHECK(file && length > 0 && fwrite(bytes, 1, length, file) == length);
    fclose(from);
    CHECK(fclose(file) == 0);
    return 0;
}

static int modules_come_later(void) {
    char path[300];
    int64_t n;
    snprintf(path, sizeof path, "%s/module.so", getenv("TMPDIR"));
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(works() == 0);
    CHECK(copy_module(path) == 0);
    CHECK_FAILS(bt_module_load("/nowhere.so"), BT_NOT_FOUND, "/nowhere.so");
    CHECK(bt_module_load(path) == BT_OK);
    BT_SCOPE {
        bt_item_value five = {.type = BT_INTEGER, .as.integer = 5};
        CHECK(bt_get(bt_remote_named(path, "thrice", NULL, &five, 1), &n) == BT_OK && n == 15);
        CHECK_FAILS(bt_get(bt_remote_named(path, "nothing", NULL, &five, 1), &n), BT_NOT_FOUND, "\"nothing\"");
        CHECK_FAILS(bt_get(bt_remote_named("/nowhere.so", "thrice", NULL, &five, 1), &n), BT_NOT_FOUND, "/nowhere.so");
        unlink(path); /* new workers cannot open it */
        CHECK_FAILS(bt_get(bt_remote_named(path, "thrice", BT_OPTIONS(.num_gpus = 0), &five, 1), &n), BT_NOT_FOUND,
                    "module.so");
        bt_actor *actor = bt_actor_named(path, "thrice", NULL, &five, 1);
        CHECK_FAILS(bt_get(bt_method(actor, twice, 1), NULL), BT_NOT_FOUND, "module.so");
    }
    CHECK(works() == 0);
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "ends_of_processes", .run = ends_of_processes},
        {.name = "memory_runs_out", .run = memory_runs_out},
        {.name = "children_that_stay", .run = children_that_stay},
        {.name = "killed_with_children", .run = killed_with_children, .ends_by = SIGKILL},
        {.name = "surroundings_are_put_back", .run = surroundings_are_put_back},
        {.name = "much_is_written", .run = much_is_written},
        {.name = "nobody_reads", .run = nobody_reads},
        {.name = "nobody_can_read", .run = nobody_can_read},
        {.name = "files_run_out", .run = files_run_out},
        {.name = "processes_run_out", .run = processes_run_out},
        {.name = "store_runs_out", .run = store_runs_out},
        {.name = "modules_come_later", .run = modules_come_later},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

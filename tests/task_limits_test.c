/* Runtimes of programs with little address space or few files, and without the /proc of their own processes. */
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/programs.h"

#define MIB ((size_t)1 << 20)

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

static bt_status large(bt_task *task) {
    static char bytes[100000];
    return bt_return(task, ((bt_bytes){bytes, sizeof bytes}));
}
BT_REMOTE(large);

static bt_status nested(bt_task *task) {
    int64_t sum = 0;
    for (int i = 0; i < 20; i++)
        BT_SCOPE {
            int64_t n = 0;
            bt_status status = bt_get(bt_remote(twice, i), &n);
            if (status != BT_OK) return status;
            sum += n;
        }
    return bt_return(task, sum);
}
BT_REMOTE(nested);

/* Calls, values in the store and on disk, actors. */
static int works(void) {
    BT_SCOPE {
        bt_ref *refs[200];
        int64_t sum = 0;
        for (int i = 0; i < 200; i++) refs[i] = i % 2 ? bt_remote(large) : bt_remote(twice, i);
        for (int i = 0; i < 200; i++) CHECK(bt_get(refs[i], NULL) == BT_OK);
        CHECK(bt_get(bt_remote(nested), &sum) == BT_OK && sum == 380);
        bt_actor *actor = bt_actor_new(actor_new);
        CHECK(bt_get(bt_method(actor, twice, 4), &sum) == BT_OK && sum == 8);
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int set_limit(int which, size_t soft) {
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0) return -1;
    limit.rlim_cur = soft;
    return setrlimit(which, &limit);
}

static size_t mapped(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%lu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (size_t)sysconf(_SC_PAGE_SIZE);
}

static int addresses_of(size_t bytes) {
    if (is_slow()) return -1; /* shadows of sanitizers take all */
    CHECK(set_limit(RLIMIT_AS, bytes) == 0);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    return works();
}

static int one_gigabyte(void) { return addresses_of(1000 * MIB); }
static int two_gigabytes(void) { return addresses_of(2000 * MIB); }
static int ten_gigabytes(void) { return addresses_of(10000 * MIB); }

static int a_store_of_its_own_size(void) {
    if (is_slow()) return -1;
    CHECK(set_limit(RLIMIT_AS, 1000 * MIB) == 0);
    CHECK_FAILS(bt_runtime_init(.num_cpus = 2, .store_bytes = 1000 * MIB), BT_RESOURCE_EXHAUSTED,
                "RLIMIT_AS (ulimit -v) of 1048576000 leaves");
    CHECK(strstr(bt_error_text(), "a store of 1048576000 bytes needs ") && strstr(bt_error_text(), ".store_bytes"));
    CHECK(bt_runtime_init(.num_cpus = 2, .store_bytes = 5 * MIB) == BT_OK);
    char *text = bt_runtime_text(true);
    CHECK(text && strstr(text, "\"limit_bytes\": 5242880"));
    bt_free(text);
    return works();
}

/* What the message asks for is enough. */
static int too_few_addresses(void) {
    if (is_slow()) return -1;
    size_t limit = mapped() + 40 * MIB;
    unsigned long long more = 0;
    CHECK(set_limit(RLIMIT_AS, limit) == 0);
    CHECK_FAILS(bt_runtime_init(.num_cpus = 2), BT_RESOURCE_EXHAUSTED, "RLIMIT_AS (ulimit -v)");
    const char *by = strstr(bt_error_text(), "raise the limit by ");
    CHECK(by && sscanf(by, "raise the limit by %llu", &more) == 1);
    CHECK(set_limit(RLIMIT_AS, limit + more + MIB) == 0);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    return works();
}

/* Whatever the limit is, the runtime works or names it. */
static int few_files(void) {
    int refused = 0, begun = 0;
    for (size_t most = 4; most < 40; most++) {
        CHECK(set_limit(RLIMIT_NOFILE, most) == 0);
        if (bt_runtime_init(.num_cpus = 2) == BT_OK) {
            CHECK(works() == 0);
            begun++;
            continue;
        }
        char limit[80];
        snprintf(limit, sizeof limit, "the limit RLIMIT_NOFILE (ulimit -n) is %zu", most);
        CHECK_FAILS(BT_RESOURCE_EXHAUSTED, BT_RESOURCE_EXHAUSTED, limit);
        refused++;
    }
    CHECK(refused > 5 && begun > 5);
    return 0;
}

/* --- /proc ---------------------------------------------------------------------------------------------------------------- */

/* In a child: 0, 1, or -1 when it was not to be had. */
static int in_child(int (*run)(const char *folder), const char *folder) {
    int status = 1;
    pid_t pid = fork();
    if (!pid) _exit(run(folder) & 0x7f);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status) == 0x7f ? -1 : WEXITSTATUS(status);
}

static int init_of_namespace(const char *unused) {
    CHECK_FAILS(bt_runtime_init(.num_cpus = 2), BT_FAILED_PRECONDITION, "/proc is that of another PID namespace");
    return 0;
}

static int in_namespace(const char *unused) {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return -1;
    return in_child(init_of_namespace, unused);
}

static int proc_of_others(void) { return in_child(in_namespace, NULL); }

static int in_folder(const char *folder) {
    if (chroot(folder) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(folder) != 0)) return -1;
    CHECK(chdir("/") == 0);
    CHECK_FAILS(bt_runtime_init(.num_cpus = 2), BT_FAILED_PRECONDITION, "/proc, which is not there");
    return 0;
}

static int no_proc(void) {
    char folder[200];
    snprintf(folder, sizeof folder, "%.150s/empty-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(folder));
    int result = in_child(in_folder, folder);
    CHECK(rmdir(folder) == 0);
    return result;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "one_gigabyte", .run = one_gigabyte},
        {.name = "two_gigabytes", .run = two_gigabytes},
        {.name = "ten_gigabytes", .run = ten_gigabytes},
        {.name = "a_store_of_its_own_size", .run = a_store_of_its_own_size},
        {.name = "too_few_addresses", .run = too_few_addresses},
        {.name = "few_files", .run = few_files},
        {.name = "proc_of_others", .run = proc_of_others},
        {.name = "no_proc", .run = no_proc},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

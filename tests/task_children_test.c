// labels: threads
/* Programs that manage processes of their own: the runtime's are not seen by wait(2), nor by handlers of SIGCHLD. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/programs.h"

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

/* Leaves a process of its own session, that becomes an orphan. */
static bt_status leave_child(bt_task *task) { return bt_return(task, (int64_t)leave_process()); }
BT_REMOTE(leave_child);

static int runs(void) {
    int64_t n = 0;
    BT_SCOPE
        CHECK(bt_get(bt_remote(twice, 4), &n) == BT_OK && n == 8);
    return 0;
}

/* Until no child is left: own ones are seen, the runtime's are not. */
static int count_children(void) {
    int count = 0;
    while (wait(NULL) > 0) count++;
    CHECK(errno == ECHILD);
    return count;
}

static int waits_for_all(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    CHECK(count_children() == 0);
    pid_t own = fork();
    if (!own) _exit(0);
    CHECK(count_children() == 1);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    CHECK(runs() == 0);
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(count_children() == 0);
    return 0;
}

static int reaper_waits_for_all(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    return waits_for_all();
}

static volatile sig_atomic_t called;
static void on_child(int number) { called += number == SIGCHLD; }

static int handler_is_not_called(void) {
    signal(SIGCHLD, on_child);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(called == 0);
    return 0;
}

/* Its own children are reaped by the system, the runtime goes on. */
static int ignores_children(void) {
    signal(SIGCHLD, SIG_IGN);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(count_children() == 0);
    sleep_seconds(1.2);
    CHECK(runs() == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* One that reaps even what others hide. */
static int takes_every_child(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == 0);
    CHECK(runs() == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* The runtime goes on without any file of the program's. */
static int closes_all_files(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    for (int file = 3; file < 256; file++) close(file);
    sleep_seconds(1.5);
    for (int i = 0; i < 20; i++) {
        BT_SCOPE {
            bt_ref *refs[8];
            for (int r = 0; r < 8; r++) refs[r] = bt_remote_with(BT_OPTIONS(.num_cpus = 0), twice, r);
            CHECK(bt_wait_refs(refs, 8, 8, NULL, SOON) == 8);
            for (int r = 0; r < 8; r++) CHECK(bt_get(refs[r], NULL) == BT_OK);
        }
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int closes_all_files_and_ends(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    for (int file = 3; file < 256; file++) close(file);
    CHECK(runs() == 0);
    return 0; /* the test sees whether something is left */
}

/* Another program in the same process: nothing of the runtime stays. */
static int becomes_another(bool without_files) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    int64_t left = 0;
    BT_SCOPE
        CHECK(bt_get(bt_remote(leave_child), &left) == BT_OK);
    CHECK(process_lives((pid_t)left));
    for (int file = 3; without_files && file < 256; file++) close(file);
    char script[400];
    snprintf(script, sizeof script,
             "i=0; while kill -0 %d 2>/dev/null; do i=$((i+1)); [ $i -lt 400 ] || exit 1; sleep 0.05; done; exit 0",
             (int)left);
    execl("/bin/sh", "sh", "-c", script, (char *)NULL);
    return 1;
}
static int executes(void) { return becomes_another(false); }
static int executes_without_files(void) { return becomes_another(true); }

static bool is_gone(int pid) { return !process_lives(pid); }

static int keeper_killed(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    pid_t keeper = process_named(getpid(), "berth keeper", SOON), nest = process_named(getpid(), "berth nest", SOON);
    CHECK(keeper > 0 && nest > 0);
    BT_SCOPE {
        pid_t workers[16];
        int count = children_of(nest, workers, 16);
        CHECK(count > 0);
        CHECK(kill(keeper, SIGKILL) == 0);
        CHECK(comes_true(is_gone, nest, SOON));
        for (int i = 0; i < count; i++) CHECK(comes_true(is_gone, workers[i], SOON));
        CHECK_FAILS(bt_get(bt_remote(twice, 1), NULL), BT_ABORTED, "the runtime");
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(runs() == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "waits_for_all", .run = waits_for_all},
        {.name = "reaper_waits_for_all", .run = reaper_waits_for_all},
        {.name = "handler_is_not_called", .run = handler_is_not_called},
        {.name = "ignores_children", .run = ignores_children},
        {.name = "takes_every_child", .run = takes_every_child},
        {.name = "closes_all_files", .run = closes_all_files},
        {.name = "closes_all_files_and_ends", .run = closes_all_files_and_ends},
        {.name = "executes", .run = executes},
        {.name = "executes_without_files", .run = executes_without_files},
        {.name = "keeper_killed", .run = keeper_killed},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

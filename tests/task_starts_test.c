/* Calls for which no process can be started for a while wait for one. Only as root, for the limit is of a user of its own. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/programs.h"

enum { OWN = 40, MOST_SLEEPERS = 64 };

static pid_t sleepers[MOST_SLEEPERS];
static int sleeper_count;

/* As many processes as the user may have. */
static int take_all_processes(void) {
    for (sleeper_count = 0; sleeper_count < MOST_SLEEPERS; sleeper_count++) {
        pid_t pid = fork();
        if (pid < 0) return 0;
        if (!pid) {
            sleep(100);
            _exit(0);
        }
        sleepers[sleeper_count] = pid;
    }
    return 1;
}

static void give_processes(void) {
    for (int i = 0; i < sleeper_count; i++) kill(sleepers[i], SIGKILL);
    while (wait(NULL) > 0) continue;
}

static int begin(void) {
    uid_t user = 200000 + (uid_t)getpid();
    if (geteuid() != 0) return -1;
    CHECK(setresuid(user, user, user) == 0);
    CHECK(setrlimit(RLIMIT_NPROC, &(struct rlimit){OWN, OWN}) == 0);
    CHECK(bt_runtime_init(.num_cpus = 4) == BT_OK);
    CHECK(take_all_processes() == 0);
    return 0;
}

static bool is_told(const char *part) {
    char *text = bt_runtime_text(false);
    bool has = text && strstr(text, part);
    bt_free(text);
    return has;
}

/* What is told is what was tried, and when something is tried first depends on how busy the machine is. */
static bool is_told_soon(const char *part) {
    for (int tries = 0; tries < SOON * 10; tries++) {
        if (is_told(part)) return true;
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    }
    char *text = bt_runtime_text(false);
    fprintf(stderr, "%s\n", text ? text : "");
    bt_free(text);
    return false;
}

static int waits_for_process(void) {
    int begun = begin();
    if (begun) return begun;
    BT_SCOPE {
        bt_ref *refs[4];
        for (int i = 0; i < 4; i++) refs[i] = bt_remote(nothing);
        bt_actor *actor = bt_actor_new(actor_new);
        bt_ref *method = bt_method(actor, nothing);
        bt_ref *late = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.3, .num_cpus = 0), nothing);
        CHECK(bt_get_within(refs[0], 0.5, NULL) == BT_DEADLINE_EXCEEDED);
        CHECK(is_told_soon("the system starts none (Resource temporarily unavailable)"));
        CHECK_FAILS(bt_get_within(late, SOON, NULL), BT_DEADLINE_EXCEEDED, "deadline");
        CHECK(bt_actor_status(actor) == BT_OK);
        give_processes();
        for (int i = 0; i < 4; i++) CHECK(bt_get_within(refs[i], SOON, NULL) == BT_OK);
        CHECK(bt_get_within(method, SOON, NULL) == BT_OK);
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int cancelled_and_ended(void) {
    int begun = begin();
    if (begun) return begun;
    BT_SCOPE {
        bt_ref *ref = bt_remote(nothing), *other = bt_remote(nothing);
        CHECK(bt_get_within(ref, 0.2, NULL) == BT_DEADLINE_EXCEEDED);
        CHECK(bt_cancel(ref, true) == BT_OK);
        CHECK_FAILS(bt_get_within(ref, SOON, NULL), BT_CANCELLED, "");
        CHECK(bt_get_within(other, 0.1, NULL) == BT_DEADLINE_EXCEEDED);
        CHECK(bt_runtime_shutdown() == BT_OK);
    }
    give_processes();
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "waits_for_process", .run = waits_for_process},
        {.name = "cancelled_and_ended", .run = cancelled_and_ended},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

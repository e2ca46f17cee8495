/* Programs that give up rights after bt_runtime_init: tasks run with those that are left, and everything ends. Only as root. */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/programs.h"

enum { OTHER = 65534, THIRD = 54321, GROUP = 12345 };

#define NEEDS_ROOT \
    if (geteuid() != 0) return -1

/* real, effective, saved user; then group; the first other group, how many; permitted capabilities. */
static bt_status who(bt_task *task) {
    char text[200];
    uid_t u[3];
    gid_t g[3], others[32] = {0};
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{0}};
    getresuid(&u[0], &u[1], &u[2]);
    getresgid(&g[0], &g[1], &g[2]);
    int count = getgroups(32, others);
    syscall(SYS_capget, &head, sets);
    snprintf(text, sizeof text, "%u %u %u, %u %u %u, %u of %d, %x %d", u[0], u[1], u[2], g[0], g[1], g[2], others[0],
             count, sets[0].permitted & (1u << CAP_NET_BIND_SERVICE | 1u << CAP_SETUID),
             prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    return bt_return(task, (const char *)text);
}
BT_REMOTE(who);

static bt_status nap(bt_task *task) {
    int64_t ms;
    bt_status status = bt_argument(task, 0, &ms);
    if (status == BT_OK) sleep_seconds((double)ms / 1000);
    return status;
}
BT_REMOTE(nap);

static bt_status actor_new(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(actor_new);

static bool says(bt_ref *ref, const char *wanted) {
    const char *text = "";
    if (bt_get_within(ref, SOON, &text) != BT_OK) text = bt_error_text();
    bool same = !strcmp(text, wanted);
    if (!same) fprintf(stderr, "\"%s\" instead of \"%s\"\n", text, wanted);
    return same;
}

/* Several at once, so that old workers and new ones take some. */
static int all_say(const char *wanted) {
    BT_SCOPE {
        bt_ref *refs[8];
        for (int i = 0; i < 8; i++) refs[i] = bt_remote(who);
        for (int i = 0; i < 8; i++) CHECK(says(refs[i], wanted));
    }
    return 0;
}

static int drop(void) {
    CHECK(setgroups(1, (gid_t[]){GROUP}) == 0 && setresgid(OTHER, OTHER, OTHER) == 0);
    CHECK(setresuid(OTHER, OTHER, OTHER) == 0);
    return 0;
}

#define DROPPED "65534 65534 65534, 65534 65534 65534, 12345 of 1, 0 0"

static int begin(void) {
    CHECK(setgroups(0, NULL) == 0);
    CHECK(bt_runtime_init(.num_cpus = 3) == BT_OK);
    return all_say("0 0 0, 0 0 0, 0 of 0, 480 0");
}

static int rights_dropped(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0 && drop() == 0);
    CHECK(all_say(DROPPED) == 0);
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(actor_new);
        CHECK(says(bt_method(actor, who), DROPPED));
        bt_ref *late = bt_remote(nap, 100000);
        sleep_seconds(0.1);
        CHECK(bt_cancel(late, true) == BT_OK && bt_actor_kill(actor) == BT_OK);
        CHECK(bt_get_within(bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.2), nap, 100000), SOON, NULL) ==
              BT_DEADLINE_EXCEEDED);
        CHECK(all_say(DROPPED) == 0);
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* Who was busy meanwhile takes no task after that. */
static int dropped_while_busy(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0);
    BT_SCOPE {
        bt_ref *naps[3];
        for (int i = 0; i < 3; i++) naps[i] = bt_remote(nap, 300);
        sleep_seconds(0.1);
        CHECK(drop() == 0);
        CHECK(all_say(DROPPED) == 0);
        for (int i = 0; i < 3; i++) CHECK(bt_get(naps[i], NULL) == BT_OK);
    }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int put_on_and_off(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0);
    CHECK(setegid(THIRD) == 0 && seteuid(THIRD) == 0);
    CHECK(all_say("0 54321 0, 0 54321 0, 0 of 0, 480 0") == 0);
    CHECK(seteuid(0) == 0 && setegid(0) == 0);
    CHECK(all_say("0 0 0, 0 0 0, 0 of 0, 480 0") == 0);
    CHECK(setgroups(1, (gid_t[]){GROUP}) == 0);
    sleep_seconds(0.01);
    CHECK(all_say("0 0 0, 0 0 0, 12345 of 1, 480 0") == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* Capabilities that are kept, and no_new_privs. */
static int capability_kept(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {
        {.effective = 1u << CAP_NET_BIND_SERVICE, .permitted = 1u << CAP_NET_BIND_SERVICE}};
    CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && drop() == 0);
    CHECK(syscall(SYS_capset, &head, sets) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(all_say("65534 65534 65534, 65534 65534 65534, 12345 of 1, 400 1") == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

/* Neither signals nor files reach the nest. */
static int dropped_without_files(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0 && drop() == 0);
    for (int file = 3; file < 256; file++) close(file);
    CHECK(all_say(DROPPED) == 0);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int dropped_and_exits(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0 && drop() == 0);
    return all_say(DROPPED);
}

static int dropped_program(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0 && drop() == 0 && all_say(DROPPED) == 0);
    tell_ready(getpid());
    sleep(100);
    return 1;
}
static void kill_it(int pid) { kill(pid, SIGKILL); }

static int dropped_and_seen(void) {
    NEEDS_ROOT;
    CHECK(begin() == 0 && drop() == 0 && all_say(DROPPED) == 0);
    char *text = bt_runtimes_text(getpid(), true);
    CHECK(text && strstr(text, "\"nest_pid\""));
    bt_free(text);
    CHECK((text = bt_runtime_text(true)) != NULL);
    bt_free(text);
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "rights_dropped", .run = rights_dropped, .times = 3},
        {.name = "dropped_while_busy", .run = dropped_while_busy},
        {.name = "put_on_and_off", .run = put_on_and_off},
        {.name = "capability_kept", .run = capability_kept},
        {.name = "dropped_without_files", .run = dropped_without_files},
        {.name = "dropped_and_exits", .run = dropped_and_exits},
        {.name = "dropped_program_killed", .run = dropped_program, .drive = kill_it, .ends_by = SIGKILL},
        {.name = "dropped_and_seen", .run = dropped_and_seen},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

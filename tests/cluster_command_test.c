/* `berth cluster` with a shell script in Ray's place: what it starts, what it says of nodes that do not start, and that nothing is left. tests/cluster has the real one. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

#define COMMAND BERTH_BUILD_DIR "/berth cluster "

static char folder[] = "/tmp/berth-cluster-test-XXXXXX";

/* It is called as Python is: -c TEXT start --block ...; $FAKE says how it fails. A node has a child. */
static const char script[] = "#!/bin/sh\n"
                             "shift 2\n"
                             "echo \"words $* gpus $CUDA_VISIBLE_DEVICES auth $RAY_AUTH_MODE\"\n"
                             "case \"$FAKE:$*\" in\n"
                             "missing:*) echo \"ModuleNotFoundError: No module named 'ray'\"; exit 1;;\n"
                             "second:*--address=*) echo \"the port is taken\"; exit 1;;\n"
                             "late:*) exec sleep 100;;\n"
                             "esac\n"
                             "sleep 1000 &\n"
                             "echo \"child $!\"\n"
                             "echo \"Ray runtime started.\"\n"
                             "wait\n";

static int begin(void **state) {
    (void)state;
    char path[100];
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/python", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs(script, file) < 0 || fclose(file) || chmod(path, 0700)) return 1;
    return setenv("XDG_RUNTIME_DIR", folder, 1) || setenv("BERTH_PYTHON", path, 1);
}

static int finish(void **state) {
    (void)state;
    return run_line(COMMAND "down 2>&1; rm -rf %s", folder);
}

static void expect_nothing_is_left(void) {
    assert_int_equal(run_line("ls %s", folder), 0);
    assert_string_equal(output, "python\n");
}

static void misuse(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",       "sideways",   "up --nodes 0", "up --nodes 65", "up --cpus x", "up --store none",
        "up now", "status now", "down now",     "up --port 80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run_line(COMMAND "%s 2>&1", wrong[i]), 2);
        assert_says("berth cluster");
    }
    assert_int_equal(run_line(COMMAND "--help"), 0);
    assert_says("up [--nodes N]");
    expect_nothing_is_left();
}

static void nothing_is_up(void **state) {
    (void)state;
    assert_int_equal(run_line(COMMAND "status 2>&1"), 1);
    assert_says("no cluster is up");
    assert_int_equal(run_line(COMMAND "down"), 0);
    assert_says("no cluster was up");
    expect_nothing_is_left();
}

static void nodes_that_do_not_start(void **state) {
    (void)state;
    assert_int_equal(run_line("BERTH_PYTHON=/no/python " COMMAND "up 2>&1"), 1);
    assert_says("/no/python: No such file or directory; BERTH_PYTHON, or the flag ray_python");
    expect_nothing_is_left();
    assert_int_equal(run_line("FAKE=missing " COMMAND "up 2>&1"), 1);
    assert_says("Ray is missing: pip install \"ray>=2.50\"");
    expect_nothing_is_left();
    assert_int_equal(run_line("FAKE=second " COMMAND "up --nodes 3 2>&1"), 1);
    assert_says("node 1 has ended. The end of its log:");
    assert_says("the port is taken");
    expect_nothing_is_left();
    assert_int_equal(run_line("FAKE=late BERTH_FLAGS=ray_start_seconds=1 " COMMAND "up 2>&1"), 1);
    assert_says("node 0 does not start in time (flag ray_start_seconds)");
    expect_nothing_is_left();
}

/* The number behind the word in the log of a node. */
static pid_t child_of(int node) {
    assert_int_equal(run_line("sed -n 's/^child //p' %s/berth-cluster/node%d.log", folder, node), 0);
    return (pid_t)atoi(output);
}

static void nodes_start_and_end(void **state) {
    (void)state;
    pid_t children[3];
    assert_int_equal(run_line(COMMAND "up --nodes 3 --cpus 4 --gpus 2 --store 100M --port 7000"), 0);
    assert_says("3 nodes at ");
    assert_says(":7000, each with 4 CPUs and 2 GPUs");
    assert_says("BERTH_FLAGS=task_engine=ray,task_address=");
    assert_int_equal(run_line("cat %s/berth-cluster/node0.log", folder), 0);
    assert_says("words start --block --node-ip-address=");
    assert_says(" --port=7000 --num-cpus=4 --num-gpus=2 --object-store-memory=104857600 --disable-usage-stats --head ");
    assert_says("gpus 0,1 auth disabled");
    assert_int_equal(run_line("cat %s/berth-cluster/node2.log", folder), 0);
    assert_says(":7000 --num-cpus=4 --num-gpus=2");
    assert_silent_on("--head");
    assert_says("gpus 4,5 auth disabled");
    for (int i = 0; i < 3; i++) assert_int_equal(kill(children[i] = child_of(i), 0), 0);

    assert_int_equal(run_line(COMMAND "up 2>&1"), 1);
    assert_says("a cluster is up at ");
    assert_int_equal(run_line(COMMAND "status"), 0);
    assert_int_equal(count_said("alive"), 3);
    assert_int_equal(run_line("kill -9 $(" COMMAND
                              "status --json | sed -n 's/.*\"process\": \\([0-9]*\\).*/\\1/p' | sed -n 2p); " COMMAND
                              "status"),
                     1);
    assert_int_equal(count_said("alive"), 2);
    assert_int_equal(count_said("gone"), 1);
    assert_int_equal(run_line(COMMAND "down"), 0);
    assert_says("3 nodes ended");
    for (int i = 0; i < 3; i++) /* a killed child may wait for whoever reaps it */
        for (int tries = 0; kill(children[i], 0) == 0; tries++) {
            assert_int_equal(run_line("grep -c '^State:.Z' /proc/%d/status; true", (int)children[i]), 0);
            if (*output == '1') break;
            assert_true(tries < 100);
            usleep(20000);
        }
    expect_nothing_is_left();
}

static void what_others_left_is_refused(void **state) {
    (void)state;
    assert_int_equal(
        run_line("mkdir -m 700 %s/berth-cluster; echo nonsense > %s/berth-cluster/cluster.json", folder, folder), 0);
    assert_int_equal(run_line(COMMAND "status 2>&1"), 1);
    assert_says("cluster.json is damaged; remove it");
    assert_int_equal(run_line("chmod 777 %s/berth-cluster; " COMMAND "up 2>&1", folder), 1);
    assert_says("is not a folder that only this user may write to");
    assert_int_equal(run_line("rm -r %s/berth-cluster", folder), 0);
    expect_nothing_is_left();
}

static void write_state(pid_t process, const char *boot, const char *begun) {
    char path[100];
    snprintf(path, sizeof path, "%s/berth-cluster", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/berth-cluster/cluster.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"address\": \"1.2.3.4:5\", \"boot\": \"%s\", \"nodes\": [{\"process\": %d, \"begun\": %s}]}", boot,
            (int)process, begun);
    fclose(file);
}

/* The first line that it prints. */
static void read_line(const char *command, char line[100]) {
    assert_int_equal(run_line("%s", command), 0);
    snprintf(line, 100, "%.*s", (int)strcspn(output, "\n"), output);
}

/* A number that is another process's by now, and a state from before the machine was started again. */
static void processes_of_others_are_left_alone(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        char command[100], number[100], boot[100] = "an earlier one", begun[100] = "1";
        read_line("setsid sleep 1000 >/dev/null 2>&1 & echo $!", number);
        pid_t other = (pid_t)atoi(number);
        usleep(200000); /* it has a session of its own */
        snprintf(command, sizeof command, "sed 's/.*) //' /proc/%d/stat | cut -d' ' -f20", (int)other);
        if (i)
            read_line(command, begun);
        else
            read_line("cat /proc/sys/kernel/random/boot_id", boot);
        write_state(other, boot, begun);
        assert_int_equal(run_line(COMMAND "status 2>&1"), 1);
        assert_silent_on("alive");
        assert_int_equal(run_line(COMMAND "down 2>&1"), 0);
        assert_int_equal(kill(other, 0), 0);
        kill(other, SIGKILL);
        assert_int_equal(run_line("rm -rf %s/berth-cluster", folder), 0);
    }
    assert_int_equal(run_line("XDG_RUNTIME_DIR=/%0300d " COMMAND "down 2>&1", 1), 1);
    assert_says("is too long");
    expect_nothing_is_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(misuse),
                                       cmocka_unit_test(nothing_is_up),
                                       cmocka_unit_test(nodes_that_do_not_start),
                                       cmocka_unit_test(nodes_start_and_end),
                                       cmocka_unit_test(what_others_left_is_refused),
                                       cmocka_unit_test(processes_of_others_are_left_alone)};
    return cmocka_run_group_tests(tests, begin, finish);
}

/* The engine ray where its bridge, Python or Ray is missing, old, slow, or answers badly: errors that say so, within their time, and no process that
 * is left. No Ray is needed here; a real one is tests/cluster. */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

static bt_status add(bt_task *task) { return bt_return(task, 1); }
BT_REMOTE(add);

static char pid_file[] = "/tmp/berth-fake-bridge-XXXXXX";

static void use_fake(const char *mode) {
    fresh("task_engine=ray,ray_start_seconds=20");
    setenv("BERTH_PYTHON", BERTH_SOURCE_DIR "/tests/cluster/fake_bridge.py", 1);
    setenv("BERTH_FAKE_BRIDGE", mode, 1);
    setenv("BERTH_FAKE_PID", pid_file, 1);
}

/* The process of the bridge; it has ended, soon. */
static void expect_no_bridge(void) {
    int pid = 0;
    FILE *file = fopen(pid_file, "r");
    assert_non_null(file);
    int read = fscanf(file, "%d", &pid);
    fclose(file);
    if (read != 1) return;
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++) sleep_ms(10);
    assert_int_equal(kill(pid, 0), -1);
}

static void refuses(const char *mode, bt_status status, const char *text) {
    use_fake(mode);
    FAILS(bt_runtime_init(.address = "auto"), status, text);
    expect_no_bridge();
}

static void test_python_is_missing(void **state) {
    fresh("task_engine=ray");
    setenv("BERTH_PYTHON", "/nowhere/python3", 1);
    FAILS(bt_runtime_init(.num_cpus = 1), BT_NOT_FOUND, "/nowhere/python3", "BERTH_PYTHON", "No such file");
    OK(bt_set_flag("ray_python", "/tmp"));
    FAILS(bt_runtime_init(.num_cpus = 1), BT_NOT_FOUND, "/tmp cannot be started", "Permission denied");
}

static void test_bridge_that_answers_badly(void **state) {
    refuses("ends", BT_UNAVAILABLE, "has ended");
    refuses("garbage", BT_UNAVAILABLE, "is no answer");
    refuses("ends in a frame", BT_UNAVAILABLE, "has ended");
    refuses("no answer kind", BT_UNAVAILABLE, "is no answer");
    refuses("text too long", BT_UNAVAILABLE, "is no answer");
}

static void test_bridge_that_is_silent(void **state) {
    use_fake("silent");
    OK(bt_set_flag("ray_start_seconds", "1"));
    FAILS(bt_runtime_init(.address = "10.9.8.7:6379"), BT_DEADLINE_EXCEEDED, "10.9.8.7:6379", "1 seconds",
          "ray status");
    expect_no_bridge();
}

static void test_bridge_that_ends_later(void **state) {
    use_fake("ends later");
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        int n;
        bt_ref *ref = bt_remote(add);
        FAILS(bt_get(ref, &n), BT_UNAVAILABLE, "has ended");
        FAILS(bt_get_within(ref, 1, &n), BT_UNAVAILABLE, "has ended");
        assert_true(bt_resource_total("CPU") != bt_resource_total("CPU")); /* NaN */
    }
    OK(bt_runtime_shutdown());
    expect_no_bridge();
}

/* What a wait is answered with. */
static void expect_wait(const char *mode, bt_status status, const char *text) {
    use_fake(mode);
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        int n;
        FAILS(bt_get_within(bt_remote(add), 2, &n), status, text);
    }
    OK(bt_runtime_shutdown());
    expect_no_bridge();
}

static void test_values_that_are_none(void **state) {
    expect_wait("damaged value", BT_INTERNAL, "damaged");
    expect_wait("unknown state", BT_UNAVAILABLE, "is no answer");
    expect_wait("too many settled", BT_UNAVAILABLE, "is no answer");
    expect_wait("large of nothing", BT_UNAVAILABLE, "a value of 0 bytes, which is none");
    expect_wait("no number", BT_UNAVAILABLE, "which is none");
    expect_wait("larger than its file", BT_UNAVAILABLE, "shows a value of 1048576 bytes that it does not have");
    expect_wait("nothing is done", BT_DEADLINE_EXCEEDED, "not done");
}

static void test_answers_in_pieces(void **state) {
    use_fake("another request");
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        int n = 0;
        OK(bt_get(bt_remote(add), &n));
        assert_int_equal(n, 5);
    }
    OK(bt_runtime_shutdown());
}

static void test_options_that_a_cluster_has_not(void **state) {
    use_fake("nothing is done");
    FAILS(bt_runtime_init(.max_processes = 3), BT_UNIMPLEMENTED, "max_processes");
    FAILS(bt_runtime_init(.spill_folder = "/tmp"), BT_UNIMPLEMENTED, "spill_folder");
    FAILS(bt_runtime_init(.gpu_wait_seconds = -1), BT_UNIMPLEMENTED, "gpu_wait_seconds");
    FAILS(bt_runtime_init(.accelerator = "H100"), BT_UNIMPLEMENTED, "accelerator");
    FAILS(bt_runtime_init(.store_bytes = 1 << 20), BT_UNIMPLEMENTED, "store_bytes");
    OK(bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        bt_ref *ref = bt_remote_with(BT_OPTIONS(.priority = 3), add);
        FAILS(bt_get(ref, NULL), BT_UNIMPLEMENTED, "priority");
        ref = bt_remote_with(BT_OPTIONS(.gpu_memory = 1e9), add);
        FAILS(bt_get(ref, NULL), BT_UNIMPLEMENTED, "gpu_memory", "num_gpus = 0.5");
    }
    OK(bt_runtime_shutdown());
}

/* The real bridge, and a package that is named as Ray. */
static void expect_ray(const char *text, bt_status status, const char *first, const char *second) {
    char folder[] = "/tmp/berth-no-ray-XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ray.py", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    fresh("task_engine=ray");
    unsetenv("BERTH_PYTHON");
    setenv("PYTHONPATH", folder, 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    FAILS(bt_runtime_init(.num_cpus = 1), status, first, second);
    unsetenv("PYTHONPATH");
    unlink(path);
    rmdir(folder);
}

static void test_ray_is_missing_or_old(void **state) {
    expect_ray("raise ImportError('nothing here')\n", BT_UNAVAILABLE, "cannot import Ray (nothing here)",
               "pip install \"ray>=");
    expect_ray("__version__ = '1.13.0'\n", BT_UNIMPLEMENTED, "Ray 1.13.0", "too old");
    expect_ray("__version__ = '2.60.0'\nraise ValueError('broken')\n", BT_UNAVAILABLE, "the bridge to Ray failed",
               "broken");
}

/* A program that is killed leaves no bridge. */
static void test_program_is_killed(void **state) {
    use_fake("nothing is done");
    pid_t child = fork();
    if (!child) {
        if (bt_runtime_init(.num_cpus = 1) != BT_OK) _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    expect_no_bridge();
}

/* The bridge is no child of the program. */
static void test_wait_sees_no_bridge(void **state) {
    use_fake("nothing is done");
    OK(bt_runtime_init(.num_cpus = 1));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    FAILS(bt_runtime_init(.num_cpus = 1), BT_ALREADY_EXISTS);
    OK(bt_runtime_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_python_is_missing, end_runtime),
        cmocka_unit_test_teardown(test_bridge_that_answers_badly, end_runtime),
        cmocka_unit_test_teardown(test_bridge_that_is_silent, end_runtime),
        cmocka_unit_test_teardown(test_bridge_that_ends_later, end_runtime),
        cmocka_unit_test_teardown(test_values_that_are_none, end_runtime),
        cmocka_unit_test_teardown(test_answers_in_pieces, end_runtime),
        cmocka_unit_test_teardown(test_options_that_a_cluster_has_not, end_runtime),
        cmocka_unit_test_teardown(test_ray_is_missing_or_old, end_runtime),
        cmocka_unit_test_teardown(test_program_is_killed, end_runtime),
        cmocka_unit_test_teardown(test_wait_sees_no_bridge, end_runtime),
    };
    if (system("python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'") != 0)
        return puts("skipped: no python3 from 3.9 on"), 77;
    int file = mkstemp(pid_file);
    if (file < 0) return 1;
    close(file);
    int failed = cmocka_run_group_tests(tests, NULL, fresh_end);
    unlink(pid_file);
    return failed;
}

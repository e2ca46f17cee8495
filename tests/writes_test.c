/* Files that grow past RLIMIT_FSIZE, and pipes that nobody reads: errors, not signals that end the process. What a poisoned array prints. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/support.h"

static char folder[] = "/tmp/berth-writes-XXXXXX";

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static rlim_t limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

static volatile int handled;
static void handle(int number) { handled += number == SIGXFSZ || number == SIGPIPE; }

static void expect_no_signal(void) {
    sigset_t set;
    assert_int_equal(sigpending(&set), 0);
    assert_false(sigismember(&set, SIGXFSZ) || sigismember(&set, SIGPIPE));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    assert_false(sigismember(&set, SIGXFSZ) || sigismember(&set, SIGPIPE));
    assert_int_equal(handled, 0);
}

static void saves_past_the_limit(void **state) {
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 5000);
        bt_layer *model = bt_dense(100, 100, NULL, bt_key(1));
        bt_profile *profile = bt_profile_start();
        assert_non_null(profile);
        OK(bt_block(bt_add(x, x)));
        rlim_t before = limit_files(1000);
        bt_status save = bt_save(path_of("a"), (const char *const[]){"x"}, &x, 1, NULL),
                  npy = bt_save_npy(path_of("b"), x), saved = bt_save_model(path_of("c"), model),
                  npz = bt_save_npz(path_of("d"), (const char *const[]){"x"}, &x, 1, false),
                  shards =
                      bt_save_shards(path_of("e.safetensors.index.json"), (const char *const[]){"x"}, &x, 1, NULL, 9);
        char *text = NULL;
        bt_status traced = bt_profile_stop(profile, path_of("trace"), &text);
        limit_files(before);
        assert_int_equal(save, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(npy, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(saved, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(npz, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(shards, BT_RESOURCE_EXHAUSTED);
        assert_int_not_equal(traced, BT_OK);
        bt_free(text);
        assert_non_null(strstr(bt_error_text(), "File too large"));
        assert_int_not_equal(access(path_of("a"), F_OK), 0);
        assert_int_not_equal(access(path_of("d"), F_OK), 0);
        assert_int_not_equal(access(path_of("e-00001-of-00001.safetensors"), F_OK), 0);
        expect_no_signal();
        OK(bt_save_npy(path_of("b"), x));
        assert_int_equal(unlink(path_of("b")), 0);
        unlink(path_of("trace"));
    }
}

static void a_runtime_past_the_limit(void **state) {
    rlim_t before = limit_files(1000);
    bt_status status = bt_runtime_init(.num_cpus = 1);
    limit_files(before);
    if (status == BT_OK)
        OK(bt_runtime_shutdown());
    else
        assert_non_null(strstr(bt_error_text(), "File too large"));
    expect_no_signal();
}

/* What is written to a descriptor while `call` runs goes to the file. */
static int redirect(int fd, const char *path) {
    int before = dup(fd), to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(before >= 0 && to >= 0);
    dup2(to, fd);
    close(to);
    return before;
}
static void restore(int fd, int before) {
    dup2(before, fd);
    close(before);
}
static const char *content(const char *path) {
    static char text[1000];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

static void a_poisoned_array_is_told_on_standard_error(void **state) {
    fflush(stdout);
    int out = redirect(STDOUT_FILENO, path_of("out")), err = redirect(STDERR_FILENO, path_of("err"));
    BT_SCOPE {
        bt_print(bt_ones(BT_F32, 2));
        bt_print(bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3)));
    }
    fflush(stdout);
    restore(STDOUT_FILENO, out);
    restore(STDERR_FILENO, err);
    assert_string_equal(content(path_of("out")), "bt_array([1. 1.], shape=(2,), dtype=float32)\n");
    const char *told = content(path_of("err"));
    assert_non_null(strstr(told, "bt_array(poisoned: writes_test.c:"));
    assert_non_null(strstr(bt_error_text(), "bt_add"));
}

/* The log of a process whose standard error nobody reads any more. */
static void a_closed_standard_error(void **state) {
    int ends[2];
    fflush(stderr);
    assert_int_equal(pipe(ends), 0);
    int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    bt_set_log_sink(NULL, NULL);
    BT_SCOPE {
        OK(bt_block(bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 2))));
    }
    BT_SCOPE {
        bt_print(bt_add(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3)));
    }
    fflush(stderr);
    clearerr(stderr);
    restore(STDERR_FILENO, before);
    expect_no_signal();
}

int main(void) {
    assert_non_null(mkdtemp(folder));
    signal(SIGXFSZ, handle);
    signal(SIGPIPE, handle);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runtime_past_the_limit), /* before devices are opened */
        cmocka_unit_test(saves_past_the_limit),
        cmocka_unit_test(a_poisoned_array_is_told_on_standard_error),
        cmocka_unit_test(a_closed_standard_error),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}

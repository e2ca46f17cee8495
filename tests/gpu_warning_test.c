// timeout: 120
/* A task that did not ask for a GPU uses one that another task holds: one line of the log names both. Simulated GPUs, and those of tests/fakes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/support.h"

#undef OK
#define OK(call) CHECK((call) == BT_OK)

static char folder[64], log_path[100], machine_path[100];

/* Each test is a process of its own, whose standard error is a file. */
static void in_process(int (*fn)(void)) {
    char line[120];
    snprintf(folder, sizeof folder, "/tmp/berth-gpu-warning-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(machine_path, sizeof machine_path, "%s/machine.json", folder);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        alarm(2 * SOON);
        setenv("BERTH_LEASES", folder, 1);
        unsetenv("CUDA_VISIBLE_DEVICES");
        if (!freopen(log_path, "w+", stderr)) _exit(9);
        setvbuf(stderr, NULL, _IONBF, 0);
        _exit(fn());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status) {
        snprintf(line, sizeof line, "cat %s", log_path);
        (void)!system(line);
    }
    snprintf(line, sizeof line, "rm -rf --one-file-system '%s'", folder);
    assert_int_equal(system(line), 0);
    assert_int_equal(status, 0);
}

/* How many lines of the log say this. */
static int lines_with(const char *part) {
    char line[1000];
    int count = 0;
    FILE *file = fopen(log_path, "r");
    while (file && fgets(line, sizeof line, file)) count += strstr(line, part) != NULL;
    if (file) fclose(file);
    return count;
}

/* What workers log goes through another process. */
static bool comes(const char *part) {
    for (int i = 0; i < 20000 && !lines_with(part); i++) usleep(1000);
    return lines_with(part) == 1;
}

/* --- devices that berth opens ------------------------------------------------------------------------------------------ */

static bt_status make_holder(bt_task *task) { return bt_set_state(task, NULL, NULL), BT_OK; }
BT_REMOTE(make_holder, .num_gpus = 1);

static bt_status tell_pid(bt_task *task) { return bt_return(task, getpid()); }
BT_REMOTE(tell_pid);

static bt_status use_gpu(bt_task *task) {
    int index;
    float sum;
    char name[20];
    bt_status status = bt_argument(task, 0, &index);
    if (status != BT_OK) return status;
    snprintf(name, sizeof name, "gpu:%d", index);
    bt_array *x = NULL;
    BT_ON(name) x = bt_sum(bt_ones(BT_F32, 5), BT_ALL, false);
    status = bt_read(x, &sum, sizeof sum);
    return status == BT_OK ? bt_return(task, getpid()) : status;
}
BT_REMOTE(use_gpu);

static int simulated(void) {
    int holder, user, second;
    char text[300];
    setenv("BERTH_FLAGS", "devices=sim:gpu*4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,1,2", 1);
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = 3));
    BT_SCOPE {
        bt_actor *first = bt_actor_new(make_holder); /* the program's GPU 0, which is the machine's 3 */
        OK(bt_get(bt_method(first, tell_pid), &holder));
        OK(bt_get(bt_remote(use_gpu, 1), &user));
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), use_gpu, 0), NULL));
        while (bt_resource_free("GPU") < 2) usleep(1000); /* its process has ended */
        CHECK(lines_with("which") == 0);
        for (int i = 0; i < 3; i++) OK(bt_get(bt_remote(use_gpu, 0), &second));
        CHECK(second == user); /* or the rest says nothing */
        snprintf(text, sizeof text, "use_gpu (process %d) uses GPU 3, which make_holder (process %d) holds", user,
                 holder);
        CHECK(comes(text) && lines_with("which") == 1);
        bt_actor *next = bt_actor_new(make_holder); /* the GPU that the worker has open already */
        OK(bt_get(bt_method(next, tell_pid), &holder));
        for (int i = 0; i < 3; i++) OK(bt_get(bt_remote(use_gpu, 2), NULL));
        snprintf(text, sizeof text, "(process %d) uses GPU 1, which make_holder (process %d) holds", user, holder);
        CHECK(comes(text) && lines_with("which") == 2);
    }
    return bt_runtime_shutdown() != BT_OK;
}

static void a_device_that_another_task_holds(void **state) {
    (void)state;
    in_process(simulated);
}

/* --- whatever library uses them ------------------------------------------------------------------------------------------ */

static void write_machine(int pid, int other) {
    char temporary[120];
    snprintf(temporary, sizeof temporary, "%s.new", machine_path);
    FILE *file = fopen(temporary, "w");
    if (!file) return;
    fprintf(
        file,
        "{\"live\": true, \"devices\": [{\"uuid\": \"GPU-aaaaaaaa-0000-0000-0000-000000000001\", \"memory\": 67108864,"
        " \"processes\": [{\"pid\": %d, \"bytes\": 1000000}, {\"pid\": %d, \"bytes\": 1000}]}]}",
        pid, other);
    fclose(file);
    rename(temporary, machine_path);
}

/* It has the GPU together with a process that did not ask for it. */
static bt_status share_gpu(bt_task *task) {
    int other;
    bt_status status = bt_argument(task, 0, &other);
    if (status != BT_OK) return status;
    write_machine(1, other);
    return bt_return(task, getpid());
}
BT_REMOTE(share_gpu, .num_gpus = 1);

static int of_nvml(void) {
    int user, holder;
    char text[300];
    snprintf(text, sizeof text, "cuda_path=%s/fakes,probe=direct,cache=off", BERTH_BUILD_DIR);
    setenv("BERTH_FLAGS", text, 1);
    setenv("BERTH_FAKE_MACHINE", machine_path, 1);
    write_machine(1, 1);
    OK(bt_runtime_init(.num_cpus = 1, .num_gpus = BT_DETECT));
    BT_SCOPE {
        OK(bt_get(bt_remote(tell_pid), &user));
        OK(bt_get(bt_remote(share_gpu, 1), &holder));
        OK(bt_get(bt_remote(share_gpu, user), &holder));
        OK(bt_get(bt_remote(share_gpu, user), NULL)); /* begins when the GPU of the one before has been looked at */
        OK(bt_get(bt_remote(share_gpu, user), NULL));
        snprintf(text, sizeof text,
                 "(process %d) has memory of CUDA_VISIBLE_DEVICES=0, which share_gpu (process %d) held", user, holder);
        CHECK(comes(text) && lines_with("which") == 1);
    }
    return bt_runtime_shutdown() != BT_OK;
}

static void memory_that_nvml_lists(void **state) {
    (void)state;
    in_process(of_nvml);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_another_task_holds),
        cmocka_unit_test(memory_that_nvml_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

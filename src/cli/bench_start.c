/* Rows of `berth bench`: compiling a new kernel, and starting a process. */
#include "cli/bench_start.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_text.h"
#include "cli/bench_inputs.h"
#include "cli/cli.h"

/* So few elements that running the kernel takes a fraction of compiling it. */
enum { COMPILE_COUNT = 1 << 18, OPERATIONS = 5, KINDS = 8 };

static bool prepare_compile(bench_work *work) {
    work->inputs[0] = bench_floats(1, 0.5f, 1.5f, BT_SHAPE(COMPILE_COUNT));
    return true;
}

static bt_array *add_operation(int kind, bt_array *y, bt_array *x) {
    switch (kind) {
    case 0: return bt_sin(y);
    case 1: return bt_cos(y);
    case 2: return bt_tanh(y);
    case 3: return bt_atan(y);
    case 4: return bt_add(y, x);
    case 5: return bt_sub(y, x);
    case 6: return bt_mul(y, x);
    default: return bt_maximum(y, x);
    }
}

/* One of the 8^5 chains of five operations, another one in each repetition: the octal digits of a number choose the operations. */
static bt_array *make_new_chain(const bench_work *work) {
    uint32_t program = (uint32_t)(work->repetition * 12347 + 4242);
    bt_array *x = work->inputs[0], *y = x;
    for (int i = 0; i < OPERATIONS; i++, program /= KINDS) y = add_operation((int)(program % KINDS), y, x);
    return y;
}

/* Sets the flag `kernels`, because a kernel that runs once would not be compiled. */
static bt_array *run_compile(bench_work *work) {
    char before[32];
    bt_array *result = make_new_chain(work);
    if (bt_get_flag("kernels", before, sizeof before) != BT_OK || bt_set_flag("kernels", "compiled") != BT_OK)
        return result;
    bool computed = bt_block(result) == BT_OK; /* on errors the caller waits for it, and gets them */
    return bt_set_flag("kernels", before) == BT_OK || !computed ? result : NULL;
}

static bool add_two_arrays(float sum[2]) {
    bt_array *x = BT_ARRAY(float, (2), 1, 2), *y = BT_ARRAY(float, (2), 3, 4);
    return bt_read(bt_add(x, y), sum, 2 * sizeof *sum) == BT_OK;
}

/* Seconds since the process was started; /proc gives its start in clock ticks since the machine was started. */
static double process_age(void) {
    char text[1024], *rest;
    unsigned long long ticks = 0;
    struct timespec now;
    bti_file_text("/proc/self/stat", text, sizeof text);
    if (!(rest = strrchr(text, ')')) ||
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ticks) !=
            1 ||
        clock_gettime(CLOCK_BOOTTIME, &now))
        return 0;
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* The times of each step until the first result, the sum of two arrays; then of the same again, and of another kernel. */
int bench_first_result(char **argv, const char *device) {
    static const char *const steps[] = {"process", "probe", "open", "first", "again", "other", "close"};
    enum { STEPS = sizeof steps / sizeof *steps };
    double times[STEPS + 1] = {bti_now_seconds() - process_age(), bti_now_seconds()}, result_s = 0;
    float sum[2];
    bt_device *found = NULL;
    bool good = bt_device_find(device, &found) == BT_OK && bt_set_default_device(device) == BT_OK;
    times[2] = bti_now_seconds();
    BT_SCOPE {
        good = good && bt_block(BT_ARRAY(float, (2), 1, 2)) == BT_OK;
        times[3] = bti_now_seconds();
        good = good && add_two_arrays(sum);
        times[4] = bti_now_seconds();
        result_s = times[4] - times[0];
        good = good && add_two_arrays(sum);
        times[5] = bti_now_seconds();
        good = good && bt_block(bt_mul(bt_arange(0, 4, 1, BT_F32), bt_num(3))) == BT_OK;
        times[6] = bti_now_seconds();
    }
    if (!good) return cli_error(argv, "no first result");
    if (bt_shutdown() != BT_OK) return cli_error(argv, "the devices cannot be closed");
    times[7] = bti_now_seconds();
    json_t *ledger = json_pack("{s:s, s:f, s:f}", "device", device, "first_result_s", result_s, "compile_and_load_s",
                               times[4] - times[3] - (times[5] - times[4]));
    for (int i = 0; i < STEPS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_s", steps[i]);
        json_object_set_new(ledger, key, json_real(times[i + 1] - times[i]));
    }
    return cli_print_json(ledger);
}

int bench_startup_probe(char **argv, const char *device) {
    float sum[2];
    if (bt_set_default_device(device) != BT_OK || !add_two_arrays(sum))
        return cli_error(argv, "two arrays cannot be added");
    printf("%g %g\n", (double)sum[0], (double)sum[1]);
    return CLI_OK;
}

/* Starts this program with the arguments. Returns the reading end of its standard output; -1 when it cannot be started. */
static int start_child(char *const *arguments, pid_t *child) {
    int ends[2], output = -1;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC)) return -1;
    if (!posix_spawn_file_actions_init(&actions)) {
        if (!posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) &&
            !posix_spawn(child, "/proc/self/exe", &actions, NULL, arguments, environ))
            output = ends[0];
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (output < 0) close(ends[0]);
    return output;
}

static bt_array *run_startup(bench_work *work) {
    char device[64];
    char *arguments[] = {"berth", "bench", "--startup-probe", "--device", device, NULL};
    snprintf(device, sizeof device, "%s", work->target->device);
    float sum[2] = {0};
    pid_t child;
    int status = -1, output = start_child(arguments, &child), numbers = 0;
    FILE *text = output < 0 ? NULL : fdopen(output, "r");
    if (text) {
        numbers = fscanf(text, "%f %f", &sum[0], &sum[1]);
        fclose(text);
    }
    if (output >= 0) waitpid(child, &status, 0);
    return bt_from(numbers == 2 && !status ? sum : NULL, BT_F32, BT_SHAPE(2)); /* without data: poisoned */
}

const bench_row bench_start_rows[BENCH_START_ROWS] = {
    {"compile", "a new kernel of five operations, 262,144 elements", prepare_compile, run_compile, .steps = 1},
    {"startup", "a process that adds two arrays", NULL, run_startup, .steps = 1},
};

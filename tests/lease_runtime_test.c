// Leases of programs that run tasks: who keeps them, and for how long.
// timeout: 120
#include <errno.h>

#include "lease_board.h"

/* --- programs that tests start ---------------------------------------------------------------------------------------- */

/* What a program tells: a word on its standard output, which is a pipe here. */
static __attribute__((format(printf, 1, 2))) void tell(const char *format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (write(STDOUT_FILENO, text, (size_t)length) != length) _exit(9);
}

static bt_status stay(bt_task *task) {
    (void)task;
    tell("%d ", (int)getpid());
    while (pause()) continue;
    return BT_OK;
}
BT_REMOTE(stay);

/* The process that starts workers, and a worker. */
static int run_one_task(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 8;
    bt_ref *ref = bt_remote(stay);
    return bt_get(ref, NULL) != BT_OK;
}

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {{"one_task", run_one_task}};

/* --- starting them ------------------------------------------------------------------------------------------------------ */

typedef struct started {
    pid_t pid;
    FILE *says;
} started;

static started start_program(const char *before, const char *name) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    started s = {.pid = fork()};
    assert_true(s.pid >= 0);
    if (!s.pid) {
        char line[1200];
        dup2(ends[1], STDOUT_FILENO);
        snprintf(line, sizeof line, "exec %s %s %s", before, own, name);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(126);
    }
    close(ends[1]);
    s.says = fdopen(ends[0], "r");
    assert_non_null(s.says);
    return s;
}

static int next_number(const started *s) {
    int number = -1;
    if (fscanf(s->says, "%d", &number) != 1) fail_msg("the program told no number");
    return number;
}

static pid_t parent_of(pid_t pid) {
    char path[64];
    int parent = -1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = -1;
    if (file) fclose(file);
    return parent;
}

static void await_free(int gpus) {
    for (int i = 0;; i++) {
        bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = gpus));
        bt_lease_release(lease);
        if (lease) return;
        if (i == 6000) fail_msg("%s", bt_error_text());
        sleep_ms(5);
    }
}

/* --- who keeps a lease ------------------------------------------------------------------------------------------------- */

static void workers_hold_the_lease_of_their_program(void **state) {
    started program = start_program(COMMAND " run --gpus 4 --", "one_task");
    pid_t worker = next_number(&program), nest = parent_of(worker);
    assert_true(nest > 1 && nest != program.pid);
    kill(nest, SIGSTOP); /* it ends its workers when the program is gone; not yet */
    kill(program.pid, SIGKILL);
    assert_int_equal(end_of(program.pid), 128 + SIGKILL);
    assert_int_equal(kill(worker, 0), 0);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
    kill(nest, SIGCONT);
    await_free(4);
    fclose(program.says);
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(argv[1], programs[i].name)) return programs[i].run();
    find_own_path();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(workers_hold_the_lease_of_their_program, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

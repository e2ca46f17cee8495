// Leases of programs that run tasks: which GPUs they hand out, who keeps the leases, and for how long. No real GPU: the GPUs are those of tests/fakes.
// timeout: 120
#include <errno.h>

#include "lease_board.h"

/* --- programs that tests start ---------------------------------------------------------------------------------------- */

/* What a program tells: a word on its standard output, which is a pipe here. */
static __attribute__((format(printf, 1, 2))) void tell(const char *format, ...) {
    char text[3000];
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

/* Tells which GPUs it has, "[0,1] 0 1". */
static bt_status show(bt_task *task) {
    int ids[64], count = bt_get_gpu_ids(ids, 64);
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    char text[400];
    int length = snprintf(text, sizeof text, "[%s]", mask ? mask : "unset");
    for (int i = 0; i < count; i++) length += snprintf(text + length, sizeof text - (size_t)length, " %d", ids[i]);
    tell("%s\n", text);
    return bt_return(task, count);
}
BT_REMOTE(show);

/* What it is to do stands in its environment. */
static double wished(const char *name) {
    const char *text = getenv(name);
    return text ? atof(text) : 0;
}

static bt_status init_as_wished(void) {
    int gpus = (int)wished("GPUS");
    return bt_runtime_init(.num_cpus = 1, .num_gpus = gpus < 0 ? BT_DETECT : gpus, .gpu_wait_seconds = wished("WAIT"));
}

/* Hands out what it got and keeps it until its input ends, or tells why it got none. */
static int run_hand_out(void) {
    char byte;
    if (init_as_wished() != BT_OK) {
        tell("%s: %s\n", bt_status_name(bt_error_status()), bt_error_text());
        return 3;
    }
    BT_SCOPE
        if (bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = bt_resource_total("GPU")), show), NULL) != BT_OK)
            tell("%s\n", bt_error_text());
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    return bt_runtime_shutdown() != BT_OK;
}

static int run_keep(void) {
    if (init_as_wished() != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 8;
    bt_ref *ref = bt_remote_with(BT_OPTIONS(.num_gpus = 1), stay);
    return bt_get(ref, NULL) != BT_OK;
}

/* A lease of its own, which it gives back too early. */
static int run_own_lease(void) {
    bt_lease *other = bt_lease_take(BT_LEASE(.num_gpus = 2));
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2));
    bt_lease_release(other);
    if (!lease || init_as_wished() != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 3;
    bt_lease_release(lease);
    BT_SCOPE
        if (bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 2), show), NULL) != BT_OK) tell("%s\n", bt_error_text());
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    return bt_runtime_shutdown() != BT_OK;
}

/* Runs another program that hands out a GPU. */
static bt_status start_another(bt_task *task) {
    char line[500];
    fflush(NULL);
    snprintf(line, sizeof line, "GPUS=1 %s hand_out < /dev/null", getenv("OWN"));
    int code = system(line);
    return bt_return(task, WIFEXITED(code) ? WEXITSTATUS(code) : -1);
}
BT_REMOTE(start_another);

static int run_nested(void) {
    int code = -1;
    if (init_as_wished() != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 3;
    BT_SCOPE {
        if (bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), start_another), &code) != BT_OK || code) return 4;
        if (bt_get(bt_remote(start_another), &code) != BT_OK) return 5;
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* A runtime that could not be started has nothing. */
static int run_failing(void) {
    for (int i = 0; i < 3; i++)
        if (bt_runtime_init(.num_cpus = 1, .num_gpus = 4, .resources = {{"CPU", 1}}) != BT_INVALID_ARGUMENT) return 3;
    bt_error_clear();
    tell("failed\n");
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    return 0;
}

/* A program whose standard input was closed. */
static int run_closed(void) {
    close(STDIN_FILENO);
    if (init_as_wished() != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 8;
    bt_ref *ref = bt_remote(stay);
    return bt_get(ref, NULL) != BT_OK;
}

static bt_status note(bt_task *task) {
    int ids[GPUS], count = bt_get_gpu_ids(ids, GPUS);
    board *b = open_board(getenv("BOARD"));
    enter(b, ids, count, 0);
    sleep_ms(2);
    go(b, ids, count, 0);
    return bt_return(task, count);
}
BT_REMOTE(note);

/* Runtimes one after another, of as many GPUs as chance says. */
static int run_many(void) {
    unsigned random = (unsigned)getpid();
    for (int i = 0; i < 8; i++) {
        int count = 0;
        random = random * 1103515245u + 12345u;
        int gpus = 1 + (int)((random >> 16) % GPUS);
        if (bt_runtime_init(.num_cpus = 1, .num_gpus = gpus, .gpu_wait_seconds = -1) != BT_OK)
            return fprintf(stderr, "%s\n", bt_error_text()), 3;
        BT_SCOPE {
            bt_ref *refs[3];
            for (int r = 0; r < 3; r++)
                refs[r] = bt_remote_with(BT_OPTIONS(.num_gpus = r ? 1 : gpus, .num_cpus = 0), note);
            for (int r = 0; r < 3; r++)
                if (bt_get(refs[r], &count) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 4;
        }
        if (bt_runtime_shutdown() != BT_OK) return 5;
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {{"one_task", run_one_task}, {"hand_out", run_hand_out}, {"own_lease", run_own_lease},
                {"keep", run_keep},         {"nested", run_nested},     {"failing", run_failing},
                {"closed", run_closed},     {"many", run_many}};

/* --- starting them ------------------------------------------------------------------------------------------------------ */

typedef struct started {
    pid_t pid;
    int input; /* it goes on until this is closed */
    FILE *says;
} started;

static started start_program(const char *before, const char *name) {
    int ends[2], input[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    fflush(NULL);
    started s = {.pid = fork()};
    assert_true(s.pid >= 0);
    if (!s.pid) {
        char line[1200];
        dup2(ends[1], STDOUT_FILENO);
        dup2(input[0], STDIN_FILENO);
        snprintf(line, sizeof line, "exec env %s %s %s", before, own, name);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(126);
    }
    close(ends[1]);
    close(input[0]);
    s.input = input[1];
    s.says = fdopen(ends[0], "r");
    assert_non_null(s.says);
    return s;
}

static int next_number(const started *s) {
    int number = -1;
    if (fscanf(s->says, "%d", &number) != 1) fail_msg("the program told no number");
    return number;
}

static const char *next_line(const started *s) {
    static char line[1000];
    if (!fgets(line, sizeof line, s->says)) fail_msg("the program told nothing");
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static int end_program(started *s) {
    close(s->input);
    int code = end_of(s->pid);
    fclose(s->says);
    return code;
}

static void expect_line(const started *s, const char *line) { assert_string_equal(next_line(s), line); }

/* Starts one that hands out GPUs, and waits until it has them or tells why not. */
static started hand_out(const char *before, const char *line) {
    started s = start_program(before, "hand_out");
    if (line) expect_line(&s, line);
    return s;
}

/* It cannot have them: says this, and ends. */
static void refused(const char *before, const char *status, const char *part) {
    started s = hand_out(before, NULL);
    const char *line = next_line(&s);
    if (strncmp(line, status, strlen(status)) || !strstr(line, part)) fail_msg("%s: not %s, %s", line, status, part);
    assert_int_equal(end_program(&s), 3);
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
    close(program.input);
    fclose(program.says);
}

/* --- what runtimes hand out ------------------------------------------------------------------------------------------- */

static char machine_path[240];

/* Four GPUs that are not simulated; no process of this test opens them. */
static int set_up_machine(void **state) {
    char flags[300];
    if (set_up(state)) return 1;
    snprintf(machine_path, sizeof machine_path, "%s/machine.json", folder);
    FILE *file = fopen(machine_path, "w");
    if (!file) return 1;
    fprintf(file, "{\"devices\": [");
    for (int g = 0; g < GPUS; g++)
        fprintf(file,
                "%s{\"uuid\": \"GPU-f0000000-0000-0000-0000-00000000000%d\", \"pci\": \"0000:%d1:00.0\", "
                "\"memory\": 1073741824}",
                g ? ", " : "", g, g);
    fprintf(file, "]}");
    fclose(file);
    snprintf(flags, sizeof flags, "cuda_path=%s/fakes,probe=direct,cache=off", BERTH_BUILD_DIR);
    setenv("BERTH_FLAGS", flags, 1);
    setenv("BERTH_FAKE_MACHINE", machine_path, 1);
    setenv("BOARD", board_path, 1);
    setenv("OWN", own, 1);
    return 0;
}

static void two_programs_never_hand_out_the_same(void **state) {
    char holder[100];
    started a = hand_out("GPUS=1", "[0] 0"), b = hand_out("GPUS=1", "[1] 1"), c = hand_out("GPUS=2", "[2,3] 2 3");
    snprintf(holder, sizeof holder, "GPU 0 is held by process %d since ", (int)a.pid);
    refused("GPUS=1", "RESOURCE_EXHAUSTED", holder);
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "there is no GPU free: ");
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "hand_out)");
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "(.gpu_wait_seconds makes it wait)");
    refused("GPUS=-1", "RESOURCE_EXHAUSTED", "there are no 4 GPUs free");
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    assert_int_equal(end_program(&b), 0);
    started d = hand_out("GPUS=1", "[1] 1");
    started none = hand_out("GPUS=0", "[]");
    assert_int_equal(end_program(&none), 0);
    assert_int_equal(end_program(&a), 0);
    assert_int_equal(end_program(&c), 0);
    assert_int_equal(end_program(&d), 0);
    started all = hand_out("GPUS=-1", "[0,1,2,3] 0 1 2 3");
    assert_int_equal(end_program(&all), 0);
}

static void masks_are_kept_to(void **state) {
    started a = hand_out(
        "CUDA_VISIBLE_DEVICES=GPU-f0000000-0000-0000-0000-000000000002,GPU-f0000000-0000-0000-0000-000000000000 GPUS=1",
        "[GPU-f0000000-0000-0000-0000-000000000002] 0");
    started b = hand_out("CUDA_VISIBLE_DEVICES=3,2,1,9 GPUS=2", "[3,1] 3 1");
    refused("CUDA_VISIBLE_DEVICES=1,2 GPUS=-1", "RESOURCE_EXHAUSTED", "GPU 2 is held by");
    started c = hand_out("GPUS=-1 CUDA_VISIBLE_DEVICES=GPU-f0000000-0000-0000-0000-000000000000",
                         "[GPU-f0000000-0000-0000-0000-000000000000] 0");
    assert_int_equal(end_program(&a), 0);
    assert_int_equal(end_program(&b), 0);
    assert_int_equal(end_program(&c), 0);
}

static void numbers_beyond_the_machine_are_numbers(void **state) {
    started a = hand_out("GPUS=6", "[0,1,2,3,4,5] 0 1 2 3 4 5");
    refused("GPUS=5", "RESOURCE_EXHAUSTED", "there are no 4 GPUs free");
    assert_int_equal(end_program(&a), 0);
    setenv("BERTH_FLAGS", "devices=sim:gpu*2", 1);
    a = hand_out("GPUS=2", "[0,1] 0 1");
    started b = hand_out("GPUS=-1", "[0,1] 0 1"); /* simulated ones are each program's own */
    assert_int_equal(end_program(&a), 0);
    assert_int_equal(end_program(&b), 0);
}

static void init_waits_for_gpus(void **state) {
    started a = hand_out("GPUS=3", "[0,1,2] 0 1 2");
    refused("GPUS=2 WAIT=0.1", "DEADLINE_EXCEEDED", "there are no 2 GPUs free after 0.1");
    started b = hand_out("GPUS=2 WAIT=-1", NULL);
    await_count(0, "waiters", 1);
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "is waited for by"); /* it would overtake the one that wants two */
    kill(a.pid, SIGKILL);
    assert_int_equal(end_of(a.pid), 128 + SIGKILL);
    expect_line(&b, "[0,1] 0 1");
    close(a.input);
    fclose(a.says);
    assert_int_equal(end_program(&b), 0);
}

/* A GPU that is split by MIG is its instances, each a device of its own. */
static void instances_are_handed_out(void **state) {
#define PART(n) "MIG-f0000000-0000-0000-0000-00000000000" #n
    FILE *file = fopen(machine_path, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"devices\": [{\"uuid\": \"GPU-f0000000-0000-0000-0000-000000000000\", \"mig\": true, \"instances\": ["
            "{\"uuid\": \"" PART(1) "\", \"memory\": 1048576}, {\"uuid\": \"" PART(
                2) "\", \"memory\": 1048576}, null, "
                   "{\"uuid\": \"" PART(3) "\", \"memory\": 1048576}]}]}");
    fclose(file);
    started a = hand_out("GPUS=1", "[" PART(1) "] 0"), b = hand_out("GPUS=1", "[" PART(2) "] 1");
    refused("GPUS=2", "RESOURCE_EXHAUSTED", "GPU 1 is held by");
    refused("GPUS=-1 CUDA_VISIBLE_DEVICES=" PART(2), "RESOURCE_EXHAUSTED", "there is no GPU free");
    started c = hand_out("GPUS=1 " COMMAND " run --gpus 1 --", "[" PART(3) "] 0");
    assert_int_equal(end_program(&b), 0);
    b = hand_out("GPUS=-1 CUDA_VISIBLE_DEVICES=" PART(2), "[" PART(2) "] 0");
    assert_int_equal(end_program(&a), 0);
    assert_int_equal(end_program(&b), 0);
    assert_int_equal(end_program(&c), 0);
    a = hand_out("GPUS=-1", "[" PART(1) "," PART(2) "," PART(3) "] 0 1 2");
    assert_int_equal(end_program(&a), 0);
}

/* --- leases that a program has already ---------------------------------------------------------------------------------- */

static void a_lease_of_berth_run_is_used(void **state) {
    started other = hand_out("GPUS=1", "[0] 0");
    started a = hand_out("GPUS=2 " COMMAND " run --gpus 2 --", "[1,2] 1 2");
    assert_int_equal(count_of(1, "holders"), 1);
    refused("GPUS=2", "RESOURCE_EXHAUSTED", "there are no 2 GPUs free");
    started b = hand_out("GPUS=-1 " COMMAND " run --gpus 1 --mem 512M --", "[3] 3"); /* a share */
    assert_int_equal(end_program(&b), 0);
    assert_int_equal(end_program(&a), 0);
    assert_int_equal(end_program(&other), 0);
}

/* Of programs that inherited one lease each GPU is handed out by one, and the lease lasts as long as these. */
static void programs_of_one_lease_divide_it(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2, .inherit = true));
    assert_non_null(lease);
    started a = hand_out("CUDA_VISIBLE_DEVICES=0,1 GPUS=1", "[0] 0");
    refused("CUDA_VISIBLE_DEVICES=0,1 GPUS=2", "RESOURCE_EXHAUSTED", "there are no 2 GPUs free: GPU 0 is held by ");
    started b = hand_out("CUDA_VISIBLE_DEVICES=0,1 GPUS=1", "[1] 1");
    refused("CUDA_VISIBLE_DEVICES=0,1 GPUS=1", "RESOURCE_EXHAUSTED", "there is no GPU free: GPU 0 is held by ");
    started mixed = hand_out("GPUS=2", "[2,3] 2 3");
    assert_int_equal(end_program(&a), 0);
    a = hand_out("GPUS=1", "[0] 0");
    bt_lease_release(lease);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    assert_int_equal(end_program(&a), 0);
    assert_int_equal(end_program(&b), 0);
    assert_int_equal(end_program(&mixed), 0);
    await_free(4);
}

static void a_lease_of_the_program_is_used_and_kept(void **state) {
    started a = start_program("GPUS=2", "own_lease");
    expect_line(&a, "[2,3] 2 3");
    started b = hand_out("GPUS=2", "[0,1] 0 1");
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "GPU 2 is held by");
    assert_int_equal(end_program(&a), 0);
    started c = hand_out("GPUS=2", "[2,3] 2 3");
    assert_int_equal(end_program(&b), 0);
    assert_int_equal(end_program(&c), 0);
}

/* Programs that tasks start: one gets the GPU of its task, however that came to the runtime, and none gets another task's. */
static void programs_of_tasks_get_their_gpus(void **state) {
    started a = start_program("GPUS=1", "nested");
    expect_line(&a, "[0] 0");
    expect_line(&a, "[1] 1"); /* its task has none: one that is free */
    assert_int_equal(end_program(&a), 0);
    a = start_program("GPUS=1 " COMMAND " run --gpus 1 --", "nested");
    expect_line(&a, "[0] 0");
    const char *line = next_line(&a);
    if (strncmp(line, "RESOURCE_EXHAUSTED", 18)) fail_msg("%s", line);
    assert_int_equal(end_program(&a), 0);
}

/* --- until the last process has ended ----------------------------------------------------------------------------------- */

static void workers_hold_what_their_runtime_took(void **state) {
    started program = start_program("GPUS=4", "keep");
    pid_t worker = next_number(&program), nest = parent_of(worker);
    kill(nest, SIGSTOP);
    kill(program.pid, SIGKILL);
    assert_int_equal(end_of(program.pid), 128 + SIGKILL);
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "GPU 0 is held by");
    kill(nest, SIGCONT);
    started next = hand_out("GPUS=4 WAIT=-1", "[0,1,2,3] 0 1 2 3");
    assert_int_equal(end_program(&next), 0);
    close(program.input);
    fclose(program.says);
}

static void a_runtime_without_standard_files_holds_its_leases(void **state) {
    started program = start_program("GPUS=4", "closed");
    (void)next_number(&program);
    refused("GPUS=1", "RESOURCE_EXHAUSTED", "GPU 0 is held by");
    kill(program.pid, SIGKILL);
    assert_int_equal(end_of(program.pid), 128 + SIGKILL);
    started next = hand_out("GPUS=4 WAIT=-1", "[0,1,2,3] 0 1 2 3");
    assert_int_equal(end_program(&next), 0);
    close(program.input);
    fclose(program.says);
}

static void a_runtime_that_fails_to_start_holds_none(void **state) {
    started failed = start_program("", "failing");
    expect_line(&failed, "failed");
    started next = hand_out("GPUS=4", "[0,1,2,3] 0 1 2 3");
    assert_int_equal(end_program(&failed), 0);
    assert_int_equal(end_program(&next), 0);
}

static void many_runtimes_at_once(void **state) {
    started s[5];
    for (int i = 0; i < 5; i++) s[i] = start_program(i < 3 ? "" : COMMAND " run --gpus 4 --wait --", "many");
    for (int i = 0; i < 5; i++) assert_int_equal(end_program(&s[i]), 0);
    assert_int_equal(atomic_load(&seen->faults), 0);
    assert_true(atomic_load(&seen->leases) > 0);
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(argv[1], programs[i].name)) return programs[i].run();
    find_own_path();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(workers_hold_the_lease_of_their_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_programs_never_hand_out_the_same, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(masks_are_kept_to, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(numbers_beyond_the_machine_are_numbers, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(init_waits_for_gpus, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(instances_are_handed_out, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(a_lease_of_berth_run_is_used, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(programs_of_one_lease_divide_it, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(a_lease_of_the_program_is_used_and_kept, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(programs_of_tasks_get_their_gpus, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(workers_hold_what_their_runtime_took, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(a_runtime_without_standard_files_holds_its_leases, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(a_runtime_that_fails_to_start_holds_none, set_up_machine, tear_down),
        cmocka_unit_test_setup_teardown(many_runtimes_at_once, set_up_machine, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What a runtime tells of itself: in the program, by `berth ps` and `berth top`, and to whoever knocks.
// labels: serial
// timeout: 120
#include <berth.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/soon.h"

#define COMMAND BERTH_BUILD_DIR "/berth"

static atomic_int *gate; /* tasks run until it opens; shared with all workers */

static bt_status hold(bt_task *task) {
    while (!atomic_load(gate)) usleep(2000);
    return bt_return(task, 1);
}

static bt_status tune(bt_task *task) { return hold(task); }
static bt_status load(bt_task *task) { return hold(task); }
static bt_status use(bt_task *task) { return bt_return(task, 2); }
BT_REMOTE(tune, .num_gpus = 2);
BT_REMOTE(load);
BT_REMOTE(use);

/* Waits inside for a task of its own. */
static bt_status nest(bt_task *task) {
    int64_t one;
    bt_status status = bt_get(bt_remote(load), &one);
    return status == BT_OK ? bt_return(task, one) : status;
}
BT_REMOTE(nest);

static bt_status trainer_new(bt_task *task) { return BT_OK; }
static bt_status trainer_step(bt_task *task) { return hold(task); }
BT_REMOTE(trainer_new, .num_gpus = 3, .name = "trainer");
BT_REMOTE(trainer_step);

/* Four GPUs, taken by two tasks; three wait for them, and one for what `load` will give. */
static bt_ref *start(void) {
    atomic_store(gate, 0);
    assert_int_equal(bt_runtime_init(.num_cpus = 8, .num_gpus = 4, .store_bytes = 64 << 20), BT_OK);
    for (int i = 0; i < 5; i++) assert_non_null(bt_remote(tune));
    bt_ref *loaded = bt_remote(load);
    return bt_remote(use, loaded);
}

static void finish(bt_ref *last) {
    int64_t two = 0;
    atomic_store(gate, 1);
    assert_int_equal(bt_get(last, &two), BT_OK);
    assert_int_equal(two, 2);
    assert_int_equal(bt_runtime_shutdown(), BT_OK);
}

/* --- what is said ---------------------------------------------------------------------------------------------------- */

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}
static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static void assert_says(const char *said, const char *part) {
    if (!strstr(said, part)) fail_msg("no \"%s\" in:\n%s", part, said);
}

static json_t *named(json_t *list, const char *key, const char *name) {
    size_t index;
    json_t *one;
    json_array_foreach(list, index, one) if (!strcmp(text(one, key), name)) return one;
    fail_msg("no \"%s\" among %s", name, key);
    return NULL;
}

static void assert_waits(json_t *runtime) {
    json_t *running = json_object_get(runtime, "running"), *tasks = json_object_get(runtime, "tasks");
    json_t *resource = named(json_object_get(runtime, "resources"), "name", "GPU");
    assert_int_equal(number(runtime, "pid"), getpid());
    assert_true(number(resource, "total") == 4 && number(resource, "free") == 0);
    assert_true(number(tasks, "running") == 3 && number(tasks, "waits_for_resources") == 3);
    assert_true(number(named(json_object_get(tasks, "by_function"), "function", "tune"), "waits_for_resources") == 3);
    assert_true(number(tasks, "waits_for_arguments") == 1);
    json_t *holder = named(running, "function", "tune");
    assert_int_equal(json_array_size(json_object_get(holder, "gpus")), 2);
    assert_true(number(holder, "resident_bytes") > 4096 && kill((pid_t)number(holder, "pid"), 0) == 0);
    assert_true(number(json_object_get(holder, "resources"), "GPU") == 2);
    json_t *gpu = json_array_get(json_object_get(runtime, "gpus"), 3);
    assert_true(number(gpu, "number") == 3 && number(gpu, "used") == 1);
    assert_string_equal(text(json_array_get(json_object_get(gpu, "by"), 0), "function"), "tune");
    assert_int_equal(json_array_size(json_object_get(runtime, "workers")), 3);
    const char *why = text(named(json_object_get(runtime, "waiting"), "function", "tune"), "why");
    char part[64];
    snprintf(part, sizeof part, "tune (process %d, 2)", (int)number(holder, "pid"));
    assert_says(why, "waits for 2 GPU: 0 of 4 are free; held by tune (process ");
    assert_says(why, part);
    why = text(named(json_object_get(runtime, "waiting"), "function", "use"), "why");
    assert_says(why, "waits for argument 1: the result of load, which has run for ");
}

static int count_events(const json_t *trace, const char *phase, const char *name) {
    size_t index;
    int count = 0;
    const json_t *event;
    json_array_foreach(json_object_get(trace, "traceEvents"), index, event) {
        count += !strcmp(text(event, "ph"), phase) && !strcmp(text(event, "name"), name);
    }
    return count;
}

/* Until the three that can run do. */
static json_t *settled(void) {
    for (int i = 0; i < SOON * 100; i++) {
        char *said = bt_runtime_text(true);
        assert_non_null(said);
        json_t *runtime = json_loads(said, 0, NULL);
        bt_free(said);
        assert_non_null(runtime);
        if (number(json_object_get(runtime, "tasks"), "running") == 3) return runtime;
        json_decref(runtime);
        usleep(10000);
    }
    fail_msg("the tasks do not run:\n%s", bt_runtime_text(false));
    return NULL;
}

static void test_program(void **state) {
    bt_ref *last = start();
    json_t *runtime = settled();
    assert_waits(runtime);
    json_decref(runtime);
    char *said = bt_runtime_text(false);
    assert_says(said, "GPU 0 of 4 free");
    assert_says(said, "\nWAITS");
    assert_says(said, "held by tune (process ");
    bt_free(said);
    finish(last);
    assert_null(bt_runtime_text(true));
    assert_int_equal(bt_error_status(), BT_FAILED_PRECONDITION);
}

/* An actor with methods in line, a group that has its bundle and one that waits, shares of a GPU, a resource of one's own, a task that
 * waits inside. */
static json_t *settled_with_all(void) {
    for (int i = 0; i < SOON * 100; i++) {
        char *said = bt_runtime_text(true);
        json_t *runtime = json_loads(said, 0, NULL), *tasks = json_object_get(runtime, "tasks");
        bt_free(said);
        assert_non_null(runtime);
        if (number(tasks, "running") == 5 && number(tasks, "blocked") == 1) return runtime;
        json_decref(runtime);
        usleep(10000);
    }
    fail_msg("the tasks do not run:\n%s", bt_runtime_text(false));
    return NULL;
}

static const char *why_of(json_t *runtime, const char *list, const char *key, const char *name) {
    return text(named(json_object_get(runtime, list), key, name), "why");
}

static void test_actors_and_groups(void **state) {
    atomic_store(gate, 0);
    assert_int_equal(
        bt_runtime_init(.num_cpus = 8, .num_gpus = 5, .resources = {{"license", 1}}, .store_bytes = 64 << 20), BT_OK);
    bt_actor *trainer = bt_actor_new(trainer_new);
    bt_ref *steps[3], *licensed[2];
    for (int i = 0; i < 3; i++) steps[i] = bt_method(trainer, trainer_step);
    bt_group *group = bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 1)}, 1);
    assert_int_equal(bt_group_wait(group, -1), BT_OK);
    bt_ref *inside[2];
    for (int i = 0; i < 2; i++)
        inside[i] = bt_remote_with(BT_OPTIONS(.num_gpus = 1, .num_cpus = 0, .group = group), load);
    bt_ref *share = bt_remote_with(BT_OPTIONS(.num_gpus = 0.75), load),
           *other = bt_remote_with(BT_OPTIONS(.num_gpus = 0.5), use);
    for (int i = 0; i < 2; i++) licensed[i] = bt_remote_with(BT_OPTIONS(.resources = {{"license", 1}}), load);
    bt_ref *outer = bt_remote(nest);
    assert_non_null(
        bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 1), BT_BUNDLE(.num_gpus = 1)}, 2)); /* waits */
    json_t *runtime = settled_with_all();

    json_t *actor = named(json_object_get(runtime, "actors"), "name", "trainer");
    assert_string_equal(text(actor, "state"), "busy");
    assert_string_equal(text(actor, "method"), "trainer_step");
    assert_true(number(actor, "queued") == 2 && json_array_size(json_object_get(actor, "gpus")) == 3);
    assert_says(why_of(runtime, "waiting", "function", "trainer_step"),
                "waits for its turn with the actor trainer (process ");
    json_t *gpu = json_array_get(json_object_get(runtime, "gpus"), 0);
    assert_string_equal(text(json_array_get(json_object_get(gpu, "by"), 0), "actor"), "trainer");
    assert_says(why_of(runtime, "running", "function", "nest"),
                "waits inside for the result of load, which has run for ");
    assert_says(why_of(runtime, "waiting", "function", "use"),
                "waits for 0.5 GPU: 0.25 of 5 are free; held by load (process ");
    assert_says(why_of(runtime, "waiting", "function", "use"), "actor trainer (process ");
    assert_says(why_of(runtime, "waiting", "function", "use"), "a group (1)");
    size_t index, found = 0;
    json_t *one;
    json_array_foreach(json_object_get(runtime, "waiting"), index, one) {
        found += strstr(text(one, "why"), "waits for 1 license: 0 of 1 are free; held by load (process ") != NULL;
        found +=
            strstr(text(one, "why"), "waits for 1 GPU of its group: 0 of 1 are free; held by load (process ") != NULL;
    }
    assert_int_equal(found, 2);
    json_array_foreach(json_object_get(runtime, "groups"), index, one) {
        bool has = json_is_true(json_object_get(one, "has_resources"));
        assert_string_equal(text(one, "why"), has ? "" : "waits for 2 GPU: 0.25 of 5 are free");
    }
    assert_int_equal(index, 2);
    json_decref(runtime);
    char *said = bt_runtime_text(false);
    assert_says(said, "\ntrainer ");
    bt_free(said);
    atomic_store(gate, 1);
    bt_ref *all[] = {steps[0], steps[1], steps[2], inside[0], inside[1], share, other, licensed[0], licensed[1], outer};
    assert_int_equal(bt_wait_refs(all, 10, 10, NULL, SOON), 10);
    char path[] = "/tmp/berth-ps-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(bt_runtime_timeline(path), BT_OK);
    json_t *trace = json_load_file(path, 0, NULL);
    assert_int_equal(count_events(trace, "X", "trainer_step"), 3);
    assert_int_equal(count_events(trace, "X", "trainer_new"), 1); /* its life */
    json_decref(trace);
    unlink(path);
    assert_int_equal(bt_runtime_shutdown(), BT_OK);
}

/* --- berth ps --------------------------------------------------------------------------------------------------------- */

static int run(const char *arguments, char *output, size_t size) {
    char line[512];
    snprintf(line, sizeof line, COMMAND " %s 2>&1", arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    output[fread(output, 1, size - 1, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char output[1 << 20];

static json_t *ps_json(void) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "ps --json %d", (int)getpid());
    assert_int_equal(run(arguments, output, sizeof output), 0);
    json_t *all = json_loads(output, 0, NULL);
    if (json_array_size(all) != 1) fail_msg("not one runtime: %s", output);
    json_t *runtime = json_incref(json_array_get(all, 0));
    json_decref(all);
    return runtime;
}

static void test_ps(void **state) {
    bt_ref *last = start();
    json_decref(settled());
    json_t *runtime = ps_json();
    assert_waits(runtime);
    json_decref(runtime);
    assert_int_equal(run("ps", output, sizeof output), 0);
    assert_says(output, "tests.ps_test (process ");
    assert_says(output, "waits for 2 GPU: 0 of 4 are free");
    assert_int_equal(run("top", output, sizeof output), 0); /* no terminal */
    assert_says(output, "waits for 2 GPU: 0 of 4 are free");
    assert_null(strchr(output, '\033'));
    assert_int_equal(run("ps 1", output, sizeof output), 1);
    assert_says(output, "process 1 has no runtime");
    assert_int_equal(run("ps x", output, sizeof output), 2);
    finish(last);
    char arguments[64];
    snprintf(arguments, sizeof arguments, "ps %d", (int)getpid());
    assert_int_equal(run(arguments, output, sizeof output), 1);
}

/* Whether the runtime of a program is among those that are told of. */
static bool is_listed(pid_t pid) {
    char *said = bt_runtimes_text(0, true);
    json_t *all = json_loads(said, 0, NULL), *one;
    size_t index;
    bool found = false;
    assert_non_null(all);
    json_array_foreach(all, index, one) found = found || (pid_t)number(one, "pid") == pid;
    json_decref(all);
    bt_free(said);
    return found;
}

static void test_killed_program(void **state) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t program = fork();
    if (!program) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (bt_runtime_init(.num_cpus = 2) != BT_OK || write(ready[1], "r", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < SOON * 100 && !is_listed(program); i++) usleep(10000); /* its nest listens soon */
    assert_true(is_listed(program));
    kill(program, SIGKILL);
    assert_int_equal(waitpid(program, NULL, 0), program);
    for (int i = 0; i < SOON * 100 && is_listed(program); i++) usleep(10000);
    assert_false(is_listed(program));
    close(ready[0]);
    close(ready[1]);
}

/* --- whoever knocks ----------------------------------------------------------------------------------------------------- */

static int knock(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "berth-runtime-%u-%d", (unsigned)geteuid(),
                          (int)getpid());
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        connect(to, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)), 0);
    return to;
}

/* Mute ones, one who floods, one who asks for what is not there, one who does not read: others are answered, and tasks go on. */
static void test_bad_callers(void **state) {
    enum { CALLERS = 9 };
    static char flood[1 << 16];
    int callers[CALLERS];
    bt_ref *last = start();
    json_decref(settled());
    for (int i = 0; i < CALLERS; i++) callers[i] = knock();
    assert_true(send(callers[0], flood, sizeof flood, MSG_NOSIGNAL | MSG_DONTWAIT) > 0);
    assert_int_equal(send(callers[1], "nonsense", 8, MSG_NOSIGNAL), 8);
    shutdown(callers[1], SHUT_WR);
    char byte;
    assert_int_equal(recv(callers[1], &byte, 1, 0), 0);
    assert_int_equal(send(callers[2], "json", 4, MSG_NOSIGNAL), 4);
    shutdown(callers[2], SHUT_WR);
    json_t *runtime = ps_json();
    assert_waits(runtime);
    json_decref(runtime);
    finish(last); /* with callers that still hang on */
    for (int i = 0; i < CALLERS; i++) close(callers[i]);
}

/* --- the timeline ------------------------------------------------------------------------------------------------------ */

static void test_timeline(void **state) {
    char path[] = "/tmp/berth-ps-XXXXXX", arguments[128];
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    bt_ref *last = start();
    json_decref(settled());
    snprintf(arguments, sizeof arguments, "ps --timeline %s %d", path, (int)getpid());
    assert_int_equal(run(arguments, output, sizeof output), 0);
    json_t *trace = json_load_file(path, 0, NULL);
    assert_non_null(trace);
    assert_int_equal(count_events(trace, "X", "tune"), 2);
    assert_int_equal(count_events(trace, "X", "load"), 1);
    assert_int_equal(count_events(trace, "X", "use"), 0);
    json_decref(trace);
    atomic_store(gate, 1);
    assert_int_equal(bt_get(last, (int64_t *)&(int64_t){0}), BT_OK);
    assert_int_equal(bt_runtime_timeline(path), BT_OK);
    trace = json_load_file(path, 0, NULL);
    assert_non_null(trace);
    assert_int_equal(count_events(trace, "X", "use"), 1);
    assert_int_equal(count_events(trace, "b", "use"), 1);
    assert_int_equal(count_events(trace, "e", "use"), 1);
    assert_true(count_events(trace, "M", "thread_name") >= 3 && count_events(trace, "C", "tasks") >= 6);
    json_decref(trace);
    assert_int_equal(bt_runtime_timeline("/no/such/folder/trace.json"), BT_NOT_FOUND);
    assert_int_equal(bt_runtime_shutdown(), BT_OK);
    unlink(path);
}

/* --- berth top ----------------------------------------------------------------------------------------------------------- */

static pid_t top_in(int terminal, int other) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    pid_t top = fork();
    if (top) return top;
    close(other);
    login_tty(terminal);
    setenv("NO_COLOR", "1", 1);
    execl(COMMAND, "berth", "top", pid, NULL);
    _exit(127);
}

/* Reads until `part` has come. */
static void read_until(int terminal, const char *part) {
    static char seen[1 << 16];
    size_t length = 0;
    for (;;) {
        struct pollfd from = {.fd = terminal, .events = POLLIN};
        if (poll(&from, 1, SOON * 1000) != 1) fail_msg("no \"%s\" in:\n%s", part, seen);
        ssize_t got = length < sizeof seen - 1 ? read(terminal, seen + length, sizeof seen - 1 - length) : 0;
        if (got <= 0) fail_msg("no \"%s\" in:\n%s", part, seen);
        length += (size_t)got;
        seen[length] = '\0';
        if (strstr(seen, part)) return;
    }
}

static void check_top(const char *key, int columns, const char *shown) {
    int mine, its, status;
    struct termios before, during, after;
    struct winsize size = {.ws_row = 40, .ws_col = (unsigned short)columns}, other = {.ws_row = 40, .ws_col = 10};
    assert_int_equal(openpty(&mine, &its, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(its, &before), 0);
    pid_t top = top_in(its, mine);
    read_until(mine, shown);
    assert_int_equal(tcgetattr(its, &during), 0);
    assert_int_equal(during.c_lflag & (ICANON | ECHO), 0);
    assert_int_equal(ioctl(mine, TIOCSWINSZ, &other), 0);
    read_until(mine, "\ntests.ps_t\033[K"); /* drawn again, cut to 10 columns */
    assert_int_equal(write(mine, key, strlen(key)), (ssize_t)strlen(key));
    read_until(mine, "\033[?1049l");
    assert_int_equal(waitpid(top, &status, 0), top);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(tcgetattr(its, &after), 0);
    assert_memory_equal(&before.c_lflag, &after.c_lflag, sizeof before.c_lflag);
    assert_memory_equal(before.c_cc, after.c_cc, sizeof before.c_cc);
    close(mine);
    close(its);
}

static void test_top(void **state) {
    bt_ref *last = start();
    json_decref(settled());
    check_top("q", 200, "waits for 2 GPU: 0 of 4 are free");
    check_top("\003", 200, "waits for argument 1: the result of load");
    finish(last);
}

int main(void) {
    gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (gate == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program),     cmocka_unit_test(test_actors_and_groups),
        cmocka_unit_test(test_ps),          cmocka_unit_test(test_killed_program),
        cmocka_unit_test(test_bad_callers), cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_top),
    };
    int failed;
    BT_SCOPE
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed;
}

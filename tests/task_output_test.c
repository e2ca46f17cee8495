/* What functions print, when standard output is a pipe: all of a call is there when its result is, and all of a worker at its end. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <berth/task.h>

#include "support/programs.h"

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status print_line(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    if (status == BT_OK) printf("line %lld\n", (long long)n);
    return status;
}
BT_REMOTE(print_line);

static bt_status print_part(bt_task *task) {
    const char *text;
    bt_status status = bt_argument(task, 0, &text);
    if (status == BT_OK) fputs(text, stdout);
    return status;
}
BT_REMOTE(print_part);

static bt_status print_and_fail(bt_task *task) {
    printf("before the failure\n");
    return bt_task_fail(task, BT_INTERNAL, "failed");
}
BT_REMOTE(print_and_fail);

static bt_status print_dots(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    for (int64_t i = 0; status == BT_OK && i < n; i++) putchar('.');
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(print_dots);

static bt_status print_problem(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    if (status == BT_OK) fprintf(stderr, "error %lld\n", (long long)n);
    return status;
}
BT_REMOTE(print_problem);

/* Its own buffer, which is written when it is full and when somebody flushes it. */
static bt_status buffer_errors(bt_task *task) {
    static char buffer[4096];
    setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
    return print_problem(task);
}
BT_REMOTE(buffer_errors);

static bt_status own_process(bt_task *task) {
    printf("from a process of its own\n");
    return bt_return(task, (int64_t)getpid());
}
BT_REMOTE(own_process, .num_gpus = 1);

static void say_goodbye(void *state) { printf("the actor has gone"); }
static bt_status speaker(bt_task *task) {
    printf("the actor is made\n");
    bt_set_state(task, &print_line, say_goodbye);
    return BT_OK;
}
BT_REMOTE(speaker);

/* --- programs ---------------------------------------------------------------------------------------------------------- */

/* What was written there goes to the pipe from now on; the end to read, which does not block. */
static int catch (int file) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[1], file) < 0) exit(1);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return ends[0];
}

/* What is there now. */
static const char *caught(int from) {
    static char text[1 << 17];
    size_t length = 0;
    for (ssize_t more; (more = read(from, text + length, sizeof text - 1 - length)) > 0;) length += (size_t)more;
    text[length] = 0;
    return text;
}

#define CHECK_CAUGHT(from, expected)                                                                    \
    do {                                                                                                \
        const char *got = caught(from);                                                                 \
        if (strcmp(got, expected) != 0) {                                                               \
            fprintf(stderr, "line %d: expected \"%.200s\", got \"%.200s\"\n", __LINE__, expected, got); \
            return 1;                                                                                   \
        }                                                                                               \
    } while (0)

static int calls_are_complete(void) {
    int out = catch (STDOUT_FILENO);
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        for (int i = 0; i < 50; i++) {
            char expected[40];
            snprintf(expected, sizeof expected, "line %d\n", i);
            CHECK(bt_get(bt_remote(print_line, i), NULL) == BT_OK);
            CHECK_CAUGHT(out, expected);
        }
        CHECK(bt_get(bt_remote(print_part, "no end of "), NULL) == BT_OK);
        CHECK_CAUGHT(out, "no end of ");
        CHECK(bt_get(bt_remote(print_part, "a line\n"), NULL) == BT_OK);
        CHECK_CAUGHT(out, "a line\n");
        CHECK(bt_get(bt_remote(print_and_fail), NULL) == BT_INTERNAL);
        CHECK_CAUGHT(out, "before the failure\n");
        bt_ref *first = bt_remote(print_line, 1);
        CHECK(bt_get(first, NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_line, 2), NULL) == BT_OK);
        CHECK_CAUGHT(out, "line 1\nline 2\n");
        CHECK(bt_get(bt_remote(print_dots, 10000), NULL) == BT_OK);
        CHECK(strlen(caught(out)) == 10000);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK_CAUGHT(out, "");
    return 0;
}

static int methods_and_ends_are_complete(void) {
    int out = catch (STDOUT_FILENO);
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 2, .num_gpus = 1));
    BT_SCOPE {
        CHECK(bt_get(bt_remote(own_process), NULL) == BT_OK);
        CHECK_CAUGHT(out, "from a process of its own\n");
    }
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(speaker);
        CHECK(bt_get(bt_method(actor, print_line, 7), NULL) == BT_OK);
        CHECK_CAUGHT(out, "the actor is made\nline 7\n");
    }
    const char *text = "";
    double until = seconds_now() + 10;
    while (!*text && seconds_now() < until) text = caught(out);
    CHECK(!strcmp(text, "the actor has gone"));
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* What the program has printed itself is not printed by its workers as well. */
static int nothing_comes_twice(void) {
    int out = catch (STDOUT_FILENO);
    printf("the program, ");
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        CHECK(bt_get(bt_remote(print_part, "a task, "), NULL) == BT_OK);
        printf("the program");
        CHECK(bt_get(bt_remote(print_part, "a task, "), NULL) == BT_OK);
    }
    fflush(stdout);
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK_CAUGHT(out, "the program, a task, a task, the program");
    return 0;
}

static int no_output(void) {
    close(STDOUT_FILENO);
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        for (int i = 0; i < 3; i++) CHECK(bt_get(bt_remote(print_line, i), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

static int nobody_reads_any_more(void) {
    close(catch (STDOUT_FILENO));
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        int64_t n;
        for (int i = 0; i < 3; i++) CHECK(bt_get(bt_remote(print_line, i), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_dots, 1000), &n) == BT_OK && n == 1000);
        /* its own writing, not that of berth */
        CHECK_FAILS(bt_get(bt_remote(print_dots, 1 << 20), NULL), BT_ABORTED, "signal 13");
        CHECK(bt_get(bt_remote(print_line, 4), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* A call that cannot write waits, as it would in a program of its own; others go on, and nothing is lost. */
static int a_slow_reader(void) {
    enum { PART = 3000, PARTS = 40 };
    int out = catch (STDOUT_FILENO);
    CHECK(fcntl(out, F_SETPIPE_SZ, 1 << 16) == 1 << 16);
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 2));
    BT_SCOPE {
        bt_ref *refs[PARTS];
        bool ready[PARTS];
        for (int i = 0; i < PARTS; i++) refs[i] = bt_remote(print_dots, PART);
        CHECK(bt_wait_refs(refs, PARTS, PARTS, ready, 0.3) < PARTS);
        bt_ref *late = bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.1), print_dots, 1);
        CHECK_FAILS(bt_get(late, NULL), BT_DEADLINE_EXCEEDED, "deadline");
        size_t dots = 0;
        double until = seconds_now() + 20;
        while (dots < (size_t)PART * PARTS && seconds_now() < until) dots += strlen(caught(out));
        CHECK(bt_wait_refs(refs, PARTS, PARTS, ready, 20) == PARTS);
        CHECK(dots + strlen(caught(out)) == (size_t)PART * PARTS);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    return 0;
}

/* Standard error goes through the nest, which writes all of it before it ends. */
static int errors_before_the_end(void) {
    int said = dup(STDERR_FILENO), errors = catch (STDERR_FILENO), pipe_end = dup(STDERR_FILENO);
    for (int i = 0; i < 40; i++) {
        char expected[40];
        snprintf(expected, sizeof expected, "error %d\nerror %d\n", i, i + 1);
        dup2(pipe_end, STDERR_FILENO);
        bt_status status = bt_runtime_init(.num_cpus = 2);
        dup2(said, STDERR_FILENO);
        CHECK(status == BT_OK);
        BT_SCOPE {
            CHECK(bt_get(bt_remote(print_problem, i), NULL) == BT_OK);
            CHECK(bt_get(bt_remote(buffer_errors, i + 1), NULL) == BT_OK);
        }
        CHECK(bt_runtime_shutdown() == BT_OK);
        CHECK_CAUGHT(errors, expected);
    }
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "calls_are_complete", .run = calls_are_complete},
        {.name = "methods_and_ends_are_complete", .run = methods_and_ends_are_complete},
        {.name = "nothing_comes_twice", .run = nothing_comes_twice},
        {.name = "no_output", .run = no_output},
        {.name = "nobody_reads_any_more", .run = nobody_reads_any_more},
        {.name = "a_slow_reader", .run = a_slow_reader},
        {.name = "errors_before_the_end", .run = errors_before_the_end},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

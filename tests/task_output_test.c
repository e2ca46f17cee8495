/* What functions print, when standard output is a pipe: all of a call is there when its result is, and all of a worker at its end. */
#include <fcntl.h>
#include <pthread.h>
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

static bt_status print_lines(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    for (int64_t i = 0; i < n && status == BT_OK; i++) printf("%lld\n", (long long)i);
    return status;
}
BT_REMOTE(print_lines);

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

/* Lines in pieces, which are written one by one. */
static bt_status print_pieces(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    for (int line = 0; line < 100 && status == BT_OK; line++) {
        for (int piece = 0; piece < 3; piece++)
            for (int file = STDOUT_FILENO; file <= STDERR_FILENO; file++) {
                char text[120];
                memset(text, 'a' + (int)n, sizeof text);
                if (piece == 2) text[sizeof text - 1] = '\n';
                if (write(file, text, sizeof text) != sizeof text)
                    return bt_task_fail(task, BT_INTERNAL, "not written");
            }
    }
    return status;
}
BT_REMOTE(print_pieces);

static bt_status say_and_die(bt_task *task) {
    fprintf(stderr, "my last words");
    raise(SIGKILL);
    return BT_OK;
}
BT_REMOTE(say_and_die);

/* Says something, and dies when it is told to. */
static bt_status say(bt_task *task) {
    bool dies;
    bt_status status = bt_argument(task, 0, &dies);
    if (status != BT_OK) return status;
    fprintf(stderr, dies ? "the last words\n" : "words of another call\n");
    if (dies) raise(SIGKILL);
    return BT_OK;
}
BT_REMOTE(say);

/* It leaves another file in the place of standard output, which later calls of the worker print to. */
static bt_status print_elsewhere(bt_task *task) {
    const char *path;
    bt_status status = bt_argument(task, 0, &path);
    if (status == BT_OK && !freopen(path, "w", stdout)) status = bt_task_fail(task, BT_INTERNAL, "no file");
    return status;
}
BT_REMOTE(print_elsewhere);

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
    static char text[1 << 20];
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
    double until = seconds_now() + SOON;
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

/* What the runtime opens gets none of the standard numbers: what the program and functions print would be written there. */
static int no_output(void) {
    fflush(stdout);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    CHECK(BT_OK == bt_runtime_init(.num_cpus = 1));
    BT_SCOPE {
        for (int i = 0; i < 3; i++) CHECK(bt_get(bt_remote(print_line, i), NULL) == BT_OK);
        printf("the program\n");
        CHECK(fflush(stdout) != 0 && fcntl(STDOUT_FILENO, F_GETFD) < 0 && fcntl(STDIN_FILENO, F_GETFD) < 0);
        CHECK(bt_get(bt_remote(print_line, 4), NULL) == BT_OK);
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
        double until = seconds_now() + SOON;
        while (dots < (size_t)PART * PARTS && seconds_now() < until) dots += strlen(caught(out));
        CHECK(bt_wait_refs(refs, PARTS, PARTS, ready, SOON) == PARTS);
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

/* The nest has read nothing when the runtime is shut down. */
static void *wake_nest(void *nest) {
    sleep_seconds(0.1);
    kill(*(pid_t *)nest, SIGCONT);
    return NULL;
}

static int errors_of_a_busy_nest(void) {
    pthread_t waker;
    int said = dup(STDERR_FILENO), from = catch (STDERR_FILENO);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    dup2(said, STDERR_FILENO);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(print_problem, 1), NULL) == BT_OK);
        pid_t nest = process_named(getpid(), "berth nest", 0.01);
        if (!nest) nest = process_named(process_named(getpid(), "berth keeper", SOON), "berth nest", SOON);
        CHECK(nest > 0 && kill(nest, SIGSTOP) == 0);
        bt_ref *second = bt_remote(print_problem, 2);
        bt_status status = bt_get_within(second, 2, NULL);
        CHECK(pthread_create(&waker, NULL, wake_nest, &nest) == 0);
        CHECK(status == BT_OK || bt_get(second, NULL) == BT_OK);
        CHECK(bt_runtime_shutdown() == BT_OK);
        pthread_join(waker, NULL);
    }
    CHECK_CAUGHT(from, "error 1\nerror 2\n");
    return 0;
}

/* --- what the message of a death tells ---------------------------------------------------------------------------------- */

static int words_are_of_the_call(bool with_prefix) {
    static const char words[] = "standard error: the last words";
    int said = dup(STDERR_FILENO), from = catch (STDERR_FILENO);
    bt_status status = bt_runtime_init(.num_cpus = 1, .prefix_output = with_prefix);
    dup2(said, STDERR_FILENO);
    CHECK(status == BT_OK && from >= 0);
    for (int i = 0; i < 20; i++)
        BT_SCOPE {
            CHECK(bt_get(bt_remote(say, false), NULL) == BT_OK);
            CHECK(bt_get(bt_remote(say, false), NULL) == BT_OK);
            CHECK_FAILS(bt_get(bt_remote(say, true), NULL), BT_ABORTED, words);
            bt_actor *actor = bt_actor_new(speaker);
            CHECK(bt_get(bt_method(actor, say, false), NULL) == BT_OK);
            CHECK_FAILS(bt_get(bt_method(actor, say, true), NULL), BT_ABORTED, words);
        }
    return bt_runtime_shutdown() == BT_OK ? 0 : 1;
}

static int last_words(void) { return words_are_of_the_call(false); }
static int last_words_with_prefix(void) { return words_are_of_the_call(true); }

/* --- prefixes ---------------------------------------------------------------------------------------------------------- */

/* Replaces the number of each process by N. */
static const char *without_numbers(const char *text) {
    static char plain[1 << 14];
    char *to = plain;
    for (const char *at = text; *at && to < plain + sizeof plain - 8;) {
        if (strncmp(at, " pid=", 5) != 0) {
            *to++ = *at++;
            continue;
        }
        to = stpcpy(to, " pid=N");
        at += 5 + strspn(at + 5, "0123456789");
    }
    *to = 0;
    return plain;
}

static int lines_get_prefixes(void) {
    int said = dup(STDERR_FILENO), out = catch (STDOUT_FILENO), from = catch (STDERR_FILENO);
    bt_status status = bt_runtime_init(.num_cpus = 1, .prefix_output = true);
    dup2(said, STDERR_FILENO);
    CHECK(status == BT_OK);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(print_line, 1), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_part, "a part\nof "), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_part, "a line\n\nnot ended"), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_problem, 5), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_line, 2), NULL) == BT_OK);
        CHECK_FAILS(bt_get(bt_remote(say_and_die), NULL), BT_ABORTED, "standard error: my last words");
        bt_actor *actor = bt_actor_new(speaker);
        CHECK(bt_get(bt_method(actor, print_line, 3), NULL) == BT_OK);
        CHECK(bt_get(bt_method(actor, print_part, "the end"), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    const char *got = without_numbers(caught(out));
    static const char task_lines[] =
        "(print_line pid=N) line 1\n(print_part pid=N) a part\n(print_part pid=N) of a line\n"
        "(print_part pid=N) \n(print_part pid=N) not ended\n(print_line pid=N) line 2\n"
        "(speaker pid=N) the actor is made\n(speaker pid=N) line 3\n(speaker pid=N) the end";
    if (strncmp(got, task_lines, sizeof task_lines - 1) != 0) return fprintf(stderr, "got:\n%s\n", got), 1;
    got = without_numbers(caught(from));
    if (strcmp(got, "(print_problem pid=N) error 5\n(say_and_die pid=N) my last words\n") != 0)
        return fprintf(stderr, "got:\n%s\n", got), 1;
    return 0;
}

/* Each line is whole, and has its prefix. */
static int lines_are_whole(void) {
    enum { CALLS = 4, LINES = 100, LENGTH = 360 };
    int said = dup(STDERR_FILENO), out = catch (STDOUT_FILENO), found[CALLS] = {0};
    CHECK(fcntl(out, F_SETPIPE_SZ, 1 << 20) == 1 << 20);
    dup2(STDOUT_FILENO, STDERR_FILENO); /* 2>&1 */
    setenv("BERTH_FLAGS", "prefix_output=on", 1);
    bt_status status = bt_runtime_init(.num_cpus = CALLS);
    dup2(said, STDERR_FILENO);
    CHECK(status == BT_OK);
    BT_SCOPE {
        bt_ref *refs[CALLS];
        for (int i = 0; i < CALLS; i++) refs[i] = bt_remote(print_pieces, i);
        for (int i = 0; i < CALLS; i++) CHECK(bt_get(refs[i], NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    for (const char *at = caught(out); *at; at++) {
        static const char prefix[] = "(print_pieces pid=";
        CHECK(!strncmp(at, prefix, sizeof prefix - 1));
        at += sizeof prefix - 1 + strspn(at + sizeof prefix - 1, "0123456789");
        CHECK(at[0] == ')' && at[1] == ' ' && at[2] >= 'a' && at[2] < 'a' + CALLS);
        char of[] = {at[2], 0};
        at += 2;
        CHECK(strspn(at, of) == LENGTH - 1 && at[LENGTH - 1] == '\n');
        found[of[0] - 'a']++;
        at += LENGTH - 1;
    }
    for (int i = 0; i < CALLS; i++) CHECK(found[i] == 2 * LINES);
    return 0;
}

static int long_lines_are_parted(void) {
    enum { DOTS = 50000 };
    int out = catch (STDOUT_FILENO), dots = 0, longest = 0, line = 0;
    CHECK(bt_runtime_init(.num_cpus = 1, .prefix_output = true) == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(print_dots, DOTS), NULL) == BT_OK);
    CHECK(bt_runtime_shutdown() == BT_OK);
    for (const char *at = caught(out); *at; at++) {
        dots += *at == '.';
        line = *at == '\n' ? 0 : line + 1;
        if (line > longest) longest = line;
    }
    fprintf(stderr, "%d dots, the longest line %d\n", dots, longest);
    CHECK(dots == DOTS && line == 0 && longest > 4000 && longest < 8400);
    return 0;
}

/* The nest waits for nobody: calls that print wait, others run; then all of it comes. */
static int a_slow_reader_of_lines(void) {
    enum { LINES = 20000 };
    int out = catch (STDOUT_FILENO), lines = 0;
    CHECK(fcntl(out, F_SETPIPE_SZ, 1 << 16) == 1 << 16);
    CHECK(bt_runtime_init(.num_cpus = 2, .prefix_output = true) == BT_OK);
    BT_SCOPE {
        bool ready;
        bt_ref *writes = bt_remote(print_lines, LINES);
        CHECK(bt_wait_refs(&writes, 1, 1, &ready, 0.3) == 0);
        CHECK(bt_get(bt_remote(print_problem, 1), NULL) == BT_OK);
        double until = seconds_now() + SOON;
        while (lines < LINES && seconds_now() < until)
            for (const char *at = caught(out); *at; at++) lines += *at == '\n';
        CHECK(lines == LINES);
        CHECK(bt_get(writes, NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK_CAUGHT(out, "");
    return 0;
}

/* Nothing but what functions print comes into a file of theirs. */
static int files_in_its_place(void) {
    char path[256], text[100] = "";
    snprintf(path, sizeof path, "%s/printed", getenv("TMPDIR"));
    CHECK(bt_runtime_init(.num_cpus = 1, .prefix_output = true) == BT_OK);
    BT_SCOPE {
        CHECK(bt_get(bt_remote(print_elsewhere, path), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_line, 1), NULL) == BT_OK);
        CHECK(bt_get(bt_remote(print_part, "part"), NULL) == BT_OK);
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
    FILE *file = fopen(path, "r");
    CHECK(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    unlink(path);
    CHECK(length == strlen("line 1\npart") && !strcmp(text, "line 1\npart"));
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
        {.name = "errors_of_a_busy_nest", .run = errors_of_a_busy_nest},
        {.name = "lines_get_prefixes", .run = lines_get_prefixes},
        {.name = "lines_are_whole", .run = lines_are_whole},
        {.name = "long_lines_are_parted", .run = long_lines_are_parted},
        {.name = "a_slow_reader_of_lines", .run = a_slow_reader_of_lines},
        {.name = "files_in_its_place", .run = files_in_its_place},
        {.name = "last_words", .run = last_words},
        {.name = "last_words_with_prefix", .run = last_words_with_prefix},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}

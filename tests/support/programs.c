#include "support/programs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { READY = 9, MOST_PROGRAMS = 64 };

/* --- processes --------------------------------------------------------------------------------------------------------- */

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void sleep_seconds(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

bool is_slow(void) {
#ifdef __SANITIZE_ADDRESS__
    return true;
#elif defined __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}

/* Its parent and its state, its name into `name`; 0: there is none. */
static pid_t row_of(pid_t pid, char *state, char name[16]) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = 0;
    char *begin = strchr(text, '('), *end = strrchr(text, ')');
    int parent = 0;
    if (!begin || !end || sscanf(end, ") %c %d", state, &parent) != 2) return 0;
    *end = 0;
    snprintf(name, 16, "%.15s", begin + 1);
    return parent;
}

int children_of(pid_t parent, pid_t *pids, int most) {
    char state, name[16];
    int count = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *row; processes && (row = readdir(processes)) != NULL;) {
        pid_t pid = atoi(row->d_name);
        if (pid > 0 && row_of(pid, &state, name) == parent && state != 'Z' && count < most) pids[count++] = pid;
    }
    if (processes) closedir(processes);
    return count;
}

bool process_lives(pid_t pid) {
    char state, name[16];
    return row_of(pid, &state, name) && state != 'Z' && state != 'X';
}

static pid_t child_named(pid_t parent, const char *wanted) {
    pid_t pids[256];
    char state, name[16];
    int count = children_of(parent, pids, 256);
    for (int i = 0; i < count; i++)
        if (row_of(pids[i], &state, name) == parent && !strcmp(name, wanted)) return pids[i];
    for (int i = 0; i < count; i++) {
        pid_t pid =
            row_of(pids[i], &state, name) == parent && !strcmp(name, "berth keeper") ? child_named(pids[i], wanted) : 0;
        if (pid) return pid;
    }
    return 0;
}

pid_t process_named(pid_t parent, const char *name, double seconds) {
    double until = seconds_now() + seconds;
    pid_t pid;
    while (!(pid = child_named(parent, name)) && seconds_now() < until) sleep_seconds(0.0002);
    return pid;
}

pid_t leave_process(void) {
    pid_t pid = fork();
    if (!pid) {
        setsid();
        sleep(100);
        _exit(0);
    }
    return pid;
}

bool comes_true(bool (*condition)(int number), int number, double seconds) {
    double until = seconds_now() + seconds;
    bool is;
    while (!(is = condition(number)) && seconds_now() < until) sleep_seconds(0.002);
    return is;
}

/* --- what is left ------------------------------------------------------------------------------------------------------ */

static char folder[64], said[80];

/* All orphans become the test's own children; false: some were there at the end, and are killed. */
static bool processes_go(double seconds) {
    double until = seconds_now() + seconds;
    bool right = true;
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0 || errno == EINTR;) {
        if (pid > 0) continue;
        if (seconds_now() > until) {
            pid_t pids[256];
            char state, name[16];
            int count = children_of(getpid(), pids, 256);
            for (int i = 0; i < count; i++) {
                if (right && row_of(pids[i], &state, name))
                    print_error("left: process %d, \"%s\" (%c)\n", pids[i], name, state);
                kill(pids[i], SIGKILL);
            }
            right = false;
        }
        sleep_seconds(0.002);
    }
    return right;
}

static int names_in(const char *path, const char *part) {
    int count = 0;
    DIR *rows = opendir(path);
    for (struct dirent *row; rows && (row = readdir(rows)) != NULL;) {
        if (!strcmp(row->d_name, ".") || !strcmp(row->d_name, "..") || !strstr(row->d_name, part)) continue;
        print_error("left: %s/%s\n", path, row->d_name);
        count++;
    }
    if (rows) closedir(rows);
    return count;
}

/* Names end with the number of the process that has them. */
static int sockets_of(pid_t pid) {
    char line[512], end[32];
    int count = 0;
    FILE *file = fopen("/proc/net/unix", "re");
    size_t length = (size_t)snprintf(end, sizeof end, "-%d\n", (int)pid);
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "berth") && strlen(line) > length && !strcmp(line + strlen(line) - length, end);
    if (file) fclose(file);
    return count;
}

static int forget(const char *path, const struct stat *what, int type, struct FTW *where) { return remove(path); }

static void show_said(void) {
    char line[1000];
    FILE *file = fopen(said, "re");
    for (int i = 0; file && i < 60 && fgets(line, sizeof line, file); i++) print_error("%s", line);
    if (file) fclose(file);
}

/* --- one program ------------------------------------------------------------------------------------------------------- */

static int ready[2];

void tell_ready(int number) {
    if (write(READY, &number, sizeof number) != sizeof number) _exit(99);
}

int told_number(void) {
    int number;
    fcntl(ready[0], F_SETFL, O_NONBLOCK);
    double until = seconds_now() + SOON;
    ssize_t length;
    while ((length = read(ready[0], &number, sizeof number)) < 0 && seconds_now() < until) sleep_seconds(0.001);
    if (length != sizeof number) show_said();
    assert_int_equal(length, sizeof number);
    return number;
}

void fail_drive(const char *text) { fail_msg("%s", text); }

static pid_t begin(const test_program *program) {
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int file = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
        dup2(file, STDERR_FILENO);
        dup2(file, STDOUT_FILENO);
        dup2(ready[1], READY);
        setenv("TMPDIR", folder, 1);
        execl("/proc/self/exe", "program", program->name, NULL);
        _exit(98);
    }
    close(ready[1]);
    return pid;
}

/* Its status; -1 when it had to be killed. */
static int end_of(pid_t pid, double seconds) {
    double until = seconds_now() + seconds;
    int status;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (seconds_now() > until) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        sleep_seconds(0.001);
    }
    return status;
}

static void run_once(const test_program *program) {
    double seconds = program->seconds > 0 ? program->seconds : SOON;
    pid_t pid = begin(program);
    if (program->drive) program->drive(pid);
    int status = end_of(pid, is_slow() ? seconds * 10 : seconds);
    close(ready[0]);
    bool gone = processes_go(SOON);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    bool right = program->ends_by ? WIFSIGNALED(status) && WTERMSIG(status) == program->ends_by
                                  : WIFEXITED(status) && !WEXITSTATUS(status);
    if (!right || !gone) show_said();
    if (status == -1) fail_msg("%s did not end within %g seconds", program->name, seconds);
    if (!right) fail_msg("%s ended with status %#x", program->name, (unsigned)status);
    assert_true(gone);
    assert_int_equal(names_in(folder, ""), 0);
    assert_int_equal(names_in("/dev/shm", "berth"), 0);
    assert_int_equal(sockets_of(pid), 0);
}

static void run(void **state) {
    const test_program *program = *state;
    int times = program->times && !getenv("BERTH_TEST_SHORT") ? program->times : 1;
    for (int i = 0; i < times; i++) run_once(program);
}

static int begin_all(void **state) {
    const char *temporary = getenv("TMPDIR");
    if (snprintf(folder, sizeof folder, "%.40s/programs_XXXXXX", temporary ? temporary : "/tmp") < 0 ||
        !mkdtemp(folder))
        return -1;
    snprintf(said, sizeof said, "%s.said", folder);
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int end_all(void **state) {
    unlink(said);
    return nftw(folder, forget, 8, FTW_DEPTH | FTW_PHYS);
}

int run_test_programs(int argc, char **argv, const test_program *programs, int count) {
    static struct CMUnitTest tests[MOST_PROGRAMS];
    for (int i = 0; i < count; i++) {
        if (argc == 2 && !strcmp(argv[1], programs[i].name)) {
            int result = programs[i].run();
            return result < 0 ? 77 : result;
        }
        tests[i] = (struct CMUnitTest){programs[i].name, run, NULL, NULL, (void *)(uintptr_t)&programs[i]};
    }
    assert_true(count <= MOST_PROGRAMS && argc == 1);
    return _cmocka_run_group_tests("programs", tests, (size_t)count, begin_all, end_all);
}

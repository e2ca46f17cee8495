#include "device/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/trace.h"
#include "device/device.h"

#define SAID_MOST 300 /* bytes of what the child printed last that are told */

typedef struct trial {
    pid_t child;
    int report, said; /* to read from: '+' and the child's maps once it has probed; what it prints */
    bti_str maps, words;
    bool done;
} trial;

/* --- in the child -------------------------------------------------------------------------------------------------- */

/* A library that calls exit: nothing of the program's own may run at the end of a copy of it. */
static void leave(int status, void *unused) {
    (void)unused;
    _exit(status);
}

static void behave(int said) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGTRAP, SIGSYS};
    const struct rlimit none = {0, 0};
    sigset_t all;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    on_exit(leave, NULL);
}

static void write_all(int to, const char *bytes, size_t length) {
    for (ssize_t n; length && (n = write(to, bytes, length)) > 0; bytes += n, length -= (size_t)n) {
    }
}

static void read_all(int from, bti_str *text) {
    char piece[4096];
    for (ssize_t n; (n = read(from, piece, sizeof piece)) > 0;) bti_str_add_bytes(text, piece, (size_t)n);
}

static _Noreturn void probe_in_child(const bti_driver *driver, unsigned kinds, int report, int said) {
    static bti_device_facts facts[BTI_MAX_DEVICES];
    bti_str reason = {0}, maps = {0};
    int count = 0;
    behave(said);
    (void)!driver->probe(kinds, facts, BTI_MAX_DEVICES, &count, &reason);
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file >= 0) read_all(file, &maps);
    write_all(report, "+", 1);
    write_all(report, bti_str_text(&maps), maps.length);
    _exit(0);
}

/* --- in the parent ------------------------------------------------------------------------------------------------- */

static bool start(trial *t, const bti_driver *driver, unsigned kinds) {
    int report[2], said[2];
    if (pipe2(report, O_CLOEXEC)) return false;
    if (pipe2(said, O_CLOEXEC)) {
        close(report[0]);
        close(report[1]);
        return false;
    }
    t->child = fork();
    if (!t->child) probe_in_child(driver, kinds, report[1], said[1]);
    close(report[1]);
    close(said[1]);
    t->report = report[0];
    t->said = said[0];
    if (t->child > 0) return true;
    close(report[0]);
    close(said[0]);
    return false;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Adds what has come; false at its end. */
static bool take(int from, bti_str *text) {
    char piece[4096];
    ssize_t n = read(from, piece, sizeof piece);
    if (n > 0) bti_str_add_bytes(text, piece, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Until the child has ended, or time is over. */
static bool listen_to(trial *t, int64_t deadline) {
    struct pollfd from[2] = {{.fd = t->report, .events = POLLIN}, {.fd = t->said, .events = POLLIN}};
    while (from[0].fd >= 0) {
        int64_t left = deadline - now_ms();
        if (left <= 0) return false;
        if (poll(from, 2, (int)left) <= 0) continue;
        if (from[0].revents && !take(t->report, &t->maps)) from[0].fd = -1;
        if (from[1].fd >= 0 && from[1].revents && !take(t->said, &t->words)) from[1].fd = -1;
    }
    return true;
}

static void read_maps(trial *t) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)t->child);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    read_all(file, &t->maps);
    close(file);
}

/* What the child printed last, as one line. */
static void add_words(const trial *t, bti_str *reason) {
    const char *words = bti_str_text(&t->words);
    size_t length = t->words.length, from = length > SAID_MOST ? length - SAID_MOST : 0;
    while (length > from && words[length - 1] <= ' ') length--;
    if (length == from) return;
    bti_str_add(reason, "; it said: ");
    for (size_t i = from; i < length; i++) {
        char c = words[i] < ' ' && words[i] >= 0 ? ' ' : words[i];
        bti_str_add_bytes(reason, &c, 1);
    }
}

static void add_end(int status, bool known, bti_str *reason) {
    if (known && WIFSIGNALED(status))
        bti_str_addf(reason, "crashed (%s)", strsignal(WTERMSIG(status)));
    else if (known && WIFEXITED(status))
        bti_str_addf(reason, "ended the process with status %d", WEXITSTATUS(status));
    else
        bti_str_add(reason, "ended the process");
}

static bti_verdict run(const bti_driver *driver, unsigned kinds, bti_str *reason, bti_str *maps) {
    trial t = {0};
    double seconds = bti_flag_float(BTI_FLAG_probe_seconds);
    if (!start(&t, driver, kinds)) return BTI_NO_VERDICT; /* no child can be made: as without trials */
    int status = 0;
    bool ended = listen_to(&t, now_ms() + (int64_t)(seconds * 1000)), known;
    t.done = t.maps.length > 0;
    if (!ended) {
        if (!t.done) read_maps(&t);
        kill(t.child, SIGKILL);
    }
    pid_t waited;
    while ((waited = waitpid(t.child, &status, 0)) < 0 && errno == EINTR) {
    }
    known = waited == t.child;
    if (!t.done) {
        bti_str_addf(reason, "%s: its library, tried in a process of its own, ", driver->name);
        if (ended)
            add_end(status, known, reason);
        else
            bti_str_addf(reason, "gave no answer in %g seconds (flag probe_seconds)", seconds);
        add_words(&t, reason);
    }
    close(t.report);
    close(t.said);
    bti_str_free(&t.words);
    *maps = t.maps;
    return t.done ? BTI_GOOD : BTI_BAD;
}

bool bti_trial(const bti_driver *driver, unsigned kinds, bti_str *reason) {
    int when = bti_flag_choice(BTI_FLAG_probe);
    if (when == BTI_PROBE_DIRECT) return true;
    bti_str words = {0}, maps = {0};
    bti_verdict verdict = when == BTI_PROBE_AUTO ? bti_verdict_find(driver->name, kinds, &words) : BTI_NO_VERDICT;
    if (verdict == BTI_NO_VERDICT) {
        verdict = run(driver, kinds, &words, &maps);
        if (verdict != BTI_NO_VERDICT)
            bti_verdict_keep(driver->name, kinds, verdict, bti_str_text(&words), bti_str_text(&maps));
    } else if (verdict == BTI_BAD)
        bti_str_add(&words, "; that was before, `berth doctor` tries it again");
    if (verdict == BTI_BAD) bti_str_addf(reason, "%s\n", bti_str_text(&words));
    bti_str_free(&words);
    bti_str_free(&maps);
    return verdict != BTI_BAD;
}

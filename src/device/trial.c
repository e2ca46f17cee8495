#include "device/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/verdict.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/guest.h"
#include "base/trace.h"
#include "device/device.h"

#define OUTPUT_SHOWN 300 /* bytes at the end of the child's output that go into the reason */

typedef struct trial {
    pid_t child;
    int report, output; /* pipes to read from: what the child found, what it prints */
    /* Of a probe: '+' and the child's memory maps; then, if the driver can check its devices, '\0' and '+', or '\0', '-' and why they cannot
     * be opened. */
    bti_str report_text;
    bti_str output_text;
} trial;

/* --- in the child -------------------------------------------------------------------------------------------------- */

/* The program's own exit handlers must not run in the child when a library calls exit. */
static void end_without_handlers(int status, void *unused) {
    (void)unused;
    _exit(status);
}

void bti_trial_begin_child(int output) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGTRAP, SIGSYS};
    const struct rlimit none = {0, 0};
    sigset_t all;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
    __fpurge(stdout); /* the program's buffered output, which a C++ library would write at exit */
    on_exit(end_without_handlers, NULL);
}

static void write_all(int to, const char *bytes, size_t length) {
    for (ssize_t n; length && (n = write(to, bytes, length)) > 0; bytes += n, length -= (size_t)n) {
    }
}

static void read_all(int from, bti_str *text) {
    char piece[4096];
    for (ssize_t n; (n = read(from, piece, sizeof piece)) > 0;) bti_str_add_bytes(text, piece, (size_t)n);
}

static bti_device_facts facts[BTI_MAX_DEVICES];

static void probe_in_child(const bti_driver *driver, unsigned kinds, int report) {
    bti_str reason = {0}, maps = {0};
    int count = 0;
    (void)!driver->probe(kinds, facts, BTI_MAX_DEVICES, &count, &reason);
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file >= 0) read_all(file, &maps);
    write_all(report, "+", 1);
    write_all(report, bti_str_text(&maps), maps.length);
    if (!count || !driver->check_usable) return;
    write_all(report, "", 1);
    bool ready = driver->check_usable() == BT_OK;
    write_all(report, ready ? "+" : "-", 1);
    if (!ready) write_all(report, bt_error_text(), strlen(bt_error_text()));
}

/* The child opens devices only to describe them: they get no memory. */
static bt_status refuse_memory(int device, size_t bytes, uint64_t *address, void **block) {
    (void)device, (void)address, (void)block;
    return bti_fail(BT_RESOURCE_EXHAUSTED, "a device that is only tried gets no memory (%zu bytes)", bytes);
}
static void return_no_memory(int device, void *block) { (void)device, (void)block; }

static void describe_device(const bti_driver *driver, int ordinal, bti_str *lines) {
    const bti_allocator allocator = {0, refuse_memory, return_no_memory};
    size_t free_bytes, total_bytes;
    void *device;
    if (driver->open(ordinal, &allocator, &device) != BT_OK) {
        bti_str_addf(lines, "cannot be opened: %s\n", bt_error_text());
        return;
    }
    if (driver->memory(device, &free_bytes, &total_bytes) == BT_OK)
        bti_str_addf(lines, "opened: %zu of %zu MiB of memory are free\n", free_bytes >> 20, total_bytes >> 20);
    else
        bti_str_add(lines, "opened\n");
    if (driver->describe) driver->describe(device, lines);
    driver->close(device);
}

static void open_in_child(const bti_driver *driver, unsigned kinds, int report) {
    bti_str reason = {0};
    int count = 0;
    if (driver->probe(kinds, facts, BTI_MAX_DEVICES, &count, &reason) != BT_OK) return;
    for (int i = 0; i < count && i < BTI_MAX_DEVICES; i++) {
        bti_str lines = {0}, head = {0};
        if (!(kinds & (1u << facts[i].kind))) continue;
        describe_device(driver, facts[i].ordinal, &lines);
        bti_str_addf(&head, "%d %zu\n", facts[i].ordinal, lines.length);
        write_all(report, bti_str_text(&head), head.length);
        write_all(report, bti_str_text(&lines), lines.length);
    }
    write_all(report, "+", 1);
}

/* --- in the parent ------------------------------------------------------------------------------------------------- */

typedef void child_work(const bti_driver *driver, unsigned kinds, int report);

typedef struct child {
    child_work *work;
    const bti_driver *driver;
    unsigned kinds;
    int report;
} child;

static void run_child(void *context) {
    const child *of = context;
    of->work(of->driver, of->kinds, of->report);
}

static bool start_child(trial *t, child_work *work, const bti_driver *driver, unsigned kinds) {
    int report[2], output[2];
    if (pipe2(report, O_CLOEXEC)) return false;
    if (pipe2(output, O_CLOEXEC)) {
        close(report[0]);
        close(report[1]);
        return false;
    }
    t->child = fork();
    if (!t->child) {
        bti_trial_begin_child(output[1]);
        (void)bti_with_stack(BTI_STACK_LIBRARY, run_child, &(child){work, driver, kinds, report[1]});
        _exit(0);
    }
    close(report[1]);
    close(output[1]);
    t->report = report[0];
    t->output = output[0];
    if (t->child > 0) return true;
    close(report[0]);
    close(output[0]);
    return false;
}

/* Appends what can be read now; false at the end of the pipe. */
static bool read_pipe(int from, bti_str *text) {
    char piece[4096];
    ssize_t n = read(from, piece, sizeof piece);
    if (n > 0) bti_str_add_bytes(text, piece, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Reads both pipes until the child closes its report (true), or reports nothing for `seconds` (false). */
static bool read_child(trial *t, double seconds) {
    int64_t wait = (int64_t)(seconds * 1000), deadline = (int64_t)bti_now_ms() + wait;
    struct pollfd from[2] = {{.fd = t->report, .events = POLLIN}, {.fd = t->output, .events = POLLIN}};
    while (from[0].fd >= 0) {
        int64_t left = deadline - (int64_t)bti_now_ms();
        if (left <= 0) return false;
        if (poll(from, 2, (int)left) <= 0) continue;
        if (from[0].revents) {
            deadline = (int64_t)bti_now_ms() + wait;
            if (!read_pipe(t->report, &t->report_text)) from[0].fd = -1;
        }
        if (from[1].fd >= 0 && from[1].revents && !read_pipe(t->output, &t->output_text)) from[1].fd = -1;
    }
    return true;
}

static void read_maps(trial *t) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)t->child);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    read_all(file, &t->report_text);
    close(file);
}

/* The end of the child's output, as one line. */
static void add_output(const trial *t, bti_str *reason) {
    const char *words = bti_str_text(&t->output_text);
    size_t length = t->output_text.length, from = length > OUTPUT_SHOWN ? length - OUTPUT_SHOWN : 0;
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

/* Runs `work` in a child until it ends; kills it when it gives no answer in time (*ended false). `end`: how it ended. False: no child can be
 * made. */
static bool run_trial(trial *t, child_work *work, const bti_driver *driver, unsigned kinds, bti_str *end, bool *ended) {
    double seconds = bti_flag_float(BTI_FLAG_probe_seconds);
    if (!start_child(t, work, driver, kinds)) return false;
    int status = 0;
    bool known;
    *ended = read_child(t, seconds);
    if (!*ended) {
        if (!t->report_text.length) read_maps(t);
        kill(t->child, SIGKILL);
    }
    pid_t waited;
    while ((waited = waitpid(t->child, &status, 0)) < 0 && errno == EINTR) {
    }
    known = waited == t->child;
    if (*ended)
        add_end(status, known, end);
    else
        bti_str_addf(end, "gave no answer in %g seconds (flag probe_seconds)", seconds);
    add_output(t, end);
    close(t->report);
    close(t->output);
    bti_str_free(&t->output_text);
    return true;
}

/* Reads what follows the maps. A child that was too slow proves nothing: the library may still become ready. */
static void read_unready(const trial *t, bool ended, const char *end, bti_str *unready) {
    const char *text = bti_str_text(&t->report_text), *answer = memchr(text, '\0', t->report_text.length);
    if (!answer) return;
    size_t length = t->report_text.length - (size_t)(++answer - text);
    if (length && *answer == '-')
        bti_str_add_bytes(unready, answer + 1, length - 1);
    else if (!length && ended)
        bti_str_addf(unready, "its library, started in a process of its own, %s", end);
}

static bti_verdict try_driver(const bti_driver *driver, unsigned kinds, bti_str *reason, bti_str *unready,
                              bti_str *maps) {
    trial t = {0};
    bti_str end = {0};
    bool ended;
    if (!run_trial(&t, probe_in_child, driver, kinds, &end, &ended))
        return BTI_NO_VERDICT; /* without a child the driver is asked in this process */
    bool done = bti_str_text(&t.report_text)[0] == '+';
    if (!done)
        bti_str_addf(reason, "%s: its library, tried in a process of its own, %s", driver->name, bti_str_text(&end));
    else
        read_unready(&t, ended, bti_str_text(&end), unready);
    bti_str_free(&end);
    *maps = t.report_text;
    return done ? BTI_GOOD : BTI_BAD;
}

void bti_trial_open(const bti_driver *driver, unsigned kinds, bti_str *details, bti_str *reason) {
    trial t = {0};
    if (bti_flag_choice(BTI_FLAG_probe) != BTI_PROBE_OPEN) return;
    bti_str end = {0};
    bool ended;
    if (!run_trial(&t, open_in_child, driver, kinds, &end, &ended)) return;
    *details = t.report_text;
    if (!details->length || details->text[details->length - 1] != '+')
        bti_str_addf(reason, "opening it, in a process of its own, %s\n", bti_str_text(&end));
    bti_str_free(&end);
}

char *bti_trial_details(const bti_str *details, int ordinal) {
    const char *at = bti_str_text(details), *end = at + details->length;
    int number, head;
    size_t bytes;
    while (at < end && sscanf(at, "%d %zu\n%n", &number, &bytes, &head) == 2 && bytes <= (size_t)(end - at - head)) {
        if (number == ordinal) {
            bti_str lines = {0};
            bti_str_add_bytes(&lines, at + head, bytes);
            return bti_str_take(&lines);
        }
        at += (size_t)head + bytes;
    }
    return NULL;
}

bool bti_trial(const bti_driver *driver, unsigned kinds, bti_str *reason, bti_str *unready) {
    int when = bti_flag_choice(BTI_FLAG_probe);
    if (when == BTI_PROBE_DIRECT) return true;
    bti_str words = {0}, maps = {0};
    bti_verdict verdict = when == BTI_PROBE_AUTO ? bti_verdict_find(driver->name, kinds, &words) : BTI_NO_VERDICT;
    if (verdict == BTI_NO_VERDICT) {
        verdict = try_driver(driver, kinds, &words, unready, &maps);
        if (verdict != BTI_NO_VERDICT && !unready->length) /* not kept: a missing part may be installed at any time */
            bti_verdict_keep(driver->name, kinds, verdict, bti_str_text(&words), bti_str_text(&maps));
    } else if (verdict == BTI_BAD)
        bti_str_add(&words, " (an earlier result; `berth doctor` tries again)");
    if (verdict == BTI_BAD) bti_str_addf(reason, "%s\n", bti_str_text(&words));
    bti_str_free(&words);
    bti_str_free(&maps);
    return verdict != BTI_BAD;
}

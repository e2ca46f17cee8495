#include "task/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_text.h"

static bool read_stat(const char *path, bti_proc *stat) {
    static const char format[] = ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu";
    char text[512];
    int parent;
    bti_file_text(path, text, sizeof text);
    const char *end = strrchr(text, ')'); /* the name before it may have any character */
    if (!end || sscanf(end, format, &stat->state, &parent, &stat->began) != 3) return false;
    stat->parent = parent;
    return true;
}

bool bti_proc_stat(pid_t pid, bti_proc *stat) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return read_stat(path, stat);
}

bt_status bti_proc_check(void) {
    char text[32];
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);
    if (length < 0)
        return bti_fail(BT_FAILED_PRECONDITION,
                        "the runtime looks at its processes in /proc, which is not there (%s): mount it",
                        strerror(errno));
    text[length] = '\0';
    if (atoi(text) == getpid()) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION,
                    "/proc is that of another PID namespace (this process is %d, and %s there): mount one "
                    "of this namespace (mount -t proc proc /proc)",
                    (int)getpid(), text);
}

/* Not stopped if any thread runs: the first one may have ended (pthread_exit). */
bti_halt bti_halt_of(pid_t pid) {
    char path[64];
    bti_halt halt = BTI_NOT_HALTED;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *row; threads && (row = readdir(threads)) != NULL;) {
        bti_proc stat;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, row->d_name);
        if (row->d_name[0] == '.' || !read_stat(path, &stat) || stat.state == 'Z' || stat.state == 'X') continue;
        halt = stat.state == 'T' ? BTI_STOPPED : stat.state == 't' ? BTI_TRACED : BTI_NOT_HALTED;
        if (!halt) break;
    }
    if (threads) closedir(threads);
    return halt;
}

/* --- name -------------------------------------------------------------------------------------------------------------- */

static size_t read_proc_file(int32_t pid, const char *name, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return bti_file_text(path, text, size);
}

const char *bti_proc_name(int32_t pid, char *text, size_t size) {
    size_t length = read_proc_file(pid, "comm", text, size);
    if (length) text[length - 1] = '\0'; /* a newline */
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20) *at = '?';
    if (!length) snprintf(text, size, "?");
    return text;
}

/* --- threads ------------------------------------------------------------------------------------------------------------- */

/* ThreadSanitizer makes a thread in each process, and one more after a fork. */
#ifdef __SANITIZE_THREAD__
enum { CHECKED_THREADS = 1 };
#else
enum { CHECKED_THREADS = 0 };
#endif

static int count_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *row; tasks && (row = readdir(tasks)) != NULL;) count += row->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count > 1 ? count - CHECKED_THREADS : count;
}

bool bti_is_alone(void) { return count_threads() <= 1; }

/* Threads of berth and of libraries block all signals but those of faults (base/guest.h). A user's thread that blocks all signals blocks
 * those of faults too, as ThreadSanitizer's threads do. */
static bool holds_back_signals(unsigned long long blocked) {
    static const int held[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGIO};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (!(blocked >> (held[i] - 1) & 1)) return false;
    return CHECKED_THREADS || !(blocked >> (SIGSEGV - 1) & 1);
}

static bool runs_user_code(int32_t pid, const char *thread) {
    char path[64], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/%" PRId32 "/task/%.20s/status", pid, thread);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigBlk: %llx", &blocked) == 1) break;
    if (file) fclose(file);
    return !holds_back_signals(blocked);
}

uint32_t bti_threads_of_user(int32_t pid) {
    char path[64];
    uint32_t count = 0;
    snprintf(path, sizeof path, "/proc/%" PRId32 "/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *row; threads && (row = readdir(threads)) != NULL;)
        count += row->d_name[0] != '.' && runs_user_code(pid, row->d_name);
    if (threads) closedir(threads);
    return count;
}

/* --- memory -------------------------------------------------------------------------------------------------------------- */

bool bti_proc_maps(pid_t pid, const void *address, const char *file_name) {
    char path[64], line[512], start[40];
    bool has = false, begins = true;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    int length = snprintf(start, sizeof start, "%" PRIxPTR "-", (uintptr_t)address);
    FILE *maps = fopen(path, "re");
    while (maps && !has && fgets(line, sizeof line, maps)) {
        has = begins && !strncmp(line, start, (size_t)length) && strstr(line, file_name);
        begins = strchr(line, '\n');
    }
    if (maps) fclose(maps);
    return has;
}

uint64_t bti_proc_resident(int32_t pid) {
    char text[128];
    unsigned long long pages = 0;
    if (pid && read_proc_file(pid, "statm", text, sizeof text) && sscanf(text, "%*u %llu", &pages) != 1) pages = 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

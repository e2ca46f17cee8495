#include "task/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_stat(const char *path, bti_proc *stat) {
    static const char format[] = ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu";
    char text[512];
    int parent;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
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

/* The first thread may have ended (pthread_exit): one that runs is enough. */
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

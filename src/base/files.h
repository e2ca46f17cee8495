/* Files of this process: their numbers, and writing to them. */
#ifndef BTI_BASE_FILES_H
#define BTI_BASE_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"

/* --- numbers --- */

/* RESOURCE_EXHAUSTED: "`what`: the error's text", and the limit when that is why. */
bt_status bti_files_refuse(const char *what, int error);

/* The same open file, closed at exec, under a number that is no standard file's: where those are closed, a file that is opened gets one of
 * theirs, and is then read, written or replaced as such. Takes `file` over; -1 stays -1, errno says why there is none. */
static inline int bti_file_above_standard(int file) {
    if (file < 0 || file > STDERR_FILENO) return file;
    int higher = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(file);
    errno = error;
    return higher;
}

/* Both ends of a pair that was made (`made` is 0); -1, with errno, when one of them cannot be, and none is left. */
static inline int bti_ends_above_standard(int made, int ends[2]) {
    if (made != 0) return -1;
    for (int i = 0; i < 2; i++) {
        if ((ends[i] = bti_file_above_standard(ends[i])) >= 0) continue;
        int error = errno;
        close(ends[1 - i]);
        return errno = error, -1;
    }
    return 0;
}

/* --- writing ---
 * Writes that cannot end the process: past RLIMIT_FSIZE the kernel sends SIGXFSZ, at a pipe or a socket that nobody reads SIGPIPE,
 * both to the thread that writes. Between begin and end these signals are blocked, and those that came meanwhile are taken; the write
 * fails with EFBIG or EPIPE. A handler of the program's does not run for them. */
typedef struct bti_writes {
    sigset_t before;
    int pending; /* bits: SIGXFSZ, SIGPIPE were pending before; negative: nothing was blocked */
} bti_writes;

bti_writes bti_writes_begin(void);
void bti_writes_end(bti_writes *writes); /* errno stays */

/* To the end of the block. */
#define BTI_WRITES __attribute__((cleanup(bti_writes_end), unused)) bti_writes bti_writes_here = bti_writes_begin()

#endif

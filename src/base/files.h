/* Numbers of files. */
#ifndef BTI_BASE_FILES_H
#define BTI_BASE_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

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

#endif

#include "task/output.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void flush_stream(FILE *stream) {
    if (__fpending(stream) && fflush(stream) != 0 && errno == EPIPE) {
        clearerr(stream);
        __fpurge(stream);
    }
}

/* Only a SIGPIPE of these writes is consumed: one that the function's own writes made pending stays. */
void bti_output_flush(void) {
    if (!__fpending(stdout) && !__fpending(stderr)) return;
    sigset_t broken, before, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    flush_stream(stdout);
    flush_stream(stderr);
    if (!sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&broken, NULL, &(struct timespec){0}) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The pipes that the worker got from the nest; a function may have replaced them by its own files. */
static ino_t pipes[2];
static char named[160];

static void write_to_pipe(int file, ino_t *pipe, const char *text, size_t length) {
    struct stat is;
    if (fstat(file, &is) != 0 || !S_ISFIFO(is.st_mode)) return;
    if (!*named) *pipe = is.st_ino; /* the first time */
    if (is.st_ino == *pipe)
        while (write(file, text, length) < 0 && errno == EINTR) continue;
}

void bti_output_name(const char *function) {
    char text[sizeof BTI_OUTPUT_NAME + sizeof named + 32];
    if (!strcmp(named, function)) return;
    if (!*named)
        setvbuf(stdout, NULL, _IOLBF,
                BUFSIZ); /* so that lines are written when they are printed, not when the call ends */
    int length = snprintf(text, sizeof text, BTI_OUTPUT_NAME "%.100s pid=%d\n", function, (int)getpid());
    write_to_pipe(STDOUT_FILENO, &pipes[0], text, (size_t)length);
    write_to_pipe(STDERR_FILENO, &pipes[1], text, (size_t)length);
    snprintf(named, sizeof named, "%s", function);
}

bool bti_output_mark(const bti_errors_read *read, atomic_ullong *mark, int tries) {
    enum { TRIES_WITHOUT_PAUSE = 16 };
    for (int i = 0; i < tries; i++) {
        int unread;
        unsigned turn = atomic_load(&read->turn);
        unsigned long long bytes = atomic_load(&read->bytes);
        if (i >= TRIES_WITHOUT_PAUSE) sched_yield();
        if (turn % 2) continue;
        if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0) return true;
        if (atomic_load(&read->turn) != turn) continue;
        atomic_store(mark, bytes + (unsigned)unread);
        return true;
    }
    return false;
}

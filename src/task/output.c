#include "task/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <time.h>

static void flush(FILE *stream) {
    if (__fpending(stream) && fflush(stream) != 0 && errno == EPIPE) {
        clearerr(stream);
        __fpurge(stream);
    }
}

/* SIGPIPE of these writes alone is taken back: one that the function's own writes made pending stays. */
void bti_output_flush(void) {
    if (!__fpending(stdout) && !__fpending(stderr)) return;
    sigset_t broken, before, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    flush(stdout);
    flush(stderr);
    if (!sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&broken, NULL, &(struct timespec){0}) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#include "base/files.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* --- numbers --------------------------------------------------------------------------------------------------------- */

bt_status bti_files_refuse(const char *what, int error) {
    struct rlimit limit;
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: %s", what, strerror(error));
    return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: %s: the limit RLIMIT_NOFILE (ulimit -n) is %llu", what, strerror(error),
                    (unsigned long long)limit.rlim_cur);
}

/* --- writing ---------------------------------------------------------------------------------------------------------- */

static const int signals[] = {SIGXFSZ, SIGPIPE};
enum { SIGNALS = sizeof signals / sizeof *signals };

static int pending(void) {
    sigset_t set;
    int bits = 0;
    if (sigpending(&set)) return 3;
    for (int i = 0; i < SIGNALS; i++) bits |= (sigismember(&set, signals[i]) == 1) << i;
    return bits;
}

bti_writes bti_writes_begin(void) {
    bti_writes writes = {.pending = -1};
    int error = errno;
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++) sigaddset(&set, signals[i]);
    if (pthread_sigmask(SIG_BLOCK, &set, &writes.before) == 0) writes.pending = pending();
    errno = error;
    return writes;
}

void bti_writes_end(bti_writes *writes) {
    int error = errno;
    if (writes->pending < 0) return;
    int came = pending() & ~writes->pending;
    for (int i = 0; i < SIGNALS; i++) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, signals[i]);
        if (came >> i & 1)
            while (sigtimedwait(&set, NULL, &(struct timespec){0}) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &writes->before, NULL);
    errno = error;
}

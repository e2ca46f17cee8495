#include "task/ray/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

enum { STACK_BYTES = 64 << 10, THEIR_FILE = 3 };

extern char **environ;

/* Both child processes share the memory of the program, whose thread waits meanwhile: they only make system calls. The first ends at once, so the
 * second is nobody's child. */
typedef struct spawning {
    _Alignas(16) char first[STACK_BYTES], second[STACK_BYTES];
    const char *const *arguments;
    int file;
    pid_t pid;
    int error;
} spawning;

__attribute__((no_sanitize("address", "thread", "undefined"))) static int execute_spawned(void *given) {
    spawning *s = given;
    sigset_t none;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int signal = 1; signal < NSIG; signal++) (void)sigaction(signal, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* signals of a terminal are the program's */
    if (s->file == THEIR_FILE ? fcntl(s->file, F_SETFD, 0) == 0 : dup2(s->file, THEIR_FILE) == THEIR_FILE)
        execvpe(s->arguments[0], (char *const *)(uintptr_t)s->arguments, environ);
    s->error = errno;
    _exit(127);
}

__attribute__((no_sanitize("address", "thread", "undefined"))) static int orphan_spawned(void *given) {
    spawning *s = given;
    s->pid = clone(execute_spawned, s->second + sizeof s->second, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (s->pid < 0) s->error = errno;
    _exit(0);
}

bt_status bti_ray_spawn(const char *const *arguments, int file, pid_t *pid) {
    sigset_t all, before;
    int reaper = 0;
    spawning *s = bti_calloc(1, sizeof *s);
    if (!s) return bti_no_memory();
    s->arguments = arguments;
    s->file = file;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's handlers must not run in the children */
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    if (reaper) prctl(PR_SET_CHILD_SUBREAPER, 0);
    pid_t between = clone(orphan_spawned, s->first + sizeof s->first, CLONE_VM | CLONE_VFORK, s);
    int error = errno;
    if (between > 0)
        while (waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR) continue;
    if (reaper) prctl(PR_SET_CHILD_SUBREAPER, 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (between > 0) error = s->error;
    *pid = s->pid;
    bti_free(s);
    if (!error) return BT_OK;
    return bti_fail(error == ENOENT || error == EACCES ? BT_NOT_FOUND : BT_RESOURCE_EXHAUSTED,
                    "%s cannot be started: %s", arguments[0], strerror(error));
}

/* Running the programs that commands are given. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "cli/cli.h"

extern char **environ;

bool cli_add_flag(const char *flag, const char *value) {
    const char *before = getenv("BERTH_FLAGS");
    char *flags;
    if (asprintf(&flags, "%s%s%s=%s", before ? before : "", before && *before ? "," : "", flag, value) < 0)
        return false;
    bool done = !setenv("BERTH_FLAGS", flags, 1);
    free(flags);
    return done;
}

int cli_run_program(char **program) {
    posix_spawnattr_t attributes;
    sigset_t keys;
    pid_t child;
    int status = 0;
    sigemptyset(&keys);
    sigaddset(&keys, SIGINT);
    sigaddset(&keys, SIGQUIT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &keys);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    int error = posix_spawnp(&child, *program, NULL, &attributes, program, environ);
    posix_spawnattr_destroy(&attributes);
    while (!error && waitpid(child, &status, 0) < 0)
        if (errno != EINTR) error = errno;
    errno = error;
    return error ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

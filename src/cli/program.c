/* Running the programs that commands are given; `berth explain` runs one with the flag `explain`. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static int run_told(char **argv, char **program, const char *flag, const char *file, json_t **told) {
    if (!cli_add_flag(flag, file)) return cli_failure(argv, "out of memory");
    int code = cli_run_program(program);
    if (code < 0) return cli_failure(argv, *program);
    json_error_t error;
    *told = json_load_file(file, 0, &error);
    if (*told) return code;
    fprintf(stderr, "%s: %s reported nothing: it did not use berth, or was killed\n", argv[0], *program);
    return code ? code : CLI_FAILED;
}

int cli_run_told(char **argv, char **program, const char *flag, json_t **told) {
    const char *set = getenv("TMPDIR"), *folder = set && *set == '/' && !strchr(set, ',') ? set : "/tmp";
    char *file;
    *told = NULL;
    if (asprintf(&file, "%s/berth-%s-XXXXXX", folder, flag) < 0) return cli_failure(argv, "out of memory");
    int opened = mkstemp(file), code = CLI_FAILED;
    if (opened < 0)
        cli_failure(argv, file);
    else {
        close(opened);
        code = run_told(argv, program, flag, file, told);
        unlink(file);
    }
    free(file);
    return code;
}

bool cli_temporary_folder(char *path, size_t size) {
    const char *set = getenv("TMPDIR");
    snprintf(path, size, "%s/berth-XXXXXX", set && *set ? set : "/tmp");
    return mkdtemp(path);
}

int cli_explain(int argc, char **argv) {
    const char *format = "on";
    int next = 1;
    if (argc > 1 && (!strcmp(argv[1], "--json") || !strcmp(argv[1], "--dot") || !strcmp(argv[1], "--passes")))
        format = argv[next++] + 2;
    if (argc < next + 2 || strcmp(argv[next], "--")) {
        fprintf(stderr, "usage: %s [--json|--dot|--passes] -- PROGRAM [ARGUMENT...]\n", argv[0]);
        return CLI_USAGE;
    }
    char **program = argv + next + 1;
    if (cli_add_flag("explain", format)) execvp(*program, program);
    fprintf(stderr, "%s: %s: %s\n", argv[0], *program, strerror(errno));
    return CLI_FAILED;
}

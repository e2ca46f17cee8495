#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* BERTH_FLAGS of the program: what it was, and explain. */
static bool add_flag(const char *form) {
    const char *before = getenv("BERTH_FLAGS");
    char *flags;
    if (asprintf(&flags, "%s%sexplain=%s", before ? before : "", before && *before ? "," : "", form) < 0) return false;
    bool done = !setenv("BERTH_FLAGS", flags, 1);
    free(flags);
    return done;
}

int cli_explain(int argc, char **argv) {
    const char *form = "on";
    int next = 1;
    if (argc > 1 && (!strcmp(argv[1], "--json") || !strcmp(argv[1], "--dot"))) form = argv[next++] + 2;
    if (argc < next + 2 || strcmp(argv[next], "--")) {
        fprintf(stderr, "usage: %s [--json|--dot] -- PROGRAM [ARGUMENT...]\n", argv[0]);
        return CLI_USAGE;
    }
    char **program = argv + next + 1;
    if (add_flag(form)) execvp(*program, program);
    fprintf(stderr, "%s: %s: %s\n", argv[0], *program, strerror(errno));
    return CLI_FAILED;
}

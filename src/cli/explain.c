/* `berth explain`: runs a program with the flag `explain`. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

int cli_explain(int argc, char **argv) {
    const char *format = "on";
    int next = 1;
    if (argc > 1 && (!strcmp(argv[1], "--json") || !strcmp(argv[1], "--dot"))) format = argv[next++] + 2;
    if (argc < next + 2 || strcmp(argv[next], "--")) {
        fprintf(stderr, "usage: %s [--json|--dot] -- PROGRAM [ARGUMENT...]\n", argv[0]);
        return CLI_USAGE;
    }
    char **program = argv + next + 1;
    if (cli_add_flag("explain", format)) execvp(*program, program);
    fprintf(stderr, "%s: %s: %s\n", argv[0], *program, strerror(errno));
    return CLI_FAILED;
}

/* `berth ps`: the runtimes of this user, as they tell of themselves. */
#include <stdlib.h>

#include "cli/cli.h"

static int print(char **argv, int pid, bool json) {
    char *text = bt_runtimes_text(pid, json);
    if (!text) return cli_error(argv, "nothing is known");
    fputs(text, stdout);
    bt_free(text);
    return CLI_OK;
}

static int write_timeline(char **argv, int pid, const char *path) {
    if (bt_runtimes_timeline(pid, path) != BT_OK) return cli_error(argv, "no timeline was written");
    fprintf(stderr, "%s: wrote %s\n", argv[0], path);
    return CLI_OK;
}

int cli_ps(int argc, char **argv) {
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"timeline", required_argument, NULL, 't'}, {0}};
    const char *timeline = NULL;
    bool json = false;
    int pid;
    for (int option; (option = cli_option(argc, argv, options)) != -1;) {
        if (option == '?') return CLI_USAGE;
        if (option == 'j') json = true;
        if (option == 't') timeline = optarg;
    }
    if (!cli_process(argc, argv, &pid)) return CLI_USAGE;
    return timeline ? write_timeline(argv, pid, timeline) : print(argv, pid, json);
}

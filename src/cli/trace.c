/* `berth trace`: records a trace of a program and makes an HTML page of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int print_usage_error(char **argv, const char *what) {
    fprintf(stderr, "%s: %s\nsee \"%s --help\"\n", argv[0], what, argv[0]);
    return CLI_USAGE;
}

static int print_failure(char **argv, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", argv[0], what, strerror(errno));
    return CLI_FAILED;
}

/* "run.json" -> "run.html"; a path without the suffix gets one. Freed by the caller; NULL when out of memory. */
static char *replace_suffix(const char *path, const char *before, const char *after) {
    size_t length = strlen(path), end = strlen(before);
    char *named;
    if (length > end && !strcmp(path + length - end, before)) length -= end;
    return asprintf(&named, "%.*s%s", (int)length, path, after) < 0 ? NULL : named;
}

/* An absolute path, because the program may change its working directory. Freed by the caller. */
static char *absolute_path(const char *path) {
    char *folder = *path == '/' ? strdup("") : getcwd(NULL, 0), *whole = NULL;
    if (folder && asprintf(&whole, "%s%s%s", folder, *folder ? "/" : "", path) < 0) whole = NULL;
    free(folder);
    return whole;
}

static int make_page(char **argv, const char *json, const char *html) {
    if (bt_trace_page(json, html) != BT_OK) return cli_error(argv, "the page cannot be written");
    fprintf(stderr, "%s: wrote %s\n", argv[0], html);
    return CLI_OK;
}

static int record_program(char **argv, char **program, const char *json, const char *html) {
    if (strchr(json, ',')) return print_usage_error(argv, "the path of the page may not contain a comma");
    if (unlink(json) && errno != ENOENT) return print_failure(argv, json);
    if (!cli_add_flag("trace", json)) return print_failure(argv, "out of memory");
    int code = cli_run_program(program);
    if (code < 0) return print_failure(argv, *program);
    if (access(json, R_OK)) {
        fprintf(stderr, "%s: %s recorded nothing: it did not use berth, or was killed\n", argv[0], *program);
        return code ? code : CLI_FAILED;
    }
    fprintf(stderr, "%s: wrote %s\n", argv[0], json);
    int page = make_page(argv, json, html);
    return code ? code : page;
}

int cli_trace(int argc, char **argv) {
    static const struct option known[] = {{"output", required_argument, NULL, 'o'}, {0}};
    const char *output = NULL;
    for (int option; (option = getopt_long(argc, argv, "+o:", known, NULL)) != -1;) {
        if (option != 'o') return fprintf(stderr, "see \"%s --help\"\n", argv[0]), CLI_USAGE;
        output = optarg;
    }
    if (optind == argc) return print_usage_error(argv, "give a program (-- PROGRAM) or a recorded file");
    bool program = !strcmp(argv[optind - 1], "--");
    if (!program && optind + 1 < argc) return print_usage_error(argv, "give one file; a program stands after --");
    char *html =
        program || output ? strdup(output ? output : "trace.html") : replace_suffix(argv[optind], ".json", ".html");
    char *beside = html ? replace_suffix(html, ".html", ".json") : NULL, *json = beside ? absolute_path(beside) : NULL;
    int code = !json     ? print_failure(argv, "out of memory")
               : program ? record_program(argv, argv + optind, json, html)
                         : make_page(argv, argv[optind], html);
    free(html);
    free(beside);
    free(json);
    return code;
}

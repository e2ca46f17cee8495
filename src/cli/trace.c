/* `berth trace`: runs a program that records, and makes a page of what it recorded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int wrong(char **argv, const char *what) {
    fprintf(stderr, "%s: %s\nsee \"%s --help\"\n", argv[0], what, argv[0]);
    return CLI_USAGE;
}

static int failed(char **argv, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", argv[0], what, strerror(errno));
    return CLI_FAILED;
}

/* "run.json" -> "run.html"; what has no such end gets another. Yours to free; NULL when memory is short. */
static char *with_end(const char *path, const char *before, const char *after) {
    size_t length = strlen(path), end = strlen(before);
    char *named;
    if (length > end && !strcmp(path + length - end, before)) length -= end;
    return asprintf(&named, "%.*s%s", (int)length, path, after) < 0 ? NULL : named;
}

/* The program may go elsewhere: a path from the root. Yours to free. */
static char *from_root(const char *path) {
    char *folder = *path == '/' ? strdup("") : getcwd(NULL, 0), *whole = NULL;
    if (folder && asprintf(&whole, "%s%s%s", folder, *folder ? "/" : "", path) < 0) whole = NULL;
    free(folder);
    return whole;
}

static int make_page(char **argv, const char *json, const char *html) {
    if (bt_trace_page(json, html) != BT_OK) return cli_error(argv, "no page was written");
    fprintf(stderr, "%s: wrote %s\n", argv[0], html);
    return CLI_OK;
}

static int record(char **argv, char **program, const char *json, const char *html) {
    if (strchr(json, ',')) return wrong(argv, "the name of the page and its folders may hold no comma");
    if (unlink(json) && errno != ENOENT) return failed(argv, json);
    if (!cli_add_flag("trace", json)) return failed(argv, "out of memory");
    int code = cli_run_program(program);
    if (code < 0) return failed(argv, *program);
    if (access(json, R_OK)) {
        fprintf(stderr, "%s: %s recorded nothing: it did not use berth, or did not end by itself\n", argv[0], *program);
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
    if (optind == argc) return wrong(argv, "a program (-- PROGRAM) or a recorded file is missing");
    bool program = !strcmp(argv[optind - 1], "--");
    if (!program && optind + 1 < argc) return wrong(argv, "one file at a time; a program comes after --");
    char *html = program || output ? strdup(output ? output : "trace.html") : with_end(argv[optind], ".json", ".html");
    char *beside = html ? with_end(html, ".html", ".json") : NULL, *json = beside ? from_root(beside) : NULL;
    int code = !json     ? failed(argv, "out of memory")
               : program ? record(argv, argv + optind, json, html)
                         : make_page(argv, argv[optind], html);
    free(html);
    free(beside);
    free(json);
    return code;
}

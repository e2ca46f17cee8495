/* `berth trace`: records a trace of a program and makes an HTML page of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

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

void cli_page_free(cli_page *page) {
    free(page->html);
    free(page->json);
    *page = (cli_page){0};
}

/* Both paths; without a suffix the page's path gets one. */
static int name_page(char **argv, const char *html, cli_page *page) {
    char *beside = replace_suffix(html, ".html", ".json");
    *page = (cli_page){strdup(html), beside ? absolute_path(beside) : NULL};
    free(beside);
    if (page->html && page->json) return CLI_OK;
    cli_page_free(page);
    return cli_failure(argv, "out of memory");
}

int cli_page_begin(char **argv, const char *html, cli_page *page) {
    int code = name_page(argv, html, page);
    if (code != CLI_OK) return code;
    if (strchr(page->json, ','))
        code = cli_misuse(argv, "the path of the page may not contain a comma");
    else if (unlink(page->json) && errno != ENOENT)
        code = cli_failure(argv, page->json);
    else if (!cli_add_flag("trace", page->json))
        code = cli_failure(argv, "out of memory");
    if (code != CLI_OK) cli_page_free(page);
    return code;
}

int cli_page_end(char **argv, cli_page *page, const char *program, int code) {
    if (access(page->json, R_OK)) {
        fprintf(stderr, "%s: %s recorded nothing: it did not use berth, or was killed\n", argv[0], program);
        code = code ? code : CLI_FAILED;
    } else {
        fprintf(stderr, "%s: wrote %s\n", argv[0], page->json);
        int made = make_page(argv, page->json, page->html);
        code = code ? code : made;
    }
    cli_page_free(page);
    return code;
}

static int record_program(char **argv, char **program, const char *html) {
    cli_page page;
    int code = cli_page_begin(argv, html, &page);
    if (code != CLI_OK) return code;
    code = cli_run_program(program);
    if (code >= 0) return cli_page_end(argv, &page, *program, code);
    cli_page_free(&page);
    return cli_failure(argv, *program);
}

static int show_recording(char **argv, const char *file, const char *output) {
    char *html = output ? strdup(output) : replace_suffix(file, ".json", ".html");
    int code = html ? make_page(argv, file, html) : cli_failure(argv, "out of memory");
    free(html);
    return code;
}

int cli_trace(int argc, char **argv) {
    static const struct option known[] = {{"output", required_argument, NULL, 'o'}, {0}};
    const char *output = NULL;
    for (int option; (option = getopt_long(argc, argv, "+o:", known, NULL)) != -1;) {
        if (option != 'o') return fprintf(stderr, "see \"%s --help\"\n", argv[0]), CLI_USAGE;
        output = optarg;
    }
    if (optind == argc) return cli_misuse(argv, "give a program (-- PROGRAM) or a recorded file");
    bool program = !strcmp(argv[optind - 1], "--");
    if (!program && optind + 1 < argc) return cli_misuse(argv, "give one file; a program stands after --");
    return program ? record_program(argv, argv + optind, output ? output : "trace.html")
                   : show_recording(argv, argv[optind], output);
}

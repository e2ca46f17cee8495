/* `berth bench --interactive`: rows in turn with whoever writes their names, so that two libraries are timed in one run. */
#include "cli/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void answer(json_t *line) {
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

/* One line, "REPETITION [FILE]", about the row. */
static bool repeat(const bench_row *row, bench_work *work, char *rest) {
    bench_sample sample = {0};
    char *file = rest;
    work->repetition = strtoll(rest, &file, 10);
    file += strspn(file, " ");
    if (!bench_once(row, work, *file ? file : NULL, &sample)) {
        answer(json_pack("{s:s, s:s}", "row", row->name, "error", bt_error_text()));
        return false;
    }
    answer(json_pack("{s:s, s:f, s:I, s:f, s:f}", "row", row->name, "seconds", sample.seconds, "kernels",
                     (json_int_t)sample.kernels, "bytes", bench_bytes(row, work->target), "flops",
                     bench_flops(row, work->target)));
    return true;
}

typedef struct reader {
    char *line;
    size_t size;
    char *rest; /* of the line, after the name; NULL: no line left */
} reader;

/* The next line that is not empty; its name is cut off at line. */
static void read_line(reader *in) {
    ssize_t length;
    in->rest = NULL;
    do length = getline(&in->line, &in->size, stdin);
    while (length == 1 && *in->line == '\n');
    if (length <= 0) return;
    if (in->line[length - 1] == '\n') in->line[length - 1] = '\0';
    in->rest = in->line + strcspn(in->line, " ");
    if (*in->rest) *in->rest++ = '\0';
}

/* As long as lines name the same row it stays prepared. */
static bool serve(const bench_row *row, const bench_target *target, reader *in) {
    bool good = true;
    BT_SCOPE {
        bench_work work = {.target = target};
        good = bench_warm_up(row, &work);
        if (!good) answer(json_pack("{s:s, s:s}", "row", row->name, "error", bt_error_text()));
        for (bool ready = good; in->rest && !strcmp(in->line, row->name); read_line(in))
            if (ready) good = repeat(row, &work, in->rest) && good;
    }
    return good;
}

int bench_interactive(char **argv, const bench_target *target) {
    reader in = {0};
    int code = CLI_OK;
    read_line(&in);
    while (in.rest) {
        const bench_row *row = strcmp(in.line, "copy") ? bench_row_find(argv, in.line) : NULL;
        if (!strcmp(in.line, "copy")) {
            answer(json_pack("{s:s, s:f}", "row", "copy", "bytes_per_s", bench_copy_rate(target)));
            read_line(&in);
        } else if (!row) {
            code = CLI_FAILED;
            answer(json_pack("{s:s, s:s}", "row", in.line, "error", "unknown row"));
            read_line(&in);
        } else if (!serve(row, target, &in)) {
            code = CLI_FAILED;
        }
    }
    free(in.line);
    return code;
}

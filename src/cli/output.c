/* What commands print: styles, tables, bytes, errors, JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static bool uses_color(FILE *out) {
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(no_color && *no_color) && terminal && strcmp(terminal, "dumb") && isatty(fileno(out));
}

const char *cli_begin(FILE *out, cli_style style) {
    static const char *const codes[] = {"", "\033[1m", "\033[32m", "\033[31m"};
    return uses_color(out) ? codes[style] : "";
}

const char *cli_end(FILE *out) { return uses_color(out) ? "\033[0m" : ""; }

const char *cli_bytes(uint64_t bytes, const char *none) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static char ring[8][24];
    static unsigned next;
    if (!bytes) return none ? none : "-";
    char *text = ring[next++ % 8];
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 6; unit++) value /= 1024;
    snprintf(text, sizeof ring[0], unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *cli_time(double seconds) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    static char ring[8][16];
    static unsigned next;
    char *text = ring[next++ % 8];
    int unit = 0;
    for (; unit < 3 && seconds < 0.9995; unit++) seconds *= 1e3;
    int digits = seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0;
    snprintf(text, sizeof ring[0], "%.*f %s", digits, seconds, units[unit]);
    return text;
}

int cli_misuse(char **argv, const char *what) {
    fprintf(stderr, "%s: %s\nsee \"%s --help\"\n", argv[0], what, argv[0]);
    return CLI_USAGE;
}

int cli_failure(char **argv, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", argv[0], what, strerror(errno));
    return CLI_FAILED;
}

int cli_error(char **argv, const char *message) {
    fflush(stdout);
    fprintf(stderr, "%s: %s: %s\n", argv[0], message, bt_error_text());
    return CLI_FAILED;
}

bool cli_settings_good(char **argv) {
    if (bt_check_flags() == BT_OK) return true;
    fprintf(stderr, "%s: nothing was done: the settings have an error\n", argv[0]);
    return false;
}

static void *check_memory(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "berth: out of memory\n");
    exit(CLI_FAILED);
}

void cli_table_row(cli_table *table, ...) {
    va_list cells;
    table->cells = check_memory(realloc(table->cells, (table->count + (size_t)table->columns) * sizeof *table->cells));
    va_start(cells, table);
    for (int i = 0; i < table->columns; i++)
        table->cells[table->count++] = check_memory(strdup(va_arg(cells, const char *)));
    va_end(cells);
}

/* Columns on a terminal: characters of UTF-8. */
static int width_of(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_row(const cli_table *table, char *const *row, const int *width) {
    for (int i = 0; i < table->columns; i++) {
        bool last = i == table->columns - 1;
        if (i) fputs("  ", stdout);
        int spaces = width[i] - width_of(row[i]);
        if (table->right >> i & 1)
            printf("%*s%s", spaces, "", row[i]);
        else
            printf("%s%*s", row[i], last ? 0 : spaces, "");
    }
}

void cli_table_print(cli_table *table) {
    int *width = check_memory(calloc((size_t)table->columns, sizeof *width));
    for (size_t i = 0; i < table->count; i++) {
        int *widest = &width[i % (size_t)table->columns], length = width_of(table->cells[i]);
        if (length > *widest) *widest = length;
    }
    for (size_t i = 0; i < table->count; i += (size_t)table->columns) {
        if (!i) fputs(cli_begin(stdout, CLI_BOLD), stdout);
        print_row(table, table->cells + i, width);
        printf("%s\n", i ? "" : cli_end(stdout));
    }
    free(width);
    cli_table_free(table);
}

void cli_table_free(cli_table *table) {
    for (size_t i = 0; i < table->count; i++) free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = 0;
}

int cli_processes(const bt_device *device, bt_device_process **processes) {
    *processes = NULL;
    for (int room = 0, count;; room = count) {
        *processes = check_memory(realloc(*processes, ((size_t)room + 1) * sizeof **processes));
        if (bt_device_processes(device, *processes, room, &count) != BT_OK) return -1;
        if (count <= room) return count;
    }
}

char *cli_processes_text(const bt_device *device) {
    bt_device_process *processes;
    int count = cli_processes(device, &processes);
    char *text = NULL;
    size_t bytes;
    FILE *out = count < 0 ? NULL : check_memory(open_memstream(&text, &bytes));
    for (int i = 0; i < count; i++)
        fprintf(out, "%sprocess %" PRId64 ": %s", i ? ", " : "", processes[i].pid,
                cli_bytes(processes[i].bytes, "unknown"));
    if (out && fclose(out)) check_memory(NULL);
    free(processes);
    return text;
}

int cli_print_json(json_t *value) {
    int failed = !value || json_dumpf(value, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    json_decref(value);
    if (failed) fprintf(stderr, "berth: the JSON could not be written\n");
    return failed ? CLI_FAILED : CLI_OK;
}

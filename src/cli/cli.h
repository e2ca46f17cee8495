/* What the subcommands share. Each subcommand gets its name as argv[0] ("berth demo") and returns an exit code. The command uses the
 * public interface of the library, <berth.h>, and of its inside only the clock. */
#ifndef BTI_CLI_CLI_H
#define BTI_CLI_CLI_H

#include <berth.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

enum { CLI_OK, CLI_FAILED, CLI_USAGE };

int cli_bench(int argc, char **argv);
int cli_cluster(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_demo(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_fit(int argc, char **argv);
int cli_ops(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_simulate(int argc, char **argv);
int cli_ps(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_trace(int argc, char **argv);

/* --- arguments (options.c) ------------------------------------------------------------------------------------------ */

/* getopt_long with long options only; after its error message it prints where the help is. -1 at the end, '?' on errors. */
int cli_option(int argc, char **argv, const struct option *options);
/* Whether no argument is left; otherwise prints which one is unexpected. */
bool cli_no_more(int argc, char **argv);
/* Parses an integer in [low, high]; prints the error otherwise. */
bool cli_number(char **argv, const char *option, const char *text, int low, int high, int *number);
/* Parses a number of bytes, at least 1, with units that are powers of 1024: "8G", "512M", "1.5GiB"; prints the error otherwise. */
bool cli_byte_count(char **argv, const char *option, const char *text, uint64_t *bytes);
/* The name most similar to `name`; NULL when none is similar. */
const char *cli_nearest(const char *name, const char *const *names, int count);
/* Parses the option of a command that has no other than --json; optind is then the first argument. CLI_OK or CLI_USAGE. */
int cli_json_option(int argc, char **argv, bool *json);
/* The same of a command without arguments. */
int cli_only_json(int argc, char **argv, bool *json);

/* Parses an optional process id as the last argument; 0 without one. Prints the error otherwise. */
bool cli_process(int argc, char **argv, int *pid);

/* --- the reference (reference.c) ------------------------------------------------------------------------------------ */

/* Prints the page of an operation (bt_conv2d, conv2d), or what is known of a primitive (random_word). The exit code. */
int cli_reference(char **argv, const char *name, bool json);
json_t *cli_json_of_primitive(const bt_primitive_info *info);

/* --- programs (program.c) ------------------------------------------------------------------------------------------- */

/* Appends flag=value to BERTH_FLAGS, for programs that are run later. False when out of memory (errno). */
bool cli_add_flag(const char *flag, const char *value);
/* Runs a program and waits for its end; interrupt keys (Ctrl-C) go to it alone. Its exit code, 128 + N for signal N; -1 when it cannot be run
 * (errno). */
int cli_run_program(char **program);
/* The same with a flag that names a file, temporary, for JSON that the program reports at its end. *told: it, yours to release; NULL: nothing, which is printed. The
 * program's exit code, or CLI_FAILED. */
int cli_run_told(char **argv, char **program, const char *flag, json_t **told);

/* Makes a folder of this process in $TMPDIR, else in /tmp. False: errno says why. */
bool cli_temporary_folder(char *path, size_t size);

/* --- pages of traces (trace.c) -------------------------------------------------------------------------------------- */

typedef struct cli_page {
    char *html, *json; /* paths: of the page, of the recording beside it */
} cli_page;
/* A program that runs later records itself. Not CLI_OK: nothing is to be freed, and why is printed. */
int cli_page_begin(char **argv, const char *html, cli_page *page);
/* Makes the page of what the program, which ended with `code`, recorded. The exit code; frees. */
int cli_page_end(char **argv, cli_page *page, const char *program, int code);
void cli_page_free(cli_page *page);

/* --- output (output.c) ---------------------------------------------------------------------------------------------- */

typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_GOOD, CLI_BAD } cli_style;
/* The escape sequence of a style, or "" when `out` is not a terminal or NO_COLOR is set. */
const char *cli_begin(FILE *out, cli_style style);
const char *cli_end(FILE *out);

/* "1.5 GiB"; "-" for 0 when `none` is NULL, else `none`. The last 8 texts are valid. */
const char *cli_bytes(uint64_t bytes, const char *none);
/* "1.23 ms". The last 8 texts are valid. */
const char *cli_time(double seconds);

/* "berth demo: ", the message, ": " and the thread's last error, to standard error. Returns CLI_FAILED. */
int cli_error(char **argv, const char *message);
/* The same with errno's text. */
int cli_failure(char **argv, const char *what);
/* What is wrong with the arguments, and where the help is. Returns CLI_USAGE. */
int cli_misuse(char **argv, const char *what);
/* Whether BERTH_FLAGS is valid. If not, the library has logged each error, and this prints that the command does nothing. */
bool cli_settings_good(char **argv);

/* Rows of `columns` cells, aligned; the first row is the heading. */
typedef struct cli_table {
    int columns;
    unsigned right; /* bit i: column i is aligned to the right */
    char **cells;
    size_t count;
} cli_table;
void cli_table_row(cli_table *table, ...); /* as many `const char *` as columns; copied */
void cli_table_print(cli_table *table);    /* to standard output; frees it */
void cli_table_free(cli_table *table);

/* The processes that use memory of a device, the largest first, and how many there are; -1 when the driver cannot tell. The list, and the text
 * ("process 4711: 3.0 MiB, process 7: unknown"; NULL when the driver cannot tell), are freed by the caller. */
int cli_processes(const bt_device *device, bt_device_process **processes);
char *cli_processes_text(const bt_device *device);

/* Prints the value indented and releases it. */
int cli_print_json(json_t *value);

#endif

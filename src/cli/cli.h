/* What the subcommands share. Each gets its name as argv[0] ("berth demo") and returns an exit code. Here nothing of the
 * library's inside is used: only <berth.h>. */
#ifndef BTI_CLI_CLI_H
#define BTI_CLI_CLI_H

#include <berth.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

enum { CLI_OK, CLI_FAILED, CLI_USAGE };

int cli_bench(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_demo(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_fit(int argc, char **argv);
int cli_ops(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_ps(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_trace(int argc, char **argv);

/* --- arguments (options.c) ------------------------------------------------------------------------------------------ */

/* getopt_long for long options alone; its complaint is followed by where the help is. -1 at the end, '?' when wrong. */
int cli_option(int argc, char **argv, const struct option *options);
/* For commands without other arguments: whether none is left; says which is too many. */
bool cli_no_more(int argc, char **argv);
/* A whole number in [low, high]; says what is wrong with it. */
bool cli_number(char **argv, const char *option, const char *text, int low, int high, int *number);
/* A number of bytes, at least 1: "8G", "512M", "1.5GiB": powers of 1024; says what is wrong with it. */
bool cli_byte_count(char **argv, const char *option, const char *text, uint64_t *bytes);
/* The name that is nearest to `name`; NULL when none is like it. */
const char *cli_nearest(const char *name, const char *const *names, int count);
/* For commands whose one option is --json: CLI_OK, or CLI_USAGE. */
int cli_only_json(int argc, char **argv, bool *json);

/* For commands that may be given the number of a process: 0 when it is not; says what is wrong with it. */
bool cli_process(int argc, char **argv, int *pid);

/* --- programs (program.c) ------------------------------------------------------------------------------------------- */

/* BERTH_FLAGS of programs run from now on: what it was, and flag=value. False when memory is short (errno). */
bool cli_add_flag(const char *flag, const char *value);
/* Runs it to its end; keys that interrupt are for it alone. Its exit code as a shell tells it; -1 when it cannot be run (errno). */
int cli_run_program(char **program);

/* --- output (output.c) ---------------------------------------------------------------------------------------------- */

typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_GOOD, CLI_BAD } cli_style;
/* The escape sequence of a style, or "" when `out` is no terminal or NO_COLOR is set. */
const char *cli_begin(FILE *out, cli_style style);
const char *cli_end(FILE *out);

/* "1.5 GiB"; "-" for 0 when `none` is NULL, else `none`. In a ring of 8 texts. */
const char *cli_bytes(uint64_t bytes, const char *none);

/* "berth demo: ", the message, ": " and the thread's last error, to standard error. Returns CLI_FAILED. */
int cli_error(char **argv, const char *message);
/* Whether BERTH_FLAGS can be used; if not, the library has logged each fault to standard error, and this adds who gives up. */
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

/* The processes that hold a device's memory, the largest holder first, and how many; -1 where the driver does not tell. The list
 * and the text ("process 4711: 3.0 MiB, process 7: untold"; NULL where the driver does not tell) are yours to free. */
int cli_processes(const bt_device *device, bt_device_process **processes);
char *cli_processes_text(const bt_device *device);

/* Prints it indented and lets it go. */
int cli_print_json(json_t *value);

#endif

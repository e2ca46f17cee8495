/* Rows of `berth bench`: compiling a new kernel, and starting a process. */
#ifndef BTI_CLI_BENCH_START_H
#define BTI_CLI_BENCH_START_H

#include "cli/bench_row.h"

enum { BENCH_START_ROWS = 2 };
extern const bench_row bench_start_rows[BENCH_START_ROWS];

/* The process that the row "startup" measures: adds two arrays on the device and prints the sum. The exit code. */
int bench_startup_probe(char **argv, const char *device);
/* `--first-result`: prints as JSON what took how long until the first result of this process. The exit code. */
int bench_first_result(char **argv, const char *device);

#endif

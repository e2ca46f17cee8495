/* The table of all rows of `berth bench`. */
#ifndef BTI_CLI_BENCH_ROWS_H
#define BTI_CLI_BENCH_ROWS_H

#include "cli/bench_row.h"

/* The number of rows, and of those that run without --device; the latter come first. */
int bench_row_count(void);
enum { BENCH_MOST_ROWS = 140 };
int bench_common_row_count(void);
const bench_row *bench_row_at(int index);
/* NULL when there is no row of that name; prints the nearest name to standard error. */
const bench_row *bench_find_row(char **argv, const char *name);

/* A row's bytes and flops, at the size that the target asks for. */
double bench_row_bytes(const bench_row *row, const bench_target *target);
double bench_row_flops(const bench_row *row, const bench_target *target);

#endif

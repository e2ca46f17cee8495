/* Rows of `berth bench`: loops that are operations. */
#ifndef BTI_CLI_BENCH_LOOPS_H
#define BTI_CLI_BENCH_LOOPS_H

#include "cli/bench_row.h"

enum { BENCH_LOOP_ROWS = 4 };
extern const bench_row bench_loop_rows[BENCH_LOOP_ROWS];

#endif

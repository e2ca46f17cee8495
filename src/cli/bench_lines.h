/* Rows of `berth bench`: operations along an axis and by index. */
#ifndef BTI_CLI_BENCH_LINES_H
#define BTI_CLI_BENCH_LINES_H

#include "cli/bench_row.h"

enum { BENCH_LINE_ROWS = 19 };
extern const bench_row bench_line_rows[BENCH_LINE_ROWS];

#endif

/* Rows of `berth bench`: linear algebra of matrices of several sizes. */
#ifndef BTI_CLI_BENCH_LINALG_H
#define BTI_CLI_BENCH_LINALG_H

#include "cli/bench_row.h"

enum { BENCH_LINALG_ROWS = 19 };
extern const bench_row bench_linalg_rows[BENCH_LINALG_ROWS];

#endif

/* Rows of `berth bench`: operations on rows with the gradients of all that they are given. */
#ifndef BTI_CLI_BENCH_GRADIENTS_H
#define BTI_CLI_BENCH_GRADIENTS_H

#include "cli/bench_row.h"

enum { BENCH_GRADIENT_ROWS = 2 };
extern const bench_row bench_gradient_rows[BENCH_GRADIENT_ROWS];

#endif

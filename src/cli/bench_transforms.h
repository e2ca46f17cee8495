/* Rows of `berth bench`: batches and second derivatives of functions. */
#ifndef BTI_CLI_BENCH_TRANSFORMS_H
#define BTI_CLI_BENCH_TRANSFORMS_H

#include "cli/bench_row.h"

enum { BENCH_TRANSFORM_ROWS = 6 };
extern const bench_row bench_transform_rows[BENCH_TRANSFORM_ROWS];

#endif

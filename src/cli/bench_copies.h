/* Rows of `berth bench`: copies between a device and memory of the host. */
#ifndef BTI_CLI_BENCH_COPIES_H
#define BTI_CLI_BENCH_COPIES_H

#include "cli/bench_row.h"

enum { BENCH_COPY_ROWS = 4 };
extern const bench_row bench_copy_rows[BENCH_COPY_ROWS];

#endif

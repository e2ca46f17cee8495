/* Rows of `berth bench`: convolutions of batches of images. */
#ifndef BTI_CLI_BENCH_CONVS_H
#define BTI_CLI_BENCH_CONVS_H

#include "cli/bench_row.h"

enum { BENCH_CONV_ROWS = 7 };
extern const bench_row bench_conv_rows[BENCH_CONV_ROWS];

#endif

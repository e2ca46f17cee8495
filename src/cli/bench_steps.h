/* Rows of `berth bench`: training steps. */
#ifndef BTI_CLI_BENCH_STEPS_H
#define BTI_CLI_BENCH_STEPS_H

#include "cli/bench_row.h"

enum { BENCH_STEP_ROWS = 3 };
extern const bench_row bench_step_rows[BENCH_STEP_ROWS];

#endif

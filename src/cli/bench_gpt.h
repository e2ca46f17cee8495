/* Rows of `berth bench`: training steps of a small GPT. */
#ifndef BTI_CLI_BENCH_GPT_H
#define BTI_CLI_BENCH_GPT_H

#include "cli/bench_row.h"

enum { BENCH_GPT_ROWS = 2 };
extern const bench_row bench_gpt_rows[BENCH_GPT_ROWS];

#endif
